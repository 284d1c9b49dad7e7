//! Record formats: the bytes of a record's value to Arrow columns.
//!
//! A [`Format`] is what a source is given: it names the table that the records make up and how
//! their bytes are read.

pub mod avro;
pub mod change;
pub mod csv;
pub mod json;
pub(crate) mod metadata;
pub mod raw;
pub(crate) mod record;

use connector_core::{ChangelogMode, Result, TableSchema};
use jiff::tz::TimeZone;

pub use avro::Avro;
pub use change::{Changes, UNAVAILABLE_VALUE, UnknownTables};
pub use csv::Csv;
pub use json::{
    BinaryText, DEBEZIUM_TYPES, DecimalText, DuplicateKeys, EpochUnit, Json, JsonDecoder, JsonError,
    JsonErrorKind, JsonOptions, SCALE, UnavailableValue, UnknownFields,
};
pub use metadata::MetadataColumn;
pub use raw::Raw;

use crate::schema_registry::SchemaRegistry;
use change::Dialect;

/// How the values of records are read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Format {
    /// One JSON object per record.
    Json(Json),
    /// Lines of CSV.
    Csv(Csv),
    /// Bytes as they are.
    Raw(Raw),
    /// Avro, one row a record.
    Avro(Avro),
    /// Change events of Debezium, Canal or Maxwell.
    Changes(Changes),
}

impl Format {
    /// The name that the option `format_type` has for it, such as `json`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json(_) => "json",
            Self::Csv(_) => "csv",
            Self::Raw(_) => "raw",
            Self::Avro(_) => "avro",
            Self::Changes(changes) => match changes.dialect {
                Dialect::Debezium => "debezium_json",
                Dialect::DebeziumAvro => "debezium_avro",
                Dialect::AvroRows => "avro",
                Dialect::Canal => "canal_json",
                Dialect::Maxwell => "maxwell_json",
            },
        }
    }

    /// The columns and the key of the table that the records make up; `None` where the records tell them, or there
    /// are many tables.
    pub fn table_schema(&self) -> Option<&TableSchema> {
        match self {
            Self::Json(json) => Some(json.table_schema()),
            Self::Csv(csv) => Some(csv.table_schema()),
            Self::Raw(raw) => Some(raw.table_schema()),
            Self::Avro(Avro(changes)) | Self::Changes(changes) => changes.declared(),
        }
    }

    /// Where the schemas of records are, where they are not in them.
    pub(crate) fn registry(&self) -> Option<&SchemaRegistry> {
        match self {
            Self::Avro(Avro(changes)) | Self::Changes(changes) => changes.registry(),
            _ => None,
        }
    }

    /// Which kinds of rows come.
    pub(crate) fn changelog_mode(&self) -> ChangelogMode {
        match self {
            Self::Changes(changes) if changes.has_before_images() => ChangelogMode::Full,
            Self::Changes(_) => ChangelogMode::Upsert,
            _ => ChangelogMode::Append,
        }
    }

    /// The same with the job's time zone.
    pub(crate) fn in_zone(self, zone: TimeZone) -> Self {
        match self {
            Self::Json(json) => Self::Json(json.time_zone(zone)),
            Self::Csv(csv) => Self::Csv(csv.time_zone(zone)),
            Self::Avro(avro) => Self::Avro(avro.time_zone(zone)),
            Self::Changes(changes) => Self::Changes(changes.time_zone(zone)),
            raw @ Self::Raw(_) => raw,
        }
    }

    /// Looks whether the columns can be read.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Json(json) => json.decoder().map(drop),
            Self::Csv(csv) => csv.check(),
            Self::Raw(_) => Ok(()),
            Self::Avro(Avro(changes)) | Self::Changes(changes) => changes.check(),
        }
    }
}

macro_rules! formats {
    ($($format:ident),+) => {
        $(impl From<$format> for Format {
            fn from(format: $format) -> Self {
                Self::$format(format)
            }
        })+
    };
}
formats!(Json, Csv, Raw, Avro, Changes);
