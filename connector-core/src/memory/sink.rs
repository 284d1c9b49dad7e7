//! [`MemorySink`]: rows become visible when they are flushed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;

use crate::{
    batch::{BatchMeter, BatchPolicy},
    change::{ChangeBatch, RowKind},
    error::{Error, ErrorKind, Result},
    schema::{SchemaChange, SchemaChangeKind, TableId, TableSchema},
    sink::{
        DeliveryGuarantee, ExactlyOnce, FlushToken, Flushed, Sink, SinkCapabilities, SinkWriter,
        SourceOffsets, WriterContext,
    },
};

#[derive(Debug, Default)]
struct Shared {
    tables: BTreeMap<TableId, TableSchema>,
    rows: BTreeMap<TableId, Vec<ChangeBatch>>,
    changes: Vec<SchemaChange>,
    tokens: BTreeSet<FlushToken>,
    /// Offsets by pipeline, and how often it was recovered.
    offsets: BTreeMap<String, SourceOffsets>,
    runs: BTreeMap<String, u64>,
    flushes: u64,
    failures: Vec<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    BeforeStored,
    AnswerLost,
}

/// A sink that keeps in memory what was flushed. Clones share it.
///
/// It takes every row kind and schema change, keeps rows in the order of their flushes, and drops a
/// flush whose token it has seen.
#[derive(Debug, Clone)]
pub struct MemorySink {
    shared: Arc<Mutex<Shared>>,
    policy: BatchPolicy,
    stores_offsets: bool,
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl MemorySink {
    /// An empty sink that wants a flush after 50,000 rows, 64 MiB or a second.
    pub fn new() -> Self {
        Self::with_policy(BatchPolicy {
            max_rows: 50_000,
            max_bytes: 64 << 20,
            max_interval: Duration::from_secs(1),
        })
    }

    /// An empty sink with bounds of its own.
    pub fn with_policy(policy: BatchPolicy) -> Self {
        Self { shared: Arc::default(), policy, stores_offsets: false }
    }

    /// The same sink keeping exactly-once by offsets that it stores with the rows, and not by tokens.
    #[must_use]
    pub fn storing_offsets(mut self) -> Self {
        self.stores_offsets = true;
        self
    }

    /// Forgets the offsets that it stored, as a target does whose retention is over.
    pub fn forget_offsets(&self) {
        self.lock().offsets.clear();
    }

    /// What was flushed to a table, in order.
    pub fn rows(&self, table: &TableId) -> Vec<ChangeBatch> {
        self.lock().rows.get(table).cloned().unwrap_or_default()
    }

    /// The tables that rows were flushed to.
    pub fn tables(&self) -> Vec<TableId> {
        self.lock().rows.keys().cloned().collect()
    }

    /// The schema changes that were applied, announcements of known tables left out.
    pub fn changes(&self) -> Vec<SchemaChange> {
        self.lock().changes.clone()
    }

    /// How many flushes brought rows.
    pub fn flushes(&self) -> u64 {
        self.lock().flushes
    }

    /// Makes the next flush fail after its rows were stored (`stored`), as when the answer is lost, or before.
    pub fn fail_next_flush(&self, stored: bool) {
        let failure = if stored { Failure::AnswerLost } else { Failure::BeforeStored };
        self.lock().failures.push(failure);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sink for MemorySink {
    type Writer = MemoryWriter;

    fn connector(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities {
            row_kinds: RowKind::ALL.into(),
            schema_changes: SchemaChangeKind::ALL.into(),
            exactly_once: if self.stores_offsets {
                ExactlyOnce::StoredOffsets
            } else {
                ExactlyOnce::DeduplicatedFlush
            },
        }
    }

    async fn check(&self, _delivery: DeliveryGuarantee) -> Result<()> {
        Ok(())
    }

    async fn recover(&self, pipeline: &str) -> Result<Option<SourceOffsets>> {
        let mut shared = self.lock();
        *shared.runs.entry(pipeline.to_owned()).or_default() += 1;
        Ok(shared.offsets.get(pipeline).cloned())
    }

    async fn open(&self, context: WriterContext) -> Result<MemoryWriter> {
        Ok(MemoryWriter {
            sink: self.clone(),
            holds: context.delivery == DeliveryGuarantee::ExactlyOnce && !self.stores_offsets,
            run: self.lock().runs.get(&context.pipeline).copied().unwrap_or_default(),
            pipeline: context.pipeline,
            meter: BatchMeter::new(self.policy),
            buffer: Vec::new(),
            state: State::Open,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Poisoned,
    Closed,
}

/// Buffers rows until they are flushed.
#[derive(Debug)]
pub struct MemoryWriter {
    sink: MemorySink,
    /// Rows wait for a token.
    holds: bool,
    pipeline: String,
    /// How often the pipeline had been recovered when this was opened.
    run: u64,
    meter: BatchMeter,
    buffer: Vec<(TableId, ChangeBatch)>,
    state: State,
}

impl MemoryWriter {
    fn expect_open(&self) -> Result<()> {
        match self.state {
            State::Open => Ok(()),
            State::Poisoned => Err(Error::new(ErrorKind::Closed, "a flush failed before; open a new writer")),
            State::Closed => Err(Error::new(ErrorKind::Closed, "the writer is closed")),
        }
    }

    fn flush_now(&mut self, token: Option<&FlushToken>, offsets: Option<&SourceOffsets>) -> Result<Flushed> {
        let mut shared = self.sink.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = shared.failures.pop();
        if failure == Some(Failure::BeforeStored) {
            self.state = State::Poisoned;
            return Err(Error::new(ErrorKind::Unavailable, "a failure that a test asked for"));
        }
        if let Some(offsets) = offsets {
            if shared.runs.get(&self.pipeline).copied().unwrap_or_default() != self.run {
                self.state = State::Poisoned;
                return Err(Error::new(ErrorKind::Conflict, "a later run of the pipeline has begun"));
            }
            let stored = shared.offsets.entry(self.pipeline.clone()).or_default();
            for (id, offset) in offsets.iter() {
                stored.insert(id.clone(), offset.clone());
            }
        }
        let mut flushed = Flushed::default();
        let buffer = std::mem::take(&mut self.buffer);
        self.meter.clear();
        let repeated = token.is_some_and(|token| !buffer.is_empty() && !shared.tokens.insert(token.clone()));
        if !repeated && !buffer.is_empty() {
            shared.flushes += 1;
            for (table, rows) in buffer {
                flushed.rows += rows.num_rows() as u64;
                flushed.bytes += rows.memory_size() as u64;
                shared.rows.entry(table).or_default().push(rows);
            }
        }
        if failure.is_some() {
            self.state = State::Poisoned;
            return Err(Error::new(ErrorKind::Timeout, "a lost answer that a test asked for"));
        }
        Ok(flushed)
    }
}

#[async_trait]
impl SinkWriter for MemoryWriter {
    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        self.expect_open()?;
        self.meter.add(rows.num_rows(), rows.memory_size(), Instant::now());
        self.buffer.push((table.clone(), rows));
        Ok(())
    }

    async fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        self.expect_open()?;
        if !self.buffer.is_empty() && change.kind() != SchemaChangeKind::CreateTable {
            return Err(Error::new(ErrorKind::Unexpected, "flush before a schema change is applied")
                .with_context("table", change.table()));
        }
        let mut shared = self.sink.lock();
        if let SchemaChange::CreateTable { table, schema } = change {
            if shared.tables.get(table) == Some(schema) {
                return Ok(());
            }
            shared.tables.insert(table.clone(), schema.clone());
        }
        shared.changes.push(change.clone());
        Ok(())
    }

    async fn flush(&mut self, token: Option<&FlushToken>) -> Result<Flushed> {
        self.expect_open()?;
        if token.is_none() && self.holds && !self.buffer.is_empty() {
            return Err(Error::new(ErrorKind::Unexpected, "an exactly-once flush needs its token"));
        }
        if token.is_some() && self.sink.stores_offsets {
            return Err(Error::new(ErrorKind::Unsupported, "offsets are stored here, and no tokens"));
        }
        self.flush_now(token, None)
    }

    async fn flush_with(&mut self, offsets: &SourceOffsets) -> Result<Flushed> {
        self.expect_open()?;
        if !self.sink.stores_offsets {
            return Err(Error::new(ErrorKind::Unsupported, "tokens are kept here, and no offsets"));
        }
        self.flush_now(None, Some(offsets))
    }

    fn flush_due(&self) -> Option<Instant> {
        self.meter.due()
    }

    async fn close(&mut self) -> Result<()> {
        self.state = State::Closed;
        self.buffer.clear();
        Ok(())
    }
}
