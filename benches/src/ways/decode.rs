//! JSON in memory to Arrow batches.

use anyhow::{Result, ensure};
use arrow_json::{ReaderBuilder, reader::Decoder};
use connector_core::arrow::array::RecordBatch;
use connector_kafka::Json;

use super::Tally;
use crate::{
    measure::{Meter, Outcome},
    orders::{self, Payloads},
};

/// Rows of a batch: few enough to stay in the processor's cache, which both decoders like best.
const BATCH_ROWS: usize = 8192;

/// Our decoder.
pub(crate) fn ours(rows: u64) -> Result<Outcome> {
    let payloads = Payloads::new(rows);
    let mut decoder = Json::with_schema(orders::schema("UTC")).decoder()?;
    let mut tally = Tally::default();
    let meter = Meter::start()?;
    for payload in payloads.iter() {
        decoder.decode(payload)?;
        if decoder.len() == BATCH_ROWS {
            tally.add(&decoder.finish()?);
        }
    }
    tally.add(&decoder.finish()?);
    let outcome = meter.stop(rows)?;
    tally.check(rows)?;
    Ok(outcome)
}

/// The decoder of arrow-json.
pub(crate) fn arrow_json(rows: u64) -> Result<Outcome> {
    let payloads = Payloads::new(rows);
    let mut decoder = ArrowJson::new(BATCH_ROWS)?;
    let mut tally = Tally::default();
    let meter = Meter::start()?;
    for payload in payloads.iter() {
        if let Some(batch) = decoder.push(payload)? {
            tally.add(&batch);
        }
    }
    if let Some(batch) = decoder.finish()? {
        tally.add(&batch);
    }
    let outcome = meter.stop(rows)?;
    tally.check(rows)?;
    Ok(outcome)
}

/// arrow-json's decoder, which reads a stream, fed with one record after the other.
#[derive(Debug)]
pub(crate) struct ArrowJson {
    decoder: Decoder,
    batch_rows: usize,
}

impl ArrowJson {
    pub(crate) fn new(batch_rows: usize) -> Result<Self> {
        let decoder =
            ReaderBuilder::new(orders::schema("+00:00")).with_batch_size(batch_rows).build_decoder()?;
        Ok(Self { decoder, batch_rows })
    }

    /// Takes one record; gives a batch when one is full.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<Option<RecordBatch>> {
        let taken = self.decoder.decode(record)?;
        ensure!(taken == record.len(), "arrow-json left {} bytes of a record", record.len() - taken);
        if self.decoder.len() < self.batch_rows {
            return Ok(None);
        }
        self.finish()
    }

    /// The rows so far, if there are any.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        Ok(self.decoder.flush()?)
    }
}
