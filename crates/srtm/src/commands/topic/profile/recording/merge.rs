//! Joins recordings of several brokers by the wall clock.
//!
//! Only the time that all of them saw counts: from the latest beginning to the earliest end.
//! Brokers on different machines agree on it as well as their clocks do; the offset between two
//! clocks is the error of the intervals between their arrivals, and nothing here can correct it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Recorded;

/// One recording out of those of all brokers. Publishers of the same name are one publisher, numbered in order of
/// appearance; what arrived at the same instant is in the order of the brokers. The error says what is wrong.
pub(super) fn merge(parts: &[Recorded]) -> Result<Recorded, String> {
    let begin_ns = parts.iter().map(|part| part.begin_ns).max().unwrap_or(0);
    let end_ns = parts.iter().map(|part| part.end_ns).min().unwrap_or(0);
    if begin_ns >= end_ns {
        let seconds = (begin_ns - end_ns) as f64 / 1e9;
        return Err(format!(
            "the recordings of the brokers do not overlap: the last began {seconds:.3} s after the first \
             ended; check that the clocks of the brokers agree"
        ));
    }
    let mut arrivals = Vec::with_capacity(parts.iter().map(|part| part.arrivals.len()).sum());
    for (number, part) in parts.iter().enumerate() {
        let within = |arrival: &&(u64, u32, u32)| (begin_ns..=end_ns).contains(&arrival.0);
        for &(at_ns, publisher, messages) in part.arrivals.iter().filter(within) {
            arrivals.push((at_ns, number, publisher, messages));
        }
    }
    // Stable, and quick where runs are sorted already.
    arrivals.sort_by_key(|&(at_ns, ..)| at_ns);
    let mut names = Names::new(parts);
    let renumbered = arrivals
        .into_iter()
        .map(|(at_ns, part, publisher, messages)| {
            Ok((at_ns, names.number(part, publisher)?, messages))
        });
    Ok(Recorded {
        begin_ns,
        end_ns,
        arrivals: renumbered.collect::<Result<_, String>>()?,
        publishers: names.publishers,
        is_cut: parts.iter().any(|part| part.is_cut),
    })
}

/// Publishers by name.
struct Names<'a> {
    parts: &'a [Recorded],
    /// By part and position there.
    known: Vec<Vec<Option<u32>>>,
    by_name: HashMap<&'a str, u32>,
    publishers: Vec<String>,
}

impl<'a> Names<'a> {
    fn new(parts: &'a [Recorded]) -> Names<'a> {
        let unknown = |part: &Recorded| vec![None; part.publishers.len()];
        Names {
            parts,
            known: parts.iter().map(unknown).collect(),
            by_name: HashMap::new(),
            publishers: Vec::new(),
        }
    }

    fn number(&mut self, part: usize, publisher: u32) -> Result<u32, String> {
        let position = publisher as usize;
        let named = self.parts[part].publishers.get(position);
        let Some(name) = named else {
            return Err(format!("a recording does not name publisher {publisher}"));
        };
        if let Some(number) = self.known[part][position] {
            return Ok(number);
        }
        let number = match self.by_name.entry(name) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let next = u32::try_from(self.publishers.len())
                    .map_err(|_| String::from("there are more publishers than numbers for them"))?;
                self.publishers.push(name.clone());
                *new.insert(next)
            }
        };
        self.known[part][position] = Some(number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (
        u64,
        u64,
        &'static [&'static str],
        &'static [(u64, u32, u32)],
        bool,
    );

    fn recorded(&(begin_ns, end_ns, publishers, arrivals, is_cut): &Row) -> Recorded {
        Recorded {
            begin_ns,
            end_ns,
            publishers: publishers.iter().map(|&name| name.to_owned()).collect(),
            arrivals: arrivals.to_vec(),
            is_cut,
        }
    }

    /// Two publishers, of whom the second is heard first.
    const ONE: Row = (10, 30, &["s1", "s2"], &[(12, 1, 2), (20, 0, 1)], false);

    fn assert_merged(case: &str, parts: &[Row], expected: Row) {
        let parts: Vec<Recorded> = parts.iter().map(recorded).collect();
        assert_eq!(merge(&parts), Ok(recorded(&expected)), "{case}");
    }

    #[test]
    fn recordings_become_one_by_time_and_name() {
        let other: Row = (10, 30, &["s3"], &[(11, 0, 5), (15, 0, 1)], false);
        let both = &[(11, 0, 5), (12, 1, 2), (15, 0, 1), (20, 2, 1)];
        let moved: Row = (10, 30, &["s3", "s1"], &[(14, 0, 1), (15, 1, 1)], false);
        let with_moved = &[(12, 0, 2), (14, 1, 1), (15, 2, 1), (20, 2, 1)];
        let alone = &[(12, 0, 2), (20, 1, 1)];
        let names = |names| (10, 30, names);
        for (case, parts, (begin, end, publishers), arrivals) in [
            ("alone", &[ONE][..], names(&["s2", "s1"][..]), &alone[..]),
            ("two", &[ONE, other], names(&["s3", "s2", "s1"]), both),
            (
                "a move",
                &[ONE, moved],
                names(&["s2", "s3", "s1"]),
                with_moved,
            ),
        ] {
            assert_merged(case, parts, (begin, end, publishers, arrivals, false));
        }
    }

    #[test]
    fn the_time_that_counts_is_what_all_saw() {
        let early: Row = (
            10,
            28,
            &["early", "s1"],
            &[(11, 0, 1), (13, 1, 1), (28, 1, 2)],
            false,
        );
        let late: Row = (13, 30, &["s2", "late"], &[(13, 0, 3), (29, 1, 1)], false);
        let cut: Row = (10, 13, &["s3"], &[(11, 0, 1), (13, 0, 1)], true);
        let silent: Row = (15, 25, &[], &[], false);
        let within: Row = (
            13,
            28,
            &["s1", "s2"],
            &[(13, 0, 1), (13, 1, 3), (28, 0, 2)],
            false,
        );
        assert_merged("both ends included", &[early, late], within);
        let until_cut: Row = (
            10,
            13,
            &["s3", "s2"],
            &[(11, 0, 1), (12, 1, 2), (13, 0, 1)],
            true,
        );
        assert_merged("where one is cut, all end", &[ONE, cut], until_cut);
        let bounded: Row = (15, 25, &["s1"], &[(20, 0, 1)], false);
        assert_merged("silence bounds the time", &[ONE, silent], bounded);
        assert_merged("silence everywhere", &[silent, silent], silent);
    }

    #[test]
    fn what_cannot_be_put_together_is_refused() {
        let rows: [(&[Row], &str); 4] = [
            (&[ONE, (30, 50, &[], &[], false)], "do not overlap"),
            (
                &[ONE, (2_000_000_030, 3_000_000_000, &[], &[], false)],
                "2.000 s after",
            ),
            (
                &[(10, 30, &["s1"], &[(12, 1, 2)], false)],
                "does not name publisher 1",
            ),
            (&[], "do not overlap"),
        ];
        for (parts, text) in rows {
            let parts: Vec<Recorded> = parts.iter().map(recorded).collect();
            let reason = merge(&parts).expect_err(text);
            assert!(reason.contains(text), "{reason}");
        }
    }
}
