use crate::support::{ask, line, refused, start, start_with};

#[tokio::test]
async fn show_create_gives_back_what_was_created() {
    let double = start().await;
    double.execute("CREATE DATABASE app").unwrap();
    let create = "CREATE TABLE app.orders\n(\n    `id` UInt64,\n    `d` Date,\n    `amount` Decimal(18, 4) DEFAULT 0 COMMENT 'it\\'s',\n    \
                  `note` Nullable(String) CODEC(ZSTD(1)),\n    `ver` UInt64,\n    `day` Date MATERIALIZED toDate(d),\n    \
                  `twice` Decimal(38, 4) ALIAS amount * 2\n)\nENGINE = CnchMergeTree(ver)\nPARTITION BY d\n\
                  CLUSTER BY id INTO 4 BUCKETS\nPRIMARY KEY id\nORDER BY (id, d)\nUNIQUE KEY id\nSAMPLE BY id\n\
                  SETTINGS partition_level_unique_keys = 1, cnch_vw_write = 'vw'\nCOMMENT 'orders'";
    double.execute(create).unwrap();
    assert_eq!(line(&double, "SHOW CREATE TABLE app.orders"), create);
    double.execute("CREATE TABLE app.copy AS app.orders").unwrap();
    let copied = line(&double, "SHOW CREATE TABLE app.copy").replace("app.copy", "app.orders");
    assert_eq!(copied, create);
    double.execute("DROP TABLE app.orders").unwrap();
    double.execute(create).unwrap();
}

#[tokio::test]
async fn describe_exists_show() {
    let double = start_with(&[
        "CREATE DATABASE IF NOT EXISTS app",
        "CREATE TABLE app.t (a UInt8, b String DEFAULT 'x' COMMENT 'c') ENGINE = MergeTree ORDER BY a",
        "CREATE TABLE IF NOT EXISTS app.t (z UInt8) ENGINE = Memory",
    ])
    .await;
    assert_eq!(
        ask(&double, "DESCRIBE TABLE app.t"),
        [["a", "UInt8", "", "", "", "", ""], ["b", "String", "DEFAULT", "'x'", "c", "", ""]]
    );
    assert_eq!(ask(&double, "DESC app.t").len(), 2);
    assert_eq!(line(&double, "EXISTS TABLE app.t"), "1");
    assert_eq!(line(&double, "EXISTS app.u"), "0");
    assert_eq!(line(&double, "EXISTS DATABASE app"), "1");
    assert_eq!(ask(&double, "SHOW TABLES FROM app"), [["t"]]);
    assert_eq!(ask(&double, "SHOW TABLES FROM app LIKE 'x%'").len(), 0);
    assert_eq!(ask(&double, "SHOW DATABASES"), [["app"], ["default"], ["system"]]);
    double.execute("DROP TABLE IF EXISTS app.u").unwrap();
    double.execute("RENAME TABLE app.t TO app.u").unwrap();
    assert_eq!(ask(&double, "SHOW TABLES FROM app"), [["u"]]);
    double.execute("DROP DATABASE app").unwrap();
    assert_eq!(refused(&double, "SHOW TABLES FROM app"), 81);
}

