//! The runner: [`Pipeline`] joins a source and a sink with checkpoints, bounded memory and a clean end.
//!
//! A pipeline runs `parallelism` chains. Each chain is a reader task and a writer task with a queue
//! between them that is bounded in bytes, so reading, decoding and writing overlap. Splits are dealt out
//! among the chains and never move between them: order per key holds wherever the source orders by key,
//! and each chain checkpoints alone. A checkpoint is: flush, store, acknowledge.

mod chain;
mod coordinator;
mod evolution;
pub mod metrics;
mod queue;
mod route;
mod run;
mod token;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

pub use self::{
    evolution::{SchemaChangeBehavior, SchemaChangePolicy},
    route::{Route, Transform},
};
use crate::{
    checkpoint::CheckpointStore,
    dynamic::DynSink,
    error::{Error, ErrorKind, Result},
    schema::TableId,
    sink::{DeliveryGuarantee, ExactlyOnce, Sink},
    source::{Boundedness, Source},
    split::SplitId,
};

/// Moves rows from a source to a sink until the source ends or the host says stop.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use connector_core::{memory::{MemorySink, MemorySource}, pipeline::Pipeline, MemoryCheckpointStore};
/// # use tokio_util::sync::CancellationToken;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> connector_core::Result<()> {
/// let report = Pipeline::new(MemorySource::bounded(), MemorySink::new())
///     .name("orders")
///     .parallelism(2)
///     .checkpoints(MemoryCheckpointStore::new(), Duration::from_secs(10))
///     .run(CancellationToken::new())
///     .await?;
/// assert_eq!(report.rows_read, 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "a pipeline does nothing until it runs"]
pub struct Pipeline<S, K> {
    source: Arc<S>,
    sink: Arc<K>,
    name: String,
    /// `None` for what the source suggests.
    parallelism: Option<usize>,
    store: Option<Arc<dyn CheckpointStore>>,
    checkpoint_every: Duration,
    delivery: DeliveryGuarantee,
    queue_bytes: usize,
    shutdown_deadline: Duration,
    routes: Vec<Route>,
    transforms: Vec<Transform>,
    schema_policy: SchemaChangePolicy,
    dead_letters: Option<(DynSink, TableId)>,
}

impl<S: fmt::Debug, K: fmt::Debug> fmt::Debug for Pipeline<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("name", &self.name)
            .field("source", &self.source)
            .field("sink", &self.sink)
            .field("parallelism", &self.parallelism)
            .field("checkpoint_every", &self.checkpoint_every)
            .field("delivery", &self.delivery)
            .finish_non_exhaustive()
    }
}

/// What a pipeline did between its start and its end.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Rows handed over by the readers.
    pub rows_read: u64,
    /// Rows that the sink made durable, after compaction.
    pub rows_written: u64,
    /// Bytes sent for them.
    pub bytes_written: u64,
    /// Rows that the sink refused under the policies `skip` and `dead-letter`.
    pub rows_rejected: u64,
    /// Records and rows written to the dead-letter sink.
    pub dead_letters: u64,
    /// Flushes.
    pub flushes: u64,
    /// Checkpoints stored.
    pub checkpoints: u64,
    /// True when the start found a checkpoint.
    pub resumed: bool,
    /// Every split: where this run began, and where the next one would go on.
    pub splits: Vec<SplitReport>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// One split in a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitReport {
    /// The split.
    pub split: SplitId,
    /// Its offset when this run began; `None` when the split was found later or had none yet.
    pub from: Option<String>,
    /// Its offset in the last checkpoint.
    pub to: Option<String>,
}

impl<S: Source, K: Sink> Pipeline<S, K> {
    /// A pipeline of as many chains as the source suggests, one where it does not say, without a checkpoint store,
    /// at least once.
    pub fn new(source: S, sink: K) -> Self {
        Self {
            source: Arc::new(source),
            sink: Arc::new(sink),
            name: "pipeline".to_owned(),
            parallelism: None,
            store: None,
            checkpoint_every: Duration::from_secs(10),
            delivery: DeliveryGuarantee::AtLeastOnce,
            queue_bytes: 16 << 20,
            shutdown_deadline: Duration::from_secs(30),
            routes: Vec::new(),
            transforms: Vec::new(),
            schema_policy: SchemaChangePolicy::default(),
            dead_letters: None,
        }
    }

    /// The pipeline's name: stable across restarts, part of flush tokens, metric labels and errors.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many chains run, whatever the source suggests; more than there are splits is never useful.
    pub fn parallelism(mut self, chains: usize) -> Self {
        self.parallelism = Some(chains.max(1));
        self
    }

