use std::sync::Arc;

use bytehouse_testkit::{BytehouseDouble, DoubleOptions, Outcome};
use connector_bytehouse_common::wire::{Client, Settings};
use connector_core::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, UInt64Array};

use crate::support::{ask, batch, client, code, encode, insert, line, options, refused, start_with};

fn ids(ids: std::ops::Range<u64>) -> RecordBatch {
    batch(vec![("id", Arc::new(UInt64Array::from_iter_values(ids)) as ArrayRef)])
}

#[tokio::test]
async fn missing_columns_take_their_defaults() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, twice UInt64 DEFAULT id * 2, s String DEFAULT concat('n', toString(thrice)), \
         thrice UInt64 DEFAULT twice + id, n Nullable(Int32), m UInt64 MATERIALIZED id + 1, al String ALIAS toString(m)) \
         ENGINE = CnchMergeTree ORDER BY id",
    ])
    .await;
    let mut client = client(&double).await;
    insert(&mut client, "INSERT INTO t (id) VALUES", &[ids(1..3)], &Settings::new()).await.unwrap();
    double.execute("INSERT INTO t (id, twice, n) VALUES (5, 0, 7), (6, 1, NULL)").unwrap();
    assert_eq!(
        ask(&double, "SELECT *, m, al FROM t ORDER BY id"),
        [
            ["1", "2", "n3", "3", "", "2", "2"],
            ["2", "4", "n6", "6", "", "3", "3"],
            ["5", "0", "n5", "5", "7", "6", "6"],
            ["6", "1", "n7", "7", "", "7", "7"]
        ]
    );
    assert_eq!(double.table("t").unwrap().num_columns(), 6, "stored columns, computed ones among them");
    // Without names: the columns that can be inserted.
    let stream = client.begin_insert("INSERT INTO t VALUES", &Settings::new(), None).await.unwrap();
    assert_eq!(stream.columns().len(), 5);
    stream.abort().await;
}

#[tokio::test]
async fn columns_that_an_insert_may_not_name() {
    let double = start_with(&[
        "CREATE TABLE t (id UInt64, m UInt8 MATERIALIZED 1, a UInt8 ALIAS 2, s FixedString(2), x Int8) ENGINE = CnchMergeTree ORDER BY id",
    ])
    .await;
    for (sql, code) in [
        ("INSERT INTO t (id, nope) VALUES (1, 2)", 16),
        ("INSERT INTO t (id, m) VALUES (1, 2)", 44),
        ("INSERT INTO t (id, a) VALUES (1, 2)", 44),
        ("INSERT INTO t (id, id) VALUES (1, 2)", 15),
        ("INSERT INTO t (id, _delete_flag_) VALUES (1, 1)", 36),
        ("INSERT INTO nope (id) VALUES (1)", 60),
        ("INSERT INTO nowhere.t (id) VALUES (1)", 81),
        ("INSERT INTO t (id) VALUES (1, 2)", 27),
        ("INSERT INTO t (s) VALUES ('abc')", 131),
        ("INSERT INTO t (x) VALUES (128)", 69),
        ("INSERT INTO t (x) VALUES ('a')", 6),
        ("INSERT INTO system.one VALUES (1)", 48),
        ("INSERT INTO t (id) SELECT 1, 2", 36),
    ] {
        assert_eq!(refused(&double, sql), code, "{sql}");
    }
    assert_eq!(line(&double, "SELECT count() FROM t"), "0");
}

