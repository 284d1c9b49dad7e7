//! One client's conversation.

use connector_bytehouse_common::{
    native::{Block, ReadOptions, read_block},
    wire::{
        frame::{FrameBuffers, FrameSource},
        io::{ByteSource, read_string, read_varuint},
        protocol::{
            ClientHello, ClientPacket, MAX_NAME, ProfileInfo, Progress, Query, ServerHello, ServerPacket,
            put_end_of_stream, put_pong, put_profile_info, put_progress, put_server_hello,
            put_timezone_update, read_block_info, read_client_hello, read_query, revision,
        },
    },
};
use connector_core::{Error, ErrorKind, Result, arrow::array::RecordBatch};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    net::TcpStream,
};

use super::{
    Acceptor, Shared,
    reply::{BlockWriter, put_error},
    socket::Incoming,
};
use crate::{
    engine::{Outcome, ResultSet, Session},
    exception::{Exception, exception},
    fault::{Effect, Point},
    log::{LogEntry, Outcome as LogOutcome},
};

/// What a connection does after a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Goes,
    Closes,
}

/// Speaks with a client until one side ends it.
pub(super) async fn serve(stream: TcpStream, number: u64, shared: &Shared, acceptor: Acceptor) -> Result<()> {
    // Small packets must not wait for each other; a socket that cannot do that works as well.
    stream.set_nodelay(true).ok();
    let mut pace = None;
    match shared.faults.take(Point::Accept, "") {
        Some(Effect::Stall(duration)) => tokio::time::sleep(duration).await,
        Some(Effect::Throttle { bytes_per_second }) => pace = Some(bytes_per_second),
        Some(Effect::Cut | Effect::Fail(_)) => return Ok(()),
        None => {}
    }
    #[cfg(feature = "tls")]
    if let Some(acceptor) = acceptor {
        let stream = acceptor.accept(stream).await.map_err(|e| {
            Error::new(ErrorKind::Closed, "the client does not speak TLS as the double does").with_source(e)
        })?;
        return Connection::new(stream, pace, number, shared).run().await;
    }
    #[cfg(not(feature = "tls"))]
    let () = acceptor;
    Connection::new(stream, pace, number, shared).run().await
}

/// What a query hears that was told to end.
pub(super) fn killed() -> Exception {
    exception!(QUERY_WAS_CANCELLED, "Query was cancelled")
}

