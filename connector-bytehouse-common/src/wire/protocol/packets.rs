//! The small packets of a server, and what stands before a block.

use connector_core::{Error, ErrorKind, Result};

use super::{MAX_NAME, MAX_TEXT, ServerPacket, revision};
use crate::wire::io::{ByteSource, put_string, put_varuint, read_exact, read_string, read_u8, read_varuint};

/// What stands before a block's columns on a socket (not over HTTP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockInfo {
    /// Rows that did not fit `max_rows_to_group_by`.
    pub is_overflows: bool,
    /// Bucket of a two-level aggregation; -1 for none.
    pub bucket: i32,
}

impl Default for BlockInfo {
    fn default() -> Self {
        Self { is_overflows: false, bucket: -1 }
    }
}

/// Appends a block's info.
pub fn put_block_info(out: &mut Vec<u8>, info: BlockInfo) {
    out.extend_from_slice(&[1, u8::from(info.is_overflows), 2]);
    out.extend_from_slice(&info.bucket.to_le_bytes());
    out.push(0);
}

/// Reads a block's info.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` for a field that is not known, as its length is not known either.
pub async fn read_block_info<S: ByteSource>(source: &mut S) -> Result<BlockInfo> {
    let mut info = BlockInfo::default();
    loop {
        match read_varuint(source).await? {
            0 => return Ok(info),
            1 => info.is_overflows = read_u8(source).await? != 0,
            2 => info.bucket = read_i32(source).await?,
            field => {
                return Err(Error::new(
                    ErrorKind::Unexpected,
                    format!("the block has the unknown info field {field}"),
                ));
            }
        }
    }
}

/// Appends what comes before a block's frames: the packet's id and the table's name (empty but for
/// external tables and tagged logs). The block itself, compressed or not, follows.
pub fn put_data_prefix(out: &mut Vec<u8>, packet_id: u64, table: &str) {
    put_varuint(out, packet_id);
    put_string(out, table.as_bytes());
}

/// An exception of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerException {
    /// ClickHouse's error code.
    pub code: i32,
    /// The exception's class, mostly `DB::Exception`.
    pub name: String,
    /// The text; those of nested exceptions are appended.
    pub message: String,
    /// The stack; mostly empty. Never shown.
    pub stack_trace: String,
}

/// Appends an exception with its packet id.
pub fn put_exception(out: &mut Vec<u8>, exception: &ServerException) {
    put_varuint(out, ServerPacket::Exception.id());
    out.extend_from_slice(&exception.code.to_le_bytes());
    put_string(out, exception.name.as_bytes());
    put_string(out, exception.message.as_bytes());
    put_string(out, exception.stack_trace.as_bytes());
    out.push(0);
}

/// Reads an exception behind its packet id.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` when a text is too long or exceptions nest without end.
pub async fn read_exception<S: ByteSource>(source: &mut S) -> Result<ServerException> {
    let (mut exception, mut nested) = read_one_exception(source).await?;
    let mut depth = 0;
    while nested {
        depth += 1;
        if depth > 32 {
            return Err(Error::new(ErrorKind::Unexpected, "the server's exception nests more than 32 deep"));
        }
        let (inner, more) = read_one_exception(source).await?;
        exception.message.push_str(": ");
        exception.message.push_str(&inner.message);
        nested = more;
    }
    Ok(exception)
}

async fn read_one_exception<S: ByteSource>(source: &mut S) -> Result<(ServerException, bool)> {
    let exception = ServerException {
        code: read_i32(source).await?,
        name: read_string(source, MAX_NAME).await?,
        message: read_string(source, MAX_TEXT).await?,
        stack_trace: read_string(source, MAX_TEXT).await?,
    };
    Ok((exception, read_u8(source).await? != 0))
}

/// How far a query has come. Each packet tells what is new since the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Rows read.
    pub read_rows: u64,
    /// Bytes read, uncompressed.
    pub read_bytes: u64,
    /// Rows that there are to read, as far as known.
    pub total_rows_to_read: u64,
    /// Rows written; 0 from servers that do not say.
    pub written_rows: u64,
    /// Bytes written; 0 from servers that do not say.
    pub written_bytes: u64,
}

impl Progress {
    /// Adds what a further packet tells.
    pub fn add(&mut self, more: &Progress) {
        self.read_rows = self.read_rows.saturating_add(more.read_rows);
        self.read_bytes = self.read_bytes.saturating_add(more.read_bytes);
        self.total_rows_to_read = self.total_rows_to_read.saturating_add(more.total_rows_to_read);
        self.written_rows = self.written_rows.saturating_add(more.written_rows);
        self.written_bytes = self.written_bytes.saturating_add(more.written_bytes);
    }
}

