//! Settings that travel with a query, in both forms of the protocol.
//!
//! From revision 54429 on a setting is its name, a flag byte and its value as text. Below, the value's
//! form depends on the setting's type, which only the two ends know: a wrong guess garbles the rest of
//! the packet. [`setting_type`] knows every setting of ByteHouse's and old ClickHouse's catalogues
//! whose form is not a plain number, and the usual ones that are. For names it does not know:
//! `true`, `false` and digits are unsigned numbers, everything else is text. Name the type with
//! [`Settings::set_typed`] where that is wrong (a text that looks like a number).

use std::fmt;

use connector_core::{Error, ErrorKind, Result};

pub use super::setting_types::{SettingType, setting_type};
use super::{
    io::{ByteSource, put_string, put_varuint, read_string, read_u8, read_varuint},
    protocol::{MAX_NAME, MAX_TEXT, revision},
};

/// The server refuses the query when it does not know the setting, instead of leaving it out.
const FLAG_IMPORTANT: u8 = 1;

/// One setting.
#[derive(Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name.
    pub name: String,
    /// The value as text.
    pub value: String,
    /// True (the default) when a server that does not know the setting is to refuse the query. The
    /// typed form has no such choice: there every setting is important.
    pub important: bool,
    typed: Option<SettingType>,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=***", self.name)
    }
}

/// Settings in the order in which they were first set, each name once.
///
/// Values may be secrets (keys of object stores), so `Debug` shows only names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings(Vec<Setting>);

impl Settings {
    /// No settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `name`; what was set before under this name goes.
    pub fn set(&mut self, name: impl Into<String>, value: impl fmt::Display) -> &mut Self {
        self.put(name.into(), value.to_string(), None, true)
    }

    /// [`set`](Self::set) with the type that the typed form needs, where the table does not know it.
    pub fn set_typed(
        &mut self,
        name: impl Into<String>,
        kind: SettingType,
        value: impl fmt::Display,
    ) -> &mut Self {
        self.put(name.into(), value.to_string(), Some(kind), true)
    }

    /// Sets `name` so that a server that does not know it leaves it out. Only the text form can say that.
    pub fn set_optional(&mut self, name: impl Into<String>, value: impl fmt::Display) -> &mut Self {
        self.put(name.into(), value.to_string(), None, false)
    }

    /// [`set`](Self::set) on the way.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.set(name, value);
        self
    }

    /// Takes `name` out.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|setting| setting.name != name);
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
    }

    /// Sets all of `other` on top.
    pub fn extend(&mut self, other: &Settings) {
        for setting in &other.0 {
            self.put(setting.name.clone(), setting.value.clone(), setting.typed, setting.important);
        }
    }

    /// All settings.
    pub fn iter(&self) -> std::slice::Iter<'_, Setting> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn put(&mut self, name: String, value: String, typed: Option<SettingType>, important: bool) -> &mut Self {
        let setting = Setting { name, value, important, typed };
        match self.0.iter_mut().find(|known| known.name == setting.name) {
            Some(known) => *known = setting,
            None => self.0.push(setting),
        }
        self
    }
}

impl<'a> IntoIterator for &'a Settings {
    type Item = &'a Setting;
    type IntoIter = std::slice::Iter<'a, Setting>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<N: Into<String>, V: fmt::Display> FromIterator<(N, V)> for Settings {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut settings = Self::new();
        for (name, value) in pairs {
            settings.set(name, value);
        }
        settings
    }
}

/// Appends settings in the form of `revision`, and their end.
///
/// # Errors
/// `OptionInvalid`, naming the setting, when its name is empty or its value does not fit its type.
pub fn put_settings(out: &mut Vec<u8>, settings: &Settings, revision: u64) -> Result<()> {
    for setting in settings {
        if setting.name.is_empty() {
            return Err(Error::new(ErrorKind::OptionInvalid, "a setting has no name"));
        }
        put_string(out, setting.name.as_bytes());
        if revision >= revision::SETTINGS_AS_TEXT {
            out.push(if setting.important { FLAG_IMPORTANT } else { 0 });
            put_string(out, setting.value.as_bytes());
        } else {
            put_typed(out, setting)?;
        }
    }
    out.push(0);
    Ok(())
}

