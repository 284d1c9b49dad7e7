//! `CREATE TABLE` and column declarations for what a source announces.

use connector_bytehouse_common::{
    definition::TableDefinition,
    native::{ChType, ch_type_for},
    sql::{quote_ident, quote_idents, quote_literal, quote_table, setting_assignment},
    wire::protocol::ServerHello,
};
use connector_core::{
    Error, ErrorKind, Result, TableId,
    arrow::datatypes::Field,
    options::SettingsList,
    schema::{TableSchema, metadata},
};

use super::defaults::default_sql;
use crate::config::{SinkConfig, SinkMode};

/// Columns that a table for upserts on an open-source ClickHouse gets beside those of the source.
pub(super) const VERSION_COLUMN: &str = "_version";
pub(super) const DELETED_COLUMN: &str = "_is_deleted";

/// What to do in an upsert mode with a table that has no key upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyless {
    /// Neither create the table nor write its rows; they are counted.
    Skip,
    /// Create it without a key, and append to it.
    Append,
}

/// How tables are created that are announced and not there.
#[derive(Debug, Clone)]
pub(crate) struct TableCreation {
    pub(crate) enabled: bool,
    pub(crate) order_by: Vec<String>,
    pub(crate) partition_by: Vec<String>,
    pub(crate) cluster_by: Vec<String>,
    pub(crate) buckets: Option<u32>,
    pub(crate) sample_by: Option<String>,
    pub(crate) ttl: Option<String>,
    pub(crate) settings: SettingsList,
    pub(crate) keyless: Keyless,
}

/// Whose SQL is spoken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    pub(super) cnch: bool,
    version: (u64, u64),
}

impl Dialect {
    pub(super) fn of(config: &SinkConfig, server: &ServerHello) -> Self {
        Self { cnch: config.cnch_engine, version: (server.version_major, server.version_minor) }
    }

    /// Open-source servers from this version on, and ByteHouse.
    fn since(self, major: u64, minor: u64) -> bool {
        self.cnch || self.version >= (major, minor)
    }

    pub(super) fn renames_columns(self) -> bool {
        self.since(20, 4)
    }

    /// `ADD COLUMN … FIRST`.
    pub(super) fn places_first(self) -> bool {
        self.since(21, 1)
    }

    /// `ALTER TABLE … MOVE PARTITION … TO TABLE …`.
    pub(super) fn moves_partitions(self) -> bool {
        self.since(19, 17)
    }

    /// `ReplacingMergeTree(version, is_deleted)`.
    fn marks_deleted(self) -> bool {
        !self.cnch && self.version >= (23, 2)
    }
}

/// The statement that creates an announced table, checked to say what it is meant to say.
pub(super) struct CreateTable {
    columns: Vec<String>,
    /// Engine, keys and settings, a clause each.
    clauses: Vec<String>,
    comment: Option<String>,
    table: TableId,
}

impl CreateTable {
    /// # Errors
    /// `OptionInvalid` where an option names a column that the table lacks or holds more than one expression;
    /// `SchemaMismatch` for a key of a type that cannot be one; `Unsupported` for a column that no type holds.
    pub(super) fn new(
        table: &TableId,
        schema: &TableSchema,
        config: &SinkConfig,
        dialect: Dialect,
    ) -> Result<Self> {
        let layout = Layout::new(schema, config)?;
        if dialect.cnch {
            layout.expect_unique_types(schema)?;
        }
        let mut columns = Vec::with_capacity(schema.columns.fields().len());
        for field in schema.columns.fields() {
            columns.push(column_declaration(field, layout.is_key(field.name()), dialect)?);
        }
        let mut clauses = vec![layout.engine(config, dialect, &mut columns)];
        let creation = &config.creation;
        clauses.extend(
            (!layout.partition_by.is_empty())
                .then(|| format!("PARTITION BY {}", tuple(&layout.partition_by))),
        );
        clauses.extend(
            creation
                .buckets
                .filter(|_| !layout.cluster_by.is_empty())
                .map(|buckets| format!("CLUSTER BY {} INTO {buckets} BUCKETS", tuple(&layout.cluster_by))),
        );
        clauses.push(format!("ORDER BY {}", tuple(&layout.order_by)));
        clauses.extend(
            (dialect.cnch && !layout.key.is_empty()).then(|| format!("UNIQUE KEY {}", tuple(&layout.key))),
        );
        clauses.extend(creation.sample_by.as_ref().map(|text| format!("SAMPLE BY {text}")));
        clauses.extend(creation.ttl.as_ref().map(|text| format!("TTL {text}")));
        clauses.extend(settings(&creation.settings, schema)?);
        let statement = Self {
            columns,
            clauses,
            comment: schema.comment.clone().filter(|c| !c.is_empty()),
            table: table.clone(),
        };
        statement.expect_single_expressions(creation)?;
        Ok(statement)
    }

