//! Atomic batches: rows go to a temporary table, whose partitions move to the target once all are written.
//!
//! The temporary table is called `__orders_temporary_for_<batch>__`, and `__orders_committing_for_<batch>__` from the
//! moment on that its partitions move; `<batch>` is the job's name, the second in which it began and a random number. No
//! server moves several partitions at once, so a commit can break off between two. It goes on with what the temporary
//! table still has: a partition leaves it in the same step in which it reaches the target.
//!
//! Of two runs of one job the later one wins: it drops the temporary table of the earlier one, which then fails.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use connector_bytehouse_common::{
    catalog::table_definition,
    sql::{quote_ident, quote_literal, quote_table},
    wire::Settings,
};
use connector_core::{
    Error, ErrorKind, FlushToken, Result, RetryState, TableId, async_trait, sink::AtomicBatch,
};

use super::target::Target;
use crate::{client::Session, config::SinkConfig};

/// `job.writer.atomic_write` and what belongs to it.
#[derive(Debug, Clone)]
pub(crate) struct AtomicWrite {
    pub(crate) retry_limits: usize,
    pub(crate) retry_wait: Duration,
    /// The batch's partitions take the place of those in the target.
    pub(crate) replace: bool,
    /// Temporary tables of other jobs are dropped when they are older.
    pub(crate) leftover_age: Duration,
}

/// One run's batch, shared by all writers of a sink.
#[derive(Debug)]
pub(super) struct Batch {
    config: Arc<SinkConfig>,
    atomic: AtomicWrite,
    table: TableId,
    current: Mutex<Option<Current>>,
    /// Held by the chain that creates the temporary table.
    creating: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct Current {
    name: FlushToken,
    /// The temporary table is there.
    created: bool,
}

/// The two names of a temporary table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Writing,
    Committing,
}

impl Stage {
    const fn word(self) -> &'static str {
        match self {
            Self::Writing => "temporary",
            Self::Committing => "committing",
        }
    }

    fn table(self, target: &TableId, batch: &str) -> TableId {
        TableId::new(&*target.database, format!("__{}_{}_for_{batch}__", target.table, self.word()))
    }

    /// The batch of a table that is called so.
    fn batch(self, target: &TableId, name: &str) -> Option<String> {
        let rest = name.strip_prefix(&format!("__{}_{}_for_", target.table, self.word()))?;
        rest.strip_suffix("__").map(str::to_owned)
    }
}

/// The job's name in the characters that a batch's name may have. Names that lose some stay apart by a hash.
fn job_of(pipeline: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let job: String = pipeline.chars().map(plain).take(60).collect();
    if job == pipeline {
        return job;
    }
    // FNV-1a: the same in every build.
    let hash = pipeline.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{job}-{hash:016x}")
}

/// A name that no other run has, also not one of the same job that begins in the same second.
fn name_batch(job: &str) -> String {
    let run = uuid::Uuid::new_v4().simple().to_string();
    format!("{job}-{}-{}", now(), &run[..8])
}

