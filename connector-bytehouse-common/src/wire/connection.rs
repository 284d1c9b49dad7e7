//! One connection: a stream, what was read ahead, and how long to wait.

use std::{
    fmt,
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use connector_core::{Error, ErrorKind, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::client::TlsStream;

use super::io::{ByteSource, ReadAhead};

/// The start of a data packet with a block that never ends. A connection that closes behind it makes
/// a server drop the insert; closing between two blocks makes some store what came before.
const BREAK: &[u8] = &[2, 0, 1, 0, 2, 255];

/// Anything that carries bytes both ways, such as a tunnel or a pipe in memory.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Other(Box<dyn Stream>),
    Closed,
}

impl Transport {
    fn get(&mut self) -> Option<Pin<&mut dyn Stream>> {
        match self {
            Self::Plain(stream) => Some(Pin::new(stream)),
            Self::Tls(stream) => Some(Pin::new(stream)),
            Self::Other(stream) => Some(Pin::new(stream)),
            Self::Closed => None,
        }
    }
}

/// What a step of writing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// All is written and flushed.
    Done,
    /// The server sent something while our bytes did not move.
    Answer,
}

pub(super) struct Connection {
    transport: Transport,
    ahead: ReadAhead,
    read_timeout: Duration,
    /// When the whole query must be done, and how long it was allowed to take.
    deadline: Option<(Instant, Duration, &'static str)>,
    /// Bytes of the open data packet that are written; 0 between packets.
    packet: usize,
    sent: u64,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("open", &!matches!(self.transport, Transport::Closed))
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(transport: Transport, read_timeout: Duration) -> Self {
        Self { transport, ahead: ReadAhead::new(), read_timeout, deadline: None, packet: 0, sent: 0 }
    }

    /// Bytes sent since the connection was made, as they went to the socket or to TLS.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bounds everything up to the next call by `limit` from `since` on; the option's name goes into the error.
    pub(super) fn set_deadline(&mut self, since: Instant, limit: Option<(Duration, &'static str)>) {
        self.deadline = limit.and_then(|(limit, option)| Some((since.checked_add(limit)?, limit, option)));
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.transport, Transport::Closed)
    }

    /// Closes without waiting. What was not sent yet is lost.
    pub(super) fn close(&mut self) {
        self.transport = Transport::Closed;
        self.ahead.consume(usize::MAX);
    }

    /// When a wait that begins now must end.
    fn limit(&self) -> Instant {
        let now = Instant::now();
        // A timeout that the clock cannot hold is none; a century is.
        let silent = now.checked_add(self.read_timeout).unwrap_or(now + Duration::from_secs(3_000_000_000));
        self.deadline.map_or(silent, |(at, ..)| at.min(silent))
    }

    /// The error for a wait that came to its limit.
    fn late(&self) -> Error {
        let message = match self.deadline {
            Some((at, limit, option)) if at <= Instant::now() => {
                format!("the server did not finish within {limit:?} (`{option}`)")
            }
            _ => format!(
                "nothing moved between us and the server for {:?} (`read_timeout`)",
                self.read_timeout
            ),
        };
        Error::new(ErrorKind::Timeout, message).transient()
    }

    /// Reads what the server has sent. `Ready(0)` is the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(stream) = self.transport.get() else { return Poll::Ready(Ok(0)) };
        self.ahead.poll_fill(stream, cx)
    }

