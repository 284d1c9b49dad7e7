//! Statements that change tables, as Debezium's schema topic and Canal write them.

use super::*;

fn debezium(ddl: &str, kind: &str, columns: &str) -> String {
    format!(
        r#"{{"source":{{"connector":"mysql","name":"srv","db":"inventory","table":"customers"}},"ts_ms":1,"databaseName":"inventory","schemaName":null,"ddl":"{ddl}","tableChanges":[{{"type":"{kind}","id":"\"inventory\".\"customers\"","table":{{"defaultCharsetName":"utf8mb4","primaryKeyColumnNames":["id"],"columns":[{columns}]}}}}]}}"#
    )
}

fn column(name: &str, kind: &str, length: &str, optional: bool) -> String {
    format!(
        r#"{{"name":"{name}","jdbcType":4,"nativeType":null,"typeName":"{kind}","typeExpression":"{kind}","charsetName":null,"length":{length},"scale":null,"position":1,"optional":{optional},"autoIncremented":true,"generated":true}}"#
    )
}

fn row(after: &str) -> String {
    format!(
        r#"{{"op":"c","after":{after},"source":{{"connector":"mysql","db":"inventory","table":"customers"}}}}"#
    )
}

#[test]
fn debezium_tells_whole_tables() {
    let mut split = Split::new(&Changes::debezium().multi_table());
    let id = column("id", "INT", "null", false);
    let name = column("first_name", "VARCHAR", "255", false);
    split.give(&debezium("CREATE TABLE customers (...)", "CREATE", &format!("{id},{name}")));
    split.give(&row(r#"{"id":1,"first_name":"a"}"#));
    let renamed = name.replace("first_name", "name");
    let at = column("at", "DATETIME", "6", true);
    let sql = "ALTER TABLE customers CHANGE first_name name VARCHAR(255) NOT NULL, ADD COLUMN at DATETIME(6)";
    split.give(&debezium(sql, "ALTER", &format!("{id},{renamed},{at}")));
    split.give(&row(r#"{"id":2,"name":"b","at":1712030340072229}"#));
    split.give(&debezium("ALTER TABLE customers DROP name", "ALTER", &format!("{id},{at}")));
    split.give(&debezium("DROP TABLE customers", "DROP", ""));
    assert_eq!(
        split.lines(),
        [
            "create inventory.customers (id Int32!, first_name Utf8!) key (id)",
            "+I inventory.customers id=1 first_name=a",
            "rename inventory.customers first_name name",
            "add inventory.customers at Timestamp(µs)",
            "+I inventory.customers id=2 name=b at=2024-04-02T03:59:00.072229",
            "drop inventory.customers name",
            "drop.table inventory.customers",
        ]
    );
}

/// B30: a statement before anything else was seen of its table.
#[test]
fn a_change_of_a_table_that_was_not_seen_before() {
    let mut split = Split::new(&Changes::debezium().multi_table());
    let id = column("id", "INT", "null", false);
    let columns = format!("{id},{}", column("note", "TEXT", "null", true));
    split.give(&debezium("ALTER TABLE customers ADD note TEXT", "ALTER", &columns));
    assert_eq!(
        split.lines(),
        ["create inventory.customers (id Int32!) key (id)", "add inventory.customers note Utf8"]
    );
    // Canal's message has the statement alone: the next row tells the columns.
    let mut split = Split::new(&Changes::canal().multi_table());
    let alter = r#"{"data":null,"database":"d","isDdl":true,"sql":"ALTER TABLE t ADD x int","table":"t","type":"ALTER"}"#;
    assert_eq!(split.try_give(None, alter).unwrap(), Taken::Nothing);
}

#[test]
fn canal_tells_statements() {
    let mut split = Split::new(&Changes::canal().multi_table());
    let message = |types: &str, data: &str| {
        format!(
            r#"{{"data":[{data}],"database":"d","table":"t","isDdl":false,"mysqlType":{types},"pkNames":["id"],"type":"INSERT"}}"#
        )
    };
    let statement = |kind: &str, sql: &str| {
        format!(r#"{{"data":null,"database":"d","table":"t","isDdl":true,"sql":"{sql}","type":"{kind}"}}"#)
    };
    split.give(&statement("CREATE", "create table t (id int primary key, a text)"));
    split.give(&message(r#"{"id":"int","a":"text"}"#, r#"{"id":"1","a":"x"}"#));
    split.give(&statement("ALTER", "alter table `d`.`t` rename column a to b, add c bigint after id"));
    split.give(&message(r#"{"id":"int","c":"bigint","b":"text"}"#, r#"{"id":"2","c":"3","b":"y"}"#));
    split.give(&statement("ALTER", "alter table t add index i (b)"));
    split.give(&statement("TRUNCATE", "truncate table t"));
    split.give(&statement("ERASE", "drop table t"));
    assert_eq!(
        split.lines(),
        [
            "create d.t (id Int32!, a Utf8) key (id)",
            "+I d.t id=1 a=x",
            "rename d.t a b",
            "add d.t c Int64",
            "+I d.t id=2 c=3 b=y",
            "truncate.table d.t",
            "drop.table d.t",
        ]
    );
}

/// Declared columns stay what they are.
#[test]
fn a_declared_table_is_not_changed() {
    let mut split = Split::new(&Changes::canal().table(id_and_v()));
    let alter = r#"{"database":"d","isDdl":true,"sql":"ALTER TABLE t DROP v","table":"t","type":"ALTER"}"#;
    assert_eq!(split.try_give(None, alter).unwrap(), Taken::Nothing);
    split.give(r#"{"database":"d","isDdl":true,"sql":"truncate t","table":"t","type":"TRUNCATE"}"#);
    assert_eq!(split.lines(), ["truncate.table topic"]);
}
