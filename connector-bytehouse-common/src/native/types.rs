//! Column types of the ClickHouse family as a tree.

use std::{fmt, sync::Arc};

use connector_core::{Error, ErrorKind, Result};

/// The type of a column.
///
/// `FromStr` reads the texts that servers send and the SQL aliases that ByteHouse knows (`BIGINT`, `VARCHAR(50)`,
/// `INT UNSIGNED`, …), whatever their case; `Display` writes the server's own spelling, and reading that back gives
/// the same type. What only renames another type is read as that type: `SimpleAggregateFunction(f, T)` as `T`,
/// `Nested(…)` as an array of named tuples, `Point` and its relatives as the tuples and arrays they are made of.
///
/// A well-formed type that this crate does not know is [`Unknown`](Self::Unknown): a table may have such columns as
/// long as they are neither read nor written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChType {
    /// The type of `NULL` and of the elements of `[]`; has no values.
    Nothing,
    /// True or false, one byte.
    Bool,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Signed, 128 bits.
    Int128,
    /// Signed, 256 bits.
    Int256,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits.
    UInt64,
    /// Unsigned, 128 bits.
    UInt128,
    /// Unsigned, 256 bits.
    UInt256,
    /// The upper half of a `Float32`.
    BFloat16,
    /// IEEE 754, 32 bits.
    Float32,
    /// IEEE 754, 64 bits.
    Float64,
    /// Decimal number: at most `precision` digits (1 to 76), `scale` of them behind the point.
    Decimal {
        /// Digits in all, 1 to 76.
        precision: u8,
        /// Digits behind the point, at most as many as `precision`.
        scale: u8,
    },
    /// Bytes of any length, mostly UTF-8 text.
    String,
    /// Exactly so many bytes; shorter values are padded with zero bytes.
    FixedString(usize),
    /// UUID.
    Uuid,
    /// IPv4 address.
    IPv4,
    /// IPv6 address.
    IPv6,
    /// Days since 1970-01-01, to 2149-06-06.
    Date,
    /// Days, 1900-01-01 to 2299-12-31.
    Date32,
    /// Seconds since 1970-01-01 00:00:00 UTC, to 2106-02-07; the zone only says how servers show them.
    DateTime(Option<Arc<str>>),
    /// `10^-precision` seconds since 1970-01-01 00:00:00 UTC, from 1900 to 2299 (precision 9: to 2262-04-11).
    DateTime64(u8, Option<Arc<str>>),
    /// Time of day in seconds, ClickHouse's `Time`: 32 bits.
    Time,
    /// Time of day in `10^-scale` seconds, 64 bits.
    Time64 {
        /// Digits after the second, 0 to 9.
        scale: u8,
        /// True for ByteHouse's spelling `Time(s)`, false for ClickHouse's `Time64(s)`; the bytes are the same.
        bytehouse: bool,
    },
    /// One of some names, 8 bits.
    Enum8(EnumValues),
    /// One of some names, 16 bits.
    Enum16(EnumValues),
    /// A length of time in the named unit, such as `Day`: 64 bits.
    Interval(IntervalUnit),
    /// JSON as text, ClickHouse's type `JSON`; its arguments are not kept.
    Json,
    /// JSON as text, the older type `Object('json')`.
    Object,
    /// `T` or null.
    Nullable(Box<ChType>),
    /// `T` with a dictionary.
    LowCardinality(Box<ChType>),
    /// Any number of `T`.
    Array(Box<ChType>),
    /// Pairs of a key and a value.
    Map(Box<ChType>, Box<ChType>),
    /// One value of each element type.
    Tuple(Vec<TupleElement>),
    /// A well-formed type that this crate can neither read nor write, as the server wrote it.
    Unknown(String),
}

/// An element of a tuple.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TupleElement {
    /// Its name; elements without one are known by their number.
    pub name: Option<String>,
    /// Its type.
    pub ty: ChType,
}

/// The unit of an `Interval…` type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum IntervalUnit {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl IntervalUnit {
    pub(super) const ALL: [Self; 11] = [
        Self::Nanosecond,
        Self::Microsecond,
        Self::Millisecond,
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Quarter,
        Self::Year,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Nanosecond => "Nanosecond",
            Self::Microsecond => "Microsecond",
            Self::Millisecond => "Millisecond",
            Self::Second => "Second",
            Self::Minute => "Minute",
            Self::Hour => "Hour",
            Self::Day => "Day",
            Self::Week => "Week",
            Self::Month => "Month",
            Self::Quarter => "Quarter",
            Self::Year => "Year",
        }
    }
}

/// The names and numbers of an enum, in the order of the numbers. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EnumValues(Arc<[(String, i16)]>);

