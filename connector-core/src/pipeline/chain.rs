//! One chain: a reader task and a writer task with a bounded queue between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::{OwnedRwLockReadGuard, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    coordinator::{Coordinator, Pending},
    evolution::SchemaGate,
    metrics::ChainMetrics,
    queue,
    route::Router,
    token,
};
use crate::{
    bad_record::{BadRecord, dead_letter_batch},
    change::ChangeBatch,
    dynamic::DynWriter,
    error::{Error, ErrorKind, Result},
    schema::{SchemaChange, SchemaChangeKind, TableId},
    sink::{FlushToken, Flushed, RejectedRows, SinkWriter, SourceOffsets},
    source::{Source, SourceEvent, SourceReader},
    split::{Split, SplitId},
};

/// After this time a target is told again of offsets that did not move: some forget what is old.
const STORE_AGAIN: Duration = Duration::from_secs(86_400);

/// What a reader is told between two events.
pub(super) enum Command<S> {
    /// Everything before these offsets is durable and stored.
    Acknowledge(Vec<S>),
    /// Further splits to read.
    Add(Vec<S>),
}

/// Pulls events and hands them over until the source ends, `stop` is cancelled or the writer is gone;
/// then serves the writer's last commands and closes the reader.
pub(super) async fn read<R: SourceReader>(
    mut reader: R,
    queue: queue::Sender<SourceEvent<R::Split>>,
    mut commands: mpsc::UnboundedReceiver<Command<R::Split>>,
    stop: CancellationToken,
) -> Result<()> {
    let outcome = pull(&mut reader, &queue, &mut commands, &stop).await;
    drop(queue);
    while let Some(command) = commands.recv().await {
        if let Command::Acknowledge(splits) = command {
            acknowledge(&mut reader, &splits).await;
        }
    }
    let closed = reader.close().await;
    outcome.and(closed)
}

async fn pull<R: SourceReader>(
    reader: &mut R,
    queue: &queue::Sender<SourceEvent<R::Split>>,
    commands: &mut mpsc::UnboundedReceiver<Command<R::Split>>,
    stop: &CancellationToken,
) -> Result<()> {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            command = commands.recv() => match command {
                Some(Command::Acknowledge(splits)) => acknowledge(reader, &splits).await,
                Some(Command::Add(splits)) => add(reader, queue, splits).await?,
                None => return Ok(()),
            },
            event = reader.next() => {
                let Some(event) = event? else { return Ok(()) };
                let revoked = matches!(event, SourceEvent::Revoked { .. });
                let bytes = match &event {
                    SourceEvent::Batch { rows, .. } => rows.memory_size(),
                    _ => 0,
                };
                if queue.send(event, bytes).await.is_err() {
                    return Ok(());
                }
                // The next call of `next` lets revoked splits go: the writer acknowledges them first.
                if revoked && !serve_until_acknowledged(reader, queue, commands).await? {
                    return Ok(());
                }
            }
        }
    }
}

/// False when the writer is gone.
async fn serve_until_acknowledged<R: SourceReader>(
    reader: &mut R,
    queue: &queue::Sender<SourceEvent<R::Split>>,
    commands: &mut mpsc::UnboundedReceiver<Command<R::Split>>,
) -> Result<bool> {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Acknowledge(splits) => {
                acknowledge(reader, &splits).await;
                return Ok(true);
            }
            Command::Add(splits) => add(reader, queue, splits).await?,
        }
    }
    Ok(false)
}

/// Gives the reader splits that discovery found, and lets the writer know of them before their rows come.
async fn add<R: SourceReader>(
    reader: &mut R,
    queue: &queue::Sender<SourceEvent<R::Split>>,
    splits: Vec<R::Split>,
) -> Result<()> {
    // A writer that is gone ends the pull at its next event.
    queue.send(SourceEvent::Assigned { splits: splits.clone() }, 0).await.ok();
    reader.add_splits(splits).await
}

/// A failed acknowledgement loses nothing: the host's checkpoint is the truth.
async fn acknowledge<R: SourceReader>(reader: &mut R, splits: &[R::Split]) {
    if let Err(error) = reader.acknowledge(splits).await {
        tracing::warn!(%error, "the source did not take an acknowledgement; the checkpoint is stored all the same");
    }
}

