//! The writing side: [`Sink`] opens a [`SinkWriter`]; two-phase commit is opt-in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Instant,
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, make_array},
    datatypes::DataType,
    util::display::{ArrayFormatter, FormatOptions},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    bad_record::BadRecord,
    change::{ChangeBatch, RowKind},
    error::{Error, ErrorKind, Result},
    schema::{SchemaChange, SchemaChangeKind, TableId},
    split::{Split, SplitId},
};

/// What a pipeline promises about each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryGuarantee {
    /// No row is lost; rows since the last checkpoint may come again after a crash.
    #[default]
    AtLeastOnce,
    /// Every row has its effect once, also after a crash. Refused where a pair cannot keep it.
    ExactlyOnce,
}

/// How a sink keeps [`DeliveryGuarantee::ExactlyOnce`], where it can.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExactlyOnce {
    /// It cannot; the text says why and what would help.
    Unsupported(String),
    /// Rows are upserts by key: repeating them ends in the same state.
    IdempotentUpsert,
    /// The target drops a flush whose [`FlushToken`] it has seen: the runner repeats a flush exactly.
    DeduplicatedFlush,
    /// The target stores the source's offsets with the rows before them, in one step
    /// ([`SinkWriter::flush_with`]), and tells them to the next run ([`Sink::recover`]).
    StoredOffsets,
}

/// What a sink can do.
#[derive(Debug, Clone)]
pub struct SinkCapabilities {
    /// Row kinds that the sink takes; it drops none of them silently.
    pub row_kinds: BTreeSet<RowKind>,
    /// Schema changes that it can apply.
    pub schema_changes: BTreeSet<SchemaChangeKind>,
    /// How it keeps exactly-once.
    pub exactly_once: ExactlyOnce,
}

/// What a writer does with columns of the rows that the table lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownColumns {
    /// They are an error.
    #[default]
    Refuse,
    /// They are left out, with one warning: the pipeline leaves out schema changes that would add them.
    LeaveOut,
}

/// What a writer learns about its place.
#[derive(Debug, Clone)]
pub struct WriterContext {
    /// The pipeline's name: stable across restarts, part of tokens and metric labels.
    pub pipeline: String,
    /// This chain, from 0.
    pub chain: usize,
    /// How many chains there are.
    pub chains: usize,
    /// What the pipeline promises. Under `ExactlyOnce` with [`ExactlyOnce::DeduplicatedFlush`] a writer
    /// holds its rows until `flush` brings the token.
    pub delivery: DeliveryGuarantee,
    /// What happens to columns that a table lacks; a sink without tables of its own may ignore it.
    pub unknown_columns: UnknownColumns,
}

impl Default for WriterContext {
    fn default() -> Self {
        Self {
            pipeline: "pipeline".to_owned(),
            chain: 0,
            chains: 1,
            delivery: DeliveryGuarantee::AtLeastOnce,
            unknown_columns: UnknownColumns::Refuse,
        }
    }
}

/// Names one flush for good: the same rows are flushed again under the same token after a crash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlushToken(String);

impl FlushToken {
    /// A token; letters, digits, `-` and `_` only, so that every target can take it.
    ///
    /// # Errors
    /// `OptionInvalid` for other characters or an empty text.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err(Error::new(
                ErrorKind::OptionInvalid,
                format!("`{text}` cannot be a flush token; use letters, digits, - and _"),
            ));
        }
        Ok(Self(text))
    }

    /// The token's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FlushToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a source was read, as a target stores it with the rows: the offset of each split, in its serialized form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceOffsets(BTreeMap<SplitId, Value>);

