//! [`BytehouseCdwWriter`]: buffers rows, and has them sent.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use connector_bytehouse_common::{
    error::description_outdated,
    sql::{quote_ident, quote_table},
};
use connector_core::{
    ChangeBatch, DeliveryGuarantee, Error, ErrorKind, FlushToken, Flushed, Result, RowKind, SchemaChange,
    SinkWriter, TableId, UnknownColumns, WriterContext,
    arrow::{
        array::{AsArray, RecordBatch},
        compute::{cast, concat_batches},
        datatypes::{DataType, SchemaRef, UInt64Type},
    },
    async_trait,
    batch::BatchPolicy,
};

use super::{
    atomic::Batch,
    columns::{Columns, Versions},
    compact::compact,
    delivery::{Job, Lane, Lanes, wait},
    insert::{Block, Parcel, Route},
    pressure::{Fill, Pressure},
    split::Split,
    tables::{Tables, is_absent},
    target::{Target, Upsert},
};
use crate::{
    client::Session,
    config::{Fate, SinkConfig, SinkMode},
    metrics::ROWS_DROPPED,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Poisoned,
    Closed,
}

/// One table's buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) route: Arc<Route>,
    /// The INSERT that takes rows while they come in, in mode insert.
    parcel: Parcel,
    /// Rows that wait for their flush: in keyed modes and under exactly-once.
    rows: Vec<ChangeBatch>,
    /// What waited, as INSERTs that are ready to be sent.
    sealed: VecDeque<Parcel>,
    versions: Versions,
}

/// Writes rows over a few connections.
///
/// In mode insert, rows are sent while they come in, as blocks of one INSERT that the flush ends; several INSERTs
/// may wait for their confirmation. In keyed modes and under exactly-once they wait for the flush. In keyed modes INSERTs into
/// one table go one after the other, but for tables whose versions the sink fills in, where the order does not matter. Either way every row is kept in memory until the server has confirmed it, within
/// `sink.buffer-flush.max-bytes`: a failed INSERT is sent again as it was.
#[derive(Debug)]
pub struct BytehouseCdwWriter {
    pub(super) config: Arc<SinkConfig>,
    pub(super) session: Session,
    pub(super) tables: Tables,
    pub(super) buffers: BTreeMap<TableId, Buffer>,
    /// The connections of INSERTs that are open or about to be, by their tables: a few.
    open: BTreeMap<TableId, Lane>,
    pub(super) lanes: Lanes,
    fill: Fill,
    pressure: Arc<Pressure>,
    /// Rows wait for the token that the flush brings.
    pub(super) holds: bool,
    /// Rows go to the temporary table of this batch.
    batch: Option<Arc<Batch>>,
    /// Columns that a table lacks are left out instead of refused.
    pub(super) leaves_out_columns: bool,
    warned_columns: bool,
    state: State,
    warned_kinds: bool,
}