/// Job and begin of a batch.
fn parse_batch(batch: &str) -> Option<(&str, u64)> {
    let (of_job, _run) = batch.rsplit_once('-')?;
    let (job, seconds) = of_job.rsplit_once('-')?;
    seconds.parse().ok().map(|seconds| (job, seconds))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Batch {
    pub(super) fn new(config: Arc<SinkConfig>) -> Option<Self> {
        let atomic = config.atomic.clone()?;
        let table = config.table.clone()?;
        Some(Self {
            atomic,
            table,
            current: Mutex::new(None),
            creating: tokio::sync::Mutex::default(),
            config,
        })
    }

    fn current(&self) -> Option<Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_current(&self, current: Option<Current>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// The same table's temporary one, which the first chain creates.
    pub(super) async fn redirect(&self, session: &mut Session, mut target: Target) -> Result<Target> {
        self.expect_possible(session, &target).await?;
        let _creating = self.creating.lock().await;
        let current = self.current().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "atomic_write needs a host that begins and commits the batch, such as a pipeline with a bounded source",
            )
        })?;
        let staging = Stage::Writing.table(&self.table, current.name.as_str());
        // Once only: a table that is gone by now took rows with it, and a new one would hide that.
        if !current.created {
            let (from, to) = (quote_table(&target.table), quote_table(&staging));
            let sql = format!("CREATE TABLE IF NOT EXISTS {to} AS {from}");
            session.execute(&sql).await.map_err(|e| e.with_context("temporary_table", &staging))?;
            tracing::info!(table = %target.table, temporary = %staging, "rows go to a temporary table until the batch is whole");
            self.set_current(Some(Current { created: true, ..current }));
        }
        target.table = staging;
        Ok(target)
    }

    /// Refuses tables whose partitions cannot be moved in whole.
    pub(super) async fn expect_possible(&self, session: &mut Session, target: &Target) -> Result<()> {
        let refuse =
            |text: String| Err(Error::new(ErrorKind::Unsupported, text).with_context("table", &target.table));
        let engine = target.engine.as_str();
        if engine.starts_with("Replicated") || !engine.ends_with("MergeTree") {
            return refuse(format!(
                "atomic_write cannot move partitions into a table with the engine {engine}; use a {}, or leave atomic_write out",
                if self.config.cnch_engine { "CnchMergeTree" } else { "MergeTree that is not replicated" }
            ));
        }
        if target.unique && self.atomic.replace {
            return refuse(
                "a table with a UNIQUE KEY cannot have partitions replaced; leave atomic_write_replace_partitions out: \
                 rows of the batch take the place of those of the same key"
                    .to_owned(),
            );
        }
        if !self.atomic.replace && !session.dialect(&self.config).await?.moves_partitions() {
            return refuse(
                "this server only copies partitions, so that a commit that broke off could not tell what it has done; \
                 use atomic_write_replace_partitions, or a server from 19.17 on"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Tables of the target's database that are temporary ones of the target, with their batches.
    async fn leftovers(&self, session: &mut Session, stage: Stage) -> Result<Vec<String>> {
        let sql = format!("SHOW TABLES FROM {}", quote_ident(&self.table.database));
        match session.texts(&sql).await {
            Ok(names) => Ok(names.iter().filter_map(|name| stage.batch(&self.table, name)).collect()),
            Err(error) if super::tables::is_absent(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn drop_table(&self, session: &mut Session, stage: Stage, batch: &str) -> Result<()> {
        let table = Stage::table(stage, &self.table, batch);
        session
            .execute(&format!("DROP TABLE IF EXISTS {}", quote_table(&table)))
            .await
            .map_err(|e| e.with_context("temporary_table", &table))
    }

    async fn try_begin(&self, session: &mut Session, job: &str) -> Result<()> {
        for batch in self.leftovers(session, Stage::Writing).await? {
            let Some((of_job, begun)) = parse_batch(&batch) else { continue };
            let old = now().saturating_sub(begun) > self.atomic.leftover_age.as_secs();
            if of_job == job || old {
                self.drop_table(session, Stage::Writing, &batch).await?;
                tracing::info!(table = %self.table, batch, "dropped the temporary table of a run that did not end");
            }
        }
        for batch in self.leftovers(session, Stage::Committing).await? {
            let Some((of_job, _)) = parse_batch(&batch) else { continue };
            if of_job == job {
                self.drop_committed(session, &batch).await?;
            }
        }
        Ok(())
    }

    /// A commit whose checkpoint was stored leaves an empty table at most.
    async fn drop_committed(&self, session: &mut Session, batch: &str) -> Result<()> {
        let staging = Stage::Committing.table(&self.table, batch);
        let left = self.partitions(session, &staging, false).await?.len()
            + self.partitions(session, &staging, true).await?.len();
        if left == 0 {
            return self.drop_table(session, Stage::Committing, batch).await;
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "the commit of an earlier batch broke off, {left} partitions are still in `{}`, and the checkpoint that \
                 says so is gone; start once with that checkpoint, or move or drop the table yourself",
                staging.table
            ),
        )
        .with_context("table", &self.table))
    }

    /// Ids of the partitions of a table, active or detached ones. They stand before the first `_` of a part's name.
    async fn partitions(
        &self,
        session: &mut Session,
        table: &TableId,
        detached: bool,
    ) -> Result<BTreeSet<String>> {
        let from = match (self.config.cnch_engine, detached) {
            (true, false) => "system.cnch_parts",
            (true, true) => "system.cnch_detached_parts",
            (false, false) => "system.parts",
            (false, true) => "system.detached_parts",
        };
        let active = if detached { "" } else { " AND active" };
        let sql = format!(
            "SELECT DISTINCT name FROM {from} WHERE database = {} AND table = {}{active}",
            quote_literal(&table.database),
            quote_literal(&table.table)
        );
        let names = session.texts(&sql).await.map_err(|e| e.with_context("temporary_table", table))?;
        let id = |name: &String| name.split('_').next().map(str::to_owned).filter(|id| !id.is_empty());
        Ok(names.iter().filter_map(id).collect())
    }

    /// Brings the temporary table under its second name, unless it has it.
    async fn begin_commit(&self, session: &mut Session, batch: &str) -> Result<TableId> {
        let committing = Stage::Committing.table(&self.table, batch);
        if self.leftovers(session, Stage::Writing).await?.iter().any(|known| known == batch) {
            let writing = Stage::Writing.table(&self.table, batch);
            let sql = format!("RENAME TABLE {} TO {}", quote_table(&writing), quote_table(&committing));
            session.execute(&sql).await?;
        } else if !self.leftovers(session, Stage::Committing).await?.iter().any(|known| known == batch) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the temporary table `{}` is gone before its commit ended: rows of the batch may be missing in the \
                     target; look at it, then start without the checkpoint to write the batch anew",
                    committing.table
                ),
            ));
        }
        Ok(committing)
    }

    /// Moves every partition that the temporary table still has.
    async fn try_commit(&self, session: &mut Session, batch: &str) -> Result<()> {
        let staging = self.begin_commit(session, batch).await?;
        let definition = table_definition(session.client().await?, &self.table).await?;
        let unique = !definition.unique_key.is_empty();
        let (from, to) = (quote_table(&staging), quote_table(&self.table));
        let partitions = self.partitions(session, &staging, false).await?;
        let detached = if unique { self.partitions(session, &staging, true).await? } else { BTreeSet::new() };
        for id in partitions.union(&detached) {
            let partition = format!("PARTITION ID {}", quote_literal(id));
            let steps = match (self.config.cnch_engine, unique, self.atomic.replace) {
                (true, true, _) => vec![
                    // What is detached by an earlier try is not active any more.
                    partitions
                        .contains(id)
                        .then(|| ("detach", format!("ALTER TABLE {from} DETACH {partition}"))),
                    Some(("attach", format!("ALTER TABLE {to} ATTACH DETACHED {partition} FROM {from}"))),
                ],
                (true, false, false) => {
                    vec![Some(("attach", format!("ALTER TABLE {to} ATTACH {partition} FROM {from}")))]
                }
                (_, _, true) => {
                    vec![Some(("replace", format!("ALTER TABLE {to} REPLACE {partition} FROM {from}")))]
                }
                (false, _, false) => {
                    vec![Some(("move", format!("ALTER TABLE {from} MOVE {partition} TO TABLE {to}")))]
                }
            };
            for (step, sql) in steps.into_iter().flatten() {
                self.step(session, &format!("{batch}-{step}-{id}"), &sql)
                    .await
                    .map_err(|e| e.with_context("partition", id))?;
            }
            // Where it was copied, the copy goes: it must not replace the partition again.
            if self.atomic.replace && self.partitions(session, &staging, false).await?.contains(id) {
                self.step(
                    session,
                    &format!("{batch}-drop-{id}"),
                    &format!("ALTER TABLE {from} DROP {partition}"),
                )
                .await?;
            }
            tracing::info!(table = %self.table, partition = id, batch, "moved a partition of the batch");
        }
        Ok(())
    }

    /// Runs a statement under a name of its own: the server refuses it while the same one of a try that was given
    /// up still runs.
    async fn step(&self, session: &mut Session, id: &str, sql: &str) -> Result<()> {
        session.client().await?.execute_as(sql, &Settings::new(), id).await.map(|_| ())
    }
}

