//! What the tests share: a double with a database, and sinks into it.

use bytehouse_testkit::{BytehouseDouble, DoubleOptions};
use connector_bytehouse_cdw::{BytehouseCdwSink, BytehouseCdwSinkBuilder, BytehouseCdwWriter, SinkModeName};
use connector_core::{
    DeliveryGuarantee, Secret, Sink, TableId, WriterContext,
    arrow::{
        array::{AsArray, RecordBatch},
        datatypes::UInt64Type,
    },
};
use std::time::Duration;

/// Columns of `connector_core::testkit::orders_schema`.
pub(crate) const COLUMNS: &str =
    "id UInt64, customer String, amount Decimal(18, 4), discount Nullable(Int32)";

pub(crate) async fn double() -> BytehouseDouble {
    let options =
        DoubleOptions { databases: vec!["default".into(), "app".into()], ..DoubleOptions::default() };
    BytehouseDouble::start(options).await.unwrap()
}

pub(crate) fn create(double: &BytehouseDouble, table: &str, rest: &str) -> TableId {
    double.execute(&format!("CREATE TABLE app.{table} ({COLUMNS}) {rest}")).unwrap();
    TableId::new("app", table)
}

pub(crate) fn builder(double: &BytehouseDouble) -> BytehouseCdwSinkBuilder {
    BytehouseCdwSink::builder()
        .host("127.0.0.1")
        .port(double.addr().port())
        .secure(false)
        .api_token(Secret::new(DoubleOptions::TOKEN))
        .virtual_warehouse("vw_load")
        .max_retry_backoff(Duration::from_secs(1))
}

pub(crate) async fn writer(sink: &BytehouseCdwSink, delivery: DeliveryGuarantee) -> BytehouseCdwWriter {
    sink.open(WriterContext { delivery, ..WriterContext::default() }).await.unwrap()
}

pub(crate) fn insert(double: &BytehouseDouble) -> BytehouseCdwSink {
    builder(double).mode(SinkModeName::Insert).build().unwrap()
}

pub(crate) fn upsert(double: &BytehouseDouble) -> BytehouseCdwSink {
    builder(double).mode(SinkModeName::Upsert).build().unwrap()
}

pub(crate) fn ids(rows: &RecordBatch) -> Vec<u64> {
    let mut ids = rows.column_by_name("id").unwrap().as_primitive::<UInt64Type>().values().to_vec();
    ids.sort_unstable();
    ids
}