    /// Where checkpoints go, and how often. Without a store nothing survives the process.
    pub fn checkpoints(mut self, store: impl CheckpointStore, every: Duration) -> Self {
        self.store = Some(Arc::new(store));
        self.checkpoint_every = every;
        self
    }

    /// What the pipeline promises; refused at the start where source and sink cannot keep it.
    pub fn delivery(mut self, delivery: DeliveryGuarantee) -> Self {
        self.delivery = delivery;
        self
    }

    /// Most bytes of rows that wait between the reader and the writer of a chain (16 MiB).
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// How long the end may take once the host has said stop: draining, the last flush and checkpoint (30 s).
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// Adds a route; the first that matches a table wins, and a table without one keeps its name.
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Adds a transform; the first that matches a table wins.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transforms.push(transform);
        self
    }

    /// What happens to schema changes.
    pub fn schema_changes(mut self, policy: impl Into<SchemaChangePolicy>) -> Self {
        self.schema_policy = policy.into();
        self
    }

    /// Where bad records go under the policy `dead-letter`: rows of
    /// [`dead_letter_schema`](crate::bad_record::dead_letter_schema) in `table` of `sink`, durable before
    /// the checkpoint that passes them. At least once: after a crash a record may come twice.
    pub fn dead_letters(mut self, sink: impl Sink, table: TableId) -> Self {
        self.dead_letters = Some((DynSink::new(sink), table));
        self
    }

    /// Whether the sink keeps the source's offsets with the rows.
    fn stores_offsets(&self) -> bool {
        self.delivery == DeliveryGuarantee::ExactlyOnce
            && self.sink.atomic_batch().is_none()
            && self.sink.capabilities().exactly_once == ExactlyOnce::StoredOffsets
    }

    /// Checks source, sink and what is promised, without reading or writing a row.
    ///
    /// # Errors
    /// As [`Source::check`] and [`Sink::check`]; `Unsupported` with the reason when the pair cannot keep
    /// the delivery guarantee. Cancel-safe.
    pub async fn check(&self) -> Result<()> {
        if self.delivery == DeliveryGuarantee::ExactlyOnce
            && let ExactlyOnce::Unsupported(reason) = self.sink.capabilities().exactly_once
        {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("exactly-once is not possible: {reason}"),
            )
            .with_context("sink", self.sink.connector()));
        }
        if self.stores_offsets() {
            let refuse = |text: &'static str| {
                Err(Error::new(ErrorKind::Unsupported, text).with_context("sink", self.sink.connector()))
            };
            if self.store.is_none() {
                return refuse(
                    "exactly-once needs a checkpoint store here: it keeps a copy of the offsets, in case the target forgets them",
                );
            }
            if self.source.deals_splits() {
                return refuse(
                    "exactly-once needs splits that stay with this pipeline, and the source lets a group deal them out among processes; \
                     assign them by hand",
                );
            }
        }
        if self.sink.atomic_batch().is_some() {
            let refuse = |text: &'static str| {
                Err(Error::new(ErrorKind::Unsupported, text).with_context("sink", self.sink.connector()))
            };
            if self.source.boundedness() != Boundedness::Bounded {
                return refuse(
                    "an atomic batch needs a source that ends; bound the source, or switch the atomic batch off",
                );
            }
            if self.store.is_none() {
                return refuse(
                    "an atomic batch needs a checkpoint store: it says where a commit that broke off goes on",
                );
            }
        }
        self.source.check().await?;
        self.sink.check(self.delivery).await?;
        match &self.dead_letters {
            Some((sink, _)) => sink.check(DeliveryGuarantee::AtLeastOnce).await,
            None => Ok(()),
        }
    }

    /// Runs until a bounded source is read to its end or `stop` is cancelled; either way everything
    /// read is flushed, stored and acknowledged, within the shutdown deadline after a stop.
    ///
    /// A checkpoint in the store wins over the source's startup mode. After an error the same pipeline
    /// built anew goes on from its last checkpoint.
    ///
    /// # Errors
    /// The first error of any chain; the other chains end cleanly before it is returned. `Timeout` when
    /// the shutdown deadline passed: rows since the last checkpoint come again. Dropping the future ends
    /// all tasks without a last flush.
    pub async fn run(self, stop: CancellationToken) -> Result<Report> {
        let started = Instant::now();
        self.check().await?;
        let mut report = run::Run::start(self, stop).await?.finish().await?;
        report.elapsed = started.elapsed();
        Ok(report)
    }
}
