//! One way, in this process.

use anyhow::{Context as _, Result};
use connector_bytehouse_cdw::SinkModeName;
use connector_kafka::Assignment;

use crate::{
    cli::Job,
    measure::Outcome,
    way::Program,
    ways::{avro, client, compose, decode, fluss, insert, peers, pipeline, read, write},
};

/// Runs the way and prints its outcome as the only line on standard output.
pub(crate) async fn run(job: &Job) -> Result<()> {
    let outcome = measure(job).await.with_context(|| job.way.name())?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

async fn measure(job: &Job) -> Result<Outcome> {
    match job.way.program {
        Program::FlussAppend => fluss::append(job).await,
        Program::FlussAppendBare => fluss::append_bare(job).await,
        Program::FlussScan => fluss::scan(job).await,
        Program::FlussScanBare => fluss::scan_bare(job).await,
        Program::FlussLookup => fluss::lookup(job).await,
        Program::FlussLookupBare => fluss::lookup_bare(job).await,
        Program::ReadOurs => read::ours(job).await,
        Program::ReadGroup => read::unbounded(job, Assignment::Group).await,
        Program::ReadUnbounded => read::unbounded(job, Assignment::Manual).await,
        Program::ReadDebezium => read::debezium(job).await,
        Program::ReadAvro => avro::read(job).await,
        Program::ReadBare => blocking(job, read::bare).await,
        Program::WriteOurs => write::ours(job).await,
        Program::WriteBare => write::bare(job).await,
        Program::DecodeOurs => decode::ours(job.rows),
        Program::DecodeArrow => decode::arrow_json(job.rows),
        Program::InsertOurs => insert::ours(job).await,
        Program::InsertFlushes => insert::flushes(job, SinkModeName::Insert).await,
        Program::UpsertFlushes => insert::flushes(job, SinkModeName::Upsert).await,
        Program::InsertPrebuilt => blocking(job, insert::prebuilt).await,
        Program::InsertClient => client::run(job),
        Program::InsertKlickhouse => peers::klickhouse(job).await,
        Program::InsertRowBinary => peers::row_binary(job).await,
        Program::InsertArrowStream => peers::arrow_stream(job).await,
        Program::PipelineOurs | Program::PipelineDefault | Program::PipelineSlow | Program::PipelineHalf => {
            pipeline::ours(job).await
        }
        Program::Compose => blocking(job, compose::run).await,
    }
}

/// Runs a way that waits on sockets itself, off the threads of the runtime.
async fn blocking(job: &Job, way: fn(&Job) -> Result<Outcome>) -> Result<Outcome> {
    let job = job.clone();
    tokio::task::spawn_blocking(move || way(&job)).await?
}
