//! Writes rows as records.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    ChangeBatch, DeliveryGuarantee, Error, ErrorKind, FlushToken, Flushed, Result, RowKind, RowKinds,
    SchemaChange, SinkWriter, SourceOffsets, TableId, WriterContext, arrow::array::RecordBatch, async_trait,
};
use jiff::Timestamp;
use rdkafka::message::{Header, OwnedHeaders};

use super::{
    Format, Inner,
    encode::{self, ChangeEncoder, Encoded, Event, Facts},
    key,
    metrics::SinkMetrics,
    producer::{Producer, Record, closed},
    transaction,
    transaction::Ledger,
};
use crate::client::off_runtime;

/// How long a topic's number of partitions is taken for true.
const PARTITIONS_AGE: Duration = Duration::from_secs(60);
/// Rows that are encoded and sent at a time, before other tasks get a turn. Their texts stay in the processor's cache until they are copied.
const TURN: usize = 1024;

/// A topic and, where a column chooses the partition, how many it has.
#[derive(Debug, Clone)]
struct Topic {
    name: Arc<str>,
    partitions: Option<(u32, Instant)>,
}

/// Writes to Kafka. Made by [`Sink::open`](connector_core::Sink::open) of a [`KafkaSink`](super::KafkaSink).
///
/// Records are on their way as soon as they are written; they are durable when [`flush`](SinkWriter::flush) returns.
/// A `write` that fails or is dropped may have queued some of its rows.
pub struct KafkaWriter {
    inner: Arc<Inner>,
    producer: Producer,
    topics: HashMap<TableId, Topic>,
    /// The columns of each table's key, where it was announced.
    primary_keys: HashMap<TableId, Vec<String>>,
    pipeline: String,
    values: Encoded,
    keys: Encoded,
    events: Vec<Event>,
    /// Writes the change formats.
    changes: Option<ChangeEncoder>,
    transactions: Option<Transactions>,
    metrics: SinkMetrics,
    /// Delivered records and bytes that earlier flushes have told.
    told: (u64, u64),
    failures_told: u64,
    /// Tables whose deletes are left out: the log tells it once of each.
    dropped: BTreeSet<TableId>,
    poisoned: bool,
    closed: bool,
}

impl std::fmt::Debug for KafkaWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaWriter").field("sink", &self.inner).finish_non_exhaustive()
    }
}

impl KafkaWriter {
    /// Opens a writer; under exactly-once, one that takes its chain's transactions over.
    pub(super) async fn open(inner: Arc<Inner>, context: WriterContext) -> Result<Self> {
        if context.delivery == DeliveryGuarantee::AtLeastOnce {
            let producer = Producer::new(&inner.producer)?;
            return Ok(Self::new(inner, context, producer, None));
        }
        if !inner.is_recovered() {
            let text = "under exactly-once `recover` of the sink comes before `open`: it ends what earlier runs left open";
            return Err(Error::new(ErrorKind::Conflict, text).with_operation("kafka.open"));
        }
        let id = transaction::chain_id(&context.pipeline, context.chain);
        let producer = Producer::new(&inner.transactional(&id))?;
        let (shared, chains) = (Arc::clone(&inner), context.chains);
        let ledger = producer
            .call("kafka.open", move |client, told, cancelled| {
                transaction::take_over(client, told, shared.admin.request_timeout, cancelled)?;
                Ledger::new(&shared, &id, chains, cancelled)
            })
            .await?;
        Ok(Self::new(inner, context, producer, Some(Transactions { ledger, open: false })))
    }

    fn new(
        inner: Arc<Inner>,
        context: WriterContext,
        producer: Producer,
        transactions: Option<Transactions>,
    ) -> Self {
        Self {
            producer,
            transactions,
            changes: inner.format.dialect().map(ChangeEncoder::new),
            inner,
            topics: HashMap::new(),
            primary_keys: HashMap::new(),
            pipeline: context.pipeline,
            values: Encoded::default(),
            keys: Encoded::default(),
            events: Vec::new(),
            metrics: SinkMetrics::new(),
            told: (0, 0),
            failures_told: 0,
            dropped: BTreeSet::new(),
            poisoned: false,
            closed: false,
        }
    }

    /// Opens a transaction where records need one.
    fn begin(&mut self) -> Result<()> {
        let Some(transactions) = self.transactions.as_mut().filter(|transactions| !transactions.open) else {
            return Ok(());
        };
        self.producer.with(transaction::begin)?;
        transactions.open = true;
        Ok(())
    }

    /// Commits the records and the offsets in one transaction.
    async fn commit(&mut self, offsets: &SourceOffsets) -> Result<()> {
        self.begin()?;
        self.producer.flush().await?;
        self.failures()?;
        let Some(transactions) = &mut self.transactions else { return Ok(()) };
        let (ledger, inner, offsets) =
            (transactions.ledger.clone(), Arc::clone(&self.inner), offsets.clone());
        self.producer
            .call("kafka.commit", move |client, told, cancelled| {
                ledger.commit(&inner, client, told, offsets, cancelled)
            })
            .await?;
        transactions.open = false;
        self.metrics.transactions.increment(1);
        Ok(())
    }

