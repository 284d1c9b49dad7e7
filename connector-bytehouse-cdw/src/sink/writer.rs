//! [`BytehouseCdwWriter`]: buffers, flushes and resends.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_bytehouse_common::sql::{quote_ident, quote_table};
use connector_core::{
    ChangeBatch, DeliveryGuarantee, Error, ErrorKind, FlushToken, Flushed, Result, RetryState, RowKind,
    SchemaChange, SinkWriter, TableId, WriterContext,
    arrow::{
        array::AsArray,
        compute::cast,
        datatypes::{DataType, SchemaRef, UInt64Type},
    },
    async_trait,
    batch::BatchMeter,
};

use super::{
    columns::{Columns, Versions},
    compact::compact,
    insert::{Confirmed, TableInsert, concat},
    target::{Target, Upsert},
};
use crate::{
    client::Session,
    config::{SinkConfig, SinkMode},
    metrics::{RETRIES, ROWS_DROPPED},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Poisoned,
    Closed,
}

/// One table's buffer.
#[derive(Debug)]
struct Buffer {
    insert: TableInsert,
    /// Rows that wait for their flush: in upsert mode and under exactly-once.
    rows: Vec<ChangeBatch>,
    versions: Versions,
}

/// Writes rows over one connection.
///
/// In mode insert, rows are sent while they come in, as blocks of one INSERT that the flush ends; in mode
/// upsert and under exactly-once they wait for the flush. Either way every row is kept in memory until the
/// server has confirmed it, within `sink.buffer-flush.max-rows` and the byte bound: a failed INSERT is sent
/// again as it was.
#[derive(Debug)]
pub struct BytehouseCdwWriter {
    config: Arc<SinkConfig>,
    session: Session,
    buffers: BTreeMap<TableId, Buffer>,
    meter: BatchMeter,
    /// Rows wait for the token that the flush brings.
    holds: bool,
    done: Flushed,
    encoded: Vec<u8>,
    state: State,
    warned_kinds: bool,
    /// Whose rows these are, for the log.
    chain: usize,
}

impl BytehouseCdwWriter {
    pub(super) fn new(config: Arc<SinkConfig>, context: WriterContext) -> Self {
        Self {
            session: Session::new(&config),
            buffers: BTreeMap::new(),
            meter: BatchMeter::new(config.flush),
            holds: context.delivery == DeliveryGuarantee::ExactlyOnce && config.mode == SinkMode::Insert,
            done: Flushed::default(),
            encoded: Vec::new(),
            state: State::Open,
            warned_kinds: false,
            chain: context.chain,
            config,
        }
    }

    fn expect_open(&self) -> Result<()> {
        match self.state {
            State::Open => Ok(()),
            State::Poisoned => Err(Error::new(
                ErrorKind::Closed,
                "a write or flush failed before; open a new writer and go on from the last checkpoint",
            )),
            State::Closed => Err(Error::new(ErrorKind::Closed, "the writer is closed")),
        }
    }

    /// Marks the writer as unusable when `outcome` is an error.
    fn settle<T>(&mut self, outcome: Result<T>, operation: &'static str) -> Result<T> {
        if outcome.is_err() {
            self.state = State::Poisoned;
        }
        outcome.map_err(|e| e.with_operation(operation))
    }

    fn target_of(&self, table: &TableId) -> TableId {
        self.config.table.clone().unwrap_or_else(|| table.clone())
    }

    /// A buffer for a table as the server describes it, asked as often as the retry policy says.
    async fn describe(&mut self, table: &TableId, schema: &SchemaRef) -> Result<Buffer> {
        let mut backoffs = self.config.retry.backoffs();
        loop {
            match self.describe_once(table, schema).await {
                Err(error) if error.is_transient() => wait(error, backoffs.next()).await?,
                outcome => return outcome,
            }
        }
    }

    async fn describe_once(&mut self, table: &TableId, schema: &SchemaRef) -> Result<Buffer> {
        let target = self.session.target(table, &self.config).await?;
        let columns = Columns::new(&target, schema, self.config.case_insensitive)?;
        let mut versions = Versions::default();
        if columns.fills_version() {
            versions.beyond(self.highest_version(&target).await?);
        }
        Ok(Buffer { insert: TableInsert::new(target, columns), rows: Vec::new(), versions })
    }

