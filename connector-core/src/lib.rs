#![doc = include_str!("../README.md")]

pub mod bad_record;
pub mod change;
pub mod error;
pub mod schema;
pub mod sink;
pub mod source;
pub mod split;

pub use arrow;
pub use async_trait::async_trait;
pub use bad_record::{BadRecord, BadRecordPolicy};
pub use change::{ChangeBatch, RowKind, RowKinds};
pub use error::{Error, ErrorKind, Result, RetryState};
pub use schema::{SchemaChange, SchemaChangeKind, TableId, TableSchema};
pub use sink::{DeliveryGuarantee, ExactlyOnce, FlushToken, Flushed, Sink, SinkCapabilities, SinkWriter, WriterContext};
pub use source::{Boundedness, ChangelogMode, Source, SourceEvent, SourceReader};
pub use split::{Offset, Split, SplitId};
