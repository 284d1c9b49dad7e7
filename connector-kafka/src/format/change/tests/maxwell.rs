//! Maxwell: `https://maxwells-daemon.io/dataformat`.

use super::*;

fn event(kind: &str, rest: &str) -> String {
    format!(
        r#"{{"database":"test","table":"maxwell","type":"{kind}","ts":1449786310,"xid":940752,"commit":true,{rest}}}"#
    )
}

fn format() -> Changes {
    let schema = table(
        &[
            ("id!", DataType::Int64),
            ("daemon", DataType::Utf8),
            ("at", DataType::Timestamp(TimeUnit::Millisecond, None)),
            ("price", DataType::Decimal128(10, 2)),
        ],
        &["id"],
    );
    Changes::maxwell().table(schema)
}

#[test]
fn rows_and_what_happened_to_them() {
    let mut split = Split::new(&format());
    split.give(&event("bootstrap-start", r#""data":{}"#));
    split.give(&event(
        "bootstrap-insert",
        r#""data":{"id":1,"daemon":"Stanislaw Lem","at":"2015-12-10 22:25:10","price":4.10}"#,
    ));
    split.give(&event("bootstrap-complete", r#""data":{}"#));
    split.give(&event("insert", r#""data":{"id":2,"daemon":{"a":[1,2]},"at":null,"price":12345678.90}"#));
    split.give(&event("update", r#""data":{"id":1,"daemon":"firebus!  firebus!","at":null,"price":4},"old":{"daemon":"Stanislaw Lem"}"#));
    split.give(&event("update", r#""data":{"id":3,"daemon":"x","at":null,"price":4},"old":{"id":1}"#));
    split.give(&event("delete", r#""data":{"id":3,"daemon":"x"}"#));
    split.give(r#"{"database":"test","type":"database-create","sql":"create database test"}"#);
    assert_eq!(
        split.rows(),
        [
            "+I topic id=1 daemon=Stanislaw Lem at=2015-12-10T22:25:10 price=4.10",
            r#"+I topic id=2 daemon={"a":[1,2]} at=null price=12345678.90"#,
            "-U topic id=1 daemon=Stanislaw Lem at=null price=4.00",
            "+U topic id=1 daemon=firebus!  firebus! at=null price=4.00",
            "-D topic id=1 daemon=x at=null price=4.00",
            "+I topic id=3 daemon=x at=null price=4.00",
            "-D topic id=3 daemon=x at=null price=null",
        ]
    );
    assert_eq!(
        split.refused(&event("insert", r#""data":{"daemon":"x"}"#)),
        (JsonErrorKind::MissingValue, "data.id".to_owned())
    );
    assert_eq!(split.refused(&event("upsert", r#""data":{}"#)).0, JsonErrorKind::Unexpected);
}

/// Without statements in the stream and without a declared table nothing tells the columns.
#[test]
fn columns_that_nobody_told() {
    let mut split = Split::new(&Changes::maxwell().multi_table());
    match split.try_give(None, &event("insert", r#""data":{"id":1}"#)) {
        Err(Refusal::Record(error)) => {
            assert_eq!(error.kind(), JsonErrorKind::Unexpected);
            assert!(
                error.to_string().contains("test.maxwell") && error.to_string().contains("declare"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn statements_tell_the_columns() {
    let mut split = Split::new(&Changes::maxwell().multi_table());
    let def = r#"{"database":"test","charset":"utf8mb4","table":"maxwell","columns":[{"type":"int","name":"Id","signed":false},{"type":"datetime","name":"at","column-length":6},{"type":"decimal","name":"price"}],"primary-key":["Id"]}"#;
    split.give(&event("table-create", &format!(r#""def":{def},"sql":"create table maxwell (...)""#)));
    split
        .give(&event("insert", r#""data":{"id":4294967295,"at":"2020-01-01 00:00:00.000001","price":1.50}"#));
    let altered = def.replace(
        r#"{"type":"decimal","name":"price"}"#,
        r#"{"type":"decimal","name":"cost"},{"type":"json","name":"j"}"#,
    );
    let sql = "ALTER TABLE maxwell CHANGE price cost decimal(5,2), ADD j json";
    split.give(&event("table-alter", &format!(r#""old":{def},"def":{altered},"sql":"{sql}""#)));
    split.give(&event("insert", r#""data":{"id":2,"at":null,"cost":2.50,"j":{"a":1}}"#));
    split.give(&event("table-drop", r#""sql":"drop table maxwell""#));
    assert_eq!(
        split.lines(),
        [
            "create test.maxwell (id UInt32!, at Timestamp(µs), price Utf8) key (id)",
            "+I test.maxwell id=4294967295 at=2020-01-01T00:00:00.000001 price=1.50",
            "rename test.maxwell price cost",
            "add test.maxwell j Utf8",
            "+I test.maxwell id=2 at=null cost=2.50 j={\"a\":1}",
            "drop.table test.maxwell",
        ]
    );
}
