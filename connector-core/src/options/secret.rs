//! A value that never shows.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroizing;

use super::{Codec as _, Plain, RawValue};
use crate::{Error, ErrorKind, Result};

/// What stands in place of a secret wherever a value is shown.
pub const MASK: &str = "***";

/// A password, token or private key.
///
/// The memory is overwritten when the value is dropped. There is no `Display`; `Debug` and
/// `Serialize` show [`MASK`], so a secret reaches a log, an error or a checkpoint only where code
/// calls [`Secret::expose`].
///
/// ```
/// use connector_core::options::Secret;
///
/// let token = Secret::new("s3cr3t");
/// assert_eq!(format!("{token:?}"), "Secret(***)");
/// assert_eq!(token.expose(), "s3cr3t");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the value over; the string is not copied, so no second copy stays in memory.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// Reads the environment variable `name`, as it is, without trimming.
    ///
    /// # Errors
    /// [`ErrorKind::OptionInvalid`] when the variable is not set, empty or not Unicode.
    pub fn from_env(name: &str) -> Result<Self> {
        let problem = match std::env::var(name) {
            Ok(value) if !value.is_empty() => return Ok(Self::new(value)),
            Ok(_) => "is empty",
            Err(std::env::VarError::NotPresent) => "is not set",
            Err(std::env::VarError::NotUnicode(_)) => "is not valid Unicode",
        };
        Err(Error::new(
            ErrorKind::OptionInvalid,
            format!("environment variable `{name}` {problem}; set it to the secret"),
        ))
    }

    /// The value itself. Hand it to the client that needs it; do not format it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True when the value has no characters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({MASK})")
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl Serialize for Secret {
    /// Writes [`MASK`]: a serialized secret cannot be read back.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By way of a raw value, because serde's own errors would show a number.
        let raw = RawValue::deserialize(deserializer)?;
        Plain::from_raw(raw).map_err(|reason| de::Error::custom(format!("a secret {reason}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_shows_itself() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "Secret(***)");
        assert_eq!(format!("{secret:#?}"), "Secret(***)");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"***\"");
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(secret.clone(), secret);
        assert!(secret != Secret::new("hunter3"));
        assert!(Secret::new("").is_empty());
    }

    #[test]
    fn is_read_from_text_only_and_errors_do_not_show_it() {
        assert_eq!(serde_json::from_str::<Secret>("\"hunter2\"").unwrap().expose(), "hunter2");
        for foreign in ["12345678", "-12345678", "12345678.5"] {
            let error = serde_json::from_str::<Secret>(foreign).unwrap_err().to_string();
            assert!(!error.contains("12345678"), "{error}");
            assert!(error.contains("must be text"), "{error}");
        }
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Secret::from_env("CONNECTOR_CORE_NO_SUCH_VARIABLE").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains("`CONNECTOR_CORE_NO_SUCH_VARIABLE` is not set"), "{error}");
        // PATH is set wherever tests run.
        assert_eq!(Secret::from_env("PATH").unwrap().expose(), std::env::var("PATH").unwrap());
    }
}
