//! An atomic batch as a program of its own, for tests that kill it: `atomic_batch KEY=VALUE…`.
//!
//! Keys: `clickhouse` (host:port), `database`, `table`, `state` (folder), `rows`, `partitions`, `replace`.
//! Writes rows `id` from 0 on with `p = id % partitions`; then prints `done`.

use std::{sync::Arc, time::Duration};

use connector_bytehouse_cdw::BytehouseCdwSink;
use connector_core::{
    ChangeBatch, FileCheckpointStore, Pipeline, TableId,
    arrow::{
        array::{ArrayRef, RecordBatch, UInt64Array},
        datatypes::{DataType, Field, Schema},
    },
    memory::MemorySource,
};
use connector_tests::program::{self, Options, Outcome};

fn main() -> Outcome {
    program::run("info", write)
}

async fn write(options: Options) -> Outcome {
    let get = |key: &str| options.get(key);
    let (host, port) = get("clickhouse")?.rsplit_once(':').ok_or("`clickhouse` is host:port")?;
    let (rows, partitions): (u64, u64) = (get("rows")?.parse()?, get("partitions")?.parse()?);
    let table = TableId::new(get("database")?, get("table")?);
    let sink = BytehouseCdwSink::from_options([
        ("job.common.job_type", "BATCH"),
        ("job.writer.host", host),
        ("job.writer.port", port),
        ("job.writer.secure", "false"),
        ("job.writer.cnch_engine", "false"),
        ("job.writer.token", "none"),
        ("job.writer.virtual_warehouse", "none"),
        ("job.writer.bh_connection_properties", r#"{"user": "tester", "password": "secret"}"#),
        ("job.writer.db_name", table.database.as_str()),
        ("job.writer.table_name", table.table.as_str()),
        ("job.writer.atomic_write", "true"),
        ("job.writer.atomic_write_replace_partitions", get("replace")?),
        ("job.writer.atomic_write_retry_wait_millis", "200"),
    ])?;
    let source = MemorySource::bounded();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("p", DataType::UInt64, false),
    ]));
    for start in (0..rows).step_by(1000) {
        let ids = start..(start + 1000).min(rows);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(ids.clone())),
            Arc::new(UInt64Array::from_iter_values(ids.map(|id| id % partitions))),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        source.push(if start % 2000 == 0 { "a" } else { "b" }, table.clone(), ChangeBatch::append(batch));
    }
    let pipeline = Pipeline::new(source, sink)
        .name("atomic")
        .parallelism(2)
        .checkpoints(FileCheckpointStore::open(get("state")?)?, Duration::from_millis(100));
    let report = program::until_asked(pipeline).await?;
    program::print_done(&report);
    Ok(())
}
