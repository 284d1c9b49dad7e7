//! The answer to a query, block by block.

use std::{
    borrow::BorrowMut,
    fmt,
    time::{Duration, Instant},
};

use connector_core::{
    Error, ErrorKind, Result,
    arrow::array::{Array, AsArray},
};

use super::{
    client::{Client, Packet, State},
    protocol::{ProfileInfo, Progress},
};
use crate::native::{Block, ColumnDef};

/// What a query came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuerySummary {
    /// The query's id.
    pub query_id: String,
    /// Rows and bytes read and written, as far as the server told.
    pub progress: Progress,
    /// Facts about the result; most statements without one have none.
    pub profile: Option<ProfileInfo>,
    /// From sending the statement to its end.
    pub elapsed: Duration,
}

/// The blocks of a result as they come. `C` is the [`Client`] or a mutable borrow of it.
///
/// Dropping it before the end closes the connection, which makes the server stop;
/// [`cancel`](Self::cancel) keeps the connection.
pub struct QueryStream<C: BorrowMut<Client>> {
    client: Option<C>,
    started: Instant,
    query_id: String,
    header: Vec<ColumnDef>,
    progress: Progress,
    profile: Option<ProfileInfo>,
    totals: Option<Block>,
    extremes: Option<Block>,
    cancelled: bool,
    done: bool,
}

impl<C: BorrowMut<Client>> fmt::Debug for QueryStream<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryStream")
            .field("query_id", &self.query_id)
            .field("progress", &self.progress)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<C: BorrowMut<Client>> QueryStream<C> {
    pub(super) fn new(client: C, query_id: String) -> Self {
        Self {
            client: Some(client),
            started: Instant::now(),
            query_id,
            header: Vec::new(),
            progress: Progress::default(),
            profile: None,
            totals: None,
            extremes: None,
            cancelled: false,
            done: false,
        }
    }

    /// The next block with rows; `None` at the end, after which the connection is free again. Not cancel-safe:
    /// a dropped future leaves the connection closed.
    ///
    /// # Errors
    /// What the server's code says (the connection stays usable); `Unavailable` or `Timeout` (transient) from the
    /// network; `Unsupported` for a type that cannot be read. Except for the first the connection is then closed.
    pub async fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let next = loop {
            match self.step().await {
                Ok(Some(block)) if block.rows.num_rows() == 0 => {}
                other => break other,
            }
        };
        self.done = !matches!(next, Ok(Some(_)));
        next.map_err(|e| e.with_operation("bytehouse.query").with_context("query_id", &self.query_id))
    }

    /// Reads one packet: a block (maybe without rows) or the end. `None` is the end; anything else that
    /// comes is an empty block's worth.
    async fn step(&mut self) -> Result<Option<Block>> {
        let Some(client) = self.client.as_mut().map(BorrowMut::borrow_mut) else {
            return Err(Error::new(ErrorKind::Closed, "the stream was given up"));
        };
        if client.state != State::Query {
            return Err(Error::new(
                ErrorKind::Closed,
                "a read was given up half way, so the connection is closed",
            ));
        }
        loop {
            client.state = State::Busy;
            let packet = client.read_packet().await;
            let packet = client.check_query(packet, !self.cancelled)?;
            client.state = State::Query;
            match packet {
                Packet::Data(block) => {
                    if self.header.is_empty() {
                        self.header.clone_from(&block.columns);
                    }
                    return Ok(Some(block));
                }
                Packet::Totals(block) => self.totals = Some(block),
                Packet::Extremes(block) => self.extremes = Some(block),
                Packet::Progress(progress) => self.progress.add(&progress),
                Packet::Profile(profile) => self.profile = Some(profile),
                Packet::TableColumns(_) | Packet::Aside => {}
                Packet::EndOfStream => {
                    client.rest();
                    return Ok(None);
                }
                Packet::Exception(exception) => {
                    client.rest();
                    return Err(client.refusal(&exception, "bytehouse.query"));
                }
                Packet::Pong => {
                    client.close();
                    return Err(Error::new(
                        ErrorKind::Unexpected,
                        "the server sent a pong in the middle of a query",
                    ));
                }
            }
        }
    }

    /// Asks the server to stop, and reads what it still sends, for
    /// [`ping_timeout`](super::ClientOptions::ping_timeout) at most. Afterwards
    /// [`Client::is_usable`] tells whether it stopped in time; else the connection is closed. Not cancel-safe: a
    /// dropped future closes the connection.
    ///
    /// # Errors
    /// `Unavailable` (transient) when the connection ended.
    pub async fn cancel(mut self) -> Result<()> {
        if self.done {
            return Ok(());
        }
        let Some(client) = self.client.as_mut().map(BorrowMut::borrow_mut) else { return Ok(()) };
        if client.state != State::Query {
            return Ok(());
        }
        client.state = State::Busy;
        let limit = client.options().ping_timeout;
        client.conn.set_deadline(tokio::time::Instant::now(), Some((limit, "ping_timeout")));
        let sent = client.conn.write_all(&[3]).await;
        if let Err(error) = sent {
            client.close();
            return Err(error.with_operation("bytehouse.cancel"));
        }
        client.state = State::Query;
        self.cancelled = true;
        while let Ok(Some(_)) = self.step().await {}
        // An exception is how some servers say that they stopped; a connection that is lost shows in `is_usable`.
        self.done = true;
        Ok(())
    }

    /// The columns of the result; empty until the first block was read, and for statements without a result.
    pub fn header(&self) -> &[ColumnDef] {
        &self.header
    }

    /// The block of `WITH TOTALS`, once it was read.
    pub fn totals(&self) -> Option<&Block> {
        self.totals.as_ref()
    }

    /// The block of `extremes = 1`, once it was read.
    pub fn extremes(&self) -> Option<&Block> {
        self.extremes.as_ref()
    }

    /// The query's id.
    pub fn query_id(&self) -> &str {
        &self.query_id
    }

    /// What the query came to so far; all of it after the end.
    pub fn summary(&self) -> QuerySummary {
        QuerySummary {
            query_id: self.query_id.clone(),
            progress: self.progress,
            profile: self.profile,
            elapsed: self.started.elapsed(),
        }
    }

    /// Gives the client back. Before the end of the result its connection is closed.
    ///
    /// # Errors
    /// Never for a stream that was made by [`Client`].
    pub fn into_client(mut self) -> Result<C> {
        self.give_up();
        self.client.take().ok_or_else(|| Error::new(ErrorKind::Closed, "the client is gone"))
    }

    fn give_up(&mut self) {
        if !self.done
            && let Some(client) = self.client.as_mut()
        {
            client.borrow_mut().close();
        }
    }
}

impl<C: BorrowMut<Client>> Drop for QueryStream<C> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Client {
    /// Closes after an error of a query; asks the server to stop when it was too slow and `may_cancel`.
    fn check_query<T>(&mut self, outcome: Result<T>, may_cancel: bool) -> Result<T> {
        if let Err(error) = &outcome {
            // All our packets are whole, so one more is understood.
            let cancel = may_cancel && error.kind() == ErrorKind::Timeout;
            self.state = if cancel { State::Query } else { State::Busy };
            self.close();
        }
        outcome
    }
}

/// Passes the server's log lines on; they come only when `send_logs_level` asks for them.
pub(super) fn trace_log(lines: &Block) {
    let column =
        |name: &str| lines.rows.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let (Some(texts), source) = (column("text"), column("source")) else { return };
    for row in 0..texts.len() {
        let source = source.map_or("", |source| source.value(row));
        tracing::info!(target: "bytehouse.server", source, "{}", texts.value(row));
    }
}