#[tokio::test]
async fn blocks_are_matched_by_name_and_converted() {
    let double = start_with(&["CREATE TABLE t (a Int64, b String) ENGINE = CnchMergeTree ORDER BY a"]).await;
    let mut client = client(&double).await;
    let rows = batch(vec![
        ("b", Arc::new(StringArray::from(vec!["x", "y"]))),
        ("a", Arc::new(Int32Array::from(vec![-1, 2]))),
    ]);
    // A block of Int32 for a column of Int64, the other way round.
    let columns: Vec<_> = [("b", "String"), ("a", "Int32")]
        .into_iter()
        .map(|(name, ty)| connector_bytehouse_common::native::ColumnDef::parse(name, ty).unwrap())
        .collect();
    let mut stream =
        client.begin_insert("INSERT INTO t (a, b) VALUES", &Settings::new(), None).await.unwrap();
    stream.send(&encode(&rows, &columns)).await.unwrap();
    stream.finish().await.unwrap();
    assert_eq!(ask(&double, "SELECT a, b FROM t ORDER BY a"), [["-1", "x"], ["2", "y"]]);
    for (columns, expected) in [
        (vec![("b", "String"), ("c", "Int32")], 10),
        (vec![("b", "String")], 10),
        (vec![("b", "String"), ("a", "Nullable(Int32)")], 349),
    ] {
        let columns: Vec<_> = columns
            .into_iter()
            .map(|(name, ty)| connector_bytehouse_common::native::ColumnDef::parse(name, ty).unwrap())
            .collect();
        let rows = batch(vec![
            ("b", Arc::new(StringArray::from(vec!["z"]))),
            ("a", Arc::new(Int32Array::from(vec![None]))),
            ("c", Arc::new(Int32Array::from(vec![1]))),
        ]);
        let mut client = crate::support::client(&double).await;
        let mut stream =
            client.begin_insert("INSERT INTO t (a, b) VALUES", &Settings::new(), None).await.unwrap();
        let sent = stream.send(&encode(&rows, &columns)).await;
        let error = match sent {
            Ok(()) => stream.finish().await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(code(&error), Some(expected), "{error}");
    }
    assert_eq!(line(&double, "SELECT count() FROM t"), "2");
}

#[tokio::test]
async fn nothing_is_visible_before_the_end() {
    let double = start_with(&["CREATE TABLE t (id UInt64) ENGINE = CnchMergeTree ORDER BY id"]).await;
    let mut client = client(&double).await;
    let mut stream = client.begin_insert("INSERT INTO t (id) VALUES", &Settings::new(), None).await.unwrap();
    for start in [0, 10] {
        let block = encode(&ids(start..start + 10), stream.columns());
        stream.send(&block).await.unwrap();
    }
    while double.log()[0].blocks < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(line(&double, "SELECT count() FROM t"), "0");
    stream.finish().await.unwrap();
    assert_eq!(line(&double, "SELECT count() FROM t"), "20");
}

/// A connection that closes between two blocks, the old way and the new.
#[tokio::test]
async fn a_close_on_a_block_boundary() {
    for (store, rows, outcome) in [(false, "0", Outcome::Broken), (true, "5", Outcome::BrokenButStored)] {
        let options_of = DoubleOptions { store_broken_inserts: store, ..DoubleOptions::default() };
        let double = BytehouseDouble::start(options_of).await.unwrap();
        double.execute("CREATE TABLE t (id UInt64) ENGINE = CnchMergeTree ORDER BY id").unwrap();
        let (near, far) = tokio::io::duplex(1 << 16);
        let proxy = tokio::net::TcpStream::connect(double.addr()).await.unwrap();
        #[allow(clippy::disallowed_methods, reason = "the test's own relay")]
        let relay = tokio::spawn(async move {
            let (mut far, mut proxy) = (far, proxy);
            tokio::io::copy_bidirectional(&mut far, &mut proxy).await.ok();
        });
        let mut client = Client::over(near, options(&double)).await.unwrap();
        let mut stream =
            client.begin_insert("INSERT INTO t (id) VALUES", &Settings::new(), None).await.unwrap();
        let block = encode(&ids(0..5), stream.columns());
        stream.send(&block).await.unwrap();
        while double.log()[0].blocks < 1 {
            tokio::task::yield_now().await;
        }
        // The relay dies, and with it the connection, before the client can break off in a block.
        relay.abort();
        while double.log()[0].outcome == Outcome::Running {
            tokio::task::yield_now().await;
        }
        assert_eq!(double.log()[0].outcome, outcome);
        assert_eq!(line(&double, "SELECT count() FROM t"), rows);
        drop(stream);
    }
}

#[tokio::test]
async fn breaking_off_in_a_block_stores_nothing_anywhere() {
    let double =
        BytehouseDouble::start(DoubleOptions { store_broken_inserts: true, ..DoubleOptions::default() })
            .await
            .unwrap();
    double.execute("CREATE TABLE t (id UInt64) ENGINE = CnchMergeTree ORDER BY id").unwrap();
    let mut client = client(&double).await;
    let mut stream = client.begin_insert("INSERT INTO t (id) VALUES", &Settings::new(), None).await.unwrap();
    let block = encode(&ids(0..5), stream.columns());
    stream.send(&block).await.unwrap();
    stream.abort().await;
    while double.log()[0].outcome == Outcome::Running {
        tokio::task::yield_now().await;
    }
    assert_eq!(double.log()[0].outcome, Outcome::Broken);
    assert_eq!(line(&double, "SELECT count() FROM t"), "0");
}

#[tokio::test]
async fn tokens_are_honoured_where_there_is_a_window() {
    let double = start_with(&[
        "CREATE TABLE w (id UInt64) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 3",
        "CREATE TABLE n (id UInt64) ENGINE = MergeTree ORDER BY id",
    ])
    .await;
    let mut client = client(&double).await;
    let token = |text: &str| Settings::new().with("insert_deduplication_token", text);
    for (table, settings, blocks, rows) in [
        ("w", token("a"), vec![ids(0..1), ids(1..3)], 3),
        ("w", token("a"), vec![ids(0..1), ids(1..3)], 3),
        // Another content under the same token counts as the same block.
        ("w", token("a"), vec![ids(7..9), ids(7..9)], 3),
        // A third block under the same token is new.
        ("w", token("a"), vec![ids(0..1), ids(1..3), ids(3..4)], 4),
        ("w", token("b"), vec![ids(0..1)], 5),
        // Without a token the content decides; with the switch off nothing does.
        ("w", Settings::new(), vec![ids(50..52)], 7),
        ("w", Settings::new(), vec![ids(50..52)], 7),
        ("w", Settings::new().with("insert_deduplicate", 0), vec![ids(50..52)], 9),
        // The window holds three: the first block of `a` is forgotten.
        ("w", token("a"), vec![ids(0..1)], 10),
        ("n", token("a"), vec![ids(0..1)], 1),
        ("n", token("a"), vec![ids(0..1)], 2),
    ] {
        let sql = format!("INSERT INTO {table} (id) VALUES");
        insert(&mut client, &sql, &blocks, &settings).await.unwrap();
        assert_eq!(line(&double, &format!("SELECT count() FROM {table}")), rows.to_string());
    }
    assert_eq!(double.log()[0].insert_token(), Some("a"));
}

#[tokio::test]
async fn a_label_is_taken_once() {
    let double = start_with(&["CREATE TABLE t (id UInt64) ENGINE = CnchMergeTree ORDER BY id"]).await;
    let mut client = client(&double).await;
    let label = |text: &str| Settings::new().with("insertion_label", text);
    insert(&mut client, "INSERT INTO t (id) VALUES", &[ids(0..2)], &label("batch-1")).await.unwrap();
    let again = insert(&mut client, "INSERT INTO t (id) VALUES", &[ids(0..2)], &label("batch-1")).await;
    assert_eq!(code(&again.unwrap_err()), Some(5035));
    let wrong = insert(&mut client, "INSERT INTO t (id) VALUES", &[ids(0..2)], &label("batch 2")).await;
    assert_eq!(code(&wrong.unwrap_err()), Some(36));
    insert(&mut client, "INSERT INTO t (id) VALUES", &[ids(2..3)], &label("batch-2")).await.unwrap();
    assert_eq!(line(&double, "SELECT count() FROM t"), "3");
    assert_eq!(double.log()[0].insert_label(), Some("batch-1"));
}

#[tokio::test]
async fn too_many_partitions_in_one_block() {
    let double =
        start_with(&["CREATE TABLE t (id UInt64) ENGINE = CnchMergeTree PARTITION BY id ORDER BY id"]).await;
    let mut client = client(&double).await;
    let refused =
        insert(&mut client, "INSERT INTO t (id) VALUES", &[ids(0..101)], &Settings::new()).await.unwrap_err();
    assert_eq!(code(&refused), Some(252));
    assert!(refused.to_string().contains("partitions for single INSERT block"), "{refused}");
    let mut client = crate::support::client(&double).await;
    let more = Settings::new().with("max_partitions_per_insert_block", 200);
    insert(&mut client, "INSERT INTO t (id) VALUES", &[ids(0..101)], &more).await.unwrap();
    assert_eq!(line(&double, "SELECT count() FROM system.parts WHERE table = 't'"), "101");
    assert_eq!(line(&double, "SELECT count() FROM t"), "101");
}

/// Every type goes in by a literal, over the wire out, and over the wire in again.
#[tokio::test]
async fn every_type_there_and_back() {
    let columns = [
        ("b", "Bool", "true"),
        ("i8", "Int8", "-128"),
        ("u64", "UInt64", "18446744073709551615"),
        ("i128", "Int128", "-170141183460469231731687303715884105728"),
        ("i256", "Int256", "-5"),
        ("f32", "Float32", "1.5"),
        ("f64", "Float64", "-1e300"),
        ("d9", "Decimal(9, 2)", "-1234567.89"),
        ("d18", "Decimal(18, 4)", "0.0001"),
        ("d38", "Decimal(38, 10)", "1234567890123456789012345678.0123456789"),
        ("d76", "Decimal(76, 20)", "7.00000000000000000001"),
        ("s", "String", "'订单 😀 \\xFF'"),
        ("fs", "FixedString(3)", "'ab'"),
        ("dt", "Date", "'2149-06-06'"),
        ("d32", "Date32", "'1900-01-01'"),
        ("t", "DateTime", "'2024-01-01 01:02:03'"),
        ("tz", "DateTime('Asia/Shanghai')", "'2024-01-01 01:02:03'"),
        ("t64", "DateTime64(6, 'UTC')", "'1969-12-31 23:59:59.999999'"),
        ("e", "Enum8('a' = 1, 'b' = 2)", "'b'"),
        ("u", "UUID", "'61f0c404-5cb3-11e7-907b-a6006ad3dba0'"),
        ("ip4", "IPv4", "'10.1.2.3'"),
        ("ip6", "IPv6", "'2001:db8::1'"),
        ("ns", "Nullable(String)", "NULL"),
        ("lc", "LowCardinality(Nullable(String))", "'x'"),
        ("arr", "Array(Array(Nullable(Int32)))", "[[1, NULL], []]"),
        ("m", "Map(String, Array(UInt8))", "{'k': [1, 2]}"),
        ("tup", "Tuple(a UInt8, b Nullable(String))", "(1, NULL)"),
        ("tm", "Time(3)", "'23:59:59.250'"),
    ];
    let declared: Vec<String> = columns.iter().map(|(name, ty, _)| format!("{name} {ty}")).collect();
    let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
    let values: Vec<&str> = columns.iter().map(|(.., value)| *value).collect();
    let create = |table: &str| {
        format!(
            "CREATE TABLE {table} (id UInt8, {}) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id",
            declared.join(", ")
        )
    };
    let double = start_with(&[&create("a"), &create("b")]).await;
    double
        .execute(&format!("INSERT INTO a (id, {}) VALUES (1, {})", names.join(", "), values.join(", ")))
        .unwrap();
    double.execute("INSERT INTO a (id) VALUES (2)").unwrap();
    let mut options = options(&double);
    options.read.strings_as_binary = true;
    let mut client = Client::connect(options).await.unwrap();
    let list = format!("id, {}", names.join(", "));
    let mut stream =
        client.query(&format!("SELECT {list} FROM a ORDER BY id"), &Settings::new()).await.unwrap();
    let block = stream.next_block().await.unwrap().unwrap();
    assert!(stream.next_block().await.unwrap().is_none());
    drop(stream);
    let types: Vec<String> =
        block.columns.iter().skip(1).map(|column| column.type_text().to_owned()).collect();
    assert_eq!(types, columns.iter().map(|(_, ty, _)| (*ty).to_owned()).collect::<Vec<_>>());
    insert(&mut client, &format!("INSERT INTO b ({list}) VALUES"), &[block.rows], &Settings::new())
        .await
        .unwrap();
    assert_eq!(double.table("a").unwrap(), double.table("b").unwrap());
    for (name, _, value) in &columns {
        let sql = format!("SELECT toString({name}) FROM b WHERE id = 1");
        let text = double.execute(&sql).unwrap();
        let shown = format!("{:?}", crate::support::cells(&text));
        assert!(*value == "NULL" || !shown.contains("\"\""), "{name}: {shown}");
    }
    assert_eq!(
        line(
            &double,
            "SELECT toString(d76), toString(tz), toString(m), toString(arr), toString(u) FROM b WHERE id = 1"
        ),
        "7.00000000000000000001 2024-01-01 01:02:03 {'k':[1,2]} [[1,NULL],[]] 61f0c404-5cb3-11e7-907b-a6006ad3dba0"
    );
}
