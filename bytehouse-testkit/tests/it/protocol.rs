use bytehouse_testkit::{BytehouseDouble, DoubleOptions, Outcome};
use connector_bytehouse_common::wire::{Client, Compression, Settings, protocol::Progress};
use connector_core::arrow::{array::StringArray, array::UInt64Array};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{batch, client, code, fetch, insert, line, options, start, start_with};

async fn double_of(revision: u64) -> BytehouseDouble {
    let double =
        BytehouseDouble::start(DoubleOptions { revision, ..DoubleOptions::default() }).await.unwrap();
    double.execute("CREATE TABLE t (id UInt64, s String) ENGINE = CnchMergeTree ORDER BY id").unwrap();
    double
}

/// Every revision of a server with every one of a client, every compression: rows go in and come out.
#[tokio::test]
async fn revisions_and_compressions() {
    let rows = batch(vec![
        ("id", Arc::new(UInt64Array::from_iter_values(0..70_000))),
        ("s", Arc::new(StringArray::from_iter_values((0..70_000).map(|i| format!("row {i} 订单"))))),
    ]);
    for server in [54406, 54418, 54428, 54448, 54451] {
        let double = double_of(server).await;
        for (announced, compression) in [
            (54406, Compression::None),
            (54428, Compression::Lz4),
            (54429, Compression::Zstd),
            (54448, Compression::Lz4),
            (54451, Compression::None),
        ] {
            let mut options = options(&double);
            options.revision = announced;
            options.compression = compression;
            options.settings.set("virtual_warehouse", "vw_load").set("max_threads", 3);
            let mut client = Client::connect(options).await.unwrap();
            assert_eq!(client.revision(), announced.min(server));
            double.execute("TRUNCATE TABLE t").unwrap();
            insert(
                &mut client,
                "INSERT INTO t (id, s) VALUES",
                &[rows.clone(), rows.clone()],
                &Settings::new(),
            )
            .await
            .unwrap();
            let fetched = fetch(&mut client, "SELECT id, s FROM t").await.unwrap();
            assert_eq!(fetched.len(), 140_000);
            assert_eq!(fetched[139_999], ["69999", "row 69999 订单"]);
            client.ping().await.unwrap();
            let log = double.log();
            let entry = log.iter().rev().find(|entry| entry.is_insert()).unwrap();
            assert_eq!(entry.setting("virtual_warehouse"), Some("vw_load"));
            assert_eq!(entry.setting("max_threads"), Some("3"));
            assert_eq!((entry.blocks, entry.rows, entry.outcome), (2, 140_000, Outcome::Done));
            assert_eq!(entry.compression, compression != Compression::None);
            assert_eq!(entry.revision, announced.min(server));
            assert!(!entry.query_id.is_empty());
        }
    }
}

#[tokio::test]
async fn an_insert_is_told_columns_and_defaults() {
    let double =
        start_with(&["CREATE TABLE t (a UInt8, b String DEFAULT 'it''s', c UInt8 MATERIALIZED a + 1, \
                               d DateTime64(3) ALIAS now64()) ENGINE = CnchMergeTree ORDER BY a"])
        .await;
    let mut client = client(&double).await;
    let stream = client.begin_insert("INSERT INTO t (b, a) VALUES", &Settings::new(), None).await.unwrap();
    let columns: Vec<_> = stream.columns().iter().map(|c| (c.name.as_str(), c.type_text())).collect();
    assert_eq!(columns, [("b", "String"), ("a", "UInt8")]);
    let described = stream.table_columns().unwrap().description.clone();
    let expected = "columns format version: 1\n4 columns:\n`a` UInt8\n`b` String\tDEFAULT\t\\'it\\\\\\'s\\'\n\
                    `c` UInt8\tMATERIALIZED\ta + 1\n`d` DateTime64(3)\tALIAS\tnow64()\n";
    assert_eq!(described, expected);
    stream.abort().await;
    assert_eq!(line(&double, "SELECT count() FROM t"), "0");
}

