//! What the encoder may change in a value, and what it says about one that it may not.

use std::fmt;

use connector_core::{Error, ErrorKind};
use jiff::{SignedDuration, tz::TimeZone};

/// What may be done to values that their column cannot hold exactly.
///
/// By default nothing: such a value is a [`BadCell`]. Every rule allows one kind of change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EncodeRules {
    /// Drops digits that the column has no room for: of a decimal behind the scale, of a time behind the precision.
    /// The result is the next smaller number or the next earlier time, before 1970 as well.
    pub round_down: bool,
    /// Replaces a date or time outside the column's range by the nearest one inside.
    pub clamp_times: bool,
    /// Writes the type's default for null where the column is not nullable: 0, an empty text, 1970-01-01, the enum
    /// value with the smallest number, an empty array or map. A column's own `DEFAULT` plays no part.
    pub null_as_default: bool,
    /// Added to timestamps without a zone, before they are read in [`time_zone`](Self::time_zone).
    pub timestamp_offset: Option<SignedDuration>,
    /// The zone in which timestamps and dates without a zone are read; UTC when not given. A local time that does not
    /// exist is a bad cell; of one that exists twice, the earlier instant is taken.
    pub time_zone: Option<TimeZone>,
}

/// A value that its column cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCell {
    /// Row in the record batch, from 0.
    pub row: usize,
    /// Name of the column.
    pub column: String,
    /// The column's type, as the server wrote it.
    pub type_text: String,
    /// The value as text; long ones are cut.
    pub value: String,
    /// Why the column cannot hold it, with the limits of the type.
    pub reason: String,
}

impl fmt::Display for BadCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, column, type_text, value, reason } = self;
        write!(f, "row {row}: column `{column}` of type {type_text} cannot hold {value}: {reason}")
    }
}

/// Why a batch was not encoded.
#[derive(Debug)]
pub enum EncodeError {
    /// A value that its column cannot hold. There may be more; [`BlockEncoder::check`](super::BlockEncoder::check)
    /// lists them.
    BadCell(Box<BadCell>),
    /// The batch is not one of the schema that the encoder was made for.
    Other(Error),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadCell(cell) => cell.fmt(f),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EncodeError {}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::BadCell(cell) => Error::new(ErrorKind::DataInvalid, cell.to_string())
                .with_operation("bytehouse.encode")
                .with_context("column", &cell.column)
                .with_context("row", cell.row),
            EncodeError::Other(error) => error,
        }
    }
}
