//! Membership in a consumer group: the group deals the partitions out, and takes them back.
//!
//! librdkafka tells of both through the client's context ([`Rebalance`]) and waits until we say that we did it.
//! A partition that is taken back is given up only when whoever pulls has made its rows durable and said so.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use connector_core::{Error, ErrorKind, Result, SourceEvent, Split};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{Consumer, RebalanceProtocol},
};

use super::{Worker, refused};
use crate::{
    client::{Admin, Cancelled, ClientSettings, Rebalance},
    error::from_kafka,
    source::{
        discovery::{Place, Plan},
        handover::{Assigned, GROUP, Queued, Token},
        split::{KafkaOffset, KafkaSplit},
    },
};

/// Tokens of splits that the group gave begin here, above those that the reader gives.
const FIRST_TOKEN: Token = 1 << 32;

/// Offsets that the host's checkpoint has, shared by all readers of a source in this process.
pub(crate) type Known = Arc<Mutex<HashMap<Place, i64>>>;

/// What a member of a group needs to know.
#[derive(Debug, Clone)]
pub(crate) struct GroupSettings {
    pub(crate) plan: Arc<Plan>,
    pub(crate) admin: ClientSettings,
    pub(crate) known: Known,
    /// How often to look for topics; `None` for once.
    pub(crate) interval: Option<Duration>,
}

/// Partitions that the group has taken back and that are still held.
struct Revoking {
    list: TopicPartitionList,
    tokens: Vec<Token>,
}

/// A member of a group.
pub(super) struct Group {
    settings: GroupSettings,
    subscribed: BTreeSet<String>,
    look_at: Option<Instant>,
    revoking: Option<Revoking>,
    next_token: Token,
}

impl Group {
    pub(super) fn new(settings: GroupSettings) -> Self {
        Self {
            settings,
            subscribed: BTreeSet::new(),
            look_at: Some(Instant::now()),
            revoking: None,
            next_token: FIRST_TOKEN,
        }
    }
}

fn list_of(places: impl IntoIterator<Item = Place>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (topic, partition) in places {
        list.add_partition(&topic, partition);
    }
    list
}

