//! A producer that counts what became of its records.

// `rd_kafka_flush` is called directly: the binding's own `flush` calls it with a time-out of zero in a loop, which
// lets every record wait for its linger time.
#![allow(unsafe_code)]

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use connector_core::{Error, ErrorKind, Result};
use rdkafka::{
    ClientContext, Message as _,
    bindings::rd_kafka_flush,
    client::OAuthToken,
    config::RDKafkaLogLevel,
    error::KafkaError,
    message::{DeliveryResult, OwnedHeaders},
    producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer},
    types::RDKafkaErrorCode as Code,
};

use crate::{
    client::{Cancelled, ClientSettings, Context, creation_error, off_runtime},
    error,
};

/// How long one call of the client's flush may last before we look whether anybody still waits.
const SLICE: i32 = 200;
/// How long a writer waits before it asks again whether there is room.
const PAUSE: Duration = Duration::from_millis(2);

/// One record.
pub(super) struct Record<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: Option<i32>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: Option<OwnedHeaders>,
}

impl Record<'_> {
    pub(super) fn size(&self) -> usize {
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len)
    }
}

/// What became of the records.
#[derive(Debug, Default)]
struct Counts {
    delivered: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    first: Mutex<Option<Error>>,
}

/// Listens to the producer.
pub(super) struct Listener {
    context: Context,
    counts: Arc<Counts>,
}

impl ClientContext for Listener {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = Context::ENABLE_REFRESH_OAUTH_TOKEN;

    fn generate_oauth_token(
        &self,
        config: Option<&str>,
    ) -> std::result::Result<OAuthToken, Box<dyn std::error::Error>> {
        self.context.generate_oauth_token(config)
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.context.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.context.error(error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.context.stats_raw(statistics);
    }
}

impl ProducerContext for Listener {
    /// The number of the record, from 1.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        match result {
            Ok(message) => {
                let bytes = message.key_len() + message.payload_len();
                self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                self.counts.delivered.fetch_add(1, Ordering::Release);
            }
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                self.fail(code, message.topic(), Some(message.partition()), number);
            }
        }
    }
}

impl Listener {
    fn fail(&self, code: Code, topic: &str, partition: Option<i32>, number: usize) {
        let text = self.context.last_text();
        let mut first = self.counts.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| {
            let error =
                error::from_code(code, &text).with_operation("kafka.produce").with_context("topic", topic);
            let error = match partition.filter(|partition| *partition >= 0) {
                Some(partition) => error.with_context("partition", partition),
                None => error,
            };
            error.with_context("record", number)
        });
        drop(first);
        self.counts.failed.fetch_add(1, Ordering::Release);
    }
}

/// A client, and what it tells.
pub(super) fn client(settings: &ClientSettings) -> Result<(ThreadedProducer<Listener>, Context)> {
    let context = settings.context();
    let listener = Listener { context: context.clone(), counts: Arc::default() };
    let client =
        settings.config(&[]).create_with_context(listener).map_err(|e| creation_error(&e, &context))?;
    Ok((client, context))
}

/// A client that writes. Dropping it waits for nothing: what was not delivered is given up.
pub(super) struct Producer {
    client: Option<Arc<ThreadedProducer<Listener>>>,
    context: Context,
    counts: Arc<Counts>,
    sent: u64,
    transactional: bool,
}

impl Producer {
    pub(super) fn new(settings: &ClientSettings) -> Result<Self> {
        let (client, context) = client(settings)?;
        let transactional = settings.properties.iter().any(|(name, _)| name == "transactional.id");
        let counts = Arc::clone(&client.context().counts);
        Ok(Self { client: Some(Arc::new(client)), context, counts, sent: 0, transactional })
    }

    /// Calls the client off the runtime. Not cancel-safe: the call may go on for a second.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&ThreadedProducer<Listener>, &Context, &Cancelled) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(client) = &self.client else { return Err(closed()) };
        let (client, context) = (Arc::clone(client), self.context.clone());
        off_runtime(operation, move |cancelled| work(&client, &context, cancelled)).await
    }

    /// Calls the client in place, for what asks nobody.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&ThreadedProducer<Listener>, &Context) -> Result<T>,
    ) -> Result<T> {
        let Some(client) = &self.client else { return Err(closed()) };
        work(client, &self.context)
    }

    /// Queues a record; waits while the queue is full. A record that the client refuses at once counts as failed.
    /// Cancel-safe: a dropped future has queued the record or not.
    pub(super) async fn send(&mut self, record: Record<'_>) -> Result<()> {
        let Some(client) = &self.client else { return Err(closed()) };
        let number = usize::try_from(self.sent + 1).unwrap_or(usize::MAX);
        let mut next: BaseRecord<'_, [u8], [u8], usize> = BaseRecord::with_opaque_to(record.topic, number);
        next.key = record.key;
        next.payload = record.value;
        next.partition = record.partition;
        next.headers = record.headers;
        loop {
            match client.send(next) {
                Ok(()) => break,
                Err((error, back)) => match error.rdkafka_error_code() {
                    Some(Code::QueueFull) => {
                        next = back;
                        tokio::time::sleep(PAUSE).await;
                    }
                    code => {
                        let code = code.unwrap_or(Code::Fail);
                        client.context().fail(code, record.topic, record.partition, number);
                        break;
                    }
                },
            }
        }
        self.sent += 1;
        Ok(())
    }

    /// Records that finally failed so far.
    pub(super) fn failed(&self) -> u64 {
        self.counts.failed.load(Ordering::Acquire)
    }

    /// Records that the brokers took so far, and their bytes.
    pub(super) fn delivered(&self) -> (u64, u64) {
        let records = self.counts.delivered.load(Ordering::Acquire);
        (records, self.counts.bytes.load(Ordering::Relaxed))
    }

    /// The first failure since the last call.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.counts.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends what waits and returns once the fate of every record is known: the client decides it within its
    /// `delivery.timeout.ms`. Cancel-safe.
    pub(super) async fn flush(&self) -> Result<()> {
        let Some(client) = &self.client else { return Err(closed()) };
        let (client, counts, sent) = (Arc::clone(client), Arc::clone(&self.counts), self.sent);
        let transactional = self.transactional;
        off_runtime("kafka.flush", move |cancelled| {
            let known = || counts.delivered.load(Ordering::Acquire) + counts.failed.load(Ordering::Acquire);
            // A transaction that lacks a record cannot be committed; librdkafka would hold the others back.
            let is_lost = || transactional && counts.failed.load(Ordering::Acquire) > 0;
            while known() < sent && !is_lost() {
                if cancelled.get() {
                    return Err(Error::new(ErrorKind::Closed, "the flush was cancelled"));
                }
                // SAFETY: the pointer is that of a client that lives at least as long as `client`, which this thread
                // holds, and librdkafka allows the call on any thread.
                let _timed_out_or_done = unsafe { rd_kafka_flush(client.client().native_ptr(), SLICE) };
                // The callbacks run on the client's own thread, which may be a moment behind.
                std::thread::yield_now();
            }
            Ok(())
        })
        .await
    }

    /// Gives the client up on a thread of its own: ending it blocks for half a second at worst.
    pub(super) fn end(&mut self) {
        let Some(client) = self.client.take() else { return };
        let ending = std::thread::Builder::new().name("kafka.close".to_owned()).spawn(move || drop(client));
        if let Err(error) = ending {
            tracing::warn!(%error, "no thread to end a producer on; it was ended in place");
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.end();
    }
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the writer is closed").with_operation("kafka.produce")
}
