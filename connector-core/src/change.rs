//! Rows and what happened to them: [`RowKind`], [`RowKinds`], [`ChangeBatch`].

use std::{fmt, str::FromStr, sync::Arc};

use arrow::{
    array::{Array, AsArray, RecordBatch, StringArray},
    buffer::Buffer,
    compute::filter_record_batch,
    datatypes::{DataType, Field, Schema},
};

use crate::error::{Error, ErrorKind, Result};

/// What a row says about its key. The short names are those of Flink and Fluss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// `+I`: a new row.
    Insert = 0,
    /// `-U`: the row as it was before an update; its `+U` follows directly.
    UpdateBefore = 1,
    /// `+U`: the row as it is after an update.
    UpdateAfter = 2,
    /// `-D`: the row is gone.
    Delete = 3,
}

impl RowKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::Insert, Self::UpdateBefore, Self::UpdateAfter, Self::Delete];

    /// The short name: `+I`, `-U`, `+U` or `-D`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "+I",
            Self::UpdateBefore => "-U",
            Self::UpdateAfter => "+U",
            Self::Delete => "-D",
        }
    }

    /// The kind with this in-memory code. Codes differ between systems: never store or send ours.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RowKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            Error::new(ErrorKind::DataInvalid, format!("`{text}` is not a row kind; use +I, -U, +U or -D"))
        })
    }
}

/// The kinds of the rows of a batch, kept beside the columns and not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowKinds {
    /// Every row has this kind; an append-only stream costs nothing.
    Uniform(RowKind),
    /// One byte a row, the code of a [`RowKind`].
    PerRow(Buffer),
}

impl RowKinds {
    /// Kinds from a list, uniform where all are equal.
    pub fn from_kinds(kinds: &[RowKind]) -> Self {
        match kinds.split_first() {
            Some((first, rest)) if rest.iter().any(|kind| kind != first) => {
                Self::PerRow(kinds.iter().map(|kind| *kind as u8).collect::<Vec<u8>>().into())
            }
            Some((first, _)) => Self::Uniform(*first),
            None => Self::Uniform(RowKind::Insert),
        }
    }

    /// The kind of row `row`.
    pub fn get(&self, row: usize) -> RowKind {
        match self {
            Self::Uniform(kind) => *kind,
            // The constructor of `ChangeBatch` has checked every code.
            Self::PerRow(codes) => RowKind::from_code(codes[row]).unwrap_or(RowKind::Insert),
        }
    }
}

/// Rows of one table with their kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeBatch {
    rows: RecordBatch,
    kinds: RowKinds,
}

/// Name of the column that [`ChangeBatch::to_change_type_column`] adds.
pub const CHANGE_TYPE_COLUMN: &str = "_change_type";

impl ChangeBatch {
    /// Rows that are all inserts.
    pub fn append(rows: RecordBatch) -> Self {
        Self { rows, kinds: RowKinds::Uniform(RowKind::Insert) }
    }

    /// Rows with their kinds.
    ///
    /// # Errors
    /// `DataInvalid` when the lengths differ, a code is unknown, or a `-U` is not directly followed
    /// by its `+U` in the same batch.
    pub fn try_new(rows: RecordBatch, kinds: RowKinds) -> Result<Self> {
        let invalid = |text: String| Err(Error::new(ErrorKind::DataInvalid, text));
        match &kinds {
            RowKinds::Uniform(RowKind::UpdateBefore) if rows.num_rows() > 0 => {
                return invalid("a batch of only -U rows has no +U to go with them".to_owned());
            }
            RowKinds::Uniform(_) => {}
            RowKinds::PerRow(codes) => {
                if codes.len() != rows.num_rows() {
                    return invalid(format!("{} row kinds for {} rows", codes.len(), rows.num_rows()));
                }
                for (row, &code) in codes.iter().enumerate() {
                    let Some(kind) = RowKind::from_code(code) else {
                        return invalid(format!("row {row} has the unknown row kind code {code}"));
                    };
                    let next = codes.get(row + 1).copied();
                    if kind == RowKind::UpdateBefore && next != Some(RowKind::UpdateAfter as u8) {
                        return invalid(format!("the -U in row {row} is not directly followed by its +U"));
                    }
                }
            }
        }
        Ok(Self { rows, kinds })
    }

    /// The columns.
    pub fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// The kinds.
    pub fn kinds(&self) -> &RowKinds {
        &self.kinds
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.rows.num_rows()
    }

    /// Bytes of memory the rows hold (the Arrow buffers, shared ones counted in full).
    pub fn memory_size(&self) -> usize {
        self.rows.get_array_memory_size()
    }

