//! The contracts of sinks and writers.

use arrow::{
    array::{AsArray, RecordBatch},
    compute::concat_batches,
    datatypes::UInt64Type,
};
use async_trait::async_trait;

use super::rows::{orders, orders_schema};
use crate::{
    change::ChangeBatch,
    error::ErrorKind,
    schema::{SchemaChange, TableId, TableSchema},
    sink::{DeliveryGuarantee, ExactlyOnce, FlushToken, Sink, SinkWriter, SourceOffsets, WriterContext},
    split::SplitId,
};

/// What the suite needs to know of a sink under test.
#[async_trait]
pub trait SinkFixture: Send + Sync {
    /// The sink under test.
    type Sink: Sink;

    /// The sink, in a mode that takes inserts.
    async fn sink(&self) -> Self::Sink;

    /// A table that is new and empty, with the columns of [`orders_schema`], `id` its key. Where the sink
    /// does not create tables the fixture does.
    async fn table(&self) -> TableId;

    /// The rows that a reader of the target sees, read by other means than the sink's.
    async fn rows(&self, table: &TableId) -> Vec<RecordBatch>;
}

/// Runs every check.
///
/// # Panics
/// When a contract is broken.
pub async fn check_sink<F: SinkFixture>(fixture: &F) {
    flushed_rows_are_there(fixture).await;
    rows_that_were_not_flushed_do_no_harm(fixture).await;
    announcements_may_repeat(fixture).await;
    tokens_mean_what_they_say(fixture).await;
    a_closed_writer_refuses(fixture).await;
}

async fn ids<F: SinkFixture>(fixture: &F, table: &TableId) -> Vec<u64> {
    let batches = fixture.rows(table).await;
    let Some(first) = batches.first() else { return Vec::new() };
    let all = concat_batches(&first.schema(), &batches).expect("batches of one table");
    let column = all.column_by_name("id").expect("a column `id`");
    let mut ids = column.as_primitive::<UInt64Type>().values().to_vec();
    ids.sort_unstable();
    ids
}

fn announcement(table: &TableId) -> SchemaChange {
    let schema = TableSchema::new(orders_schema()).with_primary_key(["id"]).expect("a key column");
    SchemaChange::CreateTable { table: table.clone(), schema }
}

async fn writer<F: SinkFixture>(
    sink: &F::Sink,
    table: &TableId,
    delivery: DeliveryGuarantee,
) -> <F::Sink as Sink>::Writer {
    sink.check(delivery).await.expect("check");
    let mut writer = sink.open(WriterContext { delivery, ..WriterContext::default() }).await.expect("open");
    writer.apply(&announcement(table)).await.expect("announce the table");
    writer
}

async fn flushed_rows_are_there<F: SinkFixture>(fixture: &F) {
    let (sink, table) = (fixture.sink().await, fixture.table().await);
    let mut writer = writer::<F>(&sink, &table, DeliveryGuarantee::AtLeastOnce).await;
    assert!(writer.flush_due().is_none(), "nothing is due before the first row");
    assert_eq!(writer.flush(None).await.expect("an empty flush").rows, 0, "an empty flush");
    let mut all = Vec::new();
    for round in 0..3u64 {
        let range = round * 1000..round * 1000 + 700;
        writer.write(&table, ChangeBatch::append(orders(range.clone()))).await.expect("write");
        writer.write(&table, ChangeBatch::append(orders(range.end..range.end + 5))).await.expect("write");
        let flushed = writer.flush(None).await.expect("flush");
        assert_eq!(flushed.rows, 705, "a flush counts the rows since the one before");
        assert!(flushed.rejected.is_empty(), "no row is refused");
        assert!(writer.flush_due().is_none(), "nothing is due after a flush");
        all.extend(range.start..range.end + 5);
        assert_eq!(ids(fixture, &table).await, all, "flushed rows are durable and visible");
    }
    writer.close().await.expect("close");
    assert_eq!(ids(fixture, &table).await, all, "closing adds nothing");
}

