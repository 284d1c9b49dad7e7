//! What the sink counts, by the `metrics` facade. Touched per batch and per flush.

use metrics::Counter;

/// Counter: rows that the servers have taken.
pub const ROWS: &str = "connector_fluss_sink_rows_total";
/// Counter: rows left out by `sink.ignore-delete`.
pub const ROWS_DROPPED: &str = "connector_fluss_sink_rows_dropped_total";
/// Counter: writes that finally failed.
pub const FAILURES: &str = "connector_fluss_sink_failures_total";
/// Counter: partitions that were made for rows.
pub const PARTITIONS: &str = "connector_fluss_sink_partitions_created_total";

/// The handles of one writer.
pub(super) struct SinkMetrics {
    pub(super) rows: Counter,
    pub(super) rows_dropped: Counter,
    pub(super) failures: Counter,
    pub(super) partitions: Counter,
}

impl SinkMetrics {
    pub(super) fn new() -> Self {
        Self {
            rows: metrics::counter!(ROWS),
            rows_dropped: metrics::counter!(ROWS_DROPPED),
            failures: metrics::counter!(FAILURES),
            partitions: metrics::counter!(PARTITIONS),
        }
    }
}
