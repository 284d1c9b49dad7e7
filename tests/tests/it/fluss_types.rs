//! Every type there and back, and as the Java client reads it.

use std::sync::Arc;

use connector_core::{
    ChangeBatch, ErrorKind, SinkWriter, SourceEvent, TableSchema,
    arrow::{
        array::{
            ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
            Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, MapArray,
            RecordBatch, StringArray, StructArray, Time32MillisecondArray, Time32SecondArray,
            Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
            TimestampNanosecondArray, TimestampSecondArray,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::concat_batches,
        datatypes::{DataType, Field, Fields, Int32Type, Schema},
    },
    schema::metadata,
};
use connector_tests::fluss::Part;

use crate::fluss::{Site, next, open};

/// Four rows: plain values, the edges downward (times before 1970), the edges upward, and nulls wherever they may be.
fn columns() -> (Fields, Vec<ArrayRef>) {
    let decimal = |precision, scale, values: [Option<i128>; 4]| -> ArrayRef {
        Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(precision, scale).unwrap())
    };
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(-3)]),
        Some(vec![]),
        Some(vec![Some(i32::MAX)]),
        None,
    ]);
    let entries = StructArray::from(vec![
        (
            Arc::new(Field::new("key", DataType::Utf8, false)),
            Arc::new(StringArray::from(vec!["a", "b", "c"])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("value", DataType::Int64, true)),
            Arc::new(Int64Array::from(vec![Some(1), None, Some(-1)])) as ArrayRef,
        ),
    ]);
    let map = MapArray::new(
        Arc::new(Field::new("entries", entries.data_type_of(), false)),
        OffsetBuffer::new(vec![0, 2, 2, 3, 3].into()),
        entries,
        Some(NullBuffer::from(vec![true, true, true, false])),
        false,
    );
    let row = StructArray::new(
        Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)]),
        vec![
            Arc::new(Int32Array::from(vec![Some(7), None, Some(9), None])),
            Arc::new(StringArray::from(vec![Some("y"), Some(""), None, None])),
        ],
        Some(NullBuffer::from(vec![true, true, true, false])),
    );
    let char = Field::new("char", DataType::Utf8, true).with_metadata(
        [(metadata::SOURCE_TYPE, "CHAR(3)"), (metadata::LENGTH, "3")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
    );
    // Times of day of a primary-key table are whole milliseconds.
    let nanos = 1_000_000;
    let day = 86_400_000_000_000 - nanos;
    let columns: Vec<(Field, ArrayRef)> = vec![
        (Field::new("id", DataType::Int64, false), Arc::new(Int64Array::from(vec![0, 1, 2, 3]))),
        plain("bool", BooleanArray::from(vec![Some(true), Some(false), Some(true), None])),
        plain("tinyint", Int8Array::from(vec![Some(1), Some(i8::MIN), Some(i8::MAX), None])),
        plain("smallint", Int16Array::from(vec![Some(1), Some(i16::MIN), Some(i16::MAX), None])),
        plain("int", Int32Array::from(vec![Some(1), Some(i32::MIN), Some(i32::MAX), None])),
        plain("bigint", Int64Array::from(vec![Some(1), Some(i64::MIN), Some(i64::MAX), None])),
        plain("float", Float32Array::from(vec![Some(0.5), Some(f32::MIN), Some(f32::INFINITY), None])),
        plain("double", Float64Array::from(vec![Some(0.1), Some(f64::MIN_POSITIVE), Some(-0.0), None])),
        (char, Arc::new(StringArray::from(vec![Some("abc"), Some(""), Some("äöü"), None]))),
        plain("string", StringArray::from(vec![Some("text"), Some(""), Some("客户🎁\t\"'"), None])),
        plain_decimal("small", decimal(9, 2, [Some(125), Some(-999_999_999), Some(999_999_999), None])),
        plain_decimal(
            "large",
            decimal(38, 10, [Some(1), Some(1 - 10_i128.pow(38)), Some(10_i128.pow(38) - 1), None]),
        ),
        plain("date", Date32Array::from(vec![Some(0), Some(-719_162), Some(2_932_896), None])),
        plain("time0", Time32SecondArray::from(vec![Some(1), Some(0), Some(86_399), None])),
        plain("time3", Time32MillisecondArray::from(vec![Some(1), Some(0), Some(86_399_999), None])),
        plain("time9", Time64NanosecondArray::from(vec![Some(nanos), Some(0), Some(day), None])),
        plain(
            "ts0",
            TimestampSecondArray::from(vec![Some(1), Some(-62_135_596_800), Some(253_402_300_799), None]),
        ),
        plain(
            "ts3",
            TimestampMillisecondArray::from(vec![Some(1), Some(-1), Some(253_402_300_799_999), None]),
        ),
        plain(
            "ts6",
            TimestampMicrosecondArray::from(vec![Some(1), Some(-1), Some(253_402_300_799_999_999), None]),
        ),
        plain("ts9", TimestampNanosecondArray::from(vec![Some(1), Some(-1), Some(i64::MAX), None])),
        plain(
            "ltz3",
            TimestampMillisecondArray::from(vec![Some(1), Some(-1), Some(0), None]).with_timezone("UTC"),
        ),
        plain(
            "ltz9",
            TimestampNanosecondArray::from(vec![
                Some(1),
                Some(-1_000_001),
                Some(-9_223_372_036_854_000_000),
                None,
            ])
            .with_timezone("UTC"),
        ),
        plain("bytes", BinaryArray::from(vec![Some(&b"\x00\xff"[..]), Some(b""), Some(b"abc"), None])),
        plain(
            "binary",
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                [Some([0u8, 1]), Some([255, 0]), Some([7, 7]), None].into_iter(),
                2,
            )
            .unwrap(),
        ),
        plain("list", list),
        plain("map", map),
        plain("row", row),
    ];
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    (Fields::from(fields), arrays)
}

