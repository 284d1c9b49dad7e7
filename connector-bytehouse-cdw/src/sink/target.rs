//! The table that rows go to: its columns, key and engine, as the server describes them.

use std::collections::BTreeSet;

use connector_bytehouse_common::{
    catalog::DescribedColumn,
    definition::{KeyPart, TableDefinition},
    native::{BlockEncoder, ChType, ColumnDef},
};
use connector_core::{
    Error, ErrorKind, Result, TableId,
    arrow::datatypes::{DataType, Schema, SchemaRef},
};

use super::{columns::UPDATE_COLUMNS, ddl::same_columns, layout::Layout};
use crate::config::{SinkConfig, SinkMode};

/// Hidden column by which a ByteHouse unique table deletes: non-zero deletes the row's key.
pub(crate) const DELETE_FLAG: &str = "_delete_flag_";

/// How upserts reach a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Upsert {
    /// A ByteHouse table with a UNIQUE KEY: `_delete_flag_` tells puts from deletes.
    UniqueKey,
    /// ReplacingMergeTree: the row with the highest version stands, `is_deleted` takes it away.
    Replacing {
        /// The version column.
        version: String,
        /// Filled by the sink where the rows do not bring it.
        is_deleted: Option<String>,
    },
}

/// What a writer has to know of a table.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) table: TableId,
    /// Columns that an INSERT may name.
    pub(crate) columns: Vec<DescribedColumn>,
    /// Columns that decide which rows are the same, in upsert mode.
    pub(crate) key: Vec<String>,
    pub(crate) upsert: Option<Upsert>,
    /// Partitions, versions and partial updates.
    pub(crate) layout: Layout,
    /// The engine remembers the tokens of past inserts.
    pub(crate) deduplicates: bool,
    pub(crate) engine: String,
    /// The table has a UNIQUE KEY, in whatever mode it is written to.
    pub(crate) unique: bool,
}

impl Target {
    /// `append` says that a table without a key is appended to in every mode.
    pub(crate) fn new(
        table: TableId,
        definition: TableDefinition,
        config: &SinkConfig,
        append: bool,
    ) -> Result<Self> {
        let mut target = Self {
            deduplicates: deduplicates(&definition),
            layout: Layout::new(&definition.columns, &definition, config),
            table,
            columns: Vec::new(),
            key: Vec::new(),
            upsert: None,
            engine: definition.engine.clone(),
            unique: !definition.unique_key.is_empty(),
        };
        target.expect_storage(&definition).map_err(|e| target.located(e))?;
        target.check_partial(&definition, config).map_err(|e| target.located(e))?;
        target.columns = definition.columns.iter().filter(|column| column.is_writable()).cloned().collect();
        if config.mode.is_keyed() && !append {
            target.key = target.find_key(&definition, config).map_err(|e| target.located(e))?;
            target.upsert = Some(target.find_upsert(&definition, config).map_err(|e| target.located(e))?);
        }
        Ok(target)
    }

    /// Asked for, partial updates have to be there.
    fn check_partial(&self, definition: &TableDefinition, config: &SinkConfig) -> Result<()> {
        if config.partial_update != Some(true) || (self.layout.partial_update && config.mode.is_keyed()) {
            return Ok(());
        }
        let reason = if !config.mode.is_keyed() {
            "partial updates need a mode with keys, such as upsert"
        } else if !config.cnch_engine {
            "an open-source ClickHouse has no partial updates; bring every column"
        } else if definition.settings.get("partition_level_unique_keys").is_some_and(|value| value == "0") {
            "a table whose key is unique over all partitions cannot have partial updates; bring every column"
        } else {
            "the table does not allow partial updates; create it with SETTINGS enable_unique_partial_update = 1, or bring every column"
        };
        Err(Error::new(ErrorKind::Unsupported, reason))
    }

    /// True when the table tells rows apart by a key.
    pub(super) fn has_key(definition: &TableDefinition, config: &SinkConfig) -> bool {
        if config.cnch_engine {
            !definition.unique_key.is_empty()
        } else {
            definition.engine.ends_with("ReplacingMergeTree") && !definition.order_by.is_empty()
        }
    }

