//! Rows as the values of records.

mod change;
mod csv;
mod types;
mod values;

use std::{ops::Range, sync::Arc};

use arrow_json::{EncoderOptions, writer::make_encoder};
use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{Array, AsArray, RecordBatch},
        datatypes::{DataType, FieldRef},
        error::ArrowError,
    },
};

use self::values::{Factory, Style};
pub(crate) use self::{
    change::{ChangeEncoder, Dialect, Event, Facts},
    csv::CsvEncoder,
};

/// Encoded texts, one after the other, and where each ends.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Rows of the batch that stand before those encoded here: errors count from its beginning.
    before: usize,
}

impl Encoded {
    pub(crate) fn clear(&mut self, before: usize) {
        self.bytes.clear();
        self.ends.clear();
        self.before = before;
    }

    pub(crate) fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.range(row)]
    }

    fn range(&self, row: usize) -> Range<usize> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[row]
    }

    /// Adds one text that `write` appends to the bytes.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// The same where writing can fail.
    fn try_push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        write(&mut self.bytes)?;
        self.ends.push(self.bytes.len());
        Ok(())
    }
}

/// Appends each row as a JSON object. Nulls are written; what JSON cannot say (NaN, infinity) is null; binary values
/// are base64; times with a zone are RFC 3339 in UTC; decimals are numbers with all of their digits.
///
/// # Errors
/// `Unsupported` for a column type that JSON has nothing for; `DataInvalid` for a time beyond the year 9999.
pub(crate) fn json(rows: &RecordBatch, out: &mut Encoded) -> Result<()> {
    let factory = Arc::new(Factory::new(Style::Json, out.before));
    let options = options(&factory);
    let schema = rows.schema();
    // arrow-json would look for what to escape in each name for each row.
    let names: Vec<Vec<u8>> = schema.fields().iter().map(|field| key_of(field.name())).collect();
    let mut columns = schema
        .fields()
        .iter()
        .zip(rows.columns())
        .map(|(field, array)| make_encoder(field, array.as_ref(), &options).map_err(unwritable))
        .collect::<Result<Vec<_>>>()?;
    for row in 0..rows.num_rows() {
        out.push(|bytes| {
            bytes.push(b'{');
            for (at, (name, encoder)) in names.iter().zip(&mut columns).enumerate() {
                if at > 0 {
                    bytes.push(b',');
                }
                bytes.extend_from_slice(name);
                if encoder.is_null(row) {
                    bytes.extend_from_slice(b"null");
                } else {
                    encoder.encode(row, bytes);
                }
            }
            bytes.push(b'}');
        });
    }
    factory.problem()
}

/// A name as a key of JSON, with its colon.
fn key_of(name: &str) -> Vec<u8> {
    // A text always is JSON.
    let mut key = serde_json::to_vec(name).unwrap_or_default();
    key.push(b':');
    key
}

fn options(factory: &Arc<Factory>) -> EncoderOptions {
    EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::clone(factory) as _)
}

#[cold]
fn unwritable(error: ArrowError) -> Error {
    Error::new(ErrorKind::Unsupported, format!("a column cannot be written: {error}")).with_source(error)
}

/// Appends each value of a column as JSON, nulls as `null`.
fn column(field: &FieldRef, array: &dyn Array, style: Style, out: &mut Encoded) -> Result<()> {
    let factory = Arc::new(Factory::new(style, out.before));
    let options = options(&factory);
    let mut encoder = make_encoder(field, array, &options).map_err(unwritable)?;
    for row in 0..array.len() {
        if encoder.is_null(row) {
            out.push(|bytes| bytes.extend_from_slice(b"null"));
        } else {
            out.push(|bytes| encoder.encode(row, bytes));
        }
    }
    factory.problem()
}

/// The one column of a batch whose values are the records' values.
///
/// # Errors
/// `SchemaMismatch` when there are more columns, or one of another type.
pub(crate) fn raw(rows: &RecordBatch) -> Result<Raw<'_>> {
    let mismatch = |text: String| Err(Error::new(ErrorKind::SchemaMismatch, text));
    let column = match rows.columns() {
        [column] => column,
        columns => {
            return mismatch(format!(
                "the format raw writes one column of bytes or text as it is, and the rows have {}; select one, or use json",
                columns.len()
            ));
        }
    };
    match column.data_type() {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => Ok(Raw(column.as_ref())),
        other => {
            let name = rows.schema().field(0).name().clone();
            mismatch(format!("the format raw writes bytes or text, and `{name}` is {other}; use json"))
        }
    }
}

