//! Change events: what happened to the rows of tables, as Debezium, Canal and Maxwell write it in JSON, and Debezium in Avro.
//!
//! [`Changes`] is the format that a source is given. Each event gives rows with their
//! [`RowKind`](connector_core::RowKind)s:
//!
//! | event | rows |
//! | --- | --- |
//! | created, read by a snapshot, bootstrapped | `+I` |
//! | updated, with an image of before | `-U` and `+U` |
//! | updated, without | `+U` |
//! | updated, and its key with it (Canal, Maxwell) | `-D` of the old key and `+I` of the new one |
//! | deleted | `-D`; columns that the event lacks are null, or what stands for nothing where they may not be |
//! | truncated | the change of a table, [`TruncateTable`](connector_core::SchemaChange::TruncateTable) |
//! | a message of Debezium's (`m`), the record without a value after a deletion | none |
//!
//! # Columns
//!
//! Columns are those that were declared, or those that the events tell: a Debezium event by its schema part, a Canal
//! event by its `mysqlType`, a Maxwell stream by the statements in it (`output_ddl`). Where they change, the change comes as
//! a [`SchemaChange`](connector_core::SchemaChange) between the rows. What events tell by their shape alone only adds and
//! widens columns, as an event without a column may be an old one of another partition; what a statement tells
//! is taken as it says. A layout that was seen before changes nothing when it comes again.
//!
//! A column of a declared table is never changed; events of statements about it are left out and counted, all but a truncation.
//!
//! # Types
//!
//! With the schema part, a Debezium value is read by the name of its type, whatever unit it has and whatever the declared
//! column's unit is; see [`DEBEZIUM_TYPES`](super::DEBEZIUM_TYPES). Without it, numbers count in the column's unit, and decimals are
//! texts of digits, or base64 where [`decimal_text`](super::JsonOptions::decimal_text) says so. Canal's values are texts, and its
//! binary ones a character for each byte. Text columns take whatever else a value is, as its JSON.

mod avro;
mod canal;
mod ddl;
mod debezium;
mod decoder;
mod evolve;
mod maxwell;
mod rows;
pub(in crate::format) mod types;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use connector_core::{Error, ErrorKind, Result, TableId, TableSchema};
use jiff::tz::TimeZone;
use regex::Regex;

pub(crate) use self::{decoder::ChangeDecoder, evolve::Registry, types::mysql_type};
use super::json::{BinaryText, JsonDecoder, JsonOptions, UnavailableValue};
use crate::schema_registry::SchemaRegistry;

/// The text that Debezium writes where it does not have a value, unless it is told to write another.
pub const UNAVAILABLE_VALUE: &str = "__debezium_unavailable_value";

/// Whose events they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Debezium,
    Canal,
    Maxwell,
    DebeziumAvro,
    /// No events: every record is a row.
    AvroRows,
}

/// What happens to the events of a table that was not declared, where a topic carries many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownTables {
    /// Its columns are those that the events tell; an event that tells none is refused.
    #[default]
    Create,
    /// They are left out and counted.
    Ignore,
    /// They are refused.
    Fail,
}

/// Records whose value is a change event.
///
/// ```
/// use connector_core::{TableId, TableSchema, arrow::datatypes::{DataType, Field, Schema}};
/// use connector_kafka::format::Changes;
///
/// // One table, with columns of its own:
/// let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("v", DataType::Utf8, true)]);
/// let orders = Changes::debezium().table(TableSchema::new(schema.into()).with_primary_key(["id"])?);
/// // All tables of a database, with the columns that the events tell:
/// let all = Changes::canal().multi_table().include(r"shop\..*")?;
/// # Ok::<(), connector_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Changes {
    pub(crate) dialect: Dialect,
    /// The one table, where it was declared.
    table: Option<TableSchema>,
    tables: BTreeMap<TableId, TableSchema>,
    multi: bool,
    /// By names in any case, and by names as they are.
    include: Option<[Regex; 2]>,
    unknown: UnknownTables,
    before_images: bool,
    options: JsonOptions,
    /// Of records in Avro.
    registry: Option<SchemaRegistry>,
}

impl Changes {
    fn new(dialect: Dialect) -> Self {
        let options = JsonOptions {
            case_insensitive: true,
            coerce_to_text: true,
            text_nan: true,
            lenient_booleans: true,
            binary_text: if dialect == Dialect::Canal { BinaryText::Latin1 } else { BinaryText::Base64 },
            unavailable_placeholder: matches!(dialect, Dialect::Debezium | Dialect::DebeziumAvro)
                .then(|| UNAVAILABLE_VALUE.to_owned()),
            ..JsonOptions::default()
        };
        Self {
            dialect,
            table: None,
            tables: BTreeMap::new(),
            multi: false,
            include: None,
            unknown: UnknownTables::default(),
            before_images: true,
            options,
            registry: None,
        }
    }

