//! Settings lists of DDL statements and queries: `name=value,name='text, with comma'`.

use std::{fmt, str::CharIndices};

use super::{Codec, IntoValue, Invalid, Plain, into_by_parsing};
use crate::options::{RawValue, mask};

/// One `name=value` of a [`SettingsList`]. `Debug` and `Display` mask a value that looks like a secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The system's own name.
    pub name: String,
    /// The value, without quotes and escapes.
    pub value: String,
    /// True for text in single quotes, false for a number, boolean or word.
    pub quoted: bool,
}

impl Setting {
    /// The value as it is shown and written: escaped and quoted, or masked.
    fn written(&self) -> String {
        match (mask(&self.name, &self.value), self.quoted) {
            (value, false) => value.to_owned(),
            (value, true) => format!("'{}'", value.replace('\\', r"\\").replace('\'', "''")),
        }
    }

    fn check(&self) -> Result<(), Invalid> {
        let name = &self.name;
        check_name(name)?;
        if self.quoted {
            return Ok(());
        }
        if self.value.trim().is_empty() {
            return Err(Invalid::new(format!("gives `{name}` no value; an empty text is ''")));
        }
        if self.value.contains([',', '\'']) || self.value.trim() != self.value {
            return Err(Invalid::new(format!(
                "gives `{name}` a text without quotes; put it in single quotes"
            )));
        }
        Ok(())
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.written())
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Settings in their order, as `name=value,name='text'`, or as a map whose texts count as quoted.
///
/// In single quotes, `''` and `\'` are a quote, `\\` is a backslash, and `\n`, `\t`, `\r`, `\0` are what
/// they are in SQL; a backslash before another character stays.
///
/// ```
/// use connector_core::options::{IntoValue, SettingsList};
///
/// let list: SettingsList = "index_granularity=8192,storage_dialect_type='MYSQL'".into_value()?;
/// let last = list.iter().last().map(|s| (s.name.as_str(), s.value.as_str(), s.quoted));
/// assert_eq!(last, Some(("storage_dialect_type", "MYSQL", true)));
/// # Ok::<_, connector_core::options::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SettingsList(Vec<Setting>);

impl SettingsList {
    /// No settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number, boolean or word, written without quotes.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.0.push(Setting { name: name.into(), value: value.to_string(), quoted: false });
        self
    }

    /// Adds a text, written in single quotes.
    #[must_use]
    pub fn with_text(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.push(Setting { name: name.into(), value: value.into(), quoted: true });
        self
    }

    /// The settings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Setting> {
        self.0.iter()
    }

    /// The setting of a name.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.name == name)
    }

    /// The number of settings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are no settings.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn parse(text: &str) -> Result<Self, Invalid> {
        let mut list = Self::new();
        let mut rest = text;
        while !(list.0.is_empty() && rest.trim().is_empty()) {
            let (name, value) = rest.split_once('=').unwrap_or(("", ""));
            let name = name.trim();
            check_name(name)?;
            let (setting, more) = match value.trim_start().strip_prefix('\'') {
                Some(quoted) => {
                    let (value, more) = read_quoted(quoted, name)?;
                    (Setting { name: name.to_owned(), value, quoted: true }, more)
                }
                None => {
                    let (value, more) = match value.split_once(',') {
                        Some((value, more)) => (value, Some(more)),
                        None => (value, None),
                    };
                    (Setting { name: name.to_owned(), value: value.trim().to_owned(), quoted: false }, more)
                }
            };
            list.0.push(setting);
            match more {
                Some(more) => rest = more,
                None => break,
            }
        }
        list.checked()
    }

    /// Refuses what could not be written and read again, and names that come twice.
    fn checked(self) -> Result<Self, Invalid> {
        for (place, setting) in self.0.iter().enumerate() {
            setting.check()?;
            if self.0[..place].iter().any(|earlier| earlier.name == setting.name) {
                return Err(Invalid::new(format!("holds `{}` twice", setting.name)));
            }
        }
        Ok(self)
    }
}

fn check_name(name: &str) -> Result<(), Invalid> {
    if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.-".contains(c)) {
        return Ok(());
    }
    // The name is not shown: it may be the rest of a secret that was cut at a comma.
    Err(Invalid::new("has an entry that does not begin with a name and `=`"))
}

/// Reads after an opening quote up to the closing one; gives the value and what follows the comma.
fn read_quoted<'a>(text: &'a str, name: &str) -> Result<(String, Option<&'a str>), Invalid> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((place, c)) = chars.next() {
        match c {
            '\'' if text[place + 1..].starts_with('\'') => {
                chars.next();
                value.push('\'');
            }
            '\'' => {
                let rest = text[place + 1..].trim_start();
                return match rest.strip_prefix(',') {
                    Some(more) => Ok((value, Some(more))),
                    None if rest.is_empty() => Ok((value, None)),
                    None => Err(Invalid::new(format!(
                        "has text after the closing quote of `{name}`; write a quote inside a text as ''"
                    ))),
                };
            }
            '\\' => unescape(&mut chars, &mut value),
            c => value.push(c),
        }
    }
    Err(Invalid::new(format!("has no closing quote for `{name}`")))
}

fn unescape(chars: &mut CharIndices<'_>, value: &mut String) {
    match chars.next().map(|(_, c)| c) {
        Some(c @ ('\\' | '\'')) => value.push(c),
        Some('n') => value.push('\n'),
        Some('t') => value.push('\t'),
        Some('r') => value.push('\r'),
        Some('0') => value.push('\0'),
        Some(other) => value.extend(['\\', other]),
        None => value.push('\\'),
    }
}

