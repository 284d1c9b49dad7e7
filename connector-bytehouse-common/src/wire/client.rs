//! A connection that runs one query after the other.

use std::{fmt, time::Duration};

use connector_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, timeout};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{
    Compression, Settings,
    connection::{Connection, Stream, Transport},
    frame::{FrameBuffers, FrameSource, FrameWriter},
    insert::InsertStream,
    io::{ByteSource, read_string, read_varuint},
    login::{login_refused, no_hello, no_native_port, not_in_time, open, refusal, secrets, version},
    options::ClientOptions,
    protocol::{
        self, BlockInfo, ClientHello, ClientInfo, ClientPacket, Progress, Query, ServerException,
        ServerHello, ServerPacket, TableColumns, revision,
    },
    query::{QueryStream, QuerySummary},
};
use crate::native::{Block, read_block};

/// How long a server's last words are waited for once its connection failed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A connection to a server: one query or insert at a time.
///
/// A future that is dropped half way leaves bytes of a packet behind, so the connection is then closed and
/// every later call fails with `Closed`. The same holds after a network error. [`Client::is_usable`] tells.
///
/// `Drop` never blocks. An insert that is open is broken off in the middle of a block, as far as that goes
/// without waiting, so that the server drops it.
pub struct Client {
    pub(super) conn: Connection,
    pub(super) state: State,
    options: ClientOptions,
    server: ServerHello,
    revision: u64,
    pub(super) frames: FrameWriter,
    buffers: FrameBuffers,
    pub(super) out: Vec<u8>,
    /// Values of the running query's settings that must not show in an error.
    secrets: Vec<Zeroizing<String>>,
    idle_since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Between queries.
    Idle,
    /// In the middle of a packet; stays so when a future is dropped.
    Busy,
    /// In the middle of a packet of an insert.
    BusyInsert,
    /// A query's answer is being read; between packets.
    Query,
    /// An insert takes blocks; between packets.
    Insert,
    /// No longer usable.
    Closed,
}

/// What a server sends while a query runs.
pub(super) enum Packet {
    Data(Block),
    Totals(Block),
    Extremes(Block),
    Progress(Progress),
    Profile(protocol::ProfileInfo),
    TableColumns(TableColumns),
    Exception(ServerException),
    Pong,
    EndOfStream,
    /// Told to whoever listens, or of no use here.
    Aside,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("host", &self.options.host)
            .field("port", &self.options.port)
            .field("state", &self.state)
            .field("revision", &self.revision)
            .field("conn", &self.conn)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Connects and logs in. Cancel-safe: a dropped future closes what it opened.
    ///
    /// # Errors
    /// `OptionInvalid` for options that make no sense, for TLS against a port without it and the reverse,
    /// for an HTTP port, for a certificate that is not trusted. `Unauthenticated` when the server refuses
    /// the login. `Unavailable` and `Timeout` (transient) when it cannot be reached within
    /// [`ClientOptions::connect_timeout`]. Else what the server's code says.
    pub async fn connect(options: ClientOptions) -> Result<Self> {
        let since = Instant::now();
        let place = format!("{}:{}", options.host, options.port);
        let connected = async {
            options.check()?;
            let limit = options.connect_timeout;
            let transport =
                timeout(limit, open(&options)).await.unwrap_or_else(|_| Err(not_in_time(limit)))?;
            Self::login(Connection::new(transport, options.read_timeout), options, since).await
        };
        connected.await.map_err(|e| e.with_operation("bytehouse.connect").with_context("server", place))
    }

