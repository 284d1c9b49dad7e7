//! The sink: rows as records of Kafka topics.

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
    SinkCapabilities, SourceOffsets, TableId, WriterContext, async_trait,
    options::{HostList, IntoValue, PropertyMap, RawValue},
};
use rdkafka::types::RDKafkaErrorCode as Code;

use self::{
    encode::{CsvEncoder, Dialect},
    topic::TopicTemplate,
};
pub use self::{
    options::{CompressionType, KafkaSinkOptions, KafkaSinkOptionsBuilder, KeyFormat},
    writer::KafkaWriter,
};
use crate::{
    client::{Admin, Cancelled, ClientSettings, off_runtime},
    error,
    options::FormatType,
    properties,
    tokens::{OauthTokenProvider, Tokens, expect_tokens},
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

/// Builds a [`KafkaSink`]. Setters do not fail; [`build`](Self::build) tells every problem at once.
///
/// `bootstrap_servers` and `topic` are needed; everything else has a default.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct KafkaSinkBuilder {
    options: KafkaSinkOptionsBuilder,
    properties: PropertyMap,
    tokens: Option<Tokens>,
}

/// Setters that hand on to the option of the same name.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident => $option:ident: $type:ty;)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, value: impl IntoValue<$type>) -> Self {
            self.options = self.options.$option(value);
            self
        }
    )* };
}

impl KafkaSinkBuilder {
    setters! {
        /// The brokers to ask first, such as `"localhost:9092"` or a list of such.
        bootstrap_servers => bootstrap_servers: HostList;
        /// The topic; `${database}` and `${table}` in it stand for those of the row's table.
        topic => topic_name: String;
        /// How values are written; JSON by default.
        format_type => format_type: FormatType;
        /// The columns that make up the message key.
        key_fields => key_fields: Vec<String>;
        /// How several key columns become one key.
        key_format => key_format: KeyFormat;
        /// The column whose hash chooses the partition.
        partition_field => partition_field: String;
        /// Whether records of the change formats have their table and what happened as headers.
        enable_headers => enable_headers: bool;
        /// Whether Debezium's events describe themselves: with their schema part.
        debezium_schema => debezium_schema: bool;
        /// What stands between fields of CSV: one character.
        csv_delimiter => csv_delimiter: String;
        /// What stands around fields of CSV where they need it: one character, or nothing.
        csv_quote => csv_quote: String;
        /// The text that stands for a null in CSV.
        csv_null_text => csv_null_text: String;
        /// Whether each record of CSV begins with a line of the columns' names.
        csv_header => csv_header: bool;
        /// Whether a record that finally fails is only logged and counted.
        log_failures_only => log_failures_only: bool;
        /// How often a failed request is repeated.
        retries => retries: u32;
        /// The pause before the first repetition.
        retry_backoff => retry_backoff: Duration;
        /// How long a record may wait for others to share its request. A flush does not wait for it.
        linger => linger: Duration;
        /// How batches are compressed.
        compression_type => compression_type: CompressionType;
        /// From which size on a message is counted and logged as big, in bytes.
        big_message_threshold => big_message_threshold: u64;
        /// Memory of one writer for records that are not delivered yet, in bytes.
        buffer_bytes => buffer_bytes: u64;
        /// Whether a topic that is missing is created.
        create_topic_enabled => create_topic_enabled: bool;
        /// Partitions of a created topic; by default as many as the cluster says.
        create_topic_partitions => create_topic_partitions: u32;
        /// Replicas of a created topic; by default as many as the cluster says.
        create_topic_replication_factor => create_topic_replication_factor: u32;
        /// Configuration of a created topic.
        create_topic_properties => create_topic_properties: PropertyMap;
        /// Under exactly-once: how long a transaction may stay open.
        transaction_timeout => transaction_timeout: Duration;
        /// Under exactly-once: the topic under whose name the source's offsets are kept.
        transaction_topic => transaction_topic: String;
        /// Under exactly-once, where the source is Kafka of the same cluster: the group to which each transaction commits the
        /// source's offsets, too; [`KafkaSource::group`](crate::KafkaSource::group) tells the source's. The source itself
        /// commits none then, to whatever group.
        source_group => source_group: String;
        /// How long a question to the cluster may take, in all.
        request_timeout => request_timeout: Duration;
    }

