//! Our pipeline from Kafka to ClickHouse, written as a user writes it.

use std::time::Duration;

use anyhow::{Result, ensure};
use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{CancellationToken, FileCheckpointStore, Pipeline};
use connector_kafka::{Json, KafkaSource};

use super::{address, host_and_port, read::PARTITIONS};
use crate::{
    cli::Job,
    measure::{Outcome, own_cpu},
    orders, services,
    way::Program,
};

/// The whole process counts, from its start. Options are the defaults, but for the rows of a flush.
pub(crate) async fn ours(job: &Job) -> Result<Outcome> {
    let mut source = KafkaSource::builder()
        .bootstrap_servers(services::kafka()?.bootstrap)
        .topics([job.topic.as_str()])
        .format(Json::with_schema(orders::schema("UTC")))
        .bounded();
    if job.way.program == Program::PipelineHalf {
        source = source.end_offset(i64::try_from(job.rows)? / i64::from(PARTITIONS) - 1);
    }
    let (host, port) = host_and_port(&address(job)?)?;
    let mut sink = BytehouseCdwSink::builder()
        .clickhouse(host, port)
        .table(job.table.as_str())
        .mode(SinkModeName::Insert);
    if job.way.program != Program::PipelineDefault {
        sink = sink.flush_max_rows(500_000_usize);
    }
    let store = FileCheckpointStore::open(job.folder.join("checkpoints"))?;
    let report = Pipeline::new(source.build()?, sink.build()?)
        .checkpoints(store, Duration::from_secs(10))
        .run(CancellationToken::new())
        .await?;
    ensure!(report.rows_read == job.rows, "{} rows were read instead of {}", report.rows_read, job.rows);
    ensure!(
        report.rows_written == job.rows,
        "{} rows were written instead of {}",
        report.rows_written,
        job.rows
    );
    Outcome::of_process(job.rows, 0.0, own_cpu()?)
}