#[async_trait]
impl AtomicBatch for Batch {
    async fn begin(&self, job: &str) -> Result<()> {
        let job = job_of(job);
        let mut session = Session::new(&self.config);
        let outcome = self.try_begin(&mut session, &job).await;
        session.close();
        outcome.map_err(|e| e.with_operation("bytehouse.atomic_begin").with_context("table", &self.table))?;
        let name = FlushToken::new(name_batch(&job))?;
        self.set_current(Some(Current { name, created: false }));
        Ok(())
    }

    async fn prepare(&self) -> Result<Option<FlushToken>> {
        Ok(self.current().filter(|current| current.created).map(|current| current.name))
    }

    async fn commit(&self, batch: &FlushToken) -> Result<()> {
        let mut session = Session::new(&self.config);
        let mut tries = 0;
        let outcome = loop {
            match self.try_commit(&mut session, batch.as_str()).await {
                Err(error) if error.is_transient() && tries < self.atomic.retry_limits => {
                    tries += 1;
                    tracing::warn!(table = %self.table, %error, tries, "a commit of partitions did not go through; it goes on with those left");
                    tokio::time::sleep(self.atomic.retry_wait).await;
                }
                Err(error) if error.is_transient() => break Err(error.with_retry(RetryState::Exhausted)),
                outcome => break outcome,
            }
        };
        session.close();
        outcome.map_err(|e| {
            e.with_operation("bytehouse.atomic_commit")
                .with_context("table", &self.table)
                .with_context("batch", batch)
        })
    }

