//! Writes rows as records.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    ChangeBatch, Error, ErrorKind, FlushToken, Flushed, Result, RowKind, SchemaChange, SinkWriter, TableId,
    arrow::array::RecordBatch, async_trait,
};

use super::{
    Inner,
    encode::{self, Encoded},
    key,
    metrics::SinkMetrics,
    producer::{Producer, Record, closed},
};
use crate::{
    client::{Admin, off_runtime},
    options::FormatType,
};

/// How long a topic's number of partitions is taken for true.
const PARTITIONS_AGE: Duration = Duration::from_secs(60);
/// Rows after which other tasks get a turn.
const TURN: usize = 1024;

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Value,
    Tombstone,
    /// An update's old row: the new one says it all.
    Nothing,
    Drop,
}

/// A topic and, where a column chooses the partition, how many it has.
#[derive(Debug, Clone)]
struct Topic {
    name: Arc<str>,
    partitions: Option<(u32, Instant)>,
}

/// Writes to Kafka. Made by [`Sink::open`](connector_core::Sink::open) of a [`KafkaSink`](super::KafkaSink).
///
/// Records are on their way as soon as they are written; they are durable when [`flush`](SinkWriter::flush) returns.
/// A dropped `write` may have queued some of its rows.
pub struct KafkaWriter {
    inner: Arc<Inner>,
    producer: Producer,
    topics: HashMap<TableId, Topic>,
    values: Encoded,
    keys: Encoded,
    metrics: SinkMetrics,
    /// Delivered records and bytes that earlier flushes have told.
    told: (u64, u64),
    failures_told: u64,
    /// Kinds that were left out, by table: the log tells it once.
    dropped: BTreeMap<TableId, u64>,
    poisoned: bool,
    closed: bool,
}

impl std::fmt::Debug for KafkaWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaWriter").field("sink", &self.inner).finish_non_exhaustive()
    }
}

impl KafkaWriter {
    pub(super) fn new(inner: Arc<Inner>) -> Result<Self> {
        Ok(Self {
            producer: Producer::new(&inner.producer)?,
            inner,
            topics: HashMap::new(),
            values: Encoded::default(),
            keys: Encoded::default(),
            metrics: SinkMetrics::new(),
            told: (0, 0),
            failures_told: 0,
            dropped: BTreeMap::new(),
            poisoned: false,
            closed: false,
        })
    }

    /// Refuses when closed, or when a record has failed for good.
    fn check(&mut self) -> Result<()> {
        if self.closed {
            return Err(closed());
        }
        if self.poisoned {
            return Err(Error::new(
                ErrorKind::Closed,
                "an earlier record failed; open a new writer from the last checkpoint",
            )
            .with_operation("kafka.produce"));
        }
        self.failures()
    }

    /// Tells of records that failed since the last call: as an error, or to the log.
    fn failures(&mut self) -> Result<()> {
        let failed = self.producer.failed() - self.failures_told;
        if failed == 0 {
            return Ok(());
        }
        self.failures_told += failed;
        self.metrics.failures.increment(failed);
        let first = self.producer.take_failure().unwrap_or_else(|| {
            Error::new(ErrorKind::Unexpected, "records failed without a reason")
                .with_operation("kafka.produce")
        });
        if self.inner.log_failures_only {
            tracing::error!(records = failed, error = %first, "records were not taken and are left out (`log_failures_only`)");
            return Ok(());
        }
        self.poisoned = true;
        Err(first.with_context("failed_records", failed))
    }

    async fn topic(&mut self, table: &TableId) -> Result<Topic> {
        let fresh = |topic: &Topic| match topic.partitions {
            Some((_, since)) => since.elapsed() < PARTITIONS_AGE,
            None => self.inner.partition_field.is_none(),
        };
        if let Some(topic) = self.topics.get(table).filter(|topic| fresh(topic)) {
            return Ok(topic.clone());
        }
        let name = self.inner.topic_of(table)?;
        let partitions = match &self.inner.partition_field {
            Some(_) => Some((partitions(&self.inner, &name).await?, Instant::now())),
            None => None,
        };
        let topic = Topic { name: name.into(), partitions };
        self.topics.insert(table.clone(), topic.clone());
        Ok(topic)
    }

    fn fate(&self, kind: RowKind) -> Fate {
        match kind {
            RowKind::Insert | RowKind::UpdateAfter => Fate::Value,
            RowKind::UpdateBefore => Fate::Nothing,
            RowKind::Delete if self.inner.key_fields.is_empty() => Fate::Drop,
            RowKind::Delete => Fate::Tombstone,
        }
    }