pub(super) struct Connection<'a, S> {
    pub(super) incoming: Incoming<ReadHalf<S>>,
    outgoing: WriteHalf<S>,
    /// What is written, and not yet sent.
    pub(super) out: Vec<u8>,
    frames: FrameBuffers,
    number: u64,
    pub(super) shared: &'a Shared,
    pub(super) revision: u64,
    client_revision: u64,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin + Send> Connection<'a, S> {
    fn new(stream: S, pace: Option<u32>, number: u64, shared: &'a Shared) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self {
            incoming: Incoming::new(read, pace),
            outgoing: write,
            out: Vec::new(),
            frames: FrameBuffers::default(),
            number,
            shared,
            revision: 0,
            client_revision: 0,
        }
    }

    /// Sends what is written.
    pub(super) async fn send(&mut self) -> Result<()> {
        let sent = async {
            self.outgoing.write_all(&self.out).await?;
            self.outgoing.flush().await
        };
        let sent = sent.await;
        self.out.clear();
        sent.map_err(|e| Error::new(ErrorKind::Closed, "the client's connection broke").with_source(e))
    }

    async fn run(mut self) -> Result<()> {
        let end = self.conversation().await;
        // TLS says goodbye; the client may be gone already.
        self.outgoing.shutdown().await.ok();
        end
    }

    async fn conversation(&mut self) -> Result<()> {
        let Some(mut session) = self.login().await? else { return Ok(()) };
        loop {
            let id = match read_varuint(&mut self.incoming).await {
                Err(error) if error.kind() == ErrorKind::Closed => return Ok(()),
                other => other?,
            };
            match ClientPacket::from_id(id) {
                Some(ClientPacket::Query) => {
                    if self.query(&mut session).await? == Next::Closes {
                        return Ok(());
                    }
                }
                Some(ClientPacket::Ping) => {
                    match self.shared.faults.take(Point::Ping, "") {
                        Some(Effect::Cut | Effect::Fail(_)) => return Ok(()),
                        Some(Effect::Stall(duration)) => tokio::time::sleep(duration).await,
                        Some(Effect::Throttle { bytes_per_second }) => {
                            self.incoming.pace = Some(bytes_per_second);
                        }
                        None => {}
                    }
                    put_pong(&mut self.out);
                    self.send().await?;
                }
                Some(ClientPacket::Cancel | ClientPacket::KeepAlive) => {}
                Some(ClientPacket::Data) => {
                    return self
                        .refuse(&exception!(UNEXPECTED_PACKET, "Unexpected packet Data received from client"))
                        .await;
                }
                Some(ClientPacket::Hello) => {
                    return self
                        .refuse(&exception!(
                            UNEXPECTED_PACKET,
                            "Unexpected packet Hello received from client"
                        ))
                        .await;
                }
                _ => {
                    return self.refuse(&exception!(UNKNOWN_PACKET, "Unknown packet {id} from client")).await;
                }
            }
        }
    }

    /// Sends an exception as the last word.
    async fn refuse(&mut self, error: &Exception) -> Result<()> {
        put_error(&mut self.out, error);
        self.send().await
    }

    async fn login(&mut self) -> Result<Option<Session>> {
        let id = read_varuint(&mut self.incoming).await?;
        if id == u64::from(b'G') || id == u64::from(b'P') {
            self.out.extend_from_slice(
                b"HTTP/1.0 400 Bad Request\r\n\r\nThis port speaks the native protocol.\r\n",
            );
            return self.send().await.map(|()| None);
        }
        if id != ClientPacket::Hello.id() {
            let error = exception!(
                UNEXPECTED_PACKET,
                "Unexpected packet {id} from client: the double knows logins by token and password only"
            );
            return self.refuse(&error).await.map(|()| None);
        }
        let hello = read_client_hello(&mut self.incoming).await?;
        let options = &self.shared.options;
        self.client_revision = hello.revision;
        self.revision = hello.revision.min(options.revision);
        match self.shared.faults.take(Point::Login, "") {
            Some(Effect::Fail(error)) => return self.refuse(&error).await.map(|()| None),
            Some(Effect::Cut) => return Ok(None),
            Some(Effect::Stall(duration)) => tokio::time::sleep(duration).await,
            Some(Effect::Throttle { bytes_per_second }) => self.incoming.pace = Some(bytes_per_second),
            None => {}
        }
        let session = match self.authenticate(&hello) {
            Ok(session) => session,
            Err(error) => return self.refuse(&error).await.map(|()| None),
        };
        let [major, minor, patch, _] = options.version;
        let hello = ServerHello {
            name: "ClickHouse".to_owned(),
            version_major: major,
            version_minor: minor,
            version_patch: patch,
            revision: options.revision,
            timezone: options.timezone.clone(),
            display_name: "double".to_owned(),
        };
        put_server_hello(&mut self.out, &hello, self.client_revision);
        self.send().await?;
        match self.shared.faults.take(Point::AfterHello, "") {
            Some(Effect::Stall(duration)) => tokio::time::sleep(duration).await,
            Some(Effect::Throttle { bytes_per_second }) => self.incoming.pace = Some(bytes_per_second),
            Some(Effect::Cut | Effect::Fail(_)) => return Ok(None),
            None => {}
        }
        Ok(Some(session))
    }

    fn authenticate(&self, hello: &ClientHello) -> Result<Session, Exception> {
        let options = &self.shared.options;
        // The gateway puts the tenant before a backtick.
        let plain = |text: &str| text.split_once('`').map_or(text.to_owned(), |(_, rest)| rest.to_owned());
        let (name, database) = (plain(&hello.user), plain(&hello.database));
        let user = options.users.iter().find(|user| user.name == name && user.password == hello.password);
        let user = user.ok_or_else(|| {
            let reason = "Authentication failed: password is incorrect or there is no user with such name";
            Exception::new(options.login_error_code, format!("{name}: {reason}"))
        })?;
        if !database.is_empty() && !self.shared.engine.has_database(&database) {
            return Err(exception!(UNKNOWN_DATABASE, "Database `{database}` doesn't exist"));
        }
        Ok(Session::new(&user.name, &database, user.read_only))
    }

    /// Reads the block behind a data packet's id.
    pub(super) async fn block(&mut self, compressed: bool) -> Result<Block> {
        read_string(&mut self.incoming, MAX_NAME).await?;
        let options = ReadOptions { strings_as_binary: true, ..ReadOptions::default() };
        if !compressed {
            read_block_info(&mut self.incoming).await?;
            return read_block(&mut self.incoming, &options).await;
        }
        let buffers = std::mem::take(&mut self.frames);
        let mut source = FrameSource::with_buffers(&mut self.incoming, buffers);
        read_block_info(&mut source).await?;
        let block = read_block(&mut source, &options).await?;
        self.frames = source.finish()?;
        Ok(block)
    }

    async fn query(&mut self, session: &mut Session) -> Result<Next> {
        let query = match read_query(&mut self.incoming, self.revision).await {
            Err(error) if error.context_value("code") == Some("115") => {
                // What follows a setting that cannot be read cannot be read either.
                self.refuse(&exception!(UNKNOWN_SETTING, "{}", error.message())).await?;
                return Ok(Next::Closes);
            }
            other => other?,
        };
        let number = self.shared.log.add(LogEntry {
            connection: self.number,
            user: session.user.clone(),
            database: session.database.clone(),
            query_id: query.query_id.clone(),
            sql: query.sql.clone(),
            settings: query.settings.iter().map(|s| (s.name.clone(), s.value.clone())).collect(),
            compression: query.compression,
            revision: self.revision,
            blocks: 0,
            rows: 0,
            outcome: LogOutcome::Running,
        });
        if !self.shared.begin(&query.query_id) {
            let error =
                exception!(QUERY_ALREADY_RUNNING, "Query with id = {} is already running", query.query_id);
            self.fail(number, &error).await?;
            return self.skip_tables(&query).await.map(|_| Next::Goes);
        }
        let end = self.run_query(&query, session, number).await;
        self.shared.end(&query.query_id);
        if end.is_err() {
            self.shared.log.update(number, |entry| {
                if entry.outcome == LogOutcome::Running {
                    entry.outcome = LogOutcome::Broken;
                }
            });
        }
        end
    }

    /// Tells the client, and the log, that the statement failed.
    pub(super) async fn fail(&mut self, number: usize, error: &Exception) -> Result<()> {
        self.shared.log.update(number, |entry| entry.outcome = LogOutcome::Failed(error.code()));
        put_error(&mut self.out, error);
        self.send().await
    }

    /// Reads the external tables before a statement's turn; false when there are some.
    async fn skip_tables(&mut self, query: &Query) -> Result<bool> {
        let mut none = true;
        loop {
            match read_varuint(&mut self.incoming).await? {
                id if id == ClientPacket::Data.id() => {
                    let block = self.block(query.compression).await?;
                    if block.columns.is_empty() {
                        return Ok(none);
                    }
                    none = false;
                }
                id => {
                    let error = exception!(UNEXPECTED_PACKET, "Unexpected packet {id} received from client");
                    self.refuse(&error).await?;
                    return Err(Error::new(
                        ErrorKind::Unexpected,
                        format!("packet {id} where external tables end"),
                    ));
                }
            }
        }
    }

    async fn run_query(&mut self, query: &Query, session: &mut Session, number: usize) -> Result<Next> {
        if !self.skip_tables(query).await? {
            let error = exception!(NOT_IMPLEMENTED, "external tables are not known to the double");
            return self.fail(number, &error).await.map(|()| Next::Goes);
        }
        let is_insert =
            query.sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("insert"));
        let points: &[Point] =
            if is_insert { &[Point::Statement, Point::Insert] } else { &[Point::Statement] };
        for point in points {
            match self.shared.faults.take(*point, &query.sql) {
                Some(Effect::Fail(error)) => return self.fail(number, &error).await.map(|()| Next::Goes),
                Some(Effect::Cut) => {
                    self.shared.log.update(number, |entry| entry.outcome = LogOutcome::Broken);
                    return Ok(Next::Closes);
                }
                Some(Effect::Stall(duration)) => {
                    let ended = self.shared.stall(duration, &query.query_id).await;
                    if ended {
                        return self.fail(number, &killed()).await.map(|()| Next::Goes);
                    }
                }
                Some(Effect::Throttle { bytes_per_second }) => self.incoming.pace = Some(bytes_per_second),
                None => {}
            }
        }
        session.begin(query.settings.iter().map(|s| (s.name.clone(), s.value.clone())));
        let engine = &self.shared.engine;
        let checked = query.settings.iter().try_for_each(|s| engine.check_setting(&s.name, s.important));
        let outcome = checked.and_then(|()| engine.execute(session, &query.sql));
        let method = session.setting("network_compression_method").map(str::to_owned);
        match outcome {
            Err(error) => self.fail(number, &error).await.map(|()| Next::Goes),
            Ok(Outcome::Kill(other)) => {
                self.shared.kill(&other);
                self.finish(number).await.map(|()| Next::Goes)
            }
            Ok(Outcome::Done) => {
                match self.shared.faults.take(Point::Done, &query.sql) {
                    Some(Effect::Fail(error)) => return self.fail(number, &error).await.map(|()| Next::Goes),
                    Some(Effect::Cut) => {
                        self.shared.log.update(number, |entry| entry.outcome = LogOutcome::Broken);
                        return Ok(Next::Closes);
                    }
                    Some(Effect::Stall(duration)) => tokio::time::sleep(duration).await,
                    Some(Effect::Throttle { bytes_per_second }) => {
                        self.incoming.pace = Some(bytes_per_second)
                    }
                    None => {}
                }
                self.vendor_packets(session);
                self.finish(number).await.map(|()| Next::Goes)
            }
            Ok(Outcome::Rows(result)) => match BlockWriter::new(query.compression, method.as_deref()) {
                Err(error) => self.fail(number, &error).await.map(|()| Next::Goes),
                Ok(writer) => {
                    self.vendor_packets(session);
                    self.result(&result, writer, &query.sql, number).await
                }
            },
            Ok(Outcome::Insert(plan)) => match BlockWriter::new(query.compression, method.as_deref()) {
                Err(error) => self.fail(number, &error).await.map(|()| Next::Goes),
                Ok(writer) => {
                    self.vendor_packets(session);
                    let describe = session.number("input_format_defaults_for_omitted_fields", 1) != 0;
                    self.insert(query, *plan, writer, describe, number).await
                }
            },
        }
    }

    /// Packets that only servers of the ByteHouse family send.
    fn vendor_packets(&mut self, session: &Session) {
        if !self.shared.options.vendor_packets {
            return;
        }
        if self.revision >= revision::QUERY_METRICS {
            connector_bytehouse_common::wire::io::put_varuint(
                &mut self.out,
                ServerPacket::ProfileEvents.id(),
            );
            connector_bytehouse_common::wire::io::put_string(&mut self.out, b"{}");
        }
        if self.revision >= revision::TIMEZONE_UPDATE {
            put_timezone_update(&mut self.out, session.setting("session_timezone").unwrap_or(""));
        }
    }

    /// The end of a statement that went well. Servers of this age tell no progress of inserts, and old
    /// clients understand none there.
    pub(super) async fn finish(&mut self, number: usize) -> Result<()> {
        put_end_of_stream(&mut self.out);
        // Before the packet leaves: who has seen the end may look at the log.
        self.shared.log.update(number, |entry| entry.outcome = LogOutcome::Done);
        self.send().await
    }

    async fn result(
        &mut self,
        result: &ResultSet,
        mut writer: BlockWriter,
        sql: &str,
        number: usize,
    ) -> Result<Next> {
        let columns = &result.columns;
        if let Err(error) = writer.put(&mut self.out, columns, &result.rows.slice(0, 0)) {
            self.out.clear();
            return self.fail(number, &error).await.map(|()| Next::Goes);
        }
        match self.shared.faults.take(Point::Result, sql) {
            Some(Effect::Fail(error)) => {
                return self.fail(number, &error).await.map(|()| Next::Goes);
            }
            Some(Effect::Cut) => {
                let header = self.out.len();
                // What cannot be encoded ends the connection as well.
                writer.put(&mut self.out, columns, &result.rows).ok();
                let half = header + (self.out.len() - header) / 2;
                self.out.truncate(half);
                self.shared.log.update(number, |entry| entry.outcome = LogOutcome::Broken);
                return self.send().await.map(|()| Next::Closes);
            }
            Some(Effect::Stall(duration)) => {
                self.send().await?;
                tokio::time::sleep(duration).await;
            }
            Some(Effect::Throttle { bytes_per_second }) => self.incoming.pace = Some(bytes_per_second),
            None => {}
        }
        let rows = result.rows.num_rows();
        let step = self.shared.options.max_block_rows.max(1);
        let mut blocks = 0;
        for start in (0..rows).step_by(step) {
            let part = result.rows.slice(start, step.min(rows - start));
            let before = self.out.len();
            if let Err(error) = writer.put(&mut self.out, columns, &part) {
                self.out.truncate(before);
                return self.fail(number, &error).await.map(|()| Next::Goes);
            }
            blocks += 1;
            self.send().await?;
        }
        self.put_facts(result, blocks);
        let empty =
            RecordBatch::new_empty(std::sync::Arc::new(connector_core::arrow::datatypes::Schema::empty()));
        if let Err(error) = writer.put(&mut self.out, &[], &empty) {
            return self.fail(number, &error).await.map(|()| Next::Goes);
        }
        put_progress(&mut self.out, &Progress::default(), self.revision);
        self.finish(number).await.map(|()| Next::Goes)
    }

    /// Profile info and progress, as they follow the last block of a result.
    fn put_facts(&mut self, result: &ResultSet, blocks: u64) {
        let rows = result.rows.num_rows();
        let bytes = u64::try_from(result.rows.get_array_memory_size()).unwrap_or(u64::MAX);
        put_profile_info(
            &mut self.out,
            &ProfileInfo {
                rows: rows as u64,
                blocks,
                bytes,
                applied_limit: result.before_limit.is_some(),
                rows_before_limit: result.before_limit.unwrap_or(0) as u64,
                // Servers count while they write this; old clients crash on a 0.
                calculated_rows_before_limit: true,
            },
        );
        let progress = Progress {
            read_rows: result.read_rows as u64,
            read_bytes: bytes,
            total_rows_to_read: result.read_rows as u64,
            ..Progress::default()
        };
        put_progress(&mut self.out, &progress, self.revision);
    }
}

/// Takes bytes from a source until it has `count` or ends: the beginning of a block that nobody finishes.
pub(super) async fn swallow<S: ByteSource>(source: &mut S, count: usize) {
    while source.buffered().len() < count {
        if source.fill().await.is_err() {
            return;
        }
    }
}
