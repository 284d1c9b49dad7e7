//! JSON: one object per record, a column per key, exact.
//!
//! [`Json`] is the format that a source is given; [`JsonDecoder`] is the decoder behind it, for programs
//! that have bytes from elsewhere. A record is read in one pass from its bytes into the column builders.
//!
//! # What each column takes
//!
//! | Arrow type | JSON |
//! | --- | --- |
//! | `Boolean` | `true`, `false` |
//! | integers | a number that is whole and in range, however it is written (`1200`, `12e2`, `1200.0`), or a text of one (`"1200"`) |
//! | `Float32`, `Float64` | a number or a text of one; the nearest float counts. A number too large for it is refused. `"NaN"` and `"Infinity"` need an option |
//! | decimals | a number or a text of one, by its digits and never through a float. Digits beyond the scale have to be zeros |
//! | `Utf8`, `LargeUtf8`, `Utf8View` | a string; with an option also other values, as their JSON text |
//! | `Binary`, `LargeBinary`, `BinaryView`, `FixedSizeBinary` | a string of standard base64, padded or not; the length has to fit |
//! | `Date32` | `"YYYY-MM-DD"`, or a number: days since 1970-01-01 |
//! | `Time32`, `Time64` | `"HH:MM"`, `"HH:MM:SS"`, `"HH:MM:SS.fff"`, or a number: the column's unit since midnight |
//! | `Timestamp` | an ISO 8601 text, or a number: the column's unit since 1970-01-01T00:00:00Z, or the unit that an option names |
//! | `List`, `LargeList` | an array |
//! | `Struct` | an object, by the rules of the record itself |
//! | `Map` with text keys | an object; the entries keep their order |
//! | `Null` | `null` |
//!
//! `null`, or no key at all, is a null where the column may hold one, else an error. A text of a number is an
//! optional sign, digits with an optional point, and an optional exponent; nothing is trimmed. Dictionaries,
//! unions and the remaining types are refused when the decoder is made.
//!
//! # Times
//!
//! A time text is a date, `T` or a space, `HH:MM` or `HH:MM:SS` with a fraction of any length, and then `Z`, an
//! offset (`+08`, `+0800`, `+08:00`) or nothing; a date alone is its midnight. `24:00` and leap seconds are
//! refused. Digits that the column's unit cannot hold are refused unless they are zeros, or cut toward the past
//! with [`JsonOptions::truncate_time`]. One zone is needed where a text and its column do not agree about it,
//! [`JsonOptions::time_zone`]:
//!
//! | | column with a zone (an instant) | column without (a clock on a wall) |
//! | --- | --- | --- |
//! | text with `Z` or an offset, or a number | that instant | what the clocks of `time_zone` show then |
//! | text without | the instant when the clocks of `time_zone` show it | as it stands |
//!
//! A time that those clocks skip is refused; one that they show twice is the first of the two.
//!
//! # Columns with a source type
//!
//! A column whose field metadata names a type of Debezium's or Kafka Connect's under
//! [`metadata::SOURCE_TYPE`](connector_core::schema::metadata::SOURCE_TYPE), such as `io.debezium.time.MicroTimestamp`, reads
//! that type's form, whatever its own unit is: [`DEBEZIUM_TYPES`] lists them. Numbers of the types without a zone are
//! clocks on a wall, like a text without one.
//!
//! # What is refused
//!
//! A record that is empty, cut off, not UTF-8, begins with a byte order mark, is no object or more than one;
//! objects and arrays nested more than 128 deep; half a surrogate pair; bare `NaN`; by default also a key that
//! stands twice in an object. Values without a column are checked for syntax and for nothing else: their
//! numbers may be of any size, and objects in them may hold a key twice. Every refusal is a [`JsonError`] that
//! names the field, the value and the byte, and leaves the rows of the batch as they were.

pub(in crate::format) mod column;
pub(in crate::format) mod cursor;
pub(in crate::format) mod decoder;
mod encoding;
pub(in crate::format) mod error;
mod infer;
pub(in crate::format) mod keys;
mod list;
mod map;
mod number;
pub(in crate::format) mod object;
mod options;
mod scalar;
mod temporal;
mod text;
mod time;

#[cfg(test)]
mod tests;

use connector_core::{Result, TableSchema, arrow::datatypes::SchemaRef};
use jiff::tz::TimeZone;