    /// A property of the client, by librdkafka's name or a Java name that means the same. Wins over what this crate sets.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name, value);
        self
    }

    /// Who gives the tokens of a login by SASL/OAUTHBEARER.
    pub fn oauth_tokens(mut self, provider: impl OauthTokenProvider) -> Self {
        self.tokens = Some(Tokens::new(provider));
        self
    }

    /// Checks everything and makes the sink. Asks nobody yet.
    ///
    /// # Errors
    /// `OptionInvalid` when an option is missing, wrong or contradicts another.
    pub fn build(self) -> Result<KafkaSink> {
        let mut options = self.options;
        if !self.properties.is_empty() {
            options = options.properties(self.properties);
        }
        let options = options.build()?;
        if let Some(map) = &options.properties {
            properties::producer_warn(map);
        }
        KafkaSink::new(&options, self.tokens.as_ref())
    }
}

impl From<KafkaSinkOptions> for KafkaSinkBuilder {
    fn from(options: KafkaSinkOptions) -> Self {
        let properties = options.properties.clone().unwrap_or_default();
        Self { options: options.to_builder(), properties, tokens: None }
    }
}

impl KafkaSink {
    /// A builder without any option set.
    pub fn builder() -> KafkaSinkBuilder {
        KafkaSinkBuilder::default()
    }

    /// A builder with options from pairs of text, by their keys of [`KafkaSinkOptions`].
    ///
    /// ```
    /// use connector_kafka::KafkaSink;
    ///
    /// let sink = KafkaSink::from_options([
    ///     ("job.writer.bootstrap_servers", "localhost:9092"),
    ///     ("job.writer.topic_name", "cdc.${table}"),
    ///     ("job.writer.key_fields", "id"),
    /// ])?
    /// .build()?;
    /// # Ok::<_, connector_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `OptionInvalid` with everything that is wrong; see [`KafkaSinkOptions::from_options`].
    pub fn from_options<K, V>(options: impl IntoIterator<Item = (K, V)>) -> Result<KafkaSinkBuilder>
    where
        K: Into<String>,
        V: Into<RawValue>,
    {
        KafkaSinkOptions::from_options(options).map(Into::into)
    }

