//! Options that show at the server.

use bytehouse_testkit::{BytehouseDouble, DoubleOptions, LogEntry, Tls};
use connector_bytehouse_cdw::BytehouseCdwSink;
use connector_core::{ChangeBatch, DeliveryGuarantee, Error, ErrorKind, Sink, SinkWriter, testkit::orders};

use crate::support::{COLUMNS, create, double, ids, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;
const UNIQUE: &str = "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id";

/// A sink into `app.t` in DataSail's spelling.
fn datasail(double: &BytehouseDouble, more: &[(&str, &str)]) -> BytehouseCdwSink {
    let port = double.addr().port().to_string();
    let base = [
        ("job.writer.host", "127.0.0.1"),
        ("job.writer.port", &port),
        ("job.writer.virtual_warehouse", "vw_load"),
        ("job.writer.token", DoubleOptions::TOKEN),
        ("job.writer.db_name", "app"),
        ("job.writer.table_name", "t"),
        ("job.writer.secure", "false"),
    ];
    let kept = base.iter().filter(|(key, _)| more.iter().all(|(other, _)| other != key));
    BytehouseCdwSink::from_options(kept.chain(more).copied()).unwrap()
}

async fn write(sink: &BytehouseCdwSink) -> Result<(), Error> {
    let table = connector_core::TableId::new("upstream", "orders");
    let mut writer = writer(sink, AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..10))).await?;
    writer.flush(None).await?;
    writer.close().await
}

fn insert(double: &BytehouseDouble) -> LogEntry {
    double.log().into_iter().rfind(LogEntry::is_insert).unwrap()
}

