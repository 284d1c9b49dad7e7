//! The real servers, as the environment names them.
//!
//! `./dev test` starts the servers and sets the variables. Without them a test prints "skipped" and returns, unless
//! `CI` or `CONNECTOR_TEST_REQUIRE` (a list such as `kafka,clickhouse-18`) makes an absent server a failure.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

/// User and password of an account that may do everything, on every server that knows logins.
pub const TESTER: (&str, &str) = ("tester", "secret");
/// User and password of an account that may only read, on the ClickHouse servers.
pub const READER: (&str, &str) = ("reader", "secret");

/// A kind of server. The name is that of its folder under `tests/services` and in `CONNECTOR_TEST_REQUIRE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Apache Kafka, one node.
    Kafka,
    /// ClickHouse 18.16: the old dialect, with TLS and logins.
    Clickhouse18,
    /// A current ClickHouse, without TLS. A wrong password ends the process: test logins on [`Service::Clickhouse18`].
    ClickhouseCurrent,
    /// Not a server: Python clients by other people, of the native protocol and of Kafka with Avro.
    PythonDrivers,
    /// Apache Fluss with ZooKeeper.
    Fluss,
    /// Apicurio Registry, which answers as Confluent's schema registry does.
    SchemaRegistry,
}

impl Service {
    /// The name, as in `tests/services` and `CONNECTOR_TEST_REQUIRE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Clickhouse18 => "clickhouse-18",
            Self::ClickhouseCurrent => "clickhouse-current",
            Self::PythonDrivers => "python-drivers",
            Self::Fluss => "fluss",
            Self::SchemaRegistry => "schema-registry",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Addresses of a Kafka cluster; all are `host:port`. What can be done with it is in [`crate::kafka`].
#[derive(Clone, Debug)]
pub struct Kafka {
    /// Plain text, no login. All brokers, with commas between them.
    pub bootstrap: String,
    /// TLS, no login; its certificate is [`Kafka::certificate`].
    pub tls_bootstrap: String,
    /// TLS that wants the client's certificate too, [`Kafka::client_certificate`].
    pub mutual_bootstrap: String,
    /// Plain text with SASL: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 as [`TESTER`], OAUTHBEARER with unsigned tokens.
    pub sasl_bootstrap: String,
    /// The same logins over TLS.
    pub sasl_tls_bootstrap: String,
    /// The self-signed certificate of the TLS addresses (PEM), to be trusted by clients.
    pub certificate: PathBuf,
    /// The certificate that [`Kafka::mutual_bootstrap`] trusts (PEM).
    pub client_certificate: PathBuf,
    /// The private key of [`Kafka::client_certificate`] (PEM).
    pub client_key: PathBuf,
    /// The class path of the console tools of the Kafka distribution.
    pub tools: String,
}

/// Addresses of a Fluss cluster; all are `host:port`. What can be done with it is in [`crate::fluss`].
#[derive(Clone, Debug)]
pub struct Fluss {
    /// Plain text, no login.
    pub bootstrap: String,
    /// SASL/PLAIN as [`TESTER`].
    pub sasl_bootstrap: String,
    /// The folder with the jars of the servers and of the Java client.
    pub jars: PathBuf,
}

/// Which of the two ClickHouse servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 18.16: no `DateTime64`, `Map` or `Bool`; settings in the old binary form.
    V18,
    /// A current version.
    Current,
}

/// Addresses of a ClickHouse server; all are `host:port`. What can be done with it is in [`crate::clickhouse`].
#[derive(Clone, Debug)]
pub struct Clickhouse {
    /// Which server it is.
    pub version: Version,
    /// Native protocol.
    pub tcp: String,
    /// HTTP.
    pub http: String,
    /// The TLS addresses, where the server has them.
    pub tls: Option<ClickhouseTls>,
}

/// The TLS addresses of a ClickHouse server.
#[derive(Clone, Debug)]
pub struct ClickhouseTls {
    /// Native protocol over TLS.
    pub tcp: String,
    /// HTTPS.
    pub https: String,
    /// The self-signed certificate (PEM), to be trusted by clients.
    pub certificate: PathBuf,
}

/// The shared Kafka of this test run; `None`, with a line on standard error, when there is none.
///
/// # Panics
/// When there is none although it is required.
#[must_use]
pub fn kafka() -> Option<Kafka> {
    available(Service::Kafka, Endpoints::from_environment().kafka())
}