/// Reads settings in the form of `revision`, up to their end. `types` is asked for typed ones.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` for a text that is too long; `NotFound` with the context
/// `code=115` for a typed setting whose type `types` does not know: the packet cannot be read on.
pub async fn read_settings<S: ByteSource>(
    source: &mut S,
    revision: u64,
    types: impl Fn(&str) -> Option<SettingType> + Send,
) -> Result<Settings> {
    let mut settings = Settings::new();
    loop {
        let name = read_string(source, MAX_NAME).await?;
        if name.is_empty() {
            return Ok(settings);
        }
        if revision >= revision::SETTINGS_AS_TEXT {
            let important = read_u8(source).await? & FLAG_IMPORTANT != 0;
            let value = read_string(source, MAX_TEXT).await?;
            settings.put(name, value, None, important);
            continue;
        }
        let Some(kind) = types(&name) else {
            return Err(
                Error::new(ErrorKind::NotFound, format!("Unknown setting {name}")).with_context("code", 115)
            );
        };
        let value = match kind {
            SettingType::Text | SettingType::Float => read_string(source, MAX_TEXT).await?,
            SettingType::Unsigned => read_varuint(source).await?.to_string(),
            SettingType::Signed => unzigzag(read_varuint(source).await?).to_string(),
        };
        settings.put(name, value, Some(kind), true);
    }
}

/// The form of a value whose setting no table knows.
fn type_by_shape(value: &str) -> SettingType {
    if unsigned(value).is_some() { SettingType::Unsigned } else { SettingType::Text }
}

fn unsigned(value: &str) -> Option<u64> {
    match value {
        "true" => Some(1),
        "false" => Some(0),
        _ if value.bytes().all(|byte| byte.is_ascii_digit()) => value.parse().ok(),
        _ => None,
    }
}

