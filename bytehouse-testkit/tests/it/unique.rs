use std::sync::Arc;

use connector_bytehouse_common::wire::Settings;
use connector_core::arrow::array::{ArrayRef, StringArray, UInt8Array, UInt64Array};

use crate::support::{ask, batch, client, code, insert, line, refused, start_with};

#[tokio::test]
async fn an_insert_is_an_upsert_and_the_last_row_of_a_block_wins() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, s String) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (1, 'c')",
    ])
    .await;
    assert_eq!(ask(&double, "SELECT id, s FROM t ORDER BY id"), [["1", "c"], ["2", "b"]]);
    double.execute("INSERT INTO t VALUES (2, 'd'), (3, 'e')").unwrap();
    assert_eq!(ask(&double, "SELECT id, s FROM t FINAL ORDER BY id"), [["1", "c"], ["2", "d"], ["3", "e"]]);
    assert_eq!(double.table("default.t").unwrap().num_rows(), 3);
}

#[tokio::test]
async fn deletes_by_the_hidden_column() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, s String, n Nullable(UInt8)) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id",
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
    ])
    .await;
    // Key columns are enough; any number but 0 deletes; a key that is not there is no error.
    double.execute("INSERT INTO t (id, _delete_flag_) VALUES (1, 1), (2, 200), (9, 1)").unwrap();
    assert_eq!(ask(&double, "SELECT id FROM t"), [["3"]]);
    // Order inside a block decides.
    double
        .execute(
            "INSERT INTO t (id, s, _delete_flag_) VALUES (3, 'x', 1), (3, 'y', 0), (4, 'z', 0), (4, '', 1)",
        )
        .unwrap();
    assert_eq!(ask(&double, "SELECT id, s FROM t"), [["3", "y"]]);
    assert_eq!(refused(&double, "SELECT _delete_flag_ FROM t"), 47);
    assert_eq!(refused(&double, "SELECT id FROM t WHERE _delete_flag_ = 0"), 47);
    let mut client = client(&double).await;
    let rows = batch(vec![
        ("id", Arc::new(UInt64Array::from(vec![3, 5])) as ArrayRef),
        ("s", Arc::new(StringArray::from(vec!["", "five"]))),
        ("_delete_flag_", Arc::new(UInt8Array::from(vec![1, 0]))),
    ]);
    let stream = client
        .begin_insert("INSERT INTO t (id, s, _delete_flag_) VALUES", &Settings::new(), None)
        .await
        .unwrap();
    let columns: Vec<_> =
        stream.columns().iter().map(|c| (c.name.clone(), c.type_text().to_owned())).collect();
    assert_eq!(columns[2], ("_delete_flag_".to_owned(), "UInt8".to_owned()));
    stream.abort().await;
    let mut client = crate::support::client(&double).await;
    insert(&mut client, "INSERT INTO t (id, s, _delete_flag_) VALUES", &[rows], &Settings::new())
        .await
        .unwrap();
    assert_eq!(ask(&double, "SELECT id, s FROM t"), [["5", "five"]]);
}

#[tokio::test]
async fn versions() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, v UInt32, s String) ENGINE = CnchMergeTree(v) ORDER BY id UNIQUE KEY id",
    ])
    .await;
    let state = |sql: &str| {
        double.execute(sql).unwrap();
        ask(&double, "SELECT v, s FROM t").into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(state("INSERT INTO t VALUES (1, 5, 'five')"), "5 five");
    assert_eq!(state("INSERT INTO t VALUES (1, 4, 'four')"), "5 five");
    assert_eq!(state("INSERT INTO t VALUES (1, 5, 'again')"), "5 again");
    assert_eq!(state("INSERT INTO t VALUES (1, 7, 'seven'), (1, 6, 'six'), (1, 7, 'later')"), "7 later");
    // A versioned delete obeys the rule, one without a version does not.
    assert_eq!(state("INSERT INTO t (id, v, _delete_flag_) VALUES (1, 6, 1)"), "7 later");
    assert_eq!(state("INSERT INTO t (id, v, _delete_flag_) VALUES (1, 7, 1)"), "");
    assert_eq!(state("INSERT INTO t VALUES (1, 3, 'three')"), "3 three");
    assert_eq!(state("INSERT INTO t (id, _delete_flag_) VALUES (1, 1)"), "");
    // Inside one block a delete's version counts against what follows.
    assert_eq!(state("INSERT INTO t (id, v, s, _delete_flag_) VALUES (1, 8, '', 1), (1, 7, 'late', 0)"), "");
    assert_eq!(
        state("INSERT INTO t (id, v, s, _delete_flag_) VALUES (1, 9, '', 1), (1, 10, 'new', 0)"),
        "10 new"
    );
}

