//! One run of a pipeline: restores or discovers splits, starts the chains, waits for their end.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    Pipeline, Report, SplitReport,
    chain::{self, Chain, Command, Shared, Totals},
    coordinator::{Coordinator, Pending},
    evolution::SchemaGate,
    metrics, queue,
    route::Router,
};
use crate::{
    dynamic::DynWriter,
    error::{Error, ErrorKind, Result},
    schema::TableId,
    sink::{AtomicBatch, DeliveryGuarantee, ExactlyOnce, Sink, SourceOffsets, WriterContext},
    source::{Boundedness, Source},
    split::{Split, SplitId},
};

pub(super) struct Run<S: Source, K: Sink> {
    pipeline: Pipeline<S, K>,
    shared: Arc<Shared<S>>,
    tasks: JoinSet<Result<Totals>>,
    /// The chains' readers, for splits that are found later.
    readers: Vec<mpsc::WeakUnboundedSender<Command<S::Split>>>,
    /// How many chains there are.
    chains: usize,
    stop: CancellationToken,
    begun: BTreeMap<SplitId, Option<String>>,
    resumed: bool,
    totals: Totals,
    batch: Option<Arc<dyn AtomicBatch>>,
    host_stop: CancellationToken,
}

impl<S: Source, K: Sink> Run<S, K> {
    /// Restores the checkpoint, repeats what it says was under way, and starts the chains.
    pub(super) async fn start(pipeline: Pipeline<S, K>, host_stop: CancellationToken) -> Result<Self> {
        let (coordinator, pending, resumed) =
            Coordinator::load(Arc::clone(&pipeline.source), pipeline.store.clone()).await?;
        let capabilities = pipeline.sink.capabilities();
        let batch = pipeline.sink.atomic_batch();
        let deduplicated = batch.is_none()
            && pipeline.delivery == DeliveryGuarantee::ExactlyOnce
            && capabilities.exactly_once == ExactlyOnce::DeduplicatedFlush;
        let shared = Arc::new(Shared {
            name: pipeline.name.clone(),
            coordinator,
            gate: SchemaGate::new(pipeline.schema_policy.clone()),
            schema_changes: capabilities.schema_changes,
            checkpoint_every: pipeline.checkpoint_every,
            deduplicated,
            stores_offsets: pipeline.stores_offsets(),
            sink_acknowledges: pipeline.stores_offsets() && pipeline.sink.acknowledges(),
            batch: batch.is_some().then(Mutex::default),
            dead_letter_table: pipeline
                .dead_letters
                .as_ref()
                .map_or_else(|| TableId::new("", ""), |(_, table)| table.clone()),
        });
        let mut run = Self {
            pipeline,
            shared,
            tasks: JoinSet::new(),
            readers: Vec::new(),
            chains: 1,
            stop: host_stop.child_token(),
            begun: BTreeMap::new(),
            resumed,
            totals: Totals::default(),
            batch,
            host_stop,
        };
        let stored = if run.shared.stores_offsets { Some(run.recover(&pending).await?) } else { None };
        for flush in pending {
            match run.batch.clone() {
                // What the target stored says what became of it.
                _ if stored.is_some() => {}
                Some(batch) => run.go_on_with_commit(&*batch, flush).await?,
                None => run.repeat(flush).await?,
            }
        }
        if let Some(batch) = &run.batch {
            batch.begin(&run.pipeline.name).await?;
        }
        let mut splits = run.splits().await?;
        if let Some(stored) = stored {
            run.rewind(&mut splits, &stored).await?;
        }
        run.begun =
            splits.iter().map(|split| (split.id(), split.offset().map(ToString::to_string))).collect();
        run.start_chains(splits).await?;
        Ok(run)
    }

