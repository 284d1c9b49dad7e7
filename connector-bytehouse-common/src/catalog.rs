//! What a server says of its tables.

use connector_core::{
    Error, ErrorKind, Result, TableId,
    arrow::{
        array::{Array, RecordBatch, StringArray},
        compute::cast,
        datatypes::DataType,
    },
};

use crate::{
    sql::quote_table,
    wire::{Client, Settings},
};

/// Where a column's value comes from when an INSERT does not bring it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DefaultKind {
    /// From the type: 0, an empty text, null.
    None,
    /// From an expression; an INSERT may bring another value.
    Default,
    /// Always from an expression; an INSERT must not name it.
    Materialized,
    /// Computed when it is read; an INSERT must not name it.
    Alias,
    /// Only there to compute others from; an INSERT may name it, a SELECT cannot.
    Ephemeral,
}

/// A column as DESCRIBE TABLE has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedColumn {
    /// Its name.
    pub name: String,
    /// Its type, as the server writes it.
    pub type_text: String,
    /// Where its value comes from when it is not given.
    pub default_kind: DefaultKind,
    /// The expression of `default_kind`; empty without one.
    pub default_expression: String,
    /// Its comment; empty without one, and at servers that have none.
    pub comment: String,
}

/// The columns of a table, in order.
///
/// # Errors
/// `NotFound` when there is no such table or database; else as [`Client::query`].
pub async fn describe_table(client: &mut Client, table: &TableId) -> Result<Vec<DescribedColumn>> {
    let sql = format!("DESCRIBE TABLE {}", quote_table(table));
    let mut stream = client.query(&sql, &Settings::new()).await?;
    let mut columns = Vec::new();
    while let Some(block) = stream.next_block().await? {
        read_columns(&block.rows, &mut columns)?;
    }
    if columns.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "the server describes a table without columns")
            .with_operation("bytehouse.describe"));
    }
    Ok(columns)
}

fn read_columns(rows: &RecordBatch, columns: &mut Vec<DescribedColumn>) -> Result<()> {
    let names = texts(rows, "name")?;
    let types = texts(rows, "type")?;
    let kinds = texts(rows, "default_type")?;
    let expressions = texts(rows, "default_expression")?;
    let comments = texts(rows, "comment").ok();
    for row in 0..rows.num_rows() {
        columns.push(DescribedColumn {
            name: names.value(row).to_owned(),
            type_text: types.value(row).to_owned(),
            default_kind: match kinds.value(row) {
                "" => DefaultKind::None,
                "DEFAULT" => DefaultKind::Default,
                "MATERIALIZED" => DefaultKind::Materialized,
                "ALIAS" => DefaultKind::Alias,
                "EPHEMERAL" => DefaultKind::Ephemeral,
                other => {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!("the column `{}` has the unknown kind of default `{other}`", names.value(row)),
                    ));
                }
            },
            default_expression: expressions.value(row).to_owned(),
            comment: comments.as_ref().map(|comments| comments.value(row).to_owned()).unwrap_or_default(),
        });
    }
    Ok(())
}

fn texts(rows: &RecordBatch, name: &str) -> Result<StringArray> {
    let missing = || Error::new(ErrorKind::Unexpected, format!("the server's DESCRIBE TABLE has no text column `{name}`"));
    let column = rows.column_by_name(name).ok_or_else(missing)?;
    let column = cast(column, &DataType::Utf8).map_err(|_| missing())?;
    column.as_any().downcast_ref::<StringArray>().cloned().ok_or_else(missing)
}
