//! Rows as the values of records.

use std::{
    io::Write as _,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_json::{
    EncoderFactory, EncoderOptions,
    writer::{Encoder, NullableEncoder, make_encoder},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{
            Array, AsArray, BinaryViewArray, FixedSizeBinaryArray, GenericBinaryArray, OffsetSizeTrait,
            PrimitiveArray, RecordBatch, StructArray,
        },
        datatypes::{
            ArrowTimestampType, DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType,
            TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
        },
        error::ArrowError,
    },
};
use jiff::Timestamp;

/// Encoded texts, one after the other, and where each ends.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Encoded {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
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
}

/// Appends each row as a JSON object. Nulls are written; what JSON cannot say (NaN, infinity) is null; binary values
/// are base64; times with a zone are RFC 3339 in UTC; decimals are numbers with all of their digits.
///
/// # Errors
/// `Unsupported` for a column type that JSON has nothing for; `DataInvalid` for a time beyond the year 9999.
pub(crate) fn json(rows: &RecordBatch, out: &mut Encoded) -> Result<()> {
    let factory = Arc::new(Factory::default());
    let options =
        EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::clone(&factory) as _);
    let object = StructArray::from(rows.clone());
    let field: FieldRef = Arc::new(Field::new("row", object.data_type().clone(), false));
    let mut encoder = make_encoder(&field, &object, &options).map_err(|e| {
        Error::new(ErrorKind::Unsupported, "a column cannot be written as JSON").with_source(e)
    })?;
    for row in 0..rows.num_rows() {
        out.push(|bytes| encoder.encode(row, bytes));
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
    Ok(match column.data_type() {
        DataType::Utf8 => Raw {
            nulls: column.as_ref(),
            value: Box::new(|row| column.as_string::<i32>().value(row).as_bytes()),
        },
        DataType::LargeUtf8 => Raw {
            nulls: column.as_ref(),
            value: Box::new(|row| column.as_string::<i64>().value(row).as_bytes()),
        },
        DataType::Binary => {
            Raw { nulls: column.as_ref(), value: Box::new(|row| column.as_binary::<i32>().value(row)) }
        }
        DataType::LargeBinary => {
            Raw { nulls: column.as_ref(), value: Box::new(|row| column.as_binary::<i64>().value(row)) }
        }
        other => {
            let name = rows.schema().field(0).name().clone();
            return mismatch(format!(
                "the format raw writes bytes or text, and `{name}` is {other}; use json"
            ));
        }
    })
}

/// Values as they are; a null is a tombstone.
pub(crate) struct Raw<'a> {
    nulls: &'a dyn Array,
    value: Box<dyn Fn(usize) -> &'a [u8] + Send + 'a>,
}

impl<'a> Raw<'a> {
    pub(crate) fn get(&self, row: usize) -> Option<&'a [u8]> {
        (!self.nulls.is_null(row)).then(|| (self.value)(row))
    }
}

/// Encoders for what arrow-json writes in another way than our own reader takes it, or not at all.
#[derive(Debug, Default)]
struct Factory {
    problem: Arc<Mutex<Option<String>>>,
}

impl Factory {
    /// The first value that could not be written.
    fn problem(&self) -> Result<()> {
        match self.problem.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(text) => Err(Error::new(ErrorKind::DataInvalid, text)),
            None => Ok(()),
        }
    }

    fn times<'a, T: ArrowTimestampType>(&self, array: &'a dyn Array) -> Box<dyn Encoder + 'a> {
        Box::new(Times { array: array.as_primitive::<T>(), problem: Arc::clone(&self.problem) })
    }
}

impl EncoderFactory for Factory {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> std::result::Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Binary => Box::new(Base64(array.as_binary::<i32>())),
            DataType::LargeBinary => Box::new(Base64(array.as_binary::<i64>())),
            DataType::BinaryView => Box::new(Base64(array.as_binary_view())),
            DataType::FixedSizeBinary(_) => Box::new(Base64(array.as_fixed_size_binary())),
            DataType::Timestamp(unit, Some(_)) => match unit {
                TimeUnit::Second => self.times::<TimestampSecondType>(array),
                TimeUnit::Millisecond => self.times::<TimestampMillisecondType>(array),
                TimeUnit::Microsecond => self.times::<TimestampMicrosecondType>(array),
                TimeUnit::Nanosecond => self.times::<TimestampNanosecondType>(array),
            },
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

/// Arrays of bytes.
trait Bytes {
    fn bytes(&self, row: usize) -> &[u8];
}

impl<O: OffsetSizeTrait> Bytes for GenericBinaryArray<O> {
    fn bytes(&self, row: usize) -> &[u8] {
        self.value(row)
    }
}

impl Bytes for BinaryViewArray {
    fn bytes(&self, row: usize) -> &[u8] {
        self.value(row)
    }
}

impl Bytes for FixedSizeBinaryArray {
    fn bytes(&self, row: usize) -> &[u8] {
        self.value(row)
    }
}

struct Base64<'a, A>(&'a A);

impl<A: Bytes> Encoder for Base64<'_, A> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let bytes = self.0.bytes(row);
        out.push(b'"');
        let start = out.len();
        // Room for four characters for each three bytes begun.
        out.resize(start + bytes.len().div_ceil(3) * 4, 0);
        let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
        out.truncate(start + written);
        out.push(b'"');
    }
}

struct Times<'a, T: ArrowTimestampType> {
    array: &'a PrimitiveArray<T>,
    problem: Arc<Mutex<Option<String>>>,
}

impl<T: ArrowTimestampType> Encoder for Times<'_, T> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value = self.array.value(row);
        let time = match T::UNIT {
            TimeUnit::Second => Timestamp::from_second(value),
            TimeUnit::Millisecond => Timestamp::from_millisecond(value),
            TimeUnit::Microsecond => Timestamp::from_microsecond(value),
            TimeUnit::Nanosecond => Timestamp::from_nanosecond(i128::from(value)),
        };
        match time {
            // Writing into memory does not fail.
            Ok(time) => drop(write!(out, "\"{time}\"")),
            Err(_) => {
                out.extend_from_slice(b"null");
                let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
                problem.get_or_insert_with(|| {
                    format!(
                        "row {row}: the time {value} ({:?}) is beyond the years that a text can say",
                        T::UNIT
                    )
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::{
        array::{
            ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
            ListArray, StringArray, TimestampMillisecondArray, TimestampNanosecondArray,
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
        let error = json(&rows, &mut out).unwrap_err();
        assert!(error.message().contains("row 1"), "{error}");
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
