//! [`FlussWriter`]: what a pipeline writes into.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    ChangeBatch, Error, ErrorKind, FlushToken, Flushed, Result, SchemaChange, SinkWriter, TableId,
    TableSchema, WriterContext, arrow::datatypes::Field, async_trait, schema::ColumnPosition,
};

use futures_util::future::join_all;

use super::{Inner, NO_TOKENS, metrics::SinkMetrics, pending::Pending, table::Table};
use crate::{catalog::FlussCatalog, client::Client, connection::Connection, types::fluss_type};

/// How long [`SinkWriter::close`] takes at most.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Writes rows into tables of a Fluss cluster.
///
/// Rows leave when a batch of the client is full or `client.writer.batch-timeout` has passed; `flush` sends the rest and
/// returns when the fate of every row is known. The writer asks for no flush of its own accord.
pub struct FlussWriter {
    sink: Arc<Inner>,
    catalog: FlussCatalog,
    metrics: SinkMetrics,
    tables: HashMap<TableId, Table>,
    pending: Pending,
    rows: u64,
    bytes: u64,
    lane: usize,
    lanes: usize,
    failed: bool,
    closed: bool,
}

impl fmt::Debug for FlussWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlussWriter")
            .field("tables", &self.tables.keys().map(ToString::to_string).collect::<Vec<_>>())
            .field("open_writes", &self.pending.open())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl FlussWriter {
    pub(crate) fn new(sink: Arc<Inner>, context: &WriterContext) -> Self {
        let catalog = FlussCatalog::with_client(Arc::clone(&sink.client), sink.given.options.clone());
        Self {
            sink,
            catalog,
            metrics: SinkMetrics::new(),
            tables: HashMap::new(),
            pending: Pending::default(),
            rows: 0,
            bytes: 0,
            lane: context.chain,
            lanes: context.chains.max(1),
            failed: false,
            closed: false,
        }
    }

    fn target(&self, table: &TableId) -> TableId {
        self.sink.table.clone().unwrap_or_else(|| table.clone())
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        if self.closed || self.failed {
            let text = if self.closed {
                "the writer is closed"
            } else {
                "the writer failed before; close it and open another one from the checkpoint"
            };
            return Err(Error::new(ErrorKind::Closed, text).with_operation(operation));
        }
        Ok(())
    }

    /// The table with its writers, looked up at its first row.
    async fn table(&mut self, id: &TableId) -> Result<&mut Table> {
        if !self.tables.contains_key(id) {
            let info = self.catalog.info("fluss.write", id).await?;
            let options = self.sink.given.over(info.get_custom_properties())?;
            let table = Table::new(id, info, options, self.lane, self.lanes)?;
            self.tables.insert(id.clone(), table);
        }
        self.tables.get_mut(id).ok_or_else(|| Error::new(ErrorKind::Unexpected, "a table went missing"))
    }

    async fn write_rows(&mut self, id: &TableId, rows: &ChangeBatch) -> Result<()> {
        self.pending.reap()?;
        let sink = Arc::clone(&self.sink);
        self.table(id).await?;
        let Some(table) = self.tables.get_mut(id) else { return Ok(()) };
        let (writes, count) = table.write(&sink, &self.metrics, rows).await?;
        self.pending.extend(writes);
        self.rows += count;
        self.bytes += rows.memory_size() as u64;
        self.pending.reap()
    }

    /// Marks the writer as of no use, and its connections too: what they have not confirmed stays unknown.
    fn fail(&mut self, error: Error, operation: &'static str) -> Error {
        self.failed = true;
        self.metrics.failures.increment(self.pending.failed().max(1));
        for (client, _) in self.connections() {
            self.sink.lanes.give_up(&client);
        }
        error.with_operation(operation).with_context("rows_not_durable", self.rows)
    }

    /// The connections that rows went through, each once.
    fn connections(&self) -> Vec<(Arc<Client>, Arc<Connection>)> {
        let mut found: Vec<(Arc<Client>, Arc<Connection>)> = Vec::new();
        for (client, connection) in self.tables.values().flat_map(Table::connections) {
            if !found.iter().any(|(_, other)| Arc::ptr_eq(other, connection)) {
                found.push((Arc::clone(client), Arc::clone(connection)));
            }
        }
        found
    }

    async fn flush_rows(&mut self) -> Result<()> {
        let limit = self.sink.given.options.flush_timeout;
        let connections = self.connections();
        let all = async {
            for (_, connection) in &connections {
                connection.flush().await?;
            }
            self.pending.wait().await
        };
        tokio::time::timeout(limit, all).await.unwrap_or_else(|_| {
            let text = format!(
                "rows were not confirmed within sink.flush-timeout ({})",
                connector_core::options::format_duration(limit)
            );
            Err(Error::new(ErrorKind::Timeout, text).transient())
        })
    }

    async fn create_table(&mut self, id: &TableId, schema: &TableSchema) -> Result<()> {
        let info = match self.catalog.info("fluss.apply", id).await {
            Ok(info) => info,
            Err(error) if error.kind() == ErrorKind::NotFound && self.sink.given.options.create_table => {
                self.catalog.create_database(&id.database).await?;
                self.catalog.create_table(id, schema).await?;
                self.catalog.info("fluss.apply", id).await?
            }
            Err(error) => return Err(error),
        };
        // Rows that came through a renamed table do not fit: better said now than at the first of them.
        let mismatch = |text: &'static str, column: &str| {
            Err(Error::new(ErrorKind::SchemaMismatch, text)
                .with_operation("fluss.apply")
                .with_context("table", id)
                .with_context("column", column))
        };
        for field in schema.columns.fields() {
            if info.row_type().get_field_index(field.name()).is_none() {
                return mismatch("the table lacks a column of the rows", field.name());
            }
        }
        if info.has_primary_key() && !schema.primary_key.is_empty() {
            for key in &schema.primary_key {
                if !info.get_primary_keys().contains(key) {
                    return mismatch("the rows' key column is not part of the table's primary key", key);
                }
            }
        }
        Ok(())
    }

    async fn add_column(&mut self, id: &TableId, column: &Field, position: &ColumnPosition) -> Result<()> {
        let refuse = |kind, text: &'static str| {
            Err(Error::new(kind, text)
                .with_operation("fluss.apply")
                .with_context("table", id)
                .with_context("column", column.name()))
        };
        let info = self.catalog.info("fluss.apply", id).await?;
        if let Some(place) = info.row_type().get_field_index(column.name()) {
            let wanted = fluss_type(&column.clone().with_nullable(true))?;
            let there = info.row_type().fields()[place].data_type();
            if there.to_string().trim_end_matches(" NOT NULL") != wanted.to_string() {
                return refuse(
                    ErrorKind::SchemaMismatch,
                    "the table has such a column already, of another type",
                );
            }
            return Ok(());
        }
        if !column.is_nullable() {
            return refuse(ErrorKind::Unsupported, "Fluss can add columns only that may be null");
        }
        if *position != ColumnPosition::Last {
            tracing::debug!(table = %id, column = column.name(), "the new column goes behind all others");
        }
        self.catalog.add_column(id, column).await
    }
}