    /// Refuses what reads from elsewhere and stores nothing itself.
    fn expect_storage(&self, definition: &TableDefinition) -> Result<()> {
        let engine = definition.engine.as_str();
        if engine.starts_with("Cnch") && !engine.ends_with("MergeTree") || engine == "Kafka" {
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!(
                    "the table has the engine {engine}, which rows cannot be written to; use a CnchMergeTree table"
                ),
            ));
        }
        if definition.columns.is_empty() {
            return Err(Error::new(
                ErrorKind::Unexpected,
                "the server's definition of the table lists no columns",
            ));
        }
        Ok(())
    }

    /// Refuses an existing table whose key is not that of the source: one of both would lose rows.
    pub(super) fn expect_key(&self, primary_key: &[String], config: &SinkConfig) -> Result<()> {
        if self.upsert.is_none() || primary_key.is_empty() || !config.unique_keys.is_empty() {
            return Ok(());
        }
        let of_source: Vec<String> = primary_key
            .iter()
            .map(|name| {
                self.column(name, config.case_insensitive).map_or(name, |column| &column.name).clone()
            })
            .collect();
        if same_columns(&of_source, &self.key) {
            return Ok(());
        }
        Err(self.located(Error::new(
            ErrorKind::SchemaMismatch,
            format!(
                "the table's key is ({}), and that of the source ({}): rows of different keys would replace each other; \
                 create the table with the source's key, or name the table's in `unique_keys` if that is meant",
                self.key.join(", "),
                primary_key.join(", ")
            ),
        )))
    }

    /// Refuses rows whose types the columns cannot take, before the first one is written.
    pub(super) fn expect_types(&self, sent: &SchemaRef, config: &SinkConfig) -> Result<()> {
        let mut header = Vec::with_capacity(sent.fields().len());
        for field in sent.fields() {
            header.push(match self.columns.iter().find(|column| column.name == *field.name()) {
                Some(column) => ColumnDef::parse(&column.name, &column.type_text)?,
                // Hidden columns, which the server does not describe.
                None if field.name() == UPDATE_COLUMNS => ColumnDef::new(field.name(), ChType::String),
                None => ColumnDef::new(field.name(), ChType::UInt8),
            });
        }
        BlockEncoder::new(sent, &header, &config.rules).map(|_| ()).map_err(|e| self.located(e))
    }

    fn located(&self, error: Error) -> Error {
        error.with_context("table", &self.table)
    }

    /// The user's `unique_keys`, else the table's own.
    fn find_key(&self, definition: &TableDefinition, config: &SinkConfig) -> Result<Vec<String>> {
        let own = if config.cnch_engine { &definition.unique_key } else { &definition.order_by };
        let key: Vec<KeyPart> = if config.unique_keys.is_empty() {
            own.clone()
        } else {
            config.unique_keys.iter().cloned().map(KeyPart::Column).collect()
        };
        if key.is_empty() {
            let needed = if config.cnch_engine { "a UNIQUE KEY" } else { "ORDER BY columns" };
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!(
                    "mode {} needs a table with {needed}, and this one has none; create it with such a key, or use mode insert",
                    config.mode.name()
                ),
            ));
        }
        let key: Vec<String> = key.iter().map(|part| self.key_column(part, config)).collect::<Result<_>>()?;
        self.expect_own_key(&key, own)?;
        Ok(key)
    }

    /// The server goes by its own key whatever the options say: by another one, rows would get lost.
    fn expect_own_key(&self, key: &[String], own: &[KeyPart]) -> Result<()> {
        let Some(own) = own.iter().map(KeyPart::column).collect::<Option<BTreeSet<&str>>>() else {
            return Ok(());
        };
        if own.is_empty() || own == key.iter().map(String::as_str).collect() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::SchemaMismatch,
            format!(
                "`unique_keys` is {}, but the table's key is {}; name these columns, or leave the option out",
                key.join(", "),
                own.into_iter().collect::<Vec<_>>().join(", ")
            ),
        ))
    }

    fn key_column(&self, part: &KeyPart, config: &SinkConfig) -> Result<String> {
        let column = part.column().and_then(|name| self.column(name, config.case_insensitive));
        column.map(|column| column.name.clone()).ok_or_else(|| {
            let (KeyPart::Column(text) | KeyPart::Expression(text)) = part;
            Error::new(
                ErrorKind::SchemaMismatch,
                format!("the key is `{text}`, which is not a column of the table; name the key columns in `unique_keys`"),
            )
        })
    }

    fn find_upsert(&self, definition: &TableDefinition, config: &SinkConfig) -> Result<Upsert> {
        if config.cnch_engine {
            if definition.unique_key.is_empty() {
                return Err(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!(
                        "mode {} needs a table with a UNIQUE KEY: without one the server keeps every version of a row",
                        config.mode.name()
                    ),
                ));
            }
            return Ok(Upsert::UniqueKey);
        }
        if !definition.engine.ends_with("ReplacingMergeTree") {
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!(
                    "mode {} with cnch_engine=false needs a ReplacingMergeTree(version, is_deleted) table, this one is a {}",
                    config.mode.name(),
                    definition.engine
                ),
            ));
        }
        let column = |part: KeyPart| part.column().map(str::to_owned);
        let version = definition.version().and_then(column).ok_or_else(|| {
            Error::new(
                ErrorKind::SchemaMismatch,
                format!(
                    "mode {} needs a version column: ENGINE = ReplacingMergeTree(version, is_deleted)",
                    config.mode.name()
                ),
            )
        })?;
        let is_deleted = definition.is_deleted().and_then(column);
        if is_deleted.is_none() && config.mode.deletes() {
            let instead =
                if config.mode == SinkMode::DeleteOnly { "" } else { ", or use mode upsert-no-delete" };
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!(
                    "mode {} deletes rows, and the table has no column for that; create it with \
                     ENGINE = ReplacingMergeTree(version, is_deleted){instead}",
                    config.mode.name()
                ),
            ));
        }
        Ok(Upsert::Replacing { version, is_deleted })
    }

    /// The column of this name.
    pub(crate) fn column(&self, name: &str, case_insensitive: bool) -> Option<&DescribedColumn> {
        self.columns.iter().find(|column| column.name == name).or_else(|| {
            let mut same = self
                .columns
                .iter()
                .filter(|c| case_insensitive && c.name.to_lowercase() == name.to_lowercase());
            same.next().filter(|_| same.next().is_none())
        })
    }

    /// The table's names of the rows' columns, in the rows' order.
    pub(crate) fn match_columns(&self, rows: &Schema, case_insensitive: bool) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::with_capacity(rows.fields().len());
        for field in rows.fields() {
            let column = self.column(field.name(), case_insensitive).ok_or_else(|| {
                let known: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
                self.located(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!(
                        "the table has no column `{}` for the rows' column of type {}; it has: {}",
                        field.name(),
                        short(field.data_type()),
                        known.join(", ")
                    ),
                ))
            })?;
            if names.contains(&column.name) {
                return Err(self.located(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!("two columns of the rows go to the table's column `{}`", column.name),
                )));
            }
            names.push(column.name.clone());
        }
        if let Some(key) = self.key.iter().find(|key| !names.contains(key)) {
            return Err(self.located(Error::new(
                ErrorKind::SchemaMismatch,
                format!("the rows lack the key column `{key}`"),
            )));
        }
        Ok(names)
    }
}

fn short(data_type: &DataType) -> String {
    let text = data_type.to_string();
    if text.chars().count() > 80 { text.chars().take(80).chain("…".chars()).collect() } else { text }
}

/// Replicated engines have a window by default, plain ones where it was asked for.
fn deduplicates(definition: &TableDefinition) -> bool {
    let window = |name: &str| definition.settings.get(name).and_then(|value| value.parse::<u64>().ok());
    if definition.engine.starts_with("Replicated") {
        window("replicated_deduplication_window") != Some(0)
    } else {
        definition.engine.ends_with("MergeTree")
            && window("non_replicated_deduplication_window").is_some_and(|n| n > 0)
    }
}