impl SourceOffsets {
    /// The offsets of these splits; those that have none yet are left out.
    ///
    /// # Errors
    /// `Unexpected` when an offset does not serialize.
    pub fn of<'a, S: Split>(splits: impl IntoIterator<Item = &'a S>) -> Result<Self> {
        let mut offsets = Self::default();
        for split in splits {
            let Some(offset) = split.offset() else { continue };
            let value = serde_json::to_value(offset).map_err(|e| {
                Error::new(ErrorKind::Unexpected, "an offset does not serialize")
                    .with_context("split", split.id())
                    .with_source(e)
            })?;
            offsets.0.insert(split.id(), value);
        }
        Ok(offsets)
    }

    /// The offset of a split.
    ///
    /// # Errors
    /// `CheckpointInvalid` when it is none of this kind of split.
    pub fn get<S: Split>(&self, id: &SplitId) -> Result<Option<S::Offset>> {
        let Some(value) = self.0.get(id) else { return Ok(None) };
        S::Offset::deserialize(value).map(Some).map_err(|e| {
            Error::new(ErrorKind::CheckpointInvalid, "an offset that the target stored does not parse")
                .with_context("split", id)
                .with_source(e)
        })
    }

    /// Whether there is an offset of a split.
    pub fn contains(&self, id: &SplitId) -> bool {
        self.0.contains_key(id)
    }

    /// Sets the serialized offset of a split.
    pub fn insert(&mut self, id: SplitId, offset: Value) {
        self.0.insert(id, offset);
    }

    /// All splits with their serialized offsets.
    pub fn iter(&self) -> impl Iterator<Item = (&SplitId, &Value)> {
        self.0.iter()
    }
}

/// Rows that the sink refused under the policies `skip` and `dead-letter`, with a reason each.
#[derive(Debug, Clone)]
pub struct RejectedRows {
    /// The table they were meant for.
    pub table: TableId,
    /// The rows.
    pub rows: RecordBatch,
    /// Why, row by row; names column and value.
    pub reasons: Vec<String>,
    /// True under `dead-letter`: the rows go to the dead-letter sink. False under `skip`.
    pub dead_letter: bool,
}

