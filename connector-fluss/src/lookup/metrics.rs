//! What lookups count, by the `metrics` facade. Touched per batch of keys.

use metrics::Counter;

/// Counter: keys that were asked for.
pub const KEYS: &str = "connector_fluss_lookup_keys_total";
/// Counter: keys among them that the cache knew.
pub const CACHE_HITS: &str = "connector_fluss_lookup_cache_hits_total";
/// Counter: keys that had no row.
pub const MISSES: &str = "connector_fluss_lookup_misses_total";
/// Counter: tries that failed and were followed by another one.
pub const RETRIES: &str = "connector_fluss_lookup_retries_total";

/// The handles of one lookup.
pub(super) struct LookupMetrics {
    pub(super) keys: Counter,
    pub(super) cache_hits: Counter,
    pub(super) misses: Counter,
    pub(super) retries: Counter,
}

impl LookupMetrics {
    pub(super) fn new() -> Self {
        Self {
            keys: metrics::counter!(KEYS),
            cache_hits: metrics::counter!(CACHE_HITS),
            misses: metrics::counter!(MISSES),
            retries: metrics::counter!(RETRIES),
        }
    }
}
