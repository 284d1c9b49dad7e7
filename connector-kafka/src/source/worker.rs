//! The thread of a reader: takes records from librdkafka, decodes them, hands them over.
//!
//! librdkafka's calls block, so all of them happen here and none on a thread of the runtime.

mod commits;
pub(crate) mod group;

use std::{
    collections::HashSet,
    ffi::CString,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{Error, ErrorKind, Result};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, KafkaResult},
    types::RDKafkaErrorCode as Code,
};
use tokio::sync::oneshot;

use self::{
    commits::Commits,
    group::{Group, GroupSettings},
};
use super::{
    batch_poll::{BatchQueue, Failure, Item, Messages},
    handover::{Assigned, Ending, Handover, Orders},
    health::Health,
    metrics::count_expired,
    parts::{Part, Parts, Shape},
};
use crate::{
    client::{ClientSettings, Context},
    error::{from_code, from_kafka},
    options::ResetPolicy,
};

/// Most records taken in one round.
const ROUND_RECORDS: usize = 1024;
/// Bytes of values that a round is meant to take at most; large records make it shorter.
const ROUND_BYTES: usize = 1 << 20;
/// Longest wait for a record: how late an order may be noticed.
const IDLE: Duration = Duration::from_millis(25);
/// How often the client's logs and errors are served while records flow.
const SERVE: Duration = Duration::from_millis(20);
/// How often offsets are moved past records that are no rows, in splits without end.
const ADVANCE: Duration = Duration::from_secs(1);
/// The same for splits that end: their end may be such a record.
const ADVANCE_BOUNDED: Duration = Duration::from_millis(25);
/// How long a position may still be wrong after a seek was asked for.
const SETTLE: Duration = Duration::from_secs(2);
/// How long the reading may stand still for a question to the cluster.
const LOOK_UP: Duration = Duration::from_secs(2);
/// How long a close waits for the commits it sent.
const COMMIT_WAIT: Duration = Duration::from_secs(2);

/// What the thread needs to know.
pub(crate) struct WorkerSettings {
    pub(crate) client: ClientSettings,
    /// The group to which acknowledged offsets are committed.
    pub(crate) group: CString,
    pub(crate) shape: Shape,
    /// Bytes that may wait to be pulled.
    pub(crate) handover_bytes: usize,
    /// What to do when an offset is gone; `None` to fail.
    pub(crate) reset: Option<ResetPolicy>,
    /// Where the group deals the partitions out.
    pub(crate) member: Option<GroupSettings>,
}

/// Tells the pulling side even when the thread panics.
struct FinishOnDrop<'h>(&'h Handover);

impl Drop for FinishOnDrop<'_> {
    fn drop(&mut self) {
        let error = Error::new(ErrorKind::Unexpected, "the reading thread ended without a reason");
        self.0.finish(Some(error.with_operation("kafka.fetch")));
    }
}

/// The thread's whole life.
pub(crate) fn run(settings: WorkerSettings, handover: &Arc<Handover>, started: oneshot::Sender<Result<()>>) {
    let guard = FinishOnDrop(handover);
    let consumer = match settings.client.consumer(&[]) {
        Ok(consumer) => consumer,
        Err(e) => {
            // Nobody waits for it when the opening was cancelled.
            drop(started.send(Err(e)));
            handover.finish(None);
            return;
        }
    };
    let queues = BatchQueue::new(&consumer, ROUND_RECORDS).zip(Commits::new(
        &consumer,
        settings.group.clone(),
        settings.member.is_some(),
    ));
    let Some((queue, commits)) = queues else {
        drop(started.send(Err(Error::new(ErrorKind::Unexpected, "librdkafka gives no queue"))));
        handover.finish(None);
        return;
    };
    if started.send(Ok(())).is_err() {
        handover.finish(None);
        return;
    }
    let parts = Parts::new(settings.shape.clone(), Arc::clone(handover));
    let health = Health::new(settings.client.request_timeout);
    let mut worker = Worker {
        consumer: &consumer,
        queue,
        handover,
        parts,
        health,
        settings: &settings,
        group: settings.member.clone().map(Group::new),
        given_up: HashSet::new(),
        commits,
        average: 0,
        served: Instant::now(),
        advanced: Instant::now(),
        advanced_bounded: Instant::now(),
    };
    if worker.group.is_some() {
        consumer.context().defer_rebalances(true);
    }
    let result = worker.work();
    if worker.group.is_some() {
        worker.leave_group();
    }
    // Whatever the group decides from now on is done at once: nothing is read any more.
    consumer.context().defer_rebalances(false);
    if result.is_err() {
        // What was read before the failure is still good.
        drop(worker.parts.hand_over_all());
    }
    handover.finish(result.err().map(|e| e.with_operation("kafka.fetch")));
    drop(worker);
    drop(guard);
    // The consumer goes last: letting go of it takes librdkafka a moment, and nobody waits for that.
}