    /// Restored splits and those that are new. The first offsets are stored before a row is read, so that a
    /// crash before the first checkpoint does not move a start at `latest`.
    async fn splits(&self) -> Result<Vec<S::Split>> {
        let known = self.shared.coordinator.splits().await;
        let ids: Vec<SplitId> = known.iter().map(Split::id).collect();
        let new = self.pipeline.source.discover(&ids).await?;
        if !new.is_empty() {
            self.shared.coordinator.commit(usize::MAX, &new).await?;
        }
        tracing::info!(
            pipeline = self.shared.name,
            restored = known.len(),
            new = new.len(),
            resumed = self.resumed,
            "pipeline starts"
        );
        Ok(self.shared.coordinator.splits().await)
    }

    /// Ends earlier runs and asks the target for the offsets that it stored with their rows.
    async fn recover(&self, pending: &[Pending<S::Split>]) -> Result<SourceOffsets> {
        let stored = self.pipeline.sink.recover(&self.pipeline.name).await?.unwrap_or_default();
        // Each chain stores its offsets before it announces a flush: they are gone, and with them the outcome.
        let unknown =
            pending.iter().flat_map(|flush| &flush.until).find(|until| !stored.contains(&until.id()));
        match unknown {
            None => Ok(stored),
            Some(split) => Err(Error::new(
                ErrorKind::CheckpointInvalid,
                "a flush was under way when the last run ended, and the target does not know any more whether it was done: \
                 compare the target with the source, and go on under another pipeline name from a checkpoint without pending flushes",
            )
            .with_context("split", split.id())
            .with_context("pipeline", &self.pipeline.name)),
        }
    }

    /// Moves splits to the offsets that the target stored, where those are further than the checkpoint's or cannot be
    /// compared with them, and stores that: from here on the target may forget what earlier chains stored.
    async fn rewind(&self, splits: &mut [S::Split], stored: &SourceOffsets) -> Result<()> {
        for split in splits.iter_mut() {
            let Some(offset) = stored.get::<S::Split>(&split.id())? else { continue };
            if split.offset().and_then(|known| offset.partial_cmp(known)) != Some(std::cmp::Ordering::Less) {
                split.seek(offset);
            }
        }
        self.shared.coordinator.commit(usize::MAX, splits).await
    }

    /// Deals the splits out and starts a reader and a writer task a chain.
    async fn start_chains(&mut self, splits: Vec<S::Split>) -> Result<()> {
        let bounded = self.pipeline.source.boundedness() == Boundedness::Bounded;
        let suggested = || self.pipeline.source.suggested_parallelism(splits.len());
        self.chains = self.pipeline.parallelism.or_else(suggested).unwrap_or(1).max(1);
        let mut hands: Vec<Vec<S::Split>> = vec![Vec::new(); self.chains];
        for (i, split) in splits.into_iter().enumerate() {
            hands[i % self.chains].push(split);
        }
        for (index, hand) in hands.into_iter().enumerate() {
            if hand.is_empty() && bounded {
                continue;
            }
            let chain = self.chain(index, &hand).await?;
            let reader = self.pipeline.source.open(hand).await?;
            let in_flight = metrics::in_flight(&self.pipeline.name, index);
            let (sender, receiver) = queue::channel(self.pipeline.queue_bytes, in_flight);
            let (commands, orders) = mpsc::unbounded_channel();
            self.readers.push(commands.downgrade());
            let stop = self.stop.clone();
            let pipeline = self.pipeline.name.as_str();
            let reading =
                async move { chain::read(reader, sender, orders, stop).await.map(|()| Totals::default()) };
            self.tasks.spawn(reading.instrument(tracing::info_span!("reader", pipeline, chain = index)));
            let writing = chain.run(receiver, commands);
            self.tasks.spawn(writing.instrument(tracing::info_span!("writer", pipeline, chain = index)));
        }
        Ok(())
    }

    async fn chain(&self, index: usize, splits: &[S::Split]) -> Result<Chain<S, K::Writer>> {
        let context = self.context(index);
        let writer = self.pipeline.sink.open(context.clone()).await?;
        let dead_letters: Option<DynWriter> = match &self.pipeline.dead_letters {
            Some((sink, _)) => {
                Some(sink.open(WriterContext { delivery: DeliveryGuarantee::AtLeastOnce, ..context }).await?)
            }
            None => None,
        };
        let router = Router::new(self.pipeline.routes.clone(), self.pipeline.transforms.clone());
        Ok(Chain::new(index, Arc::clone(&self.shared), writer, dead_letters, router, splits))
    }

