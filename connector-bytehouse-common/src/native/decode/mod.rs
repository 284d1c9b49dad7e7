//! Blocks to record batches.

mod fixed;
mod input;
mod nested;
mod text;

use std::{pin::Pin, sync::Arc};

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{ArrayRef, RecordBatch, RecordBatchOptions},
        buffer::NullBuffer,
        datatypes::{Field, Schema},
    },
};

use self::input::Input;
use super::{
    arrow_types::column_field,
    types::{ChType, ColumnDef},
};
use crate::wire::io::{ByteSource, read_string, read_u8, read_varuint};

/// The longest column name or type text, in bytes.
const MAX_TEXT: usize = 4 << 20;

/// A block from a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Its columns as the server describes them.
    pub columns: Vec<ColumnDef>,
    /// Its rows, with the fields that [`arrow_field`](super::arrow_field) gives. A header block has columns and no
    /// rows; the block that ends a stream has neither.
    pub rows: RecordBatch,
}

/// Bounds and choices for reading blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// Reads `String` columns as Arrow `Binary`. When false they are `Utf8`, and a value that is not UTF-8 is an
    /// error.
    pub strings_as_binary: bool,
    /// The most columns that a block may have.
    pub max_columns: usize,
    /// The most rows that a block may have.
    pub max_rows: usize,
    /// The most bytes that a block may take in memory; never more than 2 GiB for one column of texts.
    pub max_bytes: usize,
}

impl Default for ReadOptions {
    /// 10,000 columns, 16 Mi rows, 1 GiB, text as `Utf8`.
    fn default() -> Self {
        Self { strings_as_binary: false, max_columns: 10_000, max_rows: 16 << 20, max_bytes: 1 << 30 }
    }
}

/// Reads one block: number of columns, number of rows, then name, type and data of each column. No block info and no
/// packet id stand before that.
///
/// Memory grows with the bytes that come in, not with the counts that the server announces. Not cancel-safe: when the
/// future is dropped, the source stands somewhere in the block.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unsupported` naming the type for columns that cannot be read; `DataInvalid` naming column
/// and row for a value that its Arrow type cannot hold; `Unexpected` when the bytes make no sense or the block exceeds
/// the bounds. The source then stands somewhere in the block and is of no more use.
pub async fn read_block<S: ByteSource>(source: &mut S, options: &ReadOptions) -> Result<Block> {
    let mut input = Input::new(source, options);
    read(&mut input).await.map_err(|e| e.with_operation("bytehouse.read_block"))
}

async fn read<S: ByteSource>(input: &mut Input<'_, S>) -> Result<Block> {
    let columns = count(read_varuint(input.source).await?, input.options.max_columns, "columns")?;
    let rows = count(read_varuint(input.source).await?, input.options.max_rows, "rows")?;
    let mut definitions = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for _ in 0..columns {
        let name = read_string(input.source, MAX_TEXT).await?;
        let type_text = read_string(input.source, MAX_TEXT).await?;
        input.charge(name.len() + type_text.len())?;
        let column = ColumnDef::parse(name, type_text)?;
        let in_column =
            |e: Error| e.with_context("column", &column.name).with_context("type", column.type_text());
        let field = column_field(&column, input.options.strings_as_binary).map_err(in_column)?;
        // A column without rows has no bytes at all.
        if rows > 0 {
            read_prefix(input, &column.ty).await.map_err(in_column)?;
        }
        arrays.push(read_array(input, &column.ty, rows, None).await.map_err(in_column)?);
        fields.push(field);
        definitions.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(input::broken_column)?;
    Ok(Block { columns: definitions, rows })
}

fn count(announced: u64, max: usize, what: &str) -> Result<usize> {
    usize::try_from(announced).ok().filter(|count| *count <= max).ok_or_else(|| {
        let message =
            format!("the server announces a block of {announced} {what}, at most {max} are allowed");
        Error::new(ErrorKind::Unexpected, message)
    })
}

/// Reads what stands once before the data of all parts of a column; see `ChType::put_prefix`.
async fn read_prefix<S: ByteSource>(input: &mut Input<'_, S>, ty: &ChType) -> Result<()> {
    let mut parts = vec![ty];
    while let Some(part) = parts.pop() {
        match part {
            ChType::LowCardinality(_) => {
                let version = input.read_u64().await?;
                if version != 1 {
                    let message = format!("version {version} of low-cardinality columns cannot be read");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
            }
            ChType::Json => {
                let version = input.read_u64().await?;
                if version != 1 {
                    let message = format!(
                        "JSON in form {version} cannot be read; let the server send it as text with the setting \
                         output_format_native_write_json_as_string=1"
                    );
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
            }
            ChType::Object => {
                let kind = read_u8(input.source).await?;
                if kind != 1 {
                    let message = format!(
                        "Object('json') in form {kind} cannot be read, only where it is sent as text"
                    );
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
            }
            ChType::Nullable(inner) | ChType::Array(inner) => parts.push(inner),
            ChType::Map(key, value) => parts.extend([value.as_ref(), key.as_ref()]),
            ChType::Tuple(elements) => parts.extend(elements.iter().rev().map(|element| &element.ty)),
            _ => {}
        }
    }
    Ok(())
}

/// Reads the data of `rows` values. `nulls` are those of a `Nullable` around the type.
async fn read_array<S: ByteSource>(
    input: &mut Input<'_, S>,
    ty: &ChType,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    match ty {
        ChType::Nullable(inner) => {
            let nulls = input.read_null_map(rows).await?;
            read_nested(input, inner, rows, nulls).await
        }
        ChType::String => text::read_strings(input, rows, nulls, input.options.strings_as_binary).await,
        ChType::Json | ChType::Object => text::read_strings(input, rows, nulls, false).await,
        ChType::Array(inner) => nested::read_list(input, inner, rows, nulls).await,
        ChType::Map(key, value) => nested::read_map(input, key, value, rows, nulls).await,
        ChType::Tuple(elements) => nested::read_tuple(input, elements, rows, nulls).await,
        ChType::LowCardinality(inner) => nested::read_low_cardinality(input, inner, rows).await,
        _ => fixed::read_fixed(input, ty, rows, nulls).await,
    }
}

/// [`read_array`] for a type inside another; the box ends the recursion of future types.
fn read_nested<'a, S: ByteSource>(
    input: &'a mut Input<'_, S>,
    ty: &'a ChType,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Pin<Box<dyn Future<Output = Result<ArrayRef>> + Send + 'a>> {
    Box::pin(read_array(input, ty, rows, nulls))
}
