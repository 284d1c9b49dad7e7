//! One topic, many tables, each with columns that change.

use super::*;

/// A Debezium event of a table, with a schema part of these fields.
fn event(db: &str, schema: &str, table: &str, fields: &str, after: &str) -> String {
    format!(
        r#"{{"schema":{{"type":"struct","fields":[{{"type":"struct","fields":[{fields}],"optional":true,"field":"after"}}]}},"payload":{{"before":null,"after":{after},"source":{{"connector":"postgresql","db":"{db}","schema":{schema},"table":"{table}"}},"op":"c"}}}}"#
    )
}

const ID: &str = r#"{"type":"int32","optional":false,"field":"id"}"#;
const NAME: &str = r#"{"type":"string","optional":false,"field":"Name"}"#;

#[test]
fn events_go_to_their_tables() {
    let mut split = Split::new(&Changes::debezium().multi_table());
    split.give_with_key(r#"{"id":1}"#, &event("shop", "null", "Orders", ID, r#"{"id":1}"#));
    split.give(&event("shop", r#""public""#, "users", NAME, r#"{"Name":"a"}"#));
    split.give(&event("SHOP", "null", "orders", ID, r#"{"id":2}"#));
    assert_eq!(
        split.lines(),
        [
            "create shop.orders (id Int32!) key (id)",
            "+I shop.orders id=1",
            "+I shop.orders id=2",
            "create shop.public.users (name Utf8!) key ()",
            "+I shop.public.users name=a",
        ]
    );
    // The announcement came; more rows need no other one.
    split.give(&event("shop", "null", "orders", ID, r#"{"id":3}"#));
    assert_eq!(split.lines(), ["+I shop.orders id=3"]);
}

/// `cdc_multiplex_record_case_insensitive=false`: names are what they are.
#[test]
fn names_that_differ_in_case() {
    let mut split = Split::new(&Changes::debezium().multi_table().case_insensitive(false));
    split.give(&event("shop", "null", "Orders", NAME, r#"{"Name":"a"}"#));
    split.give(&event("shop", "null", "orders", NAME, r#"{"Name":"b"}"#));
    assert_eq!(
        split.lines(),
        [
            "create shop.Orders (Name Utf8!) key ()",
            "+I shop.Orders Name=a",
            "create shop.orders (Name Utf8!) key ()",
            "+I shop.orders Name=b",
        ]
    );
}

#[test]
fn columns_come_and_types_widen() {
    let registry = Arc::default();
    let format = Changes::debezium().multi_table();
    let (mut one, mut other) = (Split::beside(&format, &registry), Split::beside(&format, &registry));
    let wide = ID.replace("int32", "int64");
    let old = event("d", "null", "t", ID, r#"{"id":1}"#);
    let new = event("d", "null", "t", &format!("{wide},{NAME}"), r#"{"id":5000000000,"Name":"a"}"#);
    one.give(&old);
    other.give(&old);
    one.give(&new);
    assert_eq!(
        one.lines(),
        [
            "create d.t (id Int32!) key ()",
            "+I d.t id=1",
            "alter d.t id Int64!",
            "add d.t name Utf8",
            "+I d.t id=5000000000 name=a",
        ]
    );
    // The other partition is behind: its rows are of the table as it is now, and tell no change.
    other.give(&old).give(&new).give(&old);
    assert_eq!(
        other.lines(),
        [
            "create d.t (id Int32!) key ()",
            "+I d.t id=1",
            "+I d.t id=1 name=null",
            "+I d.t id=5000000000 name=a",
            "+I d.t id=1 name=null",
        ]
    );
    // A partition that comes later announces the table as it is.
    let mut late = Split::beside(&format, &registry);
    late.give(&old);
    assert_eq!(late.lines(), ["create d.t (id Int64!, name Utf8) key ()", "+I d.t id=1 name=null"]);
    // And one that meets a new layout first announces the table from before, and then the change.
    let mut last = Split::beside(&format, &registry);
    last.give(&event(
        "d",
        "null",
        "t",
        &format!("{wide},{}", NAME.replace("Name", "more")),
        r#"{"id":1,"more":"x"}"#,
    ));
    assert_eq!(
        last.lines(),
        ["create d.t (id Int64!, name Utf8) key ()", "add d.t more Utf8", "+I d.t id=1 name=null more=x"]
    );
}

/// B30: events of tables that are not asked for are left out; one that is and was not known is made, or refused.
#[test]
fn tables_that_are_not_asked_for() {
    let format = Changes::debezium().multi_table().include(r"db\.ord.*").unwrap();
    let mut split = Split::new(&format);
    let foreign = event("db", "null", "ttt", ID, r#"{"id":1}"#);
    assert_eq!(split.try_give(None, &foreign).unwrap(), Taken::Nothing);
    split.give(&event("DB", "null", "Orders", ID, r#"{"id":1}"#));
    assert_eq!(split.lines(), ["create db.orders (id Int32!) key ()", "+I db.orders id=1"]);
    let truncate = r#"{"op":"t","source":{"db":"db","table":"ttt"}}"#;
    assert_eq!(split.try_give(None, truncate).unwrap(), Taken::Nothing);
    assert!(split.lines().is_empty());

    let declared = table(&[("id!", DataType::Int64)], &["id"]);
    let base = Changes::debezium().multi_table().declare(TableId::new("db", "Orders"), declared);
    let event_of = |name: &str| event("db", "null", name, ID, r#"{"id":1}"#);
    let mut ignoring = Split::new(&base.clone().unknown_tables(UnknownTables::Ignore));
    assert_eq!(ignoring.try_give(None, &event_of("other")).unwrap(), Taken::Nothing);
    let mut failing = Split::new(&base.clone().unknown_tables(UnknownTables::Fail));
    assert_eq!(failing.refused(&event_of("other")).0, JsonErrorKind::Unexpected);
    let mut creating = Split::new(&base);
    for split in [&mut ignoring, &mut failing, &mut creating] {
        split.give(&event_of("ORDERS"));
        assert_eq!(split.lines(), ["create db.Orders (id Int64!) key (id)", "+I db.Orders id=1"]);
    }
    creating.give(&event_of("other"));
    assert_eq!(creating.lines(), ["create db.other (id Int32!) key ()", "+I db.other id=1"]);
    // An event without its schema, of a table that is not known, names it.
    let bare = r#"{"op":"c","after":{"id":1},"source":{"db":"db","table":"unseen"}}"#;
    let Err(Refusal::Record(error)) = creating.try_give(None, bare) else { panic!() };
    assert!(error.to_string().contains("`db.unseen`"), "{error}");
    assert_eq!(creating.refused(r#"{"op":"c","after":{"id":1},"source":{"db":"db"}}"#).1, "source.table");
}

/// Without declared columns one topic is one table; a second one in it is no row of the first.
#[test]
fn one_table_that_is_two() {
    let mut split = Split::new(&Changes::debezium());
    split.give(&event("d", "null", "a", ID, r#"{"id":1}"#));
    let refused = split.refused(&event("d", "null", "b", ID, r#"{"id":1}"#));
    assert_eq!(refused.0, JsonErrorKind::Unexpected);
    assert_eq!(split.lines(), ["create topic (id Int32!) key ()", "+I topic id=1"]);
    // Declared columns are there to be filled from any.
    let mut split = Split::new(&Changes::debezium().table(table(&[("id", DataType::Int64)], &[])));
    split.give(&event("d", "null", "a", ID, r#"{"id":1}"#)).give(&event("d", "null", "b", ID, r#"{"id":2}"#));
    assert_eq!(split.rows(), ["+I topic id=1", "+I topic id=2"]);
}

#[test]
fn columns_of_records_stand_behind_those_of_their_values() {
    use crate::format::metadata::Facts;
    let columns = MetadataColumns::new(&[MetadataColumn::Offset]).unwrap();
    let format = Changes::canal().multi_table();
    let mut decoder = ChangeDecoder::new(&format, TableId::new("", "t"), Arc::default(), columns.clone());
    let message = br#"{"data":[{"id":"1"},{"id":"2"}],"database":"d","table":"a","mysqlType":{"id":"int"},"type":"INSERT"}"#;
    let Taken::Rows(rows) = decoder.decode(None, message).unwrap() else { panic!() };
    let facts =
        Facts { topic: "t", partition: 0, offset: 7, timestamp: None, key: None, value: None, headers: &[] };
    decoder.note(&facts, rows);
    let outputs = decoder.finish().unwrap();
    assert_eq!(
        shown_change(outputs[0].announce.as_ref().unwrap()),
        "create d.a (id Int32, offset Int64!) key ()"
    );
    assert_eq!((outputs[0].rows.num_rows(), outputs[0].rows.rows().num_columns()), (2, 2));
    // A column of the value with that name ends the read.
    let clash = br#"{"data":[{"Offset":"1"}],"database":"d","table":"b","mysqlType":{"Offset":"int"},"type":"INSERT"}"#;
    let Err(Refusal::Fatal(error)) = decoder.decode(None, clash) else { panic!() };
    assert_eq!((error.kind(), error.context_value("table")), (ErrorKind::SchemaMismatch, Some("d.b")));
}

#[test]
fn a_table_declared_for_many_is_refused() {
    let error = Changes::canal().multi_table().table(id_and_v()).check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid);
    assert_eq!(Changes::canal().include("(").unwrap_err().kind(), ErrorKind::OptionInvalid);
}
