//! How `prefetch_bytes` is divided.

/// What librdkafka keeps for a record besides its bytes.
const RECORD_OVERHEAD: u64 = 400;
/// What a consumer is prepared to receive at once by default. Only a smaller bound makes it less.
const LARGEST_FETCH: u64 = 50 << 20;

/// Shares of a reader's memory, in sixteenths of `prefetch_bytes`: 4 for the bytes of queued records and 3
/// for librdkafka's books about them, 1 for an answer of a broker that is just being received, 5 for rows
/// under construction and 3 for batches that wait to be pulled.
///
/// librdkafka stops fetching when a bound is reached, not before, so an answer that is under way then comes
/// on top: one for each broker. Records that are much smaller than a hundred bytes take more than their
/// share for the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    queued_kbytes: u64,
    queued_records: u64,
    fetch_bytes: u64,
    /// Bytes of rows under construction.
    pub(crate) building: usize,
    /// Bytes of batches that wait to be pulled.
    pub(crate) handover: usize,
}

impl MemoryPlan {
    pub(crate) fn new(prefetch_bytes: u64) -> Self {
        let share = prefetch_bytes / 16;
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            queued_kbytes: (share * 4 / 1024).clamp(1, 2_097_151),
            queued_records: (share * 3 / RECORD_OVERHEAD).clamp(1, 10_000_000),
            fetch_bytes: share.clamp(1000, LARGEST_FETCH),
            building: size(share * 5),
            handover: size(share * 3),
        }
    }

    pub(crate) fn client_properties(&self) -> [(&'static str, String); 5] {
        [
            ("queued.max.messages.kbytes", self.queued_kbytes.to_string()),
            ("queued.min.messages", self.queued_records.to_string()),
            ("fetch.max.bytes", self.fetch_bytes.to_string()),
            // librdkafka wants the fetch to be no smaller than this. It bounds nothing for a consumer: a record
            // that is larger comes all the same.
            ("message.max.bytes", self.fetch_bytes.min(1_000_000).to_string()),
            ("fetch.message.max.bytes", self.fetch_bytes.min(1 << 20).to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_add_up_to_no_more_than_the_whole() {
        for prefetch in [1 << 20, 32 << 20, 1 << 30] {
            let plan = MemoryPlan::new(prefetch);
            let sum = plan.queued_kbytes * 1024
                + plan.queued_records * RECORD_OVERHEAD
                + plan.fetch_bytes
                + u64::try_from(plan.building + plan.handover).unwrap();
            assert!(sum <= prefetch, "{plan:?}");
        }
    }

    #[test]
    fn librdkafka_accepts_every_plan() {
        for prefetch in [1 << 20, 32 << 20, 1 << 40, u64::MAX] {
            let mut config = rdkafka::ClientConfig::new();
            for (name, value) in MemoryPlan::new(prefetch).client_properties() {
                config.set(name, value);
            }
            config.set("group.id", "g").create::<rdkafka::consumer::BaseConsumer>().unwrap();
        }
    }
}
