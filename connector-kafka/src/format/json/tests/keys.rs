//! Keys: their order, their case, those that stand twice and those that nobody knows.

use connector_core::arrow::{array::AsArray, datatypes::Int64Type};

use super::{
    super::{DuplicateKeys, UnknownFields},
    JsonErrorKind::*,
    *,
};

fn abc() -> SchemaRef {
    schema([("a", DataType::Int64, true), ("b", DataType::Int64, true), ("c", DataType::Int64, true)])
}

fn rows(batch: &RecordBatch) -> Vec<Vec<Option<i64>>> {
    let column = |at: usize| batch.column(at).as_primitive::<Int64Type>();
    (0..batch.num_rows())
        .map(|row| (0..batch.num_columns()).map(|at| column(at).iter().nth(row).unwrap()).collect())
        .collect()
}

fn options() -> JsonOptions {
    JsonOptions::default()
}

fn last() -> JsonOptions {
    JsonOptions { duplicate_keys: DuplicateKeys::Last, ..options() }
}

fn any_case() -> JsonOptions {
    JsonOptions { case_insensitive: true, ..options() }
}

#[test]
fn keys_may_come_in_any_order_and_the_order_may_change() {
    let records = [
        r#"{"a":1,"b":2,"c":3}"#,
        r#"{"c":3,"b":2,"a":1}"#,
        r#"{"b":2,"a":1,"c":3}"#,
        r#"{"b":2 , "a" : 1 ,"c":3}"#,
        r#"{"c":3,"a":1}"#,
        r#"{"b":2}"#,
        r#"{}"#,
        r#"{"\u0061":1,"b":2,"\u0063":3}"#,
        r#"{"x":0,"a":1,"y":0,"b":2,"z":{"a":9},"c":3,"w":[]}"#,
        r#"{"a":1,"b":2,"c":3,"x":0}"#,
        r#"{"x":0,"y":0,"a":1,"b":2,"c":3}"#,
        r#"{"a":1,"c":3}"#,
    ];
    let all = vec![Some(1), Some(2), Some(3)];
    let batch = batch(&abc(), options(), &records);
    assert_eq!(
        rows(&batch),
        [
            all.clone(),
            all.clone(),
            all.clone(),
            all.clone(),
            vec![Some(1), None, Some(3)],
            vec![None, Some(2), None],
            vec![None; 3],
            all.clone(),
            all.clone(),
            all.clone(),
            all,
            vec![Some(1), None, Some(3)],
        ]
    );
}

