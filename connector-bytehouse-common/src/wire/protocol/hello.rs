//! The first packet of each side.

use connector_core::{Result, Secret};

use super::{ClientPacket, MAX_NAME, ServerPacket, revision};
use crate::wire::io::{ByteSource, put_string, put_varuint, read_string, read_varuint};

/// Who a client is and what it wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHello {
    /// The client's name.
    pub client_name: String,
    /// The client's version.
    pub version_major: u64,
    /// The client's version.
    pub version_minor: u64,
    /// The newest revision that the client speaks.
    pub revision: u64,
    /// The session's database; empty for the user's default.
    pub database: String,
    /// The user.
    pub user: String,
    /// The password or token.
    pub password: Secret,
}

/// Appends the client's hello with its packet id.
pub fn put_client_hello(out: &mut Vec<u8>, hello: &ClientHello) {
    put_varuint(out, ClientPacket::Hello.id());
    put_string(out, hello.client_name.as_bytes());
    put_varuint(out, hello.version_major);
    put_varuint(out, hello.version_minor);
    put_varuint(out, hello.revision);
    put_string(out, hello.database.as_bytes());
    put_string(out, hello.user.as_bytes());
    put_string(out, hello.password.expose().as_bytes());
}

/// Reads the client's hello behind its packet id.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` when a name is longer than [`MAX_NAME`].
pub async fn read_client_hello<S: ByteSource>(source: &mut S) -> Result<ClientHello> {
    Ok(ClientHello {
        client_name: read_string(source, MAX_NAME).await?,
        version_major: read_varuint(source).await?,
        version_minor: read_varuint(source).await?,
        revision: read_varuint(source).await?,
        database: read_string(source, MAX_NAME).await?,
        user: read_string(source, MAX_NAME).await?,
        password: Secret::new(read_string(source, MAX_NAME).await?),
    })
}

/// Who a server is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerHello {
    /// The server's name, such as `ClickHouse`.
    pub name: String,
    /// The server's version.
    pub version_major: u64,
    /// The server's version.
    pub version_minor: u64,
    /// The newest revision that the server speaks.
    pub revision: u64,
    /// The server's time zone, such as `Asia/Shanghai`.
    pub timezone: String,
    /// The name that the server's owner gave it; empty when it is too old to say.
    pub display_name: String,
    /// The server's version; 0 when it is too old to say.
    pub version_patch: u64,
}

impl ServerHello {
    /// The version as `major.minor.patch`.
    pub fn version(&self) -> String {
        format!("{}.{}.{}", self.version_major, self.version_minor, self.version_patch)
    }
}

/// Appends the server's hello with its packet id, for a client that announced `client_revision`.
pub fn put_server_hello(out: &mut Vec<u8>, hello: &ServerHello, client_revision: u64) {
    put_varuint(out, ServerPacket::Hello.id());
    put_string(out, hello.name.as_bytes());
    put_varuint(out, hello.version_major);
    put_varuint(out, hello.version_minor);
    put_varuint(out, hello.revision);
    let common = hello.revision.min(client_revision);
    if common >= revision::OLDEST {
        put_string(out, hello.timezone.as_bytes());
    }
    if common >= revision::SERVER_DISPLAY_NAME {
        put_string(out, hello.display_name.as_bytes());
    }
    if common >= revision::VERSION_PATCH {
        put_varuint(out, hello.version_patch);
    }
}

/// Reads the server's hello behind its packet id; `client_revision` is what the client announced.
///
/// # Errors
/// As [`ByteSource::fill`]; `Unexpected` when a name is longer than [`MAX_NAME`].
pub async fn read_server_hello<S: ByteSource>(source: &mut S, client_revision: u64) -> Result<ServerHello> {
    let mut hello = ServerHello {
        name: read_string(source, MAX_NAME).await?,
        version_major: read_varuint(source).await?,
        version_minor: read_varuint(source).await?,
        revision: read_varuint(source).await?,
        ..ServerHello::default()
    };
    let common = hello.revision.min(client_revision);
    if common >= revision::OLDEST {
        hello.timezone = read_string(source, MAX_NAME).await?;
    }
    if common >= revision::SERVER_DISPLAY_NAME {
        hello.display_name = read_string(source, MAX_NAME).await?;
    }
    if common >= revision::VERSION_PATCH {
        hello.version_patch = read_varuint(source).await?;
    }
    Ok(hello)
}
