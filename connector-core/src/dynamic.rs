//! Sources and sinks whose type is known only at run time.
//!
//! [`DynSource`] and [`DynSink`] wrap any source and sink and are ones themselves, so a runner needs no
//! second code path. Their checkpoints are those of the wrapped source: a program can change between
//! the typed and the erased form. The traits here stay out of any glob import, because their method
//! names are those of the typed ones.

use std::{cmp::Ordering, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    change::ChangeBatch,
    checkpoint::splits_to_values,
    error::{Error, ErrorKind, Result},
    schema::{SchemaChange, TableId},
    sink::{
        AtomicBatch, DeliveryGuarantee, FlushToken, Flushed, Sink, SinkCapabilities, SinkWriter,
        SourceOffsets, WriterContext,
    },
    source::{Boundedness, ChangelogMode, Source, SourceEvent, SourceReader},
    split::{Offset, Split, SplitId},
};

/// An offset of an erased split: the whole split as it stands there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DynOffset {
    split: Value,
    text: String,
}

impl PartialOrd for DynOffset {
    /// Erased offsets are equal or cannot be compared.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl fmt::Display for DynOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Offset for DynOffset {}

/// A split of unknown type, kept in its serialized form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DynSplit {
    id: SplitId,
    offset: Option<DynOffset>,
    state: Value,
    end: Option<Value>,
}

impl Split for DynSplit {
    type Offset = DynOffset;
    const FORMAT_VERSION: u32 = 1;

    fn id(&self) -> SplitId {
        self.id.clone()
    }

    fn offset(&self) -> Option<&DynOffset> {
        self.offset.as_ref()
    }

    fn seek(&mut self, offset: DynOffset) {
        self.state = offset.split.clone();
        self.offset = Some(offset);
    }

    fn end_before(&mut self, end: &DynOffset) {
        self.end.get_or_insert_with(|| end.split.clone());
    }
}

fn erase<S: Split>(split: &S) -> Result<DynSplit> {
    let mut states = splits_to_values(std::slice::from_ref(split))?;
    let state = states.pop().unwrap_or_default();
    let offset = split.offset().map(|offset| DynOffset { split: state.clone(), text: offset.to_string() });
    Ok(DynSplit { id: split.id(), offset, state, end: None })
}

fn restore_typed<S: Split>(split: &DynSplit) -> Result<S> {
    let typed = |state: &Value| -> Result<S> {
        S::deserialize(state).map_err(|e| {
            Error::new(ErrorKind::CheckpointInvalid, "an erased split does not parse")
                .with_context("split", &split.id)
                .with_source(e)
        })
    };
    let mut restored = typed(&split.state)?;
    if let Some(end) = &split.end
        && let Some(offset) = typed(end)?.offset()
    {
        restored.end_before(offset);
    }
    Ok(restored)
}

/// The erased twin of [`Source`]; implemented for every source.
#[async_trait]
pub trait ErasedSource: Send + Sync + 'static {
    /// [`Source::connector`]
    fn connector(&self) -> &'static str;
    /// [`Source::boundedness`]
    fn boundedness(&self) -> Boundedness;
    /// [`Source::changelog_mode`]
    fn changelog_mode(&self) -> ChangelogMode;
    /// [`Source::discovery_interval`]
    fn discovery_interval(&self) -> Option<Duration>;
    /// [`Source::suggested_parallelism`]
    fn suggested_parallelism(&self, splits: usize) -> Option<usize>;
    /// [`Source::deals_splits`]
    fn deals_splits(&self) -> bool;
    /// [`Source::split_format_version`]
    fn split_format_version(&self) -> u32;
    /// [`Source::restore`]
    fn restore(&self, format_version: u32, splits: &[Value]) -> Result<Vec<DynSplit>>;
    /// [`Source::check`]
    async fn check(&self) -> Result<()>;
    /// [`Source::discover`]
    async fn discover(&self, known: &[SplitId]) -> Result<Vec<DynSplit>>;
    /// [`Source::open`]
    async fn open(&self, splits: Vec<DynSplit>) -> Result<DynReader>;
}

