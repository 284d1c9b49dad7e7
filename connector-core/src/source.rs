//! The reading side: [`Source`] finds splits and opens a [`SourceReader`] on them.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    bad_record::BadRecord,
    change::ChangeBatch,
    checkpoint::{splits_from_values, splits_to_values},
    error::Result,
    schema::{SchemaChange, TableId},
    split::{Split, SplitId},
};

/// Whether a source ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundedness {
    /// Every split ends; the reader then reports it as finished.
    Bounded,
    /// It goes on until someone stops it.
    Unbounded,
}

/// Which row kinds a source produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangelogMode {
    /// Inserts only.
    Append,
    /// Inserts, updates after, deletes; no `-U`.
    Upsert,
    /// All four kinds.
    Full,
}

/// A place to read from. Cheap to clone or share; it holds options, not connections.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// What the source is divided into.
    type Split: Split;
    /// What reads the splits.
    type Reader: SourceReader<Split = Self::Split>;

    /// The connector's name in checkpoints, metrics and errors, such as `kafka`.
    fn connector(&self) -> &'static str;

    /// Whether the source ends.
    fn boundedness(&self) -> Boundedness;

    /// Which row kinds it produces.
    fn changelog_mode(&self) -> ChangelogMode;

    /// How often a runner should look for new splits; `None` for once, at the start.
    fn discovery_interval(&self) -> Option<Duration> {
        None
    }

    /// How many readers the source's options ask for, for so many splits; `None` where they say nothing. A runner
    /// that was told a number itself does not ask.
    fn suggested_parallelism(&self, splits: usize) -> Option<usize> {
        let _ = splits;
        None
    }

    /// Whether the system deals the splits out among all processes that read it, so that they come and go.
    fn deals_splits(&self) -> bool {
        false
    }

    /// Version of the splits' serialized form.
    fn split_format_version(&self) -> u32 {
        Self::Split::FORMAT_VERSION
    }

    /// The splits' serialized form, for a checkpoint.
    ///
    /// # Errors
    /// `Unexpected` when a split does not serialize.
    fn snapshot(&self, splits: &[Self::Split]) -> Result<Vec<Value>> {
        splits_to_values(splits)
    }

    /// Splits out of a checkpoint. A connector that reads older versions migrates them here.
    ///
    /// # Errors
    /// `CheckpointInvalid` when the version is unknown or a split does not parse.
    fn restore(&self, format_version: u32, splits: &[Value]) -> Result<Vec<Self::Split>> {
        splits_from_values(format_version, splits)
    }

    /// Connects, authenticates and looks whether what the options name is there. Writes nothing.
    ///
    /// # Errors
    /// The kind says what is wrong: `Unavailable`, `Unauthenticated`, `PermissionDenied`, `NotFound`.
    /// Every call ends within the connector's own time-outs. Cancel-safe.
    async fn check(&self) -> Result<()>;

    /// Finds the splits that are not in `known`.
    ///
    /// At the very first start `known` is empty and new splits begin where the startup mode says.
    /// Later calls pass every split seen so far, finished ones included; what is new then begins at its
    /// earliest offset, so that nothing written before its discovery is lost. Splits seen before keep
    /// their ids. May be called again and again.
    ///
    /// # Errors
    /// As [`Self::check`]. The caller decides about retries; nothing changes on failure. Cancel-safe.
    async fn discover(&self, known: &[SplitId]) -> Result<Vec<Self::Split>>;

    /// Opens a reader on `splits`, each at its own offset. An empty list is allowed; splits may follow
    /// by [`SourceReader::add_splits`].
    ///
    /// # Errors
    /// As [`Self::check`]; `CheckpointInvalid` when an offset cannot be read from any more.
    async fn open(&self, splits: Vec<Self::Split>) -> Result<Self::Reader>;
}

