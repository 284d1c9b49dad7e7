//! Types of option values: how each is read, shown and compared.

mod list;
mod map;
mod settings;
mod size;
mod time;

use std::{borrow::Cow, cmp::Ordering, fmt, path::PathBuf};

use super::{RawValue, Secret};

pub use list::{HostList, HostPort, RegexList};
pub use map::PropertyMap;
pub use settings::{Setting, SettingsList};
pub use size::MemorySize;
pub use time::{Epoch, Millis, Seconds, format_duration, parse_duration, parse_signed_duration};

/// Why a value is not accepted, worded to follow the value: `` `abc` is not a whole number ``.
///
/// A reason never holds a value of a type whose [`Codec::SECRET`] is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid(Cow<'static, str>);

impl Invalid {
    /// A reason such as `"is not a whole number"`.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// Reads and shows values of type `T`.
///
/// [`Plain`] is the usual codec of a type. Another one is named in the declaration where the Rust type
/// does not tell the spelling: `Duration as Millis`. A connector adds a type of its own with
/// `impl Codec<MyType> for Plain`.
pub trait Codec<T> {
    /// The type's name in the option table.
    const TYPE: &'static str;
    /// The name of a list of such values.
    const LIST_TYPE: &'static str = "list";
    /// What is allowed, for the option table; empty when the type says it all.
    const ALLOWED: &'static str = "";
    /// Values, or parts of them, must not appear in an error.
    const SECRET: bool = false;
    /// Takes a map, so that a nested YAML map is its value and not a group of options.
    const MAP: bool = false;

    /// Reads a value.
    ///
    /// # Errors
    /// Says why the value is not accepted.
    fn from_raw(raw: RawValue) -> Result<T, Invalid>;

    /// The value as it may be written in a file; secrets are masked.
    fn to_raw(value: &T) -> RawValue;

    /// True for a value that is as good as none, which a required option does not take.
    fn is_blank(value: &T) -> bool {
        Self::to_raw(value).is_blank()
    }

    /// How two values compare, where the type can be bounded.
    fn compare(_left: &T, _right: &T) -> Option<Ordering> {
        None
    }

    /// The names inside a map or settings list, to find options that were put there by mistake.
    fn names(_value: &T) -> Vec<&str> {
        Vec::new()
    }
}

/// The usual spelling of a type.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

/// The usual spelling of SQL text: any text but the empty one.
#[derive(Debug, Clone, Copy)]
pub struct Sql;

/// What a builder's setter takes for an option of type `T`: the type itself and what naturally stands
/// for it, such as `["a", "b"]` for a list of strings. Text that is not valid is reported by `build`.
pub trait IntoValue<T> {
    /// Converts.
    ///
    /// # Errors
    /// Says why the value is not accepted.
    fn into_value(self) -> Result<T, Invalid>;
}

/// `IntoValue` of types that are given as they are.
macro_rules! into_itself {
    ($($type:ty),* $(,)?) => { $(
        impl IntoValue<$type> for $type {
            fn into_value(self) -> Result<$type, Invalid> {
                Ok(self)
            }
        }
    )* };
}

/// `IntoValue` by a `From` conversion that cannot fail.
macro_rules! into_by_from {
    ($($from:ty => $type:ty),* $(,)?) => { $(
        impl IntoValue<$type> for $from {
            fn into_value(self) -> Result<$type, Invalid> {
                Ok(self.into())
            }
        }
    )* };
}

/// `IntoValue` of text that is parsed as in an options map.
macro_rules! into_by_parsing {
    ($($from:ty => $type:ty),* $(,)?) => { $(
        impl IntoValue<$type> for $from {
            fn into_value(self) -> Result<$type, Invalid> {
                <Plain as Codec<$type>>::from_raw(RawValue::text(self))
            }
        }
    )* };
}

use {into_by_parsing, into_itself};

macro_rules! ints {
    ($($int:ident $name:literal),* $(,)?) => { $(
        impl Codec<$int> for Plain {
            const TYPE: &'static str = $name;

            fn from_raw(raw: RawValue) -> Result<$int, Invalid> {
                let out_of_range =
                    || Invalid::new(format!("is out of range {}..{}", $int::MIN, $int::MAX));
                $int::try_from(whole_number(raw)?.ok_or_else(out_of_range)?).map_err(|_| out_of_range())
            }

            fn to_raw(value: &$int) -> RawValue {
                // Every one of these types fits, `usize` by way of its text.
                RawValue::Int(value.to_string().parse().unwrap_or_default())
            }

            fn compare(left: &$int, right: &$int) -> Option<Ordering> {
                Some(left.cmp(right))
            }
        }
    )* };
}
ints!(i32 "int", u16 "int", u32 "int", usize "int", i64 "long", u64 "long");
into_itself!(bool, i32, u16, u32, usize, i64, u64, f64, String, PathBuf, Secret);
into_by_from!(&str => String, &String => String, &str => PathBuf, &std::path::Path => PathBuf, String => PathBuf);

/// A whole number; `None` when it is one that no type holds.
pub(super) fn whole_number(raw: RawValue) -> Result<Option<i128>, Invalid> {
    if let RawValue::Int(number) = raw {
        return Ok(Some(number));
    }
    let text = raw.into_text()?;
    let digits = text.trim();
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Invalid::new("is not a whole number"));
    }
    Ok(digits.parse().ok())
}