pub use decoder::JsonDecoder;
pub use encoding::{DEBEZIUM_TYPES, SCALE};
pub use error::{JsonError, JsonErrorKind};
pub(in crate::format) use keys::fold_case;
pub use options::{
    BinaryText, DecimalText, DuplicateKeys, EpochUnit, JsonOptions, UnavailableValue, UnknownFields,
};
pub(crate) use text::put_base64;

/// Records whose value is one JSON object, with the columns that they are read into.
///
/// ```
/// use connector_core::arrow::datatypes::{DataType, Field, Schema};
/// use connector_kafka::format::{Json, UnknownFields};
///
/// let schema = Schema::new(vec![
///     Field::new("id", DataType::UInt64, false),
///     Field::new("amount", DataType::Decimal128(18, 4), true),
/// ]);
/// let json = Json::with_schema(schema).primary_key(["id"])?.unknown_fields(UnknownFields::Fail);
///
/// let mut decoder = json.decoder()?;
/// decoder.decode(br#"{"id":1,"amount":"12.5"}"#)?;
/// let error = decoder.decode(br#"{"id":2,"amount":"12.50001"}"#).unwrap_err();
/// assert_eq!((error.path(), error.value()), ("amount", "\"12.50001\""));
/// assert_eq!(decoder.finish()?.num_rows(), 1);
/// # Ok::<(), connector_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Json {
    table: TableSchema,
    options: JsonOptions,
}

impl Json {
    /// Records with these columns and no primary key.
    pub fn with_schema(schema: impl Into<SchemaRef>) -> Self {
        Self::with_table_schema(TableSchema::new(schema.into()))
    }

    /// Records of this table.
    pub fn with_table_schema(table: TableSchema) -> Self {
        Self { table, options: JsonOptions::default() }
    }

    /// Names the columns of the primary key.
    ///
    /// # Errors
    /// `SchemaMismatch` when one of them is not a column or stands twice.
    pub fn primary_key<I: Into<String>>(mut self, key: impl IntoIterator<Item = I>) -> Result<Self> {
        self.table = self.table.with_primary_key(key)?;
        Ok(self)
    }

    /// Replaces all options.
    #[must_use]
    pub fn options(mut self, options: JsonOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets [`JsonOptions::duplicate_keys`].
    #[must_use]
    pub fn duplicate_keys(mut self, rule: DuplicateKeys) -> Self {
        self.options.duplicate_keys = rule;
        self
    }

    /// Sets [`JsonOptions::unknown_fields`].
    #[must_use]
    pub fn unknown_fields(mut self, rule: UnknownFields) -> Self {
        self.options.unknown_fields = rule;
        self
    }

    /// Sets [`JsonOptions::case_insensitive`].
    #[must_use]
    pub fn case_insensitive(mut self, on: bool) -> Self {
        self.options.case_insensitive = on;
        self
    }

    /// Sets [`JsonOptions::coerce_to_text`].
    #[must_use]
    pub fn coerce_to_text(mut self, on: bool) -> Self {
        self.options.coerce_to_text = on;
        self
    }

    /// Sets [`JsonOptions::text_nan`].
    #[must_use]
    pub fn text_nan(mut self, on: bool) -> Self {
        self.options.text_nan = on;
        self
    }

    /// Sets [`JsonOptions::reinterpret_unsigned`].
    #[must_use]
    pub fn reinterpret_unsigned(mut self, on: bool) -> Self {
        self.options.reinterpret_unsigned = on;
        self
    }

    /// Sets [`JsonOptions::truncate_time`].
    #[must_use]
    pub fn truncate_time(mut self, on: bool) -> Self {
        self.options.truncate_time = on;
        self
    }

    /// Sets [`JsonOptions::epoch_unit`].
    #[must_use]
    pub fn epoch_unit(mut self, unit: EpochUnit) -> Self {
        self.options.epoch_unit = unit;
        self
    }

    /// Sets [`JsonOptions::time_zone`].
    #[must_use]
    pub fn time_zone(mut self, zone: TimeZone) -> Self {
        self.options.time_zone = zone;
        self
    }

    /// The columns and the primary key.
    pub fn table_schema(&self) -> &TableSchema {
        &self.table
    }

    /// How records are read.
    pub fn json_options(&self) -> &JsonOptions {
        &self.options
    }

    /// A decoder of such records.
    ///
    /// # Errors
    /// As [`JsonDecoder::new`].
    pub fn decoder(&self) -> Result<JsonDecoder> {
        JsonDecoder::new(SchemaRef::clone(&self.table.columns), self.options.clone())
    }
}