    fn new(options: &KafkaSinkOptions, tokens: Option<&Tokens>) -> Result<Self> {
        let invalid = |text| Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options");
        let topic = TopicTemplate::parse(&options.topic_name).map_err(invalid)?;
        let producer = settings(options, &producer_properties(options), tokens);
        expect_tokens(&producer.properties, tokens)?;
        Ok(Self(Arc::new(Inner {
            admin: settings(options, &[], tokens),
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

/// Whether the client's own retries may neither repeat nor reorder.
fn is_idempotent(options: &KafkaSinkOptions) -> bool {
    let given = |name: &str| options.properties.as_ref().and_then(|map| map.get(name));
    let acks_all = given("acks")
        .or_else(|| given("request.required.acks"))
        .is_none_or(|acks| matches!(acks, "all" | "-1"));
    let retries = given("retries").or_else(|| given("message.send.max.retries"));
    acks_all && !retries.map_or(options.retries == 0, |text| text.trim() == "0")
}

fn settings(options: &KafkaSinkOptions, own: &[(&str, String)], tokens: Option<&Tokens>) -> ClientSettings {
    let mut all = vec![
        ("bootstrap.servers".to_owned(), options.bootstrap_servers.to_string()),
        ("client.id".to_owned(), "connector-kafka".to_owned()),
        // A broker that comes back is found within this time.
        ("reconnect.backoff.max.ms".to_owned(), "2000".to_owned()),
    ];
    all.extend(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let mut secrets = Vec::new();
    if let Some(map) = &options.properties {
        let translated: Vec<(String, String)> = properties::producer_translated(map).collect();
        secrets = properties::secrets(map, &translated);
        all.extend(translated);
    }
    ClientSettings {
        properties: all,
        secrets,
        request_timeout: options.request_timeout,
        tokens: tokens.cloned(),
    }
}

/// Defaults under the user's properties.
fn producer_properties(options: &KafkaSinkOptions) -> Vec<(&'static str, String)> {
    let millis = |duration: Duration| duration.as_millis().to_string();
    // librdkafka takes no pause of zero, and none above its bound, which is a second by default.
    let backoff = options.retry_backoff.max(Duration::from_millis(1));
    vec![
        // Order and no repetition within a partition, over the client's own retries.
        ("enable.idempotence", is_idempotent(options).to_string()),
        // As the Java client chooses the partition of a key.
        ("partitioner", "murmur2_random".to_owned()),
        // Records without a key stay together for this long only; the default is twice the linger time. Long enough
        // for full requests: with 10 ms a fast writer is a fifth slower.
        ("sticky.partitioning.linger.ms", "100".to_owned()),
        ("retries", options.retries.to_string()),
        ("retry.backoff.ms", millis(backoff)),
        ("retry.backoff.max.ms", millis(backoff.max(Duration::from_secs(1)))),
        ("linger.ms", millis(options.linger)),
        // Has to be longer than the linger time.
        (
            "delivery.timeout.ms",
            millis((options.linger + Duration::from_secs(60)).max(Duration::from_secs(300))),
        ),
        ("compression.type", options.compression_type.to_string()),
        // Bounded in bytes alone.
        ("queue.buffering.max.messages", "0".to_owned()),
        ("queue.buffering.max.kbytes", options.buffer_bytes.div_ceil(1024).min(2_147_483_647).to_string()),
        // The broker knows what is too large.
        ("message.max.bytes", options.big_message_threshold.clamp(1_000_000, 1_000_000_000).to_string()),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What librdkafka is told, by its own word.
    fn told(options: &[(&str, &str)], name: &str) -> String {
        let mut all = vec![("bootstrap_servers", "b:1"), ("topic_name", "t")];
        all.extend(options);
        let sink = KafkaSink::from_options(all).unwrap().build().unwrap();
        sink.0.producer.config(&[]).create_native_config().unwrap().get(name).unwrap()
    }

    #[test]
    fn a_transactional_client_is_told_its_limits() {
        let transactional = |options: &[(&str, &str)], name: &str| {
            let mut all = vec![("bootstrap_servers", "b:1"), ("topic_name", "t")];
            all.extend(options);
            let sink = KafkaSink::from_options(all).unwrap().build().unwrap();
            let settings = sink.0.transactional("copy-sink-0");
            drop(super::producer::client(&settings).unwrap());
            settings.config(&[]).create_native_config().unwrap().get(name).unwrap()
        };
        assert_eq!(transactional(&[], "transactional.id"), "copy-sink-0");
        assert_eq!(transactional(&[], "transaction.timeout.ms"), "300000");
        let short = [("transaction_timeout", "20s")];
        for (name, expected) in [
            ("transaction.timeout.ms", "20000"),
            ("delivery.timeout.ms", "20000"),
            ("socket.timeout.ms", "20000"),
            ("linger.ms", "5000"),
        ] {
            assert_eq!(transactional(&short, name), expected, "{name}");
        }
        assert_eq!(
            transactional(&[("transaction_timeout", "2s"), ("linger_ms", "9000")], "linger.ms"),
            "1000"
        );
    }

    #[test]
    fn options_are_defaults_of_the_clients_properties() {
        let cases = [
            ("retries", "7", "retries", "7"),
            ("retry_backoff_ms", "250", "retry.backoff.ms", "250"),
            ("retry_backoff_ms", "5000", "retry.backoff.max.ms", "5000"),
            ("retry_backoff_ms", "0", "retry.backoff.ms", "1"),
            ("linger_ms", "77", "linger.ms", "77"),
            ("linger_ms", "600000", "delivery.timeout.ms", "660000"),
            ("compression_type", "ZSTD", "compression.type", "zstd"),
            ("compression_type", "none", "compression.type", "none"),
            ("buffer_bytes", "2mb", "queue.buffering.max.kbytes", "2048"),
            ("big_message_threshold", "5000000", "message.max.bytes", "5000000"),
        ];
        for (option, value, property, expected) in cases {
            assert_eq!(told(&[(option, value)], property), expected, "{option}={value}");
        }
        let defaults = [
            ("retries", "10"),
            ("retry.backoff.ms", "1000"),
            ("linger.ms", "5000"),
            ("compression.type", "snappy"),
            ("enable.idempotence", "true"),
            ("partitioner", "murmur2_random"),
        ];
        for (property, expected) in defaults {
            assert_eq!(told(&[], property), expected, "{property}");
        }
        // What the user says by the client's own names wins.
        let properties =
            r#"{"retries": "3", "linger.ms": "9", "compression.type": "lz4", "retry.backoff.ms": "11"}"#;
        let both = [
            ("properties", properties),
            ("retries", "7"),
            ("linger_ms", "77"),
            ("compression_type", "zstd"),
            ("retry_backoff_ms", "250"),
        ];
        for (property, expected) in
            [("retries", "3"), ("linger.ms", "9"), ("compression.type", "lz4"), ("retry.backoff.ms", "11")]
        {
            assert_eq!(told(&both, property), expected, "{property}");
        }
    }
}
