//! [`MemorySource`]: splits are lists of entries; an offset is the number of the next entry.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{
    change::ChangeBatch,
    error::{Error, ErrorKind, Result},
    schema::{SchemaChange, TableId, TableSchema},
    source::{Boundedness, ChangelogMode, Source, SourceEvent, SourceReader},
    split::{Offset, Split, SplitId},
};

/// Number of the next entry of a [`MemorySplit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemoryOffset(pub u64);

impl fmt::Display for MemoryOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Offset for MemoryOffset {}

/// A named list of entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySplit {
    name: String,
    offset: MemoryOffset,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<MemoryOffset>,
}

impl Split for MemorySplit {
    type Offset = MemoryOffset;
    const FORMAT_VERSION: u32 = 1;

    fn id(&self) -> SplitId {
        SplitId::new(self.name.clone())
    }

    fn offset(&self) -> Option<&MemoryOffset> {
        Some(&self.offset)
    }

    fn seek(&mut self, offset: MemoryOffset) {
        self.offset = offset;
    }

    fn end_before(&mut self, end: &MemoryOffset) {
        self.end = Some(self.end.map_or(*end, |before| before.min(*end)));
    }
}

#[derive(Debug, Clone)]
enum Entry {
    Rows(TableId, ChangeBatch),
    Schema(SchemaChange),
}

#[derive(Debug, Default)]
struct Shared {
    tables: BTreeMap<TableId, TableSchema>,
    splits: BTreeMap<String, Vec<Entry>>,
    acknowledged: BTreeMap<SplitId, MemoryOffset>,
}

/// A source that holds its rows in memory. Clones share them.
#[derive(Debug, Clone)]
pub struct MemorySource {
    shared: Arc<Mutex<Shared>>,
    grown: Arc<Notify>,
    boundedness: Boundedness,
}

impl MemorySource {
    /// A source whose splits end behind their last entry.
    pub fn bounded() -> Self {
        Self::new(Boundedness::Bounded)
    }

    /// A source that waits for further entries.
    pub fn unbounded() -> Self {
        Self::new(Boundedness::Unbounded)
    }

    fn new(boundedness: Boundedness) -> Self {
        Self { shared: Arc::default(), grown: Arc::default(), boundedness }
    }

    /// Declares a table. Rows of tables that nobody declared are announced by their columns, without a key.
    #[must_use]
    pub fn with_table(self, table: TableId, schema: TableSchema) -> Self {
        self.lock().tables.insert(table, schema);
        self
    }

    /// Appends rows to a split, which appears with its first entry.
    pub fn push(&self, split: &str, table: TableId, rows: ChangeBatch) {
        self.append(split, Entry::Rows(table, rows));
    }

    /// Appends a schema change to a split.
    pub fn push_schema(&self, split: &str, change: SchemaChange) {
        self.append(split, Entry::Schema(change));
    }

    /// The offsets that were acknowledged.
    pub fn acknowledged(&self) -> BTreeMap<SplitId, MemoryOffset> {
        self.lock().acknowledged.clone()
    }

