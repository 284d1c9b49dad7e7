//! Where wire bytes come from: [`ByteSource`], the primitives on top of it, and their writing twins.

use std::{
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use connector_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, ReadBuf};

/// A buffered stream of bytes: a socket, the content of compressed frames, or a slice in tests.
///
/// Works like `BufRead`: look at [`buffered`](Self::buffered), take from it with
/// [`consume`](Self::consume), and wait for more with [`fill`](Self::fill). Decoders stay
/// synchronous over what is buffered and wait only at its end.
pub trait ByteSource: Send {
    /// The bytes that are here already.
    fn buffered(&self) -> &[u8];

    /// Takes `count` bytes, at most as many as are buffered.
    fn consume(&mut self, count: usize);

    /// Waits for at least one byte more behind those that are buffered.
    ///
    /// # Errors
    /// `Closed` at the end of bytes in memory; `Unavailable` (transient) when a connection ends;
    /// `Timeout` (transient) when nothing comes in the time allowed.
    fn fill(&mut self) -> impl Future<Output = Result<()>> + Send;
}

impl<S: ByteSource> ByteSource for &mut S {
    fn buffered(&self) -> &[u8] {
        (**self).buffered()
    }

    fn consume(&mut self, count: usize) {
        (**self).consume(count);
    }

    fn fill(&mut self) -> impl Future<Output = Result<()>> + Send {
        (**self).fill()
    }
}

/// Reads one byte.
///
/// # Errors
/// As [`ByteSource::fill`].
pub async fn read_u8<S: ByteSource>(source: &mut S) -> Result<u8> {
    loop {
        if let Some(&byte) = source.buffered().first() {
            source.consume(1);
            return Ok(byte);
        }
        source.fill().await?;
    }
}

/// Reads a variable-length unsigned integer (LEB128, at most 10 bytes).
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` when it does not end after 10 bytes.
pub async fn read_varuint<S: ByteSource>(source: &mut S) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = read_u8(source).await?;
        value |= u64::from(byte & 0x7f) << shift.min(63);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Error::new(ErrorKind::Unexpected, "the server sent a number that does not end after 10 bytes"))
}

/// Reads exactly as many bytes as `out` holds.
///
/// # Errors
/// As [`ByteSource::fill`].
pub async fn read_exact<S: ByteSource>(source: &mut S, out: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < out.len() {
        let here = source.buffered();
        if here.is_empty() {
            source.fill().await?;
            continue;
        }
        let count = here.len().min(out.len() - done);
        out[done..done + count].copy_from_slice(&here[..count]);
        source.consume(count);
        done += count;
    }
    Ok(())
}

/// Reads a length-prefixed text of at most `limit` bytes; bytes that are not UTF-8 are replaced.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` when it is longer than `limit`.
pub async fn read_string<S: ByteSource>(source: &mut S, limit: usize) -> Result<String> {
    let length = read_varuint(source).await?;
    let length = usize::try_from(length).ok().filter(|length| *length <= limit).ok_or_else(|| {
        Error::new(
            ErrorKind::Unexpected,
            format!("the server sent a text of {length} bytes where at most {limit} make sense"),
        )
    })?;
    let mut bytes = vec![0; length];
    read_exact(source, &mut bytes).await?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// Appends a variable-length unsigned integer.
#[inline]
pub fn put_varuint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a length-prefixed text.
pub fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_varuint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// A [`ByteSource`] over bytes in memory.
#[derive(Debug, Clone)]
pub struct SliceSource<'a>(pub &'a [u8]);

impl ByteSource for SliceSource<'_> {
    fn buffered(&self) -> &[u8] {
        self.0
    }

    fn consume(&mut self, count: usize) {
        self.0 = &self.0[count.min(self.0.len())..];
    }

    async fn fill(&mut self) -> Result<()> {
        Err(Error::new(ErrorKind::Closed, "the bytes end in the middle of a value"))
    }
}

const FIRST_BUFFER: usize = 64 << 10;

/// What was read ahead of a stream.
pub(super) struct ReadAhead {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReadAhead {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; FIRST_BUFFER], start: 0, end: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start += count.min(self.end - self.start);
    }

    /// Reads behind what is there. `Ready(0)` is the end of the stream.
    pub(super) fn poll_fill<R: AsyncRead + ?Sized>(
        &mut self,
        stream: Pin<&mut R>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.bytes.len() && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        stream.poll_read(cx, &mut room).map_ok(|()| {
            let count = room.filled().len();
            self.end += count;
            count
        })
    }
}

/// A [`ByteSource`] over any stream, without a limit of time: what a server reads a client by.
pub struct StreamSource<R> {
    stream: R,
    ahead: ReadAhead,
}

impl<R> fmt::Debug for StreamSource<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSource").field("buffered", &self.ahead.bytes().len()).finish_non_exhaustive()
    }
}

impl<R: AsyncRead + Unpin + Send> StreamSource<R> {
    /// A source that reads `stream` ahead.
    pub fn new(stream: R) -> Self {
        Self { stream, ahead: ReadAhead::new() }
    }

    /// The stream itself, to write to. What is read from it directly misses what was read ahead.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.stream
    }
}

impl<R: AsyncRead + Unpin + Send> ByteSource for StreamSource<R> {
    fn buffered(&self) -> &[u8] {
        self.ahead.bytes()
    }

    fn consume(&mut self, count: usize) {
        self.ahead.consume(count);
    }

    async fn fill(&mut self) -> Result<()> {
        let ended = || Error::new(ErrorKind::Unavailable, "the connection ended").transient();
        match poll_fn(|cx| self.ahead.poll_fill(Pin::new(&mut self.stream), cx)).await {
            Ok(0) => Err(ended()),
            Ok(_) => Ok(()),
            Err(error) => Err(ended().with_source(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn a_stream_gives_its_bytes_in_pieces_and_then_its_end() {
        let mut text = Vec::new();
        put_string(&mut text, &vec![b'x'; 200_000]);
        let mut source = StreamSource::new(&text[..]);
        assert_eq!(read_string(&mut source, 1 << 20).await.unwrap().len(), 200_000);
        assert_eq!(read_u8(&mut source).await.unwrap_err().kind(), ErrorKind::Unavailable);
        let mut source = StreamSource::new(&text[..]);
        // Waiting without taking grows the buffer.
        while source.buffered().len() < text.len() {
            source.fill().await.unwrap();
        }
        assert_eq!(source.buffered(), text);
    }

    #[tokio::test]
    async fn texts_that_are_too_long_or_no_utf8() {
        assert!(
            read_string(&mut SliceSource(b"\x03abc"), 2).await.unwrap_err().message().contains("3 bytes")
        );
        assert_eq!(read_string(&mut SliceSource(b"\x02\xffa"), 2).await.unwrap(), "\u{fffd}a");
        let endless = read_varuint(&mut SliceSource(&[0xff; 11])).await.unwrap_err();
        assert_eq!(endless.kind(), ErrorKind::Unexpected);
    }

    proptest! {
        #[test]
        fn numbers_there_and_back(value: u64) {
            let mut out = Vec::new();
            put_varuint(&mut out, value);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            prop_assert_eq!(runtime.block_on(read_varuint(&mut SliceSource(&out))).unwrap(), value);
        }
    }
}
