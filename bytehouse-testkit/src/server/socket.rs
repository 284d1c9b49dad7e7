//! The reading side of a connection.

use std::time::Duration;

use connector_bytehouse_common::wire::io::ByteSource;
use connector_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that one read asks for.
const CHUNK: usize = 64 << 10;

/// What comes from a client, as fast as a fault allows.
#[derive(Debug)]
pub(super) struct Incoming<R> {
    inner: R,
    buffer: Vec<u8>,
    start: usize,
    /// Bytes per second at most.
    pub(super) pace: Option<u32>,
}

impl<R> Incoming<R> {
    pub(super) fn new(inner: R, pace: Option<u32>) -> Self {
        Self { inner, buffer: Vec::new(), start: 0, pace }
    }
}

impl<R: AsyncRead + Unpin + Send> ByteSource for Incoming<R> {
    fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count.min(self.buffer.len() - self.start);
    }

    async fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let mut wanted = CHUNK;
        if let Some(pace) = self.pace {
            // Twenty reads a second keep the pace without long pauses.
            wanted = usize::try_from(pace / 20).unwrap_or(CHUNK).clamp(1, CHUNK);
            let pause =
                Duration::from_secs_f64(f64::from(u32::try_from(wanted).unwrap_or(1)) / f64::from(pace));
            tokio::time::sleep(pause).await;
        }
        let before = self.buffer.len();
        self.buffer.resize(before + wanted, 0);
        let read = self.inner.read(&mut self.buffer[before..]).await;
        self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Error::new(ErrorKind::Closed, "the client closed the connection")),
            Ok(_) => Ok(()),
            Err(error) => {
                Err(Error::new(ErrorKind::Closed, "the client's connection broke").with_source(error))
            }
        }
    }
}