/// Values as they are; a null is a tombstone.
pub(crate) struct Raw<'a>(&'a dyn Array);

impl<'a> Raw<'a> {
    pub(crate) fn get(&self, row: usize) -> Option<&'a [u8]> {
        if self.0.is_null(row) { None } else { bytes_at(self.0, row) }
    }
}

/// The bytes of a text or binary value.
fn bytes_at(array: &dyn Array, row: usize) -> Option<&[u8]> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes(),
        DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod json_tests {
    use connector_core::arrow::{
        array::{
            ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
            ListArray, StringArray, StructArray, TimestampMillisecondArray, TimestampNanosecondArray,
            TimestampSecondArray, UInt64Array,
        },
        datatypes::Int32Type,
    };

    use super::*;
    use crate::Json;

    fn everything() -> RecordBatch {
        let decimals = [Some(i128::MAX / 10), None, Some(-1)];
        let lists = [Some(vec![Some(1), None]), Some(vec![]), None];
        let structs = StructArray::try_from(vec![
            ("b", Arc::new(BinaryArray::from(vec![b"\x00\xff".as_slice(), b"", b"abc"])) as ArrayRef),
            ("t", Arc::new(TimestampNanosecondArray::from(vec![-1, 0, 1]).with_timezone("Asia/Shanghai"))),
        ]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1]))),
            ("i", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
            ("f", Arc::new(Float64Array::from(vec![Some(0.1), Some(-1e300), None]))),
            ("flag", Arc::new(BooleanArray::from(vec![true, false, true]))),
            (
                "d",
                Arc::new(Decimal128Array::from(decimals.to_vec()).with_precision_and_scale(38, 9).unwrap()),
            ),
            ("s", Arc::new(StringArray::from(vec!["订单 😀", "a\"b\\c\n\u{1}", ""]))),
            ("day", Arc::new(Date32Array::from(vec![-1, 0, 20_000]))),
            ("plain", Arc::new(TimestampSecondArray::from(vec![-1, 0, 1_767_225_600]))),
            (
                "zoned",
                Arc::new(TimestampMillisecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("UTC")),
            ),
            ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
            ("nested", Arc::new(structs.unwrap())),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn our_own_reader_takes_what_is_written_as_it_was() {
        let rows = everything();
        let mut out = Encoded::default();
        json(&rows, &mut out).unwrap();
        let mut decoder = Json::with_schema(rows.schema()).decoder().unwrap();
        for row in 0..rows.num_rows() {
            serde_json::from_slice::<serde_json::Value>(out.get(row)).unwrap();
            decoder
                .decode(out.get(row))
                .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(out.get(row))));
        }
        assert_eq!(decoder.finish().unwrap(), rows);
    }

    #[test]
    fn what_json_cannot_say_is_null_and_what_no_text_can_say_is_an_error() {
        let floats = Float64Array::from(vec![f64::NAN, f64::INFINITY]);
        let rows = RecordBatch::try_from_iter([("f", Arc::new(floats) as ArrayRef)]).unwrap();
        let mut out = Encoded::default();
        json(&rows, &mut out).unwrap();
        assert_eq!([out.get(0), out.get(1)], [br#"{"f":null}"#, br#"{"f":null}"#]);
        let times = TimestampSecondArray::from(vec![0, i64::MAX]).with_timezone("UTC");
        let rows = RecordBatch::try_from_iter([("t", Arc::new(times) as ArrayRef)]).unwrap();
        out.clear(2048);
        let error = json(&rows, &mut out).unwrap_err();
        assert!(error.message().contains("row 2049"), "{error}");
    }

    #[test]
    fn raw_takes_one_column_of_bytes_or_text() {
        let two = everything().project(&[5, 6]).unwrap();
        assert!(raw(&two).err().unwrap().message().contains("have 2"));
        let number = everything().project(&[0]).unwrap();
        assert!(raw(&number).err().unwrap().message().contains("`u` is UInt64"));
        let text = everything().project(&[5]).unwrap();
        assert_eq!(raw(&text).unwrap().get(0), Some("订单 😀".as_bytes()));
    }
}
