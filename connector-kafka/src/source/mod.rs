//! The source: topics of a cluster, read partition by partition.

mod batch_poll;
mod builder;
pub(crate) mod discovery;
mod handover;
mod health;
mod memory;
pub mod metrics;
pub(crate) mod parts;
mod reader;
mod sample;
mod split;
mod worker;

use std::{
    collections::HashSet,
    ffi::CString,
    fmt,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use connector_core::{Boundedness, ChangelogMode, Result, Source, SplitId, async_trait};

pub use self::{
    builder::KafkaSourceBuilder,
    reader::KafkaReader,
    split::{KafkaOffset, KafkaSplit},
};
use self::{
    discovery::Plan,
    parts::Shape,
    split::split_id,
    worker::{
        WorkerSettings,
        group::{GroupSettings, Known},
    },
};
use crate::{
    client::{Admin, ClientSettings, off_runtime},
    options::ResetPolicy,
};

/// What a source and its readers share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// For questions about the cluster.
    pub(crate) admin: ClientSettings,
    /// For reading.
    pub(crate) reader: ClientSettings,
    pub(crate) group: CString,
    pub(crate) plan: Arc<Plan>,
    pub(crate) shape: Shape,
    pub(crate) handover_bytes: usize,
    pub(crate) reset: Option<ResetPolicy>,
    pub(crate) discovery_interval: Option<Duration>,
    pub(crate) max_partitions_per_reader: Option<usize>,
    pub(crate) parallelism: Option<usize>,
    /// A first discovery that found nothing has been: whatever appears now is new.
    pub(crate) looked_in_vain: AtomicBool,
    /// Where the group deals the partitions out: the offsets that the host's checkpoint has.
    pub(crate) known: Option<Known>,
    /// Whether a host may commit what it polled.
    pub(crate) commits_polled: bool,
}

impl Inner {
    pub(crate) fn boundedness(&self) -> Boundedness {
        if self.plan.end.is_some() { Boundedness::Bounded } else { Boundedness::Unbounded }
    }

    pub(crate) fn worker_settings(&self) -> WorkerSettings {
        WorkerSettings {
            client: self.reader.clone(),
            group: self.group.clone(),
            shape: self.shape.clone(),
            handover_bytes: self.handover_bytes,
            reset: self.reset,
            member: self.known.as_ref().map(|known| GroupSettings {
                plan: Arc::clone(&self.plan),
                admin: self.admin.clone(),
                known: Arc::clone(known),
                interval: self.discovery_interval,
            }),
        }
    }

    /// Notes offsets of the host's checkpoint, for partitions that the group may give.
    pub(crate) fn remember(&self, splits: &[KafkaSplit]) {
        let Some(known) = &self.known else { return };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        for split in splits {
            if let Some(offset) = split.offset {
                known.insert((split.topic.clone(), split.partition), offset.0);
            }
        }
    }

    /// Splits as a reader can take them, looked up where they have no offset yet.
    pub(crate) async fn place(&self, splits: Vec<KafkaSplit>) -> Result<Vec<KafkaSplit>> {
        if splits.iter().all(KafkaSplit::is_finished) {
            return Ok(splits);
        }
        let (settings, plan) = (self.admin.clone(), Arc::clone(&self.plan));
        off_runtime("kafka.open", move |cancelled| plan.placed(&Admin::new(&settings, cancelled)?, splits))
            .await
    }
}

/// A source of rows out of Kafka topics.
///
/// Made by [`KafkaSource::builder`] or from string pairs by [`KafkaSource::from_options`]. It holds
/// options only; each call of [`Source::check`] and [`Source::discover`] connects anew, and each
/// [`KafkaReader`] has one client of its own. Clones are cheap and mean the same source.
#[derive(Clone)]
pub struct KafkaSource(pub(crate) Arc<Inner>);

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KafkaSource").field(&self.0).finish()
    }
}

impl KafkaSource {
    /// The consumer group to which acknowledged offsets are committed: `group_id`, or what stands for it where that is not
    /// given.
    pub fn group(&self) -> &str {
        self.0.group.to_str().unwrap_or_default()
    }

    /// How many readers the options suggest for `partitions` splits: `reader_parallelism_num` where it
    /// is set, else one for every `max_partition_num_per_consumer` of them; at least one.
    pub fn suggested_parallelism(&self, partitions: usize) -> usize {
        self.0
            .parallelism
            .unwrap_or_else(|| partitions.div_ceil(self.0.max_partitions_per_reader.unwrap_or(1)))
            .max(1)
    }
}

#[async_trait]
impl Source for KafkaSource {
    type Split = KafkaSplit;
    type Reader = KafkaReader;

    fn connector(&self) -> &'static str {
        "kafka"
    }

    fn boundedness(&self) -> Boundedness {
        self.0.boundedness()
    }

    fn changelog_mode(&self) -> ChangelogMode {
        self.0.shape.format.changelog_mode()
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.0.discovery_interval
    }

    /// Only where one of the two options was given: each reader has its own memory, and one is fast.
    fn suggested_parallelism(&self, splits: usize) -> Option<usize> {
        let asked = self.0.parallelism.is_some() || self.0.max_partitions_per_reader.is_some();
        asked.then(|| Self::suggested_parallelism(self, splits))
    }

    fn deals_splits(&self) -> bool {
        self.0.known.is_some()
    }

    async fn check(&self) -> Result<()> {
        let (settings, plan) = (self.0.admin.clone(), Arc::clone(&self.0.plan));
        let registry = self.0.shape.format.registry().cloned();
        off_runtime("kafka.check", move |cancelled| {
            plan.check_times()?;
            if let Some(registry) = registry {
                registry.check()?;
            }
            plan.places(&Admin::new(&settings, cancelled)?).map(drop)
        })
        .await
    }

    async fn discover(&self, known: &[SplitId]) -> Result<Vec<KafkaSplit>> {
        // Splits come from the group, to whichever reader it chooses.
        if self.0.known.is_some() {
            return Ok(Vec::new());
        }
        let (settings, plan) = (self.0.admin.clone(), Arc::clone(&self.0.plan));
        let first = known.is_empty() && !self.0.looked_in_vain.load(Ordering::Relaxed);
        let known: HashSet<SplitId> = known.iter().cloned().collect();
        let splits = off_runtime("kafka.discover", move |cancelled| {
            plan.check_times()?;
            let admin = Admin::new(&settings, cancelled)?;
            let mut places = plan.places(&admin)?;
            places.retain(|(topic, partition)| !known.contains(&split_id(topic, *partition)));
            if first { plan.first_splits(&admin, &places) } else { plan.later_splits(&admin, &places) }
        })
        .await?;
        if first && splits.is_empty() {
            self.0.looked_in_vain.store(true, Ordering::Relaxed);
        }
        Ok(splits)
    }

    async fn open(&self, splits: Vec<KafkaSplit>) -> Result<KafkaReader> {
        KafkaReader::open(Arc::clone(&self.0), splits).await
    }
}
