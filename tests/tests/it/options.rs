//! The declared options against the list of all options of the mission, `tests/options.tsv`, both ways.

use connector_bytehouse_cdw::{BytehouseCdwSinkOptions, BytehouseCdwWriterOptions};
use connector_core::options::differences;
use connector_fluss::FlussOptions;
use connector_kafka::{KafkaSinkOptions, KafkaSourceOptions};

/// Options that are our own: in the code, not in the vendors' documents.
const OURS: [&str; 83] = [
    "kafka source job.reader.csv_delimiter",
    "kafka source job.reader.csv_quote",
    "kafka source job.reader.csv_null_text",
    "kafka source job.reader.csv_header",
    "kafka source job.reader.schema_registry_url",
    "kafka source job.reader.schema_registry_basic_auth",
    "kafka source job.reader.schema_registry_bearer_token",
    "kafka source job.reader.schema_registry_ca",
    "kafka source job.reader.assignment",
    "kafka source job.reader.bad_record_policy",
    "kafka source job.reader.max_batch_rows",
    "kafka source job.reader.max_batch_wait",
    "kafka source job.reader.prefetch_bytes",
    "kafka source job.reader.request_timeout",
    "kafka sink job.writer.key_format",
    "kafka sink job.writer.debezium_schema",
    "kafka sink job.writer.create_topic_enabled",
    "kafka sink job.writer.create_topic_partitions",
    "kafka sink job.writer.create_topic_replication_factor",
    "kafka sink job.writer.create_topic_properties",
    "kafka sink job.writer.transaction_timeout",
    "kafka sink job.writer.transaction_topic",
    "kafka sink job.writer.source_group",
    "kafka sink job.writer.csv_delimiter",
    "kafka sink job.writer.csv_quote",
    "kafka sink job.writer.csv_null_text",
    "kafka sink job.writer.csv_header",
    "kafka sink job.writer.buffer_bytes",
    "kafka sink job.writer.request_timeout",
    "fluss source scan.bounded",
    "fluss source scan.columns",
    "fluss source scan.snapshot.max-rows",
    "fluss source scan.max-batch-rows",
    "fluss source scan.offset-reset",
    "fluss source time-zone",
    "fluss sink client.writer.dynamic-create-partition.enabled",
    "fluss sink sink.partial-update",
    "fluss sink sink.flush-timeout",
    "fluss sink sink.require-primary-key",
    "fluss sink sink.create-table",
    "fluss client client.security.protocol",
    "fluss client client.security.sasl.mechanism",
    "fluss client client.security.sasl.username",
    "fluss client client.security.sasl.password",
    "fluss client table",
    "bytehouse-cdw sink table",
    "bytehouse-cdw sink sink.unique-keys",
    "bytehouse-cdw sink sink.buffer-flush.max-bytes",
    "bytehouse-cdw sink sink.bad-record-policy",
    "bytehouse-cdw sink sink.round-down",
    "bytehouse-cdw sink sink.clamp-times",
    "bytehouse-cdw sink sink.null-as-default",
    "bytehouse-cdw sink sink.invalid-as-null",
    "bytehouse-cdw sink sink.partial-update",
    "bytehouse-cdw sink sink.max-in-flight",
    "bytehouse-cdw sink sink.insertion-label",
    "bytehouse-cdw sink time-zone",
    "bytehouse-cdw sink case-insensitive",
    "bytehouse-cdw sink secure",
    "bytehouse-cdw sink cnch-engine",
    "bytehouse-cdw sink connection-properties",
    "bytehouse-cdw sink query.settings",
    "bytehouse-cdw sink max-partitions-per-insert-block",
    "bytehouse-cdw sink compression",
    "bytehouse-cdw sink query-timeout",
    "bytehouse-cdw sink connection-validity-timeout",
    "bytehouse-cdw sink protocol-revision",
    "bytehouse-cdw sink table.create.enabled",
    "bytehouse-cdw sink table.create.without-primary-key",
    "bytehouse-cdw sink job.writer.ddl_create_table_enabled",
    "bytehouse-cdw sink job.writer.atomic_write_replace_partitions",
    "bytehouse-cdw sink job.writer.atomic_write_leftover_age",
    "bytehouse-cdw sink job.writer.buffer_bytes",
    "bytehouse-cdw sink job.writer.bad_record_policy",
    "bytehouse-cdw sink job.writer.round_down",
    "bytehouse-cdw sink job.writer.clamp_times",
    "bytehouse-cdw sink job.writer.null_as_default",
    "bytehouse-cdw sink job.writer.invalid_as_null",
    "bytehouse-cdw sink job.writer.partial_update",
    "bytehouse-cdw sink job.writer.max_in_flight",
    "bytehouse-cdw sink job.writer.insertion_label",
    "bytehouse-cdw sink job.writer.compression",
    "bytehouse-cdw sink job.writer.protocol_revision",
];

#[test]
fn every_declared_option_is_the_one_of_the_list() {
    let sets = [
        KafkaSourceOptions::SET,
        KafkaSinkOptions::SET,
        FlussOptions::SET,
        BytehouseCdwWriterOptions::SET,
        BytehouseCdwSinkOptions::SET,
    ];
    let list = include_str!("../../options.tsv");
    let mut own = Vec::new();
    let mut wrong = Vec::new();
    for difference in differences(&sets, list) {
        match difference.strip_suffix(": is in the code, not in the list") {
            Some(option) if OURS.contains(&option) => own.push(option.to_owned()),
            _ => wrong.push(difference),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let gone: Vec<_> = OURS.iter().filter(|ours| !own.iter().any(|option| option == *ours)).collect();
    assert!(gone.is_empty(), "take these out of the list of our own options: {gone:?}");
}