impl BytehouseCdwWriter {
    pub(super) fn new(config: Arc<SinkConfig>, batch: Option<Arc<Batch>>, context: WriterContext) -> Self {
        // What waits and each INSERT under way get their share of the memory.
        let shares = config.max_in_flight.saturating_add(1);
        let policy = BatchPolicy { max_bytes: (config.flush.max_bytes / shares).max(1), ..config.flush };
        let pressure = Arc::new(Pressure::new(policy));
        Self {
            session: Session::new(&config),
            tables: Tables::default(),
            leaves_out_columns: context.unknown_columns == UnknownColumns::LeaveOut,
            warned_columns: false,
            buffers: BTreeMap::new(),
            open: BTreeMap::new(),
            lanes: Lanes::new(Arc::clone(&config), Arc::clone(&pressure), context.chain),
            fill: Fill::default(),
            pressure,
            // An atomic batch is exactly once by itself.
            holds: context.delivery == DeliveryGuarantee::ExactlyOnce
                && !config.mode.is_keyed()
                && batch.is_none(),
            batch,
            state: State::Open,
            warned_kinds: false,
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

    /// Marks the writer as unusable when `outcome` is an error. What is under way then is broken off, so that it does
    /// not come behind what the next writer sends.
    async fn settle<T>(&mut self, outcome: Result<T>, operation: &'static str) -> Result<T> {
        if outcome.is_err() {
            self.state = State::Poisoned;
            self.buffers.clear();
            self.open.clear();
            self.lanes.close().await;
        }
        outcome.map_err(|error| {
            let error = error.with_operation(operation);
            if self.batch.is_none() || !is_absent(&error) {
                return error;
            }
            error.with_context(
                "hint",
                "the batch's temporary table is gone: a later run of the same job drops it, and goes on instead of this one",
            )
        })
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
        let target = self.tables.target(&mut self.session, table, &self.config).await?;
        self.buffer(target, schema).await
    }

    /// A buffer for rows of `schema`, checked against the table's columns.
    pub(super) async fn buffer(&mut self, target: Target, schema: &SchemaRef) -> Result<Buffer> {
        let schema = match self.leaves_out_columns {
            true => &target.known_schema(schema, self.config.case_insensitive)?,
            false => schema,
        };
        let columns = Columns::new(&target, schema, &self.config)?;
        target.expect_types(&columns.sent, &self.config)?;
        let mut versions = Versions::default();
        if columns.fills_version() {
            versions.beyond(self.highest_version(&target).await?);
        }
        let target = match &self.batch {
            Some(batch) => batch.redirect(&mut self.session, target).await?,
            None => target,
        };
        Ok(Buffer::new(Route::new(target, columns), versions))
    }

    /// The table's buffer, ready for rows of `schema`. Rows of another shape are sent first.
    async fn prepare(&mut self, table: &TableId, schema: &SchemaRef) -> Result<()> {
        let Some(known) = self.buffers.get(table) else {
            let buffer = self.describe(table, schema).await?;
            self.buffers.insert(table.clone(), buffer);
            return Ok(());
        };
        if known.route.columns.source == *schema {
            return Ok(());
        }
        if self.holds && !known.rows.is_empty() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "rows of two shapes for one table in one exactly-once flush; give each shape a table of its own",
            )
            .with_context("table", table));
        }
        let versions = known.versions.clone();
        self.dispatch(table, None).await?;
        let mut buffer = self.describe(table, schema).await?;
        // Rows under way have versions that the table does not show yet.
        buffer.versions.beyond(versions.last());
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
        if self.tables.is_skipped(&table) {
            metrics::counter!(ROWS_DROPPED, "table" => table.to_string()).increment(rows.num_rows() as u64);
            return Ok(());
        }
        let rows = self.only_taken(&table, rows, self.config.mode)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if self.batch.is_some() && self.config.mode.is_keyed() {
            expect_no_deletes(&table, &rows)?;
        }
        let rows = self.known_columns(&table, rows).await?;
        self.prepare(&table, rows.rows().schema_ref()).await?;
        let appends = self.buffers.get(&table).is_some_and(|buffer| buffer.route.columns.identity.is_none());
        // A table without a key is appended to in the modes with keys too: it takes new rows only.
        let rows = if appends { self.only_taken(&table, rows, SinkMode::Insert)? } else { rows };
        self.fill.add(rows.num_rows(), rows.memory_size());
        if self.holds || !appends {
            if let Some(buffer) = self.buffers.get_mut(&table) {
                buffer.rows.push(rows);
            }
        } else {
            self.stream(&table, &rows).await?;
        }
        if !self.holds && self.fill.is_full(&self.pressure) {
            self.dispatch_all(None).await?;
        }
        Ok(())
    }

    /// The rows without columns that the table lacks, where the pipeline wants it so.
    async fn known_columns(&mut self, table: &TableId, rows: ChangeBatch) -> Result<ChangeBatch> {
        if !self.leaves_out_columns {
            return Ok(rows);
        }
        if !self.buffers.contains_key(table) {
            self.prepare(table, rows.rows().schema_ref()).await?;
        }
        let Some(buffer) = self.buffers.get(table) else { return Ok(rows) };
        let (rows, left_out) = buffer.route.target.known_rows(rows, self.config.case_insensitive)?;
        if !left_out.is_empty() && !std::mem::replace(&mut self.warned_columns, true) {
            tracing::warn!(%table, columns = left_out.join(", "), "the table lacks columns, which are left out as the policy for schema changes says");
        }
        Ok(rows)
    }

    /// Sends rows as soon as there are enough of them.
    async fn stream(&mut self, table: &TableId, rows: &ChangeBatch) -> Result<()> {
        let Some(buffer) = self.buffers.get_mut(table) else { return Ok(()) };
        let rows = buffer.route.columns.appended(rows.rows())?;
        buffer.parcel.push_sliced(Block { rows, whole: None });
        if !buffer.parcel.wants_to_send() {
            return Ok(());
        }
        if !self.open.contains_key(table) {
            let lane = self.lane(table).await?;
            self.open.insert(table.clone(), lane);
        }
        let (Some(buffer), Some(lane)) = (self.buffers.get_mut(table), self.open.get_mut(table)) else {
            return Ok(());
        };
        let Lane { session, encoded } = lane;
        buffer.parcel.name(None, &self.config);
        match buffer.parcel.attempt(session, &self.config, encoded, false).await {
            Ok(_) => Ok(()),
            // Trying again is the business of the job that finishes the INSERT.
            Err(error)
                if error.is_transient() || Split::after(&error).is_some() || description_outdated(&error) =>
            {
                tracing::debug!(%table, %error, "an INSERT broke off while rows were sent; it starts over");
                self.pressure.refused(&error, buffer.parcel.num_rows());
                self.dispatch(table, None).await
            }
            Err(error) => Err(error),
        }
    }

    /// A connection for an INSERT into `table`. Waits while as many are in use as the options allow; open INSERTs of
    /// other tables are ended when nothing else can make room.
    async fn lane(&mut self, table: &TableId) -> Result<Lane> {
        loop {
            if self.lanes.has_room(self.open.len()) {
                return Ok(self.lanes.take());
            }
            let other = self.open.keys().find(|name| *name != table).cloned();
            match other {
                _ if self.lanes.is_running() => self.lanes.wait_for_one().await?,
                Some(other) => self.send_off(&other, None)?,
                None => return Ok(self.lanes.take()),
            }
        }
    }

    /// The rows of kinds that a mode takes.
    fn only_taken(&mut self, table: &TableId, rows: ChangeBatch, mode: SinkMode) -> Result<ChangeBatch> {
        if rows.is_append_only() && mode.kinds().contains(&RowKind::Insert) {
            return Ok(rows);
        }
        let before = rows.num_rows();
        let dropped = (0..before).filter(|row| mode.fate(rows.kinds().get(*row)) == Fate::Drop).count();
        if dropped == 0 {
            return Ok(rows);
        }
        metrics::counter!(ROWS_DROPPED, "table" => table.to_string()).increment(dropped as u64);
        if !std::mem::replace(&mut self.warned_kinds, true) {
            tracing::warn!(%table, dropped, mode = mode.name(), "rows of kinds that the mode does not take are dropped and counted");
        }
        // A -U goes with its +U.
        rows.filter_kinds(|kind| mode.fate(kind) != Fate::Drop && mode.fate(kind) != Fate::Ignore)
    }

    /// Has everything sent that waits.
    async fn dispatch_all(&mut self, token: Option<&FlushToken>) -> Result<()> {
        let tables: Vec<TableId> = self
            .buffers
            .iter()
            .filter(|(table, buffer)| buffer.waits() || self.open.contains_key(table))
            .map(|(table, _)| table.clone())
            .collect();
        for table in tables {
            self.dispatch(&table, token).await?;
        }
        self.fill.clear();
        Ok(())
    }

    /// Has what waits for one table sent.
    pub(super) async fn dispatch(&mut self, table: &TableId, token: Option<&FlushToken>) -> Result<()> {
        let open = self.open.contains_key(table);
        if !open && !self.buffers.get(table).is_some_and(Buffer::waits) {
            return Ok(());
        }
        if self.config.mode.is_keyed() {
            // The next rows are made ready while there is no lane for them.
            let in_order = match self.buffers.get_mut(table) {
                Some(buffer) => {
                    buffer.seal()?;
                    buffer.route.columns.in_order
                }
                None => true,
            };
            if in_order {
                self.lanes.wait_for_table(table).await?;
            }
        }
        if !open {
            let lane = self.lane(table).await?;
            self.open.insert(table.clone(), lane);
        }
        self.send_off(table, token)
    }

    /// Turns what waits for a table that has a lane into a job.
    fn send_off(&mut self, table: &TableId, token: Option<&FlushToken>) -> Result<()> {
        let Some(lane) = self.open.remove(table) else { return Ok(()) };
        let Some(buffer) = self.buffers.get_mut(table) else { return Ok(()) };
        buffer.seal()?;
        let mut parcels = std::mem::take(&mut buffer.sealed);
        parcels.iter_mut().for_each(|parcel| parcel.name(token.map(FlushToken::as_str), &self.config));
        self.lanes.send(lane, Job { table: table.clone(), parcels });
        Ok(())
    }
}

