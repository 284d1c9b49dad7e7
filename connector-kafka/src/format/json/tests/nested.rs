//! Lists, structs and maps.

use connector_core::arrow::{
    array::{Array, AsArray},
    datatypes::{Int32Type, Int64Type},
};

use super::{super::DuplicateKeys, JsonErrorKind::*, *};

fn list(item: DataType, nullable: bool) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, nullable)))
}

fn object(fields: Vec<Field>) -> DataType {
    DataType::Struct(fields.into())
}

fn map(key: DataType, value: DataType, nullable: bool) -> DataType {
    let entries = object(vec![Field::new("keys", key, false), Field::new("values", value, nullable)]);
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}

#[test]
fn lists() {
    let schema = schema([("v", list(DataType::Int64, true), true)]);
    let records = [r#"{"v":[1,null,3]}"#, r#"{"v":[]}"#, r#"{"v":null}"#, "{}", r#"{"v":[ "4" ]}"#];
    let batch = batch(&schema, JsonOptions::default(), &records);
    let lists = batch.column(0).as_list::<i32>();
    let rows: Vec<_> = lists
        .iter()
        .map(|row| row.map(|row| row.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()))
        .collect();
    assert_eq!(rows, [Some(vec![Some(1), None, Some(3)]), Some(vec![]), None, None, Some(vec![Some(4)])]);

    let large = DataType::LargeList(Arc::new(Field::new("item", DataType::Utf8, false)));
    let array = value(&large, r#"["a","b"]"#).unwrap();
    assert_eq!(array.data_type(), &large);
    assert_eq!(array.as_list::<i64>().value(0).as_string::<i32>().iter().flatten().collect::<String>(), "ab");

    for text in ["1", "{}", "\"[]\"", "true"] {
        assert_eq!(refusal(&list(DataType::Int64, true), text), WrongType, "{text}");
    }
}

#[test]
fn structs() {
    let point = object(vec![Field::new("x", DataType::Int32, false), Field::new("y", DataType::Int32, true)]);
    let schema = schema([("p", point, true)]);
    let records = [r#"{"p":{"x":1,"y":2}}"#, r#"{"p":null}"#, r#"{}"#, r#"{"p":{"z":0,"x":3}}"#];
    let batch = batch(&schema, JsonOptions::default(), &records);
    let points = batch.column(0).as_struct();
    assert_eq!((0..4).map(|row| points.is_valid(row)).collect::<Vec<_>>(), [true, false, false, true]);
    // Under a null struct a column that may not be null holds values that nobody sees.
    assert_eq!(points.column(0).null_count(), 0);
    let x = points.column(0).as_primitive::<Int32Type>();
    assert_eq!((x.value(0), x.value(3)), (1, 3));
    let y = points.column(1).as_primitive::<Int32Type>();
    assert_eq!(y.iter().collect::<Vec<_>>(), [Some(2), None, None, None]);

    let error = decoder(&schema, JsonOptions::default()).decode(br#"{"p":{"y":2}}"#).unwrap_err();
    assert_eq!((error.kind(), error.path(), error.offset()), (MissingValue, "p.x", 11));
    assert_eq!(
        error.to_string(),
        "field `p.x` at byte 11: expected a value, as the column is not nullable, found no such key"
    );
}

#[test]
fn maps() {
    for key in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        let data_type = map(key, DataType::Int64, true);
        let schema = schema([("m", data_type.clone(), true)]);
        let records =
            [r#"{"m":{"b":1,"a":null,"\u0063":3}}"#, r#"{"m":{ }}"#, r#"{"m":null}"#, r#"{"m":{"":-1}}"#];
        let batch = batch(&schema, JsonOptions::default(), &records);
        let maps = batch.column(0).as_map();
        assert_eq!(maps.data_type(), &data_type);
        assert_eq!(maps.offsets().as_ref(), [0, 3, 3, 3, 4]);
        assert_eq!(maps.iter().map(|m| m.is_some()).collect::<Vec<_>>(), [true, true, false, true]);
        let keys = connector_core::arrow::compute::cast(maps.keys(), &DataType::Utf8).unwrap();
        assert_eq!(keys.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["b", "a", "c", ""]);
        let values = maps.values().as_primitive::<Int64Type>();
        assert_eq!(values.iter().collect::<Vec<_>>(), [Some(1), None, Some(3), Some(-1)]);
    }
}

#[test]
fn keys_of_maps_may_not_repeat() {
    let schema = schema([("m", map(DataType::Utf8, DataType::Int64, true), true)]);
    for (record, offset, path) in [
        (r#"{"m":{"a":1,"a":2}}"#, 12, r#"m["a"]"#),
        (r#"{"m":{"a":1,"b":3,"\u0061":2}}"#, 18, r#"m["a"]"#),
        (r#"{"m":{"":1,"":2}}"#, 11, r#"m[""]"#),
    ] {
        let error = decoder(&schema, JsonOptions::default()).decode(record.as_bytes()).expect_err(record);
        assert_eq!((error.kind(), error.offset(), error.path()), (DuplicateKey, offset, path), "{record}");
    }
    // Keys of a map are data: their case always counts.
    let any_case = JsonOptions { case_insensitive: true, ..JsonOptions::default() };
    batch(&schema, any_case, &[r#"{"M":{"a":1,"A":2}}"#]);
    let last = JsonOptions { duplicate_keys: DuplicateKeys::Last, ..JsonOptions::default() };
    let batch =
        batch(&schema, last, &[r#"{"m":{"a":1,"b":"not a number","\u0061":3 , "b":4}}"#, r#"{"m":{}}"#]);
    let maps = batch.column(0).as_map();
    assert_eq!(maps.keys().as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(maps.values().as_primitive::<Int64Type>().values().as_ref(), [3, 4]);
}

#[test]
fn what_is_wrong_in_a_map() {
    let data_type = map(DataType::Utf8, DataType::Int32, false);
    let error = value(&data_type, r#"{"env":1,"tier":"x"}"#).unwrap_err();
    assert_eq!((error.kind(), error.path(), error.value()), (InvalidText, r#"v["tier"]"#, "\"x\""));
    let error = value(&data_type, r#"{"env":null}"#).unwrap_err();
    assert_eq!((error.kind(), error.path()), (MissingValue, r#"v["env"]"#));
    assert_eq!(refusal(&data_type, "[]"), WrongType);
    for text in [r#"{"a":1,}"#, r#"{1:1}"#, r#"{"a" 1}"#, r#"{"a":1 "b":2}"#] {
        assert_eq!(value(&data_type, text).unwrap_err().kind(), Syntax, "{text}");
        let last = JsonOptions { duplicate_keys: DuplicateKeys::Last, ..JsonOptions::default() };
        assert_eq!(value_with(&data_type, last, text).unwrap_err().kind(), Syntax, "{text}");
    }
}

#[test]
fn paths_lead_to_the_value() {
    let item = object(vec![
        Field::new("price", DataType::Decimal128(10, 2), false),
        Field::new("labels", map(DataType::Utf8, list(DataType::Int8, false), true), true),
    ]);
    let schema = schema([("items", list(item, false), false)]);
    let mut decoder = decoder(&schema, JsonOptions::default());
    for (record, path, value) in [
        (
            r#"{"items":[{"price":1},{"price":2},{"price":3},{"price":"4.005"}]}"#,
            "items[3].price",
            "\"4.005\"",
        ),
        (r#"{"items":[{"price":1,"labels":{"a b":[1,2,300]}}]}"#, r#"items[0].labels["a b"][2]"#, "300"),
        (r#"{"items":[{"price":1},null]}"#, "items[1]", "null"),
        (r#"{"items":[{"price":1},{}]}"#, "items[1].price", ""),
        (r#"{"items":{"price":1}}"#, "items", r#"{"price":1}}"#),
        (r#"{"items":[{"price":1,"price":2}]}"#, "items[0].price", "\"price\""),
        (r#"{"items":[{"price":1,"other":tru}]}"#, "items[0].other", "tru"),
    ] {
        let error = decoder.decode(record.as_bytes()).expect_err(record);
        assert_eq!((error.path(), error.value()), (path, value), "{error}");
    }
    let error: connector_core::Error = decoder.decode(br#"{"items":[{"price":"x"}]}"#).unwrap_err().into();
    assert_eq!(error.kind(), connector_core::ErrorKind::DataInvalid);
    assert_eq!(error.operation(), "kafka.decode");
    assert_eq!(error.context_value("field"), Some("items[0].price"));
    assert_eq!(error.context_value("value"), Some("\"x\""));
    assert_eq!(error.context_value("byte"), Some("19"));
    assert!(!error.is_transient());
}

#[test]
fn duplicates_are_found_at_every_level() {
    let inner = object(vec![Field::new("x", DataType::Int64, true)]);
    let schema = schema([("s", inner.clone(), true), ("l", list(inner, true), true)]);
    for (record, path) in [
        (r#"{"s":{"x":1,"x":2}}"#, "s.x"),
        (r#"{"s":{"y":1,"y":2}}"#, "s.y"),
        (r#"{"l":[{"x":1},{"x":1,"x":2}]}"#, "l[1].x"),
        (r#"{"l":[{"x":1}],"l":[]}"#, "l"),
    ] {
        let error = decoder(&schema, JsonOptions::default()).decode(record.as_bytes()).expect_err(record);
        assert_eq!((error.kind(), error.path()), (DuplicateKey, path), "{record}");
    }
    // The same key in two objects is no duplicate.
    batch(&schema, JsonOptions::default(), &[r#"{"s":{"x":1},"l":[{"x":1},{"x":2},{}],"x":0}"#]);
    let last = JsonOptions { duplicate_keys: DuplicateKeys::Last, ..JsonOptions::default() };
    let batch = batch(&schema, last, &[r#"{"l":[{"x":1},{"x":2}],"s":{"x":1,"x":5},"l":[{"x":3,"x":4}]}"#]);
    let lists = batch.column(1).as_list::<i32>();
    assert_eq!(lists.offsets().as_ref(), [0, 1]);
    assert_eq!(lists.values().as_struct().column(0).as_primitive::<Int64Type>().values().as_ref(), [4]);
    assert_eq!(batch.column(0).as_struct().column(0).as_primitive::<Int64Type>().value(0), 5);
}

#[test]
fn types_that_cannot_be_read_are_refused_when_the_decoder_is_made() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let sorted = DataType::Map(
        Arc::new(Field::new(
            "entries",
            object(vec![
                Field::new("keys", DataType::Utf8, false),
                Field::new("values", DataType::Utf8, true),
            ]),
            false,
        )),
        true,
    );
    for (data_type, path) in [
        (dictionary.clone(), "v"),
        (list(dictionary.clone(), true), "v[]"),
        (object(vec![Field::new("d", dictionary, true)]), "v.d"),
        (DataType::Float16, "v"),
        (map(DataType::Int32, DataType::Utf8, true), "v"),
        (sorted, "v"),
        (DataType::FixedSizeBinary(0), "v"),
    ] {
        let error = JsonDecoder::new(schema([("v", data_type, true)]), JsonOptions::default()).unwrap_err();
        assert_eq!(error.kind(), connector_core::ErrorKind::Unsupported);
        assert_eq!(error.context_value("column"), Some(path), "{error}");
    }
    let error = JsonDecoder::new(schema([("v", DataType::Decimal128(50, 2), true)]), JsonOptions::default())
        .unwrap_err();
    assert_eq!(error.kind(), connector_core::ErrorKind::SchemaMismatch);
}
