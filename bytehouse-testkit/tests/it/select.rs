use crate::support::{ask, line, refused, start, start_with};

#[tokio::test]
async fn constants_and_functions() {
    let double = start().await;
    for (sql, expected) in [
        ("SELECT 1 + 2 * 3, 7 % 4, intDiv(7, 2), 7 / 2", "7 3 3 3.5"),
        ("SELECT version(), timezone(), currentDatabase()", "21.8.7.1 UTC default"),
        ("SELECT toString(123), toString(toDate('2024-02-29')), 'a' || 'b'", "123 2024-02-29 ab"),
        ("SELECT if(1 > 2, 'a', 'b'), coalesce(NULL, 3), ifNull(NULL, 'x')", "b 3 x"),
        ("SELECT 2 IN (1, 2), 'x' NOT IN ('x'), NULL IS NULL, 1 BETWEEN 0 AND 2", "1 0 1 1"),
        (
            "SELECT toTypeName(1), toTypeName(-1), toTypeName(1.5), toTypeName('a'), toTypeName(NULL)",
            "UInt8 Int8 Float64 String Nullable(Nothing)",
        ),
        ("SELECT CAST('1.50' AS Decimal(9, 2)) = toDecimal32('1.5', 2)", "1"),
        (
            "SELECT toYYYYMM(toDate('2024-05-06')), toMonday(toDate('2024-05-08')) = toDate('2024-05-06')",
            "202405 1",
        ),
        ("SELECT toDateTime64('2024-01-01 00:00:00.123', 3) > '2024-01-01 00:00:00.122'", "1"),
        ("SELECT length('订单'), lengthUTF8('订单'), upper('a'), substring('hello', 2, 3)", "6 2 A ell"),
        ("SELECT not 1, not(0) and 1, NULL or 1", "0 1 1"),
        ("SELECT now() >= toDateTime('2024-01-01 00:00:00'), today() > '2024-01-01'", "1 1"),
        ("SELECT CASE WHEN 1 = 2 THEN 'a' ELSE 'b' END, [1, 2][2], (1, 'x').2, map('k', 5)['k']", "b 2 x 5"),
        ("SELECT 18446744073709551615, -9223372036854775808", "18446744073709551615 -9223372036854775808"),
        ("SELECT count() FROM system.one", "1"),
        ("SELECT sum(number), min(number), max(number) FROM numbers(5, 3)", "18 5 7"),
    ] {
        assert_eq!(line(&double, sql), expected, "{sql}");
    }
    for (sql, code) in [
        ("SELECT x", 47),
        ("SELECT frob(1)", 46),
        ("SELECT 1 = 'a'", 6),
        ("SELECT intDiv(1, 0)", 153),
        ("SELECT toInt8(300)", 69),
        ("SELECT substring('a')", 42),
        ("SELECT lower(1)", 43),
        ("SELECT * FROM system.nothing", 60),
        ("SELECT * FROM system.numbers", 48),
        ("SELECT count() WHERE count() = 1", 184),
    ] {
        assert_eq!(refused(&double, sql), code, "{sql}");
    }
}

#[tokio::test]
async fn filters_groups_order_limit() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, city String, n Nullable(Int32), amount Decimal(10, 2), at DateTime64(3)) \
         ENGINE = CnchMergeTree ORDER BY id",
        "INSERT INTO t VALUES (1, 'a', 10, 1.50, '2024-01-01 00:00:00.000'), (2, 'b', NULL, 2.25, '2024-01-02 00:00:00'), \
         (3, 'a', 30, 3, '2024-01-03 00:00:00'), (4, 'c', 5, 0.01, '2024-01-03 12:00:00')",
    ])
    .await;
    assert_eq!(ask(&double, "SELECT id FROM t WHERE city = 'a' AND n > 10"), [["3"]]);
    assert_eq!(ask(&double, "SELECT id FROM t WHERE n IS NULL OR id IN (4)"), [["2"], ["4"]]);
    assert_eq!(ask(&double, "SELECT t.id AS x FROM t WHERE NOT (x < 4) AND at >= '2024-01-03'"), [["4"]]);
    assert_eq!(ask(&double, "SELECT id, n FROM t ORDER BY n DESC, id LIMIT 1, 2"), [["1", "10"], ["4", "5"]]);
    assert_eq!(ask(&double, "SELECT id FROM t ORDER BY n NULLS FIRST LIMIT 1"), [["2"]]);
    assert_eq!(
        ask(
            &double,
            "SELECT city, count(), sum(amount) AS s, min(n), uniqExact(n) FROM t GROUP BY city ORDER BY s DESC"
        ),
        [["a", "2", "4.50", "10", "2"], ["b", "1", "2.25", "", "0"], ["c", "1", "0.01", "5", "1"]]
    );
    assert_eq!(ask(&double, "SELECT city FROM t GROUP BY city HAVING count() > 1"), [["a"]]);
    assert_eq!(ask(&double, "SELECT DISTINCT city FROM t ORDER BY city DESC"), [["c"], ["b"], ["a"]]);
    assert_eq!(
        line(&double, "SELECT count(), count(n), avg(n), sum(id), any(city), max(at) > '2024-01-03' FROM t"),
        "4 3 15.0 10 a 1"
    );
    assert_eq!(
        line(
            &double,
            "SELECT sumIf(id, city = 'a'), countIf(n > 5), argMax(city, amount), count(DISTINCT city) FROM t"
        ),
        "4 2 a 3"
    );
    assert_eq!(line(&double, "SELECT count() + 1, toString(max(id)) FROM t WHERE id > 100"), "1 0");
    assert_eq!(line(&double, "SELECT count() FROM (SELECT city FROM t GROUP BY city)"), "3");
    assert_eq!(ask(&double, "SELECT id, id FROM t WHERE 0").len(), 0);
    for (sql, code) in [
        ("SELECT city, count() FROM t", 215),
        ("SELECT id FROM t FINAL", 181),
        ("SELECT id FROM t WHERE missing = 1", 47),
        ("SELECT _delete_flag_ FROM t", 47),
        ("SELECT id FROM t WHERE city > 5", 53),
        ("SELECT sum(city) FROM t", 43),
    ] {
        assert_eq!(refused(&double, sql), code, "{sql}");
    }
}

#[tokio::test]
async fn system_tables_tell_about_tables_and_parts() {
    let double = start_with(&[
        "CREATE DATABASE app",
        "CREATE TABLE app.t (id UInt64, d Date, s String) ENGINE = CnchMergeTree PARTITION BY (d, s) ORDER BY id UNIQUE KEY id",
        "INSERT INTO app.t VALUES (1, '2024-01-01', 'x'), (2, '2024-01-01', 'x'), (3, '2024-01-02', 'y')",
    ])
    .await;
    assert_eq!(
        line(
            &double,
            "SELECT engine, partition_key, sorting_key, unique_key, total_rows FROM system.tables WHERE database = 'app' AND name = 't'"
        ),
        "CnchMergeTree (d, s) id id 3"
    );
    assert_eq!(
        ask(
            &double,
            "SELECT partition, rows, active FROM system.cnch_parts WHERE database = 'app' AND table = 't' ORDER BY partition"
        ),
        [["('2024-01-01','x')", "2", "1"], ["('2024-01-02','y')", "1", "1"]]
    );
    assert_eq!(line(&double, "SELECT count() FROM system.columns WHERE is_in_partition_key = 1"), "2");
    assert_eq!(line(&double, "SELECT count() FROM system.databases WHERE name = 'app'"), "1");
    assert_eq!(line(&double, "SELECT value, changed FROM system.settings WHERE name = 'max_threads'"), " 0");
}