struct Worker<'c> {
    consumer: &'c BaseConsumer<Context>,
    queue: BatchQueue<'c, Context>,
    handover: &'c Arc<Handover>,
    parts: Parts,
    health: Health,
    settings: &'c WorkerSettings,
    /// Membership in the group, where it deals the partitions out.
    group: Option<Group>,
    /// Partitions that were assigned once and are not now.
    given_up: HashSet<(String, i32)>,
    commits: Commits<'c>,
    /// Bytes of an average record, for the length of a round.
    average: usize,
    served: Instant,
    advanced: Instant,
    advanced_bounded: Instant,
}

impl Worker<'_> {
    fn work(&mut self) -> Result<()> {
        loop {
            let orders = self.handover.take_orders();
            let ending = orders.ending;
            if ending == Ending::Drop {
                return Ok(());
            }
            self.follow(orders)?;
            if ending == Ending::Close {
                self.settle_commits();
                return Ok(());
            }
            if self.served.elapsed() >= SERVE {
                self.serve_client()?;
            }
            self.check_topics()?;
            self.serve_group()?;
            self.advance()?;
            let now = Instant::now();
            self.parts.look_behind_stops(now);
            let due = self.parts.hand_over_due(now)?;
            self.let_go_of_done()?;
            if self.handover.wait_for_room(self.settings.handover_bytes, IDLE) {
                self.round(due.map_or(IDLE, |due| due.clamp(Duration::from_millis(1), IDLE)))?;
            }
        }
    }

    // Orders.

    fn follow(&mut self, orders: Orders) -> Result<()> {
        if !orders.remove.is_empty() {
            let gone = self.parts.remove(|part| orders.remove.contains(&part.token));
            self.unassign(&gone)?;
        }
        if !orders.add.is_empty() {
            self.assign(orders.add)?;
        }
        self.commits.add(orders.commit);
        if orders.release { self.finish_revoking() } else { Ok(()) }
    }

    fn assign(&mut self, splits: Vec<Assigned>) -> Result<()> {
        let mut list = TopicPartitionList::new();
        for assigned in splits {
            let (topic, partition) = (assigned.split.topic.clone(), assigned.split.partition);
            let again = self.given_up.remove(&(topic.clone(), partition));
            // A split that is finished before it begins needs nothing of librdkafka.
            let waits = assigned.split.open_end && assigned.split.offset == assigned.split.stop;
            let finished = assigned.split.is_finished() && !waits;
            self.parts.add(assigned, again)?;
            let Some(part) = self.parts.find(&topic, partition).filter(|_| !finished) else { continue };
            if !self.queue.forward(&part.topic_c, partition) {
                return Err(Error::new(ErrorKind::NotFound, "librdkafka does not know the partition")
                    .with_context("topic", topic)
                    .with_context("partition", partition));
            }
            list.add_partition_offset(&topic, partition, Offset::Offset(part.next)).map_err(refused)?;
        }
        if list.count() > 0 { self.consumer.incremental_assign(&list).map_err(refused) } else { Ok(()) }
    }

    fn unassign(&mut self, parts: &[Part]) -> Result<()> {
        let mut list = TopicPartitionList::new();
        // What was finished before it began was never assigned.
        let assigned = self.consumer.assignment().map_err(refused)?;
        for part in parts {
            if assigned.find_partition(&part.topic, part.partition).is_some() {
                list.add_partition(&part.topic, part.partition);
                self.given_up.insert((part.topic.clone(), part.partition));
            }
        }
        if list.count() > 0 { self.consumer.incremental_unassign(&list).map_err(refused) } else { Ok(()) }
    }

    fn let_go_of_done(&mut self) -> Result<()> {
        let done = self.parts.take_done();
        if done.is_empty() { Ok(()) } else { self.unassign(&done) }
    }

    /// Serves the offsets on their way to the group. A failure is counted, never more: the host's checkpoint is the truth.
    fn serve_commits(&mut self, timeout: Duration) {
        while let Some(result) = self.commits.serve(timeout) {
            match result {
                Ok(()) => {
                    self.parts.metrics.commits_done.increment(1);
                    tracing::debug!("the group has taken offsets");
                }
                Err(code) => {
                    self.parts.metrics.commits_failed.increment(1);
                    self.health.commit_failed(&code.to_string());
                }
            }
        }
    }

    /// Gives the offsets that were acknowledged last some time to arrive.
    fn settle_commits(&mut self) {
        let until = Instant::now() + COMMIT_WAIT;
        while !self.commits.is_settled() && Instant::now() < until {
            self.serve_commits(IDLE);
        }
    }

    // Records.

    /// Takes what is there, or waits a moment for something.
    fn round(&mut self, wait: Duration) -> Result<()> {
        let bytes = ROUND_BYTES.min(self.settings.shape.building_bytes / 4);
        let room = bytes.checked_div(self.average).unwrap_or(ROUND_RECORDS);
        let mut messages = self.queue.poll(room);
        if messages.is_empty() {
            drop(messages);
            messages = self.queue.wait(wait);
        }
        let mut troubles = messages.take_failure().map(|failure| vec![failure]).unwrap_or_default();
        let before = troubles.len();
        let took = take(&mut self.parts, &messages, &mut self.average, &mut troubles);
        if messages.len() > troubles.len() - before {
            self.health.works();
        }
        drop(messages);
        took?;
        self.parts.keep_within_bounds()?;
        troubles.into_iter().try_for_each(|failure| self.trouble(failure))
    }

    /// Moves offsets past what is no row: markers, aborted records, holes left by compaction.
    fn advance(&mut self) -> Result<()> {
        let bounded = self.advanced_bounded.elapsed() >= ADVANCE_BOUNDED
            && self.parts.iter().any(|part| part.stop.is_some() && !part.is_done());
        let all = self.advanced.elapsed() >= ADVANCE;
        if !bounded && !all {
            return Ok(());
        }
        let now = Instant::now();
        self.advanced_bounded = now;
        if all {
            self.advanced = now;
        }
        // All that was taken from the queue has been worked off, so no position is ahead of us.
        let positions = self.consumer.position().map_err(|e| from_kafka(&e, ""))?;
        for element in positions.elements() {
            let Offset::Offset(position) = element.offset() else { continue };
            let Some(part) = self.parts.find(element.topic(), element.partition()) else { continue };
            if (all || part.stop.is_some()) && part.position_from.is_none_or(|from| from <= now) {
                part.advance_to(position, now);
            }
        }
        if all {
            self.note_lag();
        }
        for part in self.parts.iter().filter(|part| part.forward_again) {
            self.queue.forward(&part.topic_c, part.partition);
        }
        Ok(())
    }

    fn note_lag(&mut self) {
        for part in self.parts.iter() {
            if let Some(end) = self.queue.cached_end(&part.topic_c, part.partition) {
                part.set_lag(end);
            }
        }
    }

    // Errors.

    /// Serves the results of commits, and the client's logs and errors.
    fn serve_client(&mut self) -> Result<()> {
        self.served = Instant::now();
        self.serve_commits(Duration::ZERO);
        // Each call serves one thing; the bound keeps a flood of them from holding up the records.
        for _ in 0..16 {
            match self.consumer.poll(Duration::ZERO) {
                None => {}
                Some(Ok(_)) => {
                    let text = "librdkafka put a record into the wrong queue; stopping before it is lost";
                    return Err(Error::new(ErrorKind::Unexpected, text));
                }
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    return Err(from_code(code, &self.consumer.context().last_text()));
                }
                Some(Err(e)) => {
                    let Some(code) = e.rdkafka_error_code() else { continue };
                    let text = self.consumer.context().last_text();
                    self.trouble(Failure { code, text, partition: None, offset: -1 })?;
                }
            }
        }
        Ok(())
    }

    /// Decides what an error means for the reader.
    fn trouble(&mut self, failure: Failure) -> Result<()> {
        let text = self.consumer.context().mask(&failure.text);
        let failure = Failure { text, ..failure };
        // The group is of no use to the reading itself.
        if failure.code == Code::GroupAuthorizationFailed {
            self.health.commit_failed(&failure.text);
            return Ok(());
        }
        match (failure.code, &failure.partition) {
            (Code::NoError | Code::PartitionEOF, _) => Ok(()),
            (Code::PollExceeded, _) => {
                tracing::warn!(
                    "the group took this member's partitions, as it was not heard of for too long"
                );
                Ok(())
            }
            (
                Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation,
                Some((topic, partition)),
            ) => {
                let (topic, partition) = (topic.clone(), *partition);
                self.expired(&topic, partition)
            }
            (
                Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition,
                Some((topic, _)),
            ) => {
                self.health.doubt_topic(topic);
                Ok(())
            }
            (code, partition) => {
                let place = partition.clone();
                self.health.judge(code, &failure.text, place.as_ref())?;
                // Taking an error moves the client's position as if it had been a record: set it right.
                if let Some((topic, partition)) = place.filter(|_| failure.offset >= 0) {
                    self.seek_back(&topic, partition)?;
                }
                Ok(())
            }
        }
    }

    fn seek_back(&mut self, topic: &str, partition: i32) -> Result<()> {
        let Some(part) = self.parts.find(topic, partition) else { return Ok(()) };
        part.position_from = Some(Instant::now() + SETTLE);
        let next = part.next;
        self.consumer.seek(topic, partition, Offset::Offset(next), Duration::ZERO).map_err(refused)
    }

    /// The log has lost the offset that a split is at, or was cut off before it.
    fn expired(&mut self, topic: &str, partition: i32) -> Result<()> {
        let Some(part) = self.parts.find(topic, partition) else { return Ok(()) };
        let asked = part.next;
        let timeout = LOOK_UP.min(self.settings.client.request_timeout);
        let (low, high) = self.consumer.fetch_watermarks(topic, partition, timeout).map_err(|e| {
            from_kafka(&e, "an offset is gone, and the broker did not say which there are")
                .with_context("topic", topic)
                .with_context("partition", partition)
                .with_context("offset", asked)
        })?;
        let next = match self.settings.reset {
            None => return Err(expired_error(topic, partition, asked, (low, high))),
            Some(ResetPolicy::Earliest) => low,
            Some(ResetPolicy::Latest) => high,
        };
        count_expired(topic);
        tracing::warn!(
            topic,
            partition,
            offset = asked,
            next,
            "an offset is gone from the log; reading goes on elsewhere"
        );
        // After this error librdkafka has stopped the partition: it must be assigned anew.
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let eager = self.group.is_some() && !self.is_cooperative();
        if !eager {
            self.consumer.incremental_unassign(&list).map_err(refused)?;
        }
        if let Some(part) = self.parts.find(topic, partition) {
            part.next = next;
            part.forward_again = true;
            part.position_from = Some(Instant::now() + SETTLE);
            self.queue.forward(&part.topic_c, part.partition);
        }
        if eager {
            // Such a group knows whole assignments only.
            let mut all = TopicPartitionList::new();
            for part in self.parts.iter() {
                let offset = Offset::Offset(part.next);
                all.add_partition_offset(&part.topic, part.partition, offset).map_err(refused)?;
            }
            return self.consumer.assign(&all).map_err(refused);
        }
        list.set_partition_offset(topic, partition, Offset::Offset(next)).map_err(refused)?;
        self.consumer.incremental_assign(&list).map_err(refused)
    }

    /// Looks whether a topic that librdkafka did not find is really gone.
    fn check_topics(&mut self) -> Result<()> {
        let Some(topic) = self.health.topic_to_check() else { return Ok(()) };
        let exists = topic_exists(self.consumer.fetch_metadata(Some(&topic), LOOK_UP), &topic);
        self.health.topic_checked(&topic, exists)
    }
}