impl EnumValues {
    /// The values of an enum.
    ///
    /// # Errors
    /// `SchemaMismatch` when there are none, or a name or number stands there twice.
    pub fn new(values: impl IntoIterator<Item = (String, i16)>) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(ErrorKind::SchemaMismatch, message));
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by_key(|(_, number)| *number);
        if values.is_empty() {
            return refuse("an enum needs at least one value".into());
        }
        if let Some(pair) = values.windows(2).find(|pair| pair[0].1 == pair[1].1) {
            return refuse(format!("`{}` and `{}` have the same number in an enum", pair[0].0, pair[1].0));
        }
        let mut names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!("`{}` stands twice in an enum", pair[0]));
        }
        Ok(Self(values.into()))
    }

    /// Names and numbers, smallest number first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, i16)> {
        self.0.iter().map(|(name, number)| (name.as_str(), *number))
    }

    /// The name of a number.
    pub fn name(&self, number: i16) -> Option<&str> {
        self.0.binary_search_by_key(&number, |(_, number)| *number).ok().map(|i| self.0[i].0.as_str())
    }

    /// The number of a name. Looks through all of them.
    pub fn number(&self, name: &str) -> Option<i16> {
        self.iter().find(|(n, _)| *n == name).map(|(_, number)| number)
    }

    /// The smallest number, which is what servers take for a value that is not given.
    pub(super) fn smallest(&self) -> i16 {
        self.0.first().map_or(0, |(_, number)| *number)
    }
}

impl ChType {
    /// `Nullable(self)`, or for a low-cardinality type the same around its inside. What cannot be nullable (an
    /// array, a map, a tuple, or a type that is nullable already) stays as it is.
    #[must_use]
    pub fn into_nullable(self) -> Self {
        match self {
            Self::LowCardinality(inner) => Self::LowCardinality(Box::new(inner.into_nullable())),
            Self::Nullable(_) | Self::Array(_) | Self::Map(..) | Self::Tuple(_) => self,
            _ => Self::Nullable(Box::new(self)),
        }
    }

    /// True when null is a value of the type: `Nullable(…)` and `LowCardinality(Nullable(…))`.
    pub fn is_nullable(&self) -> bool {
        match self {
            Self::Nullable(_) => true,
            Self::LowCardinality(inner) => inner.is_nullable(),
            _ => false,
        }
    }

    /// The first type in the tree that this crate can neither read nor write, as the server wrote it.
    pub fn unknown(&self) -> Option<&str> {
        match self {
            Self::Unknown(text) => Some(text),
            Self::Nullable(inner) | Self::LowCardinality(inner) | Self::Array(inner) => inner.unknown(),
            Self::Map(key, value) => key.unknown().or_else(|| value.unknown()),
            Self::Tuple(elements) => elements.iter().find_map(|element| element.ty.unknown()),
            _ => None,
        }
    }

    /// The bytes of one value on the wire where all values have the same number of them.
    pub(super) fn width(&self) -> Option<usize> {
        Some(match self {
            Self::Nothing | Self::Bool | Self::Int8 | Self::UInt8 | Self::Enum8(_) => 1,
            Self::Int16 | Self::UInt16 | Self::BFloat16 | Self::Enum16(_) | Self::Date => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 | Self::IPv4 => 4,
            Self::Date32 | Self::DateTime(_) | Self::Time => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Interval(_) => 8,
            Self::DateTime64(..) | Self::Time64 { .. } => 8,
            Self::Int128 | Self::UInt128 | Self::Uuid | Self::IPv6 => 16,
            Self::Int256 | Self::UInt256 => 32,
            Self::Decimal { precision, .. } => match precision {
                0..=9 => 4,
                10..=18 => 8,
                19..=38 => 16,
                _ => 32,
            },
            Self::FixedString(width) => *width,
            Self::String | Self::Json | Self::Object | Self::Unknown(_) => return None,
            Self::Nullable(_) | Self::LowCardinality(_) => return None,
            Self::Array(_) | Self::Map(..) | Self::Tuple(_) => return None,
        })
    }

    /// What follows the column's type text once, before the data of any of its parts: the version of each
    /// low-cardinality dictionary and the version of each JSON column, in the order of the tree.
    pub(super) fn put_prefix(&self, out: &mut Vec<u8>) {
        match self {
            Self::LowCardinality(_) | Self::Json => out.extend_from_slice(&1u64.to_le_bytes()),
            Self::Object => out.push(1),
            Self::Nullable(inner) | Self::Array(inner) => inner.put_prefix(out),
            Self::Map(key, value) => {
                key.put_prefix(out);
                value.put_prefix(out);
            }
            Self::Tuple(elements) => elements.iter().for_each(|element| element.ty.put_prefix(out)),
            _ => {}
        }
    }

