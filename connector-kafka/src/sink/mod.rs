//! The sink: rows as records of Kafka topics.

mod builder;
mod encode;
mod key;
pub mod metrics;
pub mod options;
mod producer;
mod source_group;
pub(crate) mod topic;
mod transaction;
mod writer;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use connector_core::{
    DeliveryGuarantee, Error, ErrorKind, ExactlyOnce, Result, RowKind, SchemaChangeKind, Sink,
    SinkCapabilities, SourceOffsets, TableId, WriterContext, async_trait, options::PropertyMap,
};
use rdkafka::types::RDKafkaErrorCode as Code;

pub use self::{
    builder::KafkaSinkBuilder,
    options::{CompressionType, KafkaSinkOptions, KafkaSinkOptionsBuilder, KeyFormat},
    writer::KafkaWriter,
};
use self::{
    builder::{client, is_idempotent, producer_properties},
    encode::{CsvEncoder, Dialect},
    topic::TopicTemplate,
};
use crate::{
    client::{Admin, Cancelled, ClientSettings, off_runtime},
    error,
    options::FormatType,
    tokens::{Tokens, expect_tokens},
};

const NO_TOKENS: &str =
    "a topic does not know a flush again; exactly-once stores the source's offsets with the records instead";

/// How long a topic that was found is taken to be there.
const CHECKED_AGE: Duration = Duration::from_secs(60);

/// What a sink and its writers share.
#[derive(Debug)]
struct Inner {
    /// For questions about the cluster.
    admin: ClientSettings,
    /// For writing.
    producer: ClientSettings,
    topic: TopicTemplate,
    format: Format,
    /// Whether the change formats have headers.
    headers: bool,
    key_fields: Vec<String>,
    key_format: KeyFormat,
    partition_field: Option<String>,
    log_failures_only: bool,
    big_message_threshold: u64,
    creation: Option<Creation>,
    transaction_timeout: Duration,
    transaction_topic: Option<String>,
    source_group: Option<String>,
    /// Why exactly-once is not possible with these options.
    no_transactions: Option<&'static str>,
    /// The number of the next transaction's offsets; 0 until earlier runs were ended.
    sequence: AtomicI64,
    /// When the one topic was found last.
    found: Mutex<Option<Instant>>,
}

/// How missing topics are created.
#[derive(Debug)]
struct Creation {
    /// -1 for the cluster's default.
    partitions: i32,
    replicas: i32,
    properties: PropertyMap,
}

/// How values are written.
#[derive(Debug)]
enum Format {
    Json,
    Csv(CsvEncoder),
    Raw,
    Changes(Dialect),
}

impl Format {
    /// The format that options ask for.
    ///
    /// # Errors
    /// The option that is wrong, and a sentence about it.
    fn new(options: &KafkaSinkOptions) -> std::result::Result<Self, (&'static str, String)> {
        Ok(match options.format_type {
            FormatType::Json => Self::Json,
            FormatType::Csv => {
                let (delimiter, quote) = (&options.csv_delimiter, &options.csv_quote);
                let encoder = CsvEncoder::new(delimiter, quote, &options.csv_null_text, options.csv_header);
                Self::Csv(encoder.map_err(|text| ("job.writer.csv_delimiter", text))?)
            }
            read_only @ (FormatType::Avro | FormatType::DebeziumAvro) => {
                let text =
                    format!("`format_type` {read_only} is read, and not written; use json or debezium_json");
                return Err(("job.writer.format_type", text));
            }
            FormatType::Raw => Self::Raw,
            FormatType::DebeziumJson => Self::Changes(Dialect::Debezium { schema: options.debezium_schema }),
            FormatType::CanalJson => Self::Changes(Dialect::Canal),
            FormatType::MaxwellJson => Self::Changes(Dialect::Maxwell),
        })
    }

    fn dialect(&self) -> Option<Dialect> {
        match self {
            Self::Changes(dialect) => Some(*dialect),
            _ => None,
        }
    }
}

impl Inner {
    fn topic_of(&self, table: &TableId) -> Result<String> {
        self.topic.topic(table).map_err(|text| {
            Error::new(ErrorKind::OptionInvalid, text)
                .with_operation("kafka.produce")
                .with_context("table", table)
        })
    }
}

