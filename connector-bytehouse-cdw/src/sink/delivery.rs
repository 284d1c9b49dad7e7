//! INSERTs under way: several at a time, each tried until it is confirmed or hopeless.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use connector_bytehouse_common::{catalog::table_definition, error::description_outdated};
use connector_core::{Error, ErrorKind, Flushed, Result, RetryState, TableId};
use tokio::task::JoinSet;

use super::{
    columns::Columns,
    insert::{Parcel, Route},
    pressure::Pressure,
    split::{Split, split},
    target::Target,
};
use crate::{
    client::Session,
    config::SinkConfig,
    metrics::{INSERTS_SPLIT, RETRIES},
};

/// A connection of its own, and the buffer for what goes over it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) session: Session,
    pub(super) encoded: Vec<u8>,
}

/// INSERTs into one table, sent one after the other.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) table: TableId,
    pub(super) parcels: VecDeque<Parcel>,
}

/// A job that ended.
#[derive(Debug)]
struct Delivery {
    lane: Lane,
    table: TableId,
    outcome: Result<Flushed>,
}

/// The jobs under way, each on a lane.
#[derive(Debug)]
pub(super) struct Lanes {
    config: Arc<SinkConfig>,
    pressure: Arc<Pressure>,
    /// Whose rows these are, for the log.
    chain: usize,
    /// What new lanes are made of.
    model: Session,
    idle: Vec<Lane>,
    running: JoinSet<Delivery>,
    /// Jobs of each table.
    tables: HashMap<TableId, usize>,
    done: Flushed,
}

impl Lanes {
    pub(super) fn new(config: Arc<SinkConfig>, pressure: Arc<Pressure>, chain: usize) -> Self {
        Self {
            model: Session::new(&config),
            config,
            pressure,
            chain,
            idle: Vec::new(),
            running: JoinSet::new(),
            tables: HashMap::new(),
            done: Flushed::default(),
        }
    }

    /// True when one more lane may be in use besides `others`.
    pub(super) fn has_room(&self, others: usize) -> bool {
        let limit = if self.pressure.is_tight() { 1 } else { self.config.max_in_flight };
        self.running.len() + others < limit
    }

    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// A lane that is not in use. Who takes one has looked whether there is room.
    pub(super) fn take(&mut self) -> Lane {
        self.idle.pop().unwrap_or_else(|| Lane { session: self.model.another(), encoded: Vec::new() })
    }

    pub(super) fn send(&mut self, lane: Lane, job: Job) {
        *self.tables.entry(job.table.clone()).or_default() += 1;
        let (config, pressure) = (Arc::clone(&self.config), Arc::clone(&self.pressure));
        self.running.spawn(deliver(lane, job, config, pressure, self.chain));
    }

    /// Waits until no INSERT into this table is under way.
    pub(super) async fn wait_for_table(&mut self, table: &TableId) -> Result<()> {
        while self.tables.contains_key(table) {
            self.wait_for_one().await?;
        }
        Ok(())
    }