    /// The table's buffer, ready for rows of `schema`. Rows of another shape are flushed first.
    async fn prepare(&mut self, table: &TableId, schema: &SchemaRef) -> Result<()> {
        if self.buffers.get(table).is_some_and(|buffer| buffer.insert.columns().source == *schema) {
            return Ok(());
        }
        if self.buffers.contains_key(table) {
            if self.holds && !self.buffers[table].rows.is_empty() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "rows of two shapes for one table in one exactly-once flush; give each shape a table of its own",
                )
                .with_context("table", table));
            }
            self.flush_table(table, None).await?;
        }
        let buffer = self.describe(table, schema).await?;
        self.buffers.insert(table.clone(), buffer);
        Ok(())
    }

    /// The highest version in the table: ours go on from there, whatever this machine's clock says.
    async fn highest_version(&mut self, target: &Target) -> Result<u64> {
        let Some(Upsert::Replacing { version, .. }) = &target.upsert else { return Ok(0) };
        let sql = format!("SELECT max({}) FROM {}", quote_ident(version), quote_table(&target.table));
        let batches = self.session.rows(&sql).await.map_err(|e| e.with_context("table", &target.table))?;
        let Some(column) = batches.iter().find(|batch| batch.num_rows() > 0).map(|batch| batch.column(0))
        else {
            return Ok(0);
        };
        let number = cast(column, &DataType::UInt64).ok();
        number.map(|number| number.as_primitive::<UInt64Type>().value(0)).ok_or_else(|| {
            Error::new(
                ErrorKind::SchemaMismatch,
                format!("the version column `{version}` is not a whole number; make it UInt64, or bring it in the rows"),
            )
            .with_context("table", &target.table)
        })
    }

    async fn take(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        let table = self.target_of(table);
        let rows = if self.config.mode == SinkMode::Insert { self.only_inserts(&table, rows)? } else { rows };
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.prepare(&table, rows.rows().schema_ref()).await?;
        self.meter.add(rows.num_rows(), rows.memory_size(), Instant::now());
        if self.holds || self.config.mode == SinkMode::Upsert {
            if let Some(buffer) = self.buffers.get_mut(&table) {
                buffer.rows.push(rows);
            }
        } else {
            self.stream(&table, &rows).await?;
        }
        if self.meter.is_full() && !self.holds {
            self.flush_all(None).await?;
        }
        Ok(())
    }

    /// Sends rows as soon as there are enough of them.
    async fn stream(&mut self, table: &TableId, rows: &ChangeBatch) -> Result<()> {
        let Some(buffer) = self.buffers.get_mut(table) else { return Ok(()) };
        let sent = buffer.insert.columns().build(rows.rows(), 0, false)?;
        buffer.insert.push_sliced(&sent);
        if !buffer.insert.wants_to_send() {
            return Ok(());
        }
        // One connection carries one INSERT: another table's is ended first.
        let others: Vec<TableId> = self.buffers.keys().filter(|other| *other != table).cloned().collect();
        for other in others {
            if self.buffers.get(&other).is_some_and(|buffer| buffer.insert.is_open()) {
                self.flush_table(&other, None).await?;
            }
        }
        self.deliver(table, None, false).await.map(|_| ())
    }

    fn only_inserts(&mut self, table: &TableId, rows: ChangeBatch) -> Result<ChangeBatch> {
        if rows.is_append_only() {
            return Ok(rows);
        }
        let before = rows.num_rows();
        let rows = rows.filter_kinds(|kind| kind == RowKind::Insert)?;
        let dropped = before - rows.num_rows();
        metrics::counter!(ROWS_DROPPED, "table" => table.to_string()).increment(dropped as u64);
        if dropped > 0 && !std::mem::replace(&mut self.warned_kinds, true) {
            tracing::warn!(%table, dropped, "mode insert takes +I rows only; others are dropped and counted");
        }
        Ok(rows)
    }

    async fn flush_all(&mut self, token: Option<&FlushToken>) -> Result<()> {
        let tables: Vec<TableId> = self.buffers.keys().cloned().collect();
        for table in tables {
            self.flush_table(&table, token).await?;
        }
        self.meter.clear();
        Ok(())
    }

    async fn flush_table(&mut self, table: &TableId, token: Option<&FlushToken>) -> Result<()> {
        let Some(buffer) = self.buffers.get_mut(table) else { return Ok(()) };
        buffer.seal(self.config.mode)?;
        if buffer.insert.has_blocks() {
            self.deliver(table, token, true).await?;
        }
        Ok(())
    }

    /// Sends a table's blocks, as often as the retry policy says.
    async fn deliver(&mut self, table: &TableId, token: Option<&FlushToken>, finish: bool) -> Result<()> {
        let Self { buffers, session, config, encoded, done, chain, .. } = self;
        let Some(buffer) = buffers.get_mut(table) else { return Ok(()) };
        buffer.insert.name(token.map(FlushToken::as_str));
        let mut backoffs = config.retry.backoffs();
        let confirmed = loop {
            match buffer.insert.attempt(session, config, encoded, finish).await {
                Ok(confirmed) => break confirmed,
                Err(error) if error.is_transient() => wait(error, backoffs.next()).await?,
                Err(error) => return Err(error),
            }
        };
        if let Some(Confirmed { rows, bytes }) = confirmed {
            tracing::debug!(chain, %table, rows, bytes, "stored");
        }
        let Confirmed { rows, bytes } = confirmed.unwrap_or_default();
        done.rows += rows;
        done.bytes += bytes;
        done.rejected.extend(buffer.insert.take_rejected());
        Ok(())
    }
}