/// What all chains share.
pub(super) struct Shared<S: Source> {
    pub(super) name: String,
    pub(super) coordinator: Coordinator<S>,
    pub(super) gate: SchemaGate,
    pub(super) schema_changes: BTreeSet<SchemaChangeKind>,
    pub(super) checkpoint_every: Duration,
    pub(super) deduplicated: bool,
    /// The target stores the offsets with the rows.
    pub(super) stores_offsets: bool,
    /// And tells the source's system.
    pub(super) sink_acknowledges: bool,
    /// In an atomic batch: the splits as far as they are flushed. Nothing is stored before the commit.
    pub(super) batch: Option<Mutex<BTreeMap<SplitId, S::Split>>>,
    pub(super) dead_letter_table: TableId,
}

/// What a chain did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) rows_read: u64,
    pub(super) rows_written: u64,
    pub(super) bytes_written: u64,
    pub(super) rows_rejected: u64,
    pub(super) dead_letters: u64,
    pub(super) flushes: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: Self) {
        self.rows_read += other.rows_read;
        self.rows_written += other.rows_written;
        self.bytes_written += other.bytes_written;
        self.rows_rejected += other.rows_rejected;
        self.dead_letters += other.dead_letters;
        self.flushes += other.flushes;
    }
}

/// The writing half of a chain.
pub(super) struct Chain<S: Source, W> {
    index: usize,
    shared: Arc<Shared<S>>,
    writer: W,
    dead_letters: Option<DynWriter>,
    router: Router,
    metrics: ChainMetrics,
    /// Every split of this chain at the offset behind the rows written so far.
    progress: BTreeMap<SplitId, S::Split>,
    /// Splits that moved since the last commit.
    moved: BTreeSet<SplitId>,
    /// Held while a restart would read rows again that were written: none of them may meet a changed table.
    gate: Option<OwnedRwLockReadGuard<()>>,
    /// Rows were written since the last flush.
    unflushed: bool,
    schema_changes_seen: usize,
    /// When the target stored offsets last.
    stored: Instant,
    totals: Totals,
}

impl<S: Source, W: SinkWriter> Chain<S, W> {
    pub(super) fn new(
        index: usize,
        shared: Arc<Shared<S>>,
        writer: W,
        dead_letters: Option<DynWriter>,
        router: Router,
        splits: &[S::Split],
    ) -> Self {
        Self {
            index,
            writer,
            dead_letters,
            router,
            metrics: ChainMetrics::new(&shared.name, index),
            progress: splits.iter().map(|split| (split.id(), split.clone())).collect(),
            moved: BTreeSet::new(),
            gate: None,
            unflushed: false,
            schema_changes_seen: shared.gate.count(),
            stored: Instant::now(),
            shared,
            totals: Totals::default(),
        }
    }

    /// Writes what the queue brings until the reader is done, with a last checkpoint at the end.
    pub(super) async fn run(
        mut self,
        mut queue: queue::Receiver<SourceEvent<S::Split>>,
        commands: mpsc::UnboundedSender<Command<S::Split>>,
    ) -> Result<Totals> {
        let outcome = self.drive(&mut queue, &commands).await;
        let closed = self.close().await;
        outcome.and(closed).map(|()| self.totals)
    }

    async fn close(&mut self) -> Result<()> {
        let closed = self.writer.close().await;
        match &mut self.dead_letters {
            Some(dead_letters) => closed.and(dead_letters.close().await),
            None => closed,
        }
    }

    async fn drive(
        &mut self,
        queue: &mut queue::Receiver<SourceEvent<S::Split>>,
        commands: &mpsc::UnboundedSender<Command<S::Split>>,
    ) -> Result<()> {
        if self.shared.stores_offsets {
            // Before the first announcement, so that a target that knows none has forgotten them.
            self.flush_writers(None).await?;
        }
        let mut drains = self.shared.gate.drain_requests();
        let mut checkpoint_at = Instant::now() + self.shared.checkpoint_every;
        loop {
            match self.next(queue, &mut drains, checkpoint_at).await {
                Step::Event(event) => self.handle(event, commands).await?,
                Step::Flush => self.flush(commands).await?,
                Step::Checkpoint => {
                    self.checkpoint(commands).await?;
                    checkpoint_at = Instant::now() + self.shared.checkpoint_every;
                }
                Step::End => return self.checkpoint(commands).await,
            }
        }
    }