#[tokio::test]
async fn what_a_table_may_not_be() {
    let double = start_with(&["CREATE TABLE taken (a UInt8) ENGINE = Memory"]).await;
    for (sql, code) in [
        ("CREATE TABLE taken (a UInt8) ENGINE = Memory", 57),
        ("CREATE TABLE nowhere.t (a UInt8) ENGINE = Memory", 81),
        ("CREATE DATABASE default", 82),
        ("CREATE TABLE t (a UInt8)", 119),
        ("CREATE TABLE t (a UInt8) ENGINE = Kafka", 56),
        ("CREATE TABLE t (a UInt8) ENGINE = CnchMergeTree", 36),
        ("CREATE TABLE t (a Strange) ENGINE = Memory", 50),
        ("CREATE TABLE t (a UInt8, a UInt8) ENGINE = Memory", 44),
        ("CREATE TABLE t (a UInt8) ENGINE = CnchMergeTree ORDER BY b", 47),
        ("CREATE TABLE t (a Nullable(UInt8)) ENGINE = CnchMergeTree ORDER BY a", 44),
        ("CREATE TABLE t (a UInt8, b UInt8) ENGINE = MergeTree ORDER BY a PRIMARY KEY b", 36),
        ("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a UNIQUE KEY a", 36),
        ("CREATE TABLE t (a UInt8) ENGINE = Memory ORDER BY a", 36),
        ("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS no_such_thing = 1", 115),
        ("CREATE TABLE t (a UInt8, _delete_flag_ UInt8) ENGINE = CnchMergeTree ORDER BY a UNIQUE KEY a", 44),
        ("CREATE TABLE t (a UInt8, n Nullable(UInt8)) ENGINE = CnchMergeTree ORDER BY a UNIQUE KEY n", 44),
        ("CREATE TABLE t (a UInt8, f Float64) ENGINE = CnchMergeTree ORDER BY a UNIQUE KEY f", 44),
        ("CREATE TABLE t (a UInt8, v Int64) ENGINE = CnchMergeTree(v) ORDER BY a UNIQUE KEY a", 36),
        ("CREATE TABLE t (a UInt8, v UInt8) ENGINE = ReplacingMergeTree(w) ORDER BY a", 16),
        ("CREATE TABLE t (a UInt8, v UInt8, d UInt16) ENGINE = ReplacingMergeTree(v, d) ORDER BY a", 36),
        ("CREATE TABLE t (a UInt8, b String DEFAULT unknown(1)) ENGINE = Memory", 46),
        ("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a SAMPLE BY toString(a)", 43),
        ("CREATE TABLE t AS nothing", 60),
        ("SHOW CREATE TABLE nothing", 60),
        ("DROP TABLE nothing", 60),
        ("TRUNCATE TABLE nothing", 60),
    ] {
        assert_eq!(refused(&double, sql), code, "{sql}");
    }
    double.execute("CREATE TABLE t (a Nullable(UInt8)) ENGINE = CnchMergeTree ORDER BY a SETTINGS allow_nullable_key = 1").unwrap();
}

#[tokio::test]
async fn alter_rewrites_the_rows() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, a String) ENGINE = CnchMergeTree ORDER BY id",
        "INSERT INTO t VALUES (1, '10'), (2, '20')",
        "ALTER TABLE t ADD COLUMN b UInt8 DEFAULT id * 2 AFTER id, ADD COLUMN c Nullable(String)",
        "ALTER TABLE t MODIFY COLUMN a UInt32, RENAME COLUMN a TO aa",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS b UInt8, DROP COLUMN IF EXISTS zz, COMMENT COLUMN b 'note'",
    ])
    .await;
    assert_eq!(ask(&double, "SELECT * FROM t ORDER BY id"), [["1", "2", "10", ""], ["2", "4", "20", ""]]);
    assert_eq!(
        ask(&double, "SELECT name, type, comment FROM system.columns WHERE table = 't' ORDER BY position"),
        [["id", "UInt64", ""], ["b", "UInt8", "note"], ["aa", "UInt32", ""], ["c", "Nullable(String)", ""]]
    );
    for (sql, code) in [
        ("ALTER TABLE t ADD COLUMN b UInt8", 15),
        ("ALTER TABLE t DROP COLUMN zz", 16),
        ("ALTER TABLE t DROP COLUMN id", 524),
        ("ALTER TABLE t MODIFY COLUMN id UInt32", 524),
        ("ALTER TABLE t RENAME COLUMN id TO x", 524),
        ("ALTER TABLE t RENAME COLUMN aa TO b", 15),
        ("ALTER TABLE t MODIFY SETTING partition_level_unique_keys = 0", 36),
        ("ALTER TABLE t ATTACH PARTITION 1 FROM u", 60),
    ] {
        assert_eq!(refused(&double, sql), code, "{sql}");
    }
    double.execute("ALTER TABLE t DROP COLUMN c").unwrap();
    assert_eq!(ask(&double, "SELECT * FROM t WHERE id = 1"), [["1", "2", "10"]]);
}

#[tokio::test]
async fn names_of_any_kind() {
    let names = ["my-key", "from", "a.b", "订单", "tick`", "quo'te", "back\\slash", "😀", "select"];
    let double = start().await;
    let quote = |name: &str| format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"));
    for name in names {
        let quoted = quote(name);
        double.execute(&format!("CREATE DATABASE {quoted}")).unwrap();
        double
            .execute(&format!(
                "CREATE TABLE {quoted}.{quoted} ({quoted} UInt8, v String) ENGINE = CnchMergeTree ORDER BY {quoted} \
                 UNIQUE KEY {quoted}"
            ))
            .unwrap();
        let create = line(&double, &format!("SHOW CREATE TABLE {quoted}.{quoted}"));
        double.execute(&format!("DROP TABLE {quoted}.{quoted}")).unwrap();
        double.execute(&create).unwrap_or_else(|e| panic!("{create}: {e}"));
        double.execute(&format!("INSERT INTO {quoted}.{quoted} ({quoted}, v) VALUES (7, 'x')")).unwrap();
        assert_eq!(
            line(&double, &format!("SELECT {quoted}, v FROM {quoted}.{quoted} WHERE {quoted} = 7")),
            "7 x"
        );
        assert_eq!(double.table(&format!("{quoted}.{quoted}")).unwrap().num_rows(), 1);
    }
}

