//! [`FlussReader`]: what a program pulls events from.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
};

use connector_core::{
    Boundedness, Error, ErrorKind, Result, SchemaChange, SourceEvent, SourceReader, Split as _, SplitId,
    async_trait,
};
use futures_util::{
    StreamExt as _,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use tokio::sync::Semaphore;

use super::{
    metrics::SourceMetrics,
    plan::Plan,
    split::FlussSplit,
    worker::{Step, Worker},
};

type Running = Pin<Box<dyn Future<Output = (SplitId, Worker, Result<Step>)> + Send>>;

struct Entry {
    split: FlussSplit,
    finished: bool,
    announced: bool,
    /// Ends the work on the split.
    running: AbortHandle,
}

/// Reads buckets of a Fluss table, each with a scanner of its own on one connection.
///
/// See [`SourceReader`] for what each method promises. Nothing runs between calls of `next` but the client's own
/// fetching, which `client.scanner.log.fetch.max-bytes-for-bucket` bounds for each bucket. Events of different splits come in
/// no particular order; those of one split in the log's order.
pub struct FlussReader {
    plan: Arc<Plan>,
    metrics: Arc<SourceMetrics>,
    snapshots: Arc<Semaphore>,
    splits: BTreeMap<SplitId, Entry>,
    steps: FuturesUnordered<Abortable<Running>>,
    ready: VecDeque<SourceEvent<FlussSplit>>,
    failed: bool,
    closed: bool,
}

impl fmt::Debug for FlussReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlussReader")
            .field("table", &self.plan.table)
            .field("splits", &self.splits.keys().map(SplitId::as_str).collect::<Vec<_>>())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl FlussReader {
    pub(crate) async fn open(plan: Plan, splits: Vec<FlussSplit>) -> Result<Self> {
        let mut reader = Self {
            plan: Arc::new(plan),
            metrics: Arc::new(SourceMetrics::new()),
            snapshots: Arc::new(Semaphore::new(1)),
            splits: BTreeMap::new(),
            steps: FuturesUnordered::new(),
            ready: VecDeque::new(),
            failed: false,
            closed: false,
        };
        reader.take_in("fluss.open", splits).await?;
        Ok(reader)
    }

    async fn take_in(&mut self, operation: &'static str, mut splits: Vec<FlussSplit>) -> Result<()> {
        let mut ids = BTreeSet::new();
        for id in splits.iter().map(FlussSplit::id) {
            if self.splits.contains_key(&id) || !ids.insert(id.clone()) {
                return Err(Error::new(ErrorKind::Conflict, "the reader has this split already")
                    .with_operation(operation)
                    .with_context("split", id));
            }
        }
        self.plan.admit(operation, &mut splits, &self.metrics).await?;
        for split in splits {
            let worker = Worker::new(
                Arc::clone(&self.plan),
                Arc::clone(&self.metrics),
                Arc::clone(&self.snapshots),
                split.clone(),
            );
            let running = self.start(split.id(), worker);
            self.splits.insert(split.id(), Entry { split, finished: false, announced: false, running });
        }
        Ok(())
    }

    /// Lets a worker take its next step, as soon as `next` is called.
    fn start(&self, id: SplitId, mut worker: Worker) -> AbortHandle {
        let (handle, registration) = AbortHandle::new_pair();
        let step: Running = Box::pin(async move {
            let step = worker.step().await;
            (id, worker, step)
        });
        self.steps.push(Abortable::new(step, registration));
        handle
    }

    fn take_step(&mut self, id: &SplitId, worker: Worker, step: Step) {
        let Some(entry) = self.splits.get_mut(id) else { return };
        match step {
            Step::Finished => {
                self.ready.push_back(SourceEvent::Finished { split: id.clone() });
                return;
            }
            Step::Moved(next) => self.ready.push_back(SourceEvent::Advanced { split: id.clone(), next }),
            Step::Rows(batches) => {
                let table = &self.plan.table;
                if !std::mem::replace(&mut entry.announced, true) {
                    let change =
                        SchemaChange::CreateTable { table: table.clone(), schema: self.plan.announcement() };
                    self.ready.push_back(SourceEvent::Schema { split: id.clone(), change, next: None });
                }
                self.ready.extend(batches.into_iter().map(|(rows, next)| SourceEvent::Batch {
                    split: id.clone(),
                    table: table.clone(),
                    rows,
                    next,
                }));
            }
        }
        let running = self.start(id.clone(), worker);
        if let Some(entry) = self.splits.get_mut(id) {
            entry.running = running;
        }
    }

    /// Notes what an event says about its split.
    fn note(&mut self, event: &SourceEvent<FlussSplit>) {
        match event {
            SourceEvent::Batch { split, next, .. } | SourceEvent::Advanced { split, next } => {
                if let Some(entry) = self.splits.get_mut(split) {
                    entry.split.seek(next.clone());
                }
            }
            SourceEvent::Finished { split } => {
                if let Some(entry) = self.splits.get_mut(split) {
                    entry.finished = true;
                }
            }
            _ => {}
        }
    }

    fn boundedness(&self) -> Boundedness {
        if self.plan.options.scan_bounded { Boundedness::Bounded } else { Boundedness::Unbounded }
    }

    /// True when no further event can come.
    fn is_at_end(&self) -> bool {
        let ends = self.boundedness() == Boundedness::Bounded
            || self.splits.values().any(|entry| entry.split.end.is_some());
        ends && self.splits.values().all(|entry| entry.finished)
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        if self.closed || self.failed {
            let text = if self.closed {
                "the reader is closed"
            } else {
                "the reader failed before; close it and open another one from the checkpoint"
            };
            return Err(Error::new(ErrorKind::Closed, text).with_operation(operation));
        }
        Ok(())
    }
}

fn split_of(event: &SourceEvent<FlussSplit>) -> Option<&SplitId> {
    match event {
        SourceEvent::Batch { split, .. }
        | SourceEvent::Advanced { split, .. }
        | SourceEvent::Finished { split }
        | SourceEvent::Schema { split, .. } => Some(split),
        _ => None,
    }
}

#[async_trait]
impl SourceReader for FlussReader {
    type Split = FlussSplit;

    async fn next(&mut self) -> Result<Option<SourceEvent<FlussSplit>>> {
        self.check_open("fluss.next")?;
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.note(&event);
                return Ok(Some(event));
            }
            if self.is_at_end() {
                return Ok(None);
            }
            // What a dropped future has begun goes on with the next call.
            match self.steps.next().await {
                Some(Ok((id, worker, Ok(step)))) => self.take_step(&id, worker, step),
                Some(Ok((_, _, Err(error)))) => {
                    self.failed = true;
                    return Err(error);
                }
                // The split was removed.
                Some(Err(_)) => {}
                // Nothing to read, and splits may yet be added.
                None => std::future::pending::<()>().await,
            }
        }
    }

    async fn add_splits(&mut self, splits: Vec<FlussSplit>) -> Result<()> {
        self.check_open("fluss.add_splits")?;
        self.take_in("fluss.add_splits", splits).await
    }

    async fn remove_splits(&mut self, ids: &[SplitId]) -> Result<Vec<FlussSplit>> {
        self.check_open("fluss.remove_splits")?;
        let gone: Vec<Entry> = ids.iter().filter_map(|id| self.splits.remove(id)).collect();
        self.ready.retain(|event| split_of(event).is_none_or(|split| !ids.contains(split)));
        Ok(gone
            .into_iter()
            .map(|entry| {
                entry.running.abort();
                entry.split
            })
            .collect())
    }

    fn splits(&self) -> Vec<FlussSplit> {
        self.splits.values().map(|entry| entry.split.clone()).collect()
    }

    /// Fluss keeps no positions of readers: there is nothing to do.
    async fn acknowledge(&mut self, _splits: &[FlussSplit]) -> Result<()> {
        self.check_open("fluss.acknowledge")
    }

    async fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.ready.clear();
        self.steps = FuturesUnordered::new();
        Ok(())
    }
}