/// What [`SourceReader::next`] returns.
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceEvent<S: Split> {
    /// Rows of one table out of one split.
    Batch {
        /// The split they come from.
        split: SplitId,
        /// The table they belong to.
        table: TableId,
        /// The rows.
        rows: ChangeBatch,
        /// Where a restart begins once these rows are durable. Where one read yields several batches,
        /// every batch but the last carries the offset *before* the read.
        next: S::Offset,
    },
    /// Records that could not be read, under the policy `dead-letter`. They count as delivered only
    /// when the dead-letter sink has flushed them.
    DeadLetters {
        /// The split they come from.
        split: SplitId,
        /// The records with their raw bytes.
        records: Vec<BadRecord>,
        /// As for `Batch`.
        next: S::Offset,
    },
    /// A table appears or changes. Closes the batch before it. A reader announces every table before
    /// its first batch, and again after a restart; announcing twice is harmless.
    Schema {
        /// The split it comes from.
        split: SplitId,
        /// The change.
        change: SchemaChange,
        /// Where a restart begins once the change is applied; `None` for an announcement, which moves nothing.
        next: Option<S::Offset>,
    },
    /// The offset moved past records that yield no row (tombstones, transaction markers, skipped records).
    Advanced {
        /// The split.
        split: SplitId,
        /// Where a restart begins.
        next: S::Offset,
    },
    /// A bounded split has been read to its end; all its rows came before this event.
    Finished {
        /// The split.
        split: SplitId,
    },
    /// The system gave this reader further splits (group membership).
    Assigned {
        /// The splits, at the offsets where reading goes on.
        splits: Vec<S>,
    },
    /// The system takes splits away. Everything read of them must be flushed and acknowledged
    /// before the next call of `next`, which lets them go.
    Revoked {
        /// The splits with the offsets reached.
        splits: Vec<S>,
    },
}

/// Reads splits. One owner, pulled by it; never pushes.
#[async_trait]
pub trait SourceReader: Send + 'static {
    /// What is read.
    type Split: Split;

    /// The next event, or `None` when every split of a bounded source is finished.
    ///
    /// Pulling is the back-pressure: without calls the reader fetches ahead only up to the bounds of its
    /// options, in rows and bytes, then waits.
    ///
    /// **Cancel-safe**: dropping the future loses nothing; the next call returns what this one would have.
    ///
    /// # Errors
    /// Transient errors are retried inside, within the connector's options; what comes out is permanent
    /// or exhausted. After an error the reader must be closed; its splits are at the last event returned.
    async fn next(&mut self) -> Result<Option<SourceEvent<Self::Split>>>;

    /// Adds splits, each at its own offset.
    ///
    /// # Errors
    /// `Conflict` when the reader has a split of that id. Nothing is added then.
    async fn add_splits(&mut self, splits: Vec<Self::Split>) -> Result<()>;

    /// Gives up splits and returns them at the offsets reached by events returned so far; rows read
    /// ahead are dropped. Ids that the reader does not have are ignored.
    ///
    /// # Errors
    /// None of a connector's own; an error means that the reader is broken and must be closed.
    async fn remove_splits(&mut self, ids: &[SplitId]) -> Result<Vec<Self::Split>>;

    /// The splits, finished ones included, at the offsets reached by the events returned so far.
    /// Cheap; does no I/O.
    fn splits(&self) -> Vec<Self::Split>;

    /// Tells the source that everything before these offsets is durable *and* stored in the host's
    /// checkpoint. The upstream's own record of it (a consumer group) is for other people's dashboards.
    ///
    /// # Errors
    /// A failed acknowledgement loses nothing: count it and go on. Cancel-safe.
    async fn acknowledge(&mut self, splits: &[Self::Split]) -> Result<()>;

    /// Ends the reader within its deadline (5 s unless the connector says otherwise). Commits nothing.
    /// `Drop` without `close` never blocks and leaves no thread or task for longer than that.
    ///
    /// # Errors
    /// `Timeout` when the deadline passed; the resources are let go all the same.
    async fn close(&mut self) -> Result<()>;
}