/// Appends a progress packet with its id.
pub fn put_progress(out: &mut Vec<u8>, progress: &Progress, revision: u64) {
    put_varuint(out, ServerPacket::Progress.id());
    put_varuint(out, progress.read_rows);
    put_varuint(out, progress.read_bytes);
    put_varuint(out, progress.total_rows_to_read);
    if revision >= revision::WRITTEN_IN_PROGRESS {
        put_varuint(out, progress.written_rows);
        put_varuint(out, progress.written_bytes);
    }
}

/// Reads progress behind its packet id.
///
/// # Errors
/// As [`ByteSource::fill`].
pub async fn read_progress<S: ByteSource>(source: &mut S, revision: u64) -> Result<Progress> {
    let mut progress = Progress {
        read_rows: read_varuint(source).await?,
        read_bytes: read_varuint(source).await?,
        total_rows_to_read: read_varuint(source).await?,
        ..Progress::default()
    };
    if revision >= revision::WRITTEN_IN_PROGRESS {
        progress.written_rows = read_varuint(source).await?;
        progress.written_bytes = read_varuint(source).await?;
    }
    Ok(progress)
}

/// Facts about a result, sent near its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProfileInfo {
    /// Rows of the result.
    pub rows: u64,
    /// Blocks of the result.
    pub blocks: u64,
    /// Bytes of the result, uncompressed.
    pub bytes: u64,
    /// True when `LIMIT` cut something off.
    pub applied_limit: bool,
    /// Rows that there were before `LIMIT`.
    pub rows_before_limit: u64,
    /// True when [`rows_before_limit`](Self::rows_before_limit) was counted.
    pub calculated_rows_before_limit: bool,
}

/// Appends profile info with its packet id.
pub fn put_profile_info(out: &mut Vec<u8>, info: &ProfileInfo) {
    put_varuint(out, ServerPacket::ProfileInfo.id());
    put_varuint(out, info.rows);
    put_varuint(out, info.blocks);
    put_varuint(out, info.bytes);
    out.push(u8::from(info.applied_limit));
    put_varuint(out, info.rows_before_limit);
    out.push(u8::from(info.calculated_rows_before_limit));
}

/// Reads profile info behind its packet id.
///
/// # Errors
/// As [`ByteSource::fill`].
pub async fn read_profile_info<S: ByteSource>(source: &mut S) -> Result<ProfileInfo> {
    Ok(ProfileInfo {
        rows: read_varuint(source).await?,
        blocks: read_varuint(source).await?,
        bytes: read_varuint(source).await?,
        applied_limit: read_u8(source).await? != 0,
        rows_before_limit: read_varuint(source).await?,
        calculated_rows_before_limit: read_u8(source).await? != 0,
    })
}

/// The columns of an insert's table, as the server describes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableColumns {
    /// Empty for the insert's own table.
    pub table: String,
    /// `columns format version: 1` and a line per column.
    pub description: String,
}

/// Appends a table's columns with the packet id.
pub fn put_table_columns(out: &mut Vec<u8>, columns: &TableColumns) {
    put_varuint(out, ServerPacket::TableColumns.id());
    put_string(out, columns.table.as_bytes());
    put_string(out, columns.description.as_bytes());
}

/// Reads a table's columns behind the packet id.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` when a text is too long.
pub async fn read_table_columns<S: ByteSource>(source: &mut S) -> Result<TableColumns> {
    Ok(TableColumns {
        table: read_string(source, MAX_NAME).await?,
        description: read_string(source, MAX_TEXT).await?,
    })
}

/// Appends the answer to a ping.
pub fn put_pong(out: &mut Vec<u8>) {
    put_varuint(out, ServerPacket::Pong.id());
}

/// Appends the end of a query.
pub fn put_end_of_stream(out: &mut Vec<u8>) {
    put_varuint(out, ServerPacket::EndOfStream.id());
}

/// Appends the session's time zone as the ByteHouse family sends it before results to clients that
/// announced [`revision::TIMEZONE_UPDATE`].
pub fn put_timezone_update(out: &mut Vec<u8>, timezone: &str) {
    put_varuint(out, ServerPacket::TimezoneUpdate.id());
    put_string(out, timezone.as_bytes());
}

async fn read_i32<S: ByteSource>(source: &mut S) -> Result<i32> {
    let mut bytes = [0; 4];
    read_exact(source, &mut bytes).await?;
    Ok(i32::from_le_bytes(bytes))
}