#[tokio::test]
async fn progress_and_profile_as_a_server_tells_them() {
    let double = start_with(&["CREATE TABLE t (a UInt64) ENGINE = CnchMergeTree ORDER BY a"]).await;
    double.execute("INSERT INTO t SELECT number FROM numbers(10)").unwrap();
    let mut client = client(&double).await;
    let summary = client.execute("SELECT a FROM t LIMIT 3", &Settings::new()).await.unwrap();
    assert_eq!(summary.progress.read_rows, 10);
    let profile = summary.profile.unwrap();
    assert_eq!(
        (profile.rows, profile.blocks, profile.applied_limit, profile.rows_before_limit),
        (3, 1, true, 10)
    );
    assert_eq!(summary.progress.total_rows_to_read, 10);
    // Clients as old as 18.16 crash without the flag, and know no progress after an insert.
    assert!(profile.calculated_rows_before_limit);
    let summary = client.execute("SELECT 1", &Settings::new()).await.unwrap();
    assert!(summary.profile.unwrap().calculated_rows_before_limit);
    let rows = batch(vec![("a", Arc::new(UInt64Array::from(vec![1, 2])))]);
    let summary = insert(&mut client, "INSERT INTO t (a) VALUES", &[rows], &Settings::new()).await.unwrap();
    assert_eq!(summary.progress, Progress::default());
}

#[tokio::test]
async fn exceptions_leave_the_connection_usable() {
    let double = start().await;
    let mut client = client(&double).await;
    for (sql, expected) in [
        ("SELECT * FROM nothing", 60),
        ("SELECT * FROM nowhere.t", 81),
        ("SELEC 1", 62),
        ("SELECT frobnicate(1)", 46),
        ("SELECT 1 UNION ALL SELECT 2", 48),
        ("INSERT INTO nothing (a) VALUES", 60),
    ] {
        let error = match client.begin_insert(sql, &Settings::new(), None).await {
            Ok(_) => panic!("{sql} went through"),
            Err(error) => error,
        };
        assert_eq!(code(&error), Some(expected), "{sql}: {error}");
    }
    assert_eq!(fetch(&mut client, "SELECT 1").await.unwrap(), [["1"]]);
    assert_eq!(double.connections(), 1);
}

#[tokio::test]
async fn vendor_packets_reach_those_who_announced_them() {
    let double = BytehouseDouble::start(DoubleOptions { vendor_packets: true, ..DoubleOptions::default() })
        .await
        .unwrap();
    for (announced, packets) in [(54448, 0), (54450, 1), (54451, 2)] {
        let mut stream = tokio::net::TcpStream::connect(double.addr()).await.unwrap();
        let mut hello = vec![0, 4];
        hello.extend_from_slice(b"test");
        hello.extend_from_slice(&[1, 1]);
        put_varuint(&mut hello, announced);
        hello.push(0);
        for text in ["default", ""] {
            put_string(&mut hello, text);
        }
        stream.write_all(&hello).await.unwrap();
        let mut greeting = [0; 256];
        assert!(stream.read(&mut greeting).await.unwrap() > 0);
        let mut query = vec![1, 0, 1];
        for text in ["", "", "0.0.0.0:0"] {
            put_string(&mut query, text);
        }
        if announced >= 54449 {
            query.extend_from_slice(&[0; 8]);
        }
        query.push(1);
        for text in ["", "", "test"] {
            put_string(&mut query, text);
        }
        query.extend_from_slice(&[1, 1]);
        put_varuint(&mut query, announced);
        // Quota key, depth, patch, no trace; no settings, no secret; whole query, not compressed.
        query.extend_from_slice(&[0, 0, 0, 0, 0, 0, 2, 0]);
        put_string(&mut query, "SELECT 1");
        // The empty block.
        query.extend_from_slice(&[2, 0, 1, 0, 2, 255, 255, 255, 255, 0, 0, 0]);
        stream.write_all(&query).await.unwrap();
        let mut first = [0; 5];
        stream.read_exact(&mut first).await.unwrap();
        match packets {
            0 => assert_eq!(first[0], 1, "{first:?}"),
            1 => assert_eq!(&first[..5], [14, 2, b'{', b'}', 1], "{first:?}"),
            _ => assert_eq!(&first[..5], [14, 2, b'{', b'}', 15], "{first:?}"),
        }
    }
}

#[tokio::test]
async fn our_client_lives_with_vendor_packets() {
    let double = BytehouseDouble::start(DoubleOptions { vendor_packets: true, ..DoubleOptions::default() })
        .await
        .unwrap();
    double.execute("CREATE TABLE t (a UInt64) ENGINE = CnchMergeTree ORDER BY a").unwrap();
    for announced in [54448, 54450, 54451] {
        let mut options = options(&double);
        options.revision = announced;
        let mut client = Client::connect(options).await.unwrap();
        let rows = batch(vec![("a", Arc::new(UInt64Array::from(vec![announced])))]);
        insert(&mut client, "INSERT INTO t (a) VALUES", &[rows], &Settings::new()).await.unwrap();
        let sql = format!("SELECT a FROM t WHERE a = {announced}");
        assert_eq!(fetch(&mut client, &sql).await.unwrap(), [[announced.to_string()]]);
    }
}

