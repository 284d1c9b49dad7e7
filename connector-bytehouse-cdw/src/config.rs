//! What both option dialects come down to.

use std::time::Duration;

use connector_bytehouse_common::{
    native::EncodeRules,
    wire::{ClientOptions, Settings},
};
use connector_core::{BadRecordPolicy, TableId, batch::BatchPolicy, retry::RetryPolicy};

use crate::sink::{AtomicWrite, TableCreation};

/// Which row kinds the sink takes and what it makes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SinkMode {
    /// `+I` rows are appended; other kinds are dropped and counted, with one warning.
    Insert,
    /// `+I` and `+U` rows replace the row of their key, `-D` rows delete it; `-U` rows have no effect.
    Upsert,
}

/// Everything a writer needs to know, whatever the spelling it came in.
#[derive(Debug, Clone)]
pub(crate) struct SinkConfig {
    /// Address, credentials, TLS, time-outs, settings that go with every query.
    pub(crate) client: ClientOptions,
    /// The one table that all rows go to; `None` sends rows to the tables they name.
    pub(crate) table: Option<TableId>,
    pub(crate) mode: SinkMode,
    /// Key columns in upsert mode; empty for those of the table.
    pub(crate) unique_keys: Vec<String>,
    /// ByteHouse's engines and SQL; false for an open-source ClickHouse.
    pub(crate) cnch_engine: bool,
    pub(crate) flush: BatchPolicy,
    pub(crate) retry: RetryPolicy,
    /// Settings of an INSERT on top of the client's.
    pub(crate) insert_settings: Settings,
    /// How announced tables are created that are not there.
    pub(crate) creation: TableCreation,
    /// Rows become visible together, at the end of the run.
    pub(crate) atomic: Option<AtomicWrite>,
    pub(crate) case_insensitive: bool,
    pub(crate) rules: EncodeRules,
    pub(crate) bad_records: BadRecordPolicy,
    /// The longest wait for the ping that checks a connection before it is used.
    pub(crate) validity_timeout: Duration,
}
