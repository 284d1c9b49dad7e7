//! Connections to a cluster: the client's configuration, and a deadline on every call.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use connector_core::{Error, ErrorKind, Result, RetryState, TableId, retry::RetryPolicy};
use fluss::{
    client::{FlussAdmin, FlussConnection, FlussTable},
    config::{Config, NoKeyAssigner as ClientAssigner},
    error::Error as ClientError,
    metadata::{TableInfo, TablePath},
};

use crate::{
    connection::Connection,
    error::from_client,
    options::{Acks, FlussOptions, NoKeyAssigner, SecurityProtocol},
};

/// Connects when it is first needed, and anew when a connection is given up.
pub(crate) struct Client {
    config: Config,
    connect_timeout: Duration,
    request_timeout: Duration,
    quiet: bool,
    current: Mutex<Option<Arc<Connection>>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn new(options: &FlussOptions) -> Self {
        Self {
            config: config(options),
            connect_timeout: options.connect_timeout,
            request_timeout: options.request_timeout,
            quiet: !options.metrics_enabled,
            current: Mutex::new(None),
        }
    }

    /// How long an answer may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// How long servers may be away.
    pub(crate) fn patience(&self) -> Duration {
        self.connect_timeout
    }

    /// The connection, made when there is none.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>> {
        if let Some(connection) = self.lock().as_ref() {
            return Ok(Arc::clone(connection));
        }
        let connecting = FlussConnection::new(self.config.clone());
        // The client's own limit is for one address and one step.
        let limit = self.connect_timeout.saturating_add(Duration::from_millis(100));
        let made = within("fluss.connect", limit, connecting)
            .await
            .map_err(|error| error.with_context("servers", &self.config.bootstrap_servers))?;
        let made = Arc::new(Connection::new(made));
        Ok(Arc::clone(self.lock().get_or_insert(made)))
    }

    /// The connection, once it knows where the table is: the client's writers do not ask by themselves.
    pub(crate) async fn connection_for(
        &self,
        operation: &'static str,
        info: &TableInfo,
    ) -> Result<Arc<Connection>> {
        let connection = self.connection().await?;
        let metadata = connection.get_metadata();
        let paths = [info.get_table_path().clone()];
        match within(operation, self.request_timeout, metadata.check_and_update_table_metadata(&paths)).await
        {
            Ok(()) => Ok(connection),
            Err(error) => {
                self.give_up(&connection);
                Err(error)
            }
        }
    }

    /// Forgets a connection that is of no use any more; the next call makes another one.
    pub(crate) fn give_up(&self, connection: &Arc<Connection>) {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *current = None;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question to the coordinator.
    pub(crate) async fn ask<T, F>(
        &self,
        operation: &'static str,
        question: impl FnOnce(Arc<FlussAdmin>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let connection = self.connection().await?;
        let admin = connection.get_admin().map_err(|e| from_client(&e).with_operation(operation))?;
        let answer = within(operation, self.request_timeout, question(admin)).await;
        if answer.as_ref().is_err_and(|error| error.is_transient()) {
            self.give_up(&connection);
        }
        answer
    }

    /// Everything that the cluster says about a table.
    pub(crate) async fn table(&self, operation: &'static str, table: &TableId) -> Result<TableInfo> {
        let path = path(table);
        let named = |error: Error| error.with_context("table", table);
        // Asked for a table that is not there, a server answers with a stack trace.
        let there = self.ask(operation, |admin| {
            let path = path.clone();
            async move { admin.table_exists(&path).await }
        });
        if !there.await.map_err(named)? {
            return Err(named(
                Error::new(ErrorKind::NotFound, "the table does not exist").with_operation(operation),
            ));
        }
        self.ask(operation, |admin| async move { admin.get_table_info(&path).await }).await.map_err(named)
    }

    /// Gives the connection away.
    pub(crate) fn take_connection(&self) -> Option<Arc<Connection>> {
        self.lock().take()
    }

    /// Runs `make`, which makes scanners or writers, with the client's metrics on or off: they keep what they find then.
    pub(crate) fn with_metrics<T>(&self, make: impl FnOnce() -> T) -> T {
        if self.quiet { metrics::with_local_recorder(&metrics::NoopRecorder, make) } else { make() }
    }
}

/// The client's table of a connection.
pub(crate) fn table_of<'a>(connection: &'a FlussConnection, info: &TableInfo) -> FlussTable<'a> {
    FlussTable::new(connection, connection.get_metadata(), info.clone())
}

pub(crate) fn path(table: &TableId) -> TablePath {
    TablePath::new(table.database.as_str(), table.table.as_str())
}

/// Waits for the client, which by itself may wait for ever.
pub(crate) async fn within<T>(
    operation: &'static str,
    limit: Duration,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(from_client(&error).with_operation(operation)),
        Err(_) => Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "no answer came within {}; see client.request-timeout",
                connector_core::options::format_duration(limit)
            ),
        )
        .transient()
        .with_operation(operation)),
    }
}

