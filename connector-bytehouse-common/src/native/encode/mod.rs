//! Record batches to blocks.
//!
//! For each column one function is chosen when the encoder is made. It writes a whole array at a time; what happens
//! per cell is a loop over plain values with nothing to decide in it.

mod cells;
mod defaults;
mod low_cardinality;
mod nested;
mod number;
mod plan;
mod text;
mod time;
mod wide;
mod zone;

use std::{collections::BTreeMap, fmt};

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{Array, ArrayRef, RecordBatch},
        buffer::NullBuffer,
        datatypes::{DataType, Schema},
    },
};
use hashbrown::HashMap;

use self::{
    cells::{Bad, Encode, Fault},
    plan::Planner,
};
use super::{BadCell, ColumnDef, EncodeError, EncodeRules};
use crate::wire::io::{put_string, put_varuint};

pub(super) use text::uuid_bytes;

/// Rows that a search for bad ones encodes in one go.
const CHECK_STEP: usize = 64;

/// Writes record batches of one schema as blocks for one set of columns.
pub struct BlockEncoder {
    columns: Vec<Column>,
    definitions: Vec<ColumnDef>,
}

struct Column {
    /// Its place in the record batch, and its type there.
    source: usize,
    source_type: DataType,
    /// Name and type text, as they stand in every block.
    head: Vec<u8>,
    /// What follows them where there are rows.
    prefix: Vec<u8>,
    encode: Encode,
    /// Counts only in whole rows.
    optional: bool,
}

impl BlockEncoder {
    /// Plans how columns of `source` become the columns `target`, which are those of the INSERT in its order.
    /// Columns are found by name; others of the source are left out.
    ///
    /// # Errors
    /// `SchemaMismatch` when the source lacks a column of the target or has two of its name, or when a column's types
    /// do not go together; the message names the column and both types.
    pub fn new(source: &Schema, target: &[ColumnDef], rules: &EncodeRules) -> Result<Self> {
        let mismatch = |column: &ColumnDef, message: String| {
            Error::new(ErrorKind::SchemaMismatch, message)
                .with_operation("bytehouse.encode")
                .with_context("column", &column.name)
        };
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, field) in source.fields().iter().enumerate() {
            places.entry(field.name()).or_default().push(place);
        }
        let planner = Planner { rules };
        let mut columns = Vec::with_capacity(target.len());
        for column in target {
            let (name, type_text) = (&column.name, column.type_text());
            let place = match places.get(name.as_str()).map(Vec::as_slice) {
                Some([place]) => *place,
                Some(_) => {
                    return Err(mismatch(column, format!("the source has two columns named `{name}`")));
                }
                None => {
                    let message =
                        format!("the source has no column `{name}`, which the table has as {type_text}");
                    return Err(mismatch(column, message));
                }
            };
            let source_type = source.field(place).data_type().clone();
            let encode = planner.plan(&source_type, &column.ty).map_err(|reason| {
                let reason = reason.to_string();
                let colon = if reason.is_empty() { "" } else { ": " };
                let message =
                    format!("column `{name}` of type {type_text} cannot take {source_type}{colon}{reason}");
                mismatch(column, message)
            })?;
            let (mut head, mut prefix) = (Vec::new(), Vec::new());
            put_string(&mut head, name.as_bytes());
            put_string(&mut head, type_text.as_bytes());
            column.ty.put_prefix(&mut prefix);
            columns.push(Column { source: place, source_type, head, prefix, encode, optional: false });
        }
        Ok(Self { columns, definitions: target.to_vec() })
    }

    /// Makes columns optional: in the rows that [`encode_rows`](Self::encode_rows) is told of they hold null, or the
    /// type's default where they are not nullable.
    #[must_use]
    pub fn with_optional(mut self, is_optional: impl Fn(&ColumnDef) -> bool) -> Self {
        for (column, definition) in self.columns.iter_mut().zip(&self.definitions) {
            column.optional = is_optional(definition);
        }
        self
    }

    /// The columns of the blocks.
    pub fn columns(&self) -> &[ColumnDef] {
        &self.definitions
    }

    /// Appends `batch` as one block: number of columns, number of rows, then name, type and data of each column.
    /// Nothing stands before that, no block info and no packet id.
    ///
    /// # Errors
    /// [`EncodeError::BadCell`] for a value that its column cannot hold, [`EncodeError::Other`] with `SchemaMismatch`
    /// when `batch` does not have the schema that the encoder was made for. `out` is then as it was before.
    pub fn encode(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_rows(batch, None, out)
    }

    /// As [`encode`](Self::encode). Of the rows that are null in `whole`, the optional columns are neither looked at
    /// nor sent.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_rows(
        &self,
        batch: &RecordBatch,
        whole: Option<&NullBuffer>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let start = out.len();
        let outcome = self.append(batch, whole.filter(|whole| whole.null_count() > 0), out);
        if outcome.is_err() {
            out.truncate(start);
        }
        outcome
    }

    fn append(
        &self,
        batch: &RecordBatch,
        whole: Option<&NullBuffer>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        put_varuint(out, self.columns.len() as u64);
        put_varuint(out, batch.num_rows() as u64);
        for (column, definition) in self.columns.iter().zip(&self.definitions) {
            let array = column.array(batch, definition)?;
            out.extend_from_slice(&column.head);
            if batch.num_rows() > 0 {
                out.extend_from_slice(&column.prefix);
                let present = whole.filter(|_| column.optional);
                (column.encode)(array.as_ref(), present, out).map_err(|fault| match fault {
                    Fault::Bad(bad) => EncodeError::BadCell(Box::new(definition.bad_cell(bad.index, *bad))),
                    Fault::Other(error) => EncodeError::Other(
                        error.with_operation("bytehouse.encode").with_context("column", &definition.name),
                    ),
                })?;
            }
        }
        Ok(())
    }

    /// Every row of `batch` that holds a value its column cannot hold, once and in order, with the first such column.
    /// The rows not listed can be encoded. Costs about as much as encoding, and more for each bad row.
    pub fn check(&self, batch: &RecordBatch) -> Vec<BadCell> {
        self.check_rows(batch, None)
    }

    /// As [`check`](Self::check) for what [`encode_rows`](Self::encode_rows) would send.
    pub fn check_rows(&self, batch: &RecordBatch, whole: Option<&NullBuffer>) -> Vec<BadCell> {
        let mut rows = BTreeMap::new();
        let mut scratch = Vec::new();
        for (column, definition) in self.columns.iter().zip(&self.definitions) {
            let Ok(array) = column.array(batch, definition) else { continue };
            let present = whole.filter(|_| column.optional);
            for start in (0..array.len()).step_by(CHECK_STEP) {
                let end = array.len().min(start + CHECK_STEP);
                column.search(array, present, start..end, &mut scratch, &mut |row, bad| {
                    rows.entry(row).or_insert_with(|| definition.bad_cell(row, bad));
                });
            }
        }
        rows.into_values().collect()
    }
}