impl RejectedRows {
    /// The rows as bad records: origin is the table, the value a JSON object of the columns as text.
    ///
    /// # Errors
    /// `Unexpected` when a column type cannot be shown as text.
    pub fn to_bad_records(&self) -> Result<Vec<BadRecord>> {
        let cannot =
            |e| Error::new(ErrorKind::Unexpected, "cannot show a rejected row as text").with_source(e);
        let options = FormatOptions::default();
        let columns: Vec<ArrayRef> = self.rows.columns().iter().map(without_zone).collect();
        let formatters = columns
            .iter()
            .map(|c| ArrayFormatter::try_new(c, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(cannot)?;
        let schema = self.rows.schema();
        let record = |row: usize| -> Result<BadRecord> {
            let mut value = serde_json::Map::new();
            for ((field, formatter), column) in
                schema.fields().iter().zip(&formatters).zip(self.rows.columns())
            {
                let text = if column.is_null(row) {
                    serde_json::Value::Null
                } else {
                    formatter.value(row).try_to_string().map_err(cannot)?.into()
                };
                value.insert(field.name().clone(), text);
            }
            Ok(BadRecord {
                origin: self.table.to_string(),
                split: String::new(),
                offset: String::new(),
                timestamp: None,
                key: None,
                value: Some(serde_json::Value::Object(value).to_string().into_bytes()),
                reason: self.reasons.get(row).cloned().unwrap_or_default(),
            })
        };
        (0..self.rows.num_rows()).map(record).collect()
    }
}

/// A timestamp as the same instant in UTC: Arrow shows named zones only with a database of them built in.
fn without_zone(column: &ArrayRef) -> ArrayRef {
    let DataType::Timestamp(unit, Some(_)) = column.data_type() else { return Arc::clone(column) };
    let data = column.to_data().into_builder().data_type(DataType::Timestamp(*unit, None)).build();
    data.map_or_else(|_| Arc::clone(column), make_array)
}

/// What a flush made durable.
#[derive(Debug, Clone, Default)]
pub struct Flushed {
    /// Rows that are durable now and were not at the last flush, after compaction.
    pub rows: u64,
    /// Bytes sent for them.
    pub bytes: u64,
    /// Rows since the last flush that the target cannot hold.
    pub rejected: Vec<RejectedRows>,
}

/// A place to write to. Cheap to clone or share; it holds options, not connections.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// What writes.
    type Writer: SinkWriter;

    /// The connector's name in metrics and errors, such as `bytehouse-cdw`.
    fn connector(&self) -> &'static str;

    /// What the sink can do under its options.
    fn capabilities(&self) -> SinkCapabilities;

    /// Connects, authenticates, and looks whether the target can take what the options ask for,
    /// `delivery` included. Writes nothing.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthenticated`, `PermissionDenied`, `NotFound`, `SchemaMismatch`; `Unsupported`
    /// with the reason when the target cannot keep `delivery`. Ends within the connector's time-outs. Cancel-safe.
    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()>;

    /// Opens a writer.
    ///
    /// # Errors
    /// As [`Self::check`].
    async fn open(&self, context: WriterContext) -> Result<Self::Writer>;

    /// With [`ExactlyOnce::StoredOffsets`]: ends every earlier run of `pipeline`, so that none of its writers can make a row
    /// visible any more, and tells the offsets that were stored with the rows that are; `None` where there are none.
    /// Called before a writer is opened under [`DeliveryGuarantee::ExactlyOnce`].
    ///
    /// # Errors
    /// As [`Self::check`].
    async fn recover(&self, pipeline: &str) -> Result<Option<SourceOffsets>> {
        let _ = pipeline;
        Ok(None)
    }

    /// With [`ExactlyOnce::StoredOffsets`]: whether a flush tells the source's system, too, how far it was read, in the same
    /// step as the rows. The runner then acknowledges nothing to the reader: an acknowledgement that arrives behind the next
    /// flush would take back what that one told.
    fn acknowledges(&self) -> bool {
        false
    }

    /// Where the options ask for it: how all rows of a bounded run become visible together, at its end.
    fn atomic_batch(&self) -> Option<Arc<dyn AtomicBatch>> {
        None
    }
}

/// Makes a bounded run visible as a whole: what its writers flush is durable, and seen only once it is committed.
///
/// The runner calls [`begin`](Self::begin) before it opens a writer. After all rows are flushed it stores what
/// [`prepare`](Self::prepare) names in the checkpoint, calls [`commit`](Self::commit), stores the checkpoint of
/// the end, and calls [`finish`](Self::finish). A run that finds a name in its checkpoint commits it before
/// anything else; one that finds none begins anew.
#[async_trait]
pub trait AtomicBatch: fmt::Debug + Send + Sync {
    /// Begins a batch of `job`, and takes away what earlier runs of it left without a commit.
    ///
    /// # Errors
    /// `Conflict` when an earlier commit broke off and nobody asked to go on with it; else as [`Sink::check`].
    async fn begin(&self, job: &str) -> Result<()>;

    /// A name for what was flushed, by which any later process can commit it; `None` when there is nothing.
    ///
    /// # Errors
    /// As [`SinkWriter::flush`].
    async fn prepare(&self) -> Result<Option<FlushToken>>;

    /// Makes everything visible. Idempotent: a commit that broke off, or was done already, is called again.
    ///
    /// # Errors
    /// `Conflict` when it is not possible any more; transient ones are retried inside.
    async fn commit(&self, batch: &FlushToken) -> Result<()>;

    /// Takes away what a commit leaves, once the checkpoint says that it is done.
    ///
    /// # Errors
    /// The next [`begin`](Self::begin) tries again.
    async fn finish(&self, batch: &FlushToken) -> Result<()>;

    /// Takes away what was flushed, when the run failed.
    ///
    /// # Errors
    /// The next [`begin`](Self::begin) tries again.
    async fn abort(&self) -> Result<()>;
}

/// Writes rows. One owner; calls come one after the other.
#[async_trait]
pub trait SinkWriter: Send + 'static {
    /// Takes rows. Waits while the writer's buffers are full, which is the back-pressure. Durable only
    /// after a later `flush` returned; at-least-once writers may send earlier.
    ///
    /// **Not cancel-safe**: a dropped future may leave part of the batch taken; close the writer then.
    ///
    /// # Errors
    /// Transient errors are retried inside, within the sink's options. What comes out poisons the
    /// writer: nothing since the last successful flush may be taken for durable.
    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()>;