#[async_trait]
impl<S: Source> ErasedSource for S {
    fn connector(&self) -> &'static str {
        Source::connector(self)
    }

    fn boundedness(&self) -> Boundedness {
        Source::boundedness(self)
    }

    fn changelog_mode(&self) -> ChangelogMode {
        Source::changelog_mode(self)
    }

    fn discovery_interval(&self) -> Option<Duration> {
        Source::discovery_interval(self)
    }

    fn suggested_parallelism(&self, splits: usize) -> Option<usize> {
        Source::suggested_parallelism(self, splits)
    }

    fn deals_splits(&self) -> bool {
        Source::deals_splits(self)
    }

    fn split_format_version(&self) -> u32 {
        Source::split_format_version(self)
    }

    fn restore(&self, format_version: u32, splits: &[Value]) -> Result<Vec<DynSplit>> {
        Source::restore(self, format_version, splits)?.iter().map(erase).collect()
    }

    async fn check(&self) -> Result<()> {
        Source::check(self).await
    }

    async fn discover(&self, known: &[SplitId]) -> Result<Vec<DynSplit>> {
        Source::discover(self, known).await?.iter().map(erase).collect()
    }

    async fn open(&self, splits: Vec<DynSplit>) -> Result<DynReader> {
        let typed: Vec<S::Split> = splits.iter().map(restore_typed).collect::<Result<_>>()?;
        let splits = typed.iter().map(|split| (split.id(), split.clone())).collect();
        let reader = Source::open(self, typed).await?;
        Ok(Box::new(ErasedReader { reader, splits }))
    }
}

/// A reader of unknown type.
pub type DynReader = Box<dyn SourceReader<Split = DynSplit>>;

/// Turns a typed reader's offsets into whole splits.
struct ErasedReader<R: SourceReader> {
    reader: R,
    splits: BTreeMap<SplitId, R::Split>,
}

impl<R: SourceReader> ErasedReader<R> {
    fn advance(&mut self, id: &SplitId, next: <R::Split as Split>::Offset) -> Result<DynOffset> {
        let split = self.splits.get_mut(id).ok_or_else(|| {
            Error::new(ErrorKind::Unexpected, "the reader reports a split that it was not given")
                .with_context("split", id)
        })?;
        split.seek(next);
        erase(split)?
            .offset
            .ok_or_else(|| Error::new(ErrorKind::Unexpected, "a split has no offset after a seek"))
    }

    fn event(&mut self, event: SourceEvent<R::Split>) -> Result<SourceEvent<DynSplit>> {
        Ok(match event {
            SourceEvent::Batch { split, table, rows, next } => {
                let next = self.advance(&split, next)?;
                SourceEvent::Batch { split, table, rows, next }
            }
            SourceEvent::DeadLetters { split, records, next } => {
                let next = self.advance(&split, next)?;
                SourceEvent::DeadLetters { split, records, next }
            }
            SourceEvent::Schema { split, change, next } => {
                let next = next.map(|next| self.advance(&split, next)).transpose()?;
                SourceEvent::Schema { split, change, next }
            }
            SourceEvent::Advanced { split, next } => {
                let next = self.advance(&split, next)?;
                SourceEvent::Advanced { split, next }
            }
            SourceEvent::Finished { split } => SourceEvent::Finished { split },
            SourceEvent::Assigned { splits } => {
                let erased = splits.iter().map(erase).collect::<Result<_>>()?;
                self.splits.extend(splits.into_iter().map(|split| (split.id(), split)));
                SourceEvent::Assigned { splits: erased }
            }
            SourceEvent::Revoked { splits } => {
                for split in &splits {
                    self.splits.remove(&split.id());
                }
                SourceEvent::Revoked { splits: splits.iter().map(erase).collect::<Result<_>>()? }
            }
        })
    }
}

