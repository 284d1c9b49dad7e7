//! Making a sink: the builder, and what its options come to.

use std::time::Duration;

use connector_core::{
    Result,
    options::{HostList, IntoValue, PropertyMap, RawValue},
};

use super::{CompressionType, KafkaSink, KafkaSinkOptions, KafkaSinkOptionsBuilder, KeyFormat};
use crate::{
    client::ClientSettings,
    options::FormatType,
    properties::Role,
    tokens::{OauthTokenProvider, Tokens},
};

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
            Role::Producer.warn(map);
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
}

/// Whether the client's own retries may neither repeat nor reorder.
pub(super) fn is_idempotent(options: &KafkaSinkOptions) -> bool {
    let given = |name: &str| options.properties.as_ref().and_then(|map| map.get(name));
    let acks_all = given("acks")
        .or_else(|| given("request.required.acks"))
        .is_none_or(|acks| matches!(acks, "all" | "-1"));
    let retries = given("retries").or_else(|| given("message.send.max.retries"));
    acks_all && !retries.map_or(options.retries == 0, |text| text.trim() == "0")
}

/// A client of the cluster that the options name.
pub(super) fn client(
    options: &KafkaSinkOptions,
    own: &[(&str, String)],
    tokens: Option<&Tokens>,
) -> ClientSettings {
    let (servers, user) = (&options.bootstrap_servers, options.properties.as_ref());
    let settings = ClientSettings::new(Role::Producer, servers, own, user, options.request_timeout);
    ClientSettings { tokens: tokens.cloned(), ..settings }
}

/// Defaults under the user's properties.
pub(super) fn producer_properties(options: &KafkaSinkOptions) -> Vec<(&'static str, String)> {
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
            drop(super::super::producer::client(&settings).unwrap());
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