    /// True when every row is an insert.
    pub fn is_append_only(&self) -> bool {
        matches!(self.kinds, RowKinds::Uniform(RowKind::Insert))
    }

    /// Takes the batch apart.
    pub fn into_parts(self) -> (RecordBatch, RowKinds) {
        (self.rows, self.kinds)
    }

    /// Rows `offset .. offset + length`, without copying columns. The caller must not cut between
    /// a `-U` and its `+U`: [`Self::cut_at`] moves a wish to a place where a cut is allowed.
    ///
    /// # Panics
    /// When the range lies outside the batch.
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        let kinds = match &self.kinds {
            RowKinds::Uniform(kind) => RowKinds::Uniform(*kind),
            RowKinds::PerRow(codes) => RowKinds::PerRow(codes.slice_with_length(offset, length)),
        };
        Self { rows: self.rows.slice(offset, length), kinds }
    }

    /// The place at or just before `wish` where the batch may be cut in two without parting a
    /// `-U` from its `+U`.
    pub fn cut_at(&self, wish: usize) -> usize {
        let wish = wish.min(self.num_rows());
        if wish > 0 && wish < self.num_rows() && self.kinds.get(wish - 1) == RowKind::UpdateBefore {
            wish - 1
        } else {
            wish
        }
    }

    /// Only the rows whose kind `keep` accepts. Rows of other kinds are dropped.
    ///
    /// # Errors
    /// `Unexpected` when Arrow cannot filter a column type.
    pub fn filter_kinds(&self, keep: impl Fn(RowKind) -> bool) -> Result<Self> {
        match &self.kinds {
            RowKinds::Uniform(kind) if keep(*kind) => Ok(self.clone()),
            RowKinds::Uniform(_) => Ok(self.slice(0, 0)),
            RowKinds::PerRow(codes) => {
                let mask: Vec<bool> = (0..codes.len()).map(|row| keep(self.kinds.get(row))).collect();
                let kinds: Vec<RowKind> =
                    (0..codes.len()).filter(|row| mask[*row]).map(|row| self.kinds.get(row)).collect();
                let rows = filter_record_batch(&self.rows, &mask.into()).map_err(|e| {
                    Error::new(ErrorKind::Unexpected, "cannot filter a batch by row kind").with_source(e)
                })?;
                Ok(Self { rows, kinds: RowKinds::from_kinds(&kinds) })
            }
        }
    }

    /// Plain Arrow for hosts that want it: the columns and, last, `_change_type` with `+I -U +U -D`.
    ///
    /// # Errors
    /// `SchemaMismatch` when there is a column of that name already.
    pub fn to_change_type_column(&self) -> Result<RecordBatch> {
        let schema = self.rows.schema();
        if schema.column_with_name(CHANGE_TYPE_COLUMN).is_some() {
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!("the rows have a column `{CHANGE_TYPE_COLUMN}` already"),
            ));
        }
        let kinds: StringArray = (0..self.num_rows()).map(|row| Some(self.kinds.get(row).as_str())).collect();
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(CHANGE_TYPE_COLUMN, DataType::Utf8, false)));
        let mut columns = self.rows.columns().to_vec();
        columns.push(Arc::new(kinds));
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        RecordBatch::try_new(schema, columns).map_err(|e| {
            Error::new(ErrorKind::Unexpected, "cannot add the change type column").with_source(e)
        })
    }

    /// The reverse of [`Self::to_change_type_column`]: takes the kinds out of `_change_type`.
    ///
    /// # Errors
    /// `SchemaMismatch` without such a text column; `DataInvalid` for an unknown or null value.
    pub fn from_change_type_column(rows: &RecordBatch) -> Result<Self> {
        let schema = rows.schema();
        let index = schema.index_of(CHANGE_TYPE_COLUMN).map_err(|_| {
            Error::new(ErrorKind::SchemaMismatch, format!("there is no column `{CHANGE_TYPE_COLUMN}`"))
        })?;
        let column = rows.column(index).as_string_opt::<i32>().ok_or_else(|| {
            Error::new(ErrorKind::SchemaMismatch, format!("`{CHANGE_TYPE_COLUMN}` must be Utf8"))
        })?;
        let mut kinds = Vec::with_capacity(column.len());
        for row in 0..column.len() {
            if column.is_null(row) {
                return Err(Error::new(ErrorKind::DataInvalid, format!("row {row} has no change type")));
            }
            kinds.push(column.value(row).parse::<RowKind>().map_err(|e| e.with_context("row", row))?);
        }
        let others: Vec<usize> = (0..rows.num_columns()).filter(|i| *i != index).collect();
        let rows = rows
            .project(&others)
            .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot project a batch").with_source(e))?;
        Self::try_new(rows, RowKinds::from_kinds(&kinds))
    }
}
