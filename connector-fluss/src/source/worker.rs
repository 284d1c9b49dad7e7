//! Reads one split: the rows of its bucket as they are, where the read begins with them, and then its log.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    ChangeBatch, Error, ErrorKind, Result, RetryState, Split as _,
    arrow::{array::RecordBatch, compute::concat_batches},
    retry::RetryPolicy,
};
use fluss::client::{LogScanner, RecordBatchLogScanner};
use tokio::sync::Semaphore;

use super::{
    changes::{Changes, Keys, unexpected},
    discovery::Range,
    metrics::SourceMetrics,
    plan::Plan,
    snapshot::Snapshot,
    split::{FlussOffset, FlussSplit, Part},
};
use crate::{client::within, connection::Connection, error::is_out_of_range};

/// How long a poll waits for rows.
const POLL: Duration = Duration::from_secs(1);
/// Batches of fewer rows than this are joined, as many as one poll gives.
const SMALL_BATCH: usize = 4096;

/// A changelog has batches without rows, of writes that changed nothing, and the client does not tell that it went past them. After
/// so many times of silence, each on a new connection and with the server answering other questions, what the log had at the
/// first of them counts as such batches.
const SILENT_TIMES: u32 = 2;

/// What one step of reading gave.
pub(crate) enum Step {
    /// Rows, each batch with the offset behind it.
    Rows(Vec<(ChangeBatch, FlussOffset)>),
    /// No rows, and a new offset.
    Moved(FlussOffset),
    /// The split's end.
    Finished,
}

enum Scanner {
    /// Whole batches, of log tables.
    Batches(RecordBatchLogScanner),
    /// Changes with their kinds.
    Changes(LogScanner),
}

struct LogScan {
    connection: Arc<Connection>,
    scanner: Scanner,
    /// Since when nothing has come.
    quiet: Instant,
}

enum Phase {
    Idle,
    Snapshot(Snapshot),
    Log(LogScan),
}

/// What a closer look at a split found.
enum Look {
    /// Its partition is gone.
    Dropped,
    There(Range),
}

/// Reads one split.
pub(crate) struct Worker {
    pub(crate) plan: Arc<Plan>,
    pub(crate) metrics: Arc<SourceMetrics>,
    /// One bucket at a time is in memory.
    pub(crate) snapshots: Arc<Semaphore>,
    split: FlussSplit,
    phase: Phase,
    keys: Option<Keys>,
    /// Where the log ended when it first gave nothing although it should, and how often it did so since.
    silent: Option<(i64, u32)>,
}

impl Worker {
    pub(crate) fn new(
        plan: Arc<Plan>,
        metrics: Arc<SourceMetrics>,
        snapshots: Arc<Semaphore>,
        split: FlussSplit,
    ) -> Self {
        Self { plan, metrics, snapshots, split, phase: Phase::Idle, keys: None, silent: None }
    }

    /// The next rows. Errors that may pass are tried again for as long as servers may be away.
    pub(crate) async fn step(&mut self) -> Result<Step> {
        let since = Instant::now();
        let policy = RetryPolicy {
            max_retries: None,
            min_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
        };
        let mut backoffs = policy.backoffs();
        loop {
            let error = match self.try_step().await {
                Ok(step) => return Ok(step),
                Err(error) => error,
            };
            if let Phase::Log(scan) = std::mem::replace(&mut self.phase, Phase::Idle) {
                self.plan.client.give_up(&scan.connection);
            }
            if is_permanent(&error) && !is_out_of_range(&error) && error.kind() != ErrorKind::NotFound {
                return Err(self.named(error));
            }
            // The client's words for a dropped partition, an old offset and a server that is away are much the same.
            match self.look().await {
                Ok(Look::Dropped) => return Ok(self.dropped()),
                Ok(Look::There(_)) => {}
                Err(worse) if is_permanent(&worse) => return Err(self.named(worse)),
                Err(_) => {}
            }
            if since.elapsed() >= self.plan.client.patience() {
                return Err(self.named(error.with_retry(RetryState::Exhausted)));
            }
            let wait = backoffs.next().unwrap_or(policy.max_backoff);
            tracing::warn!(table = %self.plan.table, split = %self.split.id(), error = %error, ?wait, "reading is tried again");
            self.metrics.retries.increment(1);
            tokio::time::sleep(wait).await;
        }
    }

    fn named(&self, error: Error) -> Error {
        let error = error.with_context("table", &self.plan.table).with_context("split", self.split.id());
        error.with_context("offset", &self.split.offset)
    }

    fn dropped(&self) -> Step {
        tracing::info!(table = %self.plan.table, split = %self.split.id(), "the partition was dropped");
        self.metrics.dropped_partitions.increment(1);
        Step::Finished
    }

