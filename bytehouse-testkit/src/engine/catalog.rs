//! Databases, tables and columns.

use std::{collections::BTreeMap, sync::Arc};

use connector_bytehouse_common::native::{ChType, ColumnDef};
use connector_core::arrow::datatypes::{Field, Schema, SchemaRef};
use uuid::Uuid;

use super::{storage::TableData, value::arrow_type};
use crate::{
    exception::{Result, exception},
    sql::{
        ast::{ClusterBy, DefaultKind, EngineDecl, Expr, TableName},
        backquote,
    },
};

/// The hidden column that marks rows as deletes.
pub(crate) const DELETE_FLAG: &str = "_delete_flag_";
/// The hidden column that names the columns of a partial update.
pub(crate) const UPDATE_COLUMNS: &str = "_update_columns_";

/// A column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: ChType,
    pub(crate) default: Option<(DefaultKind, Expr)>,
    pub(crate) comment: String,
    pub(crate) codec: String,
}

impl Column {
    pub(crate) fn kind(&self) -> Option<DefaultKind> {
        self.default.as_ref().map(|(kind, _)| *kind)
    }

    /// Has values in storage.
    pub(crate) fn is_stored(&self) -> bool {
        self.kind() != Some(DefaultKind::Alias)
    }

    /// May be named in an INSERT.
    pub(crate) fn is_insertable(&self) -> bool {
        matches!(self.kind(), None | Some(DefaultKind::Default))
    }

    pub(crate) fn def(&self) -> ColumnDef {
        ColumnDef::new(&self.name, self.ty.clone())
    }
}

/// What an engine does with rows of the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Keeps all.
    Append,
    /// Keeps none at all.
    Discard,
    /// Keeps one per UNIQUE KEY, from the moment of the insert.
    Unique { version: Option<Expr> },
    /// Keeps one per ORDER BY when asked with FINAL.
    Replacing { version: Option<String>, is_deleted: Option<String> },
}

/// A table's definition. Immutable: ALTER makes a new one.
#[derive(Debug, Clone)]
pub(crate) struct TableDef {
    pub(crate) database: String,
    pub(crate) name: String,
    pub(crate) uuid: Uuid,
    pub(crate) columns: Vec<Column>,
    pub(crate) indexes: Vec<String>,
    pub(crate) engine: EngineDecl,
    pub(crate) behaviour: Behaviour,
    pub(crate) order_by: Option<Expr>,
    pub(crate) partition_by: Option<Expr>,
    pub(crate) primary_key: Option<Expr>,
    pub(crate) unique_key: Option<Expr>,
    pub(crate) cluster_by: Option<ClusterBy>,
    pub(crate) sample_by: Option<Expr>,
    pub(crate) ttl: Option<String>,
    /// Names and values as SQL.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) comment: String,
}