    async fn next(
        &mut self,
        queue: &mut queue::Receiver<SourceEvent<S::Split>>,
        drains: &mut watch::Receiver<u64>,
        checkpoint_at: Instant,
    ) -> Step<S::Split> {
        let flush_at = if self.unflushed { self.writer.flush_due() } else { None };
        let due = flush_at.map_or(checkpoint_at, |at| at.min(checkpoint_at));
        let step = if due == checkpoint_at { Step::Checkpoint } else { Step::Flush };
        // The timer's ticks are coarse: what is due already does not wait for one.
        if due <= Instant::now() {
            return step;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(due.into()) => step,
            _ = drains.changed(), if self.gate.is_some() => Step::Checkpoint,
            event = queue.recv() => event.map_or(Step::End, Step::Event),
        }
    }

    async fn handle(
        &mut self,
        event: SourceEvent<S::Split>,
        commands: &mpsc::UnboundedSender<Command<S::Split>>,
    ) -> Result<()> {
        match event {
            SourceEvent::Batch { split, table, rows, next } => {
                self.write(&table, rows).await?;
                self.advance(&split, next)
            }
            SourceEvent::DeadLetters { split, records, next } => {
                self.dead_letter(&records).await?;
                self.advance(&split, next)
            }
            SourceEvent::Schema { split, change, next } => {
                self.change_schema(change, commands).await?;
                next.map_or(Ok(()), |next| self.advance(&split, next))
            }
            SourceEvent::Advanced { split, next } => self.advance(&split, next),
            SourceEvent::Finished { split } => {
                tracing::debug!(%split, "split finished");
                Ok(())
            }
            SourceEvent::Assigned { splits } => {
                self.moved.extend(splits.iter().map(Split::id));
                self.progress.extend(splits.into_iter().map(|split| (split.id(), split)));
                Ok(())
            }
            SourceEvent::Revoked { splits } => self.revoke(&splits, commands).await,
        }
    }