    /// Whether table, partition and offset are still what they were. Moves the split where the options say so.
    async fn look(&mut self) -> Result<Look> {
        const OPERATION: &str = "fluss.read";
        let now = self.plan.client.table(OPERATION, &self.plan.table).await?;
        if now.get_table_id() != self.split.table_id {
            let text = "the table was dropped and created again while it was read; start without a checkpoint to read the new table";
            return Err(Error::new(ErrorKind::CheckpointInvalid, text).with_operation(OPERATION));
        }
        if !self.plan.partitions(OPERATION).await?.contains(&self.split.partition) {
            return Ok(Look::Dropped);
        }
        let range = self.plan.range(OPERATION, &self.split).await?;
        self.plan.check_range(OPERATION, &mut self.split, range, &self.metrics)?;
        Ok(Look::There(range))
    }

    async fn try_step(&mut self) -> Result<Step> {
        if self.split.is_at_end() {
            self.phase = Phase::Idle;
            return Ok(Step::Finished);
        }
        match self.split.offset.clone() {
            FlussOffset::Snapshot { parts } => self.snapshot_step(&parts).await,
            FlussOffset::Log { next, parts } => self.log_step(next, &parts).await,
        }
    }

    async fn snapshot_step(&mut self, parts: &[Part]) -> Result<Step> {
        if !matches!(self.phase, Phase::Snapshot(_)) {
            let loaded = Snapshot::load(&self.plan, &self.split, parts, &self.snapshots).await?;
            self.phase = Phase::Snapshot(loaded);
        }
        let Phase::Snapshot(snapshot) = &mut self.phase else { return Ok(Step::Finished) };
        let most = usize::try_from(self.plan.options.max_batch_rows).unwrap_or(usize::MAX);
        let until = self.split.end.as_ref().and_then(FlussOffset::last_key);
        match snapshot.next(parts, most, until)? {
            Some((rows, offset)) => {
                self.metrics.snapshot_rows.increment(rows.num_rows() as u64);
                let rows = ChangeBatch::append(self.plan.hand_out(&rows)?);
                self.split.seek(offset.clone());
                Ok(Step::Rows(vec![(rows, offset)]))
            }
            None => {
                let offset = snapshot.then(parts);
                self.phase = Phase::Idle;
                self.split.seek(offset.clone());
                Ok(Step::Moved(offset))
            }
        }
    }

    async fn log_step(&mut self, next: i64, parts: &[Part]) -> Result<Step> {
        if !matches!(self.phase, Phase::Log(_)) {
            self.phase = Phase::Log(self.subscribe(next).await?);
        }
        // Where the split ends in its log; a snapshot's end was met before.
        let end = self.split.end.as_ref().and_then(FlussOffset::next_in_log).unwrap_or(i64::MAX);
        loop {
            let Phase::Log(scan) = &mut self.phase else { return Ok(Step::Finished) };
            let limit = POLL.saturating_add(self.plan.client.request_timeout());
            let (rows, next_in_client) = match &scan.scanner {
                Scanner::Batches(scanner) => {
                    let polled = within("fluss.read", limit, scanner.poll(POLL)).await?;
                    let reached = scanner.get_subscribed_buckets().first().map(|(_, offset)| *offset);
                    (self.plan.batches(polled, end)?, reached)
                }
                Scanner::Changes(scanner) => {
                    let polled = within("fluss.read", limit, scanner.poll(POLL)).await?;
                    let records: Vec<_> = polled.into_iter().collect();
                    (self.changes(&records, end, parts)?, None)
                }
            };
            if rows.is_empty() {
                if let Some(step) = self.quiet(next, next_in_client, end).await? {
                    return Ok(step);
                }
                continue;
            }
            if let Phase::Log(scan) = &mut self.phase {
                scan.quiet = Instant::now();
            }
            self.silent = None;
            return Ok(self.handed(rows));
        }
    }

    fn handed(&mut self, mut rows: Vec<(ChangeBatch, FlussOffset)>) -> Step {
        if let Some((_, last)) = rows.last() {
            self.split.seek(last.clone());
        }
        let last = self.split.offset.clone();
        rows.retain(|(batch, _)| batch.num_rows() > 0);
        match rows.last_mut() {
            Some((_, offset)) => {
                *offset = last;
                Step::Rows(rows)
            }
            None => Step::Moved(last),
        }
    }

    /// Nothing came: looks now and then whether that is right.
    async fn quiet(&mut self, next: i64, in_client: Option<i64>, end: i64) -> Result<Option<Step>> {
        // Batches without rows move the offset too.
        if let Some(reached) = in_client.filter(|reached| *reached > next) {
            let to = FlussOffset::log(reached.min(end));
            self.split.seek(to.clone());
            return Ok(Some(Step::Moved(to)));
        }
        let Phase::Log(scan) = &mut self.phase else { return Ok(None) };
        // Somebody waits for a bounded read to end.
        let longest = if end == i64::MAX { Duration::from_secs(10) } else { Duration::from_secs(2) };
        if scan.quiet.elapsed() < self.plan.client.request_timeout().min(longest) {
            return Ok(None);
        }
        scan.quiet = Instant::now();
        match self.look().await? {
            Look::Dropped => Ok(Some(self.dropped())),
            Look::There(range) if range.latest > next => {
                let (seen, times) = self.silent.unwrap_or((range.latest, 0));
                if times >= SILENT_TIMES && self.plan.is_keyed() {
                    self.silent = None;
                    let to = FlussOffset::Log { next: seen.min(end), parts: self.split_parts(seen) };
                    self.split.seek(to.clone());
                    self.phase = Phase::Idle;
                    return Ok(Some(Step::Moved(to)));
                }
                self.silent = Some((seen, times + 1));
                let text = "no rows came although the log has some; the connection is made anew";
                Err(Error::new(ErrorKind::Timeout, text).transient().with_operation("fluss.read"))
            }
            Look::There(_) => Ok(None),
        }
    }