impl Inner {
    /// Finds the topic, or creates it where that is asked for: how many partitions it has.
    fn ensure(&self, name: &str, cancelled: &Cancelled) -> Result<u32> {
        let admin = Admin::new(&self.admin, cancelled)?;
        match (partitions_of(&admin, name), &self.creation) {
            (Err(error), Some(creation)) if error.kind() == ErrorKind::NotFound => {
                topic::create(&self.admin, name, creation)?;
                Admin::new(&self.admin, cancelled)?.until_found(|admin| partitions_of(admin, name))
            }
            (Err(error), None) if error.kind() == ErrorKind::NotFound => Err(Error::new(
                ErrorKind::NotFound,
                "no such topic, or no right to see it; create it first, or set `create_topic_enabled`",
            )
            .with_context("topic", name)),
            (found, _) => found,
        }
    }

    /// The topic under whose name offsets are kept.
    fn token_topic(&self) -> Result<String> {
        self.transaction_topic.clone().or_else(|| self.topic.constant().map(ToOwned::to_owned)).ok_or_else(|| {
            let text = "exactly-once keeps the source's offsets under the name of a topic, and `topic_name` has placeholders: \
                        name one with `transaction_topic`";
            Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options")
        })
    }

    /// Properties of a producer of transactions.
    fn transactional(&self, id: &str) -> ClientSettings {
        let mut settings = self.producer.clone();
        let limit = self.transaction_timeout.as_millis();
        // librdkafka refuses a transaction that records or requests may outlive.
        for name in ["delivery.timeout.ms", "socket.timeout.ms"] {
            let given = settings.properties.iter().rev().find(|(known, _)| known == name);
            let given = given.and_then(|(_, value)| value.trim().parse::<u128>().ok()).unwrap_or(60_000);
            settings.properties.push((name.to_owned(), given.min(limit).to_string()));
        }
        let linger = settings.properties.iter().rev().find(|(known, _)| known == "linger.ms");
        let linger = linger.and_then(|(_, value)| value.trim().parse::<u128>().ok()).unwrap_or_default();
        settings.properties.push(("linger.ms".to_owned(), linger.min(limit / 2).to_string()));
        settings.properties.push(("transaction.timeout.ms".to_owned(), limit.to_string()));
        settings.properties.push(("transactional.id".to_owned(), id.to_owned()));
        settings
    }
}

/// How many partitions a topic has.
///
/// # Errors
/// `NotFound` for a topic that does not exist, `PermissionDenied`, `Unavailable`.
fn partitions_of(admin: &Admin<'_>, name: &str) -> Result<u32> {
    let metadata = admin.metadata(Some(name))?;
    let missing = || {
        Error::new(ErrorKind::NotFound, "no such topic, or no right to see it").with_context("topic", name)
    };
    let topic = metadata.topics().iter().find(|topic| topic.name() == name).ok_or_else(missing)?;
    match topic.error().map(Code::from) {
        None | Some(Code::LeaderNotAvailable) => {}
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => return Err(missing()),
        Some(code) => return Err(error::from_code(code, "").with_context("topic", name)),
    }
    u32::try_from(topic.partitions().len()).ok().filter(|count| *count > 0).ok_or_else(missing)
}

/// A sink that writes each row as a record.
///
/// In the change formats every insertion, update and deletion is an event. In the others inserts and the new rows of updates
/// are records with a value; with `key_fields`, deletes are tombstones (records with the key and no value), without them they
/// are left out and counted. An update that changes the key is a deletion and an insertion.
///
/// Made by [`KafkaSink::builder`], or from string pairs by [`KafkaSink::from_options`]. Clones are cheap.
#[derive(Clone)]
pub struct KafkaSink(Arc<Inner>);

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KafkaSink").field(&self.0).finish()
    }
}

impl KafkaSink {
    fn new(options: &KafkaSinkOptions, tokens: Option<&Tokens>) -> Result<Self> {
        let invalid = |text| Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options");
        let topic = TopicTemplate::parse(&options.topic_name).map_err(invalid)?;
        let producer = client(options, &producer_properties(options), tokens);
        expect_tokens(&producer.properties, tokens)?;
        Ok(Self(Arc::new(Inner {
            admin: client(options, &[], tokens),
            producer,
            topic,
            format: Format::new(options).map_err(|(_, text)| invalid(text))?,
            headers: options.enable_headers,
            key_fields: options.key_fields.clone().unwrap_or_default(),
            key_format: options.key_format,
            partition_field: options.partition_field.clone(),
            log_failures_only: options.log_failures_only,
            big_message_threshold: options.big_message_threshold,
            creation: options.create_topic_enabled.then(|| Creation {
                partitions: options
                    .create_topic_partitions
                    .map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX)),
                replicas: options
                    .create_topic_replication_factor
                    .map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX)),
                properties: options.create_topic_properties.clone().unwrap_or_default(),
            }),
            transaction_timeout: options.transaction_timeout,
            transaction_topic: options.transaction_topic.clone(),
            source_group: options.source_group.clone(),
            no_transactions: no_transactions(options),
            sequence: AtomicI64::new(0),
            found: Mutex::default(),
        })))
    }
}