    /// The statement, with the table's comment where servers take one.
    pub(super) fn sql(&self, with_comment: bool) -> String {
        let comment = self.comment.as_ref().filter(|_| with_comment);
        let comment = comment.map_or_else(String::new, |text| format!("\nCOMMENT {}", quote_literal(text)));
        format!(
            "CREATE TABLE {}\n(\n    {}\n)\n{}{comment}",
            quote_table(&self.table),
            self.columns.join(",\n    "),
            self.clauses.join("\n"),
        )
    }

    pub(super) fn has_comment(&self) -> bool {
        self.comment.is_some()
    }

    /// What the created table's definition is.
    pub(super) fn definition(&self) -> Result<TableDefinition> {
        TableDefinition::parse(&self.sql(true))
    }

    /// SAMPLE BY and TTL are the user's own SQL: each must be one expression and nothing behind it.
    fn expect_single_expressions(&self, creation: &TableCreation) -> Result<()> {
        let definition = self.definition();
        let read = |what: fn(&TableDefinition) -> &Option<String>| {
            definition.as_ref().ok().and_then(|definition| what(definition).clone())
        };
        for (option, given, found) in [
            ("ddl_create_table_sample_by_expression", &creation.sample_by, read(|d| &d.sample_by)),
            ("ddl_create_table_ttl_expression", &creation.ttl, read(|d| &d.ttl)),
        ] {
            if given.as_deref().map(str::trim) != found.as_deref() {
                return Err(Error::new(
                    ErrorKind::OptionInvalid,
                    format!(
                        "`{option}` must be one SQL expression; it is `{}`",
                        given.as_deref().unwrap_or_default()
                    ),
                ));
            }
        }
        definition.map(|_| ())
    }
}

/// Which columns stand in which clause.
struct Layout {
    key: Vec<String>,
    order_by: Vec<String>,
    partition_by: Vec<String>,
    cluster_by: Vec<String>,
    /// Order, partition and bucket columns keep their nulls: a table setting allows it.
    nullable_keys: bool,
}

impl Layout {
    fn new(schema: &TableSchema, config: &SinkConfig) -> Result<Self> {
        let creation = &config.creation;
        let find = |option: &str, names: &[String]| -> Result<Vec<String>> {
            names.iter().map(|name| find_column(schema, name, option, config.case_insensitive)).collect()
        };
        let key = if config.unique_keys.is_empty() {
            find("primary key", &schema.primary_key)?
        } else {
            find("unique_keys", &config.unique_keys)?
        };
        let order_by = if creation.order_by.is_empty() {
            key.clone()
        } else {
            find("ddl_create_table_order_by_fields", &creation.order_by)?
        };
        let partition_by = if creation.partition_by.is_empty() {
            find("partition keys", &schema.partition_keys)?
        } else {
            find("ddl_create_table_partition_by_fields", &creation.partition_by)?
        };
        let cluster_by = find("ddl_create_table_cluster_by_fields", &creation.cluster_by)?;
        if !config.cnch_engine && config.mode != SinkMode::Insert && !same_columns(&order_by, &key) {
            return Err(Error::new(
                ErrorKind::OptionInvalid,
                format!(
                    "a ReplacingMergeTree keeps one row for each ORDER BY value: \
                     `ddl_create_table_order_by_fields` ({}) must be the key ({})",
                    order_by.join(", "),
                    key.join(", ")
                ),
            ));
        }
        let setting = |name: &str| {
            let of_table = schema.options.get(name).map(String::as_str);
            let value =
                of_table.or_else(|| creation.settings.get(name).map(|setting| setting.value.as_str()));
            matches!(value, Some("1" | "true"))
        };
        let nullable_keys = setting("allow_nullable_key") || setting("enable_nullable_sorting_key");
        Ok(Self { key, order_by, partition_by, cluster_by, nullable_keys })
    }