#[async_trait]
impl SinkWriter for FlussWriter {
    async fn write(&mut self, table: &TableId, rows: ChangeBatch) -> Result<()> {
        self.check_open("fluss.write")?;
        let id = self.target(table);
        match self.write_rows(&id, &rows).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail(error.with_context("table", &id), "fluss.write")),
        }
    }

    async fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        self.check_open("fluss.apply")?;
        let id = self.target(change.table());
        self.tables.remove(&id);
        match change {
            SchemaChange::CreateTable { schema, .. } => self.create_table(&id, schema).await,
            SchemaChange::AddColumn { column, position, .. } => self.add_column(&id, column, position).await,
            SchemaChange::DropTable { .. } => self.catalog.drop_table(&id).await,
            other => Err(Error::new(
                ErrorKind::Unsupported,
                format!("Fluss cannot do {} to a table", other.kind().as_str()),
            )
            .with_operation("fluss.apply")
            .with_context("table", &id)),
        }
    }

    async fn refresh(&mut self, table: &TableId) -> Result<()> {
        let id = self.target(table);
        self.tables.remove(&id);
        Ok(())
    }

    async fn flush(&mut self, token: Option<&FlushToken>) -> Result<Flushed> {
        self.check_open("fluss.flush")?;
        if token.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, NO_TOKENS).with_operation("fluss.flush"));
        }
        if let Err(error) = self.flush_rows().await {
            let tables = self.tables.keys().map(ToString::to_string).collect::<Vec<_>>().join(",");
            return Err(self.fail(error.with_context("tables", tables), "fluss.flush"));
        }
        let flushed = Flushed { rows: self.rows, bytes: self.bytes, rejected: Vec::new() };
        self.metrics.rows.increment(self.rows);
        (self.rows, self.bytes) = (0, 0);
        Ok(flushed)
    }

    fn flush_due(&self) -> Option<Instant> {
        None
    }

    async fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let connections = self.connections();
        self.tables.clear();
        self.pending = Pending::default();
        let ended = connections.into_iter().filter_map(|(client, connection)| {
            // Other chains may write through it as well.
            if Arc::strong_count(&client) == 1 {
                drop(client.take_connection());
            }
            Arc::into_inner(connection).map(Connection::end)
        });
        tokio::time::timeout(CLOSE_DEADLINE, join_all(ended)).await.map(drop).map_err(|_| {
            Error::new(ErrorKind::Timeout, "the writer did not end in time").with_operation("fluss.close")
        })
    }
}
