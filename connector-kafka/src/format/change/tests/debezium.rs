//! Debezium: `https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-events`.

use super::*;
use crate::format::{DecimalText, UnavailableValue};

/// A payload with these rows.
fn payload(op: &str, before: &str, after: &str) -> String {
    format!(
        r#"{{"before":{before},"after":{after},"source":{{"version":"2.7.0.Final","connector":"mysql","name":"srv","ts_ms":1589362330904,"snapshot":"false","db":"shop","sequence":null,"table":"orders","server_id":223344,"file":"mysql-bin.000003","pos":154,"row":0,"query":null}},"op":"{op}","ts_ms":1589362330904,"transaction":null}}"#
    )
}

/// The same with a schema part of these fields.
fn enveloped(fields: &str, op: &str, before: &str, after: &str) -> String {
    let row = |field: &str| {
        format!(
            r#"{{"type":"struct","fields":[{fields}],"optional":true,"name":"srv.shop.orders.Value","field":"{field}"}}"#
        )
    };
    format!(
        r#"{{"schema":{{"type":"struct","fields":[{},{},{{"type":"string","optional":false,"field":"op"}}],"optional":false,"name":"srv.shop.orders.Envelope"}},"payload":{}}}"#,
        row("before"),
        row("after"),
        payload(op, before, after)
    )
}

const ID_AND_V: &str =
    r#"{"type":"int64","optional":false,"field":"id"},{"type":"string","optional":true,"field":"v"}"#;

