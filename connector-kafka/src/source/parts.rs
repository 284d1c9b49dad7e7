//! What is being built of each split: rows in a decoder, bad records, and the offset behind them.

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    BadRecord, BadRecordPolicy, Error, ErrorKind, Result, SchemaChange, SourceEvent, SplitId, TableId,
};
use metrics::Gauge;

use super::{
    batch_poll::{Record, topic_cstring},
    handover::{Assigned, Handover, Queued, Token},
    metrics::{SourceMetrics, lag_gauge},
    split::{KafkaOffset, KafkaSplit, split_id},
};
use crate::format::{
    Format, JsonError, JsonErrorKind,
    change::Registry,
    metadata::{Facts, MetadataColumns},
    record::{Decoder, Refusal, Taken},
};

/// What an event weighs besides its rows.
const EVENT_BYTES: usize = 256;
/// Skipped records are logged one by one up to this number a [`LOG_WINDOW`].
const LOG_LINES: u32 = 10;
const LOG_WINDOW: Duration = Duration::from_secs(10);
/// How often a record is given to its decoder at most: a table of it is made, then changed, then there is no room.
const MOST_TRIES: u32 = 8;
/// Time between two questions for the same schema.
const QUESTION_PAUSE: Duration = Duration::from_millis(200);

/// How records become rows; the same for all splits of a reader.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) format: Format,
    /// The table of the rows; the topic's name where it is `None`.
    pub(crate) table: Option<TableId>,
    /// Columns that records have besides their values.
    pub(crate) columns: MetadataColumns,
    /// What records told about the columns of tables, for all readers of the source.
    pub(crate) registry: Arc<Registry>,
    pub(crate) policy: BadRecordPolicy,
    pub(crate) max_batch_rows: usize,
    pub(crate) max_batch_wait: Duration,
    /// How long bounded splits wait at their end.
    pub(crate) patience: Option<Patience>,
    /// Bytes that rows under construction may take, over all splits.
    pub(crate) building_bytes: usize,
    /// How long a question for a schema may be asked in vain.
    pub(crate) request_timeout: Duration,
}

/// One split under construction.
pub(crate) struct Part {
    pub(crate) token: Token,
    pub(crate) id: SplitId,
    pub(crate) topic: String,
    pub(crate) topic_c: CString,
    pub(crate) partition: i32,
    /// The next record to take. Never behind what was taken, may be ahead of it by records that are no rows.
    pub(crate) next: i64,
    /// `next` of the last event that was handed over.
    handed: i64,
    /// First offset that is not read any more.
    pub(crate) stop: Option<i64>,
    /// A record at or behind `stop` has come: nothing before it can follow.
    past_stop: bool,
    /// Forward it again from time to time: it was given up before.
    pub(crate) forward_again: bool,
    /// The client's position of it counts only from then on.
    pub(crate) position_from: Option<Instant>,
    decoder: Decoder,
    dead: Vec<BadRecord>,
    dead_bytes: usize,
    /// Bytes under construction, as of the last look.
    weight: usize,
    /// When the first record came that no event has covered yet.
    since: Option<Instant>,
    /// Waits for further records at the stop, which then moves.
    linger: Option<Linger>,
    counted: Counted,
    lag: Gauge,
    /// Tells the topic's records by their tag.
    tag: usize,
}

/// What is to be added to the metrics with the next event.
#[derive(Default)]
struct Counted {
    records: u64,
    bytes: u64,
    tombstones: u64,
    rowless: u64,
    bad: u64,
}

/// How often, and how long each time, a bounded split waits at its end for more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) times: u32,
    pub(crate) interval: Duration,
}

/// A split that waits at its end.
#[derive(Debug)]
struct Linger {
    patience: Patience,
    /// Looks that found nothing.
    empty: u32,
    /// When the next look is due; `None` while there is something to read.
    due: Option<Instant>,
}

impl Linger {
    fn is_over(&self) -> bool {
        self.empty >= self.patience.times
    }

    fn found(&mut self) {
        (self.empty, self.due) = (0, None);
    }

    fn look(&mut self, now: Instant) {
        match self.due {
            Some(due) if now < due => {}
            due => {
                self.empty += u32::from(due.is_some());
                self.due = Some(now + self.patience.interval);
            }
        }
    }
}