async fn rows_that_were_not_flushed_do_no_harm<F: SinkFixture>(fixture: &F) {
    let (sink, table) = (fixture.sink().await, fixture.table().await);
    let mut first = writer::<F>(&sink, &table, DeliveryGuarantee::AtLeastOnce).await;
    first.write(&table, ChangeBatch::append(orders(0..100))).await.expect("write");
    first.flush(None).await.expect("flush");
    first.write(&table, ChangeBatch::append(orders(100..200))).await.expect("write");
    first.close().await.expect("close");
    drop(first);
    let seen = ids(fixture, &table).await;
    assert_eq!(seen[..100], (0..100).collect::<Vec<u64>>()[..], "what was flushed before stays");
    let mut second = writer::<F>(&sink, &table, DeliveryGuarantee::AtLeastOnce).await;
    second.write(&table, ChangeBatch::append(orders(100..200))).await.expect("write");
    second.flush(None).await.expect("flush");
    second.close().await.expect("close");
    let mut distinct = ids(fixture, &table).await;
    distinct.dedup();
    assert_eq!(distinct, (0..200).collect::<Vec<u64>>(), "a new writer completes what was broken off");
}

async fn announcements_may_repeat<F: SinkFixture>(fixture: &F) {
    let (sink, table) = (fixture.sink().await, fixture.table().await);
    let mut writer = writer::<F>(&sink, &table, DeliveryGuarantee::AtLeastOnce).await;
    writer.apply(&announcement(&table)).await.expect("announce again");
    writer.write(&table, ChangeBatch::append(orders(0..10))).await.expect("write");
    writer.flush(None).await.expect("flush");
    writer.apply(&announcement(&table)).await.expect("announce after rows");
    writer.write(&table, ChangeBatch::append(orders(10..20))).await.expect("write");
    writer.flush(None).await.expect("flush");
    writer.close().await.expect("close");
    assert_eq!(ids(fixture, &table).await, (0..20).collect::<Vec<u64>>(), "announcing twice is harmless");
}

async fn tokens_mean_what_they_say<F: SinkFixture>(fixture: &F) {
    let (sink, table) = (fixture.sink().await, fixture.table().await);
    let token = |text: &str| FlushToken::new(text).expect("a token");
    match sink.capabilities().exactly_once {
        ExactlyOnce::DeduplicatedFlush => {
            for token in [token("range-1"), token("range-1"), token("range-2")] {
                let mut writer = writer::<F>(&sink, &table, DeliveryGuarantee::ExactlyOnce).await;
                writer.write(&table, ChangeBatch::append(orders(0..500))).await.expect("write");
                writer.write(&table, ChangeBatch::append(orders(500..600))).await.expect("write");
                writer.flush(Some(&token)).await.expect("flush under a token");
                writer.close().await.expect("close");
            }
            let expected: Vec<u64> = (0..600).flat_map(|id| [id, id]).collect();
            assert_eq!(ids(fixture, &table).await, expected, "a token counts once, another one again");
        }
        ExactlyOnce::Unsupported(reason) => {
            assert!(!reason.is_empty(), "the reason is said");
            let refused =
                sink.check(DeliveryGuarantee::ExactlyOnce).await.expect_err("exactly-once is refused");
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "exactly-once is refused");
            refuses_tokens::<F>(&sink, &table, &token("range-1")).await;
        }
        ExactlyOnce::StoredOffsets => {
            offsets_are_stored_with_their_rows(fixture, &sink, &table).await;
            let (sink, table) = (fixture.sink().await, fixture.table().await);
            refuses_tokens::<F>(&sink, &table, &token("range-1")).await;
        }
        ExactlyOnce::IdempotentUpsert => refuses_tokens::<F>(&sink, &table, &token("range-1")).await,
    }
}