impl fmt::Display for SettingsList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, setting) in self.0.iter().enumerate() {
            write!(f, "{}{setting}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for SettingsList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl Codec<SettingsList> for Plain {
    const TYPE: &'static str = "settings list";
    const SECRET: bool = true;
    const MAP: bool = true;

    fn from_raw(raw: RawValue) -> Result<SettingsList, Invalid> {
        let entries = match raw {
            RawValue::Text(text) if !text.trim_start().starts_with('{') => return SettingsList::parse(&text),
            map @ (RawValue::Map(_) | RawValue::Text(_)) => map.into_entries()?,
            _ => return Err(Invalid::new("must be text such as name=1,other='text', or a map")),
        };
        let read = |(name, value): (String, RawValue)| {
            let quoted = matches!(value, RawValue::Text(_));
            match value.into_text() {
                Ok(mut text) => Ok(Setting { name, value: std::mem::take(&mut *text), quoted }),
                Err(reason) => Err(Invalid::new(format!("holds `{name}`, whose value {reason}"))),
            }
        };
        SettingsList(entries.into_iter().map(read).collect::<Result<_, _>>()?).checked()
    }

    fn to_raw(value: &SettingsList) -> RawValue {
        RawValue::text(value.to_string())
    }

    fn names(value: &SettingsList) -> Vec<&str> {
        value.iter().map(|setting| setting.name.as_str()).collect()
    }
}

into_by_parsing!(&str => SettingsList, String => SettingsList);

impl IntoValue<SettingsList> for SettingsList {
    fn into_value(self) -> Result<SettingsList, Invalid> {
        self.checked()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::options::MASK;

    fn read(raw: impl Into<RawValue>) -> Result<SettingsList, String> {
        Plain::from_raw(raw.into()).map_err(|e| e.to_string())
    }

    fn parts(list: &SettingsList) -> Vec<(&str, &str, bool)> {
        list.iter().map(|s| (s.name.as_str(), s.value.as_str(), s.quoted)).collect()
    }

    #[test]
    fn settings_keep_order_and_quotes() {
        let list = read(
            r"enable_bucket_level_unique_keys=1, storage_dialect_type = 'MYSQL' ,t='a,b=''c'' \'d\' \\ \% \n',e='',x=true",
        )
        .unwrap();
        assert_eq!(
            parts(&list),
            [
                ("enable_bucket_level_unique_keys", "1", false),
                ("storage_dialect_type", "MYSQL", true),
                ("t", "a,b='c' 'd' \\ \\% \n", true),
                ("e", "", true),
                ("x", "true", false),
            ]
        );
        assert_eq!(list.get("x").map(|s| s.quoted), Some(false));
        assert_eq!(read(""), Ok(SettingsList::new()));
        assert_eq!(read("a=1").unwrap().to_string(), "a=1");
    }

    #[test]
    fn settings_from_maps() {
        let map: RawValue = serde_json::from_str(r#"{"b": 1, "a": "MYSQL", "c": true}"#).unwrap();
        let list = read(map).unwrap();
        assert_eq!(parts(&list), [("b", "1", false), ("a", "MYSQL", true), ("c", "true", false)]);
        assert_eq!(read(r#" {"b": 1, "a": "MYSQL", "c": true}"#), Ok(list));
    }

    #[test]
    fn wrong_settings_are_refused_without_their_values() {
        for (text, reason) in [
            ("hunter2", "does not begin with a name"),
            ("a=1,hunter2", "does not begin with a name"),
            ("a=1,", "does not begin with a name"),
            ("=hunter2", "does not begin with a name"),
            ("a b=hunter2", "does not begin with a name"),
            ("a=", "gives `a` no value"),
            ("a=,b=1", "gives `a` no value"),
            ("a='hunter2", "no closing quote for `a`"),
            ("a='hunter2' x,b=1", "text after the closing quote of `a`"),
            ("a=hunter'2", "put it in single quotes"),
            ("a=1,a=hunter2", "holds `a` twice"),
            ("a='x\\", "no closing quote"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{text}: {error}");
        }
        assert!(read(5).unwrap_err().contains("must be text such as"));
        assert!(IntoValue::<SettingsList>::into_value(SettingsList::new().with("a", "x,y")).is_err());
    }

    #[test]
    fn secrets_are_masked() {
        let list =
            SettingsList::new().with_text("s3_secret_key", "hunter2").with("api_token", 4711).with("n", 1);
        assert_eq!(list.to_string(), "s3_secret_key='***',api_token=***,n=1");
        assert_eq!(format!("{list:?}"), "[s3_secret_key='***', api_token=***, n=1]");
    }

    proptest! {
        #[test]
        fn settings_survive_a_round_trip(
            texts in proptest::collection::btree_map("a[a-z_.0-9]{1,6}", ".{0,8}", 0..4),
            numbers in proptest::collection::btree_map("b[a-z_.0-9]{1,6}", any::<i64>(), 0..4),
        ) {
            let mut list = SettingsList::new();
            for (name, value) in &texts {
                // Masked values do not come back.
                if mask(name, value) != MASK {
                    list = list.with_text(name, value);
                }
            }
            for (name, value) in numbers {
                if mask(&name, "") != MASK {
                    list = list.with(name, value);
                }
            }
            prop_assert_eq!(read(list.to_string()), Ok(list));
        }

        #[test]
        fn what_is_read_from_any_text_is_read_again(text in ".*|([a-c]=('[a'\\\\,]{0,6}'|[a1]{1,3}),?){1,4}") {
            if let Ok(list) = read(text) {
                prop_assert_eq!(read(list.to_string()), Ok(list));
            }
        }
    }
}
