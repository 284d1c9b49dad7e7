//! Partial updates of unique tables.

use crate::support::{ask, refused, start_with};

const CREATE: &str = "CREATE TABLE t (id UInt64, day Date, a Nullable(UInt8), b UInt8 DEFAULT 9) \
     ENGINE = CnchMergeTree PARTITION BY day ORDER BY id UNIQUE KEY id SETTINGS enable_unique_partial_update = 1";

#[tokio::test]
async fn columns_that_an_insert_does_not_name_keep_their_values() {
    let double = start_with(&[
        CREATE,
        "INSERT INTO t VALUES (1, '2024-01-01', 1, 2), (2, '2024-01-01', 3, 4)",
        "INSERT INTO t (id, day, a) VALUES (1, '2024-01-01', 10), (3, '2024-01-01', 30), (1, '2024-01-02', 5)",
        "INSERT INTO t (id, day, b) VALUES (1, '2024-01-01', 20), (1, '2024-01-01', 21)",
    ])
    .await;
    let all = [
        ["1", "2024-01-01", "10", "21"],
        ["1", "2024-01-02", "5", "9"],
        ["2", "2024-01-01", "3", "4"],
        ["3", "2024-01-01", "30", "9"],
    ];
    assert_eq!(ask(&double, "SELECT id, toString(day), a, b FROM t ORDER BY id, day"), all);
    // Off for this INSERT: the row gets its defaults.
    double
        .execute("INSERT INTO t (id, day, b) SETTINGS enable_unique_partial_update = 0 VALUES (2, '2024-01-01', 7)")
        .unwrap();
    assert_eq!(ask(&double, "SELECT a, b FROM t WHERE id = 2"), [["", "7"]]);
}

#[tokio::test]
async fn rows_say_themselves_which_columns_they_change() {
    let double = start_with(&[
        CREATE,
        "INSERT INTO t VALUES (1, '2024-01-01', 1, 2), (2, '2024-01-01', 3, 4), (3, '2024-01-01', 5, 6)",
        "INSERT INTO t (id, day, a, b, _update_columns_) VALUES \
         (1, '2024-01-01', 10, 20, 'a'), (2, '2024-01-01', 30, 40, 'b,unknown'), (3, '2024-01-01', NULL, 60, ''), \
         (1, '2024-01-01', 11, 21, 'b')",
    ])
    .await;
    assert_eq!(
        ask(&double, "SELECT id, a, b FROM t ORDER BY id"),
        [["1", "10", "21"], ["2", "3", "40"], ["3", "", "60"]]
    );
    // What follows a delete keeps nothing.
    double
        .execute(
            "INSERT INTO t (id, day, b, _delete_flag_) VALUES (1, '2024-01-01', 0, 1), (1, '2024-01-01', 5, 0)",
        )
        .unwrap();
    assert_eq!(ask(&double, "SELECT a, b FROM t WHERE id = 1"), [["", "5"]]);
}

#[tokio::test]
async fn a_null_keeps_the_value_where_the_table_says_so() {
    let create = CREATE.replace("update = 1", "update = 1, partial_update_replace_if_not_null = 1");
    let double = start_with(&[
        &create,
        "INSERT INTO t VALUES (1, '2024-01-01', 1, 2)",
        "INSERT INTO t VALUES (1, '2024-01-01', NULL, 3)",
    ])
    .await;
    assert_eq!(ask(&double, "SELECT a, b FROM t"), [["1", "3"]]);
}

#[tokio::test]
async fn what_does_not_go_together_is_refused() {
    let double =
        start_with(&["CREATE TABLE u (id UInt64) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id"]).await;
    assert_eq!(refused(&double, "INSERT INTO u (id, _update_columns_) VALUES (1, '')"), 36);
    let whole = CREATE.replace("update = 1", "update = 1, partition_level_unique_keys = 0");
    assert_eq!(refused(&double, &whole), 36);
    let versioned = CREATE.replace("CnchMergeTree", "CnchMergeTree(day)");
    assert_eq!(refused(&double, &versioned), 48);
    let map = CREATE.replace("b UInt8 DEFAULT 9", "b Map(String, UInt8)");
    assert_eq!(refused(&double, &map), 48);
    double.execute(&map.replace("update = 1", "update = 1, partial_update_enable_merge_map = 0")).unwrap();
}
