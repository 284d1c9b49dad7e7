//! What is being built of each split: rows in a decoder, bad records, and the offset behind them.

use std::{
    collections::HashMap,
    ffi::CString,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    BadRecord, BadRecordPolicy, ChangeBatch, Error, ErrorKind, Result, SchemaChange, SourceEvent, SplitId,
    TableId, arrow::array::RecordBatch,
};
use metrics::Gauge;

use super::{
    batch_poll::{Record, topic_cstring},
    handover::{Assigned, Handover, Queued, Token},
    metrics::{SourceMetrics, lag_gauge},
    split::{KafkaOffset, KafkaSplit, split_id},
};
use crate::format::{Format, JsonDecoder, JsonError, JsonErrorKind};

/// What an event weighs besides its rows.
const EVENT_BYTES: usize = 256;
/// Skipped records are logged one by one up to this number a [`LOG_WINDOW`].
const LOG_LINES: u32 = 10;
const LOG_WINDOW: Duration = Duration::from_secs(10);

/// How records become rows; the same for all splits of a reader.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) format: Format,
    /// The table of the rows; the topic's name where it is `None`.
    pub(crate) table: Option<TableId>,
    pub(crate) policy: BadRecordPolicy,
    pub(crate) max_batch_rows: usize,
    pub(crate) max_batch_wait: Duration,
    /// Bytes that rows under construction may take, over all splits.
    pub(crate) building_bytes: usize,
}

enum Decoder {
    Json(Box<JsonDecoder>),
}

impl Decoder {
    fn new(format: &Format) -> Result<Self> {
        match format {
            Format::Json(json) => Ok(Self::Json(Box::new(json.decoder()?))),
        }
    }

    fn decode(&mut self, value: &[u8]) -> Result<(), JsonError> {
        match self {
            Self::Json(decoder) => decoder.decode(value),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Json(decoder) => decoder.len(),
        }
    }

    fn memory_size(&self) -> usize {
        match self {
            Self::Json(decoder) => decoder.memory_size(),
        }
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        match self {
            Self::Json(decoder) => decoder.finish(),
        }
    }
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
    announced: bool,
    table: TableId,
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
    bad: u64,
}

impl Part {
    fn new(assigned: Assigned, shape: &Shape, forward_again: bool) -> Result<Self> {
        let KafkaSplit { topic, partition, offset, stop } = assigned.split;
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
            decoder: Decoder::new(&shape.format)?,
            dead: Vec::new(),
            dead_bytes: 0,
            weight: 0,
            since: None,
            announced: false,
            table: shape.table.clone().unwrap_or_else(|| TableId::new("", topic.as_str())),
            counted: Counted::default(),
            lag: lag_gauge(&topic, partition),
            tag: 0,
            topic,
        })
    }

    /// True when everything before the stop has been taken.
    pub(crate) fn is_done(&self) -> bool {
        self.stop.is_some_and(|stop| self.past_stop || self.next >= stop)
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

    fn refuse(&self, record: &Record<'_>, error: JsonError) -> Error {
        let error = Error::from(error)
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
        if part.stop.is_some_and(|stop| offset >= stop) {
            part.past_stop = true;
            return Ok(());
        }
        if offset < part.next {
            return Ok(());
        }
        part.counted.records += 1;
        match record.value() {
            None => part.counted.tombstones += 1,
            Some(value) => {
                part.counted.bytes += value.len() as u64;
                match part.decoder.decode(value) {
                    Ok(()) => {}
                    Err(e) => return self.take_refused(at, record, value, e, now),
                }
            }
        }
        part.next = offset + 1;
        part.since.get_or_insert(now);
        if part.decoder.len() >= self.shape.max_batch_rows { self.hand_over(at) } else { Ok(()) }
    }

    /// A record that its decoder did not take.
    #[cold]
    fn take_refused(
        &mut self,
        at: usize,
        record: &Record<'_>,
        value: &[u8],
        error: JsonError,
        now: Instant,
    ) -> Result<()> {
        let mut error = error;
        if error.kind() == JsonErrorKind::BatchFull && self.parts[at].decoder.len() > 0 {
            self.hand_over(at)?;
            match self.parts[at].decoder.decode(value) {
                Ok(()) => {
                    let part = &mut self.parts[at];
                    part.next = record.offset() + 1;
                    part.since.get_or_insert(now);
                    return Ok(());
                }
                Err(e) => error = e,
            }
        }
        let policy = self.shape.policy;
        let part = &mut self.parts[at];
        part.counted.bad += 1;
        match policy {
            BadRecordPolicy::Fail => return Err(part.refuse(record, error)),
            BadRecordPolicy::Skip => self.log_skipped(at, record, &error),
            BadRecordPolicy::DeadLetter => {
                let dead = BadRecord {
                    origin: part.topic.clone(),
                    split: part.partition.to_string(),
                    offset: record.offset().to_string(),
                    timestamp: record.timestamp(),
                    key: record.key().map(<[u8]>::to_vec),
                    value: Some(value.to_vec()),
                    reason: error.to_string(),
                };
                part.dead_bytes +=
                    value.len() + record.key().map_or(0, <[u8]>::len) + dead.reason.len() + EVENT_BYTES;
                part.dead.push(dead);
            }
        }
        let part = &mut self.parts[at];
        part.next = record.offset() + 1;
        part.since.get_or_insert(now);
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
        let shape = &self.shape;
        let part = &mut self.parts[at];
        part.since = None;
        self.building -= part.weight;
        part.weight = 0;
        let counted = std::mem::take(&mut part.counted);
        let rows = part.decoder.len();
        let batch = if rows > 0 { Some(part.decoder.finish()?) } else { None };
        let dead = std::mem::take(&mut part.dead);
        let dead_bytes = std::mem::take(&mut part.dead_bytes);
        let (before, next) = (KafkaOffset(part.handed), KafkaOffset(part.next));
        part.handed = part.next;

        let announce = rows > 0 && !part.announced;
        part.announced |= announce;
        let part = &self.parts[at];
        let split = || part.id.clone();
        if announce {
            let change = SchemaChange::CreateTable {
                table: part.table.clone(),
                schema: shape.format.table_schema().clone(),
            };
            self.push(part, SourceEvent::Schema { split: split(), change, next: None }, 0);
        }
        if !dead.is_empty() {
            // Rows of the same read follow: a restart between the two must read both again.
            let next = if rows > 0 { before } else { next };
            self.push(part, SourceEvent::DeadLetters { split: split(), records: dead, next }, dead_bytes);
        } else if batch.is_none() && next > before {
            self.push(part, SourceEvent::Advanced { split: split(), next }, 0);
        }
        if let Some(batch) = batch {
            let rows = ChangeBatch::append(batch);
            let bytes = rows.memory_size();
            self.push(
                part,
                SourceEvent::Batch { split: split(), table: part.table.clone(), rows, next },
                bytes,
            );
        }
        self.metrics.records.increment(counted.records);
        self.metrics.bytes.increment(counted.bytes);
        self.metrics.tombstones.increment(counted.tombstones);
        self.metrics.bad_records.increment(counted.bad);
        self.metrics.rows.increment(rows as u64);
        Ok(())
    }
}