    /// Applies a schema change. The caller has flushed before; the writer refreshes what it knows of the
    /// table. Applying a change that is in place already does nothing.
    ///
    /// # Errors
    /// `Unsupported` when the target cannot change so; `SchemaMismatch` when the table is in the way.
    async fn apply(&mut self, change: &SchemaChange) -> Result<()>;

    /// Another writer has changed a table: what this one knows of it is out of date. Changes nothing at the
    /// target, where the change is in place already. The caller has flushed before.
    ///
    /// # Errors
    /// As [`Self::flush`].
    async fn refresh(&mut self, _table: &TableId) -> Result<()> {
        Ok(())
    }

    /// Makes all rows written so far durable.
    ///
    /// With a token, the target must recognise the flush when the same rows come again under the same
    /// token; a sink without [`ExactlyOnce::DeduplicatedFlush`] refuses tokens as `Unsupported`.
    ///
    /// **Not cancel-safe**: after a dropped future nothing is known about the rows; close the writer.
    ///
    /// # Errors
    /// The error says which rows (table, count) are not durable, and poisons the writer: the host opens
    /// a new one from its checkpoint.
    async fn flush(&mut self, token: Option<&FlushToken>) -> Result<Flushed>;

    /// Makes all rows written so far durable and visible and stores `offsets` with them, in one step: both are there, or
    /// neither. Also without rows. Only with [`ExactlyOnce::StoredOffsets`].
    ///
    /// **Not cancel-safe**: after a dropped future only [`Sink::recover`] tells what became of it.
    ///
    /// # Errors
    /// As [`Self::flush`]; `Conflict` when a later run of the pipeline has begun; `Unsupported` by other sinks.
    async fn flush_with(&mut self, offsets: &SourceOffsets) -> Result<Flushed> {
        let _ = offsets;
        Err(Error::new(ErrorKind::Unsupported, "this sink stores no offsets"))
    }

    /// When the rows written so far should be flushed at the latest, by the sink's own options (rows,
    /// bytes, interval); `None` while there are none, or when the writer flushes by itself. In the past
    /// when it is time. Cheap; does no I/O.
    fn flush_due(&self) -> Option<Instant>;

    /// Ends the writer within its deadline. Flushes nothing: rows not flushed are dropped, and where the
    /// target allows it an insert under way is broken off so that it stores nothing.
    ///
    /// # Errors
    /// `Timeout` when the deadline passed; the resources are let go all the same.
    async fn close(&mut self) -> Result<()>;
}

/// A sink that can prepare a flush and commit it later, each commit idempotent. Opt-in.
#[async_trait]
pub trait TwoPhaseSink: Sink<Writer: TwoPhaseWriter> {
    /// What commits.
    type Committer: Committer<Committable = <Self::Writer as TwoPhaseWriter>::Committable>;

    /// Opens a committer.
    ///
    /// # Errors
    /// As [`Sink::check`].
    async fn committer(&self) -> Result<Self::Committer>;
}

/// A writer that prepares commits.
#[async_trait]
pub trait TwoPhaseWriter: SinkWriter {
    /// What a prepared flush is called; stored in the host's checkpoint before the commit.
    type Committable: Serialize + for<'de> Deserialize<'de> + Clone + Send + Sync + 'static;

    /// Makes all rows written so far durable but not visible.
    ///
    /// # Errors
    /// As [`SinkWriter::flush`].
    async fn prepare(&mut self) -> Result<Vec<Self::Committable>>;
}

/// Makes prepared flushes visible.
#[async_trait]
pub trait Committer: Send + 'static {
    /// What is committed.
    type Committable;

    /// Commits. Idempotent: committing what is committed already succeeds, so a host that crashed
    /// between storing its checkpoint and the commit just commits again.
    ///
    /// # Errors
    /// `Conflict` when a commit is no longer possible (fenced, expired): rows may be lost, a person must look.
    async fn commit(&mut self, committables: Vec<Self::Committable>) -> Result<()>;
}