fn put_typed(out: &mut Vec<u8>, setting: &Setting) -> Result<()> {
    let value = setting.value.trim();
    let wrong = |expected: &str| {
        Error::new(
            ErrorKind::OptionInvalid,
            format!("the setting `{}` must be {expected}; its value is something else", setting.name),
        )
    };
    match setting.typed.or_else(|| setting_type(&setting.name)).unwrap_or_else(|| type_by_shape(value)) {
        SettingType::Text => put_string(out, setting.value.as_bytes()),
        SettingType::Float => {
            value.parse::<f64>().map_err(|_| wrong("a number"))?;
            put_string(out, value.as_bytes());
        }
        // `auto` is what the servers themselves send as 0.
        SettingType::Unsigned if value == "auto" => put_varuint(out, 0),
        SettingType::Unsigned => {
            put_varuint(out, unsigned(value).ok_or_else(|| wrong("a whole number from 0, true or false"))?);
        }
        SettingType::Signed => put_varuint(out, zigzag(value.parse().map_err(|_| wrong("a whole number"))?)),
    }
    Ok(())
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::io::SliceSource;

    fn encoded(settings: &Settings, revision: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_settings(&mut out, settings, revision).unwrap();
        out
    }

    #[test]
    fn typed_and_text_forms_as_bytes() {
        let settings = Settings::new()
            .with("virtual_warehouse", "42")
            .with("max_block_size", 300)
            .with("extremes", true)
            .with("totals_auto_threshold", 1)
            .with("network_zstd_compression_level", -3)
            .with("who_knows", "7")
            .with("who_knows_2", "a7");
        let typed = [
            &b"\x11virtual_warehouse\x0242"[..],
            b"\x0emax_block_size\xac\x02",
            b"\x08extremes\x01",
            b"\x15totals_auto_threshold\x011",
            b"\x1enetwork_zstd_compression_level\x05",
            b"\x09who_knows\x07",
            b"\x0bwho_knows_2\x02a7",
            b"\0",
        ]
        .concat();
        assert_eq!(encoded(&settings, revision::SETTINGS_AS_TEXT - 1), typed);
        let mut settings = Settings::new().with("virtual_warehouse", "42").with("extremes", true);
        settings.set_optional("nice_to_have", "");
        let text = b"\x11virtual_warehouse\x01\x0242\x08extremes\x01\x04true\x0cnice_to_have\x00\x00\x00";
        assert_eq!(encoded(&settings, revision::SETTINGS_AS_TEXT), text);
        assert_eq!(encoded(&Settings::new(), revision::DEFAULT), b"\0");
    }

    #[test]
    fn a_named_type_beats_table_and_shape() {
        let mut settings = Settings::new();
        settings.set_typed("label", SettingType::Text, "7").set_typed(
            "max_block_size",
            SettingType::Text,
            "8",
        );
        assert_eq!(encoded(&settings, 54406), b"\x05label\x017\x0emax_block_size\x018\0");
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_without_showing_it() {
        for (name, value) in
            [("max_block_size", "many"), ("max_block_size", "-1"), ("totals_auto_threshold", "x")]
        {
            let error = put_settings(&mut Vec::new(), &Settings::new().with(name, value), 54406).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OptionInvalid);
            assert!(error.message().contains(name), "{error}");
            put_settings(&mut Vec::new(), &Settings::new().with(name, value), 54448).unwrap();
        }
        let mut out = Vec::new();
        put_settings(&mut out, &Settings::new().with("max_threads", "auto"), 54406).unwrap();
        assert_eq!(out, b"\x0bmax_threads\0\0");
        assert!(put_settings(&mut Vec::new(), &Settings::new().with("", 1), 54448).is_err());
    }

    #[test]
    fn later_values_win_and_debug_hides_them() {
        let mut settings = Settings::from_iter([("a", "1"), ("b", "2"), ("a", "3")]);
        settings.extend(&Settings::new().with("b", "hunter2").with("c", 4));
        assert_eq!(settings.get("a"), Some("3"));
        assert_eq!(settings.get("b"), Some("hunter2"));
        assert_eq!(settings.len(), 3);
        assert!(!format!("{settings:?}").contains("hunter2"), "{settings:?}");
        assert!(format!("{settings:?}").contains("b=***"), "{settings:?}");
        settings.remove("b");
        assert_eq!(settings.get("b"), None);
    }

    #[tokio::test]
    async fn an_unknown_typed_setting_cannot_be_read() {
        let error =
            read_settings(&mut SliceSource(b"\x09who_knows\x07\0"), 54406, setting_type).await.unwrap_err();
        assert_eq!(error.context_value("code"), Some("115"));
        let mut source = SliceSource(b"\x09who_knows\x07\0");
        let known = read_settings(&mut source, 54406, |_| Some(SettingType::Unsigned)).await.unwrap();
        assert_eq!(known.get("who_knows"), Some("7"));
    }

    proptest! {
        #[test]
        fn zigzag_there_and_back(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }

        #[test]
        fn settings_there_and_back(pairs in proptest::collection::vec(("[a-z_]{1,20}", "\\PC{0,20}"), 0..8), text: bool) {
            let revision = if text { 54448 } else { 54406 };
            let mut settings = Settings::new();
            for (name, value) in &pairs {
                settings.set_typed(name.clone(), SettingType::Text, value);
            }
            let bytes = encoded(&settings, revision);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let read = runtime
                .block_on(read_settings(&mut SliceSource(&bytes), revision, |_| Some(SettingType::Text)))
                .unwrap();
            prop_assert_eq!(
                read.iter().map(|s| (&s.name, &s.value)).collect::<Vec<_>>(),
                settings.iter().map(|s| (&s.name, &s.value)).collect::<Vec<_>>()
            );
        }
    }
}
