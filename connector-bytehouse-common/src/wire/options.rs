//! How to reach a server.

use std::{path::PathBuf, str::FromStr, time::Duration};

use connector_core::{Error, ErrorKind, Result, Secret};

use super::{Compression, Settings, protocol::revision};
use crate::native::ReadOptions;

/// Where a server is, who we are, and how long to wait.
///
/// ```
/// use connector_bytehouse_common::wire::{ClientOptions, TlsOptions};
/// use connector_core::Secret;
///
/// let mut options = ClientOptions::new("tenant-1.bytehouse.example", 19000);
/// options.user = "bytehouse".into();
/// options.password = Secret::new("token");
/// options.tls = Some(TlsOptions::default());
/// options.settings.set("virtual_warehouse", "vw_load");
/// assert!(!format!("{options:?}").contains("token"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Host name or address.
    pub host: String,
    /// Port of the native protocol.
    pub port: u16,
    /// The session's database; empty for the user's default.
    pub database: String,
    /// The user: `bytehouse` with an API token, `account::user` with a password, `default` at ClickHouse.
    pub user: String,
    /// The password or API token, taken as it is.
    pub password: Secret,
    /// The revision to announce; the smaller one of both sides counts. 54448 keeps packets away that the
    /// server families number differently; 54406 is for old gateways.
    pub revision: u64,
    /// What we call ourselves at the server.
    pub client_name: String,
    /// The longest wait for a usable connection: name look-up, TCP, TLS and login together.
    pub connect_timeout: Duration,
    /// The longest wait for any byte while an answer is due, and for the server to take any byte of ours.
    pub read_timeout: Duration,
    /// The longest time for a whole query or insert; `None` for no limit.
    pub query_timeout: Option<Duration>,
    /// The longest wait for the answer to a ping, and for a cancelled query to end.
    pub ping_timeout: Duration,
    /// How long a connection may lie unused before it counts as unusable: gateways drop such ones silently.
    pub idle_timeout: Duration,
    /// How blocks are compressed.
    pub compression: Compression,
    /// TLS; `None` for plain TCP, where the password is readable on the way.
    pub tls: Option<TlsOptions>,
    /// Settings that go with every query.
    pub settings: Settings,
    /// How results are read.
    pub read: ReadOptions,
}

impl ClientOptions {
    /// Plain TCP to a server as user `default` without a password.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            database: String::new(),
            user: "default".into(),
            password: Secret::new(""),
            revision: revision::DEFAULT,
            client_name: "connectors-rs".into(),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(300),
            query_timeout: None,
            ping_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            compression: Compression::None,
            tls: None,
            settings: Settings::new(),
            read: ReadOptions::default(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::new(ErrorKind::OptionInvalid, message));
        if self.host.is_empty() {
            return wrong("`host` is empty; name the server".into());
        }
        if self.user.is_empty() {
            return wrong("`user` is empty; servers refuse a login without a user".into());
        }
        if !(revision::OLDEST..=revision::NEWEST).contains(&self.revision) {
            let (oldest, newest) = (revision::OLDEST, revision::NEWEST);
            return wrong(format!("`revision` is {}; it must be from {oldest} to {newest}", self.revision));
        }
        Ok(())
    }
}

/// How far the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Verify {
    /// Signed by a trusted authority, valid now, and made out to the host's name.
    #[default]
    Full,
    /// Signed by a trusted authority and valid now; the name may differ.
    Ca,
    /// **Not at all.** Anyone on the way can pose as the server, read the password and every row, and
    /// change them. For tests on one's own machine; anywhere else give the root certificate instead.
    None,
}

impl FromStr for Verify {
    type Err = Error;

    /// Takes `verify-full` (also `strict`), `verify-ca` and `none`, as `sslmode` has them.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "verify-full" | "strict" => Ok(Self::Full),
            "verify-ca" => Ok(Self::Ca),
            "none" => Ok(Self::None),
            _ => Err(Error::new(
                ErrorKind::OptionInvalid,
                format!("`sslmode` is `{text}`; it must be `verify-full`, `verify-ca` or `none`"),
            )),
        }
    }
}

/// PEM text, or the file that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pem {
    /// A file.
    File(PathBuf),
    /// The text itself.
    Text(Secret),
}

/// TLS towards a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TlsOptions {
    /// How far the server's certificate is checked.
    pub verify: Verify,
    /// Certificates to trust besides the system's. A server's own self-signed certificate may stand here:
    /// it is then trusted as it is.
    pub root_certificate: Option<Pem>,
    /// Trusts the system's authorities, too.
    pub system_roots: bool,
    /// Our certificate, where the server asks for one.
    pub client_certificate: Option<ClientCertificate>,
    /// The name that the certificate must be made out to, where it is not the host.
    pub server_name: Option<String>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            verify: Verify::Full,
            root_certificate: None,
            system_roots: true,
            client_certificate: None,
            server_name: None,
        }
    }
}

/// A certificate of ours with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, and those between it and the authority.
    pub chain: Pem,
    /// Its private key.
    pub key: Pem,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_before_anything_is_sent() {
        ClientOptions::new("h", 1).check().unwrap();
        for (change, word) in [
            ((|o| o.host.clear()) as fn(&mut ClientOptions), "`host`"),
            (|o| o.user.clear(), "`user`"),
            (|o| o.revision = 54057, "54058"),
            (|o| o.revision = 54452, "54451"),
        ] {
            let mut options = ClientOptions::new("h", 1);
            change(&mut options);
            let error = options.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OptionInvalid);
            assert!(error.message().contains(word), "{error}");
        }
    }

    #[test]
    fn sslmode_spellings() {
        for (text, verify) in [
            ("verify-full", Verify::Full),
            ("strict", Verify::Full),
            ("verify-ca", Verify::Ca),
            ("none", Verify::None),
        ] {
            assert_eq!(text.parse::<Verify>().unwrap(), verify);
        }
        assert!("require".parse::<Verify>().unwrap_err().message().contains("`verify-ca`"));
    }

    #[test]
    fn nothing_secret_in_debug() {
        let mut options = ClientOptions::new("h", 1);
        options.password = Secret::new("hunter2");
        options.settings.set("s3_access_key_secret", "hunter2");
        options.tls = Some(TlsOptions {
            client_certificate: Some(ClientCertificate {
                chain: Pem::Text(Secret::new("c")),
                key: Pem::Text(Secret::new("hunter2")),
            }),
            ..TlsOptions::default()
        });
        assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
    }
}
