//! Tables, their columns, and changes to them.

use std::{collections::BTreeMap, fmt, str::FromStr};

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Keys of the Arrow field metadata in which a column's facts travel that its Arrow type cannot hold.
pub mod metadata {
    /// The type's name in the system that the column comes from, such as `VARCHAR(50)`.
    pub const SOURCE_TYPE: &str = "connector.source_type";
    /// Largest length of a text or binary column, in characters or bytes of the source.
    pub const LENGTH: &str = "connector.length";
    /// Precision of a temporal type where it is finer or coarser than the Arrow unit: digits after the second.
    pub const PRECISION: &str = "connector.precision";
    /// The column's default, as an SQL expression of the source.
    pub const DEFAULT: &str = "connector.default";
    /// The column's comment.
    pub const COMMENT: &str = "connector.comment";
}

/// A table's name: database and table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableId {
    /// Database; empty where the system has none or the connection's default is meant.
    pub database: String,
    /// Table.
    pub table: String,
}

impl TableId {
    /// A table of a database.
    pub fn new(database: impl Into<String>, table: impl Into<String>) -> Self {
        Self { database: database.into(), table: table.into() }
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.database.is_empty() {
            f.write_str(&self.table)
        } else {
            write!(f, "{}.{}", self.database, self.table)
        }
    }
}

impl FromStr for TableId {
    type Err = Error;

    /// Parses `table` or `database.table`; the first dot divides. Names with dots need [`TableId::new`].
    fn from_str(text: &str) -> Result<Self> {
        let (database, table) = text.split_once('.').unwrap_or(("", text));
        if table.is_empty() || (database.is_empty() && text.contains('.')) {
            return Err(Error::new(
                ErrorKind::OptionInvalid,
                format!("`{text}` is not a table name; write `table` or `database.table`"),
            ));
        }
        Ok(Self::new(database, table))
    }
}

/// A table's columns and key, as a source announces them.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSchema {
    /// Columns in order.
    pub columns: SchemaRef,
    /// Names of the key's columns; empty for a table without one.
    pub primary_key: Vec<String>,
    /// Names of the columns that partition the table.
    pub partition_keys: Vec<String>,
    /// The table's comment.
    pub comment: Option<String>,
    /// Further options of the table, as the source or a transform gives them.
    pub options: BTreeMap<String, String>,
}

impl TableSchema {
    /// A table with these columns and no key.
    pub fn new(columns: SchemaRef) -> Self {
        Self {
            columns,
            primary_key: Vec::new(),
            partition_keys: Vec::new(),
            comment: None,
            options: BTreeMap::new(),
        }
    }

    /// Sets the primary key.
    ///
    /// # Errors
    /// `SchemaMismatch` when a key column does not exist or stands there twice.
    pub fn with_primary_key<I: Into<String>>(mut self, key: impl IntoIterator<Item = I>) -> Result<Self> {
        self.primary_key = key.into_iter().map(Into::into).collect();
        for (i, name) in self.primary_key.iter().enumerate() {
            if self.columns.column_with_name(name).is_none() {
                return Err(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!("the key column `{name}` is not among the table's columns"),
                ));
            }
            if self.primary_key[..i].contains(name) {
                return Err(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!("the key names the column `{name}` twice"),
                ));
            }
        }
        Ok(self)
    }
}

/// Where a new column goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnPosition {
    /// Behind all others.
    Last,
    /// Before all others.
    First,
    /// Behind the named one.
    After(String),
}

/// A change to one table, ordered among its rows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SchemaChange {
    /// The table with its columns and key. Also a reader's announcement; announcing twice is harmless.
    CreateTable {
        /// The table.
        table: TableId,
        /// Its columns and key.
        schema: TableSchema,
    },
    /// A new column.
    AddColumn {
        /// The table.
        table: TableId,
        /// The column.
        column: FieldRef,
        /// Where it goes.
        position: ColumnPosition,
    },
    /// A column has another type.
    AlterColumnType {
        /// The table.
        table: TableId,
        /// The column's name.
        column: String,
        /// Its new type.
        data_type: DataType,
        /// Whether it may be null.
        nullable: bool,
    },
    /// A column has another name.
    RenameColumn {
        /// The table.
        table: TableId,
        /// The name so far.
        from: String,
        /// The name from now on.
        to: String,
    },
    /// A column is gone.
    DropColumn {
        /// The table.
        table: TableId,
        /// The column's name.
        column: String,
    },
    /// All rows are gone.
    TruncateTable {
        /// The table.
        table: TableId,
    },
    /// The table is gone.
    DropTable {
        /// The table.
        table: TableId,
    },
}

/// The kinds of schema change events, by the names of Flink CDC's include and exclude lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SchemaChangeKind {
    /// `create.table`
    CreateTable,
    /// `add.column`
    AddColumn,
    /// `alter.column.type`
    AlterColumnType,
    /// `rename.column`
    RenameColumn,
    /// `drop.column`
    DropColumn,
    /// `truncate.table`
    TruncateTable,
    /// `drop.table`
    DropTable,
}

impl SchemaChangeKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::CreateTable,
        Self::AddColumn,
        Self::AlterColumnType,
        Self::RenameColumn,
        Self::DropColumn,
        Self::TruncateTable,
        Self::DropTable,
    ];

    /// The name in Flink CDC's lists, such as `add.column`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateTable => "create.table",
            Self::AddColumn => "add.column",
            Self::AlterColumnType => "alter.column.type",
            Self::RenameColumn => "rename.column",
            Self::DropColumn => "drop.column",
            Self::TruncateTable => "truncate.table",
            Self::DropTable => "drop.table",
        }
    }
}

impl SchemaChange {
    /// The table that changes.
    pub fn table(&self) -> &TableId {
        match self {
            Self::CreateTable { table, .. }
            | Self::AddColumn { table, .. }
            | Self::AlterColumnType { table, .. }
            | Self::RenameColumn { table, .. }
            | Self::DropColumn { table, .. }
            | Self::TruncateTable { table }
            | Self::DropTable { table } => table,
        }
    }

    /// Which kind of change it is.
    pub fn kind(&self) -> SchemaChangeKind {
        match self {
            Self::CreateTable { .. } => SchemaChangeKind::CreateTable,
            Self::AddColumn { .. } => SchemaChangeKind::AddColumn,
            Self::AlterColumnType { .. } => SchemaChangeKind::AlterColumnType,
            Self::RenameColumn { .. } => SchemaChangeKind::RenameColumn,
            Self::DropColumn { .. } => SchemaChangeKind::DropColumn,
            Self::TruncateTable { .. } => SchemaChangeKind::TruncateTable,
            Self::DropTable { .. } => SchemaChangeKind::DropTable,
        }
    }
}
