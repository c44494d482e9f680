//! A page of documentation: the settings of a daemon as a table.

use super::definition::{Settings, Takes};

/// A table in Markdown: a row per setting.
#[must_use]
pub fn page(settings: &Settings) -> String {
    let mut table = String::from("| key | value | default | |\n|---|---|---|---|\n");
    for setting in settings.iter() {
        let value = match setting.takes {
            Takes::Switch => String::from("`true`, `false`"),
            Takes::Value => format!("`{}`", setting.value),
            Takes::List => format!("list of `{}`", setting.value),
        };
        let row = [
            format!("`{}`", setting.key),
            value,
            setting.default_text(),
            setting.doc.clone(),
        ];
        let cells = row.map(|cell| cell.replace('|', "\\|"));
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}
