//! Finding splits, and looking whether those of a checkpoint can still be read.

use std::collections::{BTreeMap, HashMap};

use connector_core::{Error, ErrorKind, Result, Split as _, SplitId, retry::RetryPolicy};
use fluss::rpc::message::OffsetSpec;

use super::{
    metrics::SourceMetrics,
    plan::Plan,
    split::{FlussOffset, FlussPartition, FlussSplit, split_id},
};
use crate::{
    client::{again, path},
    options::{OffsetReset, StartupMode},
};

/// What the log of a bucket has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) earliest: i64,
    pub(crate) latest: i64,
}

impl Plan {
    /// How a question is asked again while buckets have no leader: for as long as an answer may take.
    fn questions(&self) -> RetryPolicy {
        let wait = std::time::Duration::from_millis(100);
        let times = self.client.request_timeout().as_millis() / 400;
        RetryPolicy {
            max_retries: Some(usize::try_from(times).unwrap_or(usize::MAX)),
            min_backoff: wait,
            max_backoff: wait * 4,
        }
    }

    /// The partitions there are; one `None` for a table without.
    pub(crate) async fn partitions(&self, operation: &'static str) -> Result<Vec<Option<FlussPartition>>> {
        if !self.info.is_partitioned() {
            return Ok(vec![None]);
        }
        let list = || {
            let path = path(&self.table);
            self.client.ask(operation, |admin| async move { admin.list_partition_infos(&path).await })
        };
        let found = again(self.questions(), list).await?;
        let named = found.iter().map(|partition| {
            Some(FlussPartition { id: partition.get_partition_id(), name: partition.get_partition_name() })
        });
        Ok(named.collect())
    }

    /// Offsets of buckets of one partition. Asks again while a bucket has no leader.
    pub(crate) async fn offsets(
        &self,
        operation: &'static str,
        partition: Option<&FlussPartition>,
        buckets: &[i32],
        spec: &OffsetSpec,
    ) -> Result<HashMap<i32, i64>> {
        let ask = || {
            let (path, spec) = (path(&self.table), spec.clone());
            self.client.ask(operation, |admin| async move {
                match partition {
                    Some(partition) => {
                        admin.list_partition_offsets(&path, &partition.name, buckets, spec).await
                    }
                    None => admin.list_offsets(&path, buckets, spec).await,
                }
            })
        };
        let found = again(self.questions(), ask).await;
        found.map_err(|error| match partition {
            Some(partition) => error.with_context("partition", &partition.name),
            None => error,
        })
    }

    /// First and next offset of a split's bucket.
    pub(crate) async fn range(&self, operation: &'static str, split: &FlussSplit) -> Result<Range> {
        let (partition, buckets) = (split.partition.as_ref(), [split.bucket]);
        let earliest = self.offsets(operation, partition, &buckets, &OffsetSpec::Earliest).await?;
        let latest = self.offsets(operation, partition, &buckets, &OffsetSpec::Latest).await?;
        match (earliest.get(&split.bucket), latest.get(&split.bucket)) {
            (Some(earliest), Some(latest)) => Ok(Range { earliest: *earliest, latest: *latest }),
            _ => Err(Error::new(ErrorKind::Unexpected, "the cluster told no offsets of a bucket")
                .with_operation(operation)
                .with_context("bucket", split.bucket)),
        }
    }

