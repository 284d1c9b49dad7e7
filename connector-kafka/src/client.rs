//! Connecting: the client's properties, its texts and logs, and calls that end within their time-out.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use connector_core::{
    Error, ErrorKind, Result, Secret,
    options::{HostList, MASK, PropertyMap},
};
use rdkafka::{
    ClientConfig, ClientContext, TopicPartitionList,
    client::OAuthToken,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol},
    error::{KafkaError, KafkaResult},
    metadata::Metadata,
    types::{RDKafkaErrorCode as Code, RDKafkaRespErr},
};
use tokio::sync::oneshot;

use crate::{
    error,
    properties::{self, Role},
    tokens::Tokens,
};

/// How long one blocking call may last before we look for a cancellation or a definite error.
const SLICE: Duration = Duration::from_secs(1);
/// Pause between two tries of a call that failed at once.
const PAUSE: Duration = Duration::from_millis(100);
/// librdkafka tells over and over that it cannot connect; those lines are for debugging.
const CONNECTION_LOG: &[&str] = &["FAIL", "REQTMOUT", "GETSUB", "MAXPOLL"];

/// What librdkafka says when somebody took the connection and did not like what came: a port with another protocol.
const CUT_SHORT: &[&str] = &["Disconnected", "SSL handshake", "Send failed", "Receive failed"];

/// What a client is made of.
#[derive(Clone)]
pub(crate) struct ClientSettings {
    /// Client properties, the later of two equal names counts.
    pub(crate) properties: Vec<(String, String)>,
    /// Values that may stand in no text.
    pub(crate) secrets: Vec<Secret>,
    /// Bounds every call.
    pub(crate) request_timeout: Duration,
    /// For logins by SASL/OAUTHBEARER.
    pub(crate) tokens: Option<Tokens>,
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.properties.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ClientSettings")
            .field("properties", &names)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

impl ClientSettings {
    /// Those of a client that reaches the cluster as the options say. What the user gave wins over `own`, and that over what
    /// every client gets.
    pub(crate) fn new(
        role: Role,
        bootstrap_servers: &HostList,
        own: &[(&str, String)],
        user: Option<&PropertyMap>,
        request_timeout: Duration,
    ) -> Self {
        let every = [
            ("bootstrap.servers", bootstrap_servers.to_string()),
            ("client.id", "connector-kafka".to_owned()),
            // A broker that comes back is found within this time.
            ("reconnect.backoff.max.ms", "2000".to_owned()),
        ];
        let mut properties: Vec<(String, String)> =
            every.iter().chain(own).map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let mut secrets = Vec::new();
        if let Some(map) = user {
            let translated = role.translated(map);
            secrets = properties::secrets(map, &translated);
            properties.extend(translated);
        }
        Self { properties, secrets, request_timeout, tokens: None }
    }

    /// Creates a consumer with these properties and `extra` ones. Asks nobody yet.
    pub(crate) fn consumer(&self, extra: &[(&str, String)]) -> Result<BaseConsumer<Context>> {
        let context = self.context();
        let masked = context.clone();
        self.config(extra).create_with_context(context).map_err(|e| creation_error(&e, &masked))
    }