    fn simple_name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Nothing => "Nothing",
            Self::Bool => "Bool",
            Self::Int8 => "Int8",
            Self::Int16 => "Int16",
            Self::Int32 => "Int32",
            Self::Int64 => "Int64",
            Self::Int128 => "Int128",
            Self::Int256 => "Int256",
            Self::UInt8 => "UInt8",
            Self::UInt16 => "UInt16",
            Self::UInt32 => "UInt32",
            Self::UInt64 => "UInt64",
            Self::UInt128 => "UInt128",
            Self::UInt256 => "UInt256",
            Self::BFloat16 => "BFloat16",
            Self::Float32 => "Float32",
            Self::Float64 => "Float64",
            Self::String => "String",
            Self::Uuid => "UUID",
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
            Self::Date => "Date",
            Self::Date32 => "Date32",
            Self::DateTime(None) => "DateTime",
            Self::Time => "Time",
            Self::Json => "JSON",
            Self::Object => "Object('json')",
            _ => return None,
        })
    }
}

impl fmt::Display for ChType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.simple_name() {
            return f.write_str(name);
        }
        match self {
            Self::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            Self::FixedString(width) => write!(f, "FixedString({width})"),
            Self::DateTime(Some(zone)) => write!(f, "DateTime({})", Quoted(zone, '\'')),
            Self::DateTime64(precision, None) => write!(f, "DateTime64({precision})"),
            Self::DateTime64(precision, Some(zone)) => {
                write!(f, "DateTime64({precision}, {})", Quoted(zone, '\''))
            }
            Self::Time64 { scale, bytehouse: true } => write!(f, "Time({scale})"),
            Self::Time64 { scale, bytehouse: false } => write!(f, "Time64({scale})"),
            Self::Enum8(values) => write!(f, "Enum8({values})"),
            Self::Enum16(values) => write!(f, "Enum16({values})"),
            Self::Interval(unit) => write!(f, "Interval{}", unit.as_str()),
            Self::Nullable(inner) => write!(f, "Nullable({inner})"),
            Self::LowCardinality(inner) => write!(f, "LowCardinality({inner})"),
            Self::Array(inner) => write!(f, "Array({inner})"),
            Self::Map(key, value) => write!(f, "Map({key}, {value})"),
            Self::Tuple(elements) => {
                f.write_str("Tuple(")?;
                for (i, element) in elements.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    match &element.name {
                        Some(name) if is_plain_name(name) => write!(f, "{name} {}", element.ty)?,
                        Some(name) => write!(f, "{} {}", Quoted(name, '`'), element.ty)?,
                        None => write!(f, "{}", element.ty)?,
                    }
                }
                f.write_str(")")
            }
            Self::Unknown(text) => f.write_str(text),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for EnumValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, number)) in self.iter().enumerate() {
            write!(f, "{}{} = {number}", if i == 0 { "" } else { ", " }, Quoted(name, '\''))?;
        }
        Ok(())
    }
}

fn is_plain_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A text in quotes, with the escapes that servers write inside type texts.
struct Quoted<'a>(&'a str, char);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        f.write_char(self.1)?;
        for c in self.0.chars() {
            match c {
                '\x08' => f.write_str("\\b")?,
                '\x0c' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\0' => f.write_str("\\0")?,
                '\\' => f.write_str("\\\\")?,
                c if c == self.1 => {
                    f.write_char('\\')?;
                    f.write_char(c)?;
                }
                c => f.write_char(c)?,
            }
        }
        f.write_char(self.1)
    }
}

/// A column: its name, its type, and the type as the server wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name.
    pub name: String,
    /// Type.
    pub ty: ChType,
    type_text: String,
}

impl ColumnDef {
    /// A column with a type of our own making.
    pub fn new(name: impl Into<String>, ty: ChType) -> Self {
        let type_text = ty.to_string();
        Self { name: name.into(), ty, type_text }
    }

    /// A column as a server describes it.
    ///
    /// # Errors
    /// `Unexpected` when the type text is malformed; a well-formed type that is not known is no error here.
    pub fn parse(name: impl Into<String>, type_text: impl Into<String>) -> Result<Self> {
        let (name, type_text) = (name.into(), type_text.into());
        let ty = type_text.parse().map_err(|e: Error| e.with_context("column", &name))?;
        Ok(Self { name, ty, type_text })
    }

    /// The type exactly as the server wrote it.
    pub fn type_text(&self) -> &str {
        &self.type_text
    }
}
