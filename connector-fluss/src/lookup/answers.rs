//! The answers to one batch of keys, made columns while they come.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{RecordBatch, UInt32Array},
        compute::take_record_batch,
        datatypes::SchemaRef,
    },
};
use fluss::{client::LookupResult, metadata::RowType, record::RowAppendRecordBatchBuilder};

use super::{Found, cache::Entry};
use crate::error::from_client;

/// What is known of each key of a batch, by its place there.
pub(super) struct Answers {
    rows: RowAppendRecordBatchBuilder,
    /// The key of each of the rows, in the order in which they came.
    places: Vec<u32>,
    /// How many rows each key has; `None` while nobody has said.
    counts: Vec<Option<usize>>,
    /// What was answered, where a cache keeps it.
    kept: Option<Vec<(usize, Entry)>>,
}

impl Answers {
    pub(super) fn new(row_type: &RowType, keys: usize, keeps: bool) -> Result<Self> {
        Ok(Self {
            rows: RowAppendRecordBatchBuilder::new(row_type).map_err(|e| from_client(&e))?,
            places: Vec::with_capacity(keys),
            counts: vec![None; keys],
            kept: keeps.then(Vec::new),
        })
    }

    /// Takes the answer of a server.
    pub(super) fn add(&mut self, place: usize, found: LookupResult) -> Result<()> {
        let count = self.append(place, &found)?;
        if let Some(kept) = &mut self.kept {
            kept.push((place, Entry { rows: Arc::new(found), count }));
        }
        Ok(())
    }

    /// Takes what a cache has.
    pub(super) fn add_cached(&mut self, place: usize, entry: &Entry) -> Result<()> {
        self.append(place, &entry.rows).map(drop)
    }

    fn append(&mut self, place: usize, found: &LookupResult) -> Result<usize> {
        let rows = found.get_rows().map_err(|e| from_client(&e))?;
        for row in &rows {
            self.rows.append(row).map_err(|e| from_client(&e))?;
        }
        let key = u32::try_from(place)
            .map_err(|_| Error::new(ErrorKind::Unsupported, "more than 4 billion keys in one batch"))?;
        self.places.extend(std::iter::repeat_n(key, rows.len()));
        self.counts[place] = Some(rows.len());
        Ok(rows.len())
    }

    /// Keys that have no answer yet.
    pub(super) fn open(&self) -> Vec<usize> {
        self.with(|count| count.is_none())
    }

    /// Keys that have no rows.
    pub(super) fn missing(&self) -> Vec<usize> {
        self.with(|count| count == Some(0))
    }

    fn with(&self, is: impl Fn(Option<usize>) -> bool) -> Vec<usize> {
        (0..self.counts.len()).filter(|place| is(self.counts[*place])).collect()
    }

    /// Forgets that keys have no rows, so that they are asked for again.
    pub(super) fn ask_again(&mut self, places: &[usize]) {
        for place in places {
            self.counts[*place] = None;
        }
        if let Some(kept) = &mut self.kept {
            kept.retain(|(_, entry)| entry.count > 0);
        }
    }

    /// What servers said, for the cache, each with the place of its key.
    pub(super) fn kept(&self) -> &[(usize, Entry)] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// All rows in the order of their keys.
    pub(super) fn finish(mut self, schema: &SchemaRef) -> Result<Found> {
        let rows = self.rows.build_arrow_record_batch().map_err(|e| from_client(&e))?;
        let unfit = |e| {
            Error::new(ErrorKind::DataInvalid, "found rows do not have the columns of their table")
                .with_source(e)
        };
        let rows = RecordBatch::try_new(Arc::clone(schema), rows.columns().to_vec()).map_err(unfit)?;
        if self.places.is_sorted() {
            return Ok(Found { rows, key_rows: UInt32Array::from(self.places) });
        }
        // Those of one key keep the order in which the server gave them.
        let mut order: Vec<u32> = (0..).take(self.places.len()).collect();
        order.sort_by_key(|row| self.places[*row as usize]);
        let key_rows = order.iter().map(|row| self.places[*row as usize]).collect();
        let rows = take_record_batch(&rows, &UInt32Array::from(order)).map_err(unfit)?;
        Ok(Found { rows, key_rows })
    }
}