impl Codec<bool> for Plain {
    const TYPE: &'static str = "bool";

    fn from_raw(raw: RawValue) -> Result<bool, Invalid> {
        let text = raw.into_text()?;
        match text.trim() {
            word if word.eq_ignore_ascii_case("true") => Ok(true),
            word if word.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(Invalid::new("is neither true nor false")),
        }
    }

    fn to_raw(value: &bool) -> RawValue {
        RawValue::Bool(*value)
    }
}

impl Codec<f64> for Plain {
    const TYPE: &'static str = "double";

    fn from_raw(raw: RawValue) -> Result<f64, Invalid> {
        let text = raw.into_text()?;
        match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(Invalid::new("is not a number")),
        }
    }

    fn to_raw(value: &f64) -> RawValue {
        RawValue::Float(*value)
    }

    fn compare(left: &f64, right: &f64) -> Option<Ordering> {
        left.partial_cmp(right)
    }
}

impl Codec<String> for Plain {
    const TYPE: &'static str = "string";
    const LIST_TYPE: &'static str = "list<string>";

    fn from_raw(raw: RawValue) -> Result<String, Invalid> {
        if matches!(raw, RawValue::Float(_)) {
            // A file's 1.10 arrives here as 1.1.
            return Err(Invalid::new("is a number where text is expected: put it in quotes"));
        }
        Ok(std::mem::take(&mut *raw.into_text()?))
    }

    fn to_raw(value: &String) -> RawValue {
        RawValue::text(value)
    }
}

impl Codec<String> for Sql {
    const TYPE: &'static str = "sql";

    fn from_raw(raw: RawValue) -> Result<String, Invalid> {
        let text: String = Plain::from_raw(raw)?;
        if text.trim().is_empty() { Err(Invalid::new("is empty")) } else { Ok(text) }
    }

    fn to_raw(value: &String) -> RawValue {
        RawValue::text(value)
    }
}

impl Codec<PathBuf> for Plain {
    const TYPE: &'static str = "path";

    fn from_raw(raw: RawValue) -> Result<PathBuf, Invalid> {
        let text: String = Plain::from_raw(raw)?;
        if text.is_empty() { Err(Invalid::new("is empty")) } else { Ok(text.into()) }
    }

    fn to_raw(value: &PathBuf) -> RawValue {
        RawValue::text(value.to_string_lossy())
    }
}

impl Codec<Secret> for Plain {
    const TYPE: &'static str = "secret";
    const SECRET: bool = true;

    fn from_raw(raw: RawValue) -> Result<Secret, Invalid> {
        match raw {
            RawValue::Text(mut text) => Ok(Secret::new(std::mem::take(&mut *text))),
            _ => Err(Invalid::new("must be text; put a number in quotes")),
        }
    }

    fn to_raw(_: &Secret) -> RawValue {
        RawValue::text(super::MASK)
    }

