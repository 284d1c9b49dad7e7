//! The query packet.

use connector_core::Result;

use super::{ClientPacket, MAX_NAME, MAX_TEXT, revision};
use crate::wire::{
    io::{ByteSource, put_string, put_varuint, read_exact, read_string, read_u8, read_varuint},
    settings::{SettingType, Settings, put_settings, read_settings, setting_type},
};

/// [`ClientInfo::kind`] of a query that a client sends; servers among themselves use 2.
pub const QUERY_KIND_INITIAL: u8 = 1;
/// [`Query::stage`] of a query that is to run to its end.
pub const STAGE_COMPLETE: u64 = 2;
const INTERFACE_TCP: u8 = 1;

/// Facts about the client that travel with every query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientInfo {
    /// 0 none (nothing follows), [`QUERY_KIND_INITIAL`], 2 secondary.
    pub kind: u8,
    /// Empty from a client.
    pub initial_user: String,
    /// Empty from a client.
    pub initial_query_id: String,
    /// `0.0.0.0:0` from a client.
    pub initial_address: String,
    /// Microseconds since 1970; 0 when unknown.
    pub initial_start_time: u64,
    /// The client's user on its machine.
    pub os_user: String,
    /// The client's machine.
    pub host_name: String,
    /// The client's name.
    pub client_name: String,
    /// The client's version.
    pub version_major: u64,
    /// The client's version.
    pub version_minor: u64,
    /// The client's version.
    pub version_patch: u64,
    /// The newest revision that the client speaks.
    pub revision: u64,
    /// Key of a keyed quota.
    pub quota_key: String,
    /// 0 from a client.
    pub distributed_depth: u64,
    /// OpenTelemetry's context, if any.
    pub trace: Option<TraceContext>,
}

/// OpenTelemetry's context of a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceContext {
    /// Trace id as it stands on the wire.
    pub trace_id: [u8; 16],
    /// Span id.
    pub span_id: u64,
    /// `tracestate` header.
    pub state: String,
    /// Trace flags.
    pub flags: u8,
}

/// A statement and all that goes with it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    /// The query's id; empty lets the server choose.
    pub query_id: String,
    /// Facts about the client.
    pub info: ClientInfo,
    /// Settings of this query.
    pub settings: Settings,
    /// The hash that servers send each other; empty from a client.
    pub interserver_secret: String,
    /// How far the query runs: [`STAGE_COMPLETE`].
    pub stage: u64,
    /// True when blocks travel in compressed frames, both ways.
    pub compression: bool,
    /// The statement.
    pub sql: String,
}

/// Appends the query with its packet id. The empty block that ends external tables is not included.
///
/// # Errors
/// `OptionInvalid` when a setting's value does not fit its type.
pub fn put_query(out: &mut Vec<u8>, query: &Query, revision: u64) -> Result<()> {
    put_varuint(out, ClientPacket::Query.id());
    put_string(out, query.query_id.as_bytes());
    put_client_info(out, &query.info, revision);
    put_settings(out, &query.settings, revision)?;
    if revision >= revision::INTERSERVER_SECRET {
        put_string(out, query.interserver_secret.as_bytes());
    }
    put_varuint(out, query.stage);
    put_varuint(out, u64::from(query.compression));
    put_string(out, query.sql.as_bytes());
    Ok(())
}

/// Reads a query behind its packet id.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` when a text is too long; `NotFound` with the context
/// `code=115`, as a real server says it, when a typed setting is not in the table of known ones.
pub async fn read_query<S: ByteSource>(source: &mut S, revision: u64) -> Result<Query> {
    read_query_with(source, revision, setting_type).await
}

/// [`read_query`] with another table of typed settings.
///
/// # Errors
/// As [`read_query`].
pub async fn read_query_with<S: ByteSource>(
    source: &mut S,
    revision: u64,
    types: impl Fn(&str) -> Option<SettingType> + Send,
) -> Result<Query> {
    let query_id = read_string(source, MAX_NAME).await?;
    let info = read_client_info(source, revision).await?;
    let settings = read_settings(source, revision, types).await?;
    let interserver_secret = if revision >= revision::INTERSERVER_SECRET {
        read_string(source, MAX_NAME).await?
    } else {
        String::new()
    };
    let stage = read_varuint(source).await?;
    let compression = read_varuint(source).await? != 0;
    let sql = read_string(source, MAX_TEXT).await?;
    Ok(Query { query_id, info, settings, interserver_secret, stage, compression, sql })
}

