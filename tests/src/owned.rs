//! Servers that belong to one test, which may stop and kill them.

use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::Command;

use crate::proxy::Proxy;
use crate::services::{self, Clickhouse, Endpoints, Fluss, Kafka, Service, Version};

/// A server of a test's own. It keeps its ports and data over [`stop`](Self::stop), [`kill`](Self::kill) and
/// [`start_again`](Self::start_again).
///
/// Dropping it kills the server and removes its folder. A test process that dies without dropping it takes the
/// server along too: a watcher beside the server sees to that within seconds.
#[derive(Debug)]
pub struct OwnedService {
    service: Service,
    folder: TempDir,
    lines: String,
}

impl OwnedService {
    /// Starts a server; `None`, with a line on standard error, where this test run has no servers of that kind.
    ///
    /// # Panics
    /// When there are none although they are required, or when the server does not start.
    pub async fn start(service: Service) -> Option<Self> {
        Self::start_with(service, &[]).await
    }

    /// Starts a Kafka that clients reach through `proxy`: its brokers announce the proxy's address, so that no
    /// connection goes around it. Use the proxy's address as bootstrap server. [`OwnedService::kafka`] still gives
    /// the addresses that do not pass the proxy.
    ///
    /// # Panics
    /// As [`OwnedService::start`].
    pub async fn start_kafka_behind(proxy: &Proxy) -> Option<Self> {
        let address = proxy.address().to_string();
        let owned = Self::start_with(Service::Kafka, &[("CONNECTOR_KAFKA_PROXY", &address)]).await?;
        let target = Endpoints::parse(&owned.lines).get("CONNECTOR_TEST_KAFKA_PROXIED");
        proxy.forward_to(&target.expect("the script prints the port behind the proxy")).await;
        Some(owned)
    }

    /// Starts a Kafka cluster of so many brokers, which are its controllers too. Topics that tests create have a replica on
    /// each.
    ///
    /// # Panics
    /// As [`OwnedService::start`].
    pub async fn start_kafka(brokers: usize) -> Option<Self> {
        Self::start_with(Service::Kafka, &[("CONNECTOR_KAFKA_BROKERS", &brokers.to_string())]).await
    }

    /// Starts a Kafka with an authorizer: who comes without a login may do everything, and users only what they were given
    /// the right to.
    ///
    /// # Panics
    /// As [`OwnedService::start`].
    pub async fn start_kafka_with_rights() -> Option<Self> {
        Self::start_with(Service::Kafka, &[("CONNECTOR_KAFKA_AUTHORIZER", "1")]).await
    }

    /// Starts a Fluss cluster of so many tablet servers; each bucket has as many replicas.
    ///
    /// # Panics
    /// As [`OwnedService::start`].
    pub async fn start_fluss(tablets: usize) -> Option<Self> {
        Self::start_with(Service::Fluss, &[("CONNECTOR_FLUSS_TABLETS", &tablets.to_string())]).await
    }

    async fn start_with(service: Service, variables: &[(&str, &str)]) -> Option<Self> {
        if !services::is_available(service) {
            return None;
        }
        // Beside the shared servers of the run, so that all logs of a failed run lie in one place.
        let parent = std::env::var_os("CONNECTOR_TEST_RUN_DIR").map_or_else(std::env::temp_dir, Into::into);
        let folder = tempfile::Builder::new()
            .prefix(&format!("{service}-"))
            .tempdir_in(parent)
            .expect("a temporary folder for a server");
        let mut owned = Self { service, folder, lines: String::new() };
        owned.lines = owned.run("start.sh", &[], variables).await;
        Some(owned)
    }

    /// The folder of the server: its logs are in `log`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The addresses of a Kafka.
    ///
    /// # Panics
    /// When this is another kind of server.
    #[must_use]
    pub fn kafka(&self) -> Kafka {
        Endpoints::parse(&self.lines).kafka().expect("the service is Kafka")
    }

    /// The addresses of a ClickHouse.
    ///
    /// # Panics
    /// When this is another kind of server.
    #[must_use]
    pub fn clickhouse(&self) -> Clickhouse {
        let version = if self.service == Service::Clickhouse18 { Version::V18 } else { Version::Current };
        Endpoints::parse(&self.lines).clickhouse(version).expect("the service is ClickHouse")
    }

    /// The addresses of a Fluss cluster.
    ///
    /// # Panics
    /// When this is another kind of server.
    #[must_use]
    pub fn fluss(&self) -> Fluss {
        Endpoints::parse(&self.lines).fluss().expect("the service is Fluss")
    }

    /// Kills one tablet server of a Fluss cluster (SIGKILL); [`OwnedService::start_missing`] starts it again.
    ///
    /// # Panics
    /// When there is no such tablet server.
    pub async fn kill_tablet(&self, number: usize) {
        self.kill_one(&format!("tablet-{number}")).await;
    }

    /// Kills one broker of a Kafka cluster of several (SIGKILL), by its id; [`OwnedService::start_missing`] starts it again.
    ///
    /// # Panics
    /// When there is no such broker.
    pub async fn kill_broker(&self, id: i32) {
        self.kill_one(&format!("broker-{id}")).await;
    }

    async fn kill_one(&self, name: &str) {
        let file = self.folder().join("etc").join(format!("{name}.pid"));
        self.signal("-KILL", &std::fs::read_to_string(file).expect("the server's process")).await;
    }

    /// Starts again the servers of a cluster that do not run. Returns before they answer.
    ///
    /// # Panics
    /// When the cluster does not run.
    pub async fn start_missing(&self) {
        let pid = std::fs::read_to_string(self.folder().join("pid")).expect("the cluster's process");
        self.signal("-USR1", pid.split_whitespace().next().expect("a process id")).await;
    }

    async fn signal(&self, signal: &str, pid: &str) {
        let status = Command::new("kill").args([signal, pid.trim()]).status().await.expect("kill");
        assert!(status.success(), "no process {pid} of {}", self.service);
    }

    /// Stops the server in good order and returns once it is gone.
    ///
    /// # Panics
    /// When the stop script fails.
    pub async fn stop(&self) {
        self.run("stop.sh", &[], &[]).await;
    }

    /// Kills the server (SIGKILL) and returns once it is gone.
    ///
    /// # Panics
    /// When the stop script fails.
    pub async fn kill(&self) {
        self.run("stop.sh", &["--kill"], &[]).await;
    }

    /// Starts the stopped or killed server again, on the same ports and data, and returns once it answers.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start_again(&self) {
        self.run("start.sh", &[], &[]).await;
    }

    fn script(&self, name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("services").join(self.service.name()).join(name)
    }

    async fn run(&self, script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let output = Command::new(self.script(script))
            .arg(self.folder())
            .args(arguments)
            .envs(variables.iter().copied())
            .env("CONNECTOR_OWNER_PID", std::process::id().to_string())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap_or_else(|error| panic!("cannot run {script} of {}: {error}", self.service));
        assert!(
            output.status.success(),
            "{script} of {} failed: {}",
            self.service,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for OwnedService {
    fn drop(&mut self) {
        let killed = std::process::Command::new(self.script("stop.sh"))
            .arg(self.folder())
            .arg("--kill")
            .stdin(Stdio::null())
            .status();
        if !killed.is_ok_and(|status| status.success()) {
            eprintln!("could not stop the {} of {}", self.service, self.folder().display());
        }
        // The logs of a failed test stay; `./dev test` names the place.
        if std::thread::panicking() && std::env::var_os("CONNECTOR_TEST_RUN_DIR").is_some() {
            self.folder.disable_cleanup(true);
        }
    }
}