impl Worker<'_> {
    /// Follows what the group decided since the last look.
    pub(super) fn serve_group(&mut self) -> Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        if group.look_at.is_some_and(|at| at <= Instant::now()) {
            self.subscribe()?;
        }
        // One at a time: the next one waits until this one is done.
        while self.group.as_ref().is_some_and(|group| group.revoking.is_none()) {
            match self.consumer.context().take_rebalance() {
                None => break,
                Some(Rebalance::Assign(places)) => self.take_assigned(places)?,
                Some(Rebalance::Revoke(places)) => self.begin_revoking(places)?,
            }
        }
        Ok(())
    }

    /// Subscribes to the topics that there are, by their names.
    fn subscribe(&mut self) -> Result<()> {
        let Some(group) = &mut self.group else { return Ok(()) };
        group.look_at = group.settings.interval.map(|every| Instant::now() + every);
        let cancelled = Cancelled::default();
        let found = Admin::new(&group.settings.admin, &cancelled)
            .and_then(|admin| group.settings.plan.places(&admin));
        let topics: BTreeSet<String> = match found {
            Ok(places) => places.into_iter().map(|(topic, _)| topic).collect(),
            Err(error) if group.subscribed.is_empty() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "topics could not be looked for; it is tried again");
                return Ok(());
            }
        };
        if topics != group.subscribed && !topics.is_empty() {
            let names: Vec<&str> = topics.iter().map(String::as_str).collect();
            self.consumer.subscribe(&names).map_err(refused)?;
            group.subscribed = topics;
        }
        Ok(())
    }

    pub(super) fn is_cooperative(&self) -> bool {
        matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }

    /// Begins to read partitions that the group gave.
    fn take_assigned(&mut self, places: Vec<Place>) -> Result<()> {
        let cooperative = self.is_cooperative();
        let splits = self.starts(&places)?;
        let Some(group) = &mut self.group else { return Ok(()) };
        let mut list = TopicPartitionList::new();
        let mut told = Vec::with_capacity(splits.len());
        for split in splits {
            let token = group.next_token;
            group.next_token += 1;
            let (topic, partition) = (split.topic.clone(), split.partition);
            let again = self.given_up.remove(&(topic.clone(), partition));
            self.handover.admit(split.id(), token);
            self.parts.add(Assigned { token, split: split.clone() }, again)?;
            let Some(part) = self.parts.find(&topic, partition) else { continue };
            if !self.queue.forward(&part.topic_c, partition) {
                return Err(Error::new(ErrorKind::NotFound, "librdkafka does not know the partition")
                    .with_context("topic", topic)
                    .with_context("partition", partition));
            }
            list.add_partition_offset(&topic, partition, Offset::Offset(part.next)).map_err(refused)?;
            told.push(split);
        }
        tracing::info!(partitions = told.len(), "the group gave partitions");
        if !told.is_empty() {
            self.handover.push(Queued {
                token: GROUP,
                event: SourceEvent::Assigned { splits: told },
                bytes: 0,
            });
        }
        // Said also where there is nothing to add: the group waits for it.
        if cooperative { self.consumer.incremental_assign(&list) } else { self.consumer.assign(&list) }
            .map_err(refused)
    }

    /// Where to read partitions from: the further of the host's checkpoint and the group's offset, as both are
    /// durable; else where the options say. A partition that came to a topic the group knows begins at its first record.
    fn starts(&mut self, places: &[Place]) -> Result<Vec<KafkaSplit>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let Some(group) = &self.group else { return Ok(Vec::new()) };
        let settings = group.settings.clone();
        let committed = self.committed(places)?;
        let known = settings.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut splits: Vec<KafkaSplit> = places
            .iter()
            .map(|place| {
                let split = KafkaSplit::new(place.0.clone(), place.1);
                match known.get(place).max(committed.get(place)) {
                    Some(offset) => split.starting_at(*offset),
                    None => split,
                }
            })
            .collect();
        let cancelled = Cancelled::default();
        let admin = Admin::new(&settings.admin, &cancelled)?;
        let fresh: Vec<Place> =
            places.iter().filter(|place| !committed.contains_key(*place)).cloned().collect();
        let topics: BTreeSet<&str> = fresh.iter().map(|(topic, _)| topic.as_str()).collect();
        let mut later = Vec::new();
        for topic in topics {
            let all: Vec<Place> =
                settings.plan.places(&admin)?.into_iter().filter(|(t, _)| t == topic).collect();
            if !self.committed(&all)?.is_empty() {
                let unknown = |place: &&Place| place.0 == topic && !known.contains_key(*place);
                later.extend(fresh.iter().filter(unknown).cloned());
            }
        }
        for found in settings.plan.later_splits(&admin, &later)? {
            for split in splits.iter_mut().filter(|split| split.id() == found.id()) {
                split.offset = split.offset.or(found.offset);
            }
        }
        let splits = settings.plan.placed(&admin, splits)?;
        // Where reading begins is said at once: a start at the end must not move when another member takes over, nor must
        // one that the host's checkpoint knows of and the group does not.
        let begun: BTreeMap<Place, i64> = splits
            .iter()
            .filter_map(|split| Some(((split.topic.clone(), split.partition), split.offset?.0)))
            .filter(|(place, offset)| committed.get(place) < Some(offset))
            .collect();
        self.commits.add(begun);
        Ok(splits)
    }

    /// Offsets that the group has. Nobody else's word is waited for longer than the time that requests have.
    fn committed(&self, places: &[Place]) -> Result<HashMap<Place, i64>> {
        if places.is_empty() {
            return Ok(HashMap::new());
        }
        let list = list_of(places.iter().cloned());
        let until = Instant::now() + self.settings.client.request_timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
            match self.consumer.committed_offsets(list.clone(), left) {
                Ok(found) => {
                    let offset =
                        |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match element
                            .offset()
                        {
                            Offset::Offset(offset) if offset >= 0 => {
                                Some(((element.topic().to_owned(), element.partition()), offset))
                            }
                            _ => None,
                        };
                    return Ok(found.elements().iter().filter_map(offset).collect());
                }
                Err(e) if Instant::now() >= until => {
                    return Err(from_kafka(&e, "the group's offsets could not be read"));
                }
                // The coordinator may be moving.
                Err(_) => std::thread::park_timeout(Duration::from_millis(100)),
            }
        }
    }

    /// Stops reading partitions that the group takes back, and tells whoever pulls.
    fn begin_revoking(&mut self, places: Vec<Place>) -> Result<()> {
        let taken: HashSet<Place> = places.iter().cloned().collect();
        self.parts.hand_over_places(&taken)?;
        let parts = self.parts.remove(|part| taken.contains(&(part.topic.clone(), part.partition)));
        self.given_up.extend(taken);
        let splits: Vec<KafkaSplit> = parts
            .iter()
            .map(|part| {
                let split = KafkaSplit::new(part.topic.clone(), part.partition);
                KafkaSplit { offset: Some(KafkaOffset(part.handed())), ..split }
            })
            .collect();
        tracing::info!(partitions = splits.len(), "the group takes partitions back");
        let tokens = parts.iter().map(|part| part.token).collect();
        let nothing = splits.is_empty();
        if let Some(group) = &mut self.group {
            group.revoking = Some(Revoking { list: list_of(places), tokens });
        }
        if nothing {
            return self.finish_revoking();
        }
        self.handover.push(Queued { token: GROUP, event: SourceEvent::Revoked { splits }, bytes: 0 });
        Ok(())
    }

    /// Gives partitions up, once everything that was read of them is durable and committed.
    pub(super) fn finish_revoking(&mut self) -> Result<()> {
        let Some(revoking) = self.group.as_mut().and_then(|group| group.revoking.take()) else {
            return Ok(());
        };
        self.settle_commits();
        let places = revoking.list.elements().iter().map(|e| (e.topic().to_owned(), e.partition())).collect();
        self.commits.forget(&places);
        self.handover.retire(&revoking.tokens);
        if self.is_cooperative() {
            self.consumer.incremental_unassign(&revoking.list).map_err(refused)
        } else {
            self.consumer.unassign().map_err(refused)
        }
    }

    /// Follows what the group still waits for, without reading anything more, so that the client can be closed.
    pub(super) fn leave_group(&mut self) {
        let done = self.finish_revoking();
        while let Some(rebalance) = self.consumer.context().take_rebalance() {
            let cooperative = self.is_cooperative();
            let followed = match rebalance {
                Rebalance::Assign(places) if cooperative => {
                    self.consumer.incremental_assign(&list_of(places))
                }
                Rebalance::Revoke(places) if cooperative => {
                    self.consumer.incremental_unassign(&list_of(places))
                }
                _ => self.consumer.unassign(),
            };
            if let Err(e) = followed {
                tracing::debug!(error = %e, "a decision of the group could not be followed");
            }
        }
        if let Err(error) = done {
            tracing::debug!(%error, "partitions could not be given up");
        }
    }
}
