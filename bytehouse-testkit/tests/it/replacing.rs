use crate::support::{ask, line, start_with};

#[tokio::test]
async fn final_shows_the_newest_and_hides_the_deleted() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, v UInt64, gone UInt8, s String) ENGINE = ReplacingMergeTree(v, gone) ORDER BY id",
        "INSERT INTO t VALUES (1, 1, 0, 'a'), (2, 1, 0, 'b'), (3, 5, 0, 'c')",
        "INSERT INTO t VALUES (1, 2, 1, 'a2'), (2, 1, 0, 'b2'), (3, 4, 0, 'c2')",
    ])
    .await;
    assert_eq!(line(&double, "SELECT count() FROM t"), "6");
    assert_eq!(ask(&double, "SELECT id, s FROM t FINAL ORDER BY id"), [["2", "b2"], ["3", "c"]]);
    assert_eq!(line(&double, "SELECT count() FROM t FINAL WHERE s = 'b'"), "0");
    double.execute("OPTIMIZE TABLE t FINAL").unwrap();
    assert_eq!(line(&double, "SELECT count() FROM t"), "3");
    double.execute("INSERT INTO t VALUES (1, 3, 0, 'back')").unwrap();
    assert_eq!(ask(&double, "SELECT s FROM t FINAL ORDER BY id"), [["back"], ["b2"], ["c"]]);
}

#[tokio::test]
async fn without_a_version_the_last_row_counts() {
    let double = start_with(&[
        "CREATE TABLE t (a UInt8, b String, n UInt8) ENGINE = ReplacingMergeTree PARTITION BY n % 2 ORDER BY (a, b)",
        "INSERT INTO t VALUES (1, 'x', 1), (1, 'x', 2), (1, 'y', 3)",
    ])
    .await;
    assert_eq!(ask(&double, "SELECT n FROM t FINAL ORDER BY n"), [["2"], ["3"]]);
    // A merge never joins partitions.
    double.execute("OPTIMIZE TABLE t").unwrap();
    assert_eq!(line(&double, "SELECT count() FROM t"), "3");
}
