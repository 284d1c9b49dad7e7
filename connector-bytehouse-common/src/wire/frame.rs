//! Compressed frames: how blocks travel when a query asks for compression.
//!
//! A frame is a 16-byte checksum, a method byte, the size of what follows the checksum, the size of
//! the content, and the compressed content. The checksum is CityHash128 of version 1.0.2 over all
//! that follows it; later CityHash versions differ.

use std::fmt;

use connector_core::{Error, ErrorKind, Result};

use super::io::{ByteSource, read_exact};

/// How blocks are compressed on their way, both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Not at all: best on fast networks.
    #[default]
    None,
    /// LZ4: little CPU, about half the bytes.
    Lz4,
    /// Zstandard, level 1: fewer bytes for more CPU. Needs the feature `zstd`.
    Zstd,
}

impl Compression {
    /// The method byte of its frames.
    pub const fn method(self) -> u8 {
        match self {
            Self::None => METHOD_NONE,
            Self::Lz4 => METHOD_LZ4,
            Self::Zstd => METHOD_ZSTD,
        }
    }

    /// What the setting `network_compression_method` calls it, so that every server reads it; `None` where no
    /// frames are used.
    pub const fn setting(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Lz4 => Some("lz4"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// Content bytes of one written frame at most, as the servers' own buffers have it.
pub const MAX_FRAME_CONTENT: usize = 1 << 20;
/// Bytes of one read frame at most, compressed as well as not. Servers write about 1 MiB.
pub const MAX_FRAME: usize = 128 << 20;

const METHOD_NONE: u8 = 0x02;
const METHOD_LZ4: u8 = 0x82;
const METHOD_ZSTD: u8 = 0x90;
const CHECKSUM: usize = 16;
const HEADER: usize = 9;
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 1;

/// Writes frames; keeps the compressor's memory from one frame to the next.
pub struct FrameWriter {
    compression: Compression,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameWriter").field("compression", &self.compression).finish_non_exhaustive()
    }
}

impl FrameWriter {
    /// A writer of frames of this kind. [`Compression::None`] writes frames whose content is as it is.
    ///
    /// # Errors
    /// `Unsupported` for zstd without the feature `zstd`.
    pub fn new(compression: Compression) -> Result<Self> {
        #[cfg(not(feature = "zstd"))]
        if compression == Compression::Zstd {
            return Err(no_zstd());
        }
        Ok(Self {
            compression,
            #[cfg(feature = "zstd")]
            zstd: match compression {
                Compression::Zstd => {
                    Some(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(|e| failed("compress", e))?)
                }
                _ => None,
            },
        })
    }

    /// Appends `content` in as many frames as it needs, each of at most [`MAX_FRAME_CONTENT`].
    ///
    /// # Errors
    /// `Unexpected` when the compressor fails.
    pub fn put(&mut self, out: &mut Vec<u8>, content: &[u8]) -> Result<()> {
        for chunk in content.chunks(MAX_FRAME_CONTENT) {
            self.put_one(out, chunk)?;
        }
        Ok(())
    }

    fn put_one(&mut self, out: &mut Vec<u8>, content: &[u8]) -> Result<()> {
        let start = out.len();
        let body = start + CHECKSUM + HEADER;
        let room = match self.compression {
            Compression::None => content.len(),
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(content.len()),
            #[cfg(feature = "zstd")]
            Compression::Zstd => zstd::zstd_safe::compress_bound(content.len()),
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => return Err(no_zstd()),
        };
        out.resize(body + room, 0);
        let written = self.compress(content, &mut out[body..])?;
        out.truncate(body + written);
        let size = |bytes: usize| u32::try_from(bytes).map_err(|e| failed("compress", e));
        out[start + CHECKSUM] = self.compression.method();
        out[start + CHECKSUM + 1..start + CHECKSUM + 5]
            .copy_from_slice(&size(written + HEADER)?.to_le_bytes());
        out[start + CHECKSUM + 5..body].copy_from_slice(&size(content.len())?.to_le_bytes());
        let sum = checksum(&out[start + CHECKSUM..]);
        out[start..start + CHECKSUM].copy_from_slice(&sum);
        Ok(())
    }

    fn compress(&mut self, content: &[u8], out: &mut [u8]) -> Result<usize> {
        match self.compression {
            Compression::None => {
                out[..content.len()].copy_from_slice(content);
                Ok(content.len())
            }
            Compression::Lz4 => {
                lz4_flex::block::compress_into(content, out).map_err(|e| failed("compress", e))
            }
            #[cfg(feature = "zstd")]
            Compression::Zstd => match &mut self.zstd {
                Some(zstd) => zstd.compress_to_buffer(content, out).map_err(|e| failed("compress", e)),
                None => Err(Error::new(ErrorKind::Unexpected, "there is no zstd compressor")),
            },
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => Err(no_zstd()),
        }
    }
}

/// The content of frames that another source holds.
///
/// Reads whole frames and never a byte behind the one that is needed, so that what follows on the
/// socket stays there. Checks every checksum before it decompresses.
#[derive(Debug)]
pub struct FrameSource<S> {
    inner: S,
    buffers: FrameBuffers,
    position: usize,
}

/// The memory of a [`FrameSource`], to be used again by the next one.
#[derive(Debug, Default)]
pub struct FrameBuffers {
    frame: Vec<u8>,
    content: Vec<u8>,
}

impl<S: ByteSource> FrameSource<S> {
    /// A source over `inner`, which stands at the start of a frame.
    pub fn new(inner: S) -> Self {
        Self::with_buffers(inner, FrameBuffers::default())
    }

    /// [`new`](Self::new) with memory that was used before.
    pub fn with_buffers(inner: S, mut buffers: FrameBuffers) -> Self {
        buffers.content.clear();
        Self { inner, buffers, position: 0 }
    }

    /// Gives the memory back.
    ///
    /// # Errors
    /// `DataInvalid` when the last frame holds more than was taken: a block ends with its frame.
    pub fn finish(self) -> Result<FrameBuffers> {
        let left = self.buffered().len();
        if left == 0 {
            return Ok(self.buffers);
        }
        Err(Error::new(
            ErrorKind::DataInvalid,
            format!("a compressed block is followed by {left} further bytes in its frame"),
        ))
    }

    async fn read_frame(&mut self) -> Result<usize> {
        let mut head = [0; CHECKSUM + HEADER];
        read_exact(&mut self.inner, &mut head).await?;
        let (sum, header) = head.split_at(CHECKSUM);
        let size = u32_at(header, 1)?;
        let content = u32_at(header, 5)?;
        if !(HEADER..=MAX_FRAME).contains(&size) || content > MAX_FRAME {
            return Err(Error::new(
                ErrorKind::DataInvalid,
                format!(
                    "a compressed frame of {size} bytes for {content} is not plausible; is the other side compressing?"
                ),
            ));
        }
        let frame = &mut self.buffers.frame;
        frame.clear();
        frame.extend_from_slice(header);
        // Grows with what comes, so that a false size costs no memory.
        while frame.len() < size {
            let here = self.inner.buffered();
            if here.is_empty() {
                self.inner.fill().await?;
                continue;
            }
            let count = here.len().min(size - frame.len());
            frame.extend_from_slice(&here[..count]);
            self.inner.consume(count);
        }
        if checksum(frame) != sum {
            return Err(Error::new(
                ErrorKind::DataInvalid,
                "the checksum of a compressed frame does not match: it was damaged on its way",
            ));
        }
        Ok(content)
    }
}

impl<S: ByteSource> ByteSource for FrameSource<S> {
    fn buffered(&self) -> &[u8] {
        &self.buffers.content[self.position..]
    }

    fn consume(&mut self, count: usize) {
        self.position += count.min(self.buffers.content.len() - self.position);
    }

    async fn fill(&mut self) -> Result<()> {
        let content = self.read_frame().await?;
        let FrameBuffers { frame, content: out } = &mut self.buffers;
        out.drain(..self.position);
        self.position = 0;
        let start = out.len();
        out.resize(start + content, 0);
        decompress(frame[0], &frame[HEADER..], &mut out[start..])
    }
}

fn decompress(method: u8, packed: &[u8], out: &mut [u8]) -> Result<()> {
    let written = match method {
        METHOD_NONE if packed.len() == out.len() => {
            out.copy_from_slice(packed);
            out.len()
        }
        METHOD_NONE => packed.len(),
        METHOD_LZ4 => lz4_flex::block::decompress_into(packed, out).map_err(|e| failed("decompress", e))?,
        #[cfg(feature = "zstd")]
        METHOD_ZSTD => zstd::bulk::decompress_to_buffer(packed, out).map_err(|e| failed("decompress", e))?,
        #[cfg(not(feature = "zstd"))]
        METHOD_ZSTD => return Err(no_zstd()),
        other => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "a frame is compressed by method {other:#04x}; known are 0x02 (none), 0x82 (LZ4) and 0x90 (zstd)"
                ),
            ));
        }
    };
    if written == out.len() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::DataInvalid,
        format!("a frame holds {written} bytes and promised {}", out.len()),
    ))
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    // The two halves stand low word first.
    cityhash_rs::cityhash_102_128(bytes).rotate_left(64).to_le_bytes()
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    word.and_then(|word| usize::try_from(word).ok())
        .ok_or_else(|| Error::new(ErrorKind::Unexpected, "a frame's header is too short"))
}

