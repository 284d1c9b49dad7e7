//! Records that cannot be read, and what to do about them.

use std::{fmt, str::FromStr, sync::Arc};

use arrow::{
    array::{ArrayRef, BinaryArray, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};

use crate::{
    error::{Error, ErrorKind, Result},
    options::{Codec, IntoValue, Invalid, Plain, RawValue},
};

/// What happens to a record that cannot be read, or a row that its target cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadRecordPolicy {
    /// The read or flush fails, and the error names the record.
    #[default]
    Fail,
    /// The record is counted, logged with its place, and left out.
    Skip,
    /// The record goes to the dead-letter sink that the user named, with its raw bytes, and is counted.
    DeadLetter,
}

impl BadRecordPolicy {
    /// The option value: `fail`, `skip` or `dead-letter`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Skip => "skip",
            Self::DeadLetter => "dead-letter",
        }
    }
}

impl fmt::Display for BadRecordPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for BadRecordPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Fail, Self::Skip, Self::DeadLetter]
            .into_iter()
            .find(|p| p.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::OptionInvalid,
                    format!("`{text}` is not one of fail, skip, dead-letter"),
                )
            })
    }
}

impl Codec<BadRecordPolicy> for Plain {
    const TYPE: &'static str = "enum";
    const LIST_TYPE: &'static str = "list<enum>";
    const ALLOWED: &'static str = "fail,skip,dead-letter";

    fn from_raw(raw: RawValue) -> Result<BadRecordPolicy, Invalid> {
        let spellings: [(BadRecordPolicy, &[&str]); 3] = [
            (BadRecordPolicy::Fail, &["fail"]),
            (BadRecordPolicy::Skip, &["skip"]),
            (BadRecordPolicy::DeadLetter, &["dead-letter"]),
        ];
        crate::options::__private::read_enum(raw, &spellings)
    }

    fn to_raw(value: &BadRecordPolicy) -> RawValue {
        value.as_str().into()
    }
}

impl IntoValue<BadRecordPolicy> for BadRecordPolicy {
    fn into_value(self) -> Result<BadRecordPolicy, Invalid> {
        Ok(self)
    }
}

/// A record that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// Where it comes from, such as the topic.
    pub origin: String,
    /// Which part of it, such as the partition.
    pub split: String,
    /// Its own offset, as text.
    pub offset: String,
    /// Its time in milliseconds since 1970, where the system knows one.
    pub timestamp: Option<i64>,
    /// The raw key.
    pub key: Option<Vec<u8>>,
    /// The raw value; `None` for a record without one.
    pub value: Option<Vec<u8>>,
    /// Why it could not be read: names the field and the value.
    pub reason: String,
}

/// The columns in which bad records are written to a dead-letter sink.
pub fn dead_letter_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("origin", DataType::Utf8, false),
        Field::new("split", DataType::Utf8, false),
        Field::new("offset", DataType::Utf8, false),
        Field::new("timestamp", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true),
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
        Field::new("reason", DataType::Utf8, false),
    ]))
}

/// Bad records as rows of [`dead_letter_schema`].
///
/// # Errors
/// `Unexpected` when Arrow refuses the batch, which a bound on its size can cause.
pub fn dead_letter_batch(records: &[BadRecord]) -> Result<RecordBatch> {
    let text = |get: fn(&BadRecord) -> &str| -> ArrayRef {
        Arc::new(records.iter().map(|r| Some(get(r))).collect::<StringArray>())
    };
    let bytes = |get: fn(&BadRecord) -> Option<&[u8]>| -> ArrayRef {
        Arc::new(records.iter().map(get).collect::<BinaryArray>())
    };
    let timestamps: TimestampMillisecondArray = records.iter().map(|r| r.timestamp).collect();
    let columns: Vec<ArrayRef> = vec![
        text(|r| &r.origin),
        text(|r| &r.split),
        text(|r| &r.offset),
        Arc::new(timestamps.with_timezone("UTC")),
        bytes(|r| r.key.as_deref()),
        bytes(|r| r.value.as_deref()),
        text(|r| &r.reason),
    ];
    RecordBatch::try_new(dead_letter_schema(), columns)
        .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot build a batch of dead letters").with_source(e))
}
