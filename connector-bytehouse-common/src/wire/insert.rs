//! An insert: encoded blocks to the server, and its word that they are stored.

use std::{
    borrow::BorrowMut,
    fmt,
    time::{Duration, Instant},
};

use connector_core::{Error, ErrorKind, Result};

use super::{
    Settings,
    client::{Client, Packet, State},
    connection::Step,
    frame::MAX_FRAME_CONTENT,
    protocol::{self, BlockInfo, ClientPacket, ProfileInfo, Progress, TableColumns},
};
use crate::{
    error::{server_code, with_outcome_unknown},
    native::ColumnDef,
};

/// How long [`InsertStream::abort`] waits for the server to take the break.
const ABORT: Duration = Duration::from_secs(1);
const OPERATION: &str = "bytehouse.insert";

/// What an insert came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertSummary {
    /// The query's id.
    pub query_id: String,
    /// Rows and bytes written, as far as the server told; old servers do not.
    pub progress: Progress,
    /// Facts about the insert, from servers that tell them.
    pub profile: Option<ProfileInfo>,
    /// Blocks sent.
    pub blocks: u64,
    /// Bytes of these blocks before compression.
    pub bytes: u64,
    /// Bytes that went to the socket or to TLS.
    pub bytes_on_wire: u64,
    /// From sending the statement to the server's confirmation.
    pub elapsed: Duration,
}

/// An insert that takes blocks. `C` is the [`Client`] or a mutable borrow of it.
///
/// Rows are stored when [`finish`](Self::finish) returns `Ok`, and only then. After an error they may be
/// stored nevertheless if [`outcome_unknown`](crate::error::outcome_unknown) says so. Dropping it, or
/// [`abort`](Self::abort), breaks off in the middle of a block, which servers answer by storing nothing of
/// the open block; servers that commit block by block keep what they committed.
pub struct InsertStream<C: BorrowMut<Client>> {
    client: Option<C>,
    started: Instant,
    sent_before: u64,
    columns: Vec<ColumnDef>,
    table_columns: Option<TableColumns>,
    summary: InsertSummary,
    done: bool,
}

