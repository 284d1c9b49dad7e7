//! The rows of the insert figures: eight columns of the usual types, 122 bytes a row as ClickHouse counts them.
//! Every cell follows from the row's number, so that what a table has to hold is known beforehand.

use std::{fmt::Write as _, sync::Arc};

use anyhow::Result;
use connector_core::arrow::{
    array::{
        ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
        TimestampSecondArray, UInt64Array,
    },
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use connector_tests::mix;
use siphasher::sip::SipHasher24;

/// Rows of a batch.
pub(crate) const BATCH_ROWS: u64 = 65_536;

/// The columns for `CREATE TABLE`; both ClickHouse versions have these types.
pub(crate) const COLUMNS: &str = "id UInt64, i Int32, f Float64, s20 String, s60 String, ts DateTime('UTC'), \
     n Nullable(Int64), d Decimal(18, 4)";

/// The names of the columns, for `INSERT`.
pub(crate) const NAMES: &str = "(id, i, f, s20, s60, ts, n, d)";

/// The types of the columns, one by one.
pub(crate) const TYPES: [&str; 8] = [
    "UInt64",
    "Int32",
    "Float64",
    "String",
    "String",
    "DateTime('UTC')",
    "Nullable(Int64)",
    "Decimal(18, 4)",
];

/// One row.
struct Row {
    id: u64,
    i: i32,
    /// In eighths, so that sums of floats are exact in any order.
    eighths: u32,
    user: u64,
    path: [u64; 2],
    seconds: i64,
    n: Option<i64>,
    /// In ten-thousandths.
    units: i64,
}

impl Row {
    fn new(id: u64) -> Self {
        let one = mix(id);
        let two = mix(one);
        let part = |bits: u64, limit: u64| i64::try_from(bits % limit).unwrap_or(0);
        Self {
            id,
            i: i32::try_from(part(one, 2_000_000) - 1_000_000).unwrap_or(0),
            eighths: u32::try_from(part(one >> 22, 1_000_000)).unwrap_or(0),
            user: two % 1_000_000_000_000,
            path: [one, two],
            seconds: 1_700_000_000 + part(id, u64::MAX) / 10,
            n: (!two.is_multiple_of(7)).then(|| part(two >> 24, 1 << 40) - (1 << 39)),
            units: part(one.rotate_left(17) ^ two, 10_000_000_000),
        }
    }

    fn s20(&self, out: &mut String) {
        write!(out, "user-{:015}", self.user).ok();
    }

    fn s60(&self, out: &mut String) {
        write!(out, "https://example.test/path/{:016x}/{:016x}", self.path[0], self.path[1]).ok();
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("i", DataType::Int32, false),
        Field::new("f", DataType::Float64, false),
        Field::new("s20", DataType::Utf8, false),
        Field::new("s60", DataType::Utf8, false),
        Field::new("ts", DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), false),
        Field::new("n", DataType::Int64, true),
        Field::new("d", DataType::Decimal128(18, 4), false),
    ]))
}

/// The rows from 0 on, in batches of [`BATCH_ROWS`].
pub(crate) fn batches(rows: u64) -> Result<Vec<RecordBatch>> {
    let schema = schema();
    let mut batches = Vec::new();
    let mut begin = 0;
    while begin < rows {
        let end = rows.min(begin + BATCH_ROWS);
        batches.push(batch(&schema, begin, end)?);
        begin = end;
    }
    Ok(batches)
}