    /// Splits that are not in `known`. `first` is whether the startup mode applies.
    pub(crate) async fn discover(&self, known: &[SplitId], first: bool) -> Result<Vec<FlussSplit>> {
        const OPERATION: &str = "fluss.discover";
        let mut splits = Vec::new();
        for partition in self.partitions(OPERATION).await? {
            let buckets: Vec<i32> = (0..self.info.get_num_buckets())
                .filter(|bucket| !known.contains(&split_id(partition.as_ref(), *bucket)))
                .collect();
            if buckets.is_empty() {
                continue;
            }
            match self.place(partition.as_ref(), &buckets, first).await {
                Ok(found) => splits.extend(found),
                // Dropped since it was listed.
                Err(error) if partition.is_some() && error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.with_context("table", &self.table)),
            }
        }
        Ok(splits)
    }

    async fn place(
        &self,
        partition: Option<&FlussPartition>,
        buckets: &[i32],
        first: bool,
    ) -> Result<Vec<FlussSplit>> {
        const OPERATION: &str = "fluss.discover";
        // "Latest" and a time are looked up once, here: a split that has read nothing still knows where it began.
        let spec = match self.options.startup_mode {
            StartupMode::Latest if first => OffsetSpec::Latest,
            StartupMode::Timestamp if first => {
                OffsetSpec::Timestamp(self.options.start_millis().unwrap_or_default())
            }
            _ => OffsetSpec::Earliest,
        };
        let starts = if self.begins_with_rows() {
            HashMap::new()
        } else {
            self.offsets(OPERATION, partition, buckets, &spec).await?
        };
        let ends = if self.options.scan_bounded {
            self.offsets(OPERATION, partition, buckets, &OffsetSpec::Latest).await?
        } else {
            HashMap::new()
        };
        let split = |bucket: &i32| FlussSplit {
            table_id: self.info.get_table_id(),
            partition: partition.cloned(),
            bucket: *bucket,
            offset: match starts.get(bucket) {
                Some(start) => FlussOffset::log(*start),
                None => FlussOffset::Snapshot { parts: Vec::new() },
            },
            end: ends.get(bucket).map(|end| FlussOffset::log(*end)),
        };
        Ok(buckets.iter().map(split).collect())
    }

    /// Looks whether splits can be read from where they are. Offsets that are gone are replaced where the options
    /// say so; splits of dropped partitions are left for their reader to end.
    ///
    /// # Errors
    /// `CheckpointInvalid`.
    pub(crate) async fn admit(
        &self,
        operation: &'static str,
        splits: &mut [FlussSplit],
        metrics: &SourceMetrics,
    ) -> Result<()> {
        for split in splits.iter() {
            self.check_table(operation, split)?;
        }
        let there = self.partitions(operation).await?;
        let mut groups: BTreeMap<Option<FlussPartition>, Vec<&mut FlussSplit>> = BTreeMap::new();
        for split in
            splits.iter_mut().filter(|split| split.offset.next_in_log().is_some() && !split.is_at_end())
        {
            if there.contains(&split.partition) {
                groups.entry(split.partition.clone()).or_default().push(split);
            }
        }
        for (partition, splits) in groups {
            let buckets: Vec<i32> = splits.iter().map(|split| split.bucket).collect();
            let earliest =
                self.offsets(operation, partition.as_ref(), &buckets, &OffsetSpec::Earliest).await?;
            let latest = self.offsets(operation, partition.as_ref(), &buckets, &OffsetSpec::Latest).await?;
            for split in splits {
                let (Some(earliest), Some(latest)) = (earliest.get(&split.bucket), latest.get(&split.bucket))
                else {
                    continue;
                };
                self.check_range(operation, split, Range { earliest: *earliest, latest: *latest }, metrics)?;
            }
        }
        Ok(())
    }

    /// # Errors
    /// `CheckpointInvalid` when the split belongs to an earlier table of that name.
    pub(crate) fn check_table(&self, operation: &'static str, split: &FlussSplit) -> Result<()> {
        let table_id = self.info.get_table_id();
        if split.table_id == table_id {
            return Ok(());
        }
        let text = "the table was dropped and created again since this checkpoint; start without it to read the new table";
        Err(self.lost(operation, text, split).with_context("table_id_now", table_id))
    }

    /// Moves a split whose offset is gone, where the options say where to.
    ///
    /// # Errors
    /// `CheckpointInvalid` naming what was asked for and what there is, where they do not.
    pub(crate) fn check_range(
        &self,
        operation: &'static str,
        split: &mut FlussSplit,
        range: Range,
        metrics: &SourceMetrics,
    ) -> Result<()> {
        let Some(next) = split.offset.next_in_log() else { return Ok(()) };
        if (range.earliest..=range.latest).contains(&next) {
            return Ok(());
        }
        let to = match self.options.offset_reset {
            OffsetReset::Earliest => range.earliest,
            OffsetReset::Latest => range.latest,
            OffsetReset::None => {
                let text = if next < range.earliest {
                    "the log no longer has this offset (table.log.ttl); start without the checkpoint, or set scan.offset-reset"
                } else {
                    "the log ends before this offset, so it lost rows that were read; start without the checkpoint, or set scan.offset-reset"
                };
                return Err(self
                    .lost(operation, text, split)
                    .with_context("offset", next)
                    .with_context("earliest", range.earliest)
                    .with_context("latest", range.latest));
            }
        };
        tracing::warn!(table = %self.table, split = %split.id(), offset = next, to, "the log does not have the offset; reading goes on elsewhere");
        metrics.expired_offsets.increment(1);
        split.seek(FlussOffset::log(to));
        Ok(())
    }

    fn lost(&self, operation: &'static str, text: &'static str, split: &FlussSplit) -> Error {
        let error = Error::new(ErrorKind::CheckpointInvalid, text)
            .with_operation(operation)
            .with_context("table", &self.table)
            .with_context("bucket", split.bucket);
        match &split.partition {
            Some(partition) => error.with_context("partition", &partition.name),
            None => error,
        }
    }
}
