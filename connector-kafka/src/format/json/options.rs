//! What a JSON decoder accepts, and how it reads what JSON leaves open.

use std::{fmt, str::FromStr};

use connector_core::{Error, ErrorKind, Result};
use jiff::tz::TimeZone;

/// Defines an enum whose variants have names in options, with `as_str`, `Display` and `FromStr`.
macro_rules! option_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            /// The option value.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                [$(Self::$variant),+].into_iter().find(|v| v.as_str().eq_ignore_ascii_case(text)).ok_or_else(|| {
                    let known = [$($text),+].join(", ");
                    Error::new(ErrorKind::OptionInvalid, format!("`{text}` is not one of {known}"))
                })
            }
        }
    };
}

option_enum! {
    /// What happens when one object holds a key twice.
    ///
    /// The rule holds in every object that is decoded: the record itself, nested structs and maps, and
    /// among keys that have no column. Values that no column reads are checked for syntax only.
    DuplicateKeys {
        /// The record is refused.
        #[default]
        Fail = "fail",
        /// The last value counts. All of them have to be readable, except in a map.
        Last = "last",
    }
}

option_enum! {
    /// What happens to a key that has no column.
    UnknownFields {
        /// Its value is checked for syntax and left out.
        #[default]
        Ignore = "ignore",
        /// The record is refused.
        Fail = "fail",
    }
}

option_enum! {
    /// What a number in a timestamp column counts since 1970-01-01T00:00:00Z.
    EpochUnit {
        /// The unit of the column.
        #[default]
        Column = "column",
        /// Seconds; a fraction is allowed as far as the column can hold it.
        Seconds = "seconds",
        /// Milliseconds.
        Millis = "millis",
        /// Microseconds.
        Micros = "micros",
        /// Nanoseconds.
        Nanos = "nanos",
    }
}

option_enum! {
    /// How a text stands for bytes.
    BinaryText {
        /// Standard base64, padded or not.
        #[default]
        Base64 = "base64",
        /// A character for each byte, of the same number (ISO 8859-1), as Canal writes binary columns.
        Latin1 = "latin1",
    }
}

option_enum! {
    /// How a text stands for a decimal in a column without a source type.
    DecimalText {
        /// By its digits.
        #[default]
        Digits = "digits",
        /// Base64 of the unscaled number in big-endian two's complement, with the column's scale, as Kafka Connect
        /// and Debezium write decimals where `decimal.handling.mode` is `precise`.
        Base64 = "base64",
    }
}

option_enum! {
    /// What happens to a value that its source did not have at hand, where a placeholder stands in its place.
    UnavailableValue {
        /// The record is refused.
        #[default]
        Fail = "fail",
        /// It becomes a null, where the column may hold one.
        Null = "null",
    }
}

impl EpochUnit {
    /// The digits after the second that one unit stands for; `column` for the unit of the column.
    pub(super) fn digits(self, column: u8) -> u8 {
        match self {
            Self::Column => column,
            Self::Seconds => 0,
            Self::Millis => 3,
            Self::Micros => 6,
            Self::Nanos => 9,
        }
    }
}

/// How JSON is read where the text alone does not say it.
///
/// The defaults refuse whatever could be understood in two ways. See [the module](super) for how each
/// Arrow type is read.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonOptions {
    /// What happens when one object holds a key twice; refused by default.
    pub duplicate_keys: DuplicateKeys,
    /// What happens to a key that has no column; ignored by default.
    pub unknown_fields: UnknownFields,
    /// Whether keys match columns without regard to case. Two spellings of one name in one object then
    /// count as a duplicate, and two columns may not differ in case alone. Keys of a map stay as they are.
    pub case_insensitive: bool,
    /// Whether a text column takes numbers, booleans, objects and arrays too, as their JSON text, byte by
    /// byte as it stands in the record.
    pub coerce_to_text: bool,
    /// Whether a floating-point column takes the texts `"NaN"`, `"Infinity"`, `"+Infinity"` and `"-Infinity"`.
    pub text_nan: bool,
    /// Whether a negative integer in an unsigned column stands for the same bits in two's complement, as
    /// some change streams write unsigned 64-bit numbers: `-1` for `18446744073709551615`.
    pub reinterpret_unsigned: bool,
    /// Whether times are cut, toward the past, to what the column's unit can hold. By default a time with
    /// more digits than that is refused unless they are zeros.
    pub truncate_time: bool,
    /// What a number in a timestamp column counts; the column's own unit by default.
    pub epoch_unit: EpochUnit,
    /// The zone of text times that carry none where the column has one, and of columns that have none where
    /// the value is an instant. UTC by default; the machine's own zone plays no part.
    pub time_zone: TimeZone,
    /// Whether a boolean column takes `0` and `1` too, bare or as a text, and `"true"` and `"false"`.
    pub lenient_booleans: bool,
    /// How a text stands for bytes; base64 by default.
    pub binary_text: BinaryText,
    /// How a text stands for a decimal; by its digits by default.
    pub decimal_text: DecimalText,
    /// The text that stands for a value which the source did not have, such as Debezium's
    /// `__debezium_unavailable_value`; none by default. It is known in text columns, as base64 of it in binary ones,
    /// and as the only item of an array of those.
    pub unavailable_placeholder: Option<String>,
    /// What happens to such a value; refused by default.
    pub unavailable_value: UnavailableValue,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            duplicate_keys: DuplicateKeys::default(),
            unknown_fields: UnknownFields::default(),
            case_insensitive: false,
            coerce_to_text: false,
            text_nan: false,
            reinterpret_unsigned: false,
            truncate_time: false,
            epoch_unit: EpochUnit::default(),
            time_zone: TimeZone::UTC,
            lenient_booleans: false,
            binary_text: BinaryText::default(),
            decimal_text: DecimalText::default(),
            unavailable_placeholder: None,
            unavailable_value: UnavailableValue::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_values_have_names() {
        for rule in [DuplicateKeys::Fail, DuplicateKeys::Last] {
            assert_eq!(rule.to_string().parse::<DuplicateKeys>().unwrap(), rule);
        }
        for rule in [UnknownFields::Ignore, UnknownFields::Fail] {
            assert_eq!(rule.to_string().to_uppercase().parse::<UnknownFields>().unwrap(), rule);
        }
        let units =
            [EpochUnit::Column, EpochUnit::Seconds, EpochUnit::Millis, EpochUnit::Micros, EpochUnit::Nanos];
        for unit in units {
            assert_eq!(unit.to_string().parse::<EpochUnit>().unwrap(), unit);
        }
        let error = "first".parse::<DuplicateKeys>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert_eq!(error.message(), "`first` is not one of fail, last");
    }

    #[test]
    fn defaults_refuse_what_is_in_doubt() {
        let options = JsonOptions::default();
        assert_eq!(options.duplicate_keys, DuplicateKeys::Fail);
        assert_eq!(options.unknown_fields, UnknownFields::Ignore);
        assert_eq!(options.epoch_unit, EpochUnit::Column);
        assert_eq!(options.time_zone, TimeZone::UTC);
        let flags = [options.case_insensitive, options.coerce_to_text, options.text_nan];
        assert_eq!(flags, [false; 3]);
        assert_eq!([options.reinterpret_unsigned, options.truncate_time], [false; 2]);
    }
}
