//! What the sink counts, through the `metrics` facade.

/// Rows of kinds that the mode does not take; label `table`.
pub const ROWS_DROPPED: &str = "connector_bytehouse_rows_dropped_total";
/// Tries that failed and were followed by another one.
pub const RETRIES: &str = "connector_bytehouse_retries_total";
