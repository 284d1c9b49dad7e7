//! A test can have servers of its own, break them, and leave nothing behind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use connector_tests::kafka::Record;
use connector_tests::proxy::{Cut, Flow, Proxy, Rules};
use connector_tests::services::Clickhouse;
use connector_tests::{OwnedService, Service};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use tokio::time::sleep;

/// Whether the server's recorded process runs.
fn runs(folder: &Path) -> bool {
    process_of(folder).is_some_and(|process| is_running(&process))
}

/// What /proc holds about the server's recorded process.
fn process_of(folder: &Path) -> Option<PathBuf> {
    let recorded = std::fs::read_to_string(folder.join("pid")).ok()?;
    Some(PathBuf::from("/proc").join(recorded.split_whitespace().next()?))
}

fn is_running(process: &Path) -> bool {
    std::fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty())
}

async fn survives_its_stops(service: Service) {
    let Some(owned) = OwnedService::start(service).await else { return };
    let server: Clickhouse = owned.clickhouse();
    server.execute("CREATE TABLE default.kept (a Int32) ENGINE = MergeTree ORDER BY a").await;
    server.execute("INSERT INTO default.kept VALUES (1), (2)").await;

    owned.stop().await;
    assert!(!runs(owned.folder()));
    assert!(server.query("SELECT 1").await.is_err(), "a stopped server does not answer");
    owned.start_again().await;
    assert_eq!(server.count("default.kept").await, 2);

    owned.kill().await;
    assert!(!runs(owned.folder()));
    owned.start_again().await;
    assert_eq!(server.count("default.kept").await, 2);

    let folder = owned.folder().to_owned();
    let process = process_of(&folder).unwrap();
    assert!(is_running(&process));
    drop(owned);
    assert!(!is_running(&process), "dropping ends the process");
    assert!(!folder.exists(), "dropping removes the folder");
}

#[tokio::test]
async fn a_private_clickhouse_18_survives_its_stops() {
    survives_its_stops(Service::Clickhouse18).await;
}

#[tokio::test]
async fn a_private_current_clickhouse_survives_its_stops() {
    survives_its_stops(Service::ClickhouseCurrent).await;
}

#[tokio::test]
async fn a_private_kafka_survives_its_stops() {
    let Some(owned) = OwnedService::start(Service::Kafka).await else { return };
    let kafka = owned.kafka();
    kafka.create_topic("kept", 1, &[]).await;
    kafka.produce("kept", vec![Record::new(0, "one")]).await;
    owned.stop().await;
    owned.start_again().await;
    kafka.produce("kept", vec![Record::new(0, "two")]).await;
    owned.kill().await;
    assert!(!runs(owned.folder()));
    owned.start_again().await;
    assert_eq!(kafka.watermarks("kept", 0).await, (0, 2));
}

#[tokio::test]
async fn kafka_is_reached_through_a_proxy_alone() {
    let proxy = Proxy::reserve();
    let Some(owned) = OwnedService::start_kafka_behind(&proxy).await else { return };
    let direct = owned.kafka();
    direct.create_topic("proxied", 1, &[]).await;
    assert_eq!(proxy.accepted(), 0, "the other addresses do not pass the proxy");

    let mut through = direct.clone();
    through.bootstrap = proxy.address().to_string();
    through.produce("proxied", vec![Record::new(0, vec![b'x'; 100_000])]).await;
    assert!(proxy.bytes_to_server() > 100_000, "{} bytes", proxy.bytes_to_server());
    assert_eq!(direct.watermarks("proxied", 0).await, (0, 1));

    // The brokers announce the proxy: where it passes nothing more, nothing more arrives.
    proxy.set_rules(Rules::pass().to_client(Flow::pass().cut_after(0, Cut::Reset)));
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &through.bootstrap)
        .set("group.id", "g")
        .create()
        .unwrap();
    let metadata = tokio::task::spawn_blocking(move || {
        consumer.fetch_metadata(Some("proxied"), Duration::from_secs(2)).map(drop)
    });
    assert!(metadata.await.unwrap().is_err());
}

/// What the watcher is for: the owner is a process that dies without a chance to clean up.
#[tokio::test]
async fn a_server_ends_with_its_owner() {
    let Some(owned) = OwnedService::start(Service::Clickhouse18).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut owner = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let start = Path::new(env!("CARGO_MANIFEST_DIR")).join("services/clickhouse-18/start.sh");
    let status = tokio::process::Command::new(start)
        .arg(folder.path())
        .env("CONNECTOR_OWNER_PID", owner.id().unwrap().to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .await
        .unwrap();
    assert!(status.success());
    assert!(runs(folder.path()));

    owner.kill().await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while runs(folder.path()) {
        assert!(Instant::now() < deadline, "the server outlives its owner");
        sleep(Duration::from_millis(50)).await;
    }
    assert!(runs(owned.folder()), "servers of other owners go on");
}