impl Column {
    fn array<'a>(&self, batch: &'a RecordBatch, definition: &ColumnDef) -> Result<&'a ArrayRef, EncodeError> {
        match batch.columns().get(self.source) {
            Some(array) if *array.data_type() == self.source_type => Ok(array),
            other => {
                let found = other.map_or("nothing".to_owned(), |array| array.data_type().to_string());
                let message = format!(
                    "the batch has {found} where the encoder expects {} for column `{}`; make a new encoder when the \
                     schema changes",
                    self.source_type, definition.name
                );
                let error = Error::new(ErrorKind::SchemaMismatch, message).with_operation("bytehouse.encode");
                Err(EncodeError::Other(error.with_context("column", &definition.name)))
            }
        }
    }

    /// Finds all bad rows of a range by encoding what lies before and behind each one found.
    fn search(
        &self,
        array: &ArrayRef,
        present: Option<&NullBuffer>,
        rows: std::ops::Range<usize>,
        scratch: &mut Vec<u8>,
        found: &mut impl FnMut(usize, Bad),
    ) {
        let mut ranges = vec![rows];
        while let Some(rows) = ranges.pop() {
            if rows.is_empty() {
                continue;
            }
            scratch.clear();
            let part = array.slice(rows.start, rows.len());
            let present = present.map(|present| present.slice(rows.start, rows.len()));
            let present = present.as_ref().filter(|present| present.null_count() > 0);
            if let Err(Fault::Bad(bad)) = (self.encode)(part.as_ref(), present, scratch) {
                let row = rows.start + bad.index.min(rows.len() - 1);
                ranges.extend([rows.start..row, row + 1..rows.end]);
                found(row, *bad);
            }
        }
    }
}

impl ColumnDef {
    fn bad_cell(&self, row: usize, bad: Bad) -> BadCell {
        BadCell {
            row,
            column: self.name.clone(),
            type_text: self.type_text().to_owned(),
            value: bad.value,
            reason: bad.reason,
        }
    }
}

impl fmt::Debug for BlockEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockEncoder").field("columns", &self.definitions).finish_non_exhaustive()
    }
}
