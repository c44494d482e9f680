//! What the environment says: one variable per setting, lists with commas.

use super::definition::{Setting, Settings, Takes};
use super::file::check_secret;
use super::mistake::{Mistake, Place};
use super::said::Said;

impl Settings {
    /// What variables say, of which `variable` gives the values. Empty ones say nothing, and neither do those that are no
    /// setting's: other programs set some that begin alike.
    ///
    /// # Errors
    /// All mistakes.
    pub fn read_environment(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<Said>, Vec<Mistake>> {
        let (mut all, mut mistakes) = (Vec::new(), Vec::new());
        for setting in self.iter() {
            let Some(name) = &setting.variable else {
                continue;
            };
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else {
                continue;
            };
            let place = Place::Variable(name.clone());
            match values_of(setting, &text) {
                Ok(values) => all.push(Said {
                    key: setting.key.clone(),
                    values,
                    place,
                }),
                Err(reason) => mistakes.push(Mistake {
                    place,
                    key: setting.key.clone(),
                    reason,
                }),
            }
        }
        match mistakes.is_empty() {
            true => Ok(all),
            false => Err(mistakes),
        }
    }
}

fn values_of(setting: &Setting, text: &str) -> Result<Vec<String>, String> {
    check_secret(setting, text)?;
    Ok(match setting.takes {
        Takes::Switch if !matches!(text, "true" | "false") => {
            return Err(format!("is on or off, not {text:?}; use true or false"));
        }
        Takes::Switch | Takes::Value => vec![text.to_owned()],
        Takes::List => {
            let items = text.split(',').map(str::trim);
            items
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()
        }
    })
}
