//! The crate klickhouse as somebody else's client.

use bytehouse_testkit::{BytehouseDouble, DoubleOptions};
use klickhouse::{Client, ClientOptions, Row};

use crate::support::{line, start_with};

#[derive(Row, Debug, Clone, PartialEq)]
struct Order {
    id: u64,
    note: String,
    discount: Option<i32>,
    tags: Vec<String>,
}

async fn connect(double: &BytehouseDouble, password: &str) -> klickhouse::Result<Client> {
    let options = ClientOptions {
        username: "bytehouse".into(),
        password: password.into(),
        default_database: "default".into(),
        ..ClientOptions::default()
    };
    Client::connect(double.addr(), options).await
}

#[tokio::test]
async fn rows_go_in_and_come_out() {
    let double = start_with(&[
        "CREATE TABLE orders (id UInt64, note String, discount Nullable(Int32), tags Array(String)) \
                               ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id",
    ])
    .await;
    let client = connect(&double, DoubleOptions::TOKEN).await.unwrap();
    let orders: Vec<Order> = (0..1_000)
        .map(|id| Order {
            id,
            note: format!("订单 {id}"),
            discount: (id % 3 == 0).then_some(-7),
            tags: vec!["a".into(); (id % 4) as usize],
        })
        .collect();
    client.insert_native_block("INSERT INTO orders FORMAT native", orders.clone()).await.unwrap();
    // klickhouse returns before the server has answered.
    while line(&double, "SELECT count() FROM orders") != "1000" {
        tokio::task::yield_now().await;
    }
    let read: Vec<Order> = client.query_collect("SELECT * FROM orders ORDER BY id").await.unwrap();
    assert_eq!(read, orders);
    let count: klickhouse::UnitValue<u64> =
        client.query_one("SELECT count() FROM orders WHERE discount IS NULL").await.unwrap();
    assert_eq!(count.0, 666);
    assert!(client.execute("SELECT * FROM nothing").await.is_err());
}

#[tokio::test]
async fn a_wrong_token_is_refused() {
    let double = start_with(&[]).await;
    assert!(connect(&double, "wrong").await.is_err());
}