    /// Waits until no INSERT is under way, and tells what all since the last time came to.
    pub(super) async fn drain(&mut self) -> Result<Flushed> {
        while self.is_running() {
            self.wait_for_one().await?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// Waits until one of the INSERTs under way has ended.
    pub(super) async fn wait_for_one(&mut self) -> Result<()> {
        let Some(joined) = self.running.join_next().await else { return Ok(()) };
        let Delivery { lane, table, outcome } =
            joined.map_err(|e| Error::new(ErrorKind::Unexpected, "an INSERT broke down").with_source(e))?;
        if let Some(jobs) = self.tables.get_mut(&table) {
            *jobs -= 1;
            if *jobs == 0 {
                self.tables.remove(&table);
            }
        }
        self.idle.push(lane);
        let Flushed { rows, bytes, rejected } = outcome?;
        self.done.rows += rows;
        self.done.bytes += bytes;
        self.done.rejected.extend(rejected);
        Ok(())
    }

    /// Breaks off what is under way and closes all connections.
    pub(super) async fn close(&mut self) {
        self.running.shutdown().await;
        self.tables.clear();
        self.idle.iter_mut().for_each(|lane| lane.session.close());
        self.idle.clear();
    }
}

async fn deliver(
    mut lane: Lane,
    mut job: Job,
    config: Arc<SinkConfig>,
    pressure: Arc<Pressure>,
    chain: usize,
) -> Delivery {
    let outcome = job.run(&mut lane, &config, &pressure, chain).await;
    Delivery { lane, table: job.table, outcome }
}

impl Job {
    async fn run(
        &mut self,
        lane: &mut Lane,
        config: &SinkConfig,
        pressure: &Pressure,
        chain: usize,
    ) -> Result<Flushed> {
        let mut flushed = Flushed::default();
        let mut backoffs = config.retry.backoffs();
        let mut looked_again = false;
        while let Some(parcel) = self.parcels.front_mut() {
            match parcel.attempt(&mut lane.session, config, &mut lane.encoded, true).await {
                Ok(confirmed) => {
                    let confirmed = confirmed.unwrap_or_default();
                    tracing::debug!(chain, table = %self.table, rows = confirmed.rows, bytes = confirmed.bytes, "stored");
                    flushed.rows += confirmed.rows;
                    flushed.bytes += confirmed.bytes;
                    flushed.rejected.extend(parcel.take_rejected());
                    self.parcels.pop_front();
                    pressure.confirmed();
                    backoffs = config.retry.backoffs();
                }
                Err(error) if description_outdated(&error) && !std::mem::replace(&mut looked_again, true) => {
                    look_again(&parcel.route, &mut lane.session, config, error).await?;
                }
                Err(error) => {
                    pressure.refused(&error, parcel.num_rows());
                    let parts = parts_after(parcel, &error)?;
                    if error.is_transient() {
                        wait(error, backoffs.next()).await?;
                    } else if parts.is_none() {
                        return Err(error);
                    }
                    if let Some(parts) = parts {
                        metrics::counter!(INSERTS_SPLIT, "table" => self.table.to_string()).increment(1);
                        flushed.rejected.extend(parcel.take_rejected());
                        self.parcels.pop_front();
                        parts.into_iter().rev().for_each(|part| self.parcels.push_front(part));
                    }
                }
            }
        }
        Ok(flushed)
    }
}

/// Looks at a table again that the server says is not as it was described. The rows can be sent once more where the
/// table still takes them; else `error` stands.
async fn look_again(route: &Route, session: &mut Session, config: &SinkConfig, error: Error) -> Result<()> {
    let known = &route.target;
    let definition = table_definition(session.client().await?, &known.table).await?;
    let target = Target::new(known.table.clone(), definition, config, known.upsert.is_none())?;
    let columns = Columns::new(&target, &route.columns.source, config)?;
    if columns.sent != route.columns.sent {
        return Err(error);
    }
    target.expect_types(&columns.sent, config)?;
    tracing::warn!(
        table = %known.table, %error,
        "the table is not as it was described; it was looked at again, and the rows are sent once more"
    );
    Ok(())
}

/// The parcel in parts, where that helps against the error.
fn parts_after(parcel: &Parcel, error: &Error) -> Result<Option<Vec<Parcel>>> {
    let Some(how) = Split::after(error) else { return Ok(None) };
    // What may come again under its token must come as one block: parts might be stored by then.
    if parcel.is_lasting() {
        return Ok(None);
    }
    let parts = split(parcel, how)?;
    if let Some(parts) = &parts {
        tracing::warn!(
            table = %parcel.route.target.table, rows = parcel.num_rows(), parts = parts.len(), %error,
            "the server cannot take the rows at once; they are sent in parts"
        );
    }
    Ok(parts)
}

/// Waits before the next try; the error comes back as exhausted when there is none.
pub(super) async fn wait(error: Error, backoff: Option<Duration>) -> Result<()> {
    let Some(backoff) = backoff else { return Err(error.with_retry(RetryState::Exhausted)) };
    metrics::counter!(RETRIES).increment(1);
    tracing::warn!(%error, ?backoff, "the server did not take the rows; they are kept and sent again");
    tokio::time::sleep(backoff).await;
    Ok(())
}
