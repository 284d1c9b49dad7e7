//! One writer with ten thousand tables, as a whole database that is copied: how much memory it takes.

use std::{process::Stdio, sync::Arc};

use connector_bytehouse_cdw::BytehouseCdwSink;
use connector_core::{
    ChangeBatch, DeliveryGuarantee, SchemaChange, Secret, Sink, SinkWriter, TableId, WriterContext,
    arrow::{
        array::{ArrayRef, Int64Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema},
    },
    schema::TableSchema,
};
use tokio::process::Command;

use crate::support::double;

const TABLES: usize = 10_000;
const COLUMNS: usize = 12;
const ROWS: u16 = 4;
/// What the writer may take for each table of 12 columns, in bytes, rows that wait included. The crate's README says so.
const BOUND: usize = 20 * 1024;
const PORT: &str = "CONNECTOR_TEST_MANY_TABLES_PORT";

fn columns() -> Arc<Schema> {
    let ty = |column| if column % 2 == 0 { DataType::Int64 } else { DataType::Utf8 };
    let fields = (0..COLUMNS).map(|column| Field::new(format!("column_{column}"), ty(column), column > 0));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn rows() -> RecordBatch {
    let column = |column| -> ArrayRef {
        if column % 2 == 0 {
            Arc::new(Int64Array::from_iter_values(0..i64::from(ROWS)))
        } else {
            Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("value {row}"))))
        }
    };
    RecordBatch::try_new(columns(), (0..COLUMNS).map(column).collect()).unwrap()
}

/// Bytes of memory that this process has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Runs the writer in a process of its own, where the double's memory does not count.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tables_stay_within_their_bound() {
    let double = double().await;
    let outcome = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "many_tables::write_to_many_tables"])
        .env(PORT, double.addr().port().to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&outcome.stdout), String::from_utf8_lossy(&outcome.stderr));
    println!("{out}");
    assert!(outcome.status.success() && out.contains("1 passed"), "{out}{err}");
    for (table, flushes) in [(0, 2), (TABLES / 10 - 1, 2), (TABLES / 2, 1), (TABLES - 1, 1)] {
        let rows = double.table(&format!("many.t{table}")).unwrap();
        assert_eq!(rows.num_rows(), flushes * usize::from(ROWS), "t{table}");
    }
}

#[tokio::test]
#[ignore = "run by the test above, with a server"]
async fn write_to_many_tables() {
    let port = std::env::var(PORT).unwrap();
    let sink = BytehouseCdwSink::builder()
        .host("127.0.0.1")
        .port(port.parse::<u16>().unwrap())
        .secure(false)
        .api_token(Secret::new("double-token"))
        .virtual_warehouse("vw_load")
        .mode(connector_bytehouse_cdw::SinkModeName::Insert)
        .build()
        .unwrap();
    let context = WriterContext { delivery: DeliveryGuarantee::AtLeastOnce, ..WriterContext::default() };
    let mut writer = sink.open(context).await.unwrap();
    let tables: Vec<TableId> = (0..TABLES).map(|table| TableId::new("many", format!("t{table}"))).collect();
    let (before, began) = (resident(), std::time::Instant::now());
    let mut most = 0;
    for table in &tables {
        // A source makes a schema for each table.
        let schema = TableSchema::new(columns());
        writer.apply(&SchemaChange::CreateTable { table: table.clone(), schema }).await.unwrap();
    }
    let announced = resident();
    println!("announced after {:?}", began.elapsed());
    // Again into some of them: what is kept of a table does not grow with its flushes.
    for count in [TABLES, TABLES / 10] {
        for table in &tables[..count] {
            writer.write(table, ChangeBatch::append(rows())).await.unwrap();
        }
        most = most.max(resident());
        writer.flush(None).await.unwrap();
        println!("flushed after {:?}", began.elapsed());
    }
    most = most.max(resident());
    let (known, waiting) = ((announced - before) / TABLES, (most - before) / TABLES);
    println!("bytes for each table: {known} announced, {waiting} at most");
    assert!(waiting <= BOUND, "{waiting} bytes for each table, {known} of them before any row");
}