impl Buffer {
    fn new(route: Route, versions: Versions) -> Self {
        let route = Arc::new(route);
        let parcel = Parcel::new(Arc::clone(&route));
        Self { route, parcel, rows: Vec::new(), sealed: VecDeque::new(), versions }
    }

    /// True when there is something to send.
    fn waits(&self) -> bool {
        !self.parcel.is_empty() || !self.rows.is_empty() || !self.sealed.is_empty()
    }

    /// Turns everything that waits into INSERTs, in their order.
    fn seal(&mut self) -> Result<()> {
        let route = &self.route;
        let rows = std::mem::take(&mut self.rows);
        let parcels = &mut self.sealed;
        let streamed = std::mem::replace(&mut self.parcel, Parcel::new(Arc::clone(route)));
        if !streamed.is_empty() {
            parcels.push_back(streamed);
        }
        let Some(identity) = &route.columns.identity else {
            // One block: the server takes it whole or not at all, and a token names all of it.
            if let Some(all) = concat(&rows)? {
                let mut parcel = Parcel::new(Arc::clone(route));
                let bytes = all.get_array_memory_size();
                parcel.push(Block { rows: route.columns.appended(&all)?, whole: None }, bytes);
                parcels.push_back(parcel);
            }
            return Ok(());
        };
        for round in compact(&rows, identity)? {
            let mut parcel = Parcel::new(Arc::clone(route));
            for piece in round {
                if !route.columns.deletes && piece.fates.any_delete() {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        "rows are to be deleted, and they bring the table's is_deleted column themselves, which says what is \
                         deleted; leave it out, or use mode upsert-no-delete",
                    )
                    .with_context("table", &route.target.table));
                }
                let count = piece.rows.num_rows();
                parcel.push_sliced(Block {
                    whole: piece.fates.whole(count),
                    rows: route.columns.build(&piece, self.versions.next(count))?,
                });
            }
            parcels.push_back(parcel);
        }
        Ok(())
    }
}

