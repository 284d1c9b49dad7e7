//! The sink keeps the contracts of the core, in both modes.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytehouse_testkit::BytehouseDouble;
use connector_bytehouse_cdw::BytehouseCdwSink;
use connector_core::{
    TableId,
    arrow::array::RecordBatch,
    async_trait,
    testkit::{SinkFixture, check_sink},
};

use crate::support::{create, double, insert, upsert};

struct Fixture {
    double: BytehouseDouble,
    engine: &'static str,
    upsert: bool,
    tables: AtomicUsize,
}

#[async_trait]
impl SinkFixture for Fixture {
    type Sink = BytehouseCdwSink;

    async fn sink(&self) -> BytehouseCdwSink {
        if self.upsert { upsert(&self.double) } else { insert(&self.double) }
    }

    async fn table(&self) -> TableId {
        let table = format!("t{}", self.tables.fetch_add(1, Ordering::Relaxed));
        create(&self.double, &table, self.engine)
    }

    async fn rows(&self, table: &TableId) -> Vec<RecordBatch> {
        vec![self.double.table(&table.to_string()).unwrap()]
    }
}

#[tokio::test]
async fn mode_upsert() {
    let engine = "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id";
    check_sink(&Fixture { double: double().await, engine, upsert: true, tables: AtomicUsize::new(0) }).await;
}