/// The shared ClickHouse 18.16 of this test run; `None`, with a line on standard error, when there is none.
///
/// # Panics
/// When there is none although it is required.
#[must_use]
pub fn clickhouse_18() -> Option<Clickhouse> {
    available(Service::Clickhouse18, Endpoints::from_environment().clickhouse(Version::V18))
}

/// The shared current ClickHouse of this test run; `None`, with a line on standard error, when there is none.
///
/// # Panics
/// When there is none although it is required.
#[must_use]
pub fn clickhouse_current() -> Option<Clickhouse> {
    available(Service::ClickhouseCurrent, Endpoints::from_environment().clickhouse(Version::Current))
}

/// The folder with the Python drivers, for `PYTHONPATH`; `None`, with a line on standard error, when there are none.
///
/// # Panics
/// When there are none although they are required.
#[must_use]
pub fn python_drivers() -> Option<PathBuf> {
    available(Service::PythonDrivers, Endpoints::from_environment().python_drivers())
}

/// Runs a script of `tests/drivers` with these arguments; false, with a line on standard error, where there are no drivers.
///
/// # Panics
/// When there are none although they are required, or when the script does not end well.
pub async fn run_driver(script: &str, arguments: &[&str]) -> bool {
    let Some(folder) = python_drivers() else { return false };
    let outcome = Command::new("python3")
        .arg(format!("{}/drivers/{script}", env!("CARGO_MANIFEST_DIR")))
        .args(arguments)
        .env("PYTHONPATH", folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("python3 can be started");
    assert!(outcome.status.success(), "{script} {arguments:?}: {}", String::from_utf8_lossy(&outcome.stderr));
    true
}

/// The shared Fluss cluster of this test run; `None`, with a line on standard error, when there is none.
///
/// # Panics
/// When there is none although it is required.
#[must_use]
pub fn fluss() -> Option<Fluss> {
    available(Service::Fluss, Endpoints::from_environment().fluss())
}

/// The address of the schema registry of this test run, where it speaks Confluent's protocol; `None`, with a line on standard error,
/// when there is none.
///
/// # Panics
/// When there is none although it is required.
#[must_use]
pub fn schema_registry() -> Option<String> {
    available(Service::SchemaRegistry, Endpoints::from_environment().schema_registry())
}

/// Whether servers of this kind can be had in this test run; says so on standard error when not.
///
/// # Panics
/// When not although it is required.
pub(crate) fn is_available(service: Service) -> bool {
    let endpoints = Endpoints::from_environment();
    let found = match service {
        Service::Kafka => endpoints.kafka().map(drop),
        Service::Clickhouse18 => endpoints.clickhouse(Version::V18).map(drop),
        Service::ClickhouseCurrent => endpoints.clickhouse(Version::Current).map(drop),
        Service::PythonDrivers => endpoints.python_drivers().map(drop),
        Service::Fluss => endpoints.fluss().map(drop),
        Service::SchemaRegistry => endpoints.schema_registry().map(drop),
    };
    available(service, found).is_some()
}

/// The `KEY=VALUE` pairs that a start script prints and `./dev test` puts into the environment.
pub(crate) struct Endpoints(HashMap<String, String>);

impl Endpoints {
    fn from_environment() -> Self {
        Self(env::vars().collect())
    }

    /// Reads the output of a start script.
    pub(crate) fn parse(lines: &str) -> Self {
        let pairs = lines.lines().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.0.get(key).filter(|value| !value.is_empty()).cloned()
    }

    pub(crate) fn kafka(&self) -> Option<Kafka> {
        Some(Kafka {
            bootstrap: self.get("CONNECTOR_TEST_KAFKA_BOOTSTRAP")?,
            tls_bootstrap: self.get("CONNECTOR_TEST_KAFKA_TLS_BOOTSTRAP")?,
            mutual_bootstrap: self.get("CONNECTOR_TEST_KAFKA_MUTUAL_BOOTSTRAP")?,
            sasl_bootstrap: self.get("CONNECTOR_TEST_KAFKA_SASL_BOOTSTRAP")?,
            sasl_tls_bootstrap: self.get("CONNECTOR_TEST_KAFKA_SASL_TLS_BOOTSTRAP")?,
            certificate: self.get("CONNECTOR_TEST_KAFKA_CERTIFICATE")?.into(),
            client_certificate: self.get("CONNECTOR_TEST_KAFKA_CLIENT_CERTIFICATE")?.into(),
            client_key: self.get("CONNECTOR_TEST_KAFKA_CLIENT_KEY")?.into(),
            tools: self.get("CONNECTOR_TEST_KAFKA_TOOLS")?,
        })
    }

    fn python_drivers(&self) -> Option<PathBuf> {
        self.get("CONNECTOR_TEST_DRIVERS").map(PathBuf::from)
    }

    fn schema_registry(&self) -> Option<String> {
        self.get("CONNECTOR_TEST_SCHEMA_REGISTRY")
    }

    pub(crate) fn fluss(&self) -> Option<Fluss> {
        Some(Fluss {
            bootstrap: self.get("CONNECTOR_TEST_FLUSS_BOOTSTRAP")?,
            sasl_bootstrap: self.get("CONNECTOR_TEST_FLUSS_SASL_BOOTSTRAP")?,
            jars: self.get("CONNECTOR_TEST_FLUSS_JARS")?.into(),
        })
    }

    pub(crate) fn clickhouse(&self, version: Version) -> Option<Clickhouse> {
        let prefix = match version {
            Version::V18 => "CONNECTOR_TEST_CLICKHOUSE_18",
            Version::Current => "CONNECTOR_TEST_CLICKHOUSE_CURRENT",
        };
        let get = |key: &str| self.get(&format!("{prefix}_{key}"));
        let tls = || {
            Some(ClickhouseTls {
                tcp: get("TCPS")?,
                https: get("HTTPS")?,
                certificate: get("CERTIFICATE")?.into(),
            })
        };
        Some(Clickhouse { version, tcp: get("TCP")?, http: get("HTTP")?, tls: tls() })
    }
}

fn available<T>(service: Service, endpoints: Option<T>) -> Option<T> {
    if endpoints.is_none() {
        let variable = |name| env::var(name).unwrap_or_default();
        assert!(
            !is_required(service, &variable("CI"), &variable("CONNECTOR_TEST_REQUIRE")),
            "this test needs {service}, which is not running: use ./dev test, or ./dev services start"
        );
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        // Not a print macro: the test runner would hide the line, because the test passes.
        writeln!(std::io::stderr(), "skipped: {test} needs {service} (./dev test starts it)").ok();
    }
    endpoints
}

fn is_required(service: Service, ci: &str, list: &str) -> bool {
    let in_ci = !matches!(ci, "" | "0" | "false");
    in_ci || list.split(',').any(|name| name.trim() == service.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_required_in_ci_or_by_name() {
        assert!(!is_required(Service::Kafka, "", ""));
        assert!(!is_required(Service::Kafka, "false", "clickhouse-18"));
        assert!(is_required(Service::Kafka, "true", ""));
        assert!(is_required(Service::Clickhouse18, "", "kafka, clickhouse-18"));
        assert!(!is_required(Service::ClickhouseCurrent, "", "kafka,clickhouse"));
    }

    #[test]
    fn endpoints_come_from_the_lines_of_a_start_script() {
        let endpoints = Endpoints::parse(
            "CONNECTOR_TEST_CLICKHOUSE_18_TCP=127.0.0.1:1\nCONNECTOR_TEST_CLICKHOUSE_18_HTTP=127.0.0.1:2\n\
             CONNECTOR_TEST_CLICKHOUSE_18_TCPS=127.0.0.1:3\nCONNECTOR_TEST_CLICKHOUSE_18_HTTPS=127.0.0.1:4\n\
             CONNECTOR_TEST_CLICKHOUSE_18_CERTIFICATE=/a folder/server.crt\n",
        );
        let server = endpoints.clickhouse(Version::V18).unwrap();
        assert_eq!((server.tcp.as_str(), server.http.as_str()), ("127.0.0.1:1", "127.0.0.1:2"));
        assert_eq!(server.tls.unwrap().certificate, PathBuf::from("/a folder/server.crt"));
        assert!(endpoints.clickhouse(Version::Current).is_none());
        assert!(endpoints.kafka().is_none());
    }
}
