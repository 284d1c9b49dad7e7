//! Avro records with schemas of a registry: [`Avro`], and [`Changes::debezium_avro`](super::Changes::debezium_avro).
//!
//! A value is a zero byte, the number of its schema in four bytes, and the record in Avro's binary form: the wire format of
//! Confluent's serializers. The schema is fetched from the [`SchemaRegistry`] once, by its number, with those that it refers to.
//!
//! # Columns
//!
//! Columns are those that were declared, or those of the schemas that come. There, each new schema adds and widens columns, as
//! [`Changes`] do; one that was seen before changes nothing when it comes again. Fields and columns belong together by their
//! names, compared as `case_insensitive` says.
//!
//! | Avro | column | value for a declared column of another type |
//! | --- | --- | --- |
//! | `boolean`, `int`, `long`, `float`, `double` | the same | as a number in JSON: exact, or the record is refused |
//! | `string`, `enum` | `Utf8` | as a text in JSON |
//! | `bytes`, `fixed` | `Binary`, `FixedSizeBinary` | base64 in a text column |
//! | `decimal` | `Decimal128` or `Decimal256` of its precision and scale | all its digits |
//! | `date`, `time-millis`, `time-micros` | `Date32`, `Time32`, `Time64` | in the unit that the column has |
//! | `timestamp-millis`, `-micros`, `-nanos` | `Timestamp` in UTC | an instant |
//! | `local-timestamp-…` | `Timestamp` without a zone | a time on a wall clock |
//! | `uuid` | `Utf8` | its text |
//! | `array`, `map`, `record` | `List`, `Map`, `Struct` | JSON in a text column |
//! | a type or `null` | nullable | |
//! | a union of several types, a record in itself | `Utf8` | the JSON of the value, whichever type it is of |
//!
//! Beside these, types of Kafka Connect's and Debezium's count by their `connect.name`: all temporal types, `Decimal`,
//! `VariableScaleDecimal`, `int8` and `int16`. Where a type has both names, Avro's counts in [`Avro`] and Connect's in change events, in which
//! a timestamp without a zone is no instant.

mod columns;
mod row;
mod schema;
mod text;

use connector_core::TableSchema;
use jiff::tz::TimeZone;

pub(in crate::format) use self::{
    columns::{Reading, columns},
    row::{Into, Plan, Row},
    schema::{NodeId, Shape},
    text::{Bytes, Writer, skip},
};
use super::{Changes, JsonOptions, json::error::Fault};
use crate::schema_registry::SchemaRegistry;
pub(crate) use schema::AvroSchema;

/// Bytes before a record's own: the zero and the schema's number.
pub(in crate::format) const FRAME: usize = 5;

/// Records in Avro, one row each.
///
/// ```no_run
/// use connector_kafka::{Avro, KafkaSource, SchemaRegistry};
///
/// let registry = SchemaRegistry::builder("http://localhost:8081").build()?;
/// let source = KafkaSource::builder()
///     .bootstrap_servers("localhost:9092")
///     .topics(["orders"])
///     .format(Avro::new(registry))
///     .build()?;
/// # Ok::<(), connector_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Avro(pub(crate) Changes);

impl Avro {
    /// Records whose columns are those of their schemas.
    pub fn new(registry: SchemaRegistry) -> Self {
        Self(Changes::avro_rows(registry))
    }

    /// Declares the columns and the key. Fields without a column are left out, and a column without a field is null.
    #[must_use]
    pub fn table(self, schema: TableSchema) -> Self {
        Self(self.0.table(schema))
    }

    /// Whether names of columns are compared, and made, in lower case; they are not by default.
    #[must_use]
    pub fn case_insensitive(self, on: bool) -> Self {
        Self(self.0.case_insensitive(on))
    }

    /// Changes how the JSON of values is read.
    #[must_use]
    pub fn json_options(self, change: impl FnOnce(&mut JsonOptions)) -> Self {
        Self(self.0.json_options(change))
    }

    pub(crate) fn time_zone(self, zone: TimeZone) -> Self {
        Self(self.0.time_zone(zone))
    }
}

/// The number of a value's schema.
///
/// # Errors
/// When the value is not framed as it should be.
pub(in crate::format) fn schema_number(value: &[u8]) -> Result<u32, Fault> {
    match value {
        [0, a, b, c, d, ..] => Ok(u32::from_be_bytes([*a, *b, *c, *d])),
        [] => Err(Fault::syntax(0, "a zero byte and the number of a schema").showing("nothing")),
        _ => Err(Fault::syntax(
            0,
            "a zero byte and the number of a schema in four bytes, as serializers with a registry write it",
        )
        .showing("other bytes")),
    }
}
