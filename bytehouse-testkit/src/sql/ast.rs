//! Statements and expressions as the parser makes them.

/// A constant. Numbers keep their text, so that a decimal of 76 digits stays exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Number(String),
    Text(Vec<u8>),
}

/// An expression. Operators are calls of the function that the server runs for them (`plus`, `equals` …).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expr {
    Literal(Literal),
    Column(String),
    Star,
    Call { name: String, args: Vec<Expr>, distinct: bool },
}

impl Expr {
    pub(crate) fn call(name: &str, args: Vec<Expr>) -> Self {
        Self::Call { name: name.to_owned(), args, distinct: false }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Literal(Literal::Text(text.as_bytes().to_vec()))
    }

    /// The elements of `tuple(a, b)`, or the expression alone: how key clauses are written.
    pub(crate) fn elements(&self) -> Vec<Expr> {
        match self {
            Self::Call { name, args, .. } if name == "tuple" => args.clone(),
            other => vec![other.clone()],
        }
    }

    /// Calls `visit` with the name of every column in the expression.
    pub(crate) fn columns<'a>(&'a self, visit: &mut dyn FnMut(&'a str)) {
        match self {
            Self::Column(name) => visit(name),
            Self::Call { args, .. } => args.iter().for_each(|arg| arg.columns(visit)),
            Self::Literal(_) | Self::Star => {}
        }
    }
}

/// `[db.]table`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableName {
    pub(crate) database: Option<String>,
    pub(crate) table: String,
}

/// What a statement asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    Select(Box<Select>),
    Insert(Box<Insert>),
    CreateDatabase {
        name: String,
        if_not_exists: bool,
    },
    DropDatabase {
        name: String,
        if_exists: bool,
    },
    CreateTable(Box<CreateTable>),
    DropTable {
        name: TableName,
        if_exists: bool,
    },
    TruncateTable {
        name: TableName,
        if_exists: bool,
    },
    RenameTable(Vec<(TableName, TableName)>),
    AlterTable {
        name: TableName,
        actions: Vec<AlterAction>,
    },
    AlterPartition {
        name: TableName,
        action: PartitionAction,
        partition: PartitionName,
    },
    OptimizeTable {
        name: TableName,
    },
    DeleteFrom {
        name: TableName,
        filter: Expr,
    },
    ShowCreateTable(TableName),
    Describe(TableName),
    ExistsTable(TableName),
    ExistsDatabase(String),
    ShowTables {
        database: Option<String>,
        like: Option<String>,
    },
    ShowDatabases {
        like: Option<String>,
    },
    Use(String),
    Set(Vec<(String, Literal)>),
    SetWarehouse(String),
    ResumeWarehouse(String),
    /// `KILL QUERY WHERE query_id = …`.
    KillQuery(String),
    ShowWarehouses,
    ShowDefaultSettings,
}

/// `SELECT`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Select {
    pub(crate) distinct: bool,
    pub(crate) projection: Vec<(Expr, Option<String>)>,
    pub(crate) from: Option<From>,
    pub(crate) filter: Option<Expr>,
    pub(crate) group_by: Vec<Expr>,
    pub(crate) having: Option<Expr>,
    pub(crate) order_by: Vec<OrderBy>,
    pub(crate) limit: Option<u64>,
    pub(crate) offset: u64,
    pub(crate) settings: Vec<(String, Literal)>,
}

/// What a `SELECT` reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum From {
    Table { name: TableName, last: bool },
    Numbers { start: u64, count: u64 },
    Query(Box<Select>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderBy {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: Option<bool>,
}

/// `INSERT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Insert {
    pub(crate) table: TableName,
    /// Empty: all columns that can be inserted.
    pub(crate) columns: Vec<String>,
    pub(crate) settings: Vec<(String, Literal)>,
    pub(crate) source: InsertSource,
}

/// Where the rows of an `INSERT` come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InsertSource {
    /// Blocks that follow on the wire.
    Wire,
    /// Rows in the statement.
    Rows(Vec<Vec<Expr>>),
    Select(Box<Select>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultKind {
    Default,
    Materialized,
    Alias,
}

impl DefaultKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Default => "DEFAULT",
            Self::Materialized => "MATERIALIZED",
            Self::Alias => "ALIAS",
        }
    }
}

/// A column as it is declared. The type is text until the catalogue looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnDecl {
    pub(crate) name: String,
    pub(crate) type_text: Option<String>,
    /// `Some(true)` for `NULL`, `Some(false)` for `NOT NULL`.
    pub(crate) nullable: Option<bool>,
    pub(crate) default: Option<(DefaultKind, Expr)>,
    pub(crate) comment: String,
    /// `CODEC(…)` as written; kept for `SHOW CREATE TABLE` only.
    pub(crate) codec: String,
}

/// `CLUSTER BY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterBy {
    pub(crate) expr: Expr,
    /// Written as `EXPRESSION e` instead of a list of columns.
    pub(crate) expression: bool,
    pub(crate) buckets: u64,
    /// What follows the number of buckets, such as `SPLIT_NUMBER 4 WITH_RANGE`.
    pub(crate) tail: String,
}

/// The engine with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EngineDecl {
    pub(crate) name: String,
    pub(crate) args: Vec<Expr>,
}

/// `CREATE TABLE`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CreateTable {
    pub(crate) name: TableName,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDecl>,
    /// Skipping indexes as written.
    pub(crate) indexes: Vec<String>,
    /// `CREATE TABLE a AS b`.
    pub(crate) like: Option<TableName>,
    pub(crate) engine: Option<EngineDecl>,
    pub(crate) order_by: Option<Expr>,
    pub(crate) partition_by: Option<Expr>,
    pub(crate) primary_key: Option<Expr>,
    pub(crate) unique_key: Option<Expr>,
    pub(crate) cluster_by: Option<ClusterBy>,
    pub(crate) sample_by: Option<Expr>,
    pub(crate) ttl: Option<String>,
    pub(crate) settings: Vec<(String, Literal)>,
    pub(crate) comment: String,
}

/// Where `ADD COLUMN` and `MODIFY COLUMN` put a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Last,
    First,
    After(String),
}

/// One action of `ALTER TABLE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AlterAction {
    AddColumn { column: ColumnDecl, if_not_exists: bool, place: Place },
    DropColumn { name: String, if_exists: bool },
    RenameColumn { from: String, to: String, if_exists: bool },
    ModifyColumn { column: ColumnDecl, if_exists: bool, place: Option<Place> },
    CommentColumn { name: String, comment: String, if_exists: bool },
    ModifySettings(Vec<(String, Literal)>),
}

/// What `ALTER TABLE` does to a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartitionAction {
    Drop,
    Detach,
    /// From the table's own detached parts.
    Attach,
    AttachFrom(TableName),
    /// `ATTACH DETACHED PARTITION … FROM …`.
    AttachDetachedFrom(TableName),
    ReplaceFrom(TableName),
    MoveTo(TableName),
}

/// How a statement names a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartitionName {
    Id(String),
    Value(Expr),
}