impl TableDef {
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub(crate) fn stored(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_stored())
    }

    /// The Arrow schema of the stored columns.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        let fields: Result<Vec<Field>> =
            self.stored().map(|c| Ok(Field::new(&c.name, arrow_type(&c.ty)?, c.ty.is_nullable()))).collect();
        Ok(Arc::new(Schema::new(fields?)))
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim_matches('\''))
    }

    pub(crate) fn setting_number(&self, name: &str, default: u64) -> u64 {
        match self.setting(name) {
            Some("true") => 1,
            Some("false") => 0,
            Some(text) => text.parse().unwrap_or(default),
            None => default,
        }
    }

    /// An INSERT may leave columns as they are.
    pub(crate) fn allows_partial_updates(&self) -> bool {
        self.is_unique() && self.setting_number("enable_unique_partial_update", 0) != 0
    }

    pub(crate) fn is_unique(&self) -> bool {
        matches!(self.behaviour, Behaviour::Unique { .. })
    }

    /// The columns that may never change their type or go, because a key or the engine needs them.
    pub(crate) fn is_fixed(&self, column: &str) -> bool {
        let mut found = false;
        let keys = [&self.order_by, &self.partition_by, &self.primary_key, &self.unique_key, &self.sample_by];
        let cluster = self.cluster_by.as_ref().map(|cluster| &cluster.expr);
        for expr in keys.into_iter().flatten().chain(cluster).chain(&self.engine.args) {
            expr.columns(&mut |name| found |= name == column);
        }
        found
    }

    pub(crate) fn create_query(&self) -> String {
        let mut lines: Vec<String> = self.columns.iter().map(column_sql).collect();
        lines.extend(self.indexes.iter().cloned());
        let lines: Vec<String> = lines.into_iter().map(|line| format!("    {line}")).collect();
        let comment = if self.comment.is_empty() {
            String::new()
        } else {
            format!("\nCOMMENT {}", crate::sql::quote_text(self.comment.as_bytes()))
        };
        format!(
            "CREATE TABLE {}.{}\n(\n{}\n)\nENGINE = {}{comment}",
            crate::sql::quote_identifier(&self.database),
            crate::sql::quote_identifier(&self.name),
            lines.join(",\n"),
            self.engine_full("\n"),
        )
    }

    /// The engine with all its clauses, `between` them.
    pub(crate) fn engine_full(&self, between: &str) -> String {
        let mut parts = vec![if self.engine.args.is_empty() {
            self.engine.name.clone()
        } else {
            let args: Vec<String> = self.engine.args.iter().map(Expr::to_sql).collect();
            format!("{}({})", self.engine.name, args.join(", "))
        }];
        let mut clause = |word: &str, expr: Option<&Expr>| {
            if let Some(expr) = expr {
                parts.push(format!("{word} {}", expr.to_sql()));
            }
        };
        clause("PARTITION BY", self.partition_by.as_ref());
        if let Some(cluster) = &self.cluster_by {
            let word = if cluster.expression { "CLUSTER BY EXPRESSION" } else { "CLUSTER BY" };
            let tail = if cluster.tail.is_empty() { String::new() } else { format!(" {}", cluster.tail) };
            parts.push(format!("{word} {} INTO {} BUCKETS{tail}", cluster.expr.to_sql(), cluster.buckets));
        }
        let mut clause = |word: &str, expr: Option<&Expr>| {
            if let Some(expr) = expr {
                parts.push(format!("{word} {}", expr.to_sql()));
            }
        };
        clause("PRIMARY KEY", self.primary_key.as_ref());
        clause("ORDER BY", self.order_by.as_ref());
        clause("UNIQUE KEY", self.unique_key.as_ref());
        clause("SAMPLE BY", self.sample_by.as_ref());
        if let Some(ttl) = &self.ttl {
            parts.push(format!("TTL {ttl}"));
        }
        if !self.settings.is_empty() {
            let settings: Vec<String> =
                self.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            parts.push(format!("SETTINGS {}", settings.join(", ")));
        }
        parts.join(between)
    }

    /// The columns as servers describe them to clients before an insert.
    pub(crate) fn columns_text(&self) -> String {
        let mut text = format!("columns format version: 1\n{} columns:\n", self.columns.len());
        for column in &self.columns {
            text.push_str(&format!("{} {}", backquote(&column.name), column.ty));
            if let Some((kind, expr)) = &column.default {
                let escaped = expr.to_sql().replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
                text.push_str(&format!("\t{}\t{escaped}", kind.as_str()));
            }
            text.push('\n');
        }
        text
    }
}

fn column_sql(column: &Column) -> String {
    let mut sql = format!("{} {}", backquote(&column.name), column.ty);
    if let Some((kind, expr)) = &column.default {
        sql.push_str(&format!(" {} {}", kind.as_str(), expr.to_sql()));
    }
    if !column.comment.is_empty() {
        sql.push_str(&format!(" COMMENT {}", crate::sql::quote_text(column.comment.as_bytes())));
    }
    if !column.codec.is_empty() {
        sql.push_str(&format!(" {}", column.codec));
    }
    sql
}