/// B03: with and without the schema part, also mixed; every operation.
#[test]
fn both_shapes_and_every_operation() {
    let format = Changes::debezium().table(id_and_v());
    let expected = [
        "+I topic id=1 v=a",
        "+I topic id=2 v=b",
        "-U topic id=1 v=a",
        "+U topic id=1 v=c",
        "-D topic id=1 v=c",
    ];
    let events = [
        ("c", "null", r#"{"id":1,"v":"a"}"#),
        ("r", "null", r#"{"id":2,"v":"b"}"#),
        ("u", r#"{"id":1,"v":"a"}"#, r#"{"id":1,"v":"c"}"#),
        ("d", r#"{"id":1,"v":"c"}"#, "null"),
    ];
    let bare = |(op, before, after): (&str, &str, &str)| payload(op, before, after);
    let whole = |(op, before, after): (&str, &str, &str)| enveloped(ID_AND_V, op, before, after);
    let (mut one, mut other, mut mixed) = (Split::new(&format), Split::new(&format), Split::new(&format));
    for (at, event) in events.into_iter().enumerate() {
        one.give(&bare(event));
        other.give(&whole(event));
        mixed.give(&if at % 2 == 0 { bare(event) } else { whole(event) });
    }
    for split in [&mut one, &mut other, &mut mixed] {
        assert_eq!(split.rows(), expected);
    }
    // A message of Debezium's and the null payload that follows a deletion are no rows.
    assert_eq!(one.try_give(None, &payload("m", "null", "null")).unwrap(), Taken::Nothing);
    assert_eq!(one.try_give(None, r#"{"schema":null,"payload":null}"#).unwrap(), Taken::Nothing);
    one.give(&payload("c", "null", r#"{"id":3,"v":"x"}"#)).give(&payload("t", "null", "null"));
    assert_eq!(one.lines(), ["+I topic id=3 v=x", "truncate.table topic"]);
    assert_eq!(one.refused(r#"{"id":1,"v":"a"}"#).0, JsonErrorKind::Unexpected);
    assert_eq!(one.refused(&payload("x", "null", "null")), (JsonErrorKind::Unexpected, "op".to_owned()));
    assert_eq!(one.refused(&payload("c", "null", "null")), (JsonErrorKind::MissingValue, "after".to_owned()));
    assert_eq!(one.refused("").0, JsonErrorKind::Syntax);
    assert_eq!(one.refused("{\"op\":\"c\",\"after\":{\"id\":1}").0, JsonErrorKind::Syntax);
}

/// A plain table that has columns of these names is no envelope where the format does not say Debezium.
#[test]
fn a_plain_table_is_not_taken_for_an_envelope() {
    let schema = table(&[("schema", DataType::Utf8), ("payload", DataType::Utf8)], &[]);
    let mut decoder = crate::format::Json::with_table_schema(schema).decoder().unwrap();
    decoder.decode(br#"{"schema":"public","payload":"{}"}"#).unwrap();
    assert_eq!(decoder.finish().unwrap().num_rows(), 1);
}

/// B04: updates without a row of before, deletions with the key alone.
#[test]
fn rows_without_their_before() {
    let schema = table(&[("id!", DataType::Int64), ("v", DataType::Utf8), ("n!", DataType::Int32)], &["id"]);
    let mut split = Split::new(&Changes::debezium().table(schema.clone()));
    split.give(&payload("u", "null", r#"{"id":1,"v":"b","n":5}"#));
    split.give(&payload("d", r#"{"id":1}"#, "null"));
    split.give(&payload("d", r#"{"id":2,"v":null,"n":null}"#, "null"));
    split.give_with_key(r#"{"id":3}"#, &payload("d", "null", "null"));
    split.give_with_key(
        r#"{"schema":{"type":"struct","fields":[{"type":"int64","field":"id"}]},"payload":{"id":4}}"#,
        &payload("d", "null", "null"),
    );
    assert_eq!(
        split.rows(),
        [
            "+U topic id=1 v=b n=5",
            "-D topic id=1 v=null n=0",
            "-D topic id=2 v=null n=0",
            "-D topic id=3 v=null n=0",
            "-D topic id=4 v=null n=0",
        ]
    );
    assert_eq!(
        split.refused(&payload("d", "null", "null")),
        (JsonErrorKind::MissingValue, "before".to_owned())
    );
    assert_eq!(
        split.refused(&payload("u", "null", r#"{"id":1,"v":"b","n":null}"#)),
        (JsonErrorKind::MissingValue, "after.n".to_owned()),
        "a row of after has to be whole"
    );
    // Without rows of before an update is its row of after.
    let mut upserts = Split::new(&Changes::debezium().table(schema).before_images(false));
    upserts.give(&payload("u", r#"{"id":1,"v":"a","n":4}"#, r#"{"id":1,"v":"b","n":5}"#));
    assert_eq!(upserts.rows(), ["+U topic id=1 v=b n=5"]);
}

/// A change of a key comes as two events.
#[test]
fn a_change_of_the_key() {
    let mut split = Split::new(&Changes::debezium().table(id_and_v()));
    split.give(&payload("d", r#"{"id":1,"v":"a"}"#, "null")).give(&payload(
        "c",
        "null",
        r#"{"id":2,"v":"a"}"#,
    ));
    assert_eq!(split.rows(), ["-D topic id=1 v=a", "+I topic id=2 v=a"]);
}

fn decimal_field(name: &str, scale: u8) -> String {
    format!(
        r#"{{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{{"scale":"{scale}","connect.decimal.precision":"10"}},"field":"{name}"}}"#
    )
}

/// B01: decimals in base64.
#[test]
fn precise_decimals() {
    let fields = format!("{},{}", decimal_field("two", 2), decimal_field("four", 4));
    let mut split = Split::new(&Changes::debezium());
    for (two, four) in [("Dzw=", "CSo="), ("ASw=", "AA=="), ("AA==", "/w=="), ("/w==", "CSo=")] {
        split.give(&enveloped(&fields, "c", "null", &format!(r#"{{"two":"{two}","four":"{four}"}}"#)));
    }
    assert_eq!(
        split.lines(),
        [
            "create topic (two Decimal128(10, 2), four Decimal128(10, 4)) key ()",
            "+I topic two=39.00 four=0.2346",
            "+I topic two=3.00 four=0.0000",
            "+I topic two=0.00 four=-0.0001",
            "+I topic two=-0.01 four=0.2346",
        ]
    );
    // A declared column has its own scale: the value is the same, or refused.
    let declared = table(&[("two", DataType::Decimal128(18, 4)), ("four", DataType::Decimal128(18, 2))], &[]);
    let mut split = Split::new(&Changes::debezium().table(declared));
    // 0x2774 is 10100.
    split.give(&enveloped(&fields, "c", "null", r#"{"two":"Dzw=","four":"J3Q="}"#));
    assert_eq!(split.rows(), ["+I topic two=39.0000 four=1.01"]);
    let finer = enveloped(&fields, "c", "null", r#"{"two":"Dzw=","four":"J3U="}"#);
    assert_eq!(split.refused(&finer), (JsonErrorKind::Inexact, "after.four".to_owned()));
}

/// Without the schema part the text is a number, or base64 where that is said; it is never taken for what it is not.
#[test]
fn decimals_without_their_schema() {
    let declared = table(&[("d", DataType::Decimal128(10, 2))], &[]);
    let mut digits = Split::new(&Changes::debezium().table(declared.clone()));
    digits.give(&payload("c", "null", r#"{"d":"12.5"}"#)).give(&payload("c", "null", r#"{"d":7}"#));
    assert_eq!(digits.rows(), ["+I topic d=12.50", "+I topic d=7.00"]);
    let base64 = payload("c", "null", r#"{"d":"Dzw="}"#);
    assert_eq!(digits.refused(&base64), (JsonErrorKind::InvalidText, "after.d".to_owned()));
    let format = Changes::debezium().table(declared).json_options(|o| o.decimal_text = DecimalText::Base64);
    assert_eq!(Split::new(&format).give(&base64).rows(), ["+I topic d=39.00"]);
}

#[test]
fn decimals_of_any_scale() {
    let field = r#"{"type":"struct","optional":true,"name":"io.debezium.data.VariableScaleDecimal","fields":[{"type":"int32","optional":false,"field":"scale"},{"type":"bytes","optional":false,"field":"value"}],"field":"n"}"#;
    let event = |n: &str| enveloped(field, "c", "null", &format!(r#"{{"n":{n}}}"#));
    let values = [
        r#"{"scale":2,"value":"AMjM"}"#,
        r#"{"value":"/w==","scale":0}"#,
        r#"{"scale":-2,"value":"BQ=="}"#,
        "null",
    ];
    // Text holds every one of them.
    let mut derived = Split::new(&Changes::debezium());
    for n in values {
        derived.give(&event(n));
    }
    assert_eq!(derived.rows(), ["+I topic n=514.04", "+I topic n=-1", "+I topic n=500", "+I topic n=null"]);
    let declared = Changes::debezium().table(table(&[("n", DataType::Decimal128(20, 3))], &[]));
    let mut declared = Split::new(&declared);
    for n in values {
        declared.give(&event(n));
    }
    assert_eq!(
        declared.rows(),
        ["+I topic n=514.040", "+I topic n=-1.000", "+I topic n=500.000", "+I topic n=null"]
    );
    for (n, kind) in [
        (r#"{"scale":4,"value":"AQ=="}"#, JsonErrorKind::Inexact),
        (r#"{"scale":2}"#, JsonErrorKind::MissingValue),
        (r#"{"scale":2000000000,"value":"AQ=="}"#, JsonErrorKind::OutOfRange),
        (r#"{"scale":2,"value":"?"}"#, JsonErrorKind::InvalidText),
        ("5", JsonErrorKind::WrongType),
    ] {
        assert_eq!(declared.refused(&event(n)), (kind, "after.n".to_owned()), "{n}");
    }
}

fn time_field(kind: &str, name: &str) -> String {
    let data_type = match kind.rsplit('.').next() {
        Some("Date" | "Time" | "Year") => "int32",
        Some("ZonedTimestamp" | "ZonedTime") => "string",
        _ => "int64",
    };
    format!(r#"{{"type":"{data_type}","optional":true,"name":"{kind}","version":1,"field":"{name}"}}"#)
}

/// Every temporal type, into the column that it makes.
#[test]
fn times_by_their_type() {
    for (kind, value, column, shown) in [
        ("io.debezium.time.Date", "19815", "Date32", "2024-04-02"),
        ("org.apache.kafka.connect.data.Date", "-1", "Date32", "1969-12-31"),
        ("io.debezium.time.Time", "14340072", "Time32(ms)", "03:59:00.072"),
        ("org.apache.kafka.connect.data.Time", "14340072", "Time32(ms)", "03:59:00.072"),
        ("io.debezium.time.MicroTime", "14340072229", "Time64(µs)", "03:59:00.072229"),
        ("io.debezium.time.NanoTime", "14340072229523", "Time64(ns)", "03:59:00.072229523"),
        ("io.debezium.time.Timestamp", "1712030340072", "Timestamp(ms)", "2024-04-02T03:59:00.072"),
        ("org.apache.kafka.connect.data.Timestamp", "-1", "Timestamp(ms)", "1969-12-31T23:59:59.999"),
        (
            "io.debezium.time.MicroTimestamp",
            "1712030340072229",
            "Timestamp(µs)",
            "2024-04-02T03:59:00.072229",
        ),
        (
            "io.debezium.time.NanoTimestamp",
            "1712030340072229523",
            "Timestamp(ns)",
            "2024-04-02T03:59:00.072229523",
        ),
        (
            "io.debezium.time.ZonedTimestamp",
            "\"2024-04-02T11:59:00.072229+08:00\"",
            "Timestamp(µs, \"UTC\")",
            "2024-04-02T03:59:00.072229Z",
        ),
        ("io.debezium.time.ZonedTime", "\"03:59:00Z\"", "Utf8", "03:59:00Z"),
        ("io.debezium.time.Year", "2024", "Int32", "2024"),
    ] {
        let mut split = Split::new(&Changes::debezium());
        split.give(&enveloped(&time_field(kind, "t"), "c", "null", &format!(r#"{{"t":{value}}}"#)));
        assert_eq!(
            split.lines(),
            [format!("create topic (t {column}) key ()"), format!("+I topic t={shown}")],
            "{kind}"
        );
    }
}

/// B15: the same instant in every declared column, cut toward the past only where that is said.
#[test]
fn times_in_columns_of_any_unit() {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let kinds = [
        ("io.debezium.time.Timestamp", "1712030340072", "-1"),
        ("io.debezium.time.MicroTimestamp", "1712030340072229", "-1000"),
        ("io.debezium.time.NanoTimestamp", "1712030340072229523", "-1000000"),
    ];
    for (digits, unit) in [(0, Second), (3, Millisecond), (6, Microsecond), (9, Nanosecond)] {
        for (at, (kind, value, before_1970)) in kinds.into_iter().enumerate() {
            let declared = table(&[("t", DataType::Timestamp(unit, None))], &[]);
            let event =
                |value: &str| enveloped(&time_field(kind, "t"), "c", "null", &format!(r#"{{"t":{value}}}"#));
            let format = Changes::debezium().table(declared).json_options(|o| o.truncate_time = true);
            let mut split = Split::new(&format);
            split.give(&event(value)).give(&event(before_1970));
            let fraction = &"072229523"[..digits.min(3 * (at + 1))];
            let shown = |whole: &str, fraction: &str| {
                let zeros = fraction.bytes().all(|b| b == b'0');
                if zeros { whole.to_owned() } else { format!("{whole}.{}", &fraction[..fraction.len()]) }
            };
            let later = shown("2024-04-02T03:59:00", fraction);
            let earlier = if digits == 0 {
                "1969-12-31T23:59:59".to_owned()
            } else {
                "1969-12-31T23:59:59.999".to_owned()
            };
            assert_eq!(
                split.rows(),
                [format!("+I topic t={later}"), format!("+I topic t={earlier}")],
                "{kind} {unit:?}"
            );
            if digits < 3 * (at + 1) {
                let strict = Changes::debezium().table(table(&[("t", DataType::Timestamp(unit, None))], &[]));
                assert_eq!(
                    Split::new(&strict).refused(&event(value)).0,
                    JsonErrorKind::Inexact,
                    "{kind} {unit:?}"
                );
            }
        }
    }
    // A time on a wall is that of the job's zone where the column is an instant.
    let declared = table(&[("t", DataType::Timestamp(Millisecond, Some("UTC".into())))], &[]);
    let zone = TimeZone::get("Asia/Shanghai").unwrap();
    let mut split = Split::new(&Changes::debezium().table(declared).time_zone(zone));
    split.give(&enveloped(
        &time_field("io.debezium.time.Timestamp", "t"),
        "c",
        "null",
        r#"{"t":1712030340072}"#,
    ));
    assert_eq!(split.rows(), ["+I topic t=2024-04-01T19:59:00.072Z"]);
}

/// A column that cannot hold a type ends the read, and says why.
#[test]
fn a_column_of_another_kind_is_no_bad_record() {
    let declared = table(&[("t", DataType::Boolean)], &[]);
    let mut split = Split::new(&Changes::debezium().table(declared));
    let event = enveloped(&time_field("io.debezium.time.Timestamp", "t"), "c", "null", r#"{"t":1}"#);
    let Err(Refusal::Fatal(error)) = split.try_give(None, &event) else { panic!() };
    assert_eq!((error.kind(), error.context_value("column")), (ErrorKind::Unsupported, Some("t")));
}

/// B06: a value that Debezium does not have never reaches the table.
#[test]
fn placeholders_are_no_values() {
    let texts = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    let schema = table(
        &[("id!", DataType::Int64), ("t", DataType::Utf8), ("b", DataType::Binary), ("l", texts)],
        &["id"],
    );
    let whole = format!(r#"{{"id":1,"t":"{}","b":"AAE=","l":["x"]}}"#, "x".repeat(20_000));
    let absent = [
        ("t", r#"{"id":1,"t":"__debezium_unavailable_value","b":"AAE=","l":["x"]}"#),
        // Base64 of the placeholder.
        ("b", r#"{"id":1,"t":"x","b":"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==","l":["x"]}"#),
        ("l", r#"{"id":1,"t":"x","b":"AAE=","l":["__debezium_unavailable_value"]}"#),
    ];
    let mut strict = Split::new(&Changes::debezium().table(schema.clone()));
    strict.give(&payload("c", "null", &whole));
    for (column, after) in absent {
        let refused = strict.refused(&payload("u", "null", after));
        assert_eq!(refused, (JsonErrorKind::Unavailable, format!("after.{column}")));
    }
    assert_eq!(strict.rows().len(), 1);
    let format =
        Changes::debezium().table(schema.clone()).unavailable(UNAVAILABLE_VALUE, UnavailableValue::Null);
    let mut lenient = Split::new(&format);
    for (_, after) in absent {
        lenient.give(&payload("u", "null", after));
    }
    lenient.give(&payload("u", "null", r#"{"id":2,"t":"y","b":"AAE=","l":["x","y"]}"#));
    assert_eq!(
        lenient.rows(),
        [
            "+U topic id=1 t=null b=0001 l=[x]",
            "+U topic id=1 t=x b=null l=[x]",
            "+U topic id=1 t=x b=0001 l=null",
            "+U topic id=2 t=y b=0001 l=[x, y]",
        ]
    );
    // In a row of which only the key counts it is nothing.
    strict.give(&payload("d", absent[0].1, "null"));
    assert_eq!(strict.rows(), ["-D topic id=1 t=null b=0001 l=[x]"]);
    // Another placeholder, and then the usual one is a text like any other.
    let custom = Changes::debezium().table(schema).unavailable("<toast>", UnavailableValue::Fail);
    let mut custom = Split::new(&custom);
    assert_eq!(
        custom.refused(&payload("u", "null", r#"{"id":1,"t":"<toast>"}"#)).0,
        JsonErrorKind::Unavailable
    );
    custom.give(&payload("u", "null", absent[0].1));
    assert_eq!(custom.rows().len(), 1);
}

/// B07: the rules for duplicates and numbers hold in the rows of events too.
#[test]
fn duplicate_keys_and_bad_numbers() {
    let schema = table(&[("id!", DataType::Int64), ("f", DataType::Float64)], &["id"]);
    let mut split = Split::new(&Changes::debezium().table(schema));
    split.give(&payload("c", "null", r#"{"id":1,"f":1.5}"#));
    for (after, kind) in [
        (r#"{"id":1,"id":2}"#, JsonErrorKind::DuplicateKey),
        (r#"{"id":1,"ID":2}"#, JsonErrorKind::DuplicateKey),
        (r#"{"id":1,"x":{"a":1},"x":2}"#, JsonErrorKind::DuplicateKey),
        (r#"{"id":1,"f":1e999}"#, JsonErrorKind::OutOfRange),
        (r#"{"id":1,"f":NaN}"#, JsonErrorKind::Syntax),
    ] {
        assert_eq!(split.refused(&payload("c", "null", after)).0, kind, "{after}");
    }
    split.give(&payload("c", "null", r#"{"id":2,"f":"NaN"}"#));
    assert_eq!(split.rows(), ["+I topic id=1 f=1.5", "+I topic id=2 f=NaN"]);
}

/// Other types of columns: unsigned numbers, JSON, bytes, maps and points.
#[test]
fn columns_of_other_types() {
    let fields = concat!(
        r#"{"type":"boolean","optional":false,"field":"ok"},"#,
        r#"{"type":"float","optional":true,"field":"f"},{"type":"double","optional":true,"field":"d"},"#,
        r#"{"type":"bytes","optional":true,"name":"io.debezium.data.Bits","parameters":{"length":"9"},"field":"bits"},"#,
        r#"{"type":"string","optional":true,"name":"io.debezium.data.Json","field":"j"},"#,
        r#"{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"int32","optional":true},"optional":true,"field":"m"},"#,
        r#"{"type":"struct","optional":true,"name":"io.debezium.data.geometry.Point","fields":[{"type":"double","optional":false,"field":"x"},{"type":"double","optional":false,"field":"y"}],"field":"p"}"#
    );
    let mut split = Split::new(&Changes::debezium());
    let after = r#"{"ok":true,"f":1.5,"d":2.5,"bits":"AQE=","j":"{\"a\": 1}","m":{"a":1},"p":{"x":1.0,"y":2.0,"wkb":"AQ==","srid":null}}"#;
    split.give(&enveloped(fields, "c", "null", after));
    assert_eq!(
        split.rows(),
        [r#"+I topic ok=true f=1.5 d=2.5 bits=0101 j={"a": 1} m={a: 1} p={x: 1.0, y: 2.0}"#]
    );
}
