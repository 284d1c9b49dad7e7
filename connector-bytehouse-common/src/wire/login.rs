//! The way to a server, and what its refusals mean.

use std::{io, time::Duration};

use connector_core::{Error, ErrorKind, Result, Secret, options::MASK};
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, timeout},
};
use zeroize::Zeroizing;

use super::{Settings, connection::Transport, options::ClientOptions, protocol::ServerException, tls};
use crate::error::{classify, server_error};

/// Connects, with TLS where the options ask for it.
pub(super) async fn open(options: &ClientOptions) -> Result<Transport> {
    let stream = reach(options).await.map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => not_in_time(options.connect_timeout),
        _ => Error::new(
            ErrorKind::Unavailable,
            "the server cannot be reached; check host and port, and that it runs",
        )
        .transient()
        .with_source(e),
    })?;
    // Both only make things better; a system that refuses them still carries bytes.
    if let Err(error) = stream.set_nodelay(true).and_then(|()| {
        socket2::SockRef::from(&stream)
            .set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)))
    }) {
        tracing::debug!(%error, "the socket takes no options");
    }
    match &options.tls {
        None => Ok(Transport::Plain(stream)),
        Some(tls) => Ok(Transport::Tls(Box::new(tls::connect(stream, &options.host, tls).await?))),
    }
}

pub(super) fn not_in_time(limit: Duration) -> Error {
    let message =
        format!("no connection within {limit:?} (`connect_timeout`); check host, port and the way there");
    Error::new(ErrorKind::Timeout, message).transient()
}

/// Tries the host's addresses one after the other; one that does not answer leaves time for the next.
async fn reach(options: &ClientOptions) -> io::Result<TcpStream> {
    // A limit that the clock cannot hold is none; a century is.
    let limit = options.connect_timeout.min(Duration::from_secs(3_000_000_000));
    let end = Instant::now() + limit;
    let addresses: Vec<_> = lookup_host((options.host.as_str(), options.port)).await?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = end.saturating_duration_since(Instant::now()) / left;
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

pub(super) fn version(part: &str) -> u64 {
    part.parse().unwrap_or(0)
}

/// The connection ended, or no answer came, where the server's hello was due.
pub(super) fn no_hello(error: Error, options: &ClientOptions) -> Error {
    let error = match tls::refused_late(error) {
        Ok(refused) => return refused,
        Err(error) => error,
    };
    if error.kind() == ErrorKind::Timeout {
        let message = match &options.tls {
            None => {
                "the server did not answer the login in time (`connect_timeout`); is it the native protocol's port, and plain TCP?"
            }
            Some(_) => {
                "the server did not answer the login in time (`connect_timeout`); is it the native protocol's port?"
            }
        };
        return Error::new(ErrorKind::Timeout, message).transient().with_source(error);
    }
    let message = match &options.tls {
        None => {
            "the server closed the connection instead of answering the login; if this port takes TLS \
             (ByteHouse's 19000 does), switch TLS on (`secure`)"
        }
        Some(_) => {
            "the server closed the connection instead of answering the login; is it the native protocol's port?"
        }
    };
    Error::new(ErrorKind::Unavailable, message).transient().with_source(error)
}

/// Something answered that is no server of the native protocol, to judge by its first byte.
pub(super) fn no_native_port(first: u64, options: &ClientOptions) -> Error {
    const HTTP: u64 = b'H' as u64;
    const TLS_ALERT: u64 = 21;
    let message = match first {
        HTTP => {
            "this is an HTTP port; take the native protocol's port (ByteHouse 19000, ClickHouse 9000, with TLS 9440)".into()
        }
        TLS_ALERT if options.tls.is_none() => "this port takes TLS; switch TLS on (`secure`)".into(),
        _ => format!("what answers at this port does not speak the native protocol (its first byte is {first}); check the port"),
    };
    Error::new(ErrorKind::OptionInvalid, message)
}

pub(super) fn login_refused(exception: &ServerException, options: &ClientOptions) -> Error {
    let error = refusal(exception, &options.password, &[], "bytehouse.connect");
    if classify(exception.code, &exception.message).kind != ErrorKind::Unexpected {
        return error;
    }
    // A code without a meaning of its own, sent in place of a hello: the login was not accepted.
    let context: Vec<_> = error.context().map(|(key, value)| (key, value.to_owned())).collect();
    let refused = Error::new(ErrorKind::Unauthenticated, error.message().to_owned())
        .with_operation("bytehouse.connect");
    context.into_iter().fold(refused, |error, (key, value)| error.with_context(key, value))
}

/// The error for an exception with the secrets taken out of its text.
pub(super) fn refusal(
    exception: &ServerException,
    password: &Secret,
    secrets: &[Zeroizing<String>],
    operation: &'static str,
) -> Error {
    let mut text = exception.message.clone();
    for secret in secrets.iter().map(|secret| secret.as_str()).chain([password.expose()]) {
        if !secret.is_empty() && text.contains(secret) {
            text = text.replace(secret, MASK);
        }
    }
    server_error(exception.code, &exception.name, &text, operation)
}

/// The values of settings whose names say that they are secrets.
pub(super) fn secrets(settings: &Settings) -> Vec<Zeroizing<String>> {
    const PARTS: [&str; 6] = ["secret", "password", "access_key", "ak_id", "security_token", "session_token"];
    let secret = settings.iter().filter(|setting| PARTS.iter().any(|part| setting.name.contains(part)));
    secret.map(|setting| Zeroizing::new(setting.value.clone())).collect()
}
