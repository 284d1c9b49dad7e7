//! The runner: delivery, checkpoints, shutdown, routes, dead letters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arrow::{array::AsArray, compute::kernels::cmp::gt, datatypes::UInt64Type};
use connector_core::{
    CancellationToken, ChangeBatch, Checkpoint, CheckpointStore, DeliveryGuarantee, Error, ErrorKind,
    MemoryCheckpointStore, Pipeline, Result, RowKind, RowKinds, TableId, arrow, async_trait,
    batch::BatchPolicy,
    dynamic::{DynSink, DynSource},
    memory::{MemorySink, MemorySource},
    pipeline::{Route, Transform},
    testkit::orders,
};

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn table() -> TableId {
    TableId::new("app", "orders")
}

pub(crate) fn ids(sink: &MemorySink, table: &TableId) -> Vec<u64> {
    let mut ids: Vec<u64> = sink
        .rows(table)
        .iter()
        .flat_map(|batch| batch.rows().column(0).as_primitive::<UInt64Type>().values().to_vec())
        .collect();
    ids.sort_unstable();
    ids
}

/// `splits` splits with `batches` batches of 10 rows each; ids from 0 without a gap.
pub(crate) fn source(splits: u64, batches: u64, bounded: bool) -> MemorySource {
    let source = if bounded { MemorySource::bounded() } else { MemorySource::unbounded() };
    for split in 0..splits {
        for batch in 0..batches {
            let start = (split * batches + batch) * 10;
            source.push(&format!("s{split}"), table(), ChangeBatch::append(orders(start..start + 10)));
        }
    }
    source
}