    /// Ends the open transaction, and tells the reason behind a failure, where it is that another run has begun.
    async fn end_transaction(&mut self, failure: Option<Error>) -> Option<Error> {
        let Some(transactions) = self.transactions.as_mut().filter(|transactions| transactions.open) else {
            return failure;
        };
        transactions.open = false;
        let ended = self.producer.call("kafka.abort", |client, _, _| {
            transaction::abort(client);
            Ok(transaction::fatal(client))
        });
        match ended.await {
            Ok(Some(fatal)) if failure.is_some() => Some(fatal),
            _ => failure,
        }
    }

    async fn failed(&mut self, failure: Error) -> Error {
        if self.transactions.is_none() {
            return failure;
        }
        self.poisoned = true;
        let kind = failure.kind();
        self.end_transaction(Some(failure))
            .await
            .unwrap_or_else(|| Error::new(kind, "the transaction failed"))
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

    /// What the brokers took since the last flush.
    fn flushed(&mut self) -> Flushed {
        let (records, bytes) = self.producer.delivered();
        let flushed =
            Flushed { rows: records - self.told.0, bytes: bytes - self.told.1, rejected: Vec::new() };
        self.told = (records, bytes);
        self.metrics.records.increment(flushed.rows);
        self.metrics.bytes.increment(flushed.bytes);
        flushed
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
        // The one topic was found or created at the start.
        let partitions = match &self.inner.partition_field {
            Some(_) => Some((partitions(&self.inner, &name).await?, Instant::now())),
            None if self.inner.topic.constant().is_none() => {
                partitions(&self.inner, &name).await?;
                None
            }
            None => None,
        };
        let topic = Topic { name: name.into(), partitions };
        self.topics.insert(table.clone(), topic.clone());
        Ok(topic)
    }

    async fn send(&mut self, table: &TableId, batch: &ChangeBatch) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            let to = batch.cut_at(from + TURN);
            self.send_some(table, &batch.slice(from, to - from), from).await?;
            self.failures()?;
            tokio::task::yield_now().await;
            from = to;
        }
        Ok(())
    }

    /// Sends rows that stand behind `before` others of their batch.
    async fn send_some(&mut self, table: &TableId, batch: &ChangeBatch, before: usize) -> Result<()> {
        let topic = self.topic(table).await?;
        let rows = batch.rows();
        let inner = Arc::clone(&self.inner);
        let keyed = !inner.key_fields.is_empty();
        let (mut values, mut keys) = (std::mem::take(&mut self.values), std::mem::take(&mut self.keys));
        let mut events = std::mem::take(&mut self.events);
        values.clear(before);
        keys.clear(before);
        if keyed {
            key::keys(rows, &inner.key_fields, inner.key_format, &mut keys)?;
        }
        let hashes = inner.partition_field.as_ref().map(|field| key::hashes(rows, field)).transpose()?;
        let moved = |row: usize| {
            keyed && keys.get(row) != keys.get(row + 1)
                || hashes.as_ref().is_some_and(|hashes| hashes[row] != hashes[row + 1])
        };
        happenings(batch.kinds(), rows.num_rows(), moved, &mut events);
        let picked;
        let mut raw = None;
        let mut headers = None;
        match (&inner.format, &mut self.changes) {
            (Format::Json, _) => encode::json(rows, &mut values)?,
            (Format::Csv(csv), _) => csv.encode(rows, &mut values)?,
            (Format::Raw, _) => {
                picked = inner.without_routing(rows)?;
                raw = Some(encode::raw(&picked)?);
            }
            (Format::Changes(_), None) => {}
            (Format::Changes(_), Some(changes)) => {
                let key = self.primary_keys.get(table).unwrap_or(&inner.key_fields);
                let now = Timestamp::now().as_millisecond();
                let facts = Facts { table, key, topic: &topic.name, pipeline: &self.pipeline, now };
                changes.encode(rows, &events, &facts, &mut values)?;
                headers = inner.headers.then(|| Headers::new(table));
            }
        }
        let of_changes = inner.format.dialect().is_some();
        let (mut dropped, mut big) = (0, 0);
        for (at, event) in events.iter().enumerate() {
            let row = event.row();
            let value = match (event, &raw) {
                _ if of_changes => Some(values.get(at)),
                (Event::Delete(_), _) if keyed => None,
                (Event::Delete(_), _) => {
                    dropped += 1;
                    continue;
                }
                (_, Some(raw)) => raw.get(row),
                (_, None) => Some(values.get(row)),
            };
            let partition = hashes.as_ref().zip(topic.partitions);
            let partition =
                partition.and_then(|(hashes, (count, _))| i32::try_from(hashes[row] % count).ok());
            let key = keyed.then(|| keys.get(row));
            let headers = headers.as_ref().map(|headers| headers.of(*event));
            let record = Record { topic: &topic.name, partition, key, value, headers };
            big += u64::from(record.size() as u64 > inner.big_message_threshold);
            self.producer.send(record).await?;
        }
        (self.values, self.keys, self.events) = (values, keys, events);
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
            if self.dropped.insert(table.clone()) {
                tracing::warn!(%table, "deletes are left out and counted: without `key_fields` there is no key to delete");
            }
        }
    }
}

