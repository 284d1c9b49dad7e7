//! What a reader reads and how far it has come: [`KafkaSplit`], [`KafkaOffset`].

use std::fmt;

use connector_core::{Offset, Split, SplitId};
use serde::{Deserialize, Serialize};

/// An offset of a partition: the next record to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KafkaOffset(pub i64);

impl fmt::Display for KafkaOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Offset for KafkaOffset {}

/// One partition of one topic, where reading goes on, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaSplit {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next record to read; `None` until the start has been looked up.
    #[serde(default)]
    pub offset: Option<KafkaOffset>,
    /// The first offset that is not read any more; `None` for a split without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<KafkaOffset>,
    /// Whether the split's end moves with records that come while it waits there (`wait_poll_empty_times`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open_end: bool,
}

impl KafkaSplit {
    /// A split whose start a source looks up when it opens a reader, by its startup mode.
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self { topic: topic.into(), partition, offset: None, stop: None, open_end: false }
    }

    /// The same split with its offset at `offset`.
    #[must_use]
    pub fn starting_at(mut self, offset: i64) -> Self {
        self.offset = Some(KafkaOffset(offset));
        self
    }

    /// True when nothing is left to read. A split without end never is.
    pub fn is_finished(&self) -> bool {
        matches!((self.offset, self.stop), (Some(offset), Some(stop)) if offset >= stop)
    }
}

/// The id of a partition's split.
pub(crate) fn split_id(topic: &str, partition: i32) -> SplitId {
    SplitId::new(format!("{topic}-{partition}"))
}

impl Split for KafkaSplit {
    type Offset = KafkaOffset;

    const FORMAT_VERSION: u32 = 1;

    /// The topic and the partition with a `-` between them. The partition has none, so the last `-` divides.
    fn id(&self) -> SplitId {
        split_id(&self.topic, self.partition)
    }

    fn offset(&self) -> Option<&KafkaOffset> {
        self.offset.as_ref()
    }

    fn seek(&mut self, offset: KafkaOffset) {
        self.offset = Some(offset);
    }

    fn end_before(&mut self, end: &KafkaOffset) {
        self.open_end = false;
        self.stop = Some(self.stop.map_or(*end, |stop| stop.min(*end)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serialized_form_is_that_of_version_1() {
        let golden = include_str!("../../tests/golden/split-v1.json");
        let splits: Vec<KafkaSplit> = serde_json::from_str(golden).unwrap();
        let end = KafkaSplit {
            stop: Some(KafkaOffset(100)),
            ..KafkaSplit::new("orders.eu-west", 12).starting_at(7)
        };
        assert_eq!(splits, [KafkaSplit::new("orders", 3).starting_at(42), end, KafkaSplit::new("new", 0)]);
        assert_eq!(serde_json::to_string_pretty(&splits).unwrap(), golden.trim_end());
        assert_eq!(KafkaSplit::FORMAT_VERSION, 1);
    }

    #[test]
    fn unknown_fields_are_refused() {
        let text = r#"{"topic":"t","partition":0,"offset":1,"leader":2}"#;
        assert!(serde_json::from_str::<KafkaSplit>(text).is_err());
    }

    #[test]
    fn ids_tell_partitions_of_dashed_topics_apart() {
        assert_eq!(KafkaSplit::new("a-1", 2).id().as_str(), "a-1-2");
        assert_ne!(KafkaSplit::new("a-1", 2).id(), KafkaSplit::new("a", 12).id());
    }

    #[test]
    fn an_earlier_end_stays() {
        let mut split = KafkaSplit::new("t", 0).starting_at(5);
        assert!(!split.is_finished());
        split.end_before(&KafkaOffset(10));
        split.end_before(&KafkaOffset(20));
        assert_eq!(split.stop, Some(KafkaOffset(10)));
        assert!(!split.is_finished());
        split.seek(KafkaOffset(10));
        assert!(split.is_finished());
    }
}
