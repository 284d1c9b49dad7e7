//! Batches in memory into a table: our writer, and blocks that are ready before the clock starts.

use anyhow::{Result, ensure};
use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    ChangeBatch, SchemaChange, Sink as _, SinkWriter as _, TableId, TableSchema, WriterContext,
};
use connector_tests::services::Version;

use super::{address, host_and_port};
use crate::{
    cli::Job,
    measure::{Meter, Outcome},
    raw::{RawClient, put_block},
    rows,
};

/// The INSERT that all ways send, up to the format. Asynchronous inserts are off: they answer before the rows are
/// stored.
pub(crate) fn statement(job: &Job) -> String {
    let settings = match job.way.target.version() {
        Some(Version::Current) => " SETTINGS async_insert = 0",
        _ => "",
    };
    format!("INSERT INTO {} {}{settings}", job.table, rows::NAMES)
}

/// The writer of our sink. All rows are one flush, and so one INSERT, as with everybody else.
pub(crate) async fn ours(job: &Job) -> Result<Outcome> {
    write(job, SinkModeName::Insert, job.rows).await
}

/// The writer of our sink with several flushes, on the same table in mode insert and in one with keys.
pub(crate) async fn flushes(job: &Job, mode: SinkModeName) -> Result<Outcome> {
    write(job, mode, 500_000).await
}

async fn write(job: &Job, mode: SinkModeName, flush_rows: u64) -> Result<Outcome> {
    let batches = rows::batches(job.rows)?;
    let (host, port) = host_and_port(&address(job)?)?;
    let sink = BytehouseCdwSink::builder()
        .clickhouse(host, port)
        .table(job.table.as_str())
        .mode(mode)
        .flush_max_rows(usize::try_from(flush_rows)?.max(100))
        .options(|options| options.flush_max_bytes(4_u64 << 30))
        .build()?;
    let table: TableId = job.table.parse()?;
    let mut writer = sink.open(WriterContext::default()).await?;
    let mut schema = TableSchema::new(batches[0].schema());
    if mode != SinkModeName::Insert {
        schema = schema.with_primary_key(["id"])?;
    }
    // Connects and looks at the table.
    writer.apply(&SchemaChange::CreateTable { table: table.clone(), schema }).await?;
    let meter = Meter::start()?;
    for batch in &batches {
        writer.write(&table, ChangeBatch::append(batch.clone())).await?;
    }
    // What was sent before the last flush is confirmed by it too.
    let flushed = writer.flush(None).await?;
    let outcome = meter.stop(job.rows)?;
    writer.close().await?;
    let written = flushed.rows;
    ensure!(written == job.rows, "{written} rows were written instead of {}", job.rows);
    Ok(outcome)
}

/// Blocks that were encoded before, straight into a socket.
pub(crate) fn prebuilt(job: &Job) -> Result<Outcome> {
    let mut blocks = Vec::new();
    for batch in rows::batches(job.rows)? {
        put_block(&mut blocks, &batch, &rows::TYPES)?;
    }
    let statement = format!("{} VALUES", statement(job));
    let mut client = RawClient::connect(&address(job)?)?;
    let meter = Meter::start()?;
    client.begin(&statement)?;
    client.send(&blocks)?;
    client.end()?;
    meter.stop(job.rows)
}