#[test]
fn names_match_to_the_letter() {
    let schema =
        schema([("a", DataType::Int64, true), ("A", DataType::Int64, true), ("ab", DataType::Int64, true)]);
    let batch = batch(&schema, options(), &[r#"{"A":2,"ab":3,"a":1,"AB":4,"a ":5}"#]);
    assert_eq!(rows(&batch), [[Some(1), Some(2), Some(3)]]);
}

#[test]
fn names_with_quotes_backslashes_and_other_letters() {
    let schema = schema([
        ("say \"hi\"", DataType::Int64, false),
        ("a\\b", DataType::Int64, false),
        ("订单", DataType::Int64, false),
        ("", DataType::Int64, false),
        ("line\nbreak", DataType::Int64, false),
        ("😀", DataType::Int64, false),
    ]);
    let records = [
        r#"{"say \"hi\"":1,"a\\b":2,"订单":3,"":4,"line\nbreak":5,"😀":6}"#,
        r#"{"\ud83d\ude00":6,"line\u000abreak":5,"":4,"\u8ba2\u5355":3,"a\u005cb":2,"say \u0022hi\u0022":1}"#,
    ];
    let batch = batch(&schema, options(), &records);
    let row: Vec<_> = (1..=6).map(Some).collect();
    assert_eq!(rows(&batch), [row.clone(), row]);
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    for (record, offset, path) in [
        (r#"{"a":1,"a":2}"#, 7, "a"),
        (r#"{"a":1,"b":2,"c":3,"a":1}"#, 19, "a"),
        (r#"{"a":1,"\u0061":1}"#, 7, "a"),
        (r#"{"a":null,"a":1}"#, 10, "a"),
        (r#"{"x":1,"a":1,"x":2}"#, 13, "x"),
        (r#"{"\u0078":1,"x":2}"#, 12, "x"),
        (r#"{"\u0079":1,"a":1,"\u0079":2}"#, 18, "y"),
    ] {
        let mut decoder = decoder(&abc(), options());
        let error = decoder.decode(record.as_bytes()).expect_err(record);
        assert_eq!((error.kind(), error.offset(), error.path()), (DuplicateKey, offset, path), "{record}");
        // The next record starts afresh.
        decoder.decode(br#"{"a":1,"x":1}"#).unwrap();
        assert_eq!(rows(&decoder.finish().unwrap()), [[Some(1), None, None]]);
    }
}

#[test]
fn the_last_of_two_counts_by_option() {
    let records = [
        r#"{"a":1,"a":2,"b":3}"#,
        r#"{"a":1,"b":3,"a":null}"#,
        r#"{"a":null,"a":2,"a":5,"x":1,"x":2,"\u0079":1,"\u0079":1}"#,
    ];
    let batch = batch(&abc(), last(), &records);
    assert_eq!(rows(&batch), [[Some(2), Some(3), None], [None, Some(3), None], [Some(5), None, None]]);
    // Earlier values have to be readable too.
    let error = decoder(&abc(), last()).decode(br#"{"a":"x","a":2}"#).unwrap_err();
    assert_eq!((error.kind(), error.path(), error.offset()), (InvalidText, "a", 5));
    let not_null = schema([("a", DataType::Int64, false)]);
    let error = decoder(&not_null, last()).decode(br#"{"a":1,"a":null}"#).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (MissingValue, 11));
}

#[test]
fn more_unknown_keys_than_are_remembered() {
    // Far more keys than slots, and some too long for one; still every one that stands twice is found.
    let long = "k".repeat(100);
    let keys: Vec<String> = (0..1000).map(|i| format!("key{i}")).chain([long.clone()]).collect();
    let object = |keys: &[String]| {
        let fields: Vec<String> = keys.iter().map(|key| format!("\"{key}\":[1]")).collect();
        format!("{{{},\"a\":7}}", fields.join(","))
    };
    let good = object(&keys);
    let mut decoder = decoder(&abc(), options());
    for _ in 0..3 {
        decoder.decode(good.as_bytes()).unwrap();
    }
    for twice in ["key0", "key255", "key256", "key999", &long] {
        let mut keys = keys.clone();
        keys.push(twice.to_owned());
        let error = decoder.decode(object(&keys).as_bytes()).unwrap_err();
        let start = &twice[..twice.len().min(80)];
        assert_eq!(error.kind(), DuplicateKey);
        assert!(error.path().starts_with(start), "{error}");
    }
    decoder.decode(good.as_bytes()).unwrap();
    assert_eq!(rows(&decoder.finish().unwrap()), vec![vec![Some(7), None, None]; 4]);
}

#[test]
fn unknown_keys_can_be_refused() {
    let strict = JsonOptions { unknown_fields: UnknownFields::Fail, ..options() };
    let nested = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
    let schema = schema([("a", DataType::Int64, true), ("s", nested, true)]);
    let mut decoder = decoder(&schema, strict);
    decoder.decode(br#"{"a":1,"s":{"x":1}}"#).unwrap();
    let error = decoder.decode(br#"{"a":1,"b":2}"#).unwrap_err();
    assert_eq!((error.kind(), error.path(), error.offset(), error.value()), (UnknownField, "b", 7, "\"b\""));
    let error = decoder.decode(br#"{"a":1,"s":{"y":2}}"#).unwrap_err();
    assert_eq!((error.kind(), error.path(), error.offset()), (UnknownField, "s.y", 12));
    let error = decoder.decode(br#"{"A":1}"#).unwrap_err();
    assert_eq!(error.to_string(), "field `A` at byte 1: expected a key that has a column, found `\"A\"`");
    assert_eq!(decoder.finish().unwrap().num_rows(), 1);
}

#[test]
fn case_can_be_left_out() {
    let schema = schema([
        ("Id", DataType::Int64, true),
        ("straße", DataType::Int64, true),
        ("ΟΔΟΣ", DataType::Int64, true),
    ]);
    let records = [
        r#"{"Id":1,"straße":2,"ΟΔΟΣ":3}"#,
        r#"{"ID":1,"STRAßE":2,"οδοσ":3}"#,
        r#"{"id":1,"Straße":2,"Οδοσ":3}"#,
        r#"{"\u0049\u0044":1,"straße":2,"οδοσ":3}"#,
        r#"{"οδοσ":3,"id":1,"STRAßE":2}"#,
    ];
    let batch = batch(&schema, any_case(), &records);
    assert_eq!(rows(&batch), vec![vec![Some(1), Some(2), Some(3)]; 5]);
    // Without the option only one spelling is the column's.
    let exact = super::batch(&schema, options(), &records[1..2]);
    assert_eq!(rows(&exact), [[None, None, None]]);
}

#[test]
fn two_spellings_of_one_name_are_a_duplicate() {
    for (record, path) in [
        (r#"{"a":1,"A":2}"#, "a"),
        (r#"{"A":1,"a":2}"#, "a"),
        (r#"{"x":1,"X":2}"#, "x"),
        (r#"{"\u0079":1,"\u0059":2}"#, "y"),
    ] {
        let error = decoder(&abc(), any_case()).decode(record.as_bytes()).expect_err(record);
        assert_eq!((error.kind(), error.path()), (DuplicateKey, path), "{record}");
    }
    let both = JsonOptions { case_insensitive: true, ..last() };
    assert_eq!(rows(&batch(&abc(), both, &[r#"{"a":1,"A":2}"#])), [[Some(2), None, None]]);
}

#[test]
fn schemas_whose_names_collide() {
    let error = |schema: &SchemaRef, options| JsonDecoder::new(Arc::clone(schema), options).unwrap_err();
    let twice = schema([("a", DataType::Int64, true), ("a", DataType::Utf8, true)]);
    let e = error(&twice, options());
    assert_eq!((e.kind(), e.context_value("column")), (connector_core::ErrorKind::SchemaMismatch, Some("a")));
    let cases = schema([("id", DataType::Int64, true), ("ID", DataType::Utf8, true)]);
    assert!(JsonDecoder::new(Arc::clone(&cases), options()).is_ok());
    let e = error(&cases, any_case());
    assert_eq!(
        (e.kind(), e.context_value("column")),
        (connector_core::ErrorKind::SchemaMismatch, Some("ID"))
    );
    let inner = DataType::Struct(
        vec![Field::new("x", DataType::Null, true), Field::new("x", DataType::Null, true)].into(),
    );
    let e = error(&schema([("s", inner, true)]), options());
    assert_eq!(e.context_value("column"), Some("s.x"));
}

#[test]
fn no_columns_at_all() {
    let batch = batch(&schema([]), options(), &["{}", r#"{"a":1}"#]);
    assert_eq!((batch.num_rows(), batch.num_columns()), (2, 0));
}
