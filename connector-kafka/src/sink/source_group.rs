//! Exactly once from Kafka to Kafka: the offsets of the source's group go along with the records.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use connector_core::{Error, ErrorKind, Result, SourceOffsets, SplitId};
use rdkafka::{Offset, TopicPartitionList, consumer::ConsumerGroupMetadata};
use serde_json::Value;

use super::{Inner, partitions_of};
use crate::{
    client::{Admin, Cancelled},
    error,
};

/// The group of the option `source_group`.
#[derive(Clone)]
pub(super) struct SourceGroup {
    pub(super) name: Arc<str>,
    pub(super) metadata: Arc<ConsumerGroupMetadata>,
    /// Topics that the cluster was asked for.
    found: Arc<Mutex<BTreeSet<String>>>,
}

impl SourceGroup {
    pub(super) fn new(name: &str, metadata: ConsumerGroupMetadata) -> Self {
        Self { name: name.into(), metadata: Arc::new(metadata), found: Arc::default() }
    }

    /// What is to be committed to the group.
    ///
    /// # Errors
    /// `OptionInvalid` when the source is not Kafka, or of another cluster as far as that can be seen.
    pub(super) fn offsets(
        &self,
        inner: &Inner,
        offsets: &SourceOffsets,
        cancelled: &Cancelled,
    ) -> Result<TopicPartitionList> {
        let list = positions(offsets).map_err(|e| e.with_context("source_group", &self.name))?;
        for element in list.elements() {
            self.find(inner, element.topic(), cancelled)?;
        }
        Ok(list)
    }

    /// Asks the cluster for a topic, once: a commit for one that it does not have is only tried again and again.
    fn find(&self, inner: &Inner, topic: &str, cancelled: &Cancelled) -> Result<()> {
        let found = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found().contains(topic) {
            return Ok(());
        }
        partitions_of(&Admin::new(&inner.admin, cancelled)?, topic).map_err(|e| match e.kind() {
            ErrorKind::NotFound => foreign("the sink's cluster has no such topic")
                .with_context("topic", topic)
                .with_context("source_group", &self.name),
            _ => e,
        })?;
        found().insert(topic.to_owned());
        Ok(())
    }
}

fn foreign(what: &str) -> Error {
    let text =
        format!("{what}: `source_group` is for a source that is Kafka, and the same cluster as the sink's");
    Error::new(ErrorKind::OptionInvalid, text)
}

/// The source's offsets as a group keeps them: the next record to read of each partition.
fn positions(offsets: &SourceOffsets) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (split, offset) in offsets.iter() {
        let (topic, partition, offset) = position(split, offset)
            .ok_or_else(|| foreign("the source's splits are no partitions").with_context("split", split))?;
        list.add_partition_offset(topic, partition, Offset::Offset(offset))
            .map_err(|e| error::from_kafka(&e, ""))?;
    }
    Ok(list)
}

/// Takes the id of a split of our source apart; see [`KafkaSplit`](crate::KafkaSplit).
fn position<'a>(split: &'a SplitId, offset: &Value) -> Option<(&'a str, i32, i64)> {
    let (topic, partition) = split.as_str().rsplit_once('-')?;
    let partition = partition.parse().ok().filter(|partition| *partition >= 0)?;
    let offset = offset.as_i64().filter(|offset| *offset >= 0)?;
    (!topic.is_empty()).then_some((topic, partition, offset))
}

#[cfg(test)]
mod tests {
    use connector_core::Split as _;

    use super::*;
    use crate::KafkaSplit;

    #[test]
    fn splits_of_our_source_are_partitions() {
        let splits = [
            KafkaSplit::new("orders.eu-west-2", 12).starting_at(7),
            KafkaSplit::new("orders", 0).starting_at(0),
            // Nothing is known of its start yet.
            KafkaSplit::new("orders", 1),
        ];
        let list = positions(&SourceOffsets::of(&splits).unwrap()).unwrap();
        assert_eq!(list.count(), 2);
        for split in &splits[..2] {
            let found = list.find_partition(&split.topic, split.partition).unwrap();
            assert_eq!(found.offset(), Offset::Offset(split.offset().unwrap().0));
        }
    }

    #[test]
    fn other_splits_are_refused() {
        for (split, offset) in [
            ("orders", 7.into()),
            ("-1", 7.into()),
            ("orders-x", 7.into()),
            ("orders-1", Value::from("7")),
            ("orders-1", (-1).into()),
            ("orders-99999999999", 7.into()),
        ] {
            let mut offsets = SourceOffsets::default();
            offsets.insert(SplitId::new(split), offset);
            let error = positions(&offsets).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OptionInvalid, "{split}: {error}");
            assert!(error.to_string().contains("source_group"), "{error}");
        }
    }
}
