//! Records that are not one JSON object, and where it shows.

use connector_core::arrow::datatypes::DataType;

use super::{
    super::{cursor::MAX_DEPTH, error::Fault},
    *,
};

/// Columns for some of the keys below; all others are unknown and skipped.
fn columns() -> SchemaRef {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    schema([("a", DataType::Int64, true), ("s", DataType::Utf8, true), ("l", list, true)])
}

#[track_caller]
fn refused(record: &[u8], offset: usize) -> JsonError {
    let mut decoder = decoder(&columns(), JsonOptions::default());
    let error = decoder.decode(record).expect_err(&String::from_utf8_lossy(record));
    assert_eq!(error.kind(), JsonErrorKind::Syntax, "{error}");
    assert_eq!(error.offset(), offset, "{error}");
    assert!(decoder.is_empty());
    error
}

#[test]
fn records_that_are_not_one_object() {
    for (record, offset) in [
        ("", 0),
        ("  \n\t\r ", 6),
        ("{", 1),
        (r#"{"a""#, 4),
        (r#"{"a":"#, 5),
        (r#"{"a":1"#, 6),
        (r#"{"a":1,"#, 7),
        (r#"{"a":1,}"#, 7),
        (r#"{"a":1}}"#, 7),
        (r#"{"a":1}{"a":2}"#, 7),
        (r#"{"a":1} x"#, 8),
        (r#"{"a":1}]"#, 7),
        (r#"{a:1}"#, 1),
        (r#"{'a':1}"#, 1),
        (r#"{"a" 1}"#, 5),
        (r#"{"a":1 "s":"x"}"#, 7),
        (r#"{,}"#, 1),
        (r#"{"a":}"#, 5),
        (r#"{"l":[1,]}"#, 8),
        (r#"{"l":[1 2]}"#, 8),
        (r#"{"l":[1}"#, 7),
        (r#"{"l":[1"#, 7),
        (r#"{"l":["#, 6),
        (r#"{"a":nul}"#, 5),
        (r#"{"a":nullx}"#, 9),
        (r#"{"a":01}"#, 5),
        (r#"{"a":-}"#, 5),
        (r#"{"a":1.}"#, 5),
        (r#"{"a":.5}"#, 5),
        (r#"{"a":+5}"#, 5),
        (r#"{"a":1e}"#, 5),
        (r#"{"a":0x10}"#, 6),
        (r#"{"a":NaN}"#, 5),
        (r#"{"a":Infinity}"#, 5),
        (r#"{"a":-Infinity}"#, 5),
        (r#"{"a":1}/**/"#, 7),
        (r#"{"s":"abc}"#, 10),
        (r#"{"s":"abc\"}"#, 12),
        (r#"{"s":"\x"}"#, 6),
        (r#"{"s":"\u12"}"#, 6),
        (r#"{"s":"\u12G4"}"#, 6),
        (r#"{"s":"\ud83d"}"#, 6),
        (r#"{"s":"ab\ud83dx"}"#, 8),
        (r#"{"s":"\ud83d\n"}"#, 6),
        (r#"{"s":"\ud83d\u0041"}"#, 6),
        (r#"{"s":"\ude00"}"#, 6),
        ("{\"s\":\"a\nb\"}", 7),
        ("{\"s\":\"a\u{0}b\"}", 7),
        ("{\"s\":\"long enough to be read in pieces\u{1f}\"}", 38),
        ("\u{feff}{\"a\":1}", 0),
        ("\u{a0}{\"a\":1}", 0),
    ] {
        refused(record.as_bytes(), offset);
    }
}

#[test]
fn values_that_no_column_reads_are_checked_all_the_same() {
    for (value, offset) in [
        ("", 0),
        ("tru", 0),
        ("fals}", 0),
        ("nulL", 0),
        ("[1,2", 4),
        ("[1,]", 3),
        ("[,1]", 1),
        ("[1 2]", 3),
        ("[1}", 2),
        ("{]", 1),
        (r#"{"x"}"#, 4),
        (r#"{"x":1,}"#, 7),
        (r#"{"x":1 "y":2}"#, 7),
        (r#"{"x":[{"y":01}]}"#, 11),
        (r#"{"x":[{"y":1]}]}"#, 12),
        ("-", 0),
        ("1.e5", 0),
        ("00", 0),
        (r#""\ud800""#, 1),
        (r#""\q""#, 1),
        ("\"\t\"", 1),
    ] {
        refused(format!(r#"{{"unknown":{value}"#).as_bytes(), 11 + offset);
    }
    let list = r#"[1,-2.5e+10,"a\u00e9\ud83d\ude00",true,false,null,{"x":[],"y":{}},[[]],1e999]"#;
    let record = format!(r#" {{ "unknown" : {list} , "a" : 1 }} "#);
    batch(&columns(), JsonOptions::default(), &[&record]);
}

#[test]
fn other_values_at_the_top_are_a_wrong_type() {
    for record in ["[]", r#"[{"a":1}]"#, "1", "null", "true", r#""text""#, "-1"] {
        let error = decoder(&columns(), JsonOptions::default()).decode(record.as_bytes()).unwrap_err();
        assert_eq!(
            (error.kind(), error.path(), error.offset()),
            (JsonErrorKind::WrongType, "", 0),
            "{record}"
        );
    }
    let error = refused(b"xyz", 0);
    assert_eq!(error.to_string(), "at byte 0: expected an object, found `xyz`");
}

#[test]
fn bytes_that_are_not_utf8() {
    for (record, offset) in [
        (&b"{\"s\":\"a\xff\"}"[..], 7),
        (b"{\"s\":\"\xc3\x28\"}", 6),
        (b"{\"s\":\"\xed\xa0\x80\"}", 6),    // a surrogate
        (b"{\"s\":\"\xc0\xaf\"}", 6),        // an overlong form
        (b"{\"unknown\":\"\xe2\x82\"}", 12), // cut off
        (b"\xff\xfe{\x00", 0),               // UTF-16
    ] {
        let error = refused(record, offset);
        assert_eq!(error.expected(), "text in UTF-8");
    }
}

#[test]
fn a_byte_order_mark_is_named() {
    let error = refused("\u{feff}{\"a\":1}".as_bytes(), 0);
    assert_eq!(
        error.to_string(),
        "at byte 0: expected an object from the first byte on, found a byte order mark"
    );
}

#[test]
fn depth_has_a_limit() {
    let nested = |depth: usize| {
        let inner = depth - 1;
        format!(r#"{{"unknown":{}{}}}"#, "[".repeat(inner), "]".repeat(inner))
    };
    let limit = MAX_DEPTH as usize;
    batch(&columns(), JsonOptions::default(), &[&nested(limit)]);
    refused(nested(limit + 1).as_bytes(), 11 + limit - 1);
    // Deep input must cost no stack.
    refused(nested(1_000_000).as_bytes(), 11 + limit - 1);
    let objects = format!("{}1{}", r#"{"x":"#.repeat(limit), "}".repeat(limit));
    batch(&columns(), JsonOptions::default(), &[&objects]);
    refused(format!("{}1{}", r#"{"x":"#.repeat(limit + 1), "}".repeat(limit + 1)).as_bytes(), 5 * limit);
}

#[test]
fn depth_counts_columns_too() {
    // Lists 130 deep: the schema allows more than a record may have.
    let mut data_type = DataType::Int64;
    for _ in 0..130 {
        data_type = DataType::List(Arc::new(Field::new("item", data_type, true)));
    }
    let schema = schema([("v", data_type, true)]);
    let mut decoder = decoder(&schema, JsonOptions::default());
    let good = format!(r#"{{"v":{}{}}}"#, "[".repeat(127), "]".repeat(127));
    decoder.decode(good.as_bytes()).unwrap();
    let deep = format!(r#"{{"v":{}{}}}"#, "[".repeat(128), "]".repeat(128));
    let error = decoder.decode(deep.as_bytes()).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (JsonErrorKind::Syntax, 5 + 127));
    decoder.decode(good.as_bytes()).unwrap();
    assert_eq!(decoder.finish().unwrap().num_rows(), 2);
}

#[test]
fn white_space_may_stand_between_all_tokens() {
    let text = " \t\r\n";
    let record = r#"_{_"a"_:_1_,_"s"_:_"x"_,_"l"_:_[_1_,_2_]_,_"u"_:_{_"k"_:_[_]_}_}_"#.replace('_', text);
    let spaced = batch(&columns(), JsonOptions::default(), &[&record]);
    let dense = batch(&columns(), JsonOptions::default(), &[r#"{"a":1,"s":"x","l":[1,2]}"#]);
    assert_eq!(spaced, dense);
}

#[test]
fn the_value_in_an_error_is_bounded() {
    let excerpt =
        |record: &str, offset| Fault::syntax(offset, "x").into_error(record.as_bytes()).value().to_owned();
    assert_eq!(excerpt(r#"{"a":"x\"y","b":1}"#, 5), r#""x\"y""#);
    assert_eq!(excerpt(r#"{"a":123,"b":1}"#, 5), "123");
    assert_eq!(excerpt(r#"{"a":123"#, 5), "123");
    assert_eq!(excerpt(r#"{"a":}"#, 5), "}");
    assert_eq!(excerpt("", 0), "");
    let long = format!(r#"{{"a":"{}"}}"#, "é".repeat(1000));
    assert_eq!(excerpt(&long, 5), format!("\"{}…", "é".repeat(39)));
    let just = format!("\"{}\"", "x".repeat(78));
    assert_eq!(excerpt(&just, 0), just);
    let error = Fault::syntax(0, "x").into_error(b"\xff\xff");
    assert_eq!(error.value(), "\u{fffd}\u{fffd}");
}