pub(crate) fn small() -> MemorySink {
    MemorySink::with_policy(BatchPolicy { max_rows: 70, max_bytes: usize::MAX, max_interval: HOUR })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_source_is_read_to_its_end_by_any_number_of_chains() {
    for chains in [1, 2, 3, 8] {
        let (source, sink, store) = (source(5, 7, true), small(), Arc::new(MemoryCheckpointStore::new()));
        let report = Pipeline::new(source.clone(), sink.clone())
            .parallelism(chains)
            .checkpoints(Arc::clone(&store), HOUR)
            .run(CancellationToken::new())
            .await
            .unwrap();
        assert_eq!(ids(&sink, &table()), (0..350).collect::<Vec<u64>>(), "{chains} chains");
        assert_eq!((report.rows_read, report.rows_written, report.resumed), (350, 350, false));
        assert!(report.splits.iter().all(|split| split.to.as_deref() == Some("7")), "{:?}", report.splits);
        assert!(source.acknowledged().values().all(|offset| offset.0 == 7));
        assert_eq!(store.latest().unwrap().num_splits(), 5);
        // A second run finds everything done.
        let again =
            Pipeline::new(source, sink).checkpoints(store, HOUR).run(CancellationToken::new()).await.unwrap();
        assert_eq!((again.rows_read, again.resumed), (0, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unbounded_source_ends_on_stop_with_everything_flushed_and_goes_on_later() {
    let often = BatchPolicy { max_rows: 70, max_bytes: usize::MAX, max_interval: Duration::from_millis(10) };
    let (source, sink) = (source(3, 4, false), MemorySink::with_policy(often));
    let store = Arc::new(MemoryCheckpointStore::new());
    for round in 0..3u64 {
        let stop = CancellationToken::new();
        let pipeline =
            Pipeline::new(source.clone(), sink.clone()).parallelism(2).checkpoints(Arc::clone(&store), HOUR);
        let run = tokio::task::spawn(pipeline.run(stop.clone()));
        let wanted: Vec<u64> = (0..120 + round * 30).collect();
        while ids(&sink, &table()).len() < wanted.len() {
            assert!(!run.is_finished());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        let report = run.await.unwrap().unwrap();
        assert_eq!(report.resumed, round > 0);
        assert_eq!(ids(&sink, &table()), wanted, "round {round}");
        assert!(!source.acknowledged().is_empty(), "the end stores and acknowledges");
        for split in 0..3 {
            let start = 120 + round * 30 + split * 10;
            source.push(&format!("s{split}"), table(), ChangeBatch::append(orders(start..start + 10)));
        }
    }
}

#[tokio::test]
async fn the_sinks_own_interval_flushes_without_a_checkpoint() {
    let sink = MemorySink::with_policy(BatchPolicy {
        max_rows: 1_000_000,
        max_bytes: usize::MAX,
        max_interval: Duration::from_millis(20),
    });
    let stop = CancellationToken::new();
    let run = tokio::task::spawn(Pipeline::new(source(1, 3, false), sink.clone()).run(stop.clone()));
    while ids(&sink, &table()).len() < 30 {
        assert!(!run.is_finished());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    assert_eq!(run.await.unwrap().unwrap().rows_written, 30);
}

#[tokio::test]
async fn a_failed_flush_ends_the_run_and_the_next_run_loses_nothing() {
    for stored in [false, true] {
        let (source, sink, store) = (source(2, 10, true), small(), Arc::new(MemoryCheckpointStore::new()));
        sink.fail_next_flush(stored);
        let pipeline = || {
            Pipeline::new(source.clone(), sink.clone()).name("orders").checkpoints(Arc::clone(&store), HOUR)
        };
        let error = pipeline().run(CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.context_value("pipeline"), Some("orders"), "{error}");
        assert!(source.acknowledged().is_empty(), "nothing is acknowledged that is not durable");
        pipeline().run(CancellationToken::new()).await.unwrap();
        let mut all = ids(&sink, &table());
        all.dedup();
        assert_eq!(all, (0..200).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn exactly_once_repeats_an_announced_flush_under_its_token() {
    for stored in [false, true] {
        for at in 0..4 {
            let (source, sink, store) = (source(3, 9, true), small(), Arc::new(MemoryCheckpointStore::new()));
            let pipeline = || {
                Pipeline::new(source.clone(), sink.clone())
                    .delivery(DeliveryGuarantee::ExactlyOnce)
                    .checkpoints(Arc::clone(&store), HOUR)
            };
            let failing = FailAt {
                inner: Arc::clone(&store),
                sink: sink.clone(),
                at,
                stored,
                calls: AtomicUsize::new(0),
            };
            let broken = Pipeline::new(source.clone(), sink.clone())
                .delivery(DeliveryGuarantee::ExactlyOnce)
                .checkpoints(failing, HOUR);
            broken.run(CancellationToken::new()).await.unwrap_err();
            let pending = store.latest().unwrap().pending().len();
            assert_eq!(pending, 1, "the flush was announced before it began");
            pipeline().run(CancellationToken::new()).await.unwrap();
            assert_eq!(ids(&sink, &table()), (0..270).collect::<Vec<u64>>(), "stored={stored} at={at}");
            assert!(store.latest().unwrap().pending().is_empty());
        }
    }
}

/// Lets the flush that follows the `at`-th announcement fail.
pub(crate) struct FailAt {
    pub(crate) inner: Arc<MemoryCheckpointStore>,
    pub(crate) sink: MemorySink,
    pub(crate) at: usize,
    pub(crate) stored: bool,
    pub(crate) calls: AtomicUsize,
}

#[async_trait]
impl CheckpointStore for FailAt {
    async fn load(&self) -> Result<Option<Checkpoint>> {
        self.inner.load().await
    }

    async fn store(&self, checkpoint: &Checkpoint) -> Result<()> {
        if !checkpoint.pending().is_empty() && self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            self.sink.fail_next_flush(self.stored);
        }
        self.inner.store(checkpoint).await
    }
}

struct Broken;

#[async_trait]
impl CheckpointStore for Broken {
    async fn load(&self) -> Result<Option<Checkpoint>> {
        Ok(None)
    }

    async fn store(&self, _checkpoint: &Checkpoint) -> Result<()> {
        Err(Error::new(ErrorKind::Unavailable, "the disk is full"))
    }
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_stored_ends_the_run_and_is_not_acknowledged() {
    let source = source(1, 3, true);
    let error = Pipeline::new(source.clone(), small())
        .checkpoints(Broken, HOUR)
        .run(CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(error.operation(), "pipeline.checkpoint");
    assert!(source.acknowledged().is_empty());
}

#[tokio::test]
async fn a_checkpoint_of_another_connector_is_refused() {
    let store = MemoryCheckpointStore::new();
    let foreign = r#"{"version": 1, "connector": "kafka", "format_version": 1, "splits": []}"#;
    store.store(&Checkpoint::from_json(foreign).unwrap()).await.unwrap();
    let error = Pipeline::new(source(1, 1, true), small())
        .checkpoints(store, HOUR)
        .run(CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CheckpointInvalid);
}

#[tokio::test]
async fn erased_and_typed_pipelines_share_checkpoints() {
    let (source, sink, store) = (source(2, 3, true), small(), Arc::new(MemoryCheckpointStore::new()));
    let erased = Pipeline::new(DynSource::new(source.clone()), DynSink::new(sink.clone()));
    erased.checkpoints(Arc::clone(&store), HOUR).run(CancellationToken::new()).await.unwrap();
    source.push("s0", table(), ChangeBatch::append(orders(60..65)));
    Pipeline::new(source.clone(), sink.clone())
        .checkpoints(Arc::clone(&store), HOUR)
        .run(CancellationToken::new())
        .await
        .unwrap();
    source.push("s1", table(), ChangeBatch::append(orders(65..70)));
    let erased = Pipeline::new(DynSource::new(source), DynSink::new(sink.clone()));
    erased.checkpoints(store, HOUR).run(CancellationToken::new()).await.unwrap();
    assert_eq!(ids(&sink, &table()), (0..70).collect::<Vec<u64>>());
}

#[tokio::test]
async fn routes_and_transforms_change_tables_and_rows() {
    let sink = small();
    let threshold = arrow::array::UInt64Array::new_scalar(4);
    let transform = Transform::new(r"app\.orders").unwrap().project(["id", "customer"]).filter(move |rows| {
        gt(rows.column(0), &threshold).map_err(|e| Error::new(ErrorKind::Unexpected, "filter").with_source(e))
    });
    Pipeline::new(source(1, 1, true), sink.clone())
        .route(Route::new(r"app\.ord.*", "ods.x_<>").unwrap().with_replace_symbol("<>"))
        .route(Route::new(r"app\..*", "ods.rest").unwrap())
        .transform(transform)
        .run(CancellationToken::new())
        .await
        .unwrap();
    let target = TableId::new("ods", "x_orders");
    assert_eq!(sink.tables(), vec![target.clone()]);
    assert_eq!(ids(&sink, &target), [5, 6, 7, 8, 9]);
    assert_eq!(sink.rows(&target)[0].rows().num_columns(), 2);
    assert_eq!(Route::new("(", "a").unwrap_err().kind(), ErrorKind::OptionInvalid);
}

#[tokio::test]
async fn a_filter_that_parts_a_pair_turns_it_into_a_delete_or_an_insert() {
    let source = MemorySource::bounded();
    let (u, a) = (RowKind::UpdateBefore, RowKind::UpdateAfter);
    let kinds = RowKinds::from_kinds(&[u, a, u, a, u, a, RowKind::Insert]);
    source.push("s", table(), ChangeBatch::try_new(orders([1, 9, 9, 1, 8, 9, 9]), kinds).unwrap());
    let sink = small();
    let five = arrow::array::UInt64Array::new_scalar(5);
    let transform = Transform::new(".*").unwrap().filter(move |rows| {
        gt(rows.column(0), &five).map_err(|e| Error::new(ErrorKind::Unexpected, "filter").with_source(e))
    });
    Pipeline::new(source, sink.clone()).transform(transform).run(CancellationToken::new()).await.unwrap();
    let rows = sink.rows(&table()).remove(0);
    let kinds: Vec<&str> = (0..rows.num_rows()).map(|row| rows.kinds().get(row).as_str()).collect();
    assert_eq!(kinds, ["+I", "-D", "-U", "+U", "+I"]);
}
