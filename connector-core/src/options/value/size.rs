//! Memory sizes in Flink's spelling.

use std::cmp::Ordering;

use super::{Codec, Invalid};
use crate::options::RawValue;

/// Bytes, spelled as Flink spells memory sizes: `64mb`, `16 mb`, `1b`; a bare number is bytes.
/// Units are powers of 1024 and ignore case. The Rust type is `u64`, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct MemorySize;

/// Unit factors with their names, largest first.
const UNITS: [(u64, [&str; 3]); 5] = [
    (1 << 40, ["tb", "t", "tebibytes"]),
    (1 << 30, ["gb", "g", "gibibytes"]),
    (1 << 20, ["mb", "m", "mebibytes"]),
    (1 << 10, ["kb", "k", "kibibytes"]),
    (1, ["b", "bytes", ""]),
];

impl Codec<u64> for MemorySize {
    const TYPE: &'static str = "memory size";

    fn from_raw(raw: RawValue) -> Result<u64, Invalid> {
        let text = raw.into_text()?;
        let (number, unit) = number_and_unit(&text)
            .ok_or_else(|| Invalid::new("is not a size; write a whole number and a unit, such as 64mb"))?;
        let factor = UNITS
            .iter()
            .find(|(_, names)| names.iter().any(|name| unit.eq_ignore_ascii_case(name)))
            .map(|(factor, _)| *factor)
            .ok_or_else(|| Invalid::new("has an unknown unit; the units are b, kb, mb, gb and tb"))?;
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .ok_or_else(|| Invalid::new(format!("is larger than {} bytes", u64::MAX)))
    }

    fn to_raw(bytes: &u64) -> RawValue {
        let unit = UNITS.iter().find(|(factor, _)| *bytes != 0 && bytes.is_multiple_of(*factor));
        let (factor, names) = unit.unwrap_or(&UNITS[4]);
        RawValue::text(format!("{}{}", bytes / factor, names[0]))
    }

    fn compare(left: &u64, right: &u64) -> Option<Ordering> {
        Some(left.cmp(right))
    }
}

/// Splits `16 mb` into its digits and its unit; `None` when it does not begin with a digit.
pub(super) fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    (!number.is_empty()).then_some((number, unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<u64, String> {
        MemorySize::from_raw(text.into()).map_err(|e| e.to_string())
    }

    #[test]
    fn sizes_in_every_form() {
        for (text, bytes) in [
            ("64mb", 64 << 20),
            ("1b", 1),
            ("16 mb", 16 << 20),
            ("128kb", 128 << 10),
            ("1GB", 1 << 30),
            (" 2 t ", 2 << 40),
            ("3 kibibytes", 3 << 10),
            ("512", 512),
            ("0", 0),
            ("7 Bytes", 7),
        ] {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
        for (bytes, text) in [(64 << 20, "64mb"), (1000, "1000b"), (0, "0b"), (1536, "1536b"), (2048, "2kb")]
        {
            assert_eq!(MemorySize::to_raw(&bytes), RawValue::text(text));
        }
    }

    #[test]
    fn wrong_sizes() {
        assert!(read("").unwrap_err().contains("is not a size"));
        assert!(read("mb").unwrap_err().contains("is not a size"));
        assert!(read("-1mb").unwrap_err().contains("is not a size"));
        assert!(read("1.5mb").unwrap_err().contains("unknown unit"));
        assert!(read("5 pb").unwrap_err().contains("unknown unit"));
        assert!(read("99999999999tb").unwrap_err().contains("is larger than"));
        assert!(read("99999999999999999999999").unwrap_err().contains("is larger than"));
    }

    proptest! {
        #[test]
        fn sizes_survive_a_round_trip(bytes: u64, shift in 0u32..40) {
            let bytes = bytes >> shift << shift;
            prop_assert_eq!(MemorySize::from_raw(MemorySize::to_raw(&bytes)), Ok(bytes));
        }

        #[test]
        fn what_is_read_from_any_text_is_read_again(text in ".*|[0-9]{1,20} ?[a-zA-Z]{0,3}") {
            if let Ok(bytes) = read(&text) {
                prop_assert_eq!(MemorySize::from_raw(MemorySize::to_raw(&bytes)), Ok(bytes));
            }
        }
    }
}
