//! The names of the partitions that rows belong to.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array},
        compute::take_record_batch,
        datatypes::{
            DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        },
        row::{RowConverter, SortField},
    },
};
use fluss::metadata::{ResolvedPartitionSpec, TableInfo, TablePath};
use hashbrown::HashMap;
use jiff::{ToSpan as _, civil::date};

/// Divides the rows of a table by its partitions.
#[derive(Debug, Clone)]
pub(crate) struct Partitioner {
    keys: Arc<[String]>,
    columns: Vec<usize>,
}

/// A partition by the values of its keys.
pub(crate) type Values = Vec<String>;

impl Partitioner {
    /// `None` for a table without partitions.
    pub(crate) fn new(info: &TableInfo) -> Option<Self> {
        let keys = Arc::clone(info.get_partition_keys());
        let columns: Vec<usize> =
            keys.iter().filter_map(|key| info.row_type().get_field_index(key)).collect();
        (!columns.is_empty()).then_some(Self { keys, columns })
    }

    /// The partition of the values, as the cluster knows it.
    pub(crate) fn spec(&self, values: &Values) -> Result<ResolvedPartitionSpec> {
        ResolvedPartitionSpec::new(Arc::clone(&self.keys), values.clone())
            .map_err(|e| crate::error::from_client(&e))
    }

    /// The rows' partitions, each with its rows in their order. `batch` has the table's columns.
    ///
    /// # Errors
    /// `DataInvalid` naming column and row for a value that cannot name a partition.
    pub(crate) fn split(&self, batch: &RecordBatch) -> Result<Vec<(Values, RecordBatch)>> {
        let failed =
            |e| Error::new(ErrorKind::Unexpected, "cannot divide rows by their partitions").with_source(e);
        let keys: Vec<ArrayRef> = self.columns.iter().map(|place| Arc::clone(batch.column(*place))).collect();
        let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
        let rows = RowConverter::new(fields)
            .and_then(|converter| converter.convert_columns(&keys))
            .map_err(failed)?;
        let mut places: HashMap<connector_core::arrow::row::Row<'_>, usize> = HashMap::new();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        for (row, key) in rows.iter().enumerate() {
            let place = *places.entry(key).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(u32::try_from(row).unwrap_or(u32::MAX));
        }
        let mut parts = Vec::with_capacity(groups.len());
        for group in groups {
            let first = usize::try_from(group[0]).unwrap_or(0);
            let values = self.values(&keys, first)?;
            let part = if group.len() == batch.num_rows() {
                batch.clone()
            } else {
                take_record_batch(batch, &UInt32Array::from(group)).map_err(failed)?
            };
            parts.push((values, part));
        }
        Ok(parts)
    }

    fn values(&self, keys: &[ArrayRef], row: usize) -> Result<Values> {
        let bad = |name: &str, text: String| {
            Error::new(ErrorKind::DataInvalid, format!("a row belongs to no possible partition: {text}"))
                .with_context("column", name)
                .with_context("row", row)
        };
        keys.iter()
            .zip(self.keys.iter())
            .map(|(key, name)| {
                let value = value(key, row).ok_or_else(|| {
                    bad(
                        name,
                        if key.is_null(row) {
                            "the value is null".to_owned()
                        } else {
                            format!("a {} names none", key.data_type())
                        },
                    )
                })?;
                match TablePath::detect_invalid_name(&value) {
                    Some(reason) => Err(bad(name, format!("`{value}` {reason}"))),
                    None => Ok(value),
                }
            })
            .collect()
    }
}

/// A key's value as it stands in the partition's name, by the rules of Fluss's Java client.
fn value(key: &ArrayRef, row: usize) -> Option<String> {
    if key.is_null(row) {
        return None;
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Some(match key.data_type() {
        DataType::Utf8 => key.as_string::<i32>().value(row).to_owned(),
        DataType::Boolean => key.as_boolean().value(row).to_string(),
        DataType::Int8 => key.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => key.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => key.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => key.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => float(
            f64::from(key.as_primitive::<Float32Type>().value(row)),
            &key.as_primitive::<Float32Type>().value(row).to_string(),
        ),
        DataType::Float64 => float(
            key.as_primitive::<Float64Type>().value(row),
            &key.as_primitive::<Float64Type>().value(row).to_string(),
        ),
        DataType::Binary => hex(key.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => hex(key.as_fixed_size_binary().value(row)),
        DataType::Date32 => {
            let days = key.as_primitive::<Date32Type>().value(row);
            let day = date(1970, 1, 1).checked_add(days.days()).ok()?;
            format!("{:04}-{:02}-{:02}", day.year(), day.month(), day.day())
        }
        // Times of day and timestamps would need the client's private spelling; decimals it does not take at all.
        _ => return None,
    })
}

fn float(value: f64, text: &str) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Inf" } else { "-Inf" }.to_owned()
    } else {
        text.replace('.', "_")
    }
}
