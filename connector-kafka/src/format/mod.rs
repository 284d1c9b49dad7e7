//! Record formats: the bytes of a record's value to Arrow columns.
//!
//! A [`Format`] is what a source is given: it names the table that the records make up and how
//! their bytes are read. Today there is [`Json`]; more formats are added as variants.

pub mod json;

use connector_core::TableSchema;

pub use json::{
    DuplicateKeys, EpochUnit, Json, JsonDecoder, JsonError, JsonErrorKind, JsonOptions, UnknownFields,
};

/// How the values of records are read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Format {
    /// One JSON object per record.
    Json(Json),
}

impl Format {
    /// The name that the option `format_type` has for it, such as `json`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json(_) => "json",
        }
    }

    /// The columns and the key of the table that the records make up.
    pub fn table_schema(&self) -> &TableSchema {
        match self {
            Self::Json(json) => json.table_schema(),
        }
    }
}

impl From<Json> for Format {
    fn from(json: Json) -> Self {
        Self::Json(json)
    }
}