#[tokio::test]
async fn the_scope_is_the_partition_unless_the_table_says_otherwise() {
    let create = |name: &str, level: u8| {
        format!(
            "CREATE TABLE {name} (d Date, id String, n UInt8) ENGINE = CnchMergeTree PARTITION BY toYYYYMM(d) \
             ORDER BY id UNIQUE KEY id SETTINGS partition_level_unique_keys = {level}"
        )
    };
    let double = start_with(&[&create("p", 1), &create("g", 0)]).await;
    for table in ["p", "g"] {
        double
            .execute(&format!(
                "INSERT INTO {table} VALUES ('2024-01-01', 'k', 1), ('2024-02-01', 'k', 2), ('2024-01-31', 'k', 3)"
            ))
            .unwrap();
    }
    assert_eq!(ask(&double, "SELECT d, n FROM p ORDER BY d"), [["2024-01-31", "3"], ["2024-02-01", "2"]]);
    assert_eq!(ask(&double, "SELECT d, n FROM g"), [["2024-01-31", "3"]]);
    // The wrong partition deletes nothing.
    double.execute("INSERT INTO p (d, id, _delete_flag_) VALUES ('2024-03-01', 'k', 1)").unwrap();
    assert_eq!(line(&double, "SELECT count() FROM p"), "2");
    double.execute("INSERT INTO p (d, id, _delete_flag_) VALUES ('2024-01-02', 'k', 1)").unwrap();
    assert_eq!(ask(&double, "SELECT d FROM p"), [["2024-02-01"]]);
    double.execute("INSERT INTO g (d, id, _delete_flag_) VALUES ('2024-03-01', 'k', 1)").unwrap();
    assert_eq!(line(&double, "SELECT count() FROM g"), "0");
}

#[tokio::test]
async fn keys_of_several_columns_and_expressions() {
    let double = start_with(&[
        "CREATE TABLE t (a Int32, b String, c Decimal(18, 2), v UInt8) ENGINE = CnchMergeTree ORDER BY a UNIQUE KEY (a, lower(b), c)",
        "INSERT INTO t VALUES (-1, 'X', 1.5, 1), (-1, 'x', 1.5, 2), (-1, 'x', 1.6, 3), (1, 'x', 1.5, 4)",
    ])
    .await;
    assert_eq!(ask(&double, "SELECT v FROM t ORDER BY v"), [["2"], ["3"], ["4"]]);
    double.execute("DELETE FROM t WHERE v = 2").unwrap();
    double.execute("INSERT INTO t VALUES (-1, 'X', 1.5, 5)").unwrap();
    assert_eq!(ask(&double, "SELECT v FROM t ORDER BY v"), [["3"], ["4"], ["5"]]);
    double.execute("TRUNCATE TABLE t").unwrap();
    double.execute("INSERT INTO t VALUES (1, 'x', 1.5, 6)").unwrap();
    assert_eq!(ask(&double, "SELECT v FROM t"), [["6"]]);
}

#[tokio::test]
async fn very_long_keys_are_refused() {
    let double = start_with(&[
        "CREATE TABLE t (id String, s String) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id SETTINGS max_string_size_for_unique_key = 10",
    ])
    .await;
    let mut client = client(&double).await;
    let rows = |id: &str| {
        batch(vec![
            ("id", Arc::new(StringArray::from(vec!["ok", id])) as ArrayRef),
            ("s", Arc::new(StringArray::from(vec!["a", "b"]))),
        ])
    };
    let sql = "INSERT INTO t (id, s) VALUES";
    let error = insert(&mut client, sql, &[rows("longer than 10")], &Settings::new()).await.unwrap_err();
    assert_eq!(code(&error), Some(7200));
    let mut client = crate::support::client(&double).await;
    insert(&mut client, sql, &[rows("10 letters")], &Settings::new()).await.unwrap();
    assert_eq!(line(&double, "SELECT count() FROM t"), "2");
}

/// Blocks of an insert take effect one after the other, and all at the end.
#[tokio::test]
async fn several_blocks_of_one_insert() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, s String) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id",
    ])
    .await;
    let mut client = client(&double).await;
    let block = |offset: u64, text: &str| {
        let ids: Vec<u64> = (0..1_000).map(|i| (i * 7 + offset) % 1_500).collect();
        batch(vec![
            ("s", Arc::new(StringArray::from(vec![text; ids.len()])) as ArrayRef),
            ("id", Arc::new(UInt64Array::from(ids))),
        ])
    };
    let blocks = [block(0, "first"), block(1, "second"), block(2, "third")];
    insert(&mut client, "INSERT INTO t (id, s) VALUES", &blocks, &Settings::new()).await.unwrap();
    let mut model = std::collections::BTreeMap::new();
    for (offset, text) in [(0, "first"), (1, "second"), (2, "third")] {
        for i in 0..1_000u64 {
            model.insert((i * 7 + offset) % 1_500, text);
        }
    }
    let expected: Vec<Vec<String>> =
        model.iter().map(|(id, s)| vec![id.to_string(), (*s).to_owned()]).collect();
    assert_eq!(ask(&double, "SELECT id, s FROM t ORDER BY id"), expected);
}