/// All rows of the batches as one.
fn concat(batches: &[ChangeBatch]) -> Result<Option<RecordBatch>> {
    let Some(first) = batches.first() else { return Ok(None) };
    concat_batches(&first.rows().schema(), batches.iter().map(ChangeBatch::rows))
        .map(Some)
        .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot join batches").with_source(e))
}

/// A delete would meet the temporary table only, and the row in the target would live on.
fn expect_no_deletes(table: &TableId, rows: &ChangeBatch) -> Result<()> {
    let deletes = |row: usize| matches!(rows.kinds().get(row), RowKind::Delete | RowKind::UpdateBefore);
    if rows.is_append_only() || !(0..rows.num_rows()).any(deletes) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "an atomic batch takes +I and +U rows only: it cannot delete what is in the target; leave atomic_write out",
    )
    .with_context("table", table))
}

#[async_trait]
impl SinkWriter for BytehouseCdwWriter {
    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        self.expect_open()?;
        let outcome = self.take(table, rows).await;
        self.settle(outcome, "bytehouse.write").await
    }

    /// Announcements: the table is checked, or created when it is not there. Changes: `ALTER TABLE`, where the
    /// table is not as they want it already. A change that fails leaves the writer as it was.
    async fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        self.expect_open()?;
        let table = self.target_of(change.table());
        let SchemaChange::CreateTable { schema, .. } = change else {
            if self.batch.is_some() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "a {} came in an atomic batch, which leaves the target as it is until its end",
                        change.kind().as_str()
                    ),
                )
                .with_operation("bytehouse.apply")
                .with_context("table", table));
            }
            return self.evolve(&table, change).await.map_err(|e| e.with_operation("bytehouse.apply"));
        };
        let outcome = self.announce(&table, schema).await;
        self.settle(outcome, "bytehouse.apply").await
    }

    async fn refresh(&mut self, table: &TableId) -> Result<()> {
        self.expect_open()?;
        let table = self.target_of(table);
        let outcome = self.let_go(&table).await;
        self.settle(outcome, "bytehouse.refresh").await
    }

    async fn flush(&mut self, token: Option<&FlushToken>) -> Result<Flushed> {
        self.expect_open()?;
        if token.is_some() != self.holds && (token.is_some() || self.fill.rows() > 0) {
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
        let outcome = match self.dispatch_all(token).await {
            Ok(()) => self.lanes.drain().await,
            Err(error) => Err(error),
        };
        self.settle(outcome, "bytehouse.flush").await
    }

    fn flush_due(&self) -> Option<Instant> {
        self.fill.due(&self.pressure)
    }

    async fn close(&mut self) -> Result<()> {
        self.state = State::Closed;
        // Open INSERTs are broken off in the middle of a block, so that they store nothing.
        self.buffers.clear();
        self.open.clear();
        self.lanes.close().await;
        self.session.close();
        Ok(())
    }
}
