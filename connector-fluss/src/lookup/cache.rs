//! What was looked up, kept for a while.

use std::{sync::Arc, time::Duration};

use fluss::client::LookupResult;
use moka::sync::Cache;

use crate::options::{FlussOptions, LookupCache};

/// Rows of a key, as the servers gave them; none for a key that is not there.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) rows: Arc<LookupResult>,
    pub(super) count: usize,
}

/// Keys in comparable bytes, and their rows.
pub(super) struct PartialCache {
    cache: Cache<Box<[u8]>, Entry>,
    keeps_missing: bool,
}

impl PartialCache {
    /// `None` where the options ask for none.
    pub(super) fn new(options: &FlussOptions) -> Option<Self> {
        if options.lookup_cache == LookupCache::None {
            return None;
        }
        let cache = build(
            options.cache_max_rows.and_then(|rows| u64::try_from(rows).ok()),
            options.cache_expire_after_access,
            options.cache_expire_after_write,
            // A key without rows takes room too.
            |entry: &Entry| u32::try_from(entry.count.max(1)).unwrap_or(u32::MAX),
        );
        Some(Self { cache, keeps_missing: options.cache_missing_key })
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Entry> {
        self.cache.get(key)
    }

    pub(super) fn keep(&self, key: &[u8], entry: &Entry) {
        if entry.count > 0 || self.keeps_missing {
            self.cache.insert(key.into(), entry.clone());
        }
    }
}

fn build<V: Clone + Send + Sync + 'static>(
    max_rows: Option<u64>,
    after_access: Option<Duration>,
    after_write: Option<Duration>,
    weight: impl Fn(&V) -> u32 + Send + Sync + 'static,
) -> Cache<Box<[u8]>, V> {
    let mut builder = Cache::builder().weigher(move |_, value: &V| weight(value));
    if let Some(rows) = max_rows {
        builder = builder.max_capacity(rows);
    }
    if let Some(time) = after_access {
        builder = builder.time_to_idle(time);
    }
    if let Some(time) = after_write {
        builder = builder.time_to_live(time);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_bound_the_cache_and_times_empty_it() {
        let cache = build(Some(10), None, None, |rows: &u32| *rows);
        for key in 0..100u8 {
            cache.insert([key].into(), 2);
        }
        cache.run_pending_tasks();
        assert!(cache.weighted_size() <= 10 && cache.entry_count() > 0, "{}", cache.weighted_size());
        let short = Duration::from_millis(60);
        for (access, write) in [(Some(short), None), (None, Some(short))] {
            let cache = build(None, access, write, |rows: &u32| *rows);
            cache.insert([1].into(), 1);
            assert_eq!(cache.get([1].as_slice()), Some(1));
            #[allow(clippy::disallowed_methods, reason = "a test without a runtime")]
            std::thread::sleep(short * 3);
            assert_eq!(cache.get([1].as_slice()), None);
        }
    }
}