impl Part {
    fn new(assigned: Assigned, shape: &Shape, forward_again: bool) -> Result<Self> {
        let KafkaSplit { topic, partition, offset, stop, open_end } = assigned.split;
        let next = offset.map_or(0, |offset| offset.0);
        let topic_c = topic_cstring(&topic)
            .ok_or_else(|| Error::new(ErrorKind::OptionInvalid, "a topic's name holds a zero byte"))?;
        Ok(Self {
            token: assigned.token,
            id: split_id(&topic, partition),
            topic_c,
            partition,
            next,
            handed: next,
            stop: stop.map(|stop| stop.0),
            past_stop: false,
            forward_again,
            position_from: None,
            decoder: Decoder::new(
                &shape.format,
                shape.table.clone().unwrap_or_else(|| TableId::new("", topic.as_str())),
                &shape.columns,
                &shape.registry,
            )?,
            dead: Vec::new(),
            dead_bytes: 0,
            weight: 0,
            since: None,
            linger: shape.patience.filter(|_| open_end).map(|patience| Linger {
                patience,
                empty: 0,
                due: None,
            }),
            counted: Counted::default(),
            lag: lag_gauge(&topic, partition),
            tag: 0,
            topic,
        })
    }

    /// True when everything before the stop has been taken.
    fn has_reached_stop(&self) -> bool {
        self.stop.is_some_and(|stop| self.past_stop || self.next >= stop)
    }

    /// The same, and nothing more is waited for.
    pub(crate) fn is_done(&self) -> bool {
        self.has_reached_stop() && self.linger.as_ref().is_none_or(Linger::is_over)
    }

    /// Whether a record at or behind the stop is taken all the same, which moves the stop.
    fn moves_stop(&mut self, offset: i64) -> bool {
        let Some(linger) = self.linger.as_mut().filter(|linger| !linger.is_over()) else { return false };
        linger.found();
        self.stop = Some(offset + 1);
        true
    }

    /// Where a restart goes on once everything handed over is durable.
    pub(crate) fn handed(&self) -> i64 {
        self.handed
    }

    /// Moves behind records that are no rows: the client's position has passed them.
    pub(crate) fn advance_to(&mut self, position: i64, now: Instant) {
        let position = self.stop.map_or(position, |stop| stop.min(position));
        if position > self.next {
            self.next = position;
            self.since.get_or_insert(now);
        }
    }

    /// Sets the lag from the end of the log.
    pub(crate) fn set_lag(&self, end: i64) {
        // A gauge is a float; offsets beyond 2^53 lose precision nobody sees.
        #[allow(clippy::cast_precision_loss, reason = "a gauge takes a float")]
        self.lag.set(end.saturating_sub(self.handed).max(0) as f64);
    }

    fn locate_error(&self, record: &Record<'_>, error: Error) -> Error {
        let error = error
            .with_context("topic", &self.topic)
            .with_context("partition", self.partition)
            .with_context("offset", record.offset());
        match record.timestamp() {
            Some(millis) => error.with_context("timestamp", millis),
            None => error,
        }
    }
}

/// All splits of a reader.
pub(crate) struct Parts {
    shape: Shape,
    handover: Arc<Handover>,
    pub(crate) metrics: SourceMetrics,
    parts: Vec<Part>,
    index: HashMap<(String, i32), usize>,
    /// The part of the last record; the next one is most likely of the same.
    last: usize,
    /// Bytes under construction over all parts.
    building: usize,
    log_from: Instant,
    log_lines: u32,
}