/// What happened, in the order of the rows. An update that moves its row to another key or partition (`moved` tells it of
/// the old row) is a deletion and an insertion: what was known under the old key goes.
fn happenings(kinds: &RowKinds, rows: usize, moved: impl Fn(usize) -> bool, out: &mut Vec<Event>) {
    out.clear();
    out.reserve(rows);
    let mut before = None;
    for row in 0..rows {
        match kinds.get(row) {
            RowKind::Insert => out.push(Event::Insert(row)),
            RowKind::Delete => out.push(Event::Delete(row)),
            RowKind::UpdateBefore => before = Some(row),
            RowKind::UpdateAfter => match before.take() {
                Some(old) if moved(old) => out.extend([Event::Delete(old), Event::Insert(row)]),
                before => out.push(Event::Update { before, after: row }),
            },
        }
    }
}

/// The headers of a table's records.
struct Headers {
    insert: OwnedHeaders,
    update: OwnedHeaders,
    delete: OwnedHeaders,
}

impl Headers {
    fn new(table: &TableId) -> Self {
        let (database, schema) = match table.database.split_once('.') {
            Some((database, schema)) => (database, Some(schema)),
            None => (table.database.as_str(), None),
        };
        let add = |headers: OwnedHeaders, key: &str, value: &str| {
            headers.insert(Header { key, value: Some(value) })
        };
        let mut all = add(OwnedHeaders::new_with_capacity(4), "database", database);
        if let Some(schema) = schema {
            all = add(all, "schema", schema);
        }
        let all = add(all, "table", &table.table);
        let with = |op| add(all.clone(), "op", op);
        Self { insert: with("I"), update: with("U"), delete: with("D") }
    }

    fn of(&self, event: Event) -> OwnedHeaders {
        match event {
            Event::Insert(_) => self.insert.clone(),
            Event::Update { .. } => self.update.clone(),
            Event::Delete(_) => self.delete.clone(),
        }
    }
}

/// What exactly-once needs.
struct Transactions {
    ledger: Ledger,
    /// A transaction is open.
    open: bool,
}

/// Asks how many partitions a topic has, which is created where that is asked for.
async fn partitions(inner: &Arc<Inner>, topic: &str) -> Result<u32> {
    let (inner, topic) = (Arc::clone(inner), topic.to_owned());
    off_runtime("kafka.metadata", move |cancelled| inner.ensure(&topic, cancelled)).await
}

#[async_trait]
impl SinkWriter for KafkaWriter {
    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        if let Err(e) = self.check() {
            return Err(self.failed(e).await);
        }
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let sent = match self.begin() {
            Ok(()) => self.send(table, &rows).await,
            Err(e) => Err(e),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(e) => Err(self.failed(e).await.with_context("table", table)),
        }
    }

    /// Rows bring their columns with them: there is nothing to change but to see that the table has a topic.
    async fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        self.check()?;
        if let SchemaChange::CreateTable { table, schema } = change {
            self.primary_keys.insert(table.clone(), schema.primary_key.clone());
        }
        let topic = self.inner.topic_of(change.table())?;
        if matches!(change, SchemaChange::CreateTable { .. }) && self.inner.topic.constant().is_none() {
            partitions(&self.inner, &topic).await.map_err(|e| e.with_context("table", change.table()))?;
        }
        Ok(())
    }

    async fn flush(&mut self, token: Option<&FlushToken>) -> Result<Flushed> {
        self.check()?;
        if token.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, super::NO_TOKENS).with_operation("kafka.flush"));
        }
        if self.transactions.is_some() {
            let text = "under exactly-once a flush stores the source's offsets (`flush_with`)";
            return Err(Error::new(ErrorKind::Unsupported, text).with_operation("kafka.flush"));
        }
        self.producer.flush().await?;
        self.failures()?;
        Ok(self.flushed())
    }

    async fn flush_with(&mut self, offsets: &SourceOffsets) -> Result<Flushed> {
        if let Err(e) = self.check() {
            return Err(self.failed(e).await);
        }
        if self.transactions.is_none() {
            let text = "offsets are stored by writers that were opened under exactly-once";
            return Err(Error::new(ErrorKind::Unsupported, text).with_operation("kafka.flush"));
        }
        match self.commit(offsets).await {
            Ok(()) => Ok(self.flushed()),
            Err(e) => Err(self.failed(e).await),
        }
    }

    /// Never: records are on their way without a flush.
    fn flush_due(&self) -> Option<Instant> {
        None
    }

    async fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.end_transaction(None).await;
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