    /// Debezium's events, with and without their schema part.
    pub fn debezium() -> Self {
        Self::new(Dialect::Debezium)
    }

    /// Debezium's events in Avro, as Confluent's converter writes them. See [`avro`](super::avro) for types and columns.
    pub fn debezium_avro(registry: SchemaRegistry) -> Self {
        Self { registry: Some(registry), ..Self::new(Dialect::DebeziumAvro) }
    }

    /// Records in Avro that are rows.
    pub(crate) fn avro_rows(registry: SchemaRegistry) -> Self {
        let changes = Self { registry: Some(registry), ..Self::new(Dialect::AvroRows) };
        changes.case_insensitive(false)
    }

    /// Canal's flat messages.
    pub fn canal() -> Self {
        Self::new(Dialect::Canal)
    }

    /// Maxwell's events.
    pub fn maxwell() -> Self {
        Self::new(Dialect::Maxwell)
    }

    /// Declares the columns and the key of the one table that all events belong to.
    #[must_use]
    pub fn table(mut self, schema: TableSchema) -> Self {
        self.table = Some(schema);
        self
    }

    /// Declares the columns and the key of one of many tables.
    #[must_use]
    pub fn declare(mut self, table: TableId, schema: TableSchema) -> Self {
        self.tables.insert(table, schema);
        self
    }

    /// Every event goes to the table that it names: `database.table`, for systems with schemas
    /// `database.schema` and the table.
    #[must_use]
    pub fn multi_table(mut self) -> Self {
        self.multi = true;
        self
    }

    /// Only events of tables whose whole `database.table` matches `tables`; others are left out and counted.
    ///
    /// # Errors
    /// `OptionInvalid` when it is no regular expression.
    pub fn include(mut self, tables: &str) -> Result<Self> {
        let compile = |flags: &str| {
            Regex::new(&format!("^{flags}(?:{tables})$")).map_err(|e| {
                Error::new(
                    ErrorKind::OptionInvalid,
                    format!("`{tables}` is not a regular expression of tables"),
                )
                .with_source(e)
            })
        };
        self.include = Some([compile("(?i)")?, compile("")?]);
        Ok(self)
    }

    /// What happens to events of a table that was not declared; by default their own columns count.
    #[must_use]
    pub fn unknown_tables(mut self, rule: UnknownTables) -> Self {
        self.unknown = rule;
        self
    }

    /// Whether an update with an image of before gives a `-U` too; it does by default.
    #[must_use]
    pub fn before_images(mut self, on: bool) -> Self {
        self.before_images = on;
        self
    }

    /// The text that stands for values which Debezium did not have ([`UNAVAILABLE_VALUE`] by default), and what happens
    /// to them; by default the record is refused.
    #[must_use]
    pub fn unavailable(mut self, placeholder: impl Into<String>, rule: UnavailableValue) -> Self {
        self.options.unavailable_placeholder = Some(placeholder.into());
        self.options.unavailable_value = rule;
        self
    }

    /// Whether names of databases, tables and columns are compared, and made, in lower case; they are by default.
    #[must_use]
    pub fn case_insensitive(mut self, on: bool) -> Self {
        self.options.case_insensitive = on;
        self
    }

    /// Changes how values are read.
    #[must_use]
    pub fn json_options(mut self, change: impl FnOnce(&mut JsonOptions)) -> Self {
        change(&mut self.options);
        self
    }

    pub(crate) fn time_zone(mut self, zone: TimeZone) -> Self {
        self.options.time_zone = zone;
        self
    }

    /// Whether events of a table, whose names are compared as they should be, are asked for.
    fn includes(&self, table: &TableId) -> bool {
        let by_case = usize::from(!self.options.case_insensitive);
        self.include.as_ref().is_none_or(|include| include[by_case].is_match(&table.to_string()))
    }

    pub(crate) fn has_before_images(&self) -> bool {
        self.before_images
    }

    /// Where the schemas of records in Avro are.
    pub(crate) fn registry(&self) -> Option<&SchemaRegistry> {
        self.registry.as_ref()
    }

    pub(crate) fn declared(&self) -> Option<&TableSchema> {
        self.table.as_ref()
    }

    /// Looks whether what was declared can be read.
    pub(crate) fn check(&self) -> Result<()> {
        if self.multi && self.table.is_some() {
            let text = "one table was declared for events of many tables; declare each by its name";
            return Err(Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options"));
        }
        for schema in self.table.iter().chain(self.tables.values()) {
            JsonDecoder::new(Arc::clone(&schema.columns), self.options.clone())?;
        }
        Ok(())
    }
}