fn put_client_info(out: &mut Vec<u8>, info: &ClientInfo, revision: u64) {
    out.push(info.kind);
    if info.kind == 0 {
        return;
    }
    for text in [&info.initial_user, &info.initial_query_id, &info.initial_address] {
        put_string(out, text.as_bytes());
    }
    if revision >= revision::INITIAL_START_TIME {
        out.extend_from_slice(&info.initial_start_time.to_le_bytes());
    }
    out.push(INTERFACE_TCP);
    for text in [&info.os_user, &info.host_name, &info.client_name] {
        put_string(out, text.as_bytes());
    }
    put_varuint(out, info.version_major);
    put_varuint(out, info.version_minor);
    put_varuint(out, info.revision);
    if revision >= revision::QUOTA_KEY {
        put_string(out, info.quota_key.as_bytes());
    }
    if revision >= revision::DISTRIBUTED_DEPTH {
        put_varuint(out, info.distributed_depth);
    }
    if revision >= revision::VERSION_PATCH {
        put_varuint(out, info.version_patch);
    }
    if revision >= revision::OPEN_TELEMETRY {
        match &info.trace {
            None => out.push(0),
            Some(trace) => {
                out.push(1);
                out.extend_from_slice(&trace.trace_id);
                out.extend_from_slice(&trace.span_id.to_le_bytes());
                put_string(out, trace.state.as_bytes());
                out.push(trace.flags);
            }
        }
    }
}

async fn read_client_info<S: ByteSource>(source: &mut S, revision: u64) -> Result<ClientInfo> {
    let mut info = ClientInfo { kind: read_u8(source).await?, ..ClientInfo::default() };
    if info.kind == 0 {
        return Ok(info);
    }
    info.initial_user = read_string(source, MAX_NAME).await?;
    info.initial_query_id = read_string(source, MAX_NAME).await?;
    info.initial_address = read_string(source, MAX_NAME).await?;
    if revision >= revision::INITIAL_START_TIME {
        info.initial_start_time = read_u64(source).await?;
    }
    let interface = read_u8(source).await?;
    if interface != INTERFACE_TCP {
        return Err(connector_core::Error::new(
            connector_core::ErrorKind::Unexpected,
            format!("the client says that it came by interface {interface}; only 1 (TCP) makes sense here"),
        ));
    }
    info.os_user = read_string(source, MAX_NAME).await?;
    info.host_name = read_string(source, MAX_NAME).await?;
    info.client_name = read_string(source, MAX_NAME).await?;
    info.version_major = read_varuint(source).await?;
    info.version_minor = read_varuint(source).await?;
    info.revision = read_varuint(source).await?;
    if revision >= revision::QUOTA_KEY {
        info.quota_key = read_string(source, MAX_NAME).await?;
    }
    if revision >= revision::DISTRIBUTED_DEPTH {
        info.distributed_depth = read_varuint(source).await?;
    }
    if revision >= revision::VERSION_PATCH {
        info.version_patch = read_varuint(source).await?;
    }
    if revision >= revision::OPEN_TELEMETRY && read_u8(source).await? != 0 {
        let mut trace_id = [0; 16];
        read_exact(source, &mut trace_id).await?;
        info.trace = Some(TraceContext {
            trace_id,
            span_id: read_u64(source).await?,
            state: read_string(source, MAX_NAME).await?,
            flags: read_u8(source).await?,
        });
    }
    Ok(info)
}

async fn read_u64<S: ByteSource>(source: &mut S) -> Result<u64> {
    let mut bytes = [0; 8];
    read_exact(source, &mut bytes).await?;
    Ok(u64::from_le_bytes(bytes))
}