    /// The parts that still matter at an offset.
    fn split_parts(&self, next: i64) -> Vec<Part> {
        match &self.split.offset {
            FlussOffset::Log { parts, .. } if parts.last().is_some_and(|last| next < last.from) => {
                parts.clone()
            }
            _ => Vec::new(),
        }
    }

    async fn subscribe(&mut self, next: i64) -> Result<LogScan> {
        const OPERATION: &str = "fluss.subscribe";
        let connection = self.plan.client.connection_for(OPERATION, &self.plan.info).await?;
        let (bucket, limit) = (self.split.bucket, self.plan.client.request_timeout());
        let partition = self.split.partition.as_ref().map(|partition| partition.id);
        let scanner = if self.plan.is_keyed() {
            let scanner = self.plan.scan(&connection, |scan| scan.create_log_scanner())?;
            match partition {
                Some(id) => within(OPERATION, limit, scanner.subscribe_partition(id, bucket, next)).await?,
                None => within(OPERATION, limit, scanner.subscribe(bucket, next)).await?,
            }
            Scanner::Changes(scanner)
        } else {
            let scanner = self.plan.scan(&connection, |scan| scan.create_record_batch_log_scanner())?;
            match partition {
                Some(id) => within(OPERATION, limit, scanner.subscribe_partition(id, bucket, next)).await?,
                None => within(OPERATION, limit, scanner.subscribe(bucket, next)).await?,
            }
            Scanner::Batches(scanner)
        };
        Ok(LogScan { connection, scanner, quiet: Instant::now() })
    }

    fn changes(
        &mut self,
        records: &[fluss::record::ScanRecord],
        end: i64,
        parts: &[Part],
    ) -> Result<Vec<(ChangeBatch, FlussOffset)>> {
        let Some(mut changes) = Changes::of(records)? else { return Ok(Vec::new()) };
        let behind = changes.offsets.last().map_or(0, |last| last + 1).min(end);
        changes.end_before(end)?;
        if !parts.is_empty() {
            let keys = match self.keys.take() {
                Some(keys) => keys,
                None => Keys::new(&changes.rows, &self.plan.key)?,
            };
            changes.after(parts, &keys)?;
            self.keys = Some(keys);
        }
        let left =
            if parts.last().is_some_and(|last| behind < last.from) { parts.to_vec() } else { Vec::new() };
        let rows = self.plan.hand_out(&changes.rows)?;
        self.metrics.rows.increment(rows.num_rows() as u64);
        Ok(vec![(changes.into_batch(rows)?, FlussOffset::Log { next: behind, parts: left })])
    }
}

/// False also for a question that was asked again and again in vain: a read has more patience than one question.
fn is_permanent(error: &Error) -> bool {
    error.retry_state() == RetryState::Permanent
}

impl Plan {
    /// Batches of a log table, small ones joined, cut off at `end`.
    fn batches(
        &self,
        polled: Vec<fluss::record::ScanBatch>,
        end: i64,
    ) -> Result<Vec<(ChangeBatch, FlussOffset)>> {
        let mut found: Vec<(RecordBatch, i64)> = Vec::with_capacity(polled.len());
        for batch in polled {
            let (first, behind) = (batch.base_offset(), batch.last_offset() + 1);
            let rows = batch.into_batch();
            let (rows, behind) = if behind <= end {
                (rows, behind)
            } else {
                let keep = usize::try_from((end - first).max(0)).unwrap_or(0);
                (rows.slice(0, keep.min(rows.num_rows())), end)
            };
            if rows.num_rows() > 0 {
                found.push((rows, behind));
            }
        }
        let total: usize = found.iter().map(|(rows, _)| rows.num_rows()).sum();
        if found.len() > 1 && total / found.len() < SMALL_BATCH {
            let behind = found.last().map_or(0, |(_, behind)| *behind);
            let all: Vec<&RecordBatch> = found.iter().map(|(rows, _)| rows).collect();
            let joined = concat_batches(&all[0].schema(), all).map_err(unexpected("cannot join batches"))?;
            found = vec![(joined, behind)];
        }
        found
            .into_iter()
            .map(|(rows, behind)| Ok((ChangeBatch::append(self.hand_out(&rows)?), FlussOffset::log(behind))))
            .collect()
    }
}
