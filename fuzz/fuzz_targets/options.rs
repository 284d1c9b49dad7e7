#![no_main]

use connector_bytehouse_cdw::BytehouseCdwSink;
use connector_core::Secret;
use connector_kafka::KafkaSource;
use libfuzzer_sys::fuzz_target;

/// Lines of `key=value`; what is needed besides them is there, so that values get as far as they can.
fn pairs(text: &str, fixed: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> =
        text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
    for (key, value) in fixed {
        if !pairs.iter().any(|(known, _)| known == key) {
            pairs.push(((*key).into(), (*value).into()));
        }
    }
    pairs
}

fuzz_target!(|text: &str| {
    let secret = "s3cr3t-t0k3n";
    let kafka = [("job.reader.bootstrap_servers", "a:1"), ("job.reader.topics", "t")];
    let flink = [("host", "h"), ("virtual-warehouse", "w"), ("api-token", secret)];
    let datasail = [
        ("job.writer.host", "h"),
        ("job.writer.virtual_warehouse", "w"),
        ("job.writer.token", secret),
        ("job.writer.db_name", "d"),
        ("job.writer.table_name", "t"),
    ];
    let mut said = String::new();
    match KafkaSource::from_options(pairs(text, &kafka)) {
        Ok(source) => said += &format!("{source:?}"),
        Err(error) => said += &error.to_string(),
    }
    for fixed in [&flink[..], &datasail[..]] {
        match BytehouseCdwSink::from_options(pairs(text, fixed)) {
            Ok(sink) => said += &format!("{sink:?}"),
            Err(error) => said += &format!("{error} {error:?}"),
        }
    }
    assert!(!said.contains(secret) || text.contains(secret), "a secret shows: {said}");
    let shown = format!("{:?}", Secret::new(secret));
    assert!(!shown.contains(secret));
});
