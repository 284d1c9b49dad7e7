//! What the sink counts, through the `metrics` facade.

/// Rows of kinds that the mode does not take; label `table`.
pub const ROWS_DROPPED: &str = "connector_bytehouse_rows_dropped_total";
/// Tries that failed and were followed by another one.
pub const RETRIES: &str = "connector_bytehouse_retries_total";
/// Values that became null because their column cannot hold them; label `column`.
pub const VALUES_NULLED: &str = "connector_bytehouse_values_nulled_total";
/// INSERTs that were sent in parts because the server could not take them whole; label `table`.
pub const INSERTS_SPLIT: &str = "connector_bytehouse_inserts_split_total";