    fn advance(&mut self, id: &SplitId, next: <S::Split as Split>::Offset) -> Result<()> {
        let split = self.progress.get_mut(id).ok_or_else(|| {
            Error::new(ErrorKind::Unexpected, "the reader reports a split that this chain was not given")
                .with_context("split", id)
        })?;
        split.seek(next);
        self.moved.insert(id.clone());
        Ok(())
    }

    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        let count = rows.num_rows() as u64;
        self.totals.rows_read += count;
        self.metrics.rows_read.increment(count);
        self.metrics.bytes_read.increment(rows.memory_size() as u64);
        let (table, rows) = self.router.rows(table, rows)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.hold().await?;
        self.writer.write(&table, rows).await.map_err(|e| self.located(e))
    }

    /// Enters the schema gate before rows are written, and catches up with what other chains changed.
    async fn hold(&mut self) -> Result<()> {
        if self.gate.is_none() {
            self.gate = Some(self.shared.gate.enter().await);
            self.catch_up().await?;
        }
        self.unflushed = true;
        Ok(())
    }

    /// Lets the writer know of what other chains changed. It does not apply the changes again: rows written
    /// since would go with a second `TRUNCATE` or `DROP COLUMN`.
    async fn catch_up(&mut self) -> Result<Vec<SchemaChange>> {
        let changes = self.shared.gate.since(self.schema_changes_seen);
        for change in &changes {
            self.writer.refresh(change.table()).await.map_err(|e| self.located(e))?;
            self.schema_changes_seen += 1;
        }
        Ok(changes)
    }

    async fn dead_letter(&mut self, records: &[BadRecord]) -> Result<()> {
        let Some(writer) = &mut self.dead_letters else {
            return Err(no_dead_letter_sink());
        };
        let rows = ChangeBatch::append(dead_letter_batch(records)?);
        let count = rows.num_rows() as u64;
        writer.write(&self.shared.dead_letter_table, rows).await?;
        self.totals.dead_letters += count;
        self.metrics.dead_letters.increment(count);
        // Entering twice would wait for a chain that waits for this one.
        if self.gate.is_none() {
            self.gate = Some(self.shared.gate.enter().await);
        }
        self.unflushed = true;
        Ok(())
    }

    async fn change_schema(
        &mut self,
        change: SchemaChange,
        commands: &mpsc::UnboundedSender<Command<S::Split>>,
    ) -> Result<()> {
        let Some(change) = self.router.change(change)? else { return Ok(()) };
        let planned = self.shared.gate.plan(&change)?;
        if planned.is_empty() {
            tracing::info!(table = %change.table(), kind = change.kind().as_str(), "schema change left out by policy");
            return Ok(());
        }
        // Stored as well: a restart must not read rows of the old shape into the changed table.
        self.checkpoint(commands).await?;
        if change.kind() == SchemaChangeKind::CreateTable {
            self.writer.apply(&change).await.map_err(|e| self.located(e))?;
            self.shared.gate.announced(&change);
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let _all_flushed = shared.gate.drained().await;
        let earlier = self.catch_up().await?;
        for change in planned {
            // The same event in another split, which this chain had not come to.
            if earlier.contains(&change) {
                continue;
            }
            if self.apply_one(&change).await? {
                shared.gate.applied(&change);
                self.schema_changes_seen += 1;
                self.metrics.schema_changes.increment(1);
            }
        }
        Ok(())
    }

    /// False when the change could not be applied and the policy says to go on.
    async fn apply_one(&mut self, change: &SchemaChange) -> Result<bool> {
        let outcome = if self.shared.schema_changes.contains(&change.kind()) {
            self.writer.apply(change).await
        } else {
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("the sink cannot apply a {}", change.kind().as_str()),
            ))
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(error) if self.shared.gate.tolerates_failure() => {
                tracing::warn!(table = %change.table(), kind = change.kind().as_str(), %error, "schema change failed; rows go on");
                Ok(false)
            }
            Err(error) => Err(self.located(error).with_context("table", change.table())),
        }
    }

    async fn revoke(
        &mut self,
        splits: &[S::Split],
        commands: &mpsc::UnboundedSender<Command<S::Split>>,
    ) -> Result<()> {
        self.flush(commands).await?;
        self.commit(commands, true).await?;
        for split in splits {
            self.progress.remove(&split.id());
        }
        self.shared.coordinator.forget(splits.iter().map(Split::id)).await
    }

    async fn checkpoint(&mut self, commands: &mpsc::UnboundedSender<Command<S::Split>>) -> Result<()> {
        if self.shared.stores_offsets && !self.unflushed && self.stored.elapsed() > STORE_AGAIN {
            self.flush_writers(None).await?;
        }
        self.flush(commands).await?;
        self.commit(commands, false).await
    }

    /// Makes all rows written so far durable. Where a flush is to have its effect once, that is a checkpoint too.
    async fn flush(&mut self, commands: &mpsc::UnboundedSender<Command<S::Split>>) -> Result<()> {
        if !self.unflushed {
            return Ok(());
        }
        if self.shared.deduplicated || self.shared.stores_offsets {
            let until: Vec<S::Split> = self.moved_splits();
            let base = self.shared.coordinator.splits().await;
            let token = token::of_range(&self.shared.name, &base, &until)?;
            self.shared.coordinator.announce(self.index, Pending { token: token.clone(), until }).await?;
            self.flush_writers(Some(&token)).await?;
            return self.commit(commands, false).await;
        }
        self.flush_writers(None).await
    }

    /// Flushes the sink, the offsets with it where it stores them.
    async fn flush_writer(&mut self, token: Option<&FlushToken>) -> Result<Flushed> {
        if !self.shared.stores_offsets {
            return self.writer.flush(token).await;
        }
        // What the stored offsets pass has to be safe before.
        if let Some(writer) = &mut self.dead_letters {
            writer.flush(None).await?;
        }
        let flushed = self.writer.flush_with(&SourceOffsets::of(self.progress.values())?).await?;
        self.stored = Instant::now();
        Ok(flushed)
    }

    /// Flushes both sinks.
    async fn flush_writers(&mut self, token: Option<&FlushToken>) -> Result<()> {
        let started = Instant::now();
        let flushed = self.flush_writer(token).await.map_err(|e| self.located(e))?;
        self.reject(flushed.rejected).await?;
        if let Some(writer) = &mut self.dead_letters {
            writer.flush(None).await?;
        }
        self.unflushed = false;
        self.totals.rows_written += flushed.rows;
        self.totals.bytes_written += flushed.bytes;
        self.totals.flushes += 1;
        self.metrics.rows_written.increment(flushed.rows);
        self.metrics.bytes_written.increment(flushed.bytes);
        self.metrics.flushes.increment(1);
        self.metrics.flush_seconds.record(started.elapsed().as_secs_f64());
        self.metrics.flush_rows.record(f64::from(u32::try_from(flushed.rows).unwrap_or(u32::MAX)));
        tracing::debug!(chain = self.index, rows = flushed.rows, bytes = flushed.bytes, elapsed = ?started.elapsed(), "flushed");
        Ok(())
    }

    /// Counts rows that the target cannot hold, and writes them to the dead-letter sink where there is one.
    async fn reject(&mut self, rejected: Vec<RejectedRows>) -> Result<()> {
        for rows in rejected {
            let count = rows.rows.num_rows() as u64;
            self.totals.rows_rejected += count;
            self.metrics.rows_rejected.increment(count);
            if rows.dead_letter {
                let records = rows.to_bad_records()?;
                self.dead_letter(&records).await?;
            }
        }
        Ok(())
    }

    fn moved_splits(&self) -> Vec<S::Split> {
        self.moved.iter().filter_map(|id| self.progress.get(id)).cloned().collect()
    }

    /// Stores the offsets that are durable and tells the reader. `always` tells it even when nothing moved.
    async fn commit(
        &mut self,
        commands: &mpsc::UnboundedSender<Command<S::Split>>,
        always: bool,
    ) -> Result<()> {
        let splits = self.moved_splits();
        if splits.is_empty() && !always {
            self.gate = None;
            return Ok(());
        }
        if let Some(batch) = &self.shared.batch {
            let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
            batch.extend(splits.into_iter().map(|split| (split.id(), split)));
            self.gate = None;
            return Ok(());
        }
        self.shared.coordinator.commit(self.index, &splits).await?;
        tracing::debug!(chain = self.index, splits = splits.len(), "checkpoint stored");
        self.moved.clear();
        // Other chains may change tables again.
        self.gate = None;
        self.metrics.checkpoints.increment(1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.metrics.checkpoint_time.set(now.as_secs_f64());
        // A reader that is gone needs no acknowledgement.
        let told = if self.shared.sink_acknowledges { Vec::new() } else { splits };
        commands.send(Command::Acknowledge(told)).ok();
        Ok(())
    }

    fn located(&self, error: Error) -> Error {
        error.with_context("pipeline", &self.shared.name).with_context("chain", self.index)
    }

    /// Reads a range that an earlier run announced, and flushes it under the token of then.
    pub(super) async fn repeat(mut self, mut reader: S::Reader, flush: &Pending<S::Split>) -> Result<Totals> {
        let (commands, _nobody) = mpsc::unbounded_channel();
        while let Some(event) = reader.next().await? {
            self.handle_repeated(event, &commands).await?;
        }
        self.flush_writers(Some(&flush.token)).await?;
        self.shared.coordinator.commit(self.index, &flush.until).await?;
        reader.close().await?;
        self.close().await?;
        Ok(self.totals)
    }

    /// As `handle`, but nothing may flush before the end of the range.
    async fn handle_repeated(
        &mut self,
        event: SourceEvent<S::Split>,
        commands: &mpsc::UnboundedSender<Command<S::Split>>,
    ) -> Result<()> {
        match event {
            SourceEvent::Schema { change, next: None, .. } => {
                let Some(change) = self.router.change(change)? else { return Ok(()) };
                self.writer.apply(&change).await.map_err(|e| self.located(e))
            }
            event => self.handle(event, commands).await,
        }
    }
}

enum Step<S: Split> {
    Event(SourceEvent<S>),
    Flush,
    Checkpoint,
    End,
}

pub(super) fn no_dead_letter_sink() -> Error {
    Error::new(
        ErrorKind::OptionInvalid,
        "the policy is `dead-letter`, and the pipeline has no dead-letter sink; name one with `Pipeline::dead_letters`",
    )
}