#[tokio::test]
async fn partitions_move_are_copied_and_replaced() {
    let double = start_with(&[
        "CREATE TABLE c (d UInt8, v UInt8) ENGINE = CnchMergeTree PARTITION BY d ORDER BY v",
        "CREATE TABLE c2 AS c",
        "CREATE TABLE m (d UInt8, v UInt8) ENGINE = MergeTree PARTITION BY d ORDER BY v",
        "CREATE TABLE m2 AS m",
        "INSERT INTO c2 VALUES (1, 1), (2, 2)",
        "INSERT INTO c VALUES (1, 10)",
        "INSERT INTO m2 VALUES (1, 1), (2, 2)",
        "INSERT INTO m VALUES (1, 10)",
        "ALTER TABLE c ATTACH PARTITION ID '1' FROM c2",
        "ALTER TABLE m ATTACH PARTITION 1 FROM m2",
    ])
    .await;
    let rows = |table: &str| ask(&double, &format!("SELECT d, v FROM {table} ORDER BY d, v"));
    assert_eq!(rows("c"), [["1", "1"], ["1", "10"]], "CNCH adds");
    assert_eq!(rows("c2"), [["2", "2"]], "and moves");
    assert_eq!(rows("m"), [["1", "1"], ["1", "10"]]);
    assert_eq!(rows("m2"), [["1", "1"], ["2", "2"]], "ClickHouse copies");
    double.execute("ALTER TABLE m REPLACE PARTITION 1 FROM m2").unwrap();
    assert_eq!(rows("m"), [["1", "1"]]);
    double.execute("ALTER TABLE m2 MOVE PARTITION 2 TO TABLE m").unwrap();
    assert_eq!((rows("m").len(), rows("m2").len()), (2, 1));
    double.execute("ALTER TABLE c REPLACE PARTITION ID '2' FROM c2").unwrap();
    double.execute("ALTER TABLE c DROP PARTITION ID '1'").unwrap();
    assert_eq!(rows("c"), [["2", "2"]]);
    double.execute("CREATE TABLE other (d UInt8) ENGINE = MergeTree PARTITION BY d ORDER BY d").unwrap();
    for (sql, code) in [
        ("ALTER TABLE m ATTACH PARTITION 1 FROM other", 122),
        ("ALTER TABLE c MOVE PARTITION 2 TO TABLE c2", 62),
        ("ALTER TABLE m ATTACH DETACHED PARTITION 1 FROM m2", 62),
    ] {
        assert_eq!(refused(&double, sql), code, "{sql}");
    }
}

#[tokio::test]
async fn detached_partitions_of_unique_tables_go_through_the_key() {
    let double = start_with(&[
        "CREATE TABLE u (id UInt8, v UInt8) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id",
        "CREATE TABLE u2 AS u",
        "INSERT INTO u VALUES (1, 1), (2, 2)",
        "INSERT INTO u2 VALUES (2, 20), (3, 30)",
    ])
    .await;
    assert_eq!(refused(&double, "ALTER TABLE u ATTACH PARTITION ID 'all' FROM u2"), 48);
    assert_eq!(refused(&double, "ALTER TABLE u REPLACE PARTITION ID 'all' FROM u2"), 48);
    double.execute("ALTER TABLE u2 DETACH PARTITION ID 'all'").unwrap();
    assert_eq!(ask(&double, "SELECT id FROM u2").len(), 0);
    assert_eq!(line(&double, "SELECT name FROM system.cnch_detached_parts WHERE table = 'u2'"), "all_1_1_0");
    double.execute("ALTER TABLE u ATTACH DETACHED PARTITION ID 'all' FROM u2").unwrap();
    assert_eq!(ask(&double, "SELECT id, v FROM u ORDER BY id"), [["1", "1"], ["2", "20"], ["3", "30"]]);
    assert_eq!(ask(&double, "SELECT name FROM system.cnch_detached_parts").len(), 0);
    double.execute("ALTER TABLE u DETACH PARTITION tuple()").unwrap();
    double.execute("ALTER TABLE u ATTACH PARTITION tuple()").unwrap();
    assert_eq!(ask(&double, "SELECT id FROM u").len(), 3);
}
