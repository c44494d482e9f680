//! The text of a spec: from TOML to values, and from a wrong value back to its line.

use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, Error};

use serde::Deserialize;

use super::Spec;
use super::check::{Problem, Table};
use crate::error::{Place, SpecError};

/// Reads `text` and checks what it says.
pub(super) fn read(text: &str) -> Result<Spec, SpecError> {
    let root = parse(text)?;
    let mut known = parse(text)?;
    let groups = take_groups(known.get_mut()).map_err(|problem| located(text, &root, problem))?;
    let mut spec =
        Spec::deserialize(Deserializer::from(known)).map_err(|error| syntax(text, &error))?;
    name_classes(&mut spec);
    divide(&mut spec, &groups)
        .and_then(|()| super::check::check(&spec))
        .map_err(|problem| located(text, &root, problem))?;
    Ok(spec)
}

/// The TOML of `spec`.
pub(super) fn write(spec: &Spec) -> Result<String, SpecError> {
    super::check::check(spec).map_err(|problem| problem.at(None))?;
    toml::to_string(spec).map_err(|error| SpecError::Value {
        place: None,
        key: String::from("spec"),
        text: error.to_string(),
    })
}

/// A class's `groups = N`, by class.
type Groups = Vec<Option<u32>>;

/// Takes the keys `groups` out of the classes: the values know only the size of a group.
fn take_groups(root: &mut DeTable<'_>) -> Result<Groups, Problem> {
    let Some(DeValue::Array(classes)) = value_mut(root, "publishers") else {
        return Ok(Vec::new());
    };
    let mut taken = Vec::with_capacity(classes.len());
    for (index, class) in classes.iter_mut().enumerate() {
        let DeValue::Table(class) = class.get_mut() else {
            return Ok(Vec::new());
        };
        let table = Table::item("publishers", index);
        let number = match value_mut(class, "groups") {
            None => None,
            Some(DeValue::Integer(number)) => {
                let number = u32::from_str_radix(number.as_str(), number.radix());
                Some(number.ok().filter(|number| *number > 0).ok_or_else(|| {
                    table.problem("groups", "write how many groups there are, 1 to `count`")
                })?)
            }
            Some(_) => {
                return Err(table.problem("groups", "write a whole number, as in groups = 10"));
            }
        };
        if number.is_some() && value_mut(class, "group").is_some() {
            let text = "`group` (publishers of a group) is given too: remove one of them";
            return Err(table.problem("groups", text));
        }
        class.remove("groups");
        taken.push(number);
    }
    Ok(taken)
}

/// Turns numbers of groups into their size.
fn divide(spec: &mut Spec, groups: &Groups) -> Result<(), Problem> {
    for (index, (class, groups)) in spec.publishers.iter_mut().zip(groups).enumerate() {
        let Some(groups) = *groups else {
            continue;
        };
        let table = Table::item("publishers", index);
        let count = class.count;
        table.demand("groups", groups <= count, || {
            format!("{groups} groups are more than the {count} publishers")
        })?;
        class.group_publishers = count.div_ceil(groups);
        let possible = class.groups();
        table.demand("groups", possible == groups, || {
            format!(
                "{count} publishers cannot form {groups} groups of one size (except the last): \
                 groups of {} give {possible}",
                class.group_publishers
            )
        })?;
    }
    Ok(())
}

fn name_classes(spec: &mut Spec) {
    for (number, class) in (1..).zip(&mut spec.publishers) {
        if class.name.is_empty() {
            class.name = format!("class {number}");
        }
    }
}

fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, SpecError> {
    DeTable::parse(text).map_err(|error| syntax(text, &error))
}

fn syntax(text: &str, error: &Error) -> SpecError {
    let byte = error.span().map_or(0, |span| span.start);
    SpecError::Syntax {
        place: Place::of_byte(text, byte),
        text: error.message().trim().replace('\n', "; "),
    }
}

fn located(text: &str, root: &Spanned<DeTable<'_>>, problem: Problem) -> SpecError {
    let byte = position(root.get_ref(), &problem).unwrap_or(0);
    problem.at(Some(Place::of_byte(text, byte)))
}

/// Where the key of a problem stands; the header of its table if it is not written down.
fn position(root: &DeTable<'_>, problem: &Problem) -> Option<usize> {
    let Problem { table, key, .. } = problem;
    if table.name.is_empty() {
        return Some(entry(root, key)?.0);
    }
    let (mut at, mut value) = entry(root, table.name)?;
    if let Some(index) = table.index {
        let item = value.as_array()?.get(index)?;
        (at, value) = (item.span().start, item.get_ref());
    }
    // `ramp.from`: the innermost key that is written down.
    for part in key.split('.') {
        match value.as_table().and_then(|table| entry(table, part)) {
            Some(found) => (at, value) = found,
            None => break,
        }
    }
    Some(at)
}

/// Where a key stands, and its value.
fn entry<'a, 't>(table: &'a DeTable<'t>, key: &str) -> Option<(usize, &'a DeValue<'t>)> {
    let (key, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    Some((key.span().start, value.get_ref()))
}

fn value_mut<'a, 't>(table: &'a mut DeTable<'t>, key: &str) -> Option<&'a mut DeValue<'t>> {
    let mut entries = table.iter_mut();
    let (_, value) = entries.find(|(name, _)| name.get_ref() == key)?;
    Some(value.get_mut())
}
