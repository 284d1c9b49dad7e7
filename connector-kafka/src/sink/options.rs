//! The options of the sink, declared once.

use std::time::Duration;

use connector_core::{
    option_enum, option_set,
    options::{HostList, MemorySize, Millis, Problems, PropertyMap},
};

use crate::{
    options::FormatType,
    properties::{self, Role},
};

option_enum! {
    /// How several key columns become one message key.
    pub enum KeyFormat {
        /// Their texts, one after the other without anything between them. `("1", "23")` and `("12", "3")` are the same key.
        Concat = "concat",
        /// A JSON object of the key columns, which tells them apart.
        Json = "json",
    }
}

option_enum! {
    /// How batches of records are compressed.
    pub enum CompressionType {
        /// Not at all.
        None = "none",
        /// gzip.
        Gzip = "gzip",
        /// Snappy.
        Snappy = "snappy",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
}

option_set! {
    /// Options of [`KafkaSink`](crate::KafkaSink).
    pub struct KafkaSinkOptions, builder KafkaSinkOptionsBuilder {
        connector "kafka";
        role "sink";
        validate check;
        entries {
            "job.writer.properties" => properties::is_producer_property;
        }
        options {
            /// initial brokers
            "job.writer.bootstrap_servers" alias "job.writer.kafka_servers" => bootstrap_servers: HostList, required;
            /// the topic; `${database}` and `${table}` in it stand for those of the row's table
            "job.writer.topic_name" => topic_name: String, required;
            /// value format, case-insensitive
            "job.writer.format_type" alias "job.writer.content_type" => format_type: FormatType, default "json", allowed "json, DEBEZIUM_JSON and others";
            /// joined as the message key; unset: null key
            "job.writer.key_fields" => key_fields: Vec<String>, optional;
            /// how the key fields are joined (an option of this crate)
            "job.writer.key_format" => key_format: KeyFormat, default "concat";
            /// hash of the value chooses the partition; wins over key_fields
            "job.writer.partition_field" => partition_field: String, optional;
            /// change metadata as headers in the change formats: database, schema where there is one, table, and op (I, U or D); the others have none
            "job.writer.enable_headers" => enable_headers: bool, default true;
            /// whether events of the format debezium_json describe themselves, with their schema part (an option of this crate)
            "job.writer.debezium_schema" => debezium_schema: bool, default false;
            /// what stands between fields of the format csv (an option of this crate)
            "job.writer.csv_delimiter" => csv_delimiter: String, default ",";
            /// what stands around fields of the format csv that need it; empty: nothing, and such values are refused (an option of this crate)
            "job.writer.csv_quote" => csv_quote: String, default "\"";
            /// the text that is a null in the format csv (an option of this crate)
            "job.writer.csv_null_text" => csv_null_text: String, default "";
            /// whether each record of the format csv begins with a line that names its columns (an option of this crate)
            "job.writer.csv_header" => csv_header: bool, default false;
            /// true: a record that finally fails is logged and counted, the rest goes on
            "job.writer.log_failures_only" => log_failures_only: bool, default false;
            /// raw client properties, highest priority; names of the Java client are translated where they mean the same
            "job.writer.properties" alias "job.writer.extra_raw_properties" => properties: PropertyMap, optional;
            /// default of the property retries
            "job.writer.retries" => retries: u32, default 10, min 0;
            /// default of the property retry.backoff.ms
            "job.writer.retry_backoff_ms" => retry_backoff: Duration as Millis, default 1000, min 0;
            /// default of the property linger.ms; a flush does not wait for it
            "job.writer.linger_ms" => linger: Duration as Millis, default 5000, min 0;
            /// default of the property compression.type
            "job.writer.compression_type" => compression_type: CompressionType, default "snappy", shown "SNAPPY";
            /// larger messages are counted and logged, without their content, and sent all the same
            "job.writer.big_message_threshold" => big_message_threshold: u64, default 10485760, min 1, type_name "bytes", allowed ">0";
            /// memory of one writer for records that are not delivered yet (an option of this crate)
            "job.writer.buffer_bytes" => buffer_bytes: u64 as MemorySize, default "32mb", min "1mb";
            /// whether a topic that is missing is created; else it is an error (an option of this crate)
            "job.writer.create_topic_enabled" => create_topic_enabled: bool, default false;
            /// partitions of a created topic; unset: as many as the cluster's default says (an option of this crate)
            "job.writer.create_topic_partitions" => create_topic_partitions: u32, optional, min 1;
            /// replicas of each partition of a created topic; unset: as many as the cluster's default says (an option of this crate)
            "job.writer.create_topic_replication_factor" => create_topic_replication_factor: u32, optional, min 1, max 32767;
            /// configuration of a created topic, such as cleanup.policy (an option of this crate)
            "job.writer.create_topic_properties" => create_topic_properties: PropertyMap, optional;
            /// under exactly-once: how long a transaction may stay open before the broker aborts it; longer than a checkpoint interval with its flush (an option of this crate)
            "job.writer.transaction_timeout" => transaction_timeout: Duration, default "5m", min "1s", max "24d";
            /// under exactly-once: the topic under whose name the source's offsets are kept; unset: that of topic_name, where it has no placeholders (an option of this crate)
            "job.writer.transaction_topic" => transaction_topic: String, optional;
            /// under exactly-once, where the source is Kafka of the same cluster: the group to which each transaction commits the source's offsets, too; the source itself commits none then (an option of this crate)
            "job.writer.source_group" => source_group: String, optional;
            /// time-out of each question to the cluster (an option of this crate)
            "job.writer.request_timeout" => request_timeout: Duration, default "15s", min "100ms";
        }
    }
}

/// What options say about each other, and what only this crate can check.
fn check(options: &KafkaSinkOptions, problems: &mut Problems) {
    if let Err((option, text)) = super::Format::new(options) {
        problems.push(option, text);
    }
    if options.topic_name.trim().is_empty() {
        problems.push("job.writer.topic_name", "`topic_name` is empty");
    }
    if let Err(error) = super::topic::TopicTemplate::parse(&options.topic_name) {
        problems.push("job.writer.topic_name", error);
    }
    if options.source_group.as_ref().is_some_and(|group| group.trim().is_empty()) {
        problems.push("job.writer.source_group", "`source_group` is empty");
    }
    let of_creation = [
        ("create_topic_partitions", options.create_topic_partitions.is_some()),
        ("create_topic_replication_factor", options.create_topic_replication_factor.is_some()),
        ("create_topic_properties", options.create_topic_properties.is_some()),
    ];
    for (name, _) in of_creation.iter().filter(|(_, given)| *given && !options.create_topic_enabled) {
        let text = format!("`{name}` is given, and `create_topic_enabled` is false");
        problems.push(format!("job.writer.{name}"), text);
    }
    if options.key_fields.as_ref().is_some_and(Vec::is_empty) {
        problems.push("job.writer.key_fields", "`key_fields` names no column; leave it out for null keys");
    }
    // librdkafka's own limits for these properties.
    if options.retry_backoff > Duration::from_secs(300) {
        problems.push("job.writer.retry_backoff_ms", "`retry_backoff_ms` is above 300000");
    }
    if options.linger > Duration::from_secs(900) {
        problems.push("job.writer.linger_ms", "`linger_ms` is above 900000");
    }
    if let Some(map) = &options.properties {
        for (name, problem) in Role::Producer.problems(map) {
            problems.push(format!("job.writer.properties.{name}"), problem);
        }
    }
}
