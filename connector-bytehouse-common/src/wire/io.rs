//! Where wire bytes come from: [`ByteSource`], the primitives on top of it, and their writing twins.

use connector_core::{Error, ErrorKind, Result};

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
    /// `Closed` at the end of the stream; `Timeout` when nothing comes in the time allowed.
    fn fill(&mut self) -> impl Future<Output = Result<()>> + Send;
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
        Error::new(ErrorKind::Unexpected, format!("the server sent a text of {length} bytes where at most {limit} make sense"))
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
