//! Exactly-once by offsets that the target stores with the rows.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use connector_core::{
    CancellationToken, ChangeBatch, DeliveryGuarantee, ErrorKind, MemoryCheckpointStore, Pipeline, Result,
    Sink, SinkCapabilities, SourceOffsets, WriterContext, async_trait,
    dynamic::{DynSink, DynSource},
    memory::{MemorySink, MemorySource},
    testkit::orders,
};

use crate::pipeline::{FailAt, ids, small, source, table};

const HOUR: Duration = Duration::from_secs(3600);

fn sink() -> MemorySink {
    small().storing_offsets()
}

/// A run whose flush fails behind its `at`-th announcement, after it was stored or before.
async fn broken(
    source: &MemorySource,
    sink: &MemorySink,
    store: &Arc<MemoryCheckpointStore>,
    at: usize,
    stored: bool,
) {
    let failing =
        FailAt { inner: Arc::clone(store), sink: sink.clone(), at, stored, calls: AtomicUsize::new(0) };
    Pipeline::new(source.clone(), sink.clone())
        .delivery(DeliveryGuarantee::ExactlyOnce)
        .parallelism(3)
        .checkpoints(failing, HOUR)
        .run(CancellationToken::new())
        .await
        .unwrap_err();
    assert!(!store.latest().unwrap().pending().is_empty(), "the flush was announced before it began");
}

async fn run(
    source: &MemorySource,
    sink: &MemorySink,
    store: &Arc<MemoryCheckpointStore>,
    chains: usize,
) -> Result<u64> {
    let report = Pipeline::new(source.clone(), sink.clone())
        .delivery(DeliveryGuarantee::ExactlyOnce)
        .parallelism(chains)
        .checkpoints(Arc::clone(store), HOUR)
        .run(CancellationToken::new())
        .await?;
    Ok(report.rows_read)
}

#[tokio::test]
async fn each_row_is_there_once_whatever_became_of_the_last_flush() {
    for stored in [false, true] {
        for at in 0..3 {
            let (source, sink, store) = (source(3, 9, true), sink(), Arc::new(MemoryCheckpointStore::new()));
            broken(&source, &sink, &store, at, stored).await;
            // With other chains than before.
            run(&source, &sink, &store, 1).await.unwrap();
            assert_eq!(ids(&sink, &table()), (0..270).collect::<Vec<u64>>(), "stored={stored} at={at}");
            assert!(store.latest().unwrap().pending().is_empty());
            assert_eq!(run(&source, &sink, &store, 2).await.unwrap(), 0, "nothing is left");
        }
    }
}

/// Their offsets cannot be compared: what the target says counts.
#[tokio::test]
async fn the_same_with_types_that_are_known_only_at_run_time() {
    for stored in [false, true] {
        let (source, sink, store) = (source(3, 9, true), sink(), Arc::new(MemoryCheckpointStore::new()));
        let pipeline = |checkpoints: FailAt| {
            Pipeline::new(DynSource::new(source.clone()), DynSink::new(sink.clone()))
                .delivery(DeliveryGuarantee::ExactlyOnce)
                .checkpoints(checkpoints, HOUR)
        };
        let failing = |at| FailAt {
            inner: Arc::clone(&store),
            sink: sink.clone(),
            at,
            stored,
            calls: AtomicUsize::new(0),
        };
        pipeline(failing(1)).run(CancellationToken::new()).await.unwrap_err();
        pipeline(failing(usize::MAX)).run(CancellationToken::new()).await.unwrap();
        assert_eq!(ids(&sink, &table()), (0..270).collect::<Vec<u64>>(), "stored={stored}");
    }
}

#[tokio::test]
async fn a_checkpoint_that_is_lost_is_made_up_for_by_the_target() {
    let (source, sink, store) = (source(3, 9, true), sink(), Arc::new(MemoryCheckpointStore::new()));
    broken(&source, &sink, &store, 2, true).await;
    run(&source, &sink, &Arc::new(MemoryCheckpointStore::new()), 2).await.unwrap();
    assert_eq!(ids(&sink, &table()), (0..270).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_target_that_forgot_is_made_up_for_by_the_checkpoint_unless_a_flush_was_under_way() {
    let (source, sink, store) = (source(2, 9, true), sink(), Arc::new(MemoryCheckpointStore::new()));
    run(&source, &sink, &store, 2).await.unwrap();
    sink.forget_offsets();
    source.push("s0", table(), ChangeBatch::append(orders(180..190)));
    run(&source, &sink, &store, 1).await.unwrap();
    assert_eq!(ids(&sink, &table()), (0..190).collect::<Vec<u64>>());

    source.push("s0", table(), ChangeBatch::append(orders(190..200)));
    broken(&source, &sink, &store, 0, true).await;
    sink.forget_offsets();
    let error = run(&source, &sink, &store, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CheckpointInvalid, "{error}");
    assert!(error.message().contains("does not know any more"), "{error}");
    assert_eq!(ids(&sink, &table()), (0..200).collect::<Vec<u64>>(), "and nothing is written twice");
}

#[tokio::test]
async fn what_it_needs_is_asked_for_at_the_start() {
    let pipeline = Pipeline::new(source(1, 1, true), sink()).delivery(DeliveryGuarantee::ExactlyOnce);
    let error = pipeline.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("checkpoint store"), "{error}");
}

/// A sink whose flushes tell the source's system how far it was read.
struct Acknowledging(MemorySink);

#[async_trait]
impl Sink for Acknowledging {
    type Writer = <MemorySink as Sink>::Writer;

    fn connector(&self) -> &'static str {
        self.0.connector()
    }

    fn capabilities(&self) -> SinkCapabilities {
        self.0.capabilities()
    }

    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()> {
        self.0.check(delivery).await
    }

    async fn open(&self, context: WriterContext) -> Result<Self::Writer> {
        self.0.open(context).await
    }

    async fn recover(&self, pipeline: &str) -> Result<Option<SourceOffsets>> {
        self.0.recover(pipeline).await
    }

    fn acknowledges(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn what_a_flush_acknowledges_is_not_acknowledged_again() {
    for (delivery, by_the_runner) in
        [(DeliveryGuarantee::ExactlyOnce, false), (DeliveryGuarantee::AtLeastOnce, true)]
    {
        for erased in [false, true] {
            let (source, sink) = (source(3, 9, true), sink());
            let acknowledging = Acknowledging(sink.clone());
            let report = if erased {
                Pipeline::new(source.clone(), DynSink::new(acknowledging))
                    .delivery(delivery)
                    .checkpoints(MemoryCheckpointStore::new(), HOUR)
                    .run(CancellationToken::new())
                    .await
            } else {
                Pipeline::new(source.clone(), acknowledging)
                    .delivery(delivery)
                    .checkpoints(MemoryCheckpointStore::new(), HOUR)
                    .run(CancellationToken::new())
                    .await
            };
            assert_eq!(report.unwrap().rows_written, 270);
            assert_eq!(!source.acknowledged().is_empty(), by_the_runner, "{delivery:?}");
        }
    }
}