    /// Logs in over a stream that is connected already, such as a tunnel; host, port and TLS options play no part.
    /// Cancel-safe: a dropped future closes the stream.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn over(stream: impl Stream + 'static, options: ClientOptions) -> Result<Self> {
        let login = async {
            options.check()?;
            let conn = Connection::new(Transport::Other(Box::new(stream)), options.read_timeout);
            Self::login(conn, options, Instant::now()).await
        };
        login.await.map_err(|e| e.with_operation("bytehouse.connect"))
    }

    async fn login(mut conn: Connection, options: ClientOptions, since: Instant) -> Result<Self> {
        let frames = FrameWriter::new(options.compression)?;
        conn.set_deadline(since, Some((options.connect_timeout, "connect_timeout")));
        let mut hello = Zeroizing::new(Vec::with_capacity(1024));
        protocol::put_client_hello(
            &mut hello,
            &ClientHello {
                client_name: options.client_name.clone(),
                version_major: version(env!("CARGO_PKG_VERSION_MAJOR")),
                version_minor: version(env!("CARGO_PKG_VERSION_MINOR")),
                revision: options.revision,
                database: options.database.clone(),
                user: options.user.clone(),
                password: options.password.clone(),
            },
        );
        let answer = match conn.write_all(&hello).await {
            Ok(()) => read_varuint(&mut conn).await,
            // What it said before it closed is worth more than that it closed.
            Err(error) => {
                conn.read_last_words(LAST_WORDS).await;
                if conn.buffered().is_empty() { Err(error) } else { read_varuint(&mut conn).await }
            }
        };
        let id = answer.map_err(|error| no_hello(error, &options))?;
        let server = match ServerPacket::from_id(id) {
            Some(ServerPacket::Hello) => protocol::read_server_hello(&mut conn, options.revision).await?,
            Some(ServerPacket::Exception) => {
                let exception = protocol::read_exception(&mut conn).await?;
                return Err(login_refused(&exception, &options));
            }
            _ => return Err(no_native_port(id, &options)),
        };
        let revision = server.revision.min(options.revision);
        if revision < revision::OLDEST {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the server speaks revision {}; from {} on it can be spoken to",
                    server.revision,
                    revision::OLDEST
                ),
            ));
        }
        tracing::debug!(
            server.name,
            server.revision,
            server.timezone,
            server.display_name,
            version = server.version(),
            revision,
            "logged in"
        );
        let mut client = Self {
            conn,
            state: State::Busy,
            options,
            server,
            revision,
            frames,
            buffers: FrameBuffers::default(),
            out: Vec::new(),
            secrets: Vec::new(),
            idle_since: since,
        };
        client.rest();
        Ok(client)
    }

    /// Who the server is.
    pub fn server_info(&self) -> &ServerHello {
        &self.server
    }

    /// The revision in use: the smaller one of both sides.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The options it was made with.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// True when the next query may be sent: nothing runs, the connection stands as far as can be seen
    /// without waiting, and it did not lie unused for longer than [`ClientOptions::idle_timeout`].
    /// [`ping`](Self::ping) asks the server itself.
    pub fn is_usable(&mut self) -> bool {
        if self.state != State::Idle {
            return false;
        }
        // Nothing is due, so whatever comes is a good-bye.
        let quiet = matches!(self.conn.peek(), Ok(false));
        if !quiet || self.idle_since.elapsed() > self.options.idle_timeout {
            self.close();
        }
        self.state == State::Idle
    }

    /// Asks the server for a sign of life, for [`ClientOptions::ping_timeout`] at most. Not cancel-safe: a
    /// dropped future leaves the connection closed.
    ///
    /// # Errors
    /// `Closed` when the connection is not usable; `Unavailable` or `Timeout` (transient) when no answer comes.
    /// After an error the connection is closed.
    pub async fn ping(&mut self) -> Result<()> {
        let pong = async {
            self.begin(Some((self.options.ping_timeout, "ping_timeout")))?;
            self.conn.write_all(&[4]).await?;
            loop {
                match self.read_packet().await? {
                    Packet::Pong => return Ok(()),
                    // Progress of the query before may trail.
                    Packet::Progress(_) | Packet::Aside => {}
                    Packet::Exception(exception) => return Err(self.refusal(&exception, "bytehouse.ping")),
                    _ => {
                        return Err(Error::new(
                            ErrorKind::Unexpected,
                            "the server did not answer a ping with a pong",
                        ));
                    }
                }
            }
        };
        let outcome = pong.await;
        self.settle(outcome).map_err(|e| e.with_operation("bytehouse.ping"))
    }

    /// Runs a statement and hands its rows out block by block. `settings` come on top of those of the options.
    /// Not cancel-safe: a dropped future leaves the connection closed.
    ///
    /// # Errors
    /// `Closed` when the connection is not usable; `OptionInvalid` for a setting that cannot be sent;
    /// `Unavailable` or `Timeout` (transient) from the network. What the server says comes with the first block.
    pub async fn query(&mut self, sql: &str, settings: &Settings) -> Result<QueryStream<&mut Self>> {
        let query_id = self.start(sql, settings, None).await?;
        Ok(QueryStream::new(self, query_id))
    }

    /// [`query`](Self::query) that takes the client along and gives it back by [`QueryStream::into_client`].
    ///
    /// # Errors
    /// As [`query`](Self::query); the client is then dropped.
    pub async fn into_query(mut self, sql: &str, settings: &Settings) -> Result<QueryStream<Self>> {
        let query_id = self.start(sql, settings, None).await?;
        Ok(QueryStream::new(self, query_id))
    }

    /// Runs a statement to its end; rows are dropped. Not cancel-safe: a dropped future leaves the
    /// connection closed, and the statement's outcome unknown.
    ///
    /// # Errors
    /// As [`query`](Self::query), and what the server's code says.
    pub async fn execute(&mut self, sql: &str, settings: &Settings) -> Result<QuerySummary> {
        self.run(sql, settings, None).await
    }

    /// [`execute`](Self::execute) under a query id of the caller's: the server refuses a second statement of that
    /// id (216, transient) while the first one still runs.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn execute_as(
        &mut self,
        sql: &str,
        settings: &Settings,
        query_id: &str,
    ) -> Result<QuerySummary> {
        self.run(sql, settings, Some(query_id)).await
    }

    async fn run(&mut self, sql: &str, settings: &Settings, query_id: Option<&str>) -> Result<QuerySummary> {
        let query_id = self.start(sql, settings, query_id).await?;
        let mut stream = QueryStream::new(&mut *self, query_id);
        while stream.next_block().await?.is_some() {}
        Ok(stream.summary())
    }

    /// Starts `INSERT INTO t (a, b) VALUES` and waits for the server's description of the columns. Without
    /// `query_id` a random one is taken. Name the columns: old servers describe them only then.
    /// Not cancel-safe: a dropped future leaves the connection closed, with nothing stored.
    ///
    /// # Errors
    /// As [`query`](Self::query), and what the server's code says; the connection stays usable then.
    pub async fn begin_insert(
        &mut self,
        sql: &str,
        settings: &Settings,
        query_id: Option<&str>,
    ) -> Result<InsertStream<&mut Self>> {
        InsertStream::begin(self, sql, settings, query_id).await
    }

    /// [`begin_insert`](Self::begin_insert) that takes the client along and gives it back by
    /// [`InsertStream::finish_into`].
    ///
    /// # Errors
    /// As [`begin_insert`](Self::begin_insert); the client is then dropped.
    pub async fn into_insert(
        self,
        sql: &str,
        settings: &Settings,
        query_id: Option<&str>,
    ) -> Result<InsertStream<Self>> {
        InsertStream::begin(self, sql, settings, query_id).await
    }

    /// Ends the connection at once. What runs at the server is given up; an open insert is broken off.
    pub fn close(&mut self) {
        match self.state {
            State::Insert | State::BusyInsert => self.conn.break_off_now(),
            State::Query => self.conn.cancel_now(),
            State::Idle | State::Busy | State::Closed => self.conn.close(),
        }
        self.state = State::Closed;
    }

    // ---- for the streams ----

    /// Sends a statement and the end of its external tables; returns the query's id.
    pub(super) async fn start(
        &mut self,
        sql: &str,
        settings: &Settings,
        query_id: Option<&str>,
    ) -> Result<String> {
        let query_id = query_id.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned);
        let started = async {
            self.begin(self.options.query_timeout.map(|limit| (limit, "query_timeout")))?;
            let mut out = std::mem::take(&mut self.out);
            out.clear();
            let statement = self.statement(sql, settings, &query_id);
            self.secrets = secrets(&statement.settings);
            if let Err(error) = protocol::put_query(&mut out, &statement, self.revision) {
                // Nothing was sent.
                self.rest();
                return Err(error);
            }
            self.put_empty_block(&mut out)?;
            let written = self.conn.write_all(&out).await;
            self.out = out;
            written?;
            self.state = State::Query;
            Ok(())
        };
        let outcome = started.await;
        self.check_io(outcome)
            .await
            .map_err(|e| e.with_operation("bytehouse.query").with_context("query_id", &query_id))?;
        Ok(query_id)
    }

    fn statement(&self, sql: &str, settings: &Settings, query_id: &str) -> Query {
        let mut all = Settings::new();
        // LZ4 is what servers take anyway; leaving it out spares read-only users a setting that they may not change.
        if let (Compression::Zstd, Some(method)) =
            (self.options.compression, self.options.compression.setting())
        {
            all.set("network_compression_method", method);
        }
        all.extend(&self.options.settings);
        all.extend(settings);
        Query {
            query_id: query_id.to_owned(),
            info: ClientInfo {
                kind: protocol::QUERY_KIND_INITIAL,
                initial_address: "0.0.0.0:0".into(),
                client_name: self.options.client_name.clone(),
                version_major: version(env!("CARGO_PKG_VERSION_MAJOR")),
                version_minor: version(env!("CARGO_PKG_VERSION_MINOR")),
                version_patch: version(env!("CARGO_PKG_VERSION_PATCH")),
                revision: self.options.revision,
                ..ClientInfo::default()
            },
            settings: all,
            interserver_secret: String::new(),
            stage: protocol::STAGE_COMPLETE,
            compression: self.compressed(),
            sql: sql.to_owned(),
        }
    }

    pub(super) fn compressed(&self) -> bool {
        self.options.compression != Compression::None
    }

    /// Appends a data packet with the block that ends external tables and inserts.
    pub(super) fn put_empty_block(&mut self, out: &mut Vec<u8>) -> Result<()> {
        protocol::put_data_prefix(out, ClientPacket::Data.id(), "");
        let mut block = Vec::with_capacity(10);
        protocol::put_block_info(&mut block, BlockInfo::default());
        block.extend_from_slice(&[0, 0]);
        if self.compressed() {
            self.frames.put(out, &block)
        } else {
            out.extend_from_slice(&block);
            Ok(())
        }
    }

    /// Enters a query or ping.
    fn begin(&mut self, limit: Option<(Duration, &'static str)>) -> Result<()> {
        if self.state != State::Idle {
            let cause = match self.state {
                State::Closed => "the connection is closed",
                _ => "the query before was not read to its end, so the connection is closed",
            };
            self.close();
            return Err(Error::new(ErrorKind::Closed, format!("{cause}; make a new one")));
        }
        self.state = State::Busy;
        if self.conn.peek()? {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the server said something unasked while nothing ran",
            )
            .transient());
        }
        self.conn.set_deadline(Instant::now(), limit);
        Ok(())
    }

    /// Back to where the next query may start.
    pub(super) fn rest(&mut self) {
        self.state = State::Idle;
        self.conn.set_deadline(Instant::now(), None);
        self.idle_since = Instant::now();
    }

    /// Ends an exchange without a stream: at rest after success, closed after an error.
    fn settle<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match &outcome {
            Ok(_) => self.rest(),
            Err(_) if self.state == State::Idle => {}
            Err(_) => self.close(),
        }
        outcome
    }

    /// Closes after an error, having looked for what the server said before the connection failed.
    pub(super) async fn check_io<T>(&mut self, outcome: Result<T>) -> Result<T> {
        let error = match outcome {
            Err(error) if self.state != State::Idle => error,
            other => return other,
        };
        if error.kind() == ErrorKind::Unavailable
            && self.conn.is_open()
            && crate::error::server_code(&error).is_none()
        {
            self.conn.read_last_words(LAST_WORDS).await;
            while !self.conn.buffered().is_empty() {
                match self.read_packet().await {
                    Ok(Packet::Exception(exception)) => {
                        let refusal = self.refusal(&exception, "bytehouse.query");
                        self.close();
                        return Err(refusal);
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        self.close();
        Err(error)
    }

    /// The error for an exception of the server, with our secrets taken out of its text.
    pub(super) fn refusal(&self, exception: &ServerException, operation: &'static str) -> Error {
        refusal(exception, &self.options.password, &self.secrets, operation)
    }

    /// Reads one packet. An error or a dropped future leaves the connection in the middle of one.
    pub(super) async fn read_packet(&mut self) -> Result<Packet> {
        let id = read_varuint(&mut self.conn).await?;
        let Some(packet) = ServerPacket::from_id(id) else {
            return Err(protocol::unknown_server_packet(id));
        };
        Ok(match packet {
            ServerPacket::Data => Packet::Data(self.read_data(self.compressed()).await?),
            ServerPacket::Totals => Packet::Totals(self.read_data(self.compressed()).await?),
            ServerPacket::Extremes => Packet::Extremes(self.read_data(self.compressed()).await?),
            ServerPacket::Exception => Packet::Exception(protocol::read_exception(&mut self.conn).await?),
            ServerPacket::Progress => {
                Packet::Progress(protocol::read_progress(&mut self.conn, self.revision).await?)
            }
            ServerPacket::Pong => Packet::Pong,
            ServerPacket::EndOfStream => Packet::EndOfStream,
            ServerPacket::ProfileInfo => Packet::Profile(protocol::read_profile_info(&mut self.conn).await?),
            ServerPacket::TableColumns => {
                Packet::TableColumns(protocol::read_table_columns(&mut self.conn).await?)
            }
            ServerPacket::Log => {
                let lines = self.read_data(false).await?;
                super::query::trace_log(&lines);
                Packet::Aside
            }
            ServerPacket::ProfileEvents if self.revision >= revision::QUERY_METRICS => {
                if self.of_bytehouse_family() {
                    read_string(&mut self.conn, protocol::MAX_TEXT).await?;
                } else {
                    self.read_data(false).await?;
                }
                Packet::Aside
            }
            ServerPacket::TimezoneUpdate
                if self.revision >= revision::TIMEZONE_UPDATE && self.of_bytehouse_family() =>
            {
                let timezone = read_string(&mut self.conn, protocol::MAX_NAME).await?;
                tracing::debug!(timezone, "the session's time zone");
                Packet::Aside
            }
            _ => return Err(protocol::unknown_server_packet(id)),
        })
    }

    /// Servers that end at 54451 are of the ByteHouse family; ClickHouse went past that revision within days.
    fn of_bytehouse_family(&self) -> bool {
        self.server.revision <= revision::NEWEST
    }

    async fn read_data(&mut self, compressed: bool) -> Result<Block> {
        let _table = read_string(&mut self.conn, protocol::MAX_NAME).await?;
        if !compressed {
            protocol::read_block_info(&mut self.conn).await?;
            return read_block(&mut self.conn, &self.options.read).await;
        }
        let mut source = FrameSource::with_buffers(&mut self.conn, std::mem::take(&mut self.buffers));
        protocol::read_block_info(&mut source).await?;
        let block = read_block(&mut source, &self.options.read).await?;
        self.buffers = source.finish()?;
        Ok(block)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}
