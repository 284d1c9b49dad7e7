//! Raw connection properties, by the names of the vendor's JDBC driver and of `libpq`.

use std::time::Duration;

use connector_bytehouse_common::wire::{ClientCertificate, ClientOptions, Pem, TlsOptions};
use connector_core::{
    Error, ErrorKind, Result, Secret,
    options::{Problems, PropertyMap},
};

const KNOWN: [&str; 10] = [
    "user",
    "password",
    "database",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "server_name",
    "connect_timeout",
    "socket_timeout",
];

/// Properties that only a connection with TLS has.
const TLS_ONLY: [&str; 5] = ["sslmode", "sslrootcert", "sslcert", "sslkey", "server_name"];

/// Reports names that mean nothing here, and values that cannot be.
pub(super) fn check(key: &str, properties: &PropertyMap, secure: bool, problems: &mut Problems) {
    if let Err(error) = apply(&mut ClientOptions::new("h", 1), properties, secure) {
        problems.push(key, format!("`{key}`: {}", error.message()));
    }
    for (name, _) in properties.iter() {
        if TLS_ONLY.contains(&name) && !secure {
            problems
                .push(key, format!("`{key}` holds `{name}`, which has no effect without TLS; set `secure`"));
        }
        if !KNOWN.contains(&name) {
            problems.push(
                key,
                format!(
                    "`{key}` holds `{name}`, which is not a connection property; known are {}",
                    KNOWN.join(", ")
                ),
            );
        }
    }
}

/// Puts the properties into `client`. `secure` says whether TLS is on.
pub(super) fn apply(client: &mut ClientOptions, properties: &PropertyMap, secure: bool) -> Result<()> {
    if let Some(user) = properties.get("user") {
        client.user = user.to_owned();
    }
    if let Some(password) = properties.get("password") {
        client.password = Secret::new(password);
    }
    if let Some(database) = properties.get("database") {
        client.database = database.to_owned();
    }
    if let Some(limit) = millis(properties, "connect_timeout")? {
        client.connect_timeout = limit;
    }
    if let Some(limit) = millis(properties, "socket_timeout")? {
        client.read_timeout = limit;
    }
    client.tls = secure.then(|| tls(properties)).transpose()?;
    Ok(())
}

fn tls(properties: &PropertyMap) -> Result<TlsOptions> {
    let mut tls = TlsOptions::default();
    if let Some(mode) = properties.get("sslmode") {
        tls.verify = mode.parse()?;
    }
    tls.root_certificate = properties.get("sslrootcert").map(pem);
    tls.server_name = properties.get("server_name").map(str::to_owned);
    tls.client_certificate = match (properties.get("sslcert"), properties.get("sslkey")) {
        (Some(chain), Some(key)) => Some(ClientCertificate { chain: pem(chain), key: pem(key) }),
        (None, None) => None,
        _ => {
            return Err(Error::new(
                ErrorKind::OptionInvalid,
                "`sslcert` and `sslkey` belong together; give both",
            ));
        }
    };
    Ok(tls)
}

/// PEM text stands for itself, anything else names a file.
fn pem(value: &str) -> Pem {
    if value.contains("-----BEGIN") { Pem::Text(Secret::new(value)) } else { Pem::File(value.into()) }
}

fn millis(properties: &PropertyMap, name: &str) -> Result<Option<Duration>> {
    let Some(text) = properties.get(name) else { return Ok(None) };
    let millis = text.trim().parse().ok().filter(|millis| *millis > 0);
    millis.map(|millis| Some(Duration::from_millis(millis))).ok_or_else(|| {
        Error::new(
            ErrorKind::OptionInvalid,
            format!("`{name}` is `{text}`; it takes milliseconds, more than 0"),
        )
    })
}
