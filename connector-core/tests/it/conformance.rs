//! The in-memory source and sink keep the contracts; so do their erased twins.

use arrow::array::RecordBatch;
use connector_core::{
    ChangeBatch, TableId, TableSchema, arrow, async_trait,
    dynamic::{DynSink, DynSource},
    memory::{MemorySink, MemorySource},
    testkit::{SinkFixture, SourceFixture, check_sink, check_source, orders, orders_schema},
};

fn table() -> TableId {
    TableId::new("app", "orders")
}

/// Two tables in three splits, some splits longer than others.
fn source() -> MemorySource {
    let schema = TableSchema::new(orders_schema()).with_primary_key(["id"]).unwrap();
    let source = MemorySource::bounded().with_table(table(), schema);
    for (split, batches) in [("a", 4u64), ("b", 1), ("c", 3)] {
        for batch in 0..batches {
            let start = batch * 10 + u64::from(split.as_bytes()[0]) * 1000;
            source.push(split, table(), ChangeBatch::append(orders(start..start + 10)));
            source.push(split, TableId::new("app", "other"), ChangeBatch::append(orders([start])));
        }
    }
    source
}

struct Typed;

#[async_trait]
impl SourceFixture for Typed {
    type Source = MemorySource;

    async fn source(&self) -> MemorySource {
        source()
    }

    fn expected(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (split, batches) in [("a", 4u64), ("b", 1), ("c", 3)] {
            for batch in 0..batches {
                let start = batch * 10 + u64::from(split.as_bytes()[0]) * 1000;
                names.extend(self.row_ids(&table(), &ChangeBatch::append(orders(start..start + 10))));
                names.extend(
                    self.row_ids(&TableId::new("app", "other"), &ChangeBatch::append(orders([start]))),
                );
            }
        }
        names
    }
}

struct Erased;

#[async_trait]
impl SourceFixture for Erased {
    type Source = DynSource;

    async fn source(&self) -> DynSource {
        DynSource::new(source())
    }

    fn expected(&self) -> Vec<String> {
        Typed.expected()
    }
}

#[tokio::test]
async fn the_memory_source_keeps_the_contracts() {
    check_source(&Typed).await;
}

#[tokio::test]
async fn an_erased_source_keeps_the_contracts() {
    check_source(&Erased).await;
}

fn visible(sink: &MemorySink, table: &TableId) -> Vec<RecordBatch> {
    sink.rows(table).into_iter().map(|batch| batch.into_parts().0).collect()
}

struct Memory(MemorySink);

#[async_trait]
impl SinkFixture for Memory {
    type Sink = MemorySink;

    async fn sink(&self) -> MemorySink {
        self.0.clone()
    }

    async fn table(&self) -> TableId {
        TableId::new("app", format!("t{}", self.0.tables().len()))
    }

    async fn rows(&self, table: &TableId) -> Vec<RecordBatch> {
        visible(&self.0, table)
    }
}

struct ErasedMemory(MemorySink);

#[async_trait]
impl SinkFixture for ErasedMemory {
    type Sink = DynSink;

    async fn sink(&self) -> DynSink {
        DynSink::new(self.0.clone())
    }

    async fn table(&self) -> TableId {
        TableId::new("app", format!("t{}", self.0.tables().len()))
    }

    async fn rows(&self, table: &TableId) -> Vec<RecordBatch> {
        visible(&self.0, table)
    }
}

#[tokio::test]
async fn the_memory_sink_keeps_the_contracts() {
    check_sink(&Memory(MemorySink::new())).await;
}

#[tokio::test]
async fn a_sink_that_stores_offsets_keeps_the_contracts() {
    check_sink(&Memory(MemorySink::new().storing_offsets())).await;
}

#[tokio::test]
async fn an_erased_sink_keeps_the_contracts() {
    check_sink(&ErasedMemory(MemorySink::new())).await;
    check_sink(&ErasedMemory(MemorySink::new().storing_offsets())).await;
}