/// A table: its definition and its rows.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) def: Arc<TableDef>,
    pub(crate) data: TableData,
}

/// All databases.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    databases: BTreeMap<String, BTreeMap<String, Table>>,
}

impl Catalog {
    pub(crate) fn databases(&self) -> impl Iterator<Item = &String> {
        self.databases.keys()
    }

    pub(crate) fn has_database(&self, name: &str) -> bool {
        self.databases.contains_key(name)
    }

    pub(crate) fn create_database(&mut self, name: &str, if_not_exists: bool) -> Result<()> {
        if self.databases.contains_key(name) || name == "system" {
            if if_not_exists {
                return Ok(());
            }
            return Err(exception!(DATABASE_ALREADY_EXISTS, "Database {name} already exists."));
        }
        self.databases.insert(name.to_owned(), BTreeMap::new());
        Ok(())
    }

    pub(crate) fn drop_database(&mut self, name: &str, if_exists: bool) -> Result<()> {
        if self.databases.remove(name).is_none() && !if_exists {
            return Err(exception!(UNKNOWN_DATABASE, "Database {name} doesn't exist"));
        }
        Ok(())
    }

    /// The tables of a database by name.
    pub(crate) fn tables(&self, database: &str) -> Result<&BTreeMap<String, Table>> {
        self.databases
            .get(database)
            .ok_or_else(|| exception!(UNKNOWN_DATABASE, "Database {database} doesn't exist"))
    }

    fn tables_mut(&mut self, database: &str) -> Result<&mut BTreeMap<String, Table>> {
        self.databases
            .get_mut(database)
            .ok_or_else(|| exception!(UNKNOWN_DATABASE, "Database {database} doesn't exist"))
    }

    /// All tables.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Table> {
        self.databases.values().flat_map(BTreeMap::values)
    }

    pub(crate) fn table(&self, database: &str, name: &str) -> Result<&Table> {
        self.tables(database)?
            .get(name)
            .ok_or_else(|| exception!(UNKNOWN_TABLE, "Table {database}.{name} doesn't exist."))
    }

    pub(crate) fn table_mut(&mut self, database: &str, name: &str) -> Result<&mut Table> {
        self.tables_mut(database)?
            .get_mut(name)
            .ok_or_else(|| exception!(UNKNOWN_TABLE, "Table {database}.{name} doesn't exist."))
    }

    /// The table that an insert was planned for, even if it has been renamed since.
    pub(crate) fn table_by_uuid(&mut self, uuid: Uuid) -> Option<&mut Table> {
        self.databases.values_mut().flat_map(BTreeMap::values_mut).find(|table| table.def.uuid == uuid)
    }

    pub(crate) fn add(&mut self, table: Table, if_not_exists: bool) -> Result<()> {
        let tables = self.tables_mut(&table.def.database)?;
        if tables.contains_key(&table.def.name) {
            if if_not_exists {
                return Ok(());
            }
            return Err(exception!(TABLE_ALREADY_EXISTS, "Table {} already exists.", table.def.full_name()));
        }
        tables.insert(table.def.name.clone(), table);
        Ok(())
    }

    pub(crate) fn remove(&mut self, database: &str, name: &str, if_exists: bool) -> Result<Option<Table>> {
        let tables = match self.tables_mut(database) {
            Err(_) if if_exists => return Ok(None),
            other => other?,
        };
        let removed = tables.remove(name);
        if removed.is_none() && !if_exists {
            return Err(exception!(UNKNOWN_TABLE, "Table {database}.{name} doesn't exist."));
        }
        Ok(removed)
    }
}

/// The database and table of a name as written.
pub(crate) fn resolve<'a>(name: &'a TableName, current: &'a str) -> (&'a str, &'a str) {
    (name.database.as_deref().unwrap_or(current), &name.table)
}
