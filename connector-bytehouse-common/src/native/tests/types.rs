//! Type texts.

use connector_core::{
    ErrorKind,
    arrow::datatypes::{DataType, Field, Fields, TimeUnit},
    schema::metadata,
};
use proptest::prelude::*;

use super::{
    super::{ChType, ColumnDef, arrow_field, ch_type_for},
    generate::any_type,
};

fn parse(text: &str) -> ChType {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn server_spellings_come_back_as_they_are() {
    for text in [
        "UInt8",
        "Int256",
        "Float64",
        "BFloat16",
        "Bool",
        "String",
        "FixedString(16)",
        "UUID",
        "IPv4",
        "IPv6",
        "Date",
        "Date32",
        "DateTime",
        "DateTime('Asia/Shanghai')",
        "DateTime64(3)",
        "DateTime64(9, 'UTC')",
        "Time",
        "Time(3)",
        "Time64(6)",
        "Decimal(18, 4)",
        "Decimal(76, 76)",
        "Enum8('a' = -128, 'b' = 0, 'it\\'s' = 127)",
        "Enum16('x' = -32768, 'y' = 1000)",
        "LowCardinality(Nullable(String))",
        "Array(Nullable(Int32))",
        "Map(LowCardinality(String), Array(UInt64))",
        "Tuple(UInt8, String)",
        "Tuple(a UInt8, `b c` Nullable(String))",
        "JSON",
        "Object('json')",
        "IntervalDay",
        "Nullable(Nothing)",
        "AggregateFunction(sum, UInt64)",
        "BitMap64",
        "Array(Variant(String, Array(UInt8)))",
        "Tuple()",
    ] {
        assert_eq!(parse(text).to_string(), text);
        assert_eq!(ColumnDef::parse("c", text).unwrap().type_text(), text);
    }
}

#[test]
fn other_spellings_mean_the_same() {
    for (text, means) in [
        ("tinyint", "Int8"),
        ("SMALLINT UNSIGNED", "UInt16"),
        ("INT(11)", "Int32"),
        ("integer", "Int32"),
        ("BIGINT UNSIGNED NOT NULL", "UInt64"),
        ("bigint null", "Nullable(Int64)"),
        ("FLOAT", "Float32"),
        ("DOUBLE PRECISION", "Float64"),
        ("BOOLEAN", "Bool"),
        ("VARCHAR(50)", "String"),
        ("char varying(10)", "String"),
        ("TEXT", "String"),
        ("BLOB", "String"),
        ("BINARY(16)", "FixedString(16)"),
        ("TIMESTAMP", "DateTime"),
        ("DATETIME(6)", "DateTime64(6)"),
        ("DateTime64", "DateTime64(3)"),
        ("dec(10)", "Decimal(10, 0)"),
        ("NUMERIC", "Decimal(10, 0)"),
        ("Decimal32(2)", "Decimal(9, 2)"),
        ("Decimal64(4)", "Decimal(18, 4)"),
        ("Decimal128(10)", "Decimal(38, 10)"),
        ("Decimal256(20)", "Decimal(76, 20)"),
        ("Enum('a', 'b' = 5, 'c')", "Enum8('a' = 1, 'b' = 5, 'c' = 6)"),
        ("Enum('a' = 200)", "Enum16('a' = 200)"),
        ("SimpleAggregateFunction(sum, Decimal(38, 2))", "Decimal(38, 2)"),
        ("SimpleAggregateFunction(groupArrayArray(10), Array(String))", "Array(String)"),
        ("Nested(a UInt8, b String)", "Array(Tuple(a UInt8, b String))"),
        ("Point", "Tuple(Float64, Float64)"),
        ("MultiPolygon", "Array(Array(Array(Tuple(Float64, Float64))))"),
        ("JSON(max_dynamic_paths = 8, a.b UInt32, SKIP REGEXP '\\\\)')", "JSON"),
        ("Object(Nullable('json'))", "Object('json')"),
        (" Array ( Nullable( UInt8 ) ) ", "Array(Nullable(UInt8))"),
        ("Tuple(INT UNSIGNED, double precision, \"x\" Int8)", "Tuple(UInt32, Float64, x Int8)"),
    ] {
        assert_eq!(parse(text).to_string(), means, "{text}");
    }
    assert_eq!(ColumnDef::parse("c", "BIGINT").unwrap().type_text(), "BIGINT");
}

#[test]
fn malformed_texts_are_refused_with_a_reason() {
    for (text, why) in [
        ("", "name of a type"),
        ("Array(", "name of a type"),
        ("Array(UInt8", "`)` is missing"),
        ("Array(UInt8))", "something stands behind it"),
        ("FixedString(0)", "1 to"),
        ("FixedString(99999999)", "1 to"),
        ("BINARY", "`(` is missing"),
        ("Decimal(77, 0)", "above 76"),
        ("Decimal(5, 6)", "above 5"),
        ("Decimal(0)", "1 to 76"),
        ("DateTime64(10)", "above 9"),
        ("Time(10)", "above 9"),
        ("Enum8()", "`'` is missing"),
        ("Enum8('a' = 128)", "8 bits"),
        ("Enum16('a' = 40000)", "16 bits"),
        ("Enum8('a' = 1, 'b' = 1)", "same number"),
        ("Enum8('a' = 1, 'a' = 2)", "twice"),
        ("Enum8('a", "not closed"),
        ("Nullable(Nullable(UInt8))", "cannot be nullable"),
        ("Nullable(Array(UInt8))", "cannot be nullable"),
        ("LowCardinality(Array(UInt8))", "no low-cardinality form"),
        ("Unknown('", "not closed"),
        ("String UNSIGNED", "signed integer"),
        ("99999999999999999999999", "name of a type"),
        ("Decimal(99999999999999999999999)", "too large"),
    ] {
        let error = text.parse::<ChType>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unexpected);
        assert!(error.message().contains(why), "{text}: {error}");
    }
    let deep = format!("{}UInt8{}", "Array(".repeat(100_000), ")".repeat(100_000));
    assert!(deep.parse::<ChType>().unwrap_err().message().contains("deep"));
}