    /// What a client is created with.
    pub(crate) fn config(&self, extra: &[(&str, String)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        for (name, value) in extra {
            config.set(*name, value);
        }
        let debugging = config.get("debug").is_some_and(|facilities| !facilities.is_empty());
        config.set_log_level(if debugging { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
        config
    }

    /// What listens to a client of these settings.
    pub(crate) fn context(&self) -> Context {
        Context { tokens: self.tokens.clone(), ..Context::new(&self.secrets) }
    }
}

/// The error for a client that cannot be created.
pub(crate) fn creation_error(error: &KafkaError, context: &Context) -> Error {
    let detail = match error {
        KafkaError::ClientCreation(text) => context.mask(text),
        _ => String::new(),
    };
    error::from_kafka(error, &detail).with_operation("kafka.connect")
}

/// What a client told on its way, other than by the results of calls.
#[derive(Debug, Default)]
struct Told {
    /// The last text that says why something failed.
    last: Option<String>,
    /// An error that does not go away by waiting: wrong credentials, TLS that cannot be set up.
    definite: Option<(Code, String)>,
}

/// What a group decided about this member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rebalance {
    /// It gives partitions.
    Assign(Vec<(String, i32)>),
    /// It takes them back.
    Revoke(Vec<(String, i32)>),
}

/// Decisions of a group, in their order, where somebody sees to them.
#[derive(Debug, Default)]
struct Rebalances {
    defer: bool,
    waiting: VecDeque<Rebalance>,
}

/// Takes the client's log lines and errors: to `tracing`, and into our own messages.
#[derive(Clone)]
pub(crate) struct Context {
    secrets: Arc<[Secret]>,
    told: Arc<Mutex<Told>>,
    rebalances: Arc<Mutex<Rebalances>>,
    tokens: Option<Tokens>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    fn new(secrets: &[Secret]) -> Self {
        Self { secrets: secrets.into(), told: Arc::default(), rebalances: Arc::default(), tokens: None }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `text` without any secret.
    pub(crate) fn mask(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets.iter().filter(|secret| !secret.is_empty()) {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), MASK);
            }
        }
        text
    }

    /// Why the client could not do what it was asked for, in its own words; empty when it did not say.
    pub(crate) fn last_text(&self) -> String {
        self.told().last.clone().unwrap_or_default()
    }

    /// Whether decisions of the group wait for [`Self::take_rebalance`], or are followed at once.
    pub(crate) fn defer_rebalances(&self, defer: bool) {
        let mut rebalances = self.rebalances.lock().unwrap_or_else(PoisonError::into_inner);
        rebalances.defer = defer;
        if !defer {
            rebalances.waiting.clear();
        }
    }

    /// The next decision of the group. librdkafka waits for it to be followed.
    pub(crate) fn take_rebalance(&self) -> Option<Rebalance> {
        self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }

    /// The error that waiting does not cure, if the client told of one since the last call.
    pub(crate) fn take_definite(&self) -> Option<(Code, String)> {
        self.told().definite.take()
    }
}

/// `[thrd:...]: ` and the client's name say nothing to a user.
fn without_prefix(text: &str) -> &str {
    match text.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: ")) {
        Some((_, rest)) => rest,
        None => text,
    }
}