    fn context(&self, chain: usize) -> WriterContext {
        WriterContext {
            pipeline: self.pipeline.name.clone(),
            chain,
            chains: self.chains,
            delivery: self.pipeline.delivery,
            unknown_columns: self.shared.gate.unknown_columns(),
        }
    }

    /// Ends the commit of an earlier run.
    async fn go_on_with_commit(&self, batch: &dyn AtomicBatch, pending: Pending<S::Split>) -> Result<()> {
        tracing::info!(pipeline = self.shared.name, batch = %pending.token, "going on with a commit that broke off");
        self.commit_batch(batch, pending).await
    }

    /// Makes an announced batch visible and stores its end.
    async fn commit_batch(&self, batch: &dyn AtomicBatch, pending: Pending<S::Split>) -> Result<()> {
        batch.commit(&pending.token).await?;
        self.shared.coordinator.commit(usize::MAX, &pending.until).await?;
        if let Err(error) = batch.finish(&pending.token).await {
            tracing::warn!(pipeline = self.shared.name, %error, "what a commit leaves could not be taken away; the next run does");
        }
        Ok(())
    }

    /// The end of an atomic batch: all of it, or nothing.
    async fn end_batch(&self, batch: &dyn AtomicBatch) -> Result<()> {
        let flushed = self.shared.batch.as_ref().map(|flushed| {
            let flushed = flushed.lock().unwrap_or_else(PoisonError::into_inner);
            flushed.values().cloned().collect::<Vec<_>>()
        });
        let until = flushed.unwrap_or_default();
        let Some(token) = batch.prepare().await? else {
            return self.shared.coordinator.commit(usize::MAX, &until).await;
        };
        let announced = Pending { token: token.clone(), until: until.clone() };
        self.shared.coordinator.announce(usize::MAX, announced).await?;
        self.commit_batch(batch, Pending { token, until }).await
    }

    /// Commits what all chains wrote, or takes it away when one failed or the host stopped before the end.
    async fn settle_batch(&self, failure: Option<Error>) -> Option<Error> {
        let Some(batch) = &self.batch else { return failure };
        let failure = failure.or_else(|| {
            self.host_stop.is_cancelled().then(|| {
                Error::new(
                    ErrorKind::Closed,
                    "the batch was stopped before its end: the target is as it was, and the next run writes it anew",
                )
            })
        });
        let Some(failure) = failure else { return self.end_batch(&**batch).await.err() };
        if let Err(error) = batch.abort().await {
            tracing::warn!(pipeline = self.shared.name, %error, "what a failed batch wrote could not be taken away; the next run does");
        }
        Some(failure)
    }

    /// Repeats a flush whose outcome is not known: the same rows under the same token.
    async fn repeat(&mut self, flush: Pending<S::Split>) -> Result<()> {
        tracing::info!(pipeline = self.shared.name, token = %flush.token, "repeating a flush that was under way");
        let known = self.shared.coordinator.splits().await;
        let mut splits = Vec::with_capacity(flush.until.len());
        for until in &flush.until {
            let mut split =
                known.iter().find(|split| split.id() == until.id()).cloned().ok_or_else(|| {
                    Error::new(
                        ErrorKind::CheckpointInvalid,
                        "a pending flush covers a split that the checkpoint lacks",
                    )
                    .with_context("split", until.id())
                })?;
            if let Some(end) = until.offset() {
                split.end_before(end);
            }
            splits.push(split);
        }
        // The range's own chain: its end must not stay in the splits that are stored.
        let chain = self.chain(0, &known).await?;
        let reader = self.pipeline.source.open(splits).await?;
        let totals = chain.repeat(reader, &flush).await?;
        self.totals.add(totals);
        Ok(())
    }