#[tokio::test]
async fn what_an_insert_looks_like_to_the_server() {
    let double = double().await;
    create(&double, "t", UNIQUE);
    write(&datasail(&double, &[])).await.unwrap();
    let plain = insert(&double);
    assert!(plain.sql.starts_with("INSERT INTO `app`.`t`"), "rows go to the options' table: {}", plain.sql);
    assert_eq!(plain.setting("virtual_warehouse"), Some("vw_load"));
    assert_eq!(plain.setting("max_partitions_per_insert_block"), Some("10000"));
    assert_eq!((plain.user.as_str(), plain.compression, plain.revision), ("bytehouse", false, 54448));
    assert!(!plain.sql.contains("_delete_flag_"), "INSERT appends");
    let more = [
        ("job.writer.session_properties", r#"{"insert_deduplicate":"0"}"#),
        ("job.writer.max_partitions_per_insert_block", "77"),
        ("job.writer.compression", "lz4"),
        ("job.writer.protocol_revision", "54406"),
        ("job.writer.write_mode", "UPSERT"),
        ("job.writer.unique_keys", "id"),
        ("job.writer.virtual_warehouse", "vw_other"),
        ("job.writer.bh_connection_properties", r#"{"database":"app"}"#),
    ];
    write(&datasail(&double, &more)).await.unwrap();
    let changed = insert(&double);
    assert_eq!(changed.setting("insert_deduplicate"), Some("0"));
    assert_eq!(changed.setting("max_partitions_per_insert_block"), Some("77"));
    assert_eq!(changed.setting("virtual_warehouse"), Some("vw_other"));
    assert_eq!((changed.compression, changed.revision, changed.database.as_str()), (true, 54406, "app"));
    assert!(changed.sql.contains("_delete_flag_"), "UPSERT replaces: {}", changed.sql);
    assert_eq!(ids(&double.table("app.t").unwrap()), (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_account_logs_in_by_user_and_password() {
    let options = DoubleOptions { databases: vec!["app".into()], ..DoubleOptions::default() };
    let double = BytehouseDouble::start(options.with_user("100::loader", "p")).await.unwrap();
    create(&double, "t", UNIQUE);
    let login = r#"{"user":"100::loader","password":"p"}"#;
    write(&datasail(&double, &[("job.writer.bh_connection_properties", login)])).await.unwrap();
    assert_eq!(insert(&double).user, "100::loader");
    let wrong = r#"{"user":"100::loader","password":"hunter2"}"#;
    let sink = datasail(&double, &[("job.writer.bh_connection_properties", wrong)]);
    let error = sink.check(AT_LEAST_ONCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[tokio::test]
async fn an_open_source_server_gets_no_warehouse() {
    let double = double().await;
    double
        .execute(&format!(
            "CREATE TABLE app.t ({COLUMNS}, v UInt64, gone UInt8) ENGINE = ReplacingMergeTree(v, gone) ORDER BY id"
        ))
        .unwrap();
    let more = [
        ("job.writer.cnch_engine", "false"),
        ("job.writer.write_mode", "UPSERT"),
        ("job.writer.bh_connection_properties", r#"{"user":"bytehouse"}"#),
    ];
    write(&datasail(&double, &more)).await.unwrap();
    assert_eq!(insert(&double).setting("virtual_warehouse"), None);
    assert!(insert(&double).sql.contains("`gone`"));
}

#[tokio::test]
async fn tls_checks_the_certificate_as_sslmode_says() {
    let options =
        DoubleOptions { databases: vec!["app".into()], tls: Tls::SelfSigned, ..DoubleOptions::default() };
    let double = BytehouseDouble::start(options).await.unwrap();
    create(&double, "t", UNIQUE);
    let secure = |mut properties: Vec<(&str, &str)>, secure: &'static str| {
        properties.push(("connect_timeout", "20000"));
        let map: std::collections::BTreeMap<&str, &str> = properties.into_iter().collect();
        let map = format!("{map:?}");
        datasail(&double, &[("job.writer.secure", secure), ("job.writer.bh_connection_properties", &map)])
    };
    let authority = double.ca_pem().unwrap();
    write(&secure(vec![("sslmode", "verify-full"), ("sslrootcert", authority)], "true")).await.unwrap();
    write(&secure(vec![("sslmode", "none")], "true")).await.unwrap();
    let trusting = secure(vec![("sslmode", "verify-full")], "true");
    let error = trusting.check(AT_LEAST_ONCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid, "{error}");
    let name = vec![("sslmode", "verify-full"), ("sslrootcert", authority), ("server_name", "other.example")];
    let error = secure(name, "true").check(AT_LEAST_ONCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid, "{error}");
    let error = secure(vec![], "false").check(AT_LEAST_ONCE).await.unwrap_err();
    assert!(!error.message().is_empty(), "plain text to a port with TLS fails");
}

#[tokio::test]
async fn case_counts_when_the_option_says_so() {
    let double = double().await;
    let columns = COLUMNS.replace("amount", "AMOUNT");
    double.execute(&format!("CREATE TABLE app.t ({columns}) {UNIQUE}")).unwrap();
    write(&datasail(&double, &[])).await.unwrap();
    let strict = datasail(&double, &[("job.common.cdc_multiplex_record_case_insensitive", "false")]);
    let error = write(&strict).await.unwrap_err();
    assert!(error.kind() == ErrorKind::SchemaMismatch && error.message().contains("`amount`"), "{error}");
}

#[tokio::test]
async fn keys_that_are_not_the_tables_are_refused_at_the_start() {
    let double = double().await;
    create(&double, "t", UNIQUE);
    let more = [("job.writer.write_mode", "UPSERT"), ("job.writer.unique_keys", "customer")];
    let error = datasail(&double, &more).check(AT_LEAST_ONCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.message().contains("customer") && error.message().contains("id"), "{error}");
}

#[tokio::test]
async fn exactly_once_needs_the_deduplication_that_a_setting_switches_off() {
    let double = double().await;
    create(&double, "t", "ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100");
    datasail(&double, &[]).check(DeliveryGuarantee::ExactlyOnce).await.unwrap();
    let off = datasail(&double, &[("job.writer.session_properties", r#"{"insert_deduplicate":"0"}"#)]);
    let error = off.check(DeliveryGuarantee::ExactlyOnce).await.unwrap_err();
    assert!(error.message().contains("insert_deduplicate"), "{error}");
}