trait DataTypeOf {
    fn data_type_of(&self) -> DataType;
}

impl DataTypeOf for StructArray {
    fn data_type_of(&self) -> DataType {
        connector_core::arrow::array::Array::data_type(self).clone()
    }
}

fn plain(name: &str, array: impl connector_core::arrow::array::Array + 'static) -> (Field, ArrayRef) {
    (Field::new(name, array.data_type().clone(), true), Arc::new(array))
}

fn plain_decimal(name: &str, array: ArrayRef) -> (Field, ArrayRef) {
    (Field::new(name, array.data_type().clone(), true), array)
}

/// The rows as `Rows.java` shows them.
fn in_java() -> Vec<String> {
    let rows = [
        "0 true 1 1 1 1 3f000000 3fb999999999999a abc text 1.25 0.0000000001 0 1000 1 1 1000:0 1:0 0:1000 0:1 1:0 0:1 00ff 0001 [1,null,-3] [a,b][1,null] (7,y)".to_owned(),
        "1 false -128 -32768 -2147483648 -9223372036854775808 ff7fffff 10000000000000   -9999999.99 -9999999999999999999999999999.9999999999 -719162 0 0 0 -62135596800000:0 -1:0 -1:999000 -1:999999 -1:0 -2:999999  ff00 [] [][] (null,)".to_owned(),
        "2 true 127 32767 2147483647 9223372036854775807 7f800000 8000000000000000 äöü 客户🎁\\t\"' 9999999.99 9999999999999999999999999999.9999999999 2932896 86399000 86399999 86399999 253402300799000:0 253402300799999:0 253402300799999:999000 9223372036854:775807 0:0 -9223372036854:0 616263 0707 [2147483647] [c][-1] (9,null)".to_owned(),
        format!("3{}", " null".repeat(26)),
    ];
    // Cells are divided by tabs; the text with a tab in it is written with its escape above.
    let mut rows: Vec<String> = rows.iter().map(|row| row.replace(' ', "\t").replace("\\t", "\t")).collect();
    rows.sort_unstable();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_comes_back_as_it_was() {
    let Some(site) = Site::new().await else { return };
    for keyed in [false, true] {
        let table = if keyed { "keyed" } else { "log" };
        let (fields, arrays) = columns();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let mut schema = TableSchema::new(batch.schema());
        if keyed {
            schema = schema.with_primary_key(["id"]).unwrap();
        }
        site.create(table, schema, &[]).await;
        site.write(table, &[], &[ChangeBatch::append(batch.clone())]).await;
        for mode in ["full", "earliest"] {
            let mut reader =
                open(&site.source(table, &[("scan.startup.mode", mode), ("scan.bounded", "true")])).await;
            let mut read = Vec::new();
            while let Some(event) = next(&mut reader).await {
                if let SourceEvent::Batch { rows, .. } = event {
                    read.push(rows.rows().clone());
                }
            }
            let read = concat_batches(&read[0].schema(), &read).unwrap();
            for (place, field) in batch.schema().fields().iter().enumerate() {
                let name = field.name();
                assert_eq!(read.schema().field(place).name(), name);
                assert_eq!(
                    read.column(place).as_ref(),
                    batch.column(place).as_ref(),
                    "{table} {mode} {name}"
                );
            }
            assert_eq!(read.schema().field(8).metadata()[metadata::SOURCE_TYPE], "CHAR(3)");
        }
    }
}

/// Of a log Java's client cannot read times before 1970 that are finer than milliseconds; the rows of keys it can.
#[tokio::test(flavor = "multi_thread")]
async fn java_reads_what_was_written() {
    let Some(site) = Site::new().await else { return };
    let (fields, arrays) = columns();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    site.create("t", TableSchema::new(batch.schema()).with_primary_key(["id"]).unwrap(), &[]).await;
    site.write("t", &[], &[ChangeBatch::append(batch)]).await;
    let java = site.fluss.java_rows(&site.database, "t", Part::Keys).await;
    let expected = in_java();
    for (row, expected) in java.iter().zip(&expected) {
        assert_eq!(row.split('\t').collect::<Vec<_>>(), expected.split('\t').collect::<Vec<_>>());
    }
    assert_eq!(java.len(), expected.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_a_table_cannot_hold_are_refused_and_named() {
    let Some(site) = Site::new().await else { return };
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("n", DataType::Int8, true),
    ]));
    site.create("t", TableSchema::new(schema), &[]).await;
    let wide = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("n", DataType::Int64, true),
    ]));
    let rows = |n: Vec<Option<i64>>| {
        let ids = Int64Array::from_iter_values(0..i64::try_from(n.len()).unwrap());
        ChangeBatch::append(
            RecordBatch::try_new(Arc::clone(&wide), vec![Arc::new(ids), Arc::new(Int64Array::from(n))])
                .unwrap(),
        )
    };
    site.write("t", &[], &[rows(vec![Some(127), None])]).await;
    let mut writer = site.writer("t", &[]).await;
    let error = writer.write(&site.id("t"), rows(vec![Some(1), Some(128)])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataInvalid);
    for (key, value) in [("column", "n"), ("row", "1"), ("value", "128")] {
        assert_eq!(error.context_value(key), Some(value), "{error}");
    }
    assert_eq!(site.read("t", &[]).await, ["+I 0|127", "+I 1|∅"]);
}
