//! The double speaks the protocol that other people's drivers speak, the vendor's among them.

use bytehouse_testkit::{BytehouseDouble, DoubleOptions};
use connector_tests::services;

async fn reads_what_it_wrote(driver: &str) {
    // The vendor's driver asks for a default warehouse when it connects.
    let options = DoubleOptions { warehouses: vec!["vw-1-default".into()], ..DoubleOptions::default() };
    let double = BytehouseDouble::start(options).await.unwrap();
    let port = double.addr().port().to_string();
    if !services::run_driver("round_trip.py", &[driver, &port, "bytehouse", DoubleOptions::TOKEN]).await {
        return;
    }
    let rows = double.table(&format!("drivers.{driver}")).unwrap();
    assert_eq!(rows.num_rows(), 5000);
}

#[tokio::test]
async fn the_vendors_driver_reads_what_it_wrote() {
    reads_what_it_wrote("bytehouse_driver").await;
}

#[tokio::test]
async fn clickhouse_driver_reads_what_it_wrote() {
    reads_what_it_wrote("clickhouse_driver").await;
}