/// Takes a round of records in. Errors between them go to `troubles`.
fn take(
    parts: &mut Parts,
    messages: &Messages<'_>,
    average: &mut usize,
    troubles: &mut Vec<Failure>,
) -> Result<()> {
    let now = Instant::now();
    let (mut bytes, mut records) = (0, 0);
    let result = messages.iter().try_for_each(|item| match item {
        Item::Record(record) => {
            bytes += record.value().map_or(0, <[u8]>::len);
            records += 1;
            parts.take(&record, now)
        }
        Item::Failure(failure) => {
            troubles.push(failure);
            Ok(())
        }
    });
    if let Some(mean) = bytes.checked_div(records) {
        *average = mean;
    }
    result
}

/// `None` when nobody could say.
fn topic_exists(metadata: KafkaResult<rdkafka::metadata::Metadata>, topic: &str) -> Option<bool> {
    let metadata = metadata.ok()?;
    let found = metadata.topics().iter().find(|found| found.name() == topic)?;
    match found.error().map(Code::from) {
        None => Some(true),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => Some(false),
        Some(_) => None,
    }
}

/// The error for an offset that is not in the log.
pub(crate) fn expired_error(topic: &str, partition: i32, asked: i64, available: (i64, i64)) -> Error {
    let (low, high) = available;
    let text = format!(
        "offset {asked} is not in the log, which holds {low} to {high}: records between were deleted, or the topic was \
         made anew; set auto_offset_reset to earliest or latest to go on from there, or discard the checkpoint"
    );
    Error::new(ErrorKind::CheckpointInvalid, text)
        .with_context("topic", topic)
        .with_context("partition", partition)
        .with_context("offset", asked)
        .with_context("available", format!("{low}..{high}"))
}

fn refused(error: KafkaError) -> Error {
    from_kafka(&error, "")
}