#[test]
fn unknown_types_are_found_wherever_they_are() {
    assert_eq!(parse("Map(String, Array(Dynamic))").unknown(), Some("Dynamic"));
    assert_eq!(
        parse("Tuple(a UInt8, b AggregateFunction(sum, UInt8))").unknown(),
        Some("AggregateFunction(sum, UInt8)")
    );
    assert_eq!(parse("Map(String, UInt8)").unknown(), None);
    let error = arrow_field(&ColumnDef::parse("c", "Array(Dynamic)").unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("Dynamic") && error.to_string().contains("column=c"), "{error}");
}

#[test]
fn arrow_fields_of_columns() {
    let field = |text: &str| arrow_field(&ColumnDef::parse("c", text).unwrap()).unwrap();
    let timestamp = |unit, zone: &str| DataType::Timestamp(unit, Some(zone.into()));
    for (text, data_type, nullable) in [
        ("UInt64", DataType::UInt64, false),
        ("Nullable(Bool)", DataType::Boolean, true),
        ("LowCardinality(Nullable(String))", DataType::Utf8, true),
        ("LowCardinality(FixedString(3))", DataType::FixedSizeBinary(3), false),
        ("Int128", DataType::Decimal256(39, 0), false),
        ("UInt256", DataType::FixedSizeBinary(32), false),
        ("Decimal(38, 9)", DataType::Decimal128(38, 9), false),
        ("Decimal(39, 9)", DataType::Decimal256(39, 9), false),
        ("DateTime", timestamp(TimeUnit::Second, "UTC"), false),
        ("DateTime('Asia/Tokyo')", timestamp(TimeUnit::Second, "Asia/Tokyo"), false),
        ("DateTime64(2)", timestamp(TimeUnit::Millisecond, "UTC"), false),
        ("DateTime64(7, 'UTC')", timestamp(TimeUnit::Nanosecond, "UTC"), false),
        ("Time(4)", DataType::Time64(TimeUnit::Microsecond), false),
        ("Enum8('a' = 1)", DataType::Utf8, false),
        ("Nullable(Nothing)", DataType::Null, true),
    ] {
        let field = field(text);
        assert_eq!((field.data_type(), field.is_nullable()), (&data_type, nullable), "{text}");
        assert_eq!(field.metadata()[metadata::SOURCE_TYPE], text);
    }
    let DataType::Struct(fields) = field("Tuple(UInt8, b Nullable(String))").data_type().clone() else {
        panic!()
    };
    assert_eq!(fields[0], Field::new("1", DataType::UInt8, false).into());
    assert_eq!(fields[1], Field::new("b", DataType::Utf8, true).into());
}