    fn is_blank(value: &Secret) -> bool {
        value.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<T>(raw: impl Into<RawValue>) -> Result<T, String>
    where
        Plain: Codec<T>,
    {
        Plain::from_raw(raw.into()).map_err(|e| e.to_string())
    }

    /// A text is refused, or its value is written so that it is read to the same value.
    fn reads_again<T: PartialEq + fmt::Debug>(text: &str)
    where
        Plain: Codec<T>,
    {
        if let Ok(value) = read::<T>(text) {
            assert_eq!(read::<T>(<Plain as Codec<T>>::to_raw(&value)), Ok(value));
        }
    }

    #[test]
    fn booleans() {
        for (text, value) in [("true", true), ("FALSE", false), (" True ", true)] {
            assert_eq!(read::<bool>(text), Ok(value));
        }
        assert_eq!(read::<bool>(true), Ok(true));
        for text in ["yes", "1", "", "truee"] {
            assert_eq!(read::<bool>(text), Err("is neither true nor false".into()));
        }
        assert_eq!(read::<bool>(vec!["true"]), Err("must be one value, not a list".into()));
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(read::<i64>("-1"), Ok(-1));
        assert_eq!(read::<u16>(" +9092 "), Ok(9092));
        assert_eq!(read::<i32>(19000), Ok(19000));
        assert_eq!(read::<u16>("65536"), Err("is out of range 0..65535".into()));
        assert_eq!(read::<u32>("-1"), Err("is out of range 0..4294967295".into()));
        let huge = "9".repeat(60);
        assert_eq!(read::<i32>(huge.as_str()), Err("is out of range -2147483648..2147483647".into()));
        for text in ["", "-", "1_000", "1.0", "0x10", "ten", "1 2"] {
            assert_eq!(read::<i64>(text), Err("is not a whole number".into()), "{text}");
        }
        assert_eq!(read::<i64>(RawValue::Null), Err("has no value".into()));
    }

    #[test]
    fn text_numbers_and_secrets() {
        assert_eq!(read::<f64>("0.75"), Ok(0.75));
        assert_eq!(read::<f64>(2), Ok(2.0));
        for text in ["NaN", "inf", "", "a"] {
            assert_eq!(read::<f64>(text), Err("is not a number".into()));
        }
        assert_eq!(read::<String>(5), Ok("5".into()));
        assert_eq!(read::<String>(" kept "), Ok(" kept ".into()));
        assert!(read::<String>(1.1).unwrap_err().contains("put it in quotes"));
        assert_eq!(read::<Secret>("s").map(|s| s.expose().to_owned()), Ok("s".into()));
        assert!(read::<Secret>(12345).unwrap_err().contains("put a number in quotes"));
        assert_eq!(<Plain as Codec<Secret>>::to_raw(&Secret::new("s")), RawValue::text("***"));
        assert_eq!(<Sql as Codec<String>>::from_raw(" ".into()), Err(Invalid::new("is empty")));
        assert_eq!(
            <Sql as Codec<String>>::from_raw("d + INTERVAL 1 DAY".into()),
            Ok("d + INTERVAL 1 DAY".into())
        );
        assert_eq!(read::<PathBuf>("/tmp"), Ok("/tmp".into()));
    }

    proptest! {
        #[test]
        fn numbers_survive_a_round_trip(a: i64, b: u64, c: f64, d: usize, e: bool) {
            prop_assert_eq!(read::<i64>(a.to_string()), Ok(a));
            prop_assert_eq!(read::<i64>(<Plain as Codec<i64>>::to_raw(&a)), Ok(a));
            prop_assert_eq!(read::<u64>(<Plain as Codec<u64>>::to_raw(&b)), Ok(b));
            prop_assert_eq!(read::<usize>(<Plain as Codec<usize>>::to_raw(&d)), Ok(d));
            prop_assert_eq!(read::<bool>(e.to_string()), Ok(e));
            if c.is_finite() {
                prop_assert_eq!(read::<f64>(c.to_string()), Ok(c));
            }
        }

        #[test]
        fn what_is_read_from_any_text_is_read_again(text in ".*|[-+0-9.e]{1,9}|(?i:true|false)") {
            reads_again::<i64>(&text);
            reads_again::<u16>(&text);
            reads_again::<bool>(&text);
            reads_again::<f64>(&text);
            reads_again::<PathBuf>(&text);
            prop_assert_eq!(read::<String>(text.as_str()), Ok(text));
        }
    }
}