    /// True for a column that must not be nullable, whatever the source says.
    fn is_key(&self, name: &str) -> bool {
        let holds = |names: &[String]| names.iter().any(|known| known == name);
        holds(&self.key)
            || holds(&self.cluster_by)
            || !self.nullable_keys && (holds(&self.order_by) || holds(&self.partition_by))
    }

    /// A UNIQUE KEY takes ten columns, and no type whose values compare in more than one way.
    fn expect_unique_types(&self, schema: &TableSchema) -> Result<()> {
        if self.key.len() > 10 {
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!(
                    "the key has {} columns, and a UNIQUE KEY takes 10; name fewer in `unique_keys`",
                    self.key.len()
                ),
            ));
        }
        for name in &self.key {
            let field =
                schema.columns.field_with_name(name).map_err(|_| no_column("primary key", name, schema))?;
            let ty = ch_type_for(&field.clone().with_nullable(false))?;
            if !can_be_unique(&ty) {
                return Err(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!(
                        "the key column `{name}` would be of type {ty}, which a UNIQUE KEY does not take; \
                         name other columns in `unique_keys`, or create the table yourself"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The engine; adds the columns that it needs for itself.
    fn engine(&self, config: &SinkConfig, dialect: Dialect, columns: &mut Vec<String>) -> String {
        if dialect.cnch {
            return "ENGINE = CnchMergeTree".to_owned();
        }
        if config.mode == SinkMode::Insert || self.key.is_empty() {
            return "ENGINE = MergeTree".to_owned();
        }
        columns.push(format!("{} UInt64", quote_ident(VERSION_COLUMN)));
        if dialect.marks_deleted() {
            columns.push(format!("{} UInt8", quote_ident(DELETED_COLUMN)));
            return format!(
                "ENGINE = ReplacingMergeTree({}, {})",
                quote_ident(VERSION_COLUMN),
                quote_ident(DELETED_COLUMN)
            );
        }
        format!("ENGINE = ReplacingMergeTree({})", quote_ident(VERSION_COLUMN))
    }
}

/// `name Type DEFAULT … COMMENT …`. A key column is never nullable.
pub(super) fn column_declaration(field: &Field, key: bool, dialect: Dialect) -> Result<String> {
    let ty = column_type(field, key, dialect)?;
    let mut sql = format!("{} {ty}", quote_ident(field.name()));
    if let Some(text) = field.metadata().get(metadata::DEFAULT) {
        match default_sql(text, &ty) {
            Some(default) => sql.push_str(&format!(" DEFAULT {default}")),
            None if text.trim().eq_ignore_ascii_case("null") => {}
            None => tracing::warn!(
                column = field.name(), default = text.as_str(), column_type = %ty,
                "the source's default has no like in the target and is left out"
            ),
        }
    }
    if let Some(comment) = field.metadata().get(metadata::COMMENT).filter(|comment| !comment.is_empty()) {
        sql.push_str(&format!(" COMMENT {}", quote_literal(comment)));
    }
    Ok(sql)
}

/// The type of a column for an announced field.
pub(super) fn column_type(field: &Field, key: bool, dialect: Dialect) -> Result<ChType> {
    let field = field.clone().with_nullable(field.is_nullable() && !key);
    ch_type_for(&field).map(|ty| in_dialect(ty, dialect))
}

/// The spelling of open-source servers, and the types that old ones lack.
fn in_dialect(ty: ChType, dialect: Dialect) -> ChType {
    let inner = |ty: Box<ChType>| Box::new(in_dialect(*ty, dialect));
    match ty {
        ChType::Time64 { scale, .. } => ChType::Time64 { scale, bytehouse: dialect.cnch },
        // The same byte under another name.
        ChType::Bool if !dialect.since(21, 12) => ChType::UInt8,
        ChType::Nullable(ty) => ChType::Nullable(inner(ty)),
        ChType::Array(ty) => ChType::Array(inner(ty)),
        ChType::Map(key, value) => ChType::Map(inner(key), inner(value)),
        other => other,
    }
}

/// Types that ByteHouse documents for UNIQUE KEY columns.
fn can_be_unique(ty: &ChType) -> bool {
    match ty {
        ChType::LowCardinality(inner) => can_be_unique(inner),
        ChType::Decimal { precision, .. } => *precision <= 18,
        ChType::String
        | ChType::FixedString(_)
        | ChType::Bool
        | ChType::Int8
        | ChType::Int16
        | ChType::Int32
        | ChType::Int64
        | ChType::UInt8
        | ChType::UInt16
        | ChType::UInt32
        | ChType::UInt64
        | ChType::Date
        | ChType::Date32
        | ChType::DateTime(_)
        | ChType::DateTime64(..)
        | ChType::Time
        | ChType::Time64 { .. } => true,
        _ => false,
    }
}

/// `SETTINGS` of the options, with the table's own on top.
fn settings(of_sink: &SettingsList, schema: &TableSchema) -> Result<Option<String>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let of_sink = of_sink.iter().map(|setting| (setting.name.as_str(), setting.value.as_str()));
    let of_table = schema.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in of_sink.chain(of_table) {
        pairs.retain(|(known, _)| *known != name);
        pairs.push((name, value));
    }
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| setting_assignment(name, value)).collect::<Result<_>>()?;
    Ok((!pairs.is_empty()).then(|| format!("SETTINGS {}", pairs.join(", "))))
}

fn tuple(names: &[String]) -> String {
    match names {
        [] => "tuple()".to_owned(),
        [one] => quote_ident(one),
        many => format!("({})", quote_idents(many.iter().map(String::as_str))),
    }
}

pub(super) fn same_columns(left: &[String], right: &[String]) -> bool {
    left.len() == right.len() && left.iter().all(|name| right.contains(name))
}

fn find_column(schema: &TableSchema, name: &str, option: &str, case_insensitive: bool) -> Result<String> {
    let fields = schema.columns.fields();
    let exact = fields.iter().find(|field| field.name() == name);
    let similar = || {
        let lower = name.to_lowercase();
        fields.iter().find(|field| case_insensitive && field.name().to_lowercase() == lower)
    };
    exact.or_else(similar).map(|field| field.name().clone()).ok_or_else(|| no_column(option, name, schema))
}

fn no_column(option: &str, name: &str, schema: &TableSchema) -> Error {
    let known: Vec<&str> = schema.columns.fields().iter().map(|field| field.name().as_str()).collect();
    Error::new(
        ErrorKind::OptionInvalid,
        format!(
            "`{option}` names `{name}`, which is not a column of the table; it has: {}",
            known.join(", ")
        ),
    )
}

/// A ByteHouse, or a ClickHouse 18.16.
#[cfg(test)]
pub(super) fn tests_dialect(cnch: bool) -> Dialect {
    Dialect { cnch, version: if cnch { (21, 8) } else { (18, 16) } }
}

#[cfg(test)]
mod tests;