impl<C: BorrowMut<Client>> fmt::Debug for InsertStream<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InsertStream")
            .field("columns", &self.columns)
            .field("summary", &self.summary)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<C: BorrowMut<Client>> InsertStream<C> {
    pub(super) async fn begin(
        mut client: C,
        sql: &str,
        settings: &Settings,
        query_id: Option<&str>,
    ) -> Result<Self> {
        let started = Instant::now();
        let inner = client.borrow_mut();
        let sent_before = inner.conn.sent();
        let query_id = inner.start(sql, settings, query_id).await.map_err(|e| e.with_operation(OPERATION))?;
        let summary = InsertSummary {
            query_id,
            progress: Progress::default(),
            profile: None,
            blocks: 0,
            bytes: 0,
            bytes_on_wire: 0,
            elapsed: Duration::ZERO,
        };
        let mut insert = Self {
            client: Some(client),
            started,
            sent_before,
            columns: Vec::new(),
            table_columns: None,
            summary,
            // Nothing to break off yet: no row was sent.
            done: true,
        };
        let begun = insert.wait_for_header().await;
        insert.told(begun)?;
        insert.done = false;
        Ok(insert)
    }

    async fn wait_for_header(&mut self) -> Result<()> {
        let client = self.client.as_mut().ok_or_else(gone)?.borrow_mut();
        loop {
            client.state = State::Busy;
            let packet = client.read_packet().await;
            match client.check_io(packet).await? {
                Packet::Data(block) => {
                    self.columns = block.columns;
                    client.state = State::Insert;
                    return Ok(());
                }
                Packet::TableColumns(columns) => self.table_columns = Some(columns),
                Packet::Progress(progress) => self.summary.progress.add(&progress),
                Packet::Aside => {}
                Packet::Exception(exception) => {
                    client.rest();
                    return Err(client.refusal(&exception, OPERATION));
                }
                Packet::EndOfStream => {
                    client.rest();
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        "the statement takes no blocks; write it as `INSERT INTO table (columns) VALUES`",
                    ));
                }
                _ => {
                    client.close();
                    return Err(out_of_place());
                }
            }
        }
    }

    /// The columns that the server expects, in order.
    pub fn columns(&self) -> &[ColumnDef] {
        &self.columns
    }

    /// The table's columns with their defaults, as the server describes them; old servers do not.
    pub fn table_columns(&self) -> Option<&TableColumns> {
        self.table_columns.as_ref()
    }

    /// The query's id.
    pub fn query_id(&self) -> &str {
        &self.summary.query_id
    }

    /// Sends one block: what [`BlockEncoder`](crate::native::BlockEncoder) wrote, without anything before it. It
    /// is not stored yet when this returns. An exception of the server is seen before the block, and while the
    /// server does not take it. Not cancel-safe: a dropped future leaves the insert broken off.
    ///
    /// # Errors
    /// What the server's code says; `Unavailable` or `Timeout` (transient) from the network. The insert is over
    /// then, and the connection closed. `Unexpected` for a block without columns, which would end the insert.
    pub async fn send(&mut self, block: &[u8]) -> Result<()> {
        if matches!(block.first(), None | Some(0)) {
            return Err(Error::new(
                ErrorKind::Unexpected,
                "a block without columns ends an insert; use `finish`",
            )
            .with_operation(OPERATION));
        }
        let sent = self.try_send(block).await;
        self.told(sent)?;
        self.summary.blocks += 1;
        self.summary.bytes += block.len() as u64;
        Ok(())
    }

    async fn try_send(&mut self, block: &[u8]) -> Result<()> {
        let client = self.client.as_mut().ok_or_else(gone)?.borrow_mut();
        client.enter_insert()?;
        while client.conn.peek()? {
            client.read_aside(&mut self.summary).await?;
        }
        let mut head = Vec::with_capacity(64);
        protocol::put_data_prefix(&mut head, ClientPacket::Data.id(), "");
        if client.compressed() {
            let mut info = Vec::with_capacity(8);
            protocol::put_block_info(&mut info, BlockInfo::default());
            client.frames.put(&mut head, &info)?;
            client.write_watching([&head, &[]], &mut self.summary).await?;
            // One frame at a time: the memory stays small, and the server works meanwhile.
            for chunk in block.chunks(MAX_FRAME_CONTENT) {
                let mut out = std::mem::take(&mut client.out);
                out.clear();
                client.frames.put(&mut out, chunk)?;
                client.write_watching([&out, &[]], &mut self.summary).await?;
                client.out = out;
            }
        } else {
            protocol::put_block_info(&mut head, BlockInfo::default());
            client.write_watching([&head, block], &mut self.summary).await?;
        }
        client.conn.end_packet();
        client.state = State::Insert;
        Ok(())
    }

    /// Ends the insert and waits for the server's word that the rows are stored. Not cancel-safe: after a
    /// dropped future the outcome is unknown.
    ///
    /// # Errors
    /// What the server's code says; `Unavailable` or `Timeout` (transient) from the network, then with
    /// [`outcome_unknown`](crate::error::outcome_unknown) if rows had been sent. `Ok` comes only after the
    /// server's end of stream.
    pub async fn finish(self) -> Result<InsertSummary> {
        self.finish_into().await.map(|(summary, _)| summary)
    }

    /// [`finish`](Self::finish) that gives the client back.
    ///
    /// # Errors
    /// As [`finish`](Self::finish); an owned client is then dropped.
    pub async fn finish_into(mut self) -> Result<(InsertSummary, C)> {
        let finished = self.try_finish().await;
        self.told(finished)?;
        self.done = true;
        let mut client = self.client.take().ok_or_else(gone)?;
        let mut summary = self.summary.clone();
        summary.bytes_on_wire = client.borrow_mut().conn.sent() - self.sent_before;
        summary.elapsed = self.started.elapsed();
        Ok((summary, client))
    }

    async fn try_finish(&mut self) -> Result<()> {
        let client = self.client.as_mut().ok_or_else(gone)?.borrow_mut();
        client.enter_insert()?;
        while client.conn.peek()? {
            client.read_aside(&mut self.summary).await?;
        }
        let mut end = Vec::with_capacity(64);
        client.put_empty_block(&mut end)?;
        client.write_watching([&end, &[]], &mut self.summary).await?;
        client.conn.end_packet();
        // From here on there is nothing to break off.
        client.state = State::Busy;
        loop {
            match client.read_packet().await? {
                Packet::EndOfStream => {
                    client.rest();
                    return Ok(());
                }
                Packet::Progress(progress) => self.summary.progress.add(&progress),
                Packet::Profile(profile) => self.summary.profile = Some(profile),
                Packet::Aside | Packet::TableColumns(_) => {}
                Packet::Exception(exception) => return Err(client.refusal(&exception, OPERATION)),
                _ => return Err(out_of_place()),
            }
        }
    }

    /// Breaks the insert off in the middle of a block and closes the connection: the server drops what it has
    /// not committed. Waits a second at most. Cancel-safe: a dropped future does the same without waiting.
    pub async fn abort(mut self) {
        if let Some(client) = self.client.as_mut().map(BorrowMut::borrow_mut)
            && !self.done
        {
            client.conn.break_off(ABORT).await;
            client.state = State::Closed;
        }
        self.done = true;
    }

    /// Closes after an error, and says what is known about the rows.
    fn told(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else { return Ok(()) };
        self.give_up();
        let said_by_server = server_code(&error).is_some();
        let never_sent = self.summary.blocks == 0;
        let error = error.with_operation(OPERATION).with_context("query_id", &self.summary.query_id);
        Err(if said_by_server || never_sent { error } else { with_outcome_unknown(error) })
    }

    fn give_up(&mut self) {
        if !self.done
            && let Some(client) = self.client.as_mut()
        {
            client.borrow_mut().close();
        }
        self.done = true;
    }
}

impl<C: BorrowMut<Client>> Drop for InsertStream<C> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Client {
    fn enter_insert(&mut self) -> Result<()> {
        if self.state != State::Insert {
            return Err(Error::new(
                ErrorKind::Closed,
                "the insert is over; begin a new one on a new connection",
            ));
        }
        self.state = State::BusyInsert;
        Ok(())
    }

    /// Writes, and reads what the server says while it does not take our bytes. When the connection fails, what
    /// the server said last counts.
    async fn write_watching(&mut self, parts: [&[u8]; 2], summary: &mut InsertSummary) -> Result<()> {
        let mut done = 0;
        loop {
            let step = self.conn.write(parts, &mut done).await;
            match self.check_io(step).await? {
                Step::Done => return Ok(()),
                Step::Answer => self.read_aside(summary).await?,
            }
        }
    }

    /// Reads one packet that comes while we send.
    async fn read_aside(&mut self, summary: &mut InsertSummary) -> Result<()> {
        match self.read_packet().await? {
            Packet::Progress(progress) => summary.progress.add(&progress),
            Packet::Profile(profile) => summary.profile = Some(profile),
            Packet::Aside | Packet::TableColumns(_) => {}
            Packet::Exception(exception) => return Err(self.refusal(&exception, OPERATION)),
            _ => return Err(out_of_place()),
        }
        Ok(())
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Closed, "the insert is over")
}

fn out_of_place() -> Error {
    Error::new(
        ErrorKind::Unexpected,
        "the server sent a packet that makes no sense in an insert; the connection is closed",
    )
}
