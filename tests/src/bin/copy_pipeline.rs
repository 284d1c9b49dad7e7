//! Kafka to Kafka as a program of its own, for tests that kill it: `copy_pipeline KEY=VALUE…`.
//!
//! Keys: `bootstrap`, `from`, `to` (topics), `state` (folder), `name`, `chains`, `checkpoint_ms`, `unbounded` (true: until
//! SIGTERM), `group` (the source's, whose offsets go along with the transactions), `delivery` (exactly-once, at-least-once), `stop` (a step where it prints `stopped` and waits to be killed: `begin`, when the first offsets are stored
//! and no writer is open; `announced:N`, when the N-th flush is announced; `committed:N`, when the N-th flush is done and
//! not stored). Copies orders with their id as key; then prints `done` and a line of figures.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use connector_core::{
    Checkpoint, CheckpointStore, DeliveryGuarantee, FileCheckpointStore, Pipeline, Result, async_trait,
};
use connector_kafka::{KafkaSink, KafkaSource, StartupMode, format::Json};
use connector_tests::{
    orders,
    program::{self, Options, Outcome},
};

fn main() -> Outcome {
    program::run("info,rdkafka=warn,connector_core::pipeline=debug", copy)
}

async fn copy(options: Options) -> Outcome {
    let mut source = KafkaSource::builder()
        .bootstrap_servers(options.get("bootstrap")?)
        .topics([options.get("from")?])
        .startup_mode(StartupMode::Earliest)
        .max_batch_rows(500)
        .format(Json::with_schema(orders::schema()));
    if !options.or("unbounded", false)? {
        source = source.bounded();
    }
    let group = options.or("group", String::new())?;
    if !group.is_empty() {
        source = source.group_id(group.as_str());
    }
    let source = source.build()?;
    let mut sink = KafkaSink::builder()
        .bootstrap_servers(options.get("bootstrap")?)
        .topic(options.get("to")?)
        .key_fields(["id"])
        .linger(options.millis("linger_ms", 5)?);
    if !group.is_empty() {
        sink = sink.source_group(source.group());
    }
    let delivery = match options.or("delivery", "exactly-once".to_owned())?.as_str() {
        "exactly-once" => DeliveryGuarantee::ExactlyOnce,
        "at-least-once" => DeliveryGuarantee::AtLeastOnce,
        other => return Err(format!("unknown delivery {other}").into()),
    };
    let store = Stopping::open(options.get("state")?, &options.or("stop", String::new())?)?;
    let pipeline = Pipeline::new(source, sink.build()?)
        .name(options.or("name", "copy".to_owned())?)
        .parallelism(options.or("chains", 1)?)
        .delivery(delivery)
        .checkpoints(store, options.millis("checkpoint_ms", 200)?);
    let report = program::until_asked(pipeline).await?;
    program::print_done(&report);
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    Announced,
    Committed,
    Never,
}

/// A store that stops the program at a step.
struct Stopping {
    inner: FileCheckpointStore,
    at: Step,
    /// How often the step is still to be passed.
    left: AtomicUsize,
    pending: Mutex<usize>,
}

impl Stopping {
    fn open(folder: impl AsRef<Path>, stop: &str) -> Outcome<Self> {
        let (step, times) = stop.split_once(':').unwrap_or((stop, "1"));
        let at = match step {
            "begin" => Step::Begin,
            "announced" => Step::Announced,
            "committed" => Step::Committed,
            "" => Step::Never,
            other => return Err(format!("unknown step {other}").into()),
        };
        let inner = FileCheckpointStore::open(folder.as_ref())?;
        Ok(Self { inner, at, left: AtomicUsize::new(times.parse()?), pending: Mutex::new(0) })
    }

    async fn pass(&self, step: Step) {
        if step == self.at && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            println!("stopped");
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl CheckpointStore for Stopping {
    async fn load(&self) -> Result<Option<Checkpoint>> {
        self.inner.load().await
    }

    async fn store(&self, checkpoint: &Checkpoint) -> Result<()> {
        let pending = checkpoint.pending().len();
        let before = match self.pending.lock() {
            Ok(mut known) => std::mem::replace(&mut *known, pending),
            Err(_) => pending,
        };
        if pending < before {
            self.pass(Step::Committed).await;
        }
        self.inner.store(checkpoint).await?;
        if pending > before {
            self.pass(Step::Announced).await;
        }
        self.pass(Step::Begin).await;
        Ok(())
    }
}