    /// Takes what has already come, without waiting. True when bytes are buffered.
    ///
    /// # Errors
    /// `Unavailable` when the connection ended and nothing is buffered.
    pub(super) fn peek(&mut self) -> Result<bool> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_fill(&mut cx) {
            Poll::Pending | Poll::Ready(Ok(1..)) => Ok(!self.ahead.bytes().is_empty()),
            Poll::Ready(_) if !self.ahead.bytes().is_empty() => Ok(true),
            Poll::Ready(Ok(_)) => Err(ended(None)),
            Poll::Ready(Err(error)) => Err(ended(Some(error))),
        }
    }

    /// Writes `parts`, one after the other, from byte `done` on, and counts `done` up. Comes back early
    /// when the server sends something while our bytes do not move: it may have stopped reading to
    /// tell why. Cancelling leaves `done` bytes written.
    ///
    /// # Errors
    /// `Timeout` when the server takes nothing; `Unavailable` when the connection ends.
    pub(super) async fn write(&mut self, parts: [&[u8]; 2], done: &mut usize) -> Result<Step> {
        loop {
            let at = self.limit();
            match timeout_at(at, poll_fn(|cx| self.poll_write(cx, parts, done))).await {
                Ok(Ok(Some(step))) => return Ok(step),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => return Err(ended(Some(error))),
                Err(_) => return Err(self.late()),
            }
        }
    }

    /// One step: `None` for some progress.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        [first, second]: [&[u8]; 2],
        done: &mut usize,
    ) -> Poll<io::Result<Option<Step>>> {
        let Some(mut stream) = self.transport.get() else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let step = if *done == first.len() + second.len() {
            stream.as_mut().poll_flush(cx).map_ok(|()| 0)
        } else {
            let (first, second) =
                (&first[(*done).min(first.len())..], &second[done.saturating_sub(first.len())..]);
            stream.as_mut().poll_write_vectored(cx, &[IoSlice::new(first), IoSlice::new(second)])
        };
        match step {
            Poll::Ready(Ok(_)) if *done == first.len() + second.len() => Poll::Ready(Ok(Some(Step::Done))),
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                *done += count;
                self.packet += count;
                self.sent += count as u64;
                Poll::Ready(Ok(None))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if !self.ahead.bytes().is_empty() => Poll::Ready(Ok(Some(Step::Answer))),
            Poll::Pending => match self.poll_fill(cx) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(Some(Step::Answer))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    /// Writes everything, whatever the server says meanwhile: for what fits into the buffers between us.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while self.write([bytes, &[]], &mut done).await? == Step::Answer {
            // More of the answer may come; waiting for our bytes to move is all that is left to do.
            let at = self.limit();
            let moved = timeout_at(at, poll_fn(|cx| self.poll_write_only(cx, bytes, &mut done))).await;
            moved.map_err(|_| self.late())?.map_err(|e| ended(Some(e)))?;
        }
        self.packet = 0;
        Ok(())
    }

    fn poll_write_only(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        done: &mut usize,
    ) -> Poll<io::Result<()>> {
        let Some(stream) = self.transport.get() else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if *done == bytes.len() {
            return stream.poll_flush(cx);
        }
        stream.poll_write(cx, &bytes[*done..]).map_ok(|count| {
            *done += count;
            self.sent += count as u64;
        })
    }

    /// Says that the data packet is written as a whole.
    pub(super) fn end_packet(&mut self) {
        self.packet = 0;
    }

    /// Breaks an insert off in the middle of a block, as far as that goes without waiting, and closes.
    pub(super) fn break_off_now(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let rest = BREAK.get(self.packet..).unwrap_or_default();
        if let Some(mut stream) = self.transport.get()
            && (rest.is_empty() || stream.as_mut().poll_write(&mut cx, rest).is_ready())
        {
            // Nobody is left to be told when this fails; the server sees a closed connection.
            let _flushed = stream.as_mut().poll_flush(&mut cx);
            let _closed = stream.as_mut().poll_shutdown(&mut cx);
        }
        self.close();
    }

    /// Asks the server to stop the query, as far as that goes without waiting, and closes.
    pub(super) fn cancel_now(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        if let Some(mut stream) = self.transport.get()
            && stream.as_mut().poll_write(&mut cx, &[3]).is_ready()
        {
            // The server stops anyway once it sees that the connection is closed.
            let _flushed = stream.as_mut().poll_flush(&mut cx);
        }
        self.close();
    }

    /// [`break_off_now`](Self::break_off_now) that waits until the server has taken the break.
    pub(super) async fn break_off(&mut self, limit: Duration) {
        let rest = BREAK.get(self.packet..).unwrap_or_default();
        let told = tokio::time::timeout(limit, async {
            self.write_all(rest).await?;
            match self.transport.get() {
                Some(mut stream) => {
                    poll_fn(|cx| stream.as_mut().poll_shutdown(cx)).await.map_err(|e| ended(Some(e)))
                }
                None => Ok(()),
            }
        });
        if let Ok(Err(error)) = told.await {
            tracing::debug!(%error, "the connection was gone before the insert could be broken off");
        }
        self.close();
    }

    /// Reads on to the end of the stream, for `limit` at most: what a server said before it closed.
    pub(super) async fn read_last_words(&mut self, limit: Duration) {
        let read = async { while let Ok(1..) = poll_fn(|cx| self.poll_fill(cx)).await {} };
        // Late or ended: what is buffered is all that there is.
        let _ended = tokio::time::timeout(limit, read).await;
    }
}

/// The error for a connection that is gone.
pub(super) fn ended(source: Option<io::Error>) -> Error {
    let error = Error::new(ErrorKind::Unavailable, "the connection to the server ended").transient();
    match source {
        Some(source) => error.with_source(source),
        None => error,
    }
}

impl ByteSource for Connection {
    fn buffered(&self) -> &[u8] {
        self.ahead.bytes()
    }

    fn consume(&mut self, count: usize) {
        self.ahead.consume(count);
    }

    async fn fill(&mut self) -> Result<()> {
        let at = self.limit();
        let filled = timeout_at(at, poll_fn(|cx| self.poll_fill(cx))).await;
        match filled.map_err(|_| self.late())? {
            Ok(0) => Err(ended(None)),
            Ok(_) => Ok(()),
            Err(error) => Err(ended(Some(error))),
        }
    }
}
