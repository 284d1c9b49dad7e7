#![doc = include_str!("../README.md")]

pub mod bad_record;
pub mod batch;
pub mod change;
pub mod checkpoint;
pub mod dynamic;
pub mod error;
pub mod memory;
pub mod options;
pub mod pipeline;
pub mod registry;
pub mod retry;
pub mod schema;
pub mod sink;
pub mod source;
pub mod split;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use arrow;
pub use async_trait::async_trait;
pub use bad_record::{BadRecord, BadRecordPolicy};
pub use change::{ChangeBatch, RowKind, RowKinds};
pub use checkpoint::{Checkpoint, CheckpointStore, FileCheckpointStore, MemoryCheckpointStore};
pub use error::{Error, ErrorKind, Result, RetryState};
pub use options::Secret;
pub use pipeline::{Pipeline, Report};
pub use schema::{SchemaChange, SchemaChangeKind, TableId, TableSchema};
pub use sink::{
    DeliveryGuarantee, ExactlyOnce, FlushToken, Flushed, Sink, SinkCapabilities, SinkWriter, SourceOffsets,
    UnknownColumns, WriterContext,
};
pub use source::{Boundedness, ChangelogMode, Source, SourceEvent, SourceReader};
pub use split::{Offset, Split, SplitId};
pub use tokio_util::sync::CancellationToken;
