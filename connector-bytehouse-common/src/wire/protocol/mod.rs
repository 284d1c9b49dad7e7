//! The native protocol's packets, for both ends.
//!
//! Functions named `put_…` append to a buffer and never fail on well-formed input; functions named
//! `read_…` take from a [`ByteSource`]. Where a packet has an id, `put_…`
//! writes it and `read_…` starts behind it, because whoever reads has looked at the id already.
//!
//! `revision` is always the smaller of what both sides announced: it decides which fields exist.
//! Blocks are not here: [`native`](crate::native) writes and reads their columns, and
//! [`BlockInfo`] is what stands before them on a socket.

mod hello;
mod packets;
mod query;

pub use hello::{
    ClientHello, ServerHello, put_client_hello, put_server_hello, read_client_hello, read_server_hello,
};
pub use packets::{
    BlockInfo, ProfileInfo, Progress, ServerException, TableColumns, put_block_info, put_data_prefix,
    put_end_of_stream, put_exception, put_pong, put_profile_info, put_progress, put_table_columns,
    put_timezone_update, read_block_info, read_exception, read_profile_info, read_progress,
    read_table_columns,
};
pub use query::{
    ClientInfo, QUERY_KIND_INITIAL, Query, STAGE_COMPLETE, TraceContext, put_query, read_query,
    read_query_with,
};

use connector_core::{Error, ErrorKind, Result};

use super::io::{ByteSource, read_varuint};

/// The revisions from which on a field or a form exists.
pub mod revision {
    /// The oldest revision that this crate speaks: hello with the server's time zone.
    pub const OLDEST: u64 = 54058;
    /// Quota key among the client's facts.
    pub const QUOTA_KEY: u64 = 54060;
    /// Display name in the server's hello.
    pub const SERVER_DISPLAY_NAME: u64 = 54372;
    /// Patch number in the server's hello and among the client's facts.
    pub const VERSION_PATCH: u64 = 54401;
    /// The server may send its log lines (only when `send_logs_level` asks for them).
    pub const SERVER_LOGS: u64 = 54406;
    /// The server may send the defaults of a table's columns before an insert.
    pub const TABLE_COLUMNS: u64 = 54410;
    /// Written rows and bytes in progress packets.
    pub const WRITTEN_IN_PROGRESS: u64 = 54420;
    /// Settings as text with a flag byte; typed binary below.
    pub const SETTINGS_AS_TEXT: u64 = 54429;
    /// The secret between servers, in queries.
    pub const INTERSERVER_SECRET: u64 = 54441;
    /// OpenTelemetry among the client's facts.
    pub const OPEN_TELEMETRY: u64 = 54442;
    /// Depth of distributed queries among the client's facts.
    pub const DISTRIBUTED_DEPTH: u64 = 54448;
    /// When the first query started, among the client's facts.
    pub const INITIAL_START_TIME: u64 = 54449;
    /// Packet 14 may come: query metrics of the ByteHouse family.
    pub const QUERY_METRICS: u64 = 54450;
    /// Packet 14 may come from ClickHouse (profile events), packet 15 from the ByteHouse family (time zone).
    pub const TIMEZONE_UPDATE: u64 = 54451;
    /// What a client announces unless told otherwise: no packet above 11 comes, columns have no serialization byte.
    pub const DEFAULT: u64 = DISTRIBUTED_DEPTH;
    /// The newest revision that this crate speaks.
    pub const NEWEST: u64 = TIMEZONE_UPDATE;
}

/// Longest name (user, host, database, table, setting) that is read, in bytes.
pub const MAX_NAME: usize = 64 << 10;
/// Longest text (message, statement, setting's value) that is read, in bytes.
pub const MAX_TEXT: usize = 16 << 20;

macro_rules! packet_ids {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $id:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// The id on the wire.
            pub const fn id(self) -> u64 {
                match self { $(Self::$variant => $id,)* }
            }

            /// The packet with this id, if there is one.
            pub const fn from_id(id: u64) -> Option<Self> {
                match id { $($id => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

packet_ids! {
    /// What a client sends. ByteHouse's AK/SK and system-token hellos (8 and 1000 as first packet) are not spoken here.
    ClientPacket {
        /// Name, revision, database, user, password.
        Hello = 0,
        /// A statement with its settings.
        Query = 1,
        /// A block of an external table or of an insert; an empty one ends them.
        Data = 2,
        /// Asks the server to stop the running query.
        Cancel = 3,
        /// Asks for a sign of life.
        Ping = 4,
        /// Between servers.
        TablesStatusRequest = 5,
        /// Nothing; keeps the connection open.
        KeepAlive = 6,
        /// Between servers.
        Scalar = 7,
        /// Between servers.
        IgnoredPartUuids = 8,
        /// Between servers.
        ReadTaskResponse = 9,
        /// ByConity, between servers.
        PlanSegment = 10,
        /// ByConity, between servers.
        CnchQuery = 11,
    }
}

packet_ids! {
    /// What a server sends.
    ServerPacket {
        /// Name, version, revision.
        Hello = 0,
        /// A block of the result, or the header of an insert.
        Data = 1,
        /// The query or the login failed.
        Exception = 2,
        /// Rows and bytes so far.
        Progress = 3,
        /// The answer to a ping.
        Pong = 4,
        /// The query is done.
        EndOfStream = 5,
        /// Rows, blocks and limits of the result.
        ProfileInfo = 6,
        /// The block of `WITH TOTALS`.
        Totals = 7,
        /// The block of `extremes = 1`.
        Extremes = 8,
        /// Between servers.
        TablesStatusResponse = 9,
        /// A block of the server's log lines; never compressed at the revisions spoken here.
        Log = 10,
        /// The columns of an insert's table with their defaults, as text.
        TableColumns = 11,
        /// Between servers.
        PartUuids = 12,
        /// Between servers.
        ReadTaskRequest = 13,
        /// ClickHouse: a block of counters, never compressed at the revisions spoken here.
        /// ByteHouse family: query metrics, one text.
        ProfileEvents = 14,
        /// ByteHouse family: the session's time zone. ClickHouse uses the number between servers.
        TimezoneUpdate = 15,
    }
}

/// Reads the id of the client's next packet.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected`, naming the id, when there is no such packet.
pub async fn read_client_packet<S: ByteSource>(source: &mut S) -> Result<ClientPacket> {
    let id = read_varuint(source).await?;
    ClientPacket::from_id(id)
        .ok_or_else(|| Error::new(ErrorKind::Unexpected, format!("the client sent the unknown packet {id}")))
}

/// Reads the id of the server's next packet.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected`, naming the id, when there is no such packet.
pub async fn read_server_packet<S: ByteSource>(source: &mut S) -> Result<ServerPacket> {
    let id = read_varuint(source).await?;
    ServerPacket::from_id(id).ok_or_else(|| unknown_server_packet(id))
}

/// The error for a packet that is unknown, or known and out of place.
pub(crate) fn unknown_server_packet(id: u64) -> Error {
    Error::new(
        ErrorKind::Unexpected,
        format!(
            "the server sent packet {id}, which makes no sense here; the connection is closed. \
             A lower `revision` keeps newer packets away"
        ),
    )
    .with_context("packet", id)
}
