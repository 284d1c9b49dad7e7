//! Both spellings: defaults, bounds, refusals, and that OPTIONS.md is what the declarations say.

use std::{fs, path::Path};

use connector_bytehouse_cdw::{
    BytehouseCdwSink, BytehouseCdwSinkOptions, BytehouseCdwWriterOptions, options::SinkModeName,
};
use connector_core::{ErrorKind, options::markdown};

fn flink(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let base = [("host", "h"), ("virtual-warehouse", "vw"), ("api-token", "hunter2")];
    base.iter().chain(more).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn datasail(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let base = [
        ("job.writer.host", "h"),
        ("job.writer.virtual_warehouse", "vw"),
        ("job.writer.token", "hunter2"),
        ("job.writer.db_name", "app"),
        ("job.writer.table_name", "orders"),
    ];
    base.iter().chain(more).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn refused(options: Vec<(String, String)>) -> String {
    let error = BytehouseCdwSink::from_options(options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid);
    assert!(!error.to_string().contains("hunter2"), "{error}");
    error.to_string()
}

#[test]
fn defaults_are_those_of_each_spelling() {
    let options = BytehouseCdwSinkOptions::from_options(flink(&[])).unwrap();
    assert_eq!(options.mode, SinkModeName::Upsert);
    assert_eq!((options.flush_max_rows, options.port, options.max_retries), (50_000, 19_000, 15));
    let options = BytehouseCdwWriterOptions::from_options(datasail(&[])).unwrap();
    assert_eq!((options.buffer_count, options.flush_interval.as_millis()), (8192, 60_000));
    BytehouseCdwSink::from_options(flink(&[])).unwrap();
    BytehouseCdwSink::from_options(datasail(&[])).unwrap();
}

#[test]
fn bounds_unknown_keys_and_mixtures_are_errors_that_help() {
    assert!(refused(flink(&[("sink.buffer-flush.interval", "100ms")])).contains("200ms"));
    assert!(refused(flink(&[("sink.buffer-flush.max-rows", "99")])).contains("100"));
    assert!(refused(flink(&[("sink.max-retries", "-2")])).contains("-1"));
    assert!(
        refused(flink(&[("sink.buffer-flush.intervall", "1s")])).contains("`sink.buffer-flush.interval`")
    );
    let mixed = refused(flink(&[("job.writer.buffer_count", "10")]));
    assert!(mixed.contains("job.writer.buffer_count"), "{mixed}");
    assert!(refused(vec![("host".into(), "h".into())]).contains("api-token"));
    assert!(
        refused(datasail(&[("job.writer.bh_connection_properties", r#"{"sslmod":"none"}"#)]))
            .contains("sslmod")
    );
}

#[test]
fn what_this_version_does_not_do_is_refused_by_name() {
    for (key, value) in [("job.common.is_merge_job", "true"), ("job.common.time_unit", "DAY")] {
        let text = refused(datasail(&[(key, value)]));
        assert!(text.contains(key) && text.contains("this version does not"), "{text}");
    }
    assert!(refused(flink(&[("table-options", "a=1")])).contains("Transform"));
}

#[test]
fn secrets_are_never_shown() {
    let options = BytehouseCdwSinkOptions::from_options(flink(&[])).unwrap();
    assert!(!format!("{options:?}").contains("hunter2"));
    let sink = BytehouseCdwSink::from_options(flink(&[])).unwrap();
    assert!(!format!("{sink:?}").contains("hunter2"));
}

#[test]
fn properties_and_settings_are_masked_wherever_they_may_show() {
    let flink = flink(&[
        ("connection-properties", r#"{"password":"hunter2"}"#),
        ("query.settings", "s3_access_key_secret='hunter2'"),
    ]);
    let datasail = datasail(&[
        ("job.writer.bh_connection_properties", r#"{"password":"hunter2"}"#),
        ("job.writer.session_properties", r#"{"s3_access_key_secret":"hunter2"}"#),
    ]);
    let shown = [
        format!("{:?}", BytehouseCdwSinkOptions::from_options(flink.clone()).unwrap()),
        format!("{:?}", BytehouseCdwWriterOptions::from_options(datasail.clone()).unwrap()),
        format!("{:?}", BytehouseCdwSink::from_options(flink).unwrap()),
        format!("{:?}", BytehouseCdwSink::from_options(datasail).unwrap()),
    ];
    shown.iter().for_each(|text| assert!(!text.contains("hunter2"), "{text}"));
}

/// Writes OPTIONS.md with `UPDATE_DOCS=1`, else compares.
#[test]
fn options_md_is_what_the_declarations_say() {
    let text = format!(
        "# Options of connector-bytehouse-cdw\n\nWritten by a test (`UPDATE_DOCS=1 cargo test -p connector-bytehouse-cdw options_md`).\n\n{}",
        markdown(&[BytehouseCdwSinkOptions::OPTIONS, BytehouseCdwWriterOptions::OPTIONS])
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("OPTIONS.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "run it with UPDATE_DOCS=1");
}

#[test]
fn options_of_created_tables_are_checked_before_anything_is_sent() {
    let clustered = [("job.writer.ddl_create_table_cluster_by_fields", "id")];
    assert!(refused(datasail(&clustered)).contains("ddl_create_table_buckets"));
    let buckets = [("job.writer.ddl_create_table_buckets", "4")];
    assert!(refused(datasail(&buckets)).contains("ddl_create_table_cluster_by_fields"));
    let foreign = [clustered[0], buckets[0], ("job.writer.cnch_engine", "false")];
    assert!(refused(datasail(&foreign)).contains("CLUSTER BY"));
    let settings = [("job.writer.ddl_create_table_settings", r#"{"a b": 1}"#)];
    assert!(refused(datasail(&settings)).contains("ddl_create_table_settings"));
    let injected = [("job.writer.ddl_create_table_settings", r#"{"a=1,b": 1}"#)];
    assert!(refused(datasail(&injected)).contains("ddl_create_table_settings"));
    let strategy = [("job.writer.table_without_primary_key_strategy", "DROP")];
    assert!(refused(datasail(&strategy)).contains("CREATE_AS_APPEND"));
}