/// Why exactly-once is not possible with these options.
fn no_transactions(options: &KafkaSinkOptions) -> Option<&'static str> {
    if options.log_failures_only {
        return Some(
            "`log_failures_only` leaves records out, and a transaction is all of its records or none",
        );
    }
    let refused = options.properties.as_ref().and_then(|map| map.get("enable.idempotence"));
    if !is_idempotent(options) || refused.is_some_and(|on| on.trim().eq_ignore_ascii_case("false")) {
        return Some(
            "transactions need an idempotent producer: `acks` all, `retries` above 0, `enable.idempotence` true",
        );
    }
    None
}

#[async_trait]
impl Sink for KafkaSink {
    type Writer = KafkaWriter;

    fn connector(&self) -> &'static str {
        "kafka"
    }

    fn capabilities(&self) -> SinkCapabilities {
        let mut row_kinds = BTreeSet::from([RowKind::Insert, RowKind::UpdateBefore, RowKind::UpdateAfter]);
        if !self.0.key_fields.is_empty() || self.0.format.dialect().is_some() {
            row_kinds.insert(RowKind::Delete);
        }
        SinkCapabilities {
            row_kinds,
            schema_changes: SchemaChangeKind::ALL.into_iter().collect(),
            exactly_once: match self.0.no_transactions {
                Some(reason) => ExactlyOnce::Unsupported(reason.to_owned()),
                None => ExactlyOnce::StoredOffsets,
            },
        }
    }

    /// Asks for the topic, unless it would be created; where its name depends on the table, only whether a broker answers.
    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()> {
        self.0.check_delivery(delivery)?;
        let inner = Arc::clone(&self.0);
        off_runtime("kafka.check", move |cancelled| {
            let admin = Admin::new(&inner.admin, cancelled)?;
            match inner.topic.constant() {
                Some(topic) if inner.creation.is_none() => {
                    inner.ensure(topic, cancelled)?;
                    inner.note_found();
                    Ok(())
                }
                _ => admin.metadata(None).map(drop),
            }
        })
        .await
    }

    /// Creates the topic where it is missing and that is asked for. What [`Self::check`] found a moment ago is not asked for
    /// again.
    async fn open(&self, context: WriterContext) -> Result<KafkaWriter> {
        self.0.check_delivery(context.delivery)?;
        let inner = Arc::clone(&self.0);
        if inner.topic.constant().is_some() && !inner.found_lately() {
            off_runtime("kafka.open", move |cancelled| {
                if let Some(topic) = inner.topic.constant() {
                    inner.ensure(topic, cancelled)?;
                    inner.note_found();
                }
                Ok(())
            })
            .await?;
        }
        KafkaWriter::open(Arc::clone(&self.0), context).await
    }

    async fn recover(&self, pipeline: &str) -> Result<Option<SourceOffsets>> {
        self.0.check_delivery(DeliveryGuarantee::ExactlyOnce)?;
        let (inner, pipeline) = (Arc::clone(&self.0), pipeline.to_owned());
        off_runtime("kafka.recover", move |cancelled| {
            inner.ensure(&inner.token_topic()?, cancelled)?;
            transaction::recover(&inner, &pipeline, cancelled)
        })
        .await
    }

    fn acknowledges(&self) -> bool {
        self.0.source_group.is_some()
    }
}

impl Inner {
    fn check_delivery(&self, delivery: DeliveryGuarantee) -> Result<()> {
        match self.no_transactions {
            Some(reason) if delivery == DeliveryGuarantee::ExactlyOnce => {
                Err(Error::new(ErrorKind::Unsupported, reason).with_operation("kafka.check"))
            }
            None if delivery == DeliveryGuarantee::ExactlyOnce => self.token_topic().map(drop),
            _ => Ok(()),
        }
    }

    fn note_found(&self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn found_lately(&self) -> bool {
        let found = *self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.is_some_and(|at| at.elapsed() < CHECKED_AGE)
    }

    /// Whether earlier runs were ended.
    fn is_recovered(&self) -> bool {
        self.sequence.load(Ordering::Relaxed) > 0
    }
}