fn put_varuint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    put_varuint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// What is no conversation gets an answer or a closed connection, and never a hung or dead server.
#[tokio::test]
async fn nonsense_on_the_port() {
    let double = start().await;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x08\x00\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\x04test\x01\x01\x80\xa8\x03\x00\x07default\x00\x02\x00\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\x04test\x01\x01\x80\xa8\x03\x00\x07default\x00\x63",
        b"\x00\xff\xff\xff\xff\x7f",
    ] {
        let mut stream = tokio::net::TcpStream::connect(double.addr()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        stream.read_to_end(&mut answer).await.ok();
    }
    let mut client = client(&double).await;
    assert_eq!(fetch(&mut client, "SELECT 1").await.unwrap(), [["1"]]);
}

#[tokio::test]
async fn cancelling_a_query_keeps_the_connection() {
    let double = start().await;
    let mut client = client(&double).await;
    let mut stream = client.query("SELECT number FROM numbers(200000)", &Settings::new()).await.unwrap();
    assert!(stream.next_block().await.unwrap().is_some());
    stream.cancel().await.unwrap();
    assert!(client.is_usable());
    assert_eq!(fetch(&mut client, "SELECT 1").await.unwrap(), [["1"]]);
}

#[tokio::test]
async fn settings_are_checked_where_the_options_say_so() {
    let strict = DoubleOptions { strict_settings: true, ..DoubleOptions::default() };
    let double = BytehouseDouble::start(strict).await.unwrap();
    let mut client = client(&double).await;
    let unknown = Settings::new().with("no_such_setting", "x");
    assert_eq!(code(&client.execute("SELECT 1", &unknown).await.unwrap_err()), Some(115));
    let mut optional = Settings::new();
    optional.set_optional("no_such_setting", "x");
    client.execute("SELECT 1", &optional).await.unwrap();
    client.execute("SELECT 1", &Settings::new().with("max_threads", 1)).await.unwrap();
    let error = client.execute("SET no_such_setting = 1", &Settings::new()).await.unwrap_err();
    assert_eq!(code(&error), Some(115));
    // The typed form of a setting that nobody knows cannot be read, whatever the options say.
    let old =
        BytehouseDouble::start(DoubleOptions { revision: 54406, ..DoubleOptions::default() }).await.unwrap();
    let mut client = crate::support::client(&old).await;
    assert_eq!(code(&client.execute("SELECT 1", &unknown).await.unwrap_err()), Some(115));
    assert!(!client.is_usable());
}

#[tokio::test]
async fn warehouses() {
    let options_of = DoubleOptions {
        warehouses: vec!["vw_load".into(), "vw-12-etl".into()],
        require_warehouse: true,
        ..DoubleOptions::default()
    };
    let double = BytehouseDouble::start(options_of).await.unwrap();
    let mut client = client(&double).await;
    let none = Settings::new();
    client.execute("CREATE TABLE t (a UInt8) ENGINE = CnchMergeTree ORDER BY a", &none).await.unwrap();
    assert_eq!(code(&client.execute("SELECT a FROM t", &none).await.unwrap_err()), Some(5025));
    let unknown = Settings::new().with("virtual_warehouse", "vw_other");
    assert_eq!(code(&client.execute("SELECT a FROM t", &unknown).await.unwrap_err()), Some(5025));
    let known = Settings::new().with("virtual_warehouse", "vw_load");
    client.execute("SELECT a FROM t", &known).await.unwrap();
    client.execute("SET WAREHOUSE vw-12-etl", &none).await.unwrap();
    client.execute("RESUME WAREHOUSE vw-12-etl", &none).await.unwrap();
    client.execute("SELECT a FROM t", &none).await.unwrap();
    let rows = fetch(&mut client, "SHOW WAREHOUSES").await.unwrap();
    assert_eq!((rows[1][1].as_str(), rows[1][6].as_str()), ("vw-12-etl", "up"));
    let error = client.execute("SET WAREHOUSE vw_other", &none).await.unwrap_err();
    assert_eq!(code(&error), Some(5025));
}