    async fn finish(&self, batch: &FlushToken) -> Result<()> {
        let mut session = Session::new(&self.config);
        let outcome = self.drop_table(&mut session, Stage::Committing, batch.as_str()).await;
        session.close();
        self.set_current(None);
        outcome
    }

    async fn abort(&self) -> Result<()> {
        let Some(current) = self.current().filter(|current| current.created) else { return Ok(()) };
        let mut session = Session::new(&self.config);
        let outcome = self.drop_table(&mut session, Stage::Writing, current.name.as_str()).await;
        session.close();
        self.set_current(None);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_read_back_from_the_names_of_their_tables() {
        let target = TableId::new("app", "my_orders");
        for pipeline in ["nightly", "night_ly-2", "with blank", "订单", &"x".repeat(200)] {
            let batch = name_batch(&job_of(pipeline));
            FlushToken::new(batch.clone()).unwrap();
            for stage in [Stage::Writing, Stage::Committing] {
                let table = stage.table(&target, &batch);
                assert!(table.table.len() < 150, "{}", table.table);
                assert_eq!(stage.batch(&target, &table.table).as_deref(), Some(batch.as_str()));
                let (job, begun) = parse_batch(&batch).unwrap();
                assert_eq!(job, job_of(pipeline));
                assert!(now() - begun < 60, "{batch}");
                assert_eq!(stage.batch(&TableId::new("app", "orders"), &table.table), None);
            }
        }
        assert_eq!(Stage::Writing.table(&target, "a-1-f").table, "__my_orders_temporary_for_a-1-f__");
        assert_ne!(name_batch("a"), name_batch("a"));
        assert_ne!(job_of("a b"), job_of("a-b"));
        assert_ne!(job_of("a b"), job_of("a.b"));
    }
}
