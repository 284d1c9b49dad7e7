//! Every option of both spellings arrives in the configuration.

use connector_core::options::OptionSpec;

use super::*;
use crate::config::SinkConfig;

/// What an option shows in the configuration.
type Shown = fn(&SinkConfig) -> String;

/// Key, a value that is not the default, and what comes of it.
type Case = (&'static str, &'static str, Shown, &'static str);

const FLINK: [(&str, &str); 3] = [("host", "h"), ("virtual-warehouse", "vw"), ("api-token", "t")];
const DATASAIL: [(&str, &str); 5] = [
    ("job.writer.host", "h"),
    ("job.writer.virtual_warehouse", "vw"),
    ("job.writer.token", "t"),
    ("job.writer.db_name", "app"),
    ("job.writer.table_name", "orders"),
];

fn password(config: &SinkConfig) -> String {
    config.client.password.expose().to_owned()
}

fn warehouse(config: &SinkConfig) -> String {
    config.client.settings.get("virtual_warehouse").unwrap_or("none").to_owned()
}

fn setting(config: &SinkConfig) -> String {
    config.insert_settings.get("max_threads").unwrap_or("none").to_owned()
}

fn partitions(config: &SinkConfig) -> String {
    config.insert_settings.get("max_partitions_per_insert_block").unwrap_or("none").to_owned()
}

fn zone(config: &SinkConfig) -> String {
    config.rules.time_zone.as_ref().and_then(|zone| zone.iana_name()).unwrap_or("none").to_owned()
}

fn table(config: &SinkConfig) -> String {
    config.table.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn create_settings(config: &SinkConfig) -> String {
    config.creation.settings.get("a").map(|setting| setting.value.clone()).unwrap_or_default()
}

fn keyless(config: &SinkConfig) -> String {
    format!("{:?}", config.creation.keyless)
}

const FLINK_CASES: &[Case] = &[
    ("name", "the job", |c| c.client.client_name.clone(), "connectors-rs the job"),
    ("region", "VOLCANO_PRIVATE", |c| c.client.host.clone(), "h"),
    ("host", "other", |c| c.client.host.clone(), "other"),
    ("port", "9000", |c| c.client.port.to_string(), "9000"),
    ("virtual-warehouse", "vw2", warehouse, "vw2"),
    ("api-token", "a:b", password, "a:b"),
    ("sink.mode", "delete-only", |c| format!("{:?}", c.mode), "DeleteOnly"),
    ("sink.buffer-flush.interval", "200ms", |c| format!("{:?}", c.flush.max_interval), "200ms"),
    ("sink.buffer-flush.max-rows", "100", |c| c.flush.max_rows.to_string(), "100"),
    ("sink.buffer-flush.max-bytes", "1kb", |c| c.flush.max_bytes.to_string(), "1024"),
    ("sink.max-retries", "-1", |c| format!("{:?}", c.retry.max_retries), "None"),
    ("jdbc.max-retry-backoff", "1s", |c| format!("{:?}", c.retry.max_backoff), "1s"),
    ("timestamp-offset", "-8h", |c| format!("{:?}", c.rules.timestamp_offset), "Some(8h ago)"),
    ("table", "app.t", table, "app.t"),
    ("sink.unique-keys", "a,b", |c| c.unique_keys.join(" "), "a b"),
    ("sink.bad-record-policy", "skip", |c| format!("{:?}", c.bad_records), "Skip"),
    ("sink.round-down", "true", |c| c.rules.round_down.to_string(), "true"),
    ("sink.clamp-times", "true", |c| c.rules.clamp_times.to_string(), "true"),
    ("sink.null-as-default", "true", |c| c.rules.null_as_default.to_string(), "true"),
    ("sink.invalid-as-null", "true", |c| c.invalid_as_null.to_string(), "true"),
    ("sink.partial-update", "false", |c| format!("{:?}", c.partial_update), "Some(false)"),
    ("sink.max-in-flight", "5", |c| c.max_in_flight.to_string(), "5"),
    ("sink.insertion-label", "true", |c| c.insertion_label.to_string(), "true"),
    ("time-zone", "Asia/Shanghai", zone, "Asia/Shanghai"),
    ("case-insensitive", "false", |c| c.case_insensitive.to_string(), "false"),
    ("secure", "false", |c| c.client.tls.is_some().to_string(), "false"),
    ("cnch-engine", "false", |c| c.cnch_engine.to_string(), "false"),
    ("connection-properties", r#"{"user":"a::b"}"#, |c| c.client.user.clone(), "a::b"),
    ("query.settings", "max_threads=3", setting, "3"),
    ("max-partitions-per-insert-block", "7", partitions, "7"),
    ("table.create.settings", "a=1", create_settings, "1"),
    ("table.create.enabled", "false", |c| c.creation.enabled.to_string(), "false"),
    ("table.create.without-primary-key", "SKIP", keyless, "Skip"),
    ("compression", "lz4", |c| format!("{:?}", c.client.compression), "Lz4"),
    ("query-timeout", "5s", |c| format!("{:?}", c.client.query_timeout), "Some(5s)"),
    ("connection-validity-timeout", "3s", |c| format!("{:?}", c.validity_timeout), "3s"),
    ("protocol-revision", "54406", |c| c.client.revision.to_string(), "54406"),
];

const DATASAIL_CASES: &[Case] = &[
    ("job.common.global_timezone", "Asia/Shanghai", zone, "Asia/Shanghai"),
    (
        "job.common.cdc_multiplex_record_case_insensitive",
        "false",
        |c| c.case_insensitive.to_string(),
        "false",
    ),
    ("job.writer.host", "other", |c| c.client.host.clone(), "other"),
    ("job.writer.port", "9000", |c| c.client.port.to_string(), "9000"),
    ("job.writer.token", "a:b", password, "a:b"),
    ("job.writer.virtual_warehouse", "vw2", warehouse, "vw2"),
    ("job.writer.db_name", "other", table, "other.orders"),
    ("job.writer.table_name", "other", table, "app.other"),
    ("job.writer.buffer_count", "10", |c| c.flush.max_rows.to_string(), "10"),
    ("job.writer.buffer_bytes", "1kb", |c| c.flush.max_bytes.to_string(), "1024"),
    ("job.writer.flush_interval", "5", |c| format!("{:?}", c.flush.max_interval), "5ms"),
    ("job.writer.connection_validity_timeout", "3", |c| format!("{:?}", c.validity_timeout), "3s"),
    ("job.writer.max_partitions_per_insert_block", "7", partitions, "7"),
    ("job.writer.query_timeout", "5000", |c| format!("{:?}", c.client.query_timeout), "Some(5s)"),
    ("job.writer.secure", "false", |c| c.client.tls.is_some().to_string(), "false"),
    ("job.writer.cnch_engine", "false", |c| c.cnch_engine.to_string(), "false"),
    (
        "job.writer.bh_connection_properties",
        r#"{"connect_timeout":"7"}"#,
        |c| format!("{:?}", c.client.connect_timeout),
        "7ms",
    ),
    ("job.writer.session_properties", r#"{"max_threads":"3"}"#, setting, "3"),
    ("job.writer.write_mode", "UPSERT", |c| format!("{:?}", c.mode), "Upsert"),
    ("job.writer.bad_record_policy", "skip", |c| format!("{:?}", c.bad_records), "Skip"),
    ("job.writer.round_down", "true", |c| c.rules.round_down.to_string(), "true"),
    ("job.writer.clamp_times", "true", |c| c.rules.clamp_times.to_string(), "true"),
    ("job.writer.null_as_default", "true", |c| c.rules.null_as_default.to_string(), "true"),
    ("job.writer.invalid_as_null", "true", |c| c.invalid_as_null.to_string(), "true"),
    ("job.writer.max_in_flight", "5", |c| c.max_in_flight.to_string(), "5"),
    ("job.writer.insertion_label", "true", |c| c.insertion_label.to_string(), "true"),
    ("job.writer.ddl_create_table_order_by_fields", "a,b", |c| c.creation.order_by.join(" "), "a b"),
    ("job.writer.ddl_create_table_partition_by_fields", "a,b", |c| c.creation.partition_by.join(" "), "a b"),
    (
        "job.writer.ddl_create_table_sample_by_expression",
        "intHash32(a)",
        |c| c.creation.sample_by.clone().unwrap_or_default(),
        "intHash32(a)",
    ),
    (
        "job.writer.ddl_create_table_ttl_expression",
        "a + INTERVAL 1 DAY",
        |c| c.creation.ttl.clone().unwrap_or_default(),
        "a + INTERVAL 1 DAY",
    ),
    ("job.writer.ddl_create_table_settings", "a=1", create_settings, "1"),
    ("job.writer.ddl_create_table_enabled", "false", |c| c.creation.enabled.to_string(), "false"),
    ("job.writer.table_without_primary_key_strategy", "CREATE_AS_APPEND", keyless, "Append"),
    ("job.writer.compression", "zstd", |c| format!("{:?}", c.client.compression), "Zstd"),
    ("job.writer.protocol_revision", "54406", |c| c.client.revision.to_string(), "54406"),
];

/// Keys that the tests name elsewhere: they go with another option.
const ELSEWHERE: [&str; 11] = [
    "type",
    "job.common.job_type",
    "job.writer.unique_keys",
    "job.writer.partial_update",
    "job.writer.ddl_create_table_cluster_by_fields",
    "job.writer.ddl_create_table_buckets",
    "job.writer.atomic_write",
    "job.writer.atomic_write_retry_limits",
    "job.writer.atomic_write_retry_wait_millis",
    "job.writer.atomic_write_replace_partitions",
    "job.writer.atomic_write_leftover_age",
];

fn config(base: &[(&str, &str)], key: &str, value: &str) -> SinkConfig {
    let mut options: Vec<(String, String)> =
        base.iter().filter(|(k, _)| *k != key).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    options.push((key.to_owned(), value.to_owned()));
    BytehouseCdwSink::from_options(options).unwrap_or_else(|e| panic!("{key}: {e}")).config().clone()
}

fn every_option_arrives(base: &[(&str, &str)], cases: &[Case], declared: &[OptionSpec], others: &[&str]) {
    for (key, value, shown, wanted) in cases {
        assert_eq!(shown(&config(base, key, value)), *wanted, "{key}");
    }
    let covered = |key: &str| {
        cases.iter().any(|case| case.0 == key) || ELSEWHERE.contains(&key) || others.contains(&key)
    };
    let missing: Vec<&str> = declared.iter().map(|spec| spec.key).filter(|key| !covered(key)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn every_option_of_flinks_spelling() {
    every_option_arrives(&FLINK, FLINK_CASES, BytehouseCdwSinkOptions::OPTIONS, &[]);
}

#[test]
fn every_option_of_datasails_spelling() {
    every_option_arrives(&DATASAIL, DATASAIL_CASES, BytehouseCdwWriterOptions::OPTIONS, &[]);
    let mut upsert = DATASAIL.to_vec();
    upsert.push(("job.writer.write_mode", "UPSERT"));
    assert_eq!(config(&upsert, "job.writer.unique_keys", "a,b").unique_keys, ["a", "b"]);
    assert_eq!(config(&upsert, "job.writer.partial_update", "true").partial_update, Some(true));
    let mut buckets = DATASAIL.to_vec();
    buckets.push(("job.writer.ddl_create_table_cluster_by_fields", "a,b"));
    let creation = config(&buckets, "job.writer.ddl_create_table_buckets", "7").creation;
    assert_eq!((creation.cluster_by, creation.buckets), (vec!["a".to_owned(), "b".to_owned()], Some(7)));
}

#[test]
fn options_of_the_atomic_batch() {
    let mut batch = DATASAIL.to_vec();
    batch.push(("job.common.job_type", "BATCH"));
    assert!(config(&batch, "job.writer.atomic_write", "false").atomic.is_none());
    batch.push(("job.writer.atomic_write", "true"));
    let atomic = |key: &str, value: &str| config(&batch, key, value).atomic.unwrap();
    assert_eq!(atomic("job.writer.atomic_write_retry_limits", "3").retry_limits, 3);
    assert_eq!(atomic("job.writer.atomic_write_retry_wait_millis", "20").retry_wait.as_millis(), 20);
    assert!(atomic("job.writer.atomic_write_replace_partitions", "true").replace);
    assert_eq!(atomic("job.writer.atomic_write_leftover_age", "2h").leftover_age.as_secs(), 7200);
    assert!(config(&DATASAIL, "job.writer.atomic_write", "true").atomic.is_none(), "only with BATCH");
}

#[test]
fn an_open_source_server_gets_no_warehouse_and_another_user() {
    let config = config(&FLINK, "cnch-engine", "false");
    assert_eq!((warehouse(&config).as_str(), config.client.user.as_str()), ("none", "default"));
}

#[test]
fn options_that_contradict_each_other_or_would_lose_rows_are_refused() {
    for (key, value, more, words) in [
        ("query.settings", "insertion_label='a'", None, "labels"),
        ("query.settings", "insert_deduplication_token='a'", None, "the first one only"),
        ("query.settings", "wait_for_async_insert=0", None, "has not stored"),
        ("sink.unique-keys", "id", Some(("sink.mode", "insert")), "mode insert"),
        ("connection-properties", r#"{"sslmode":"none"}"#, Some(("secure", "false")), "without TLS"),
        ("connection-properties", r#"{"sslmode":"maybe"}"#, None, "verify-full"),
        ("connection-properties", r#"{"connect_timeout":"soon"}"#, None, "milliseconds"),
        ("region", "CN-NORTH-1", None, "VOLCANO_PRIVATE"),
        ("sink.max-in-flight", "0", None, "1"),
    ] {
        let mut options = FLINK.to_vec();
        options.push((key, value));
        options.extend(more);
        let error = BytehouseCdwSink::from_options(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains(key) && error.message().contains(words), "{error}");
    }
}
