//! What the source counts, by the `metrics` facade. Touched per batch.

use metrics::Counter;

/// Counter: rows handed out.
pub const ROWS: &str = "connector_fluss_source_rows_total";
/// Counter: rows of full reads of primary-key tables among them.
pub const SNAPSHOT_ROWS: &str = "connector_fluss_source_snapshot_rows_total";
/// Counter: offsets that were gone from the log and replaced as `scan.offset-reset` says.
pub const EXPIRED_OFFSETS: &str = "connector_fluss_source_expired_offsets_total";
/// Counter: times that reading a split was taken up again after an error.
pub const RETRIES: &str = "connector_fluss_source_retries_total";
/// Counter: splits that ended because their partition was dropped.
pub const DROPPED_PARTITIONS: &str = "connector_fluss_source_dropped_partitions_total";

/// The handles of one reader.
pub(crate) struct SourceMetrics {
    pub(crate) rows: Counter,
    pub(crate) snapshot_rows: Counter,
    pub(crate) expired_offsets: Counter,
    pub(crate) retries: Counter,
    pub(crate) dropped_partitions: Counter,
}

impl SourceMetrics {
    pub(crate) fn new() -> Self {
        Self {
            rows: metrics::counter!(ROWS),
            snapshot_rows: metrics::counter!(SNAPSHOT_ROWS),
            expired_offsets: metrics::counter!(EXPIRED_OFFSETS),
            retries: metrics::counter!(RETRIES),
            dropped_partitions: metrics::counter!(DROPPED_PARTITIONS),
        }
    }
}