/// Calls until it succeeds, fails for good, or `policy` is used up; the core's `retry` for futures that move between threads.
pub(crate) async fn again<T, F: Future<Output = Result<T>>>(
    policy: RetryPolicy,
    mut call: impl FnMut() -> F,
) -> Result<T> {
    let mut backoffs = policy.backoffs();
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if !error.is_transient() {
            return Err(error);
        }
        let Some(wait) = backoffs.next() else { return Err(error.with_retry(RetryState::Exhausted)) };
        tokio::time::sleep(wait).await;
    }
}

/// Numbers were checked against their bounds when the options were built.
fn int(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn size(value: i32) -> usize {
    usize::try_from(value).unwrap_or(1)
}

fn millis(value: Duration) -> u64 {
    u64::try_from(value.as_millis()).unwrap_or(u64::MAX)
}

fn config(options: &FlussOptions) -> Config {
    let batch_size = int(options.batch_size);
    // A write must not wait longer than the flush that would fail for it.
    let wait =
        options.buffer_wait_timeout.map_or(options.flush_timeout, |wait| wait.min(options.flush_timeout));
    Config {
        bootstrap_servers: options.bootstrap_servers.to_string(),
        writer_request_max_size: int(options.request_max_size),
        writer_acks: match options.acks {
            Acks::All => "all",
            Acks::Leader => "1",
            Acks::Nobody => "0",
        }
        .to_owned(),
        writer_retries: options.writer_retries,
        writer_batch_size: batch_size,
        writer_dynamic_batch_size_enabled: options.dynamic_batch_size_enabled,
        writer_dynamic_batch_size_min: int(options.buffer_page_size.saturating_mul(2)).min(batch_size),
        writer_bucket_no_key_assigner: match options.no_key_assigner {
            NoKeyAssigner::Sticky => ClientAssigner::Sticky,
            NoKeyAssigner::RoundRobin => ClientAssigner::RoundRobin,
        },
        scanner_remote_log_prefetch_num: size(options.remote_log_prefetch_num),
        remote_file_download_thread_num: size(options.remote_file_download_thread_num),
        scanner_log_max_poll_records: size(options.max_poll_records),
        scanner_log_fetch_max_bytes: int(options.fetch_max_bytes),
        scanner_log_fetch_min_bytes: int(options.fetch_min_bytes),
        scanner_log_fetch_wait_max_time_ms: int(millis(options.fetch_wait_max_time)),
        scanner_log_fetch_max_bytes_for_bucket: int(options.fetch_max_bytes_for_bucket),
        writer_batch_timeout_ms: i64::try_from(millis(options.batch_timeout)).unwrap_or(i64::MAX),
        writer_enable_idempotence: options.enable_idempotence,
        writer_max_inflight_requests_per_bucket: size(options.max_inflight_requests_per_bucket),
        writer_buffer_memory_size: usize::try_from(options.buffer_memory_size).unwrap_or(usize::MAX),
        writer_buffer_wait_timeout_ms: millis(wait),
        connect_timeout_ms: millis(options.connect_timeout),
        security_protocol: match options.security_protocol {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::Sasl => "sasl",
        }
        .to_owned(),
        security_sasl_mechanism: options.sasl_mechanism.as_str().to_owned(),
        security_sasl_username: options.sasl_username.clone().unwrap_or_default(),
        security_sasl_password: options
            .sasl_password
            .as_ref()
            .map(|word| word.expose().to_owned())
            .unwrap_or_default(),
        lookup_queue_size: size(options.lookup_queue_size),
        lookup_max_batch_size: size(options.lookup_max_batch_size),
        // The client would never send a batch at 0.
        lookup_batch_timeout_ms: millis(options.lookup_batch_timeout).max(1),
        lookup_max_inflight_requests: size(options.lookup_max_inflight_requests),
        lookup_max_retries: options.client_lookup_max_retries,
        ..Config::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Config {
        let base = [("bootstrap.servers", "a:1,b:2")];
        config(&FlussOptions::from_options(base.into_iter().chain(pairs.iter().copied())).unwrap())
    }

    #[test]
    fn every_client_option_reaches_the_client() {
        let default = of(&[]);
        assert_eq!(default.bootstrap_servers, "a:1,b:2");
        assert_eq!((default.connect_timeout_ms, default.lookup_batch_timeout_ms), (120_000, 100));
        assert_eq!(
            (default.writer_buffer_wait_timeout_ms, default.writer_dynamic_batch_size_min),
            (120_000, 256 << 10)
        );
        type Case = (&'static str, &'static str, fn(&Config) -> String, &'static str);
        let cases: [Case; 30] = [
            ("client.writer.request-max-size", "20mb", |c| c.writer_request_max_size.to_string(), "20971520"),
            ("client.writer.retries", "7", |c| c.writer_retries.to_string(), "7"),
            ("client.writer.batch-size", "1mb", |c| c.writer_batch_size.to_string(), "1048576"),
            (
                "client.writer.dynamic-batch-size.enabled",
                "false",
                |c| c.writer_dynamic_batch_size_enabled.to_string(),
                "false",
            ),
            (
                "client.writer.buffer.page-size",
                "64kb",
                |c| c.writer_dynamic_batch_size_min.to_string(),
                "131072",
            ),
            (
                "client.writer.buffer.page-size",
                "4mb",
                |c| c.writer_dynamic_batch_size_min.to_string(),
                "2097152",
            ),
            (
                "client.writer.bucket.no-key-assigner",
                "ROUND_ROBIN",
                |c| format!("{:?}", c.writer_bucket_no_key_assigner),
                "RoundRobin",
            ),
            (
                "client.scanner.remote-log.prefetch-num",
                "9",
                |c| c.scanner_remote_log_prefetch_num.to_string(),
                "9",
            ),
            (
                "client.remote-file.download-thread-num",
                "8",
                |c| c.remote_file_download_thread_num.to_string(),
                "8",
            ),
            (
                "client.scanner.log.max-poll-records",
                "77",
                |c| c.scanner_log_max_poll_records.to_string(),
                "77",
            ),
            (
                "client.scanner.log.fetch.max-bytes",
                "3mb",
                |c| c.scanner_log_fetch_max_bytes.to_string(),
                "3145728",
            ),
            ("client.scanner.log.fetch.min-bytes", "5b", |c| c.scanner_log_fetch_min_bytes.to_string(), "5"),
            (
                "client.scanner.log.fetch.wait-max-time",
                "20ms",
                |c| c.scanner_log_fetch_wait_max_time_ms.to_string(),
                "20",
            ),
            (
                "client.scanner.log.fetch.max-bytes-for-bucket",
                "2mb",
                |c| c.scanner_log_fetch_max_bytes_for_bucket.to_string(),
                "2097152",
            ),
            ("client.writer.batch-timeout", "5ms", |c| c.writer_batch_timeout_ms.to_string(), "5"),
            (
                "client.writer.enable-idempotence",
                "false",
                |c| c.writer_enable_idempotence.to_string(),
                "false",
            ),
            (
                "client.writer.max-inflight-requests-per-bucket",
                "2",
                |c| c.writer_max_inflight_requests_per_bucket.to_string(),
                "2",
            ),
            (
                "client.writer.buffer.memory-size",
                "8mb",
                |c| c.writer_buffer_memory_size.to_string(),
                "8388608",
            ),
            (
                "client.writer.buffer.wait-timeout",
                "3s",
                |c| c.writer_buffer_wait_timeout_ms.to_string(),
                "3000",
            ),
            (
                "client.writer.buffer.wait-timeout",
                "9223372036854775807ns",
                |c| c.writer_buffer_wait_timeout_ms.to_string(),
                "120000",
            ),
            ("sink.flush-timeout", "10s", |c| c.writer_buffer_wait_timeout_ms.to_string(), "10000"),
            ("client.connect-timeout", "2s", |c| c.connect_timeout_ms.to_string(), "2000"),
            ("client.lookup.queue-size", "100", |c| c.lookup_queue_size.to_string(), "100"),
            ("client.lookup.max-batch-size", "10", |c| c.lookup_max_batch_size.to_string(), "10"),
            ("client.lookup.batch-timeout", "0ms", |c| c.lookup_batch_timeout_ms.to_string(), "1"),
            ("client.lookup.batch-timeout", "7ms", |c| c.lookup_batch_timeout_ms.to_string(), "7"),
            ("client.lookup.max-inflight-requests", "3", |c| c.lookup_max_inflight_requests.to_string(), "3"),
            ("client.lookup.max-retries", "4", |c| c.lookup_max_retries.to_string(), "4"),
            ("client.writer.acks", "-1", |c| c.writer_acks.clone(), "all"),
            ("client.writer.acks", "all", |c| c.writer_acks.clone(), "all"),
        ];
        for (key, value, read, expected) in cases {
            assert_eq!(read(&of(&[(key, value)])), expected, "{key}={value}");
        }
        let weak = of(&[("client.writer.acks", "1"), ("client.writer.enable-idempotence", "false")]);
        assert_eq!(weak.writer_acks, "1");
    }

    #[test]
    fn credentials_reach_the_client_and_never_show() {
        let pairs = [
            ("client.security.protocol", "sasl"),
            ("client.security.sasl.username", "tester"),
            ("client.security.sasl.password", "hunter2"),
        ];
        let config = of(&pairs);
        assert!(config.is_sasl_enabled());
        assert_eq!(
            (config.security_sasl_username.as_str(), config.security_sasl_password.as_str()),
            ("tester", "hunter2")
        );
        let all = [("bootstrap.servers", "a:1")].into_iter().chain(pairs);
        let client = Client::new(&FlussOptions::from_options(all).unwrap());
        assert!(!format!("{client:?}").contains("hunter2"));
    }

    #[tokio::test]
    async fn a_call_that_never_ends_does_end() {
        let never = std::future::pending::<Result<(), ClientError>>();
        let error = within("fluss.test", Duration::from_millis(10), never).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Timeout, true));
    }
}
