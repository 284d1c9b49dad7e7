//! What a server tells about a table.

use connector_core::{
    Error, ErrorKind, Result, TableId,
    arrow::{
        array::{Array, AsArray},
        compute::cast,
        datatypes::DataType,
    },
};

use crate::{
    definition::TableDefinition,
    native::Block,
    sql::{quote_table, unquote},
    wire::{Client, Settings},
};

/// Where a column's value comes from when an insert does not name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DefaultKind {
    /// The type's default.
    None,
    /// `DEFAULT`: computed when the insert leaves the column out.
    Default,
    /// `MATERIALIZED`: always computed; an insert cannot name it.
    Materialized,
    /// `ALIAS`: computed when read; an insert cannot name it.
    Alias,
    /// `EPHEMERAL`: an insert may name it, but it is not stored.
    Ephemeral,
}

/// A column as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedColumn {
    /// The name.
    pub name: String,
    /// The type's text, such as `Nullable(Int64)`.
    pub type_text: String,
    /// Where the value comes from without an insert's.
    pub default_kind: DefaultKind,
    /// The expression behind [`default_kind`](Self::default_kind); empty without.
    pub default_expression: String,
    /// The column's comment.
    pub comment: String,
}

impl DescribedColumn {
    /// True when an insert stores what it gives for this column.
    pub fn is_writable(&self) -> bool {
        matches!(self.default_kind, DefaultKind::None | DefaultKind::Default)
    }
}

/// The table's columns in order. Not cancel-safe: a dropped future leaves the connection closed.
///
/// # Errors
/// `NotFound` when there is no such table or database; else as [`Client::query`] and what the server's code says.
pub async fn describe_table(client: &mut Client, table: &TableId) -> Result<Vec<DescribedColumn>> {
    let described = async {
        let mut stream =
            client.query(&format!("DESCRIBE TABLE {}", quote_table(table)), &Settings::new()).await?;
        let mut columns = Vec::new();
        while let Some(block) = stream.next_block().await? {
            described_columns(&block, &mut columns)?;
        }
        if columns.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the table has no columns"));
        }
        Ok(columns)
    };
    described.await.map_err(|e| e.with_context("table", table))
}

/// The table's definition by `SHOW CREATE TABLE`. Not cancel-safe: a dropped future leaves the connection closed.
///
/// # Errors
/// `NotFound` when there is no such table or database; `Unsupported` for a view; else as [`Client::query`] and
/// what the server's code says.
pub async fn table_definition(client: &mut Client, table: &TableId) -> Result<TableDefinition> {
    let defined = async {
        let mut stream =
            client.query(&format!("SHOW CREATE TABLE {}", quote_table(table)), &Settings::new()).await?;
        let mut statement = String::new();
        while let Some(block) = stream.next_block().await? {
            let column = block.columns.first().map(|column| column.name.clone()).unwrap_or_default();
            statement.extend(texts(&block, &[column.as_str()])?.unwrap_or_default());
        }
        TableDefinition::parse(&statement)
    };
    defined.await.map_err(|e| e.with_context("table", table))
}

fn described_columns(block: &Block, out: &mut Vec<DescribedColumn>) -> Result<()> {
    let missing =
        || Error::new(ErrorKind::Unexpected, "the server's description of the table lacks names or types");
    let names = texts(block, &["name"])?.ok_or_else(missing)?;
    let types = texts(block, &["type"])?.ok_or_else(missing)?;
    let kinds = texts(block, &["default_type", "default_kind"])?.ok_or_else(missing)?;
    let expressions = texts(block, &["default_expression"])?.unwrap_or_default();
    let comments = texts(block, &["comment"])?;
    // 18.16 gives the comment as an expression.
    let comments = match comments {
        Some(comments) => comments,
        None => {
            let expressions = texts(block, &["comment_expression"])?.unwrap_or_default();
            expressions.into_iter().map(|text| unquote(&text).unwrap_or(text)).collect()
        }
    };
    let mut expressions = expressions.into_iter();
    let mut comments = comments.into_iter();
    for ((name, type_text), kind) in names.into_iter().zip(types).zip(kinds) {
        out.push(DescribedColumn {
            default_kind: default_kind(&name, &kind)?,
            name,
            type_text,
            default_expression: expressions.next().unwrap_or_default(),
            comment: comments.next().unwrap_or_default(),
        });
    }
    Ok(())
}

fn default_kind(column: &str, text: &str) -> Result<DefaultKind> {
    Ok(match text {
        "" => DefaultKind::None,
        "DEFAULT" => DefaultKind::Default,
        "MATERIALIZED" => DefaultKind::Materialized,
        "ALIAS" => DefaultKind::Alias,
        "EPHEMERAL" => DefaultKind::Ephemeral,
        _ => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("column `{column}` has a default of the unknown kind `{text}`"),
            ));
        }
    })
}

/// The values of the first of these columns that is there, as text.
fn texts(block: &Block, names: &[&str]) -> Result<Option<Vec<String>>> {
    let Some(column) = names.iter().find_map(|name| block.rows.column_by_name(name)) else { return Ok(None) };
    let column = cast(column, &DataType::Utf8).map_err(|e| {
        Error::new(ErrorKind::Unexpected, format!("the server's answer has no text in `{}`", names[0]))
            .with_source(e)
    })?;
    let column = column.as_string::<i32>();
    Ok(Some((0..column.len()).map(|row| column.value(row).to_owned()).collect()))
}
