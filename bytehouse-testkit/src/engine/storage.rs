//! The rows of a table: record batches with a mark per row that is gone.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use connector_core::arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array},
    buffer::BooleanBuffer,
    compute::{concat_batches, filter_record_batch, take},
    datatypes::SchemaRef,
};

use super::{eval::internal, unique::UniqueIndex};
use crate::exception::Result;

/// The value of PARTITION BY that all rows of a part share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The id that file names and statements use.
    pub(crate) id: String,
    /// The value as a server shows it.
    pub(crate) text: String,
}

/// Rows of one partition that came in one block.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) partition: Partition,
    pub(crate) rows: RecordBatch,
    /// `None` while all rows live.
    live: Option<Vec<bool>>,
    pub(crate) live_rows: usize,
}

impl Part {
    pub(crate) fn is_live(&self, row: usize) -> bool {
        self.live.as_ref().is_none_or(|live| live.get(row).copied().unwrap_or(false))
    }

    fn kill(&mut self, row: usize) {
        let rows = self.rows.num_rows();
        let live = self.live.get_or_insert_with(|| vec![true; rows]);
        if let Some(flag) = live.get_mut(row)
            && *flag
        {
            *flag = false;
            self.live_rows -= 1;
        }
        if self.live_rows == 0 {
            // The part keeps its number; its memory goes.
            self.rows = RecordBatch::new_empty(self.rows.schema());
            self.live = Some(Vec::new());
        }
    }

    /// The live rows of `columns`, by their place in the schema; all columns for `None`.
    pub(crate) fn visible(&self, columns: Option<&[usize]>) -> Result<RecordBatch> {
        let batch = match columns {
            Some(columns) => self.rows.project(columns).map_err(internal)?,
            None => self.rows.clone(),
        };
        let Some(live) = self.live.as_ref().filter(|_| self.live_rows < self.rows.num_rows()) else {
            return Ok(batch);
        };
        if batch.num_columns() == 0 {
            let options = RecordBatchOptions::new().with_row_count(Some(self.live_rows));
            return RecordBatch::try_new_with_options(batch.schema(), Vec::new(), &options).map_err(internal);
        }
        let mask = BooleanArray::new(BooleanBuffer::from(live.as_slice()), None);
        filter_record_batch(&batch, &mask).map_err(internal)
    }
}

/// A row of a table: the number of its part and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RowPlace {
    pub(crate) part: usize,
    pub(crate) row: usize,
}

/// A table's parts and what an engine remembers beside them.
#[derive(Debug)]
pub(crate) struct TableData {
    pub(crate) schema: SchemaRef,
    /// Numbers of parts never change: places in the index stay right. Empty parts are kept as well.
    pub(crate) parts: Vec<Part>,
    pub(crate) index: UniqueIndex,
    /// Rows that were taken out by DETACH PARTITION.
    pub(crate) detached: Vec<(Partition, RecordBatch)>,
    /// Ids of the last blocks, oldest first.
    pub(crate) block_ids: VecDeque<String>,
    pub(crate) labels: HashSet<String>,
    next_block: u64,
}

impl TableData {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            parts: Vec::new(),
            index: UniqueIndex::default(),
            detached: Vec::new(),
            block_ids: VecDeque::new(),
            labels: HashSet::new(),
            next_block: 1,
        }
    }

    /// Adds a part and returns its number.
    pub(crate) fn add(&mut self, partition: Partition, rows: RecordBatch) -> usize {
        let name = format!("{}_{n}_{n}_0", partition.id, n = self.next_block);
        self.next_block += 1;
        let live_rows = rows.num_rows();
        self.parts.push(Part { name, partition, rows, live: None, live_rows });
        self.parts.len() - 1
    }

    pub(crate) fn kill(&mut self, place: RowPlace) {
        if let Some(part) = self.parts.get_mut(place.part) {
            part.kill(place.row);
        }
    }

    pub(crate) fn live_rows(&self) -> usize {
        self.parts.iter().map(|part| part.live_rows).sum()
    }

    /// Takes all rows away. What was inserted before under a token stays known.
    pub(crate) fn truncate(&mut self) {
        self.parts.clear();
        self.index = UniqueIndex::default();
    }

    /// The live rows in the order in which they came.
    pub(crate) fn visible(&self, columns: Option<&[usize]>) -> Result<RecordBatch> {
        let schema = match columns {
            Some(columns) => Arc::new(self.schema.project(columns).map_err(internal)?),
            None => Arc::clone(&self.schema),
        };
        let mut batches = Vec::with_capacity(self.parts.len());
        for part in self.parts.iter().filter(|part| part.live_rows > 0) {
            batches.push(part.visible(columns)?);
        }
        if schema.fields().is_empty() {
            let options = RecordBatchOptions::new().with_row_count(Some(self.live_rows()));
            return RecordBatch::try_new_with_options(schema, Vec::new(), &options).map_err(internal);
        }
        concat_batches(&schema, &batches).map_err(internal)
    }
}

/// The rows of `batch` at `indices`.
pub(crate) fn take_rows(batch: &RecordBatch, indices: &[u32]) -> Result<RecordBatch> {
    let indices = UInt32Array::from(indices.to_vec());
    let columns: Result<Vec<ArrayRef>> =
        batch.columns().iter().map(|column| take(column, &indices, None).map_err(internal)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
    RecordBatch::try_new_with_options(batch.schema(), columns?, &options).map_err(internal)
}