    async fn send(&mut self, table: &TableId, batch: &ChangeBatch) -> Result<()> {
        let topic = self.topic(table).await?;
        let rows = batch.rows();
        let inner = Arc::clone(&self.inner);
        let (mut values, mut keys) = (std::mem::take(&mut self.values), std::mem::take(&mut self.keys));
        values.clear();
        keys.clear();
        let picked;
        let raw = match inner.format {
            FormatType::Raw => {
                picked = inner.without_routing(rows)?;
                Some(encode::raw(&picked)?)
            }
            _ => {
                encode::json(rows, &mut values)?;
                None
            }
        };
        if !inner.key_fields.is_empty() {
            key::keys(rows, &inner.key_fields, inner.key_format, &mut keys)?;
        }
        let hashes = inner.partition_field.as_ref().map(|field| key::hashes(rows, field)).transpose()?;
        let (mut dropped, mut big) = (0, 0);
        for row in 0..rows.num_rows() {
            let value = match self.fate(batch.kinds().get(row)) {
                Fate::Value => match &raw {
                    Some(raw) => raw.get(row),
                    None => Some(values.get(row)),
                },
                Fate::Tombstone => None,
                Fate::Nothing => continue,
                Fate::Drop => {
                    dropped += 1;
                    continue;
                }
            };
            let partition = hashes.as_ref().zip(topic.partitions);
            let partition =
                partition.and_then(|(hashes, (count, _))| i32::try_from(hashes[row] % count).ok());
            let key = (!inner.key_fields.is_empty()).then(|| keys.get(row));
            let record = Record { topic: &topic.name, partition, key, value };
            big += u64::from(record.size() as u64 > inner.big_message_threshold);
            self.producer.send(&record).await?;
            if row % TURN == TURN - 1 {
                self.failures()?;
                tokio::task::yield_now().await;
            }
        }
        drop(raw);
        (self.values, self.keys) = (values, keys);
        self.note(table, &topic.name, dropped, big);
        Ok(())
    }

    /// Counts what is worth to know of a batch.
    fn note(&mut self, table: &TableId, topic: &str, dropped: u64, big: u64) {
        if big > 0 {
            self.metrics.big_messages.increment(big);
            tracing::warn!(
                topic,
                messages = big,
                threshold = self.inner.big_message_threshold,
                "messages are larger than `big_message_threshold`"
            );
        }
        if dropped > 0 {
            self.metrics.rows_dropped.increment(dropped);
            let before = self.dropped.entry(table.clone()).or_default();
            if *before == 0 {
                tracing::warn!(%table, "deletes are left out and counted: without `key_fields` there is no key to delete");
            }
            *before += dropped;
        }
    }
}

/// Asks how many partitions a topic has.
async fn partitions(inner: &Arc<Inner>, topic: &str) -> Result<u32> {
    let (settings, topic) = (inner.admin.clone(), topic.to_owned());
    off_runtime("kafka.metadata", move |cancelled| {
        super::partitions_of(&Admin::new(&settings, cancelled)?, &topic)
    })
    .await
}

#[async_trait]
impl SinkWriter for KafkaWriter {
    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        self.check()?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.send(table, &rows).await.map_err(|e| e.with_context("table", table))
    }

    /// Rows bring their columns with them: there is nothing to change but to see that the table has a topic.
    async fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        self.check()?;
        self.inner.topic_of(change.table()).map(drop)
    }

    async fn flush(&mut self, token: Option<&FlushToken>) -> Result<Flushed> {
        self.check()?;
        if token.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, super::NO_TOKENS).with_operation("kafka.flush"));
        }
        self.producer.flush().await?;
        self.failures()?;
        let (records, bytes) = self.producer.delivered();
        let flushed =
            Flushed { rows: records - self.told.0, bytes: bytes - self.told.1, rejected: Vec::new() };
        self.told = (records, bytes);
        self.metrics.records.increment(flushed.rows);
        self.metrics.bytes.increment(flushed.bytes);
        Ok(flushed)
    }

    /// Never: records are on their way without a flush.
    fn flush_due(&self) -> Option<Instant> {
        None
    }

    async fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.producer.end();
        Ok(())
    }
}

impl Inner {
    /// The columns that the format raw writes: those that choose neither key nor partition.
    fn without_routing(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let routes =
            |name: &String| self.key_fields.contains(name) || self.partition_field.as_ref() == Some(name);
        let schema = rows.schema();
        let places: Vec<usize> =
            (0..rows.num_columns()).filter(|place| !routes(schema.field(*place).name())).collect();
        // A row of one column is its own key where that is asked for.
        if places.is_empty() {
            return Ok(rows.clone());
        }
        rows.project(&places)
            .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot select the value's column").with_source(e))
    }
}