#[test]
fn column_types_for_arrow_fields() {
    let list = |item: Field| DataType::List(item.into());
    let entries = Fields::from(vec![
        Field::new("keys", DataType::Utf8, false),
        Field::new("values", DataType::Int32, true),
    ]);
    let map = DataType::Map(Field::new("entries", DataType::Struct(entries), false).into(), false);
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values));
    for (data_type, nullable, text) in [
        (DataType::Int32, false, "Int32"),
        (DataType::Boolean, true, "Nullable(Bool)"),
        (DataType::LargeUtf8, true, "Nullable(String)"),
        (DataType::FixedSizeBinary(5), false, "FixedString(5)"),
        (DataType::Decimal64(18, 4), true, "Nullable(Decimal(18, 4))"),
        (DataType::Decimal128(10, -3), false, "Decimal(13, 0)"),
        (DataType::Date64, false, "Date32"),
        (DataType::Timestamp(TimeUnit::Second, None), false, "DateTime"),
        (
            DataType::Timestamp(TimeUnit::Millisecond, Some("Asia/Tokyo".into())),
            false,
            "DateTime64(3, 'Asia/Tokyo')",
        ),
        (DataType::Timestamp(TimeUnit::Microsecond, Some("+08:00".into())), false, "DateTime64(6)"),
        (DataType::Time32(TimeUnit::Millisecond), false, "Time(3)"),
        (list(Field::new("item", DataType::Int8, true)), true, "Array(Nullable(Int8))"),
        (map, true, "Map(String, Nullable(Int32))"),
        (dictionary(DataType::Utf8), true, "LowCardinality(Nullable(String))"),
        (dictionary(DataType::Boolean), false, "Bool"),
        (dictionary(DataType::Int64), true, "Nullable(Int64)"),
        (DataType::Null, true, "Nullable(Nothing)"),
        (
            DataType::Struct(vec![Field::new("a b", DataType::UInt8, true)].into()),
            true,
            "Tuple(`a b` Nullable(UInt8))",
        ),
    ] {
        assert_eq!(ch_type_for(&Field::new("c", data_type, nullable)).unwrap().to_string(), text);
    }
    let precise = Field::new("c", DataType::Timestamp(TimeUnit::Microsecond, None), false)
        .with_metadata([(metadata::PRECISION.to_owned(), "2".to_owned())].into());
    assert_eq!(ch_type_for(&precise).unwrap().to_string(), "DateTime64(2)");
    let interval =
        Field::new("c", DataType::Interval(connector_core::arrow::datatypes::IntervalUnit::DayTime), true);
    assert_eq!(ch_type_for(&interval).unwrap_err().kind(), ErrorKind::Unsupported);
}

proptest! {
    #[test]
    fn every_type_is_read_back(ty in any_type()) {
        prop_assert_eq!(ty.to_string().parse::<ChType>().unwrap(), ty);
    }

    #[test]
    fn no_text_panics(text in ".{0,60}") {
        if let Ok(ty) = text.parse::<ChType>() {
            prop_assert_eq!(ty.to_string().parse::<ChType>().unwrap(), ty);
        }
    }

    #[test]
    fn no_text_that_looks_like_a_type_panics(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "Array", "Nullable", "Map", "Tuple", "Enum8", "Decimal", "DateTime64", "LowCardinality", "String", "x",
                "(", ")", ",", " ", "'", "`", "\\", "=", "-", "1", "999999999999999999999", "NULL", "UNSIGNED", "é",
            ]),
            0..30,
        )
    ) {
        if let Ok(ty) = parts.concat().parse::<ChType>() {
            prop_assert_eq!(ty.to_string().parse::<ChType>().unwrap(), ty);
        }
    }
}