impl Buffer {
    /// Turns waiting rows into blocks.
    fn seal(&mut self, mode: SinkMode) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        if mode == SinkMode::Insert {
            // One block: the server takes it whole or not at all, and a token names all of it.
            if let Some(all) = concat(&rows)? {
                let block = self.insert.columns().build(&all, 0, false)?;
                self.insert.push(block, all.get_array_memory_size(), false);
            }
            return Ok(());
        }
        let Some(left) = compact(&rows, &self.source_key())? else { return Ok(()) };
        if left.deletes.num_rows() > 0 && !self.insert.columns().deletes {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "rows are to be deleted, and the table has no is_deleted column; use ReplacingMergeTree(version, is_deleted)",
            )
            .with_context("table", &self.insert.target.table));
        }
        let version = self.versions.next();
        let upserts = self.insert.columns().build(&left.upserts, version, false)?;
        self.insert.push_sliced(&upserts);
        let deletes = self.insert.columns().build(&left.deletes, version, true)?;
        self.insert.push(deletes, left.deletes.get_array_memory_size(), true);
        Ok(())
    }

    /// The key by the rows' own column names.
    fn source_key(&self) -> Vec<String> {
        let columns = self.insert.columns();
        let own = |key: &String| {
            let at = columns.sent.fields().iter().position(|field| field.name() == key);
            at.and_then(|at| columns.source.fields().get(at))
                .map_or_else(|| key.clone(), |field| field.name().clone())
        };
        self.insert.target.key.iter().map(own).collect()
    }
}

/// Waits before the next try; the error comes back as exhausted when there is none.
async fn wait(error: Error, backoff: Option<Duration>) -> Result<()> {
    let Some(backoff) = backoff else { return Err(error.with_retry(RetryState::Exhausted)) };
    metrics::counter!(RETRIES).increment(1);
    tracing::warn!(%error, ?backoff, "the server did not take the rows; they are kept and sent again");
    tokio::time::sleep(backoff).await;
    Ok(())
}

#[async_trait]
impl SinkWriter for BytehouseCdwWriter {
    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        self.expect_open()?;
        let outcome = self.take(table, rows).await;
        self.settle(outcome, "bytehouse.write")
    }

    /// Takes announcements only: the table must be there, with a column for each announced one. Changes to
    /// tables are refused.
    async fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        self.expect_open()?;
        let SchemaChange::CreateTable { table, schema } = change else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the sink cannot apply a {}; change the table yourself, then restart",
                    change.kind().as_str()
                ),
            )
            .with_operation("bytehouse.apply")
            .with_context("table", self.target_of(change.table())));
        };
        let table = self.target_of(table);
        let known =
            self.buffers.get(&table).is_some_and(|buffer| buffer.insert.columns().source == schema.columns);
        if known {
            return Ok(());
        }
        let outcome = self.prepare(&table, &schema.columns).await;
        self.settle(outcome, "bytehouse.apply")
    }

    async fn flush(&mut self, token: Option<&FlushToken>) -> Result<Flushed> {
        self.expect_open()?;
        if token.is_some() != self.holds && (token.is_some() || self.meter.rows() > 0) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                if self.holds {
                    "an exactly-once flush needs its token"
                } else {
                    "this writer does not take flush tokens"
                },
            )
            .with_operation("bytehouse.flush"));
        }
        let outcome = self.flush_all(token).await;
        self.settle(outcome, "bytehouse.flush")?;
        Ok(std::mem::take(&mut self.done))
    }

    fn flush_due(&self) -> Option<Instant> {
        self.meter.due()
    }

    async fn close(&mut self) -> Result<()> {
        self.state = State::Closed;
        // Open INSERTs are broken off in the middle of a block, so that they store nothing.
        self.buffers.clear();
        self.session.close();
        Ok(())
    }
}
