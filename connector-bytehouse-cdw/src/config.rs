//! What both option dialects come down to.

use std::{collections::BTreeSet, time::Duration};

use connector_bytehouse_common::{
    native::EncodeRules,
    wire::{ClientOptions, Settings},
};
use connector_core::{BadRecordPolicy, RowKind, TableId, batch::BatchPolicy, retry::RetryPolicy};

use crate::sink::{AtomicWrite, TableCreation};

/// Which row kinds the sink takes and what it makes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SinkMode {
    /// `+I` rows are appended; other kinds are dropped and counted, with one warning.
    Insert,
    /// `+I` and `+U` rows replace the row of their key, `-D` rows delete it; `-U` rows delete a row that
    /// their `+U` does not replace, because the update changed its key or partition.
    Upsert,
    /// As `Upsert`, and nothing is ever deleted: `-D` rows are dropped and counted.
    UpsertNoDelete,
    /// All kinds.
    UpsertAll,
    /// As `UpsertAll`, `-D` rows dropped and counted: an update that moves a row still deletes the old one.
    UpsertAllNoDelete,
    /// As `Upsert`, but what would be deleted keeps its key and partition and gets null everywhere else.
    UpsertWithDeleteToNull,
    /// `-D` rows delete; other kinds are dropped and counted.
    DeleteOnly,
}

/// What a row is to do to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Replace the row of its key, or be appended.
    Put,
    /// Delete the row of its key.
    Delete,
    /// Replace the row of its key by its key and nulls.
    Null,
    /// Nothing, and nothing is lost: another row says the same.
    Ignore,
    /// Nothing, because the mode does not take it.
    Drop,
}

impl SinkMode {
    /// What becomes of a row of this kind.
    pub(crate) fn fate(self, kind: RowKind) -> Fate {
        use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
        match (self, kind) {
            (Self::Insert, Insert) => Fate::Put,
            (Self::Insert, _) | (Self::DeleteOnly, Insert | UpdateAfter) => Fate::Drop,
            (Self::DeleteOnly | Self::UpsertNoDelete, UpdateBefore) => Fate::Ignore,
            (Self::UpsertNoDelete | Self::UpsertAllNoDelete, Delete) => Fate::Drop,
            (Self::UpsertWithDeleteToNull, UpdateBefore | Delete) => Fate::Null,
            (_, UpdateBefore | Delete) => Fate::Delete,
            (_, Insert | UpdateAfter) => Fate::Put,
        }
    }

    /// The kinds that are not dropped.
    pub(crate) fn kinds(self) -> BTreeSet<RowKind> {
        RowKind::ALL.into_iter().filter(|kind| self.fate(*kind) != Fate::Drop).collect()
    }

    /// Rows have keys: all modes but insert.
    pub(crate) fn is_keyed(self) -> bool {
        self != Self::Insert
    }

    /// Rows may be deleted at the table.
    pub(crate) fn deletes(self) -> bool {
        RowKind::ALL.into_iter().any(|kind| self.fate(kind) == Fate::Delete)
    }

    /// The name in the options of Flink CDC.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Upsert => "upsert",
            Self::UpsertNoDelete => "upsert-no-delete",
            Self::UpsertAll => "upsert-all",
            Self::UpsertAllNoDelete => "upsert-all-no-delete",
            Self::UpsertWithDeleteToNull => "upsert-with-delete-to-null",
            Self::DeleteOnly => "delete-only",
        }
    }
}

/// Everything a writer needs to know, whatever the spelling it came in.
#[derive(Debug, Clone)]
pub(crate) struct SinkConfig {
    /// Address, credentials, TLS, time-outs, settings that go with every query.
    pub(crate) client: ClientOptions,
    /// The one table that all rows go to; `None` sends rows to the tables they name.
    pub(crate) table: Option<TableId>,
    pub(crate) mode: SinkMode,
    /// Key columns of keyed modes; empty for those of the table.
    pub(crate) unique_keys: Vec<String>,
    /// Columns that a row does not bring keep their value; `None` leaves that to the table.
    pub(crate) partial_update: Option<bool>,
    /// ByteHouse's engines and SQL; false for an open-source ClickHouse.
    pub(crate) cnch_engine: bool,
    pub(crate) flush: BatchPolicy,
    /// INSERTs that wait for their confirmation at the same time, at most.
    pub(crate) max_in_flight: usize,
    pub(crate) retry: RetryPolicy,
    /// Settings of an INSERT on top of the client's.
    pub(crate) insert_settings: Settings,
    /// Every INSERT carries a label of its own, which ByteHouse takes once.
    pub(crate) insertion_label: bool,
    /// How announced tables are created that are not there.
    pub(crate) creation: TableCreation,
    /// Rows become visible together, at the end of the run.
    pub(crate) atomic: Option<AtomicWrite>,
    pub(crate) case_insensitive: bool,
    pub(crate) rules: EncodeRules,
    /// A value that its nullable column cannot hold becomes null.
    pub(crate) invalid_as_null: bool,
    pub(crate) bad_records: BadRecordPolicy,
    /// The longest wait for the ping that checks a connection before it is used.
    pub(crate) validity_timeout: Duration,
}
