//! The double speaks the protocol that other people's drivers speak, the vendor's among them.

use std::process::Stdio;

use bytehouse_testkit::{BytehouseDouble, DoubleOptions};
use connector_tests::services;
use tokio::process::Command;

async fn reads_what_it_wrote(driver: &str) {
    let Some(folder) = services::python_drivers() else { return };
    // The vendor's driver asks for a default warehouse when it connects.
    let options = DoubleOptions { warehouses: vec!["vw-1-default".into()], ..DoubleOptions::default() };
    let double = BytehouseDouble::start(options).await.unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/round_trip.py");
    let port = double.addr().port().to_string();
    let outcome = Command::new("python3")
        .args([script, driver, &port, "bytehouse", DoubleOptions::TOKEN])
        .env("PYTHONPATH", folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(outcome.status.success(), "{driver}: {}", String::from_utf8_lossy(&outcome.stderr));
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
