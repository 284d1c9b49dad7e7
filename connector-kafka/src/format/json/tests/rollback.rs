//! A record that is refused leaves no trace, wherever in it the fault is.

use connector_core::arrow::datatypes::TimeUnit;

use super::{super::DuplicateKeys, *};

/// A column of every kind, nullable or not, nested in every way.
fn everything() -> SchemaRef {
    let object = |fields: Vec<Field>| DataType::Struct(fields.into());
    let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
    let map = |value| {
        let entries =
            object(vec![Field::new("keys", DataType::Utf8, false), Field::new("values", value, true)]);
        DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
    };
    let inner = object(vec![
        Field::new("text", DataType::Utf8, false),
        Field::new("list", list(DataType::Int16), true),
        Field::new("map", map(list(DataType::Utf8View)), true),
        Field::new("flag", DataType::Boolean, true),
    ]);
    let fields = vec![
        Field::new("int", DataType::Int32, false),
        Field::new("text", DataType::Utf8, true),
        Field::new("large", DataType::LargeUtf8, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("float", DataType::Float64, true),
        Field::new("decimal", DataType::Decimal256(40, 3), true),
        Field::new("date", DataType::Date32, true),
        Field::new("time", DataType::Time64(TimeUnit::Microsecond), true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true),
        Field::new("bytes", DataType::Binary, true),
        Field::new("fixed", DataType::FixedSizeBinary(2), true),
        Field::new("none", DataType::Null, true),
        Field::new("list", list(list(DataType::Utf8)), true),
        Field::new("objects", DataType::LargeList(Arc::new(Field::new("item", inner.clone(), true))), true),
        Field::new("object", inner, true),
        Field::new("map", map(DataType::Int64), true),
    ];
    Arc::new(Schema::new(fields))
}

/// A good record; every third is full of nulls, and the texts differ from row to row.
fn good(row: usize) -> String {
    if row % 3 == 2 {
        return format!(r#"{{"int":{row},"list":[null,[null]],"objects":[null],"object":null}}"#);
    }
    let text = "文é\\n".repeat(row + 1);
    let inner = format!(
        r#"{{"text":"{text}","list":[{row},null],"map":{{"k{row}":["{text}","x"],"z":null}},"flag":true}}"#
    );
    format!(
        concat!(
            r#"{{"int":{row},"text":"{text}","large":"{text}!","flag":{flag},"float":{row}.5,"decimal":"{row}.125","#,
            r#""date":"2024-02-29","time":"12:00:00.5","at":"2026-01-01T00:00:00.{row:03}Z","bytes":"AQID","#,
            r#""fixed":"AQI=","none":null,"list":[["{text}"],[],["a","b"]],"objects":[{inner},{inner}],"#,
            r#""object":{inner},"map":{{"a":{row},"b":null}}}}"#
        ),
        row = row,
        text = text,
        flag = row.is_multiple_of(2),
        inner = inner
    )
}

/// Records that are refused: one per column with a value that it does not take, and some of other kinds.
fn bad_records() -> Vec<String> {
    let full = good(1);
    let mut bad = Vec::new();
    for column in [
        "int", "text", "large", "flag", "float", "decimal", "date", "time", "at", "bytes", "fixed", "none",
        "list", "objects", "object", "map",
    ] {
        let start = full.find(&format!("\"{column}\":")).unwrap() + column.len() + 3;
        // Cut the record at the column's value, and put something there that no column takes.
        bad.push(format!("{}[{{}},tru", &full[..start]));
        bad.push(full[..start].to_owned());
        bad.push(format!("{}\"\\ud800\"}}", &full[..start]));
    }
    bad.push(full.replace(r#""b":null}}"#, r#""b":1e99}}"#));
    bad.push(full.replace(r#"["a","b"]"#, r#"["a","b",7]"#));
    bad.push(full.replace(r#""flag":true}"#, r#""flag":1}"#));
    bad.push(full.replace(r#""z":null"#, r#""z":[1]"#));
    bad.push(full.replace(r#""int":1,"#, ""));
    bad.push(full.replace(r#""int":1,"#, r#""int":1,"int":1,"#));
    bad.push(format!("{full} {full}"));
    bad.push(full[..full.len() - 1].to_owned());
    bad.push(String::new());
    assert!(bad.iter().all(|record| *record != full));
    bad
}

fn decode(options: &JsonOptions, records: &[(&str, bool)]) -> RecordBatch {
    let mut decoder = decoder(&everything(), options.clone());
    for (record, is_good) in records {
        let (rows, bytes) = (decoder.len(), decoder.memory_size());
        let result = decoder.decode(record.as_bytes());
        assert_eq!(result.is_ok(), *is_good, "{record}: {result:?}");
        if !is_good {
            assert_eq!((decoder.len(), decoder.memory_size()), (rows, bytes), "{record}");
        }
    }
    decoder.finish().unwrap()
}

#[test]
fn a_bad_record_between_good_ones_leaves_them_alone() {
    for duplicate_keys in [DuplicateKeys::Fail, DuplicateKeys::Last] {
        let options = JsonOptions { duplicate_keys, ..JsonOptions::default() };
        let rows: Vec<String> = (0..7).map(good).collect();
        let clean: Vec<_> = rows.iter().map(|row| (row.as_str(), true)).collect();
        let expected = decode(&options, &clean);
        assert_eq!(expected.num_rows(), rows.len());
        let twice =
            |record: &str| record.contains(r#""int":1,"int":1"#) && duplicate_keys == DuplicateKeys::Last;
        for bad in bad_records().iter().filter(|record| !twice(record)) {
            for at in 0..=rows.len() {
                let mut records = clean.clone();
                records.insert(at, (bad, false));
                records.insert(at, (bad, false));
                assert_eq!(decode(&options, &records), expected, "{bad} before row {at}");
            }
        }
    }
}

#[test]
fn every_prefix_of_a_record_is_refused() {
    let record = good(4);
    let mut decoder = decoder(&everything(), JsonOptions::default());
    decoder.decode(good(3).as_bytes()).unwrap();
    for end in 0..record.len() {
        let error = decoder.decode(&record.as_bytes()[..end]).unwrap_err();
        assert_eq!(error.kind(), JsonErrorKind::Syntax, "{error}");
    }
    decoder.decode(record.as_bytes()).unwrap();
    let expected = batch(&everything(), JsonOptions::default(), &[&good(3), &record]);
    assert_eq!(decoder.finish().unwrap(), expected);
}

#[test]
fn batches_follow_each_other_without_a_trace() {
    let mut decoder = decoder(&everything(), JsonOptions::default());
    let mut empty = 0;
    for round in 0..4_usize {
        let rows: Vec<String> = (0..round * 5).map(good).collect();
        for row in &rows {
            assert!(decoder.decode(b"{\"int\":true}").is_err());
            decoder.decode(row.as_bytes()).unwrap();
        }
        if round > 0 {
            assert!(decoder.memory_size() > empty);
        }
        let got = decoder.finish().unwrap();
        assert_eq!(
            got,
            batch(
                &everything(),
                JsonOptions::default(),
                &rows.iter().map(String::as_str).collect::<Vec<_>>()
            )
        );
        empty = decoder.memory_size();
        assert!(decoder.is_empty() && empty < 200, "{empty}");
    }
}

#[test]
fn memory_is_what_the_rows_take() {
    let schema = schema([("id", DataType::Int64, false), ("text", DataType::Utf8, false)]);
    let mut decoder = decoder(&schema, JsonOptions::default());
    let record = format!(r#"{{"id":1,"text":"{}"}}"#, "x".repeat(100));
    for _ in 0..1000 {
        decoder.decode(record.as_bytes()).unwrap();
    }
    let bytes = decoder.memory_size();
    assert!((112_000..113_000).contains(&bytes), "{bytes}");
}
