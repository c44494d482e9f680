//! What a setting is, in one place: its names, what it takes, its default, what it means.

/// Names that differ more are not taken for one another.
const ALIKE: f64 = 0.8;

/// How many values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None: it is on or off.
    Switch,
    /// One.
    Value,
    /// Any number of them.
    List,
}

/// A setting of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in files, `max_msg_size`.
    pub key: String,
    /// Its name on the command line without dashes, `max-msg-size`.
    pub flag: String,
    /// The variable of the environment that says it, if there is one: `SRTM_MAX_MSG_SIZE`.
    pub variable: Option<String>,
    /// How many values it takes.
    pub takes: Takes,
    /// What a value is, in a word: `BYTES`, or its choices.
    pub value: String,
    /// Whether it is a secret: files and variables may only name a file that holds it, as `@FILE`.
    pub is_secret: bool,
    /// What it is where nobody says anything, in words or as a value.
    pub default: DefaultValue,
    /// What it means, in sentences.
    pub doc: String,
}

/// What a setting is where nobody says anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// These values.
    Values(Vec<String>),
    /// What these words say.
    Words(String),
}

/// All settings of a daemon, in the order in which they are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(Vec<Setting>);

impl Setting {
    /// What it is where nobody says anything, for people.
    #[must_use]
    pub fn default_text(&self) -> String {
        match &self.default {
            DefaultValue::Values(values) if values.is_empty() && self.takes == Takes::Switch => {
                String::from("false")
            }
            DefaultValue::Values(values) if values.is_empty() => String::from("none"),
            DefaultValue::Values(values) => values.join(","),
            DefaultValue::Words(words) => words.clone(),
        }
    }
}

impl Settings {
    /// These settings; of two with one key the first counts.
    #[must_use]
    pub fn new(settings: Vec<Setting>) -> Settings {
        Settings(settings)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter()
    }

    /// The setting of that key, if there is one.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.key == key)
    }

    /// The key that was probably meant by `written`, if one is like it.
    #[must_use]
    pub fn nearest(&self, written: &str) -> Option<&str> {
        let written = written.replace('-', "_").to_ascii_lowercase();
        let likeness = |key: &str| strsim::jaro_winkler(key, &written);
        let keys = self.0.iter().map(|setting| setting.key.as_str());
        let scored = keys.map(|key| (likeness(key), key));
        scored
            .filter(|(likeness, _)| *likeness >= ALIKE)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, key)| key)
    }
}