/// Rows and offsets are there together or not at all, and a later run ends an earlier one.
async fn offsets_are_stored_with_their_rows<F: SinkFixture>(fixture: &F, sink: &F::Sink, table: &TableId) {
    let pipeline = format!("suite-{table}");
    let offsets = |offset: u64| {
        let mut offsets = SourceOffsets::default();
        offsets.insert(SplitId::new("split-0"), offset.into());
        offsets
    };
    let open = || async {
        let delivery = DeliveryGuarantee::ExactlyOnce;
        let context = WriterContext { pipeline: pipeline.clone(), delivery, ..WriterContext::default() };
        let mut writer = sink.open(context).await.expect("open");
        writer.apply(&announcement(table)).await.expect("announce the table");
        writer
    };
    sink.check(DeliveryGuarantee::ExactlyOnce).await.expect("check");
    assert_eq!(sink.recover(&pipeline).await.expect("recover"), None, "a new pipeline has no offsets");
    let mut first = open().await;
    first.flush_with(&offsets(0)).await.expect("offsets without rows");
    assert_eq!(sink.recover(&pipeline).await.expect("recover"), Some(offsets(0)), "offsets without rows");
    let mut first_again = open().await;
    first_again.write(table, ChangeBatch::append(orders(0..100))).await.expect("write");
    assert_eq!(first_again.flush_with(&offsets(100)).await.expect("flush").rows, 100);
    first_again.write(table, ChangeBatch::append(orders(100..150))).await.expect("write");
    first_again.flush_with(&offsets(150)).await.expect("flush");
    assert_eq!(ids(fixture, table).await, (0..150).collect::<Vec<u64>>(), "flushed rows are visible");
    // The process ends in the middle.
    first_again.write(table, ChangeBatch::append(orders(150..200))).await.expect("write");
    assert_eq!(sink.recover(&pipeline).await.expect("recover"), Some(offsets(150)), "the last flush counts");
    // It did not end: what it does now is too late.
    let fenced = match first_again.write(table, ChangeBatch::append(orders(200..210))).await {
        Ok(()) => first_again.flush_with(&offsets(210)).await.map(drop),
        refused => refused,
    };
    assert_eq!(fenced.expect_err("an earlier run is fenced").kind(), ErrorKind::Conflict, "it is fenced");
    let mut second = open().await;
    second.write(table, ChangeBatch::append(orders(150..200))).await.expect("write");
    second.flush_with(&offsets(200)).await.expect("flush");
    second.close().await.expect("close");
    assert_eq!(ids(fixture, table).await, (0..200).collect::<Vec<u64>>(), "each row is there once");
    assert_eq!(sink.recover(&pipeline).await.expect("recover"), Some(offsets(200)), "the last flush counts");
    drop(first);
}

async fn refuses_tokens<F: SinkFixture>(sink: &F::Sink, table: &TableId, token: &FlushToken) {
    let mut writer = writer::<F>(sink, table, DeliveryGuarantee::AtLeastOnce).await;
    writer.write(table, ChangeBatch::append(orders(0..10))).await.expect("write");
    let refused = writer.flush(Some(token)).await.expect_err("a token is refused");
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "a token is refused");
}

async fn a_closed_writer_refuses<F: SinkFixture>(fixture: &F) {
    let (sink, table) = (fixture.sink().await, fixture.table().await);
    let mut writer = writer::<F>(&sink, &table, DeliveryGuarantee::AtLeastOnce).await;
    writer.close().await.expect("close");
    writer.close().await.expect("closing twice is harmless");
    let refused =
        writer.write(&table, ChangeBatch::append(orders(0..10))).await.expect_err("write after close");
    assert_eq!(refused.kind(), ErrorKind::Closed, "write after close");
    assert_eq!(
        writer.flush(None).await.expect_err("flush after close").kind(),
        ErrorKind::Closed,
        "flush after close"
    );
}