impl ClientContext for Context {
    /// Without a provider nobody logs in by tokens, which is checked before.
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> std::result::Result<OAuthToken, Box<dyn std::error::Error>> {
        let Some(tokens) = &self.tokens else { return Err("nobody gives tokens".into()) };
        tokens.take().map_err(|error| {
            // The client only tells that there is none.
            let text = self.mask(&error.to_string());
            tracing::warn!(error = text, "no token for the login");
            self.told().last = Some(format!("no token for the login: {text}"));
            text.into()
        })
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let text = self.mask(without_prefix(message));
        if facility == "FAIL" {
            self.told().last = Some(text.clone());
        }
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(facility, "librdkafka: {text}");
            }
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning if !CONNECTION_LOG.contains(&facility) => {
                tracing::warn!(facility, "librdkafka: {text}");
            }
            RDKafkaLogLevel::Debug => tracing::trace!(facility, "librdkafka: {text}"),
            _ => tracing::debug!(facility, "librdkafka: {text}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let text = self.mask(without_prefix(reason));
        tracing::debug!(error = %error, "librdkafka: {text}");
        let mut told = self.told();
        match error.rdkafka_error_code() {
            // Says no more than that all of the others failed.
            Some(Code::AllBrokersDown) => {}
            Some(code @ (Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL)) => {
                told.last = Some(text.clone());
                told.definite = Some((code, text));
            }
            _ => told.last = Some(text),
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        tracing::trace!("librdkafka statistics: {}", String::from_utf8_lossy(statistics));
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        base_consumer: &BaseConsumer<Self>,
        err: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let assigns = err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        let places = list.elements().iter().map(|e| (e.topic().to_owned(), e.partition())).collect();
        let mut rebalances = self.rebalances.lock().unwrap_or_else(PoisonError::into_inner);
        if rebalances.defer {
            let rebalance = if assigns { Rebalance::Assign(places) } else { Rebalance::Revoke(places) };
            rebalances.waiting.push_back(rebalance);
            return;
        }
        drop(rebalances);
        // The reader is ending: whatever is said, nothing is read any more.
        let cooperative = matches!(base_consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
        let done = match (assigns, cooperative) {
            (true, true) => base_consumer.incremental_assign(list),
            (false, true) => base_consumer.incremental_unassign(list),
            (_, false) => base_consumer.unassign(),
        };
        if let Err(e) = done {
            tracing::debug!(error = %e, "a decision of the group could not be followed");
        }
    }
}

/// Set when nobody waits for a call any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct CancelOnDrop(Cancelled);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs blocking calls of the client on a thread of their own.
///
/// Not on the runtime's blocking pool: a runtime that is dropped waits for that. When the returned
/// future is dropped, the thread ends at the end of the call that it is in, [`SLICE`] at most.
pub(crate) async fn off_runtime<T, F>(operation: &'static str, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce(&Cancelled) -> Result<T> + Send + 'static,
{
    let (give, take) = oneshot::channel();
    let cancelled = Cancelled::default();
    let guard = CancelOnDrop(cancelled.clone());
    let work = move || {
        // The receiver is gone when the future was dropped; then nobody wants the result.
        drop(give.send(work(&cancelled)));
    };
    std::thread::Builder::new().name(operation.to_owned()).spawn(work).map_err(|e| {
        Error::new(ErrorKind::Unavailable, "the system gives no further thread")
            .with_operation(operation)
            .with_source(e)
    })?;
    let result = take.await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unexpected, "the thread that calls the client ended without a result"))
    });
    drop(guard);
    result.map_err(|e| e.with_operation(operation))
}

/// A client for questions about the cluster. Belongs to no group, lives for one call of ours.
pub(crate) struct Admin<'a> {
    consumer: BaseConsumer<Context>,
    settings: &'a ClientSettings,
    deadline: Instant,
    cancelled: &'a Cancelled,
}

impl fmt::Debug for Admin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("settings", self.settings).finish_non_exhaustive()
    }
}

impl<'a> Admin<'a> {
    pub(crate) fn new(settings: &'a ClientSettings, cancelled: &'a Cancelled) -> Result<Self> {
        let deadline = Instant::now() + settings.request_timeout;
        let consumer = settings.consumer(&[])?;
        // A login by token is served here, or the first call would wait for it in vain.
        if settings.tokens.is_some() {
            drop(consumer.poll(Duration::ZERO));
        }
        Ok(Self { consumer, settings, deadline, cancelled })
    }

    /// The topic's partitions, or all topics.
    pub(crate) fn metadata(&self, topic: Option<&str>) -> Result<Metadata> {
        self.retry(|consumer, timeout| consumer.fetch_metadata(topic, timeout))
    }

    /// The offsets at the times given as offsets; `Beginning` and `End` ask for the log's ends.
    pub(crate) fn offsets_for_times(&self, times: &TopicPartitionList) -> Result<TopicPartitionList> {
        self.retry(|consumer, timeout| {
            let offsets = consumer.offsets_for_times(times.clone(), timeout)?;
            // One partition's error is as good as that of the call: nothing was read yet.
            offsets.elements().iter().try_for_each(|element| element.error())?;
            Ok(offsets)
        })
    }

    /// Asks until something that was just made is there, or the time is up.
    pub(crate) fn until_found<T>(&self, ask: impl Fn(&Self) -> Result<T>) -> Result<T> {
        loop {
            match ask(self) {
                Err(error) if error.kind() == ErrorKind::NotFound && Instant::now() < self.deadline => {}
                found => return found,
            }
            if self.cancelled.get() {
                return Err(Error::new(ErrorKind::Closed, "the call was cancelled"));
            }
            self.listen(PAUSE);
        }
    }

