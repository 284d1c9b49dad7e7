//! Offsets on their way to the group: one request at a time, and again what did not arrive.
//!
//! A failure never disturbs the reading, as the host's checkpoint is the truth. But offsets that a rebalance or a moving
//! coordinator kept from arriving are sent again: rows that come no more would otherwise leave them behind for ever,
//! and whoever reads the partition next would begin too early.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::CString,
    time::{Duration, Instant},
};

use rdkafka::{Offset, TopicPartitionList, consumer::BaseConsumer, types::RDKafkaErrorCode as Code};

use crate::{
    client::Context,
    source::{batch_poll::CommitQueue, discovery::Place},
};

/// How long offsets that were refused wait for their next try.
const AGAIN: Duration = Duration::from_millis(250);

/// The offsets of one reader.
pub(super) struct Commits<'c> {
    queue: CommitQueue<'c, Context>,
    /// The group lets nobody but its members write offsets while it has some.
    as_member: bool,
    /// To be sent: the latest offset of each partition.
    waiting: BTreeMap<Place, i64>,
    /// What the request that is not answered yet carries, but for what was forgotten since.
    sent: Option<BTreeMap<Place, i64>>,
    /// When the next request may go out.
    not_before: Instant,
}

impl<'c> Commits<'c> {
    /// `None` when librdkafka has no memory for it.
    pub(super) fn new(consumer: &'c BaseConsumer<Context>, group: CString, as_member: bool) -> Option<Self> {
        let queue = CommitQueue::new(consumer, group)?;
        Some(Self { queue, as_member, waiting: BTreeMap::new(), sent: None, not_before: Instant::now() })
    }

    /// Takes offsets to be sent; a later one of a partition replaces an earlier one.
    pub(super) fn add(&mut self, offsets: impl IntoIterator<Item = (Place, i64)>) {
        self.waiting.extend(offsets);
        self.send();
    }

    /// Forgets partitions that others read from now on: their offsets are no longer ours to say.
    pub(super) fn forget(&mut self, places: &HashSet<Place>) {
        self.waiting.retain(|place, _| !places.contains(place));
        if let Some(sent) = &mut self.sent {
            sent.retain(|place, _| !places.contains(place));
        }
    }

    /// True when every offset has arrived or was given up.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_none()
    }

    /// Sends what waits, and gives the result of a request if there is one within `timeout`.
    pub(super) fn serve(&mut self, timeout: Duration) -> Option<Result<(), Code>> {
        self.send();
        if self.sent.is_none() {
            if !self.waiting.is_empty() {
                std::thread::park_timeout(timeout);
            }
            return None;
        }
        let result = self.queue.result(timeout)?;
        let sent = self.sent.take().unwrap_or_default();
        if let Err(code) = result
            && may_pass(code)
        {
            for (place, offset) in sent {
                self.waiting.entry(place).or_insert(offset);
            }
            self.not_before = Instant::now() + AGAIN;
        }
        self.send();
        Some(result)
    }

    fn send(&mut self) {
        if self.sent.is_some() || self.waiting.is_empty() || Instant::now() < self.not_before {
            return;
        }
        let offsets = std::mem::take(&mut self.waiting);
        let mut list = TopicPartitionList::new();
        for ((topic, partition), offset) in &offsets {
            if let Err(e) = list.add_partition_offset(topic, *partition, Offset::Offset(*offset)) {
                tracing::debug!(topic, partition, offset, error = %e, "an offset cannot be committed");
            }
        }
        let sent = if self.as_member { self.queue.commit_as_member(&list) } else { self.queue.commit(&list) };
        self.sent = sent.then_some(offsets);
    }
}

/// Whether the same offsets may be taken later. Of a group that may not be used, or that this member is no longer part of,
/// nothing more is to be expected: what it gives next comes with offsets of its own.
fn may_pass(code: Code) -> bool {
    !matches!(
        code,
        Code::GroupAuthorizationFailed
            | Code::TopicAuthorizationFailed
            | Code::UnknownMemberId
            | Code::FencedInstanceId
            | Code::OffsetMetadataTooLarge
            | Code::UnknownTopicOrPartition
    )
}