impl Parts {
    pub(crate) fn new(shape: Shape, handover: Arc<Handover>) -> Self {
        let metrics = SourceMetrics::new(shape.policy);
        Self {
            shape,
            handover,
            metrics,
            parts: Vec::new(),
            index: HashMap::new(),
            last: 0,
            building: 0,
            log_from: Instant::now(),
            log_lines: 0,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    pub(crate) fn find(&mut self, topic: &str, partition: i32) -> Option<&mut Part> {
        // The error path only: a lookup by borrowed parts would need an own key type.
        let at = *self.index.get(&(topic.to_owned(), partition))?;
        self.parts.get_mut(at)
    }

    pub(crate) fn add(&mut self, assigned: Assigned, forward_again: bool) -> Result<()> {
        let part = Part::new(assigned, &self.shape, forward_again)?;
        self.index.insert((part.topic.clone(), part.partition), self.parts.len());
        self.parts.push(part);
        Ok(())
    }

    /// Takes parts out, with what was built of them.
    pub(crate) fn remove(&mut self, gone: impl Fn(&Part) -> bool) -> Vec<Part> {
        let (removed, kept) = std::mem::take(&mut self.parts).into_iter().partition(|part| gone(part));
        self.parts = kept;
        self.index.clear();
        for (at, part) in self.parts.iter().enumerate() {
            self.index.insert((part.topic.clone(), part.partition), at);
        }
        self.last = 0;
        self.building = self.parts.iter().map(|part| part.weight).sum();
        removed
    }

    fn locate(&mut self, record: &Record<'_>) -> Option<usize> {
        let (tag, partition) = (record.topic_tag(), record.partition());
        if let Some(part) = self.parts.get(self.last)
            && part.partition == partition
            && part.tag == tag
        {
            return Some(self.last);
        }
        let same = self.parts.iter().position(|part| part.partition == partition && part.tag == tag);
        let at = match same {
            Some(at) => at,
            // The first record of a topic, or the client forgot it and met it again: by its name.
            None => {
                let at = *self.index.get(&(record.topic(), partition))?;
                self.parts[at].tag = tag;
                at
            }
        };
        self.last = at;
        Some(at)
    }

    /// Takes one record in. `now` is when the records of this round came.
    ///
    /// # Errors
    /// `DataInvalid` for a record that cannot be read, under the policy `fail`.
    pub(crate) fn take(&mut self, record: &Record<'_>, now: Instant) -> Result<()> {
        // A record of a split that was just given up has no part any more.
        let Some(at) = self.locate(record) else { return Ok(()) };
        let part = &mut self.parts[at];
        let offset = record.offset();
        if part.stop.is_some_and(|stop| offset >= stop) && !part.moves_stop(offset) {
            part.past_stop = true;
            return Ok(());
        }
        if offset < part.next {
            return Ok(());
        }
        part.counted.records += 1;
        let value = record.value();
        part.counted.bytes += value.map_or(0, <[u8]>::len) as u64;
        if value.is_none() && !part.decoder.takes_tombstones() {
            part.counted.tombstones += 1;
        } else {
            match part.decoder.decode(record.key(), value) {
                Ok(Taken::Rows(1)) if !part.decoder.wants_facts() => {}
                other => self.take_other(at, record, other)?,
            }
        }
        let part = &mut self.parts[at];
        part.next = offset + 1;
        part.since.get_or_insert(now);
        if part.decoder.len() >= self.shape.max_batch_rows { self.hand_over(at) } else { Ok(()) }
    }

    /// A record that gave anything but one row, or whose row has columns of the record itself.
    fn take_other(&mut self, at: usize, record: &Record<'_>, first: Result<Taken, Refusal>) -> Result<()> {
        let mut result = first;
        for _ in 0..MOST_TRIES {
            result = match result {
                Ok(Taken::Rows(rows)) => {
                    self.parts[at].counted.rowless += u64::from(rows == 0);
                    if self.parts[at].decoder.wants_facts() {
                        self.note_facts(at, record, rows);
                    }
                    return Ok(());
                }
                Ok(Taken::Nothing) => {
                    self.parts[at].counted.rowless += 1;
                    return Ok(());
                }
                Ok(Taken::Changes { again: false }) => {
                    self.parts[at].counted.rowless += 1;
                    return self.hand_over_changes(at, Some(record.offset() + 1));
                }
                Ok(Taken::Changes { again: true }) => {
                    self.hand_over_changes(at, None)?;
                    self.parts[at].decoder.decode(record.key(), record.value())
                }
                Err(Refusal::Record(error))
                    if error.kind() == JsonErrorKind::BatchFull && self.parts[at].decoder.len() > 0 =>
                {
                    self.hand_over(at)?;
                    self.parts[at].decoder.decode(record.key(), record.value())
                }
                Err(Refusal::Record(error)) => return self.take_refused(at, record, &error),
                Err(Refusal::Later(error)) => self.ask_again(at, record, error)?,
                Err(Refusal::Fatal(error)) => return Err(self.parts[at].locate_error(record, error)),
            };
        }
        let error = Error::new(ErrorKind::Unexpected, "a record was not taken, however often it was tried");
        Err(self.parts[at].locate_error(record, error))
    }

    /// A record whose schema could not be had. Asks for it again until the time for questions is over, or the reader is closed.
    #[cold]
    fn ask_again(&mut self, at: usize, record: &Record<'_>, first: Error) -> Result<Result<Taken, Refusal>> {
        let mut error = first;
        tracing::warn!(
            topic = self.parts[at].topic,
            "waiting for a schema, without which nothing can be read: {error}"
        );
        let until = Instant::now() + self.shape.request_timeout;
        while Instant::now() < until && self.handover.pause(QUESTION_PAUSE) {
            match self.parts[at].decoder.decode(record.key(), record.value()) {
                Err(Refusal::Later(again)) => error = again,
                answered => return Ok(answered),
            }
        }
        Err(self.parts[at].locate_error(record, error))
    }

    fn note_facts(&mut self, at: usize, record: &Record<'_>, rows: usize) {
        let headers = if self.shape.columns.wants_headers() { record.headers() } else { Vec::new() };
        let part = &mut self.parts[at];
        let facts = Facts {
            topic: &part.topic,
            partition: part.partition,
            offset: record.offset(),
            timestamp: record.timestamp(),
            key: record.key(),
            value: record.value(),
            headers: &headers,
        };
        part.decoder.note(&facts, rows);
    }

    /// Hands over everything before a record that changes tables, and the changes. `behind` is the offset behind the
    /// record where it was taken with them.
    fn hand_over_changes(&mut self, at: usize, behind: Option<i64>) -> Result<()> {
        self.hand_over(at)?;
        let part = &mut self.parts[at];
        let changes = part.decoder.take_changes();
        let before = part.handed;
        if let Some(behind) = behind.filter(|_| !changes.is_empty()) {
            (part.next, part.handed) = (behind, behind);
        }
        let part = &self.parts[at];
        let last = changes.len().saturating_sub(1);
        for (index, change) in changes.into_iter().enumerate() {
            // An announcement moves nothing; between several changes a restart has to read their record again.
            let is_announcement = matches!(change, SchemaChange::CreateTable { .. });
            let next = match behind {
                Some(behind) if index == last => Some(KafkaOffset(behind)),
                _ if is_announcement => None,
                _ => Some(KafkaOffset(before)),
            };
            self.push(part, SourceEvent::Schema { split: part.id.clone(), change, next }, 0);
        }
        Ok(())
    }

    /// A record that its decoder did not take.
    #[cold]
    fn take_refused(&mut self, at: usize, record: &Record<'_>, error: &JsonError) -> Result<()> {
        let policy = self.shape.policy;
        let part = &mut self.parts[at];
        part.counted.bad += 1;
        match policy {
            BadRecordPolicy::Fail => return Err(part.locate_error(record, error.clone().into())),
            BadRecordPolicy::Skip => self.log_skipped(at, record, error),
            BadRecordPolicy::DeadLetter => {
                let value = record.value().map(<[u8]>::to_vec);
                let dead = BadRecord {
                    origin: part.topic.clone(),
                    split: part.partition.to_string(),
                    offset: record.offset().to_string(),
                    timestamp: record.timestamp(),
                    key: record.key().map(<[u8]>::to_vec),
                    value,
                    reason: error.to_string(),
                };
                let bytes = [&dead.key, &dead.value].map(|part| part.as_ref().map_or(0, Vec::len));
                part.dead_bytes += bytes[0] + bytes[1] + dead.reason.len() + EVENT_BYTES;
                part.dead.push(dead);
            }
        }
        Ok(())
    }

    fn log_skipped(&mut self, at: usize, record: &Record<'_>, error: &JsonError) {
        if self.log_from.elapsed() >= LOG_WINDOW {
            (self.log_from, self.log_lines) = (Instant::now(), 0);
        }
        self.log_lines += 1;
        let part = &self.parts[at];
        let (topic, partition, offset) = (&part.topic, part.partition, record.offset());
        if self.log_lines <= LOG_LINES {
            tracing::warn!(topic, partition, offset, field = error.path(), "a record was skipped: {error}");
        } else if self.log_lines == LOG_LINES + 1 {
            tracing::warn!("further skipped records are counted and not logged for {LOG_WINDOW:?}");
        }
    }

    /// Looks whether more came for splits that wait at their end.
    pub(crate) fn look_behind_stops(&mut self, now: Instant) {
        for part in &mut self.parts {
            if part.has_reached_stop()
                && let Some(linger) = &mut part.linger
            {
                linger.look(now);
            }
        }
    }

    /// Weighs what is being built and hands over the heaviest parts while it is too much.
    pub(crate) fn keep_within_bounds(&mut self) -> Result<()> {
        self.building = 0;
        for part in &mut self.parts {
            if part.since.is_some() {
                part.weight =
                    part.dead_bytes + if part.decoder.len() > 0 { part.decoder.memory_size() } else { 0 };
            }
            self.building += part.weight;
        }
        while self.building > self.shape.building_bytes {
            let Some((at, _)) = self.parts.iter().enumerate().max_by_key(|(_, part)| part.weight) else {
                break;
            };
            self.hand_over(at)?;
        }
        self.note_prefetch();
        Ok(())
    }

    fn note_prefetch(&self) {
        // A gauge is a float; no memory has 2^53 bytes.
        #[allow(clippy::cast_precision_loss, reason = "a gauge takes a float")]
        self.metrics.prefetch_bytes.set((self.building + self.handover.bytes()) as f64);
    }

    /// Hands over what is old enough, and all of a split that is done. The time until the next one is due.
    ///
    /// Old rows wait on while the pulling side has something to do: larger batches then cost it less.
    pub(crate) fn hand_over_due(&mut self, now: Instant) -> Result<Option<Duration>> {
        let drained = self.handover.is_drained();
        let mut next_due: Option<Duration> = None;
        for at in 0..self.parts.len() {
            let part = &self.parts[at];
            let Some(since) = part.since.or_else(|| part.is_done().then_some(now)) else { continue };
            let left = self.shape.max_batch_wait.saturating_sub(now.saturating_duration_since(since));
            if part.is_done() || (left.is_zero() && drained) {
                self.hand_over(at)?;
            } else {
                next_due = Some(next_due.map_or(left, |due| due.min(left)));
            }
        }
        Ok(next_due)
    }

    /// Hands over everything of some partitions.
    pub(crate) fn hand_over_places(&mut self, places: &HashSet<(String, i32)>) -> Result<()> {
        for at in 0..self.parts.len() {
            let part = &self.parts[at];
            if places.contains(&(part.topic.clone(), part.partition)) {
                self.hand_over(at)?;
            }
        }
        Ok(())
    }

    /// Hands over everything, in the order of each split.
    pub(crate) fn hand_over_all(&mut self) -> Result<()> {
        (0..self.parts.len()).try_for_each(|at| self.hand_over(at))
    }

    /// Ends the splits that are done, after [`Self::hand_over_due`] has handed over their rows. They leave.
    pub(crate) fn take_done(&mut self) -> Vec<Part> {
        if !self.parts.iter().any(Part::is_done) {
            return Vec::new();
        }
        for part in self.parts.iter().filter(|part| part.is_done()) {
            if let Some(stop) = part.stop.filter(|stop| part.handed < *stop) {
                // Only holes and markers lie between here and the stop.
                self.push(part, SourceEvent::Advanced { split: part.id.clone(), next: KafkaOffset(stop) }, 0);
            }
            self.push(part, SourceEvent::Finished { split: part.id.clone() }, 0);
        }
        self.remove(Part::is_done)
    }

    fn push(&self, part: &Part, event: SourceEvent<KafkaSplit>, bytes: usize) {
        self.handover.push(Queued { token: part.token, event, bytes: bytes + EVENT_BYTES });
    }

    /// Hands over what one part has: dead letters, rows, or the bare offset.
    fn hand_over(&mut self, at: usize) -> Result<()> {
        let part = &mut self.parts[at];
        part.since = None;
        self.building -= part.weight;
        part.weight = 0;
        let counted = std::mem::take(&mut part.counted);
        let outputs = if part.decoder.len() > 0 { part.decoder.finish()? } else { Vec::new() };
        let dead = std::mem::take(&mut part.dead);
        let dead_bytes = std::mem::take(&mut part.dead_bytes);
        let (before, next) = (KafkaOffset(part.handed), KafkaOffset(part.next));
        part.handed = part.next;

        let part = &self.parts[at];
        let split = || part.id.clone();
        if !dead.is_empty() {
            // Rows of the same read follow: a restart between the two must read both again.
            let next = if outputs.is_empty() { next } else { before };
            self.push(part, SourceEvent::DeadLetters { split: split(), records: dead, next }, dead_bytes);
        } else if outputs.is_empty() && next > before {
            self.push(part, SourceEvent::Advanced { split: split(), next }, 0);
        }
        let (mut rows, last) = (0, outputs.len().saturating_sub(1));
        for (index, output) in outputs.into_iter().enumerate() {
            if let Some(change) = output.announce {
                self.push(part, SourceEvent::Schema { split: split(), change, next: None }, 0);
            }
            rows += output.rows.num_rows();
            let bytes = output.rows.memory_size();
            // Rows of one read go to several tables: a restart between their batches must read all of them again.
            let next = if index == last { next } else { before };
            let batch = SourceEvent::Batch { split: split(), table: output.table, rows: output.rows, next };
            self.push(part, batch, bytes);
        }
        self.metrics.records.increment(counted.records);
        self.metrics.bytes.increment(counted.bytes);
        self.metrics.tombstones.increment(counted.tombstones);
        self.metrics.rowless.increment(counted.rowless);
        self.metrics.bad_records.increment(counted.bad);
        self.metrics.rows.increment(rows as u64);
        Ok(())
    }
}
