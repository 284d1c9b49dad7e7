//! What the source counts, by the `metrics` facade. Touched per batch, never per record.

use connector_core::BadRecordPolicy;
use metrics::{Counter, Gauge};

/// Counter: records taken from Kafka, whatever became of them.
pub const RECORDS: &str = "connector_kafka_source_records_total";
/// Counter: bytes of their values.
pub const BYTES: &str = "connector_kafka_source_bytes_total";
/// Counter: rows handed out.
pub const ROWS: &str = "connector_kafka_source_rows_total";
/// Counter: records without a value (tombstones), which are no rows.
pub const TOMBSTONES: &str = "connector_kafka_source_tombstones_total";
/// Counter: records that were read and are no rows: messages about statements and transactions, and events of tables
/// that are not asked for.
pub const ROWLESS: &str = "connector_kafka_source_rowless_records_total";
/// Counter, by `policy`: records that could not be read.
pub const BAD_RECORDS: &str = "connector_kafka_source_bad_records_total";
/// Counter: offsets that were gone from the log and replaced as `auto_offset_reset` says.
pub const EXPIRED_OFFSETS: &str = "connector_kafka_source_expired_offsets_total";
/// Counter, by `result` (`done`, `failed`): commits of acknowledged offsets to the group.
pub const COMMITS: &str = "connector_kafka_source_commits_total";
/// Gauge, by `topic` and `partition`: records between what was handed out and the end of the log.
pub const LAG: &str = "connector_kafka_source_lag";
/// Gauge: bytes of rows that are decoded and not pulled yet. What librdkafka holds comes on top.
pub const PREFETCH_BYTES: &str = "connector_kafka_source_prefetch_bytes";

/// The handles of one reader.
pub(crate) struct SourceMetrics {
    pub(crate) records: Counter,
    pub(crate) bytes: Counter,
    pub(crate) rows: Counter,
    pub(crate) tombstones: Counter,
    pub(crate) rowless: Counter,
    pub(crate) bad_records: Counter,
    pub(crate) prefetch_bytes: Gauge,
    pub(crate) commits_done: Counter,
    pub(crate) commits_failed: Counter,
}

impl SourceMetrics {
    pub(crate) fn new(policy: BadRecordPolicy) -> Self {
        Self {
            records: metrics::counter!(RECORDS),
            bytes: metrics::counter!(BYTES),
            rows: metrics::counter!(ROWS),
            tombstones: metrics::counter!(TOMBSTONES),
            rowless: metrics::counter!(ROWLESS),
            bad_records: metrics::counter!(BAD_RECORDS, "policy" => policy.as_str()),
            prefetch_bytes: metrics::gauge!(PREFETCH_BYTES),
            commits_done: metrics::counter!(COMMITS, "result" => "done"),
            commits_failed: metrics::counter!(COMMITS, "result" => "failed"),
        }
    }
}

/// Counts an offset that was gone.
pub(crate) fn count_expired(topic: &str) {
    metrics::counter!(EXPIRED_OFFSETS, "topic" => topic.to_owned()).increment(1);
}

/// The gauge of one split's lag.
pub(crate) fn lag_gauge(topic: &str, partition: i32) -> Gauge {
    metrics::gauge!(LAG, "topic" => topic.to_owned(), "partition" => partition.to_string())
}
