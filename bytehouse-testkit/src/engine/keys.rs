//! Keys of rows as bytes that compare like the values.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::{
    array::{Array, ArrayRef},
    compute::SortOptions,
    row::{RowConverter, Rows, SortField},
};

use super::{
    eval::{Evaluated, Scope, internal},
    storage::Partition,
    value::{Value, format_value, plain},
};
use crate::{
    exception::{Result, exception},
    sql::{ast::Expr, quote_text},
};

/// Rows of several columns as bytes.
pub(crate) fn row_bytes(columns: &[ArrayRef]) -> Result<Rows> {
    row_bytes_by(columns, &vec![SortOptions::default(); columns.len()])
}

/// Rows as bytes that sort by `options`.
pub(crate) fn row_bytes_by(columns: &[ArrayRef], options: &[SortOptions]) -> Result<Rows> {
    let fields = columns
        .iter()
        .zip(options)
        .map(|(column, options)| SortField::new_with_options(column.data_type().clone(), *options))
        .collect();
    let converter = RowConverter::new(fields)
        .map_err(|_| exception!(NOT_IMPLEMENTED, "the double cannot sort or group by one of these types"))?;
    converter.convert_columns(columns).map_err(internal)
}

/// The partition of each row: the partitions that there are, and which one each row belongs to.
#[derive(Debug)]
pub(crate) struct Partitions {
    pub(crate) list: Vec<Partition>,
    /// Empty when there is one partition only.
    pub(crate) of_row: Vec<u32>,
}

/// Splits the rows of a scope by PARTITION BY.
pub(crate) fn partitions(partition_by: Option<&Expr>, scope: &Scope<'_>) -> Result<Partitions> {
    let elements = partition_by.map(Expr::elements).unwrap_or_default();
    if elements.is_empty() {
        let all = Partition { id: "all".to_owned(), text: "tuple()".to_owned() };
        return Ok(Partitions { list: vec![all], of_row: Vec::new() });
    }
    let mut columns = Vec::with_capacity(elements.len());
    for element in &elements {
        let value = scope.eval(element)?;
        columns.push((value.ty.clone(), value.into_array(scope.rows)?));
    }
    let arrays: Vec<ArrayRef> = columns.iter().map(|(_, array)| std::sync::Arc::clone(array)).collect();
    let rows = row_bytes(&arrays)?;
    let mut known: hashbrown::HashMap<&[u8], u32> = hashbrown::HashMap::new();
    let mut list = Vec::new();
    let mut of_row = Vec::with_capacity(scope.rows);
    for row in 0..scope.rows {
        let bytes = rows.row(row).data();
        let next = u32::try_from(list.len()).map_err(internal)?;
        let number = *known.entry(bytes).or_insert(next);
        if number == next {
            list.push(describe(&columns, row, partition_by.is_some_and(is_tuple), scope)?);
        }
        of_row.push(number);
    }
    if list.len() == 1 {
        of_row = Vec::new();
    }
    Ok(Partitions { list, of_row })
}

fn is_tuple(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { name, .. } if name == "tuple")
}

fn describe(columns: &[(ChType, ArrayRef)], row: usize, tuple: bool, scope: &Scope<'_>) -> Result<Partition> {
    let mut values = Vec::with_capacity(columns.len());
    for (ty, array) in columns {
        let cell = Evaluated { ty: ty.clone(), data: super::eval::Data::Array(array.slice(row, 1)) };
        values.push((cell.values()?.first().cloned().unwrap_or(Value::Null), ty));
    }
    let text = |(value, ty): &(Value, &ChType)| {
        let bytes = format_value(value, ty, &scope.context.zone);
        match value {
            Value::Text(_) | Value::Date(_) | Value::Instant(..) if tuple => quote_text(&bytes),
            _ => String::from_utf8_lossy(&bytes).into_owned(),
        }
    };
    let texts: Vec<String> = values.iter().map(text).collect();
    let text = if tuple { format!("({})", texts.join(",")) } else { texts.join(",") };
    // As servers make ids: numbers and dates as they are, everything else as a hash of all.
    let simple: Option<Vec<String>> = values
        .iter()
        .map(|(value, ty)| match (value, plain(ty)) {
            (Value::Int(number), _) => Some(number.to_string()),
            (Value::Date(_), _) => {
                let text =
                    String::from_utf8_lossy(&format_value(value, ty, &scope.context.zone)).replace('-', "");
                Some(text)
            }
            _ => None,
        })
        .collect();
    let id = simple.map_or_else(|| hash_text(text.as_bytes()), |parts| parts.join("-"));
    Ok(Partition { id, text })
}

/// 32 hexadecimal digits that depend on `bytes` only.
pub(crate) fn hash_text(bytes: &[u8]) -> String {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    format!("{:016x}{:016x}", hasher.hash_one(bytes), hasher.hash_one((bytes, 1u8)))
}