    /// Calls until it succeeds, fails for good, or the time is up.
    fn retry<T>(&self, call: impl Fn(&BaseConsumer<Context>, Duration) -> KafkaResult<T>) -> Result<T> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let failure = match call(&self.consumer, left.clamp(Duration::from_millis(1), SLICE)) {
                Ok(result) => return Ok(result),
                Err(e) => e,
            };
            // Also the pause before the next try; the client's texts arrive meanwhile.
            self.listen(PAUSE);
            let context = self.consumer.context();
            if let Some((code, text)) = context.take_definite() {
                return Err(error::from_code(code, &text));
            }
            let passing = failure.rdkafka_error_code().is_some_and(error::is_passing);
            if !passing || Instant::now() >= self.deadline {
                return Err(self.explain(&failure, passing));
            }
            if self.cancelled.get() {
                return Err(Error::new(ErrorKind::Closed, "the call was cancelled"));
            }
        }
    }

    fn explain(&self, failure: &KafkaError, passing: bool) -> Error {
        let text = self.consumer.context().last_text();
        let error = error::from_kafka(failure, &text);
        if !passing {
            return error;
        }
        // "Timed out" is what it looks like; "cannot be reached" is what it is.
        let error = match error.kind() {
            ErrorKind::Timeout if !text.is_empty() => error::from_code(Code::BrokerTransportFailure, &text),
            _ => error,
        };
        let error = if CUT_SHORT.iter().any(|words| text.contains(words)) {
            let hint = "a server answers there and ends the connection; check that the port is a broker's and that \
                        security.protocol is the one of this port";
            Error::new(ErrorKind::Unavailable, format!("{hint}: {text}")).transient()
        } else {
            error
        };
        error.with_context("timeout", format!("{:?}", self.settings.request_timeout))
    }

    /// Serves what the client has to tell for `time`.
    fn listen(&self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // Errors were given to the context before they are returned here.
            if self.consumer.poll(left).is_none() && left.is_zero() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ClientSettings {
        ClientSettings {
            properties: vec![("bootstrap.servers".to_owned(), "127.0.0.1:1".to_owned())],
            secrets: vec![Secret::new("hunter2"), Secret::new("")],
            request_timeout: Duration::from_millis(300),
            tokens: None,
        }
    }

    #[test]
    fn texts_lose_their_secrets_and_their_thread() {
        let context = Context::new(&settings().secrets);
        context.log(RDKafkaLogLevel::Error, "FAIL", "[thrd:main]: broker: no user hunter2 (after 1ms)");
        assert_eq!(context.last_text(), "broker: no user *** (after 1ms)");
        context.error(KafkaError::Global(Code::AllBrokersDown), "1/1 brokers are down");
        assert_eq!(context.last_text(), "broker: no user *** (after 1ms)");
        assert!(context.take_definite().is_none());
        context.error(KafkaError::Global(Code::Authentication), "SASL: hunter2 is wrong");
        assert_eq!(context.take_definite(), Some((Code::Authentication, "SASL: *** is wrong".to_owned())));
        assert!(context.take_definite().is_none());
    }

    #[test]
    fn debug_shows_no_value() {
        let mut settings = settings();
        settings.properties.push(("sasl.password".to_owned(), "hunter2".to_owned()));
        let text = format!("{settings:?}");
        assert!(text.contains("sasl.password") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn a_property_that_the_client_refuses_is_named_without_its_value() {
        let mut settings = settings();
        settings.properties.push(("sasl.mechanisms".to_owned(), "PLAIN".to_owned()));
        settings.properties.push(("security.protocol".to_owned(), "hunter2".to_owned()));
        let error = settings.consumer(&[]).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains("security.protocol"), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }

    #[tokio::test]
    async fn nobody_there_is_unavailable_within_the_time_out() {
        let settings = settings();
        let error = off_runtime("kafka.check", move |cancelled| {
            Admin::new(&settings, cancelled)?.metadata(None).map(drop)
        })
        .await
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_transient());
        assert_eq!(error.operation(), "kafka.check");
        assert!(error.message().contains("refused"), "{error}");
    }
}