#[async_trait]
impl<R: SourceReader> SourceReader for ErasedReader<R> {
    type Split = DynSplit;

    async fn next(&mut self) -> Result<Option<SourceEvent<DynSplit>>> {
        match self.reader.next().await? {
            Some(event) => self.event(event).map(Some),
            None => Ok(None),
        }
    }

    async fn add_splits(&mut self, splits: Vec<DynSplit>) -> Result<()> {
        let typed: Vec<R::Split> = splits.iter().map(restore_typed).collect::<Result<_>>()?;
        self.reader.add_splits(typed.clone()).await?;
        self.splits.extend(typed.into_iter().map(|split| (split.id(), split)));
        Ok(())
    }

    async fn remove_splits(&mut self, ids: &[SplitId]) -> Result<Vec<DynSplit>> {
        for id in ids {
            self.splits.remove(id);
        }
        self.reader.remove_splits(ids).await?.iter().map(erase).collect()
    }

    fn splits(&self) -> Vec<DynSplit> {
        // A split that serialized when it was opened serializes again; one that would not is left out.
        self.reader.splits().iter().filter_map(|split| erase(split).ok()).collect()
    }

    async fn acknowledge(&mut self, splits: &[DynSplit]) -> Result<()> {
        let typed: Vec<R::Split> = splits.iter().map(restore_typed).collect::<Result<_>>()?;
        self.reader.acknowledge(&typed).await
    }

    async fn close(&mut self) -> Result<()> {
        self.reader.close().await
    }
}

#[async_trait]
impl<R: SourceReader + ?Sized> SourceReader for Box<R> {
    type Split = R::Split;

    async fn next(&mut self) -> Result<Option<SourceEvent<R::Split>>> {
        (**self).next().await
    }

    async fn add_splits(&mut self, splits: Vec<R::Split>) -> Result<()> {
        (**self).add_splits(splits).await
    }

    async fn remove_splits(&mut self, ids: &[SplitId]) -> Result<Vec<R::Split>> {
        (**self).remove_splits(ids).await
    }

    fn splits(&self) -> Vec<R::Split> {
        (**self).splits()
    }

    async fn acknowledge(&mut self, splits: &[R::Split]) -> Result<()> {
        (**self).acknowledge(splits).await
    }

    async fn close(&mut self) -> Result<()> {
        (**self).close().await
    }
}

/// A source of unknown type.
#[derive(Clone)]
pub struct DynSource(Arc<dyn ErasedSource>);

impl DynSource {
    /// Wraps a source.
    pub fn new(source: impl Source) -> Self {
        Self(Arc::new(source))
    }
}

impl fmt::Debug for DynSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynSource").field(&self.0.connector()).finish()
    }
}

#[async_trait]
impl Source for DynSource {
    type Split = DynSplit;
    type Reader = DynReader;

    fn connector(&self) -> &'static str {
        self.0.connector()
    }

    fn boundedness(&self) -> Boundedness {
        self.0.boundedness()
    }

    fn changelog_mode(&self) -> ChangelogMode {
        self.0.changelog_mode()
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.0.discovery_interval()
    }

    fn suggested_parallelism(&self, splits: usize) -> Option<usize> {
        self.0.suggested_parallelism(splits)
    }

    fn deals_splits(&self) -> bool {
        self.0.deals_splits()
    }

    fn split_format_version(&self) -> u32 {
        self.0.split_format_version()
    }

    fn snapshot(&self, splits: &[DynSplit]) -> Result<Vec<Value>> {
        Ok(splits.iter().map(|split| split.state.clone()).collect())
    }

    fn restore(&self, format_version: u32, splits: &[Value]) -> Result<Vec<DynSplit>> {
        self.0.restore(format_version, splits)
    }

    async fn check(&self) -> Result<()> {
        self.0.check().await
    }

    async fn discover(&self, known: &[SplitId]) -> Result<Vec<DynSplit>> {
        self.0.discover(known).await
    }

    async fn open(&self, splits: Vec<DynSplit>) -> Result<DynReader> {
        self.0.open(splits).await
    }
}