fn batch(schema: &SchemaRef, begin: u64, end: u64) -> Result<RecordBatch> {
    let rows: Vec<Row> = (begin..end).map(Row::new).collect();
    let text = |put: fn(&Row, &mut String)| {
        let mut cell = String::new();
        let cells = rows.iter().map(|row| {
            cell.clear();
            put(row, &mut cell);
            cell.clone()
        });
        StringArray::from_iter_values(cells)
    };
    let floats = rows.iter().map(|row| f64::from(row.eighths) / 8.0);
    let units = rows.iter().map(|row| i128::from(row.units));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.id))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.i))),
        Arc::new(Float64Array::from_iter_values(floats)),
        Arc::new(text(Row::s20)),
        Arc::new(text(Row::s60)),
        Arc::new(
            TimestampSecondArray::from_iter_values(rows.iter().map(|row| row.seconds)).with_timezone("UTC"),
        ),
        Arc::new(rows.iter().map(|row| row.n).collect::<Int64Array>()),
        Arc::new(Decimal128Array::from_iter_values(units).with_precision_and_scale(18, 4)?),
    ];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// What the rows from 0 on add up to, as the row of text that [`sums_query`] gives. Every column counts twice: by
/// itself, and in the hash of its row.
pub(crate) fn sums(rows: u64) -> Vec<String> {
    let (mut id, mut i, mut eighths, mut lengths, mut seconds) = (0_u64, 0_i64, 0_u64, [0_usize; 2], 0_i64);
    let (mut nulls, mut n, mut units, mut hash) = (0_u64, 0_i64, 0_i64, 0_u64);
    let (mut s20, mut s60, mut text) = (String::new(), String::new(), String::new());
    for row in (0..rows).map(Row::new) {
        s20.clear();
        row.s20(&mut s20);
        s60.clear();
        row.s60(&mut s60);
        text.clear();
        let number = row.n.map_or_else(|| "null".to_owned(), |n| n.to_string());
        let (seven, units_of_row) = (row.eighths, row.units);
        write!(text, "{}|{}|{seven}|{s20}|{s60}|{}|{number}|{units_of_row}", row.id, row.i, row.seconds).ok();
        id += row.id;
        i += i64::from(row.i);
        eighths += u64::from(row.eighths);
        lengths[0] += s20.len();
        lengths[1] += s60.len();
        seconds += row.seconds;
        nulls += u64::from(row.n.is_none());
        n += row.n.unwrap_or(0);
        units += row.units;
        hash = hash.wrapping_add(SipHasher24::new().hash(text.as_bytes()));
    }
    let [l20, l60] = lengths;
    format!("{rows} {id} {i} {eighths} {l20} {l60} {seconds} {nulls} {n} {units} {hash}")
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// The query that computes the same in a ClickHouse server.
pub(crate) fn sums_query(table: &str) -> String {
    let (eighths, seconds, units) = ("toInt64(f * 8)", "toUInt32(ts)", "toInt64(d * 10000)");
    format!(
        "SELECT count(), sum(id), sum(i), sum({eighths}), sum(length(s20)), sum(length(s60)), sum({seconds}), \
         countIf(isNull(n)), sum(ifNull(n, 0)), sum({units}), \
         sum(sipHash64(concat(toString(id), '|', toString(i), '|', toString({eighths}), '|', s20, '|', s60, '|', \
         toString({seconds}), '|', ifNull(toString(n), 'null'), '|', toString({units})))) FROM {table}"
    )
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::array::{Array as _, AsArray as _};

    use super::*;

    #[test]
    fn batches_hold_the_rows_that_the_sums_count() {
        let rows = BATCH_ROWS + 5;
        let batches = batches(rows).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [65_536, 5]);
        let sums = sums(rows);
        let nulls: usize = batches.iter().map(|batch| batch.column(6).null_count()).sum();
        let bytes: usize =
            batches.iter().map(|batch| batch.column(3).as_string::<i32>().value_data().len()).sum();
        assert_eq!(
            (sums[0].clone(), sums[7].clone(), sums[4].clone()),
            (rows.to_string(), nulls.to_string(), bytes.to_string())
        );
        assert_eq!(bytes, 20 * usize::try_from(rows).unwrap());
        assert_eq!(batches[1].column(4).as_string::<i32>().value(0).len(), 59);
    }

    #[test]
    fn sums_tell_rows_apart() {
        assert_ne!(sums(10), sums(11));
        assert_eq!(sums(3)[1], "3");
    }
}
