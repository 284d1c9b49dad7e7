//! What the sink counts, by the `metrics` facade. Touched per batch and per flush.

use metrics::Counter;

/// Counter: records that the brokers have taken.
pub const RECORDS: &str = "connector_kafka_sink_records_total";
/// Counter: bytes of their keys and values.
pub const BYTES: &str = "connector_kafka_sink_bytes_total";
/// Counter: records that finally failed.
pub const FAILURES: &str = "connector_kafka_sink_failures_total";
/// Counter: transactions that were committed.
pub const TRANSACTIONS: &str = "connector_kafka_sink_transactions_total";
/// Counter: records larger than `big_message_threshold`.
pub const BIG_MESSAGES: &str = "connector_kafka_sink_big_messages_total";
/// Counter: rows of kinds that the format cannot say, and that are left out.
pub const ROWS_DROPPED: &str = "connector_kafka_sink_rows_dropped_total";

/// The handles of one writer.
pub(super) struct SinkMetrics {
    pub(super) records: Counter,
    pub(super) bytes: Counter,
    pub(super) failures: Counter,
    pub(super) transactions: Counter,
    pub(super) big_messages: Counter,
    pub(super) rows_dropped: Counter,
}

impl SinkMetrics {
    pub(super) fn new() -> Self {
        Self {
            records: metrics::counter!(RECORDS),
            bytes: metrics::counter!(BYTES),
            failures: metrics::counter!(FAILURES),
            transactions: metrics::counter!(TRANSACTIONS),
            big_messages: metrics::counter!(BIG_MESSAGES),
            rows_dropped: metrics::counter!(ROWS_DROPPED),
        }
    }
}