    /// Waits for all chains; the first error stops the others.
    pub(super) async fn finish(mut self) -> Result<Report> {
        let mut failure: Option<Error> = None;
        let mut deadline: Option<Instant> = None;
        let interval = self.pipeline.source.discovery_interval();
        let mut discover_at = interval.map(|every| Instant::now() + every);
        loop {
            let far = Instant::now() + std::time::Duration::from_secs(86_400);
            tokio::select! {
                joined = self.tasks.join_next() => match joined {
                    None => break,
                    Some(outcome) => self.joined(outcome, &mut failure),
                },
                () = self.stop.cancelled(), if deadline.is_none() => {
                    deadline = Some(Instant::now() + self.pipeline.shutdown_deadline);
                }
                () = tokio::time::sleep_until(deadline.unwrap_or(far)), if deadline.is_some() => {
                    self.tasks.abort_all();
                    failure.get_or_insert(Error::new(
                        ErrorKind::Timeout,
                        "the pipeline did not end within its shutdown deadline; rows since the last checkpoint come again",
                    ));
                }
                () = tokio::time::sleep_until(discover_at.unwrap_or(far)), if discover_at.is_some() && deadline.is_none() => {
                    self.discover().await;
                    discover_at = interval.map(|every| Instant::now() + every);
                }
            }
        }
        match self.settle_batch(failure).await {
            Some(error) => Err(error),
            None => Ok(self.report().await),
        }
    }

    fn joined(&mut self, outcome: Result<Result<Totals>, JoinError>, failure: &mut Option<Error>) {
        match outcome {
            Ok(Ok(totals)) => self.totals.add(totals),
            Ok(Err(error)) => {
                tracing::error!(pipeline = self.shared.name, %error, "a chain failed; the pipeline ends");
                failure.get_or_insert(error);
                self.stop.cancel();
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                failure
                    .get_or_insert(Error::new(ErrorKind::Unexpected, "a chain panicked").with_source(error));
                self.stop.cancel();
            }
        }
    }

    /// Gives new splits to the chains in turn. A failed look is repeated at the next interval.
    async fn discover(&mut self) {
        let known = self.shared.coordinator.splits().await;
        let ids: Vec<SplitId> = known.iter().map(Split::id).collect();
        let new = match self.pipeline.source.discover(&ids).await {
            Ok(new) if new.is_empty() => return,
            Ok(new) => new,
            Err(error) => {
                tracing::warn!(pipeline = self.shared.name, %error, "discovery failed; it is tried again");
                return;
            }
        };
        if let Err(error) = self.shared.coordinator.commit(usize::MAX, &new).await {
            tracing::warn!(pipeline = self.shared.name, %error, "new splits could not be stored; they are found again");
            return;
        }
        for (i, split) in new.into_iter().enumerate() {
            tracing::info!(pipeline = self.shared.name, split = %split.id(), "new split");
            let reader = &self.readers[(known.len() + i) % self.readers.len()];
            if let Some(reader) = reader.upgrade() {
                // A reader that has ended takes no more splits; the next start does.
                reader.send(Command::Add(vec![split])).ok();
            }
        }
    }

    async fn report(&self) -> Report {
        let splits = self.shared.coordinator.splits().await;
        Report {
            rows_read: self.totals.rows_read,
            rows_written: self.totals.rows_written,
            bytes_written: self.totals.bytes_written,
            rows_rejected: self.totals.rows_rejected,
            dead_letters: self.totals.dead_letters,
            flushes: self.totals.flushes,
            checkpoints: self.shared.coordinator.stored(),
            resumed: self.resumed,
            splits: splits
                .iter()
                .map(|split| SplitReport {
                    split: split.id(),
                    from: self.begun.get(&split.id()).cloned().flatten(),
                    to: split.offset().map(ToString::to_string),
                })
                .collect(),
            elapsed: std::time::Duration::ZERO,
        }
    }
}