fn failed(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::DataInvalid, format!("could not {what} a frame")).with_source(error)
}

#[cfg(not(feature = "zstd"))]
fn no_zstd() -> Error {
    Error::new(ErrorKind::Unsupported, "zstd needs the crate's feature `zstd`; switch it on or take LZ4")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::io::SliceSource;

    fn framed(compression: Compression, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        FrameWriter::new(compression).unwrap().put(&mut out, content).unwrap();
        out
    }

    async fn unframed(bytes: &[u8], length: usize) -> Result<Vec<u8>> {
        let mut slice = SliceSource(bytes);
        let mut source = FrameSource::new(&mut slice);
        let mut out = vec![0; length];
        read_exact(&mut source, &mut out).await?;
        source.finish()?;
        Ok(out)
    }

    const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    /// Frames that a ClickHouse 18.16 server sent: they hold the checksum's version and byte order.
    #[tokio::test]
    async fn frames_of_a_real_server() {
        let header = b"\x01\0\x02\xff\xff\xff\xff\0\x02\0\x01a\x06String\x01b\x06UInt64";
        let lz4 = b"\xb2\x97\xd3\xe6|\x97{\xc2\xb6p\xb6Re\x99\xba\x8a\x82'\0\0\0\x1c\0\0\0\xf0\r\x01\0\x02\xff\xff\xff\xff\0\
            \x02\0\x01a\x06String\x01b\x06UInt64";
        assert_eq!(unframed(lz4, header.len()).await.unwrap(), header);
        assert_eq!(framed(Compression::Lz4, header), lz4);
        let zstd = b"\x11@\x94\xd1\xc5\xcdF\x99\xa0G\x83\x9eZ\xb4'\xcf\x90.\0\0\0\x1c\0\0\0(\xb5/\xfd \x1c\xe1\0\0\x01\0\x02\
            \xff\xff\xff\xff\0\x02\0\x01a\x06String\x01b\x06UInt64";
        assert_eq!(unframed(zstd, header.len()).await.unwrap(), header);
        let rows =
            b"\x01\0\x02\xff\xff\xff\xff\0\x02\x01\x01a\x06String7connectors-rs connectors-rs connectors-rs \
            connectors-rs\x01b\x06UInt64\x07\0\0\0\0\0\0\0";
        let lz4 = b"\xa0\x8d~\xde\xad\x81\x13\xf3\x0c\xf3\xc3\xb8\xebb\xfa\xeb\x82C\0\0\0\\\0\0\0\xff\x13\x01\0\x02\xff\xff\xff\xff\
            \0\x02\x01\x01a\x06String7connectors-rs \x0e\0\x16\xf0\x02\x01b\x06UInt64\x07\0\0\0\0\0\0\0";
        assert_eq!(unframed(lz4, rows.len()).await.unwrap(), rows);
    }

    #[tokio::test]
    async fn frames_there_and_back_and_split_at_the_limit() {
        let content: Vec<u8> =
            (0..MAX_FRAME_CONTENT * 2 + 12345).map(|i| (i / 7 % 251).to_le_bytes()[0]).collect();
        for compression in ALL {
            let bytes = framed(compression, &content);
            assert_eq!(bytes[16], compression.method());
            assert_eq!(unframed(&bytes, content.len()).await.unwrap(), content);
            let first = u32_at(&bytes, 17).unwrap();
            assert_eq!(u32_at(&bytes, 21).unwrap(), MAX_FRAME_CONTENT);
            assert_eq!(bytes[16 + first + 16], compression.method());
        }
    }

    #[tokio::test]
    async fn what_follows_a_frame_stays_in_the_source() {
        let mut bytes = framed(Compression::Lz4, b"block");
        bytes.push(5);
        let mut slice = SliceSource(&bytes);
        let mut source = FrameSource::new(&mut slice);
        let mut out = [0; 5];
        read_exact(&mut source, &mut out).await.unwrap();
        source.finish().unwrap();
        assert_eq!(slice.0, [5]);
        let left = unframed(&framed(Compression::Lz4, b"block!"), 5).await.unwrap_err();
        assert!(left.message().contains("followed by 1"), "{left}");
    }

    #[tokio::test]
    async fn every_flipped_bit_and_every_cut_is_seen() {
        for compression in ALL {
            let bytes = framed(compression, b"some content that is long enough, long enough, long enough");
            for at in 0..bytes.len() {
                assert!(unframed(&bytes[..at], 58).await.is_err(), "cut at {at}");
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    assert!(unframed(&damaged, 58).await.is_err(), "bit {bit} of byte {at}");
                }
            }
        }
    }

    #[tokio::test]
    async fn unknown_methods_and_false_sizes_are_errors() {
        let sealed = |body: &[u8]| [&checksum(body)[..], body].concat();
        let unknown = sealed(&[0x91, 10, 0, 0, 0, 1, 0, 0, 0, 7]);
        assert_eq!(unframed(&unknown, 1).await.unwrap_err().kind(), ErrorKind::Unsupported);
        let longer = sealed(&[0x02, 10, 0, 0, 0, 2, 0, 0, 0, 7]);
        assert_eq!(unframed(&longer, 2).await.unwrap_err().kind(), ErrorKind::DataInvalid);
        for header in
            [[0x82, 8, 0, 0, 0, 1, 0, 0, 0], [0x82, 0, 0, 0, 9, 1, 0, 0, 0], [0x82, 10, 0, 0, 0, 0, 0, 0, 9]]
        {
            let error = unframed(&sealed(&header), 1).await.unwrap_err();
            assert!(error.message().contains("not plausible"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_content_comes_back(content in proptest::collection::vec(any::<u8>(), 1..4000), kind in 0usize..3) {
            let bytes = framed(ALL[kind], &content);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            prop_assert_eq!(runtime.block_on(unframed(&bytes, content.len())).unwrap(), content);
        }

        #[test]
        fn any_bytes_are_an_error_or_content(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _either = runtime.block_on(unframed(&bytes, 10));
        }
    }
}
