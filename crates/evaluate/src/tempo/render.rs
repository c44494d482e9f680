//! Tables for a terminal, or as rows of Markdown for the documentation.

use bench::report::table;

/// How tables are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Aligned columns.
    Text,
    /// `| a | b |`.
    Markdown,
}

impl Form {
    /// Markdown if so wished.
    pub fn new(is_markdown: bool) -> Self {
        if is_markdown {
            Self::Markdown
        } else {
            Self::Text
        }
    }

    /// The table in this form, with a newline at its end.
    pub fn render(self, header: &[&str], rows: &[Vec<String>]) -> String {
        match self {
            Self::Text => table(header, rows),
            Self::Markdown => markdown(header, rows),
        }
    }
}

/// A time given in microseconds, in the unit that shows it shortest.
pub fn time(us: f64) -> String {
    if us.is_nan() {
        "-".to_owned()
    } else if us < 1000.0 {
        format!("{us:.0} us")
    } else if us < 1e6 {
        format!("{:.2} ms", us / 1e3)
    } else {
        format!("{:.2} s", us / 1e6)
    }
}

fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<&str> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&mut header.iter().copied());
    let rule = (0..header.len()).map(|column| if column == 0 { "---" } else { "---:" });
    text.push_str(&line(&mut rule.into_iter()));
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_all_cells() {
        let rows = [vec!["srtm".to_owned(), "1".to_owned()]];
        assert_eq!(
            Form::new(true).render(&["row", "msg/s"], &rows),
            "| row | msg/s |\n| --- | ---: |\n| srtm | 1 |\n"
        );
        assert_eq!(
            Form::new(false).render(&["row", "msg/s"], &rows),
            "row   msg/s\nsrtm      1\n"
        );
    }

    #[test]
    fn times_have_units() {
        for (us, text) in [
            (3.4, "3 us"),
            (999.0, "999 us"),
            (13_600.0, "13.60 ms"),
            (2_500_000.0, "2.50 s"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(time(us), text);
        }
    }
}
