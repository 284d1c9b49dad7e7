//! The ClickHouse servers work, and the harness sees what is in them.

use std::time::Duration;

use connector_tests::clickhouse::NULL;
use connector_tests::orders::{self, Aggregates};
use connector_tests::services::{self, Clickhouse, READER, TESTER, Version};

async fn answers(server: &Clickhouse) {
    let version: String = server.value("SELECT version()").await;
    match server.version {
        Version::V18 => assert!(version.starts_with("18.16."), "{version}"),
        Version::Current => assert!(version.starts_with("26."), "{version}"),
    }
    let zone: String = server.value("SELECT timezone()").await;
    assert!(zone == "UTC" || zone == "Etc/UTC", "{zone}");
    assert_eq!(server.query_as(TESTER, "SELECT 1").await.unwrap(), [["1"]]);

    let database = server.create_database().await;
    let create = format!("CREATE TABLE {database}.t (a Nullable(Int32), b String) ENGINE = Memory");
    let refused = server.query_as(READER, &create).await.unwrap_err();
    assert_eq!(refused.code, Some(164), "a read-only user: {refused}");
    server.execute(&create).await;
    server.execute(&format!("INSERT INTO {database}.t VALUES (1, 'x\\ty'), (NULL, '')")).await;
    let rows = server.query(&format!("SELECT a, b FROM {database}.t ORDER BY b DESC")).await.unwrap();
    assert_eq!(rows, [["1", "x\ty"], [NULL, ""]]);

    let missing = server.query(&format!("SELECT * FROM {database}.nothing")).await.unwrap_err();
    assert_eq!(missing.code, Some(60), "{missing}");
    server.execute(&format!("DROP DATABASE {database}")).await;
}

/// The server's own JSON reader fills the table, so that nothing of this project takes part.
async fn computes_the_aggregates_of_orders(server: &Clickhouse) {
    let database = server.create_database().await;
    let columns = orders::columns(server.version);
    server.execute(&format!("CREATE TABLE {database}.o ({columns}) ENGINE = MergeTree ORDER BY id")).await;
    let mut insert = format!("INSERT INTO {database}.o FORMAT JSONEachRow\n");
    for id in 0..3000 {
        let order = orders::Order::new(id);
        let mut json = String::new();
        order.write_json(&mut json);
        if server.version == Version::V18 {
            json = for_18(&json, order.created_at);
        }
        insert.push_str(&json);
        insert.push('\n');
    }
    server.execute(&insert).await;
    let table = format!("{database}.o");
    assert_eq!(server.wait_until_rows(&table, 3000, Duration::from_secs(30)).await, 3000);
    assert_eq!(server.order_aggregates(&table).await, Aggregates::of(0..3000));

    // One row twice, one column of one row changed: both show.
    server.execute(&format!("INSERT INTO {table} SELECT * FROM {table} WHERE id = 7")).await;
    let doubled = server.order_aggregates(&table).await;
    assert_eq!((doubled.rows, doubled.ids), (3001, 3000));
    let distinct = format!("(SELECT * FROM {table} LIMIT 1 BY id)");
    assert_eq!(server.order_aggregates(&distinct).await, Aggregates::of(0..3000));
    let changed = format!(
        "(SELECT id, customer, amount, if(id = 7, 'void', status) AS status, note, created_at, discount, tags \
         FROM {table} LIMIT 1 BY id)"
    );
    assert_ne!(server.order_aggregates(&changed).await.hash, Aggregates::of(0..3000).hash);
    server.execute(&format!("DROP DATABASE {database}")).await;
}

/// 18.16 has the time as a number, and takes no decimal in quotes.
fn for_18(json: &str, created_at: i64) -> String {
    let mut value: serde_json::Value = serde_json::from_str(json).unwrap();
    value["created_at"] = created_at.into();
    value["amount"] = serde_json::from_str(value["amount"].as_str().unwrap()).unwrap();
    value.to_string()
}

#[tokio::test]
async fn clickhouse_18_answers() {
    let Some(server) = services::clickhouse_18() else { return };
    answers(&server).await;
}

#[tokio::test]
async fn clickhouse_current_answers() {
    let Some(server) = services::clickhouse_current() else { return };
    answers(&server).await;
}

#[tokio::test]
async fn clickhouse_18_computes_the_aggregates_of_orders() {
    let Some(server) = services::clickhouse_18() else { return };
    computes_the_aggregates_of_orders(&server).await;
}

#[tokio::test]
async fn clickhouse_current_computes_the_aggregates_of_orders() {
    let Some(server) = services::clickhouse_current() else { return };
    computes_the_aggregates_of_orders(&server).await;
}

#[tokio::test]
async fn clickhouse_18_refuses_a_wrong_password() {
    let Some(server) = services::clickhouse_18() else { return };
    let refused = server.query_as(("tester", "wrong"), "SELECT 1").await.unwrap_err();
    assert_eq!(refused.code, Some(193), "{refused}");
}
