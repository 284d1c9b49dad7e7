//! What a good engineer writes in an afternoon: librdkafka's consumer, arrow-json and native blocks, on two threads.
//!
//! No framework, no checkpoint, no offsets, no retry, no schema check, nothing about bad records. It is the bar for
//! the pipeline's speed.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use anyhow::{Result, anyhow};
use connector_core::arrow::array::RecordBatch;

use super::{address, decode::ArrowJson, read::BareConsumer};
use crate::{
    cli::Job,
    measure::{Outcome, own_cpu},
    orders,
    raw::{RawClient, put_block},
};

/// Rows of a batch, which becomes one block.
const BATCH_ROWS: usize = 65_536;
/// An INSERT ends after this many rows.
const INSERT_ROWS: usize = 500_000;
/// Batches that may wait for the writing thread.
const QUEUE: usize = 4;

/// The whole process counts, from its start.
pub(crate) fn run(job: &Job) -> Result<Outcome> {
    let address = address(job)?;
    let statement = format!(
        "INSERT INTO {} (id, customer, amount, status, note, created_at, discount, tags) SETTINGS async_insert = 0 VALUES",
        job.table
    );
    let (batches, queue) = sync_channel(QUEUE);
    let writer = thread::spawn(move || write(&address, &statement, &queue));
    let consumer = BareConsumer::open(job)?;
    let mut decoder = ArrowJson::new(BATCH_ROWS)?;
    // When the writer is gone, its own error is the one to tell.
    let read = consumer.read(job.rows, |record| match decoder.push(record)? {
        Some(batch) => batches.send(batch).map_err(|_| anyhow!("the writer is gone")),
        None => Ok(()),
    });
    let last = decoder.finish();
    if let (Ok(()), Ok(Some(batch))) = (&read, &last) {
        batches.send(batch.clone()).ok();
    }
    drop(batches);
    writer.join().map_err(|_| anyhow!("the writer panicked"))??;
    read.and(last.map(drop))?;
    Outcome::of_process(job.rows, 0.0, own_cpu()?)
}

fn write(address: &str, statement: &str, queue: &Receiver<RecordBatch>) -> Result<()> {
    let mut client = RawClient::connect(address)?;
    let mut block = Vec::new();
    let mut rows = 0;
    for batch in queue {
        if rows == 0 {
            client.begin(statement)?;
        }
        block.clear();
        put_block(&mut block, &batch, &orders::TYPES)?;
        client.send(&block)?;
        rows += batch.num_rows();
        if rows >= INSERT_ROWS {
            client.end()?;
            rows = 0;
        }
    }
    if rows > 0 { client.end() } else { Ok(()) }
}
