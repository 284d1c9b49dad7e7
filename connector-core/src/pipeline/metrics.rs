//! What a pipeline counts, through the `metrics` facade. Every name carries the labels `pipeline` and `chain`.

use metrics::{Counter, Gauge, Histogram, Label};

/// Rows handed over by the reader.
pub const ROWS_READ: &str = "connector_rows_read_total";
/// Bytes of memory of the rows handed over by the reader.
pub const BYTES_READ: &str = "connector_bytes_read_total";
/// Gauge: bytes of memory between the reader and the writer.
pub const IN_FLIGHT_BYTES: &str = "connector_in_flight_bytes";
/// Rows that the sink has made durable, after compaction.
pub const ROWS_WRITTEN: &str = "connector_rows_written_total";
/// Bytes sent for them.
pub const BYTES_WRITTEN: &str = "connector_bytes_written_total";
/// Rows that the sink refused under the policies `skip` and `dead-letter`.
pub const ROWS_REJECTED: &str = "connector_rows_rejected_total";
/// Records and rows written to the dead-letter sink.
pub const DEAD_LETTERS: &str = "connector_dead_letters_total";
/// Flushes that brought rows.
pub const FLUSHES: &str = "connector_flushes_total";
/// Seconds that a flush took.
pub const FLUSH_SECONDS: &str = "connector_flush_seconds";
/// Rows of a flush.
pub const FLUSH_ROWS: &str = "connector_flush_rows";
/// Checkpoints stored.
pub const CHECKPOINTS: &str = "connector_checkpoints_total";
/// When the last checkpoint was stored, in seconds since 1970; its age is the time since then.
pub const CHECKPOINT_TIME: &str = "connector_checkpoint_timestamp_seconds";
/// Schema changes that were applied.
pub const SCHEMA_CHANGES: &str = "connector_schema_changes_total";

/// The handles of one chain, looked up once.
pub(super) struct ChainMetrics {
    pub(super) rows_read: Counter,
    pub(super) bytes_read: Counter,
    pub(super) rows_written: Counter,
    pub(super) bytes_written: Counter,
    pub(super) rows_rejected: Counter,
    pub(super) dead_letters: Counter,
    pub(super) flushes: Counter,
    pub(super) flush_seconds: Histogram,
    pub(super) flush_rows: Histogram,
    pub(super) checkpoints: Counter,
    pub(super) checkpoint_time: Gauge,
    pub(super) schema_changes: Counter,
}

impl ChainMetrics {
    pub(super) fn new(pipeline: &str, chain: usize) -> Self {
        let labels = labels(pipeline, chain);
        let counter = |name: &'static str| metrics::counter!(name, labels.clone());
        Self {
            rows_read: counter(ROWS_READ),
            bytes_read: counter(BYTES_READ),
            rows_written: counter(ROWS_WRITTEN),
            bytes_written: counter(BYTES_WRITTEN),
            rows_rejected: counter(ROWS_REJECTED),
            dead_letters: counter(DEAD_LETTERS),
            flushes: counter(FLUSHES),
            flush_seconds: metrics::histogram!(FLUSH_SECONDS, labels.clone()),
            flush_rows: metrics::histogram!(FLUSH_ROWS, labels.clone()),
            checkpoints: counter(CHECKPOINTS),
            checkpoint_time: metrics::gauge!(CHECKPOINT_TIME, labels.clone()),
            schema_changes: counter(SCHEMA_CHANGES),
        }
    }
}

/// How many bytes a chain's queue holds.
pub(super) fn in_flight(pipeline: &str, chain: usize) -> Gauge {
    metrics::gauge!(IN_FLIGHT_BYTES, labels(pipeline, chain))
}

fn labels(pipeline: &str, chain: usize) -> Vec<Label> {
    vec![Label::new("pipeline", pipeline.to_owned()), Label::new("chain", chain.to_string())]
}