    fn append(&self, split: &str, entry: Entry) {
        self.lock().splits.entry(split.to_owned()).or_default().push(entry);
        self.grown.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Source for MemorySource {
    type Split = MemorySplit;
    type Reader = MemoryReader;

    fn connector(&self) -> &'static str {
        "memory"
    }

    fn boundedness(&self) -> Boundedness {
        self.boundedness
    }

    fn changelog_mode(&self) -> ChangelogMode {
        ChangelogMode::Full
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn discover(&self, known: &[SplitId]) -> Result<Vec<MemorySplit>> {
        let splits = self.lock().splits.keys().cloned().collect::<Vec<_>>();
        Ok(splits
            .into_iter()
            .map(|name| MemorySplit { name, offset: MemoryOffset(0), end: None })
            .filter(|split| !known.contains(&split.id()))
            .collect())
    }

    async fn open(&self, splits: Vec<MemorySplit>) -> Result<MemoryReader> {
        let splits = splits.into_iter().map(ReaderSplit::new).collect();
        Ok(MemoryReader { source: self.clone(), splits, turn: 0, closed: false })
    }
}

#[derive(Debug)]
struct ReaderSplit {
    split: MemorySplit,
    announced: Vec<TableId>,
    finished: bool,
}

impl ReaderSplit {
    fn new(split: MemorySplit) -> Self {
        Self { split, announced: Vec::new(), finished: false }
    }

    /// The next event of this split, if there is one now.
    fn next(&mut self, shared: &Shared, boundedness: Boundedness) -> Option<SourceEvent<MemorySplit>> {
        if self.finished {
            return None;
        }
        let id = self.split.id();
        let entries = shared.splits.get(&self.split.name).map_or(&[] as &[Entry], Vec::as_slice);
        let at_end = self.split.end.is_some_and(|end| self.split.offset >= end);
        let entry =
            usize::try_from(self.split.offset.0).ok().and_then(|at| entries.get(at)).filter(|_| !at_end);
        let Some(entry) = entry else {
            self.finished = at_end || boundedness == Boundedness::Bounded;
            return self.finished.then_some(SourceEvent::Finished { split: id });
        };
        let table = match entry {
            Entry::Rows(table, _) => table,
            Entry::Schema(change) => change.table(),
        };
        if matches!(entry, Entry::Rows(..)) && !self.announced.contains(table) {
            self.announced.push(table.clone());
            let declared = shared.tables.get(table).cloned();
            let schema = declared.unwrap_or_else(|| match entry {
                Entry::Rows(_, rows) => TableSchema::new(rows.rows().schema()),
                Entry::Schema(_) => TableSchema::new(arrow::datatypes::Schema::empty().into()),
            });
            let change = SchemaChange::CreateTable { table: table.clone(), schema };
            return Some(SourceEvent::Schema { split: id, change, next: None });
        }
        let next = MemoryOffset(self.split.offset.0 + 1);
        self.split.seek(next);
        Some(match entry {
            Entry::Rows(table, rows) => {
                SourceEvent::Batch { split: id, table: table.clone(), rows: rows.clone(), next }
            }
            Entry::Schema(change) => {
                SourceEvent::Schema { split: id, change: change.clone(), next: Some(next) }
            }
        })
    }
}

/// Reads [`MemorySplit`]s in turn.
#[derive(Debug)]
pub struct MemoryReader {
    source: MemorySource,
    splits: Vec<ReaderSplit>,
    turn: usize,
    closed: bool,
}

impl MemoryReader {
    fn poll(&mut self) -> Option<SourceEvent<MemorySplit>> {
        let shared = self.source.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..self.splits.len() {
            let split = self.turn % self.splits.len();
            self.turn = split + 1;
            let event = self.splits[split].next(&shared, self.source.boundedness);
            if event.is_some() {
                return event;
            }
        }
        None
    }
}

#[async_trait]
impl SourceReader for MemoryReader {
    type Split = MemorySplit;

    async fn next(&mut self) -> Result<Option<SourceEvent<MemorySplit>>> {
        if self.closed {
            return Err(Error::new(ErrorKind::Closed, "the reader is closed").with_operation("memory.next"));
        }
        loop {
            let grown = Arc::clone(&self.source.grown);
            let mut waiting = std::pin::pin!(grown.notified());
            waiting.as_mut().enable();
            if let Some(event) = self.poll() {
                return Ok(Some(event));
            }
            let all_bounded = self.splits.iter().all(|split| split.split.end.is_some());
            if self.source.boundedness == Boundedness::Bounded || (all_bounded && !self.splits.is_empty()) {
                return Ok(None);
            }
            waiting.await;
        }
    }

    async fn add_splits(&mut self, splits: Vec<MemorySplit>) -> Result<()> {
        if let Some(twice) =
            splits.iter().find(|new| self.splits.iter().any(|old| old.split.id() == new.id()))
        {
            return Err(Error::new(ErrorKind::Conflict, "the reader has this split already")
                .with_context("split", twice.id()));
        }
        self.splits.extend(splits.into_iter().map(ReaderSplit::new));
        Ok(())
    }

    async fn remove_splits(&mut self, ids: &[SplitId]) -> Result<Vec<MemorySplit>> {
        let (gone, kept) =
            std::mem::take(&mut self.splits).into_iter().partition(|split| ids.contains(&split.split.id()));
        self.splits = kept;
        let gone: Vec<ReaderSplit> = gone;
        Ok(gone.into_iter().map(|split| split.split).collect())
    }

    fn splits(&self) -> Vec<MemorySplit> {
        self.splits.iter().map(|split| split.split.clone()).collect()
    }

    async fn acknowledge(&mut self, splits: &[MemorySplit]) -> Result<()> {
        let mut shared = self.source.lock();
        shared.acknowledged.extend(splits.iter().map(|split| (split.id(), split.offset)));
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        self.closed = true;
        Ok(())
    }
}