/// A writer of unknown type.
pub type DynWriter = Box<dyn SinkWriter>;

#[async_trait]
impl<W: SinkWriter + ?Sized> SinkWriter for Box<W> {
    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        (**self).write(table, rows).await
    }

    async fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        (**self).apply(change).await
    }

    async fn refresh(&mut self, table: &TableId) -> Result<()> {
        (**self).refresh(table).await
    }

    async fn flush(&mut self, token: Option<&FlushToken>) -> Result<Flushed> {
        (**self).flush(token).await
    }

    async fn flush_with(&mut self, offsets: &SourceOffsets) -> Result<Flushed> {
        (**self).flush_with(offsets).await
    }

    fn flush_due(&self) -> Option<std::time::Instant> {
        (**self).flush_due()
    }

    async fn close(&mut self) -> Result<()> {
        (**self).close().await
    }
}

/// The erased twin of [`Sink`]; implemented for every sink.
#[async_trait]
pub trait ErasedSink: Send + Sync + 'static {
    /// [`Sink::connector`]
    fn connector(&self) -> &'static str;
    /// [`Sink::capabilities`]
    fn capabilities(&self) -> SinkCapabilities;
    /// [`Sink::check`]
    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()>;
    /// [`Sink::open`]
    async fn open(&self, context: WriterContext) -> Result<DynWriter>;
    /// [`Sink::recover`]
    async fn recover(&self, pipeline: &str) -> Result<Option<SourceOffsets>>;
    /// [`Sink::acknowledges`]
    fn acknowledges(&self) -> bool;
    /// [`Sink::atomic_batch`]
    fn atomic_batch(&self) -> Option<Arc<dyn AtomicBatch>>;
}

#[async_trait]
impl<S: Sink> ErasedSink for S {
    fn connector(&self) -> &'static str {
        Sink::connector(self)
    }

    fn capabilities(&self) -> SinkCapabilities {
        Sink::capabilities(self)
    }

    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()> {
        Sink::check(self, delivery).await
    }

    async fn open(&self, context: WriterContext) -> Result<DynWriter> {
        Ok(Box::new(Sink::open(self, context).await?))
    }

    async fn recover(&self, pipeline: &str) -> Result<Option<SourceOffsets>> {
        Sink::recover(self, pipeline).await
    }

    fn acknowledges(&self) -> bool {
        Sink::acknowledges(self)
    }

    fn atomic_batch(&self) -> Option<Arc<dyn AtomicBatch>> {
        Sink::atomic_batch(self)
    }
}

/// A sink of unknown type.
#[derive(Clone)]
pub struct DynSink(Arc<dyn ErasedSink>);

impl DynSink {
    /// Wraps a sink.
    pub fn new(sink: impl Sink) -> Self {
        Self(Arc::new(sink))
    }
}

impl fmt::Debug for DynSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynSink").field(&self.0.connector()).finish()
    }
}

#[async_trait]
impl Sink for DynSink {
    type Writer = DynWriter;

    fn connector(&self) -> &'static str {
        self.0.connector()
    }

    fn capabilities(&self) -> SinkCapabilities {
        self.0.capabilities()
    }

    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()> {
        self.0.check(delivery).await
    }

    async fn open(&self, context: WriterContext) -> Result<DynWriter> {
        self.0.open(context).await
    }

    async fn recover(&self, pipeline: &str) -> Result<Option<SourceOffsets>> {
        self.0.recover(pipeline).await
    }

    fn acknowledges(&self) -> bool {
        self.0.acknowledges()
    }

    fn atomic_batch(&self) -> Option<Arc<dyn AtomicBatch>> {
        self.0.atomic_batch()
    }
}
