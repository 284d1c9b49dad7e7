//! Making a source: the builder, and what its options come to.

use std::{
    collections::BTreeSet,
    ffi::CString,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use connector_core::{
    BadRecordPolicy, Error, ErrorKind, Result, Secret, TableId,
    options::{HostList, IntoValue, PropertyMap, RawValue, RegexList, is_secret_key},
};
use jiff::tz::TimeZone;

use super::{
    Inner, KafkaSource,
    discovery::{End, Plan, TopicPattern},
    memory::MemoryPlan,
    parts::Shape,
};
use crate::{
    client::ClientSettings,
    format::Format,
    options::{AutoOffsetReset, JobType, KafkaSourceOptions, KafkaSourceOptionsBuilder, StartupMode},
    properties,
};

/// Builds a [`KafkaSource`]. Setters do not fail; [`build`](Self::build) tells every problem at once.
///
/// `bootstrap_servers`, `topics` and `format` are needed; everything else has a default.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct KafkaSourceBuilder {
    options: KafkaSourceOptionsBuilder,
    properties: PropertyMap,
    format: Option<Format>,
    startup: Option<StartupMode>,
    table: Option<Result<TableId, String>>,
}

impl KafkaSource {
    /// A builder without any option set.
    pub fn builder() -> KafkaSourceBuilder {
        KafkaSourceBuilder::default()
    }

    /// A builder with options from pairs of text, by their keys of [`KafkaSourceOptions`], such as
    /// `("job.reader.topics", "orders")`. The format still has to be given, as it holds the table's columns.
    ///
    /// ```
    /// use connector_core::arrow::datatypes::{DataType, Field, Schema};
    /// use connector_kafka::{Json, KafkaSource};
    ///
    /// let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    /// let source = KafkaSource::from_options([
    ///     ("job.reader.bootstrap_servers", "localhost:9092"),
    ///     ("job.reader.topics", "orders"),
    ///     ("job.reader.start_offset", "0"),
    /// ])?
    /// .format(Json::with_schema(schema))
    /// .build()?;
    /// # Ok::<_, connector_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `OptionInvalid` with everything that is wrong; see [`KafkaSourceOptions::from_options`].
    pub fn from_options<K, V>(options: impl IntoIterator<Item = (K, V)>) -> Result<KafkaSourceBuilder>
    where
        K: Into<String>,
        V: Into<RawValue>,
    {
        KafkaSourceOptions::from_options(options).map(Into::into)
    }
}

impl From<KafkaSourceOptions> for KafkaSourceBuilder {
    fn from(options: KafkaSourceOptions) -> Self {
        let properties = options.properties.clone().unwrap_or_default();
        Self { options: options.to_builder(), properties, ..Self::default() }
    }
}

/// Setters that hand on to the option of the same name.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, value: impl IntoValue<$type>) -> Self {
            self.options = self.options.$name(value);
            self
        }
    )* };
}

impl KafkaSourceBuilder {
    setters! {
        /// The brokers to ask first, such as `"localhost:9092"` or a list of such.
        bootstrap_servers: HostList;
        /// The topics, each a name or a regular expression that the whole name must match.
        topics: RegexList;
        /// The consumer group to which acknowledged offsets are committed, for other people's dashboards.
        /// The default is made of the topics' names. Give one where several programs read the same topics.
        group_id: String;
        /// How often a runner should look for new partitions and topics, in seconds; -1 for once.
        discovery_interval_seconds: i64;
        /// Whether the read ends: [`JobType::Batch`] ends where the partitions end when it begins.
        job_type: JobType;
        /// The last offset of each partition that a bounded read takes.
        end_offset: i64;
        /// The time at which a bounded read ends: before the first record of this time or later.
        end_timestamp: connector_core::options::Epoch;
        /// What happens when the log no longer has the offset of a checkpoint.
        auto_offset_reset: AutoOffsetReset;
        /// What happens to a record that cannot be read; by default the read fails.
        bad_record_policy: BadRecordPolicy;
        /// The most rows of a batch.
        max_batch_rows: u32;
        /// How long a row may wait for its batch to fill.
        max_batch_wait: Duration;
        /// Memory of one reader for what is fetched and decoded ahead, in bytes.
        prefetch_bytes: u64;
        /// How long a question to the cluster may take, in all.
        request_timeout: Duration;
        /// Splits for one reader, from which [`KafkaSource::suggested_parallelism`] follows.
        max_partition_num_per_consumer: u32;
        /// The number of readers to suggest.
        reader_parallelism_num: u32;
        /// The zone of times that are written without one.
        global_timezone: TimeZone;
    }

    /// How the records' values are read, and the table that they make up.
    pub fn format(mut self, format: impl Into<Format>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// Where splits begin that no checkpoint knows. Wins over the options that say so.
    pub fn startup_mode(mut self, mode: StartupMode) -> Self {
        self.startup = Some(mode);
        self
    }

    /// Ends the read where the partitions end when it begins; short for `job_type(JobType::Batch)`.
    pub fn bounded(self) -> Self {
        self.job_type(JobType::Batch)
    }

    /// The table that the rows belong to, as `table` or `database.table`. By default each topic is a table of its name.
    pub fn table(mut self, name: &str) -> Self {
        self.table = Some(name.parse().map_err(|e: Error| e.message().to_owned()));
        self
    }

    /// The same as [`table`](Self::table), for names that hold dots.
    pub fn table_id(mut self, table: TableId) -> Self {
        self.table = Some(Ok(table));
        self
    }

    /// A property of the client, by librdkafka's name or a Java name that means the same. Wins over what this crate sets.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name, value);
        self
    }

    /// Checks everything and makes the source. Asks nobody yet.
    ///
    /// # Errors
    /// `OptionInvalid` when an option is missing, wrong or contradicts another; `Unsupported` and
    /// `SchemaMismatch` when the format cannot make the table's columns.
    pub fn build(self) -> Result<KafkaSource> {
        let mut options = self.options;
        if !self.properties.is_empty() {
            options = options.properties(self.properties);
        }
        let options = options.build()?;
        let invalid =
            |text: String| Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options");
        let Some(format) = self.format else {
            let text =
                "no format is given; call `.format(Json::with_schema(schema))` with the columns of the table";
            return Err(invalid(text.to_owned()));
        };
        let table = self.table.transpose().map_err(invalid)?;
        let format = checked_format(format, options.global_timezone.as_ref())?;
        Ok(KafkaSource(Arc::new(inner(&options, self.startup, format, table)?)))
    }
}

/// The format with the job's time zone, once it is known that its columns can be read.
fn checked_format(format: Format, zone: Option<&TimeZone>) -> Result<Format> {
    let Format::Json(json) = format;
    let json = match zone {
        Some(zone) => json.time_zone(zone.clone()),
        None => json,
    };
    json.decoder()?;
    Ok(Format::Json(json))
}

fn inner(
    options: &KafkaSourceOptions,
    startup: Option<StartupMode>,
    format: Format,
    table: Option<TableId>,
) -> Result<Inner> {
    let topics: Vec<TopicPattern> = options.topics.iter().map(TopicPattern::parse).collect::<Result<_>>()?;
    let memory = MemoryPlan::new(options.prefetch_bytes);
    let discovery_interval = options.discovery_interval();
    let names = topics.iter().any(|topic| matches!(topic, TopicPattern::Regex(_)));
    let plan = Plan {
        topics_may_follow: names && discovery_interval.is_some(),
        topics,
        startup: startup.or_else(|| options.startup_mode()),
        end: end(options),
        reset: options.reset_policy(),
    };
    let group = options.group_id.clone().unwrap_or_else(|| default_group(&options.topics));
    Ok(Inner {
        admin: client(options, &[]),
        reader: client(options, &reader_properties(&group, &memory)),
        group: CString::new(group)
            .map_err(|_| Error::new(ErrorKind::OptionInvalid, "group_id holds a zero byte"))?,
        plan: Arc::new(plan),
        shape: Shape {
            format,
            table,
            policy: options.bad_record_policy,
            max_batch_rows: usize::try_from(options.max_batch_rows).unwrap_or(usize::MAX),
            max_batch_wait: options.max_batch_wait,
            building_bytes: memory.building,
        },
        handover_bytes: memory.handover,
        reset: options.reset_policy(),
        discovery_interval,
        max_partitions_per_reader: usize::try_from(options.max_partition_num_per_consumer)
            .unwrap_or(usize::MAX),
        parallelism: options
            .reader_parallelism_num
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX)),
        looked_in_vain: AtomicBool::new(false),
    })
}

fn end(options: &KafkaSourceOptions) -> Option<End> {
    let offset = Some(options.end_offset).filter(|offset| *offset >= 0);
    let time = options.end_timestamp.millis();
    if !options.is_bounded() {
        if offset.is_some() || time.is_some() {
            tracing::warn!(
                "end_offset and end_timestamp are ignored: the read is unbounded; set job_type to BATCH"
            );
        }
        return None;
    }
    // As on the other side, an offset wins over a time.
    Some(offset.map(End::Offset).or_else(|| time.map(End::Timestamp)).unwrap_or(End::Latest))
}

fn client(options: &KafkaSourceOptions, own: &[(&str, String)]) -> ClientSettings {
    let mut all = vec![
        ("bootstrap.servers".to_owned(), options.bootstrap_servers.to_string()),
        ("client.id".to_owned(), "connector-kafka".to_owned()),
        ("check.crcs".to_owned(), "true".to_owned()),
        ("allow.auto.create.topics".to_owned(), "false".to_owned()),
        // A broker that comes back is found within this time.
        ("reconnect.backoff.max.ms".to_owned(), "2000".to_owned()),
    ];
    all.extend(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let mut secrets = Vec::new();
    if let Some(map) = &options.properties {
        all.extend(properties::translated(map));
        secrets
            .extend(map.iter().filter(|(name, _)| is_secret_key(name)).map(|(_, value)| Secret::new(value)));
    }
    ClientSettings { properties: all, secrets, request_timeout: options.request_timeout }
}

fn reader_properties(group: &str, memory: &MemoryPlan) -> Vec<(&'static str, String)> {
    let mut own = vec![
        // librdkafka wants one even where nobody joins it.
        ("group.id", group.to_owned()),
        ("enable.auto.commit", "false".to_owned()),
        ("enable.auto.offset.store", "false".to_owned()),
        // Offsets are looked up before they are assigned; nothing may jump by itself.
        ("auto.offset.reset", "error".to_owned()),
        // The default of a second makes a fast reader idle most of the time.
        ("fetch.queue.backoff.ms", "10".to_owned()),
    ];
    own.extend(memory.client_properties());
    own
}

/// A group that is the same for the same topics.
fn default_group(topics: &RegexList) -> String {
    let names: BTreeSet<&str> = topics.iter().collect();
    let mut group = String::from("connector-kafka");
    for name in names {
        group.push('.');
        group.extend(
            name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }),
        );
    }
    // Longer names are bad company in other people's tables, and brokers keep them for every partition.
    group.truncate(200);
    group
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::format::Json;

    fn builder() -> KafkaSourceBuilder {
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
        KafkaSource::builder().bootstrap_servers("b:1").topics(["orders"]).format(Json::with_schema(schema))
    }

    fn property<'a>(settings: &'a ClientSettings, name: &str) -> Option<&'a str> {
        settings.properties.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = KafkaSource::builder().build().unwrap_err();
        assert!(
            error.message().contains("bootstrap_servers") && error.message().contains("topics"),
            "{error}"
        );
        let error = KafkaSource::builder().bootstrap_servers("b:1").topics("orders").build().unwrap_err();
        assert!(error.message().contains("format"), "{error}");
        let error = builder().table("a.").build().unwrap_err();
        assert!(error.message().contains("table"), "{error}");
    }

    #[test]
    fn properties_of_the_user_win_but_for_those_that_are_ours() {
        let source =
            builder().property("fetch.queue.backoff.ms", "50").property("client.id", "x").build().unwrap();
        assert_eq!(property(&source.0.reader, "fetch.queue.backoff.ms"), Some("50"));
        assert_eq!(property(&source.0.reader, "client.id"), Some("x"));
        assert_eq!(property(&source.0.reader, "enable.auto.commit"), Some("false"));
        let error = builder().property("enable.auto.commit", "true").build().unwrap_err();
        assert!(error.message().contains("enable.auto.commit"), "{error}");
    }

    #[test]
    fn options_and_builder_add_up() {
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
        let source = KafkaSource::from_options([
            ("bootstrap_servers", "b:1"),
            ("topics", "orders,pay.*"),
            ("properties.client.rack", "r1"),
            ("max_partition_num_per_consumer", "3"),
        ])
        .unwrap()
        .property("client.id", "x")
        .group_id("g")
        .format(Json::with_schema(schema))
        .build()
        .unwrap();
        assert_eq!(property(&source.0.reader, "client.rack"), Some("r1"));
        assert_eq!(property(&source.0.reader, "client.id"), Some("x"));
        assert_eq!(property(&source.0.reader, "group.id"), Some("g"));
        assert_eq!(property(&source.0.admin, "group.id"), None, "questions belong to no group");
        assert_eq!(source.0.plan.topics.len(), 2);
        assert_eq!([1, 3, 4, 7].map(|n| source.suggested_parallelism(n)), [1, 1, 2, 3]);
        assert_eq!(source.suggested_parallelism(0), 1);
        let source = builder().reader_parallelism_num(5_u32).build().unwrap();
        assert_eq!(source.suggested_parallelism(2), 5);
    }

    #[test]
    fn secrets_show_nowhere() {
        let source = builder().property("sasl.password", "hunter2").property("ssl.key.pem", "hunter2");
        assert!(!format!("{source:?}").contains("hunter2"));
        let source = source.build().unwrap();
        assert!(!format!("{source:?} {source:#?}").contains("hunter2"));
        assert_eq!(source.0.reader.secrets.len(), 2);
    }

    #[test]
    fn the_default_group_is_the_same_for_the_same_topics() {
        let group = |topics: &[&str]| default_group(&topics.iter().copied().collect());
        assert_eq!(group(&["orders"]), "connector-kafka.orders");
        assert_eq!(group(&["b", "a"]), group(&["a", "b"]));
        assert_eq!(group(&["pay.*"]), "connector-kafka.pay._");
        assert!(group(&["x".repeat(500).as_str()]).len() <= 200);
    }

    #[test]
    fn a_bounded_read_ends_by_offset_then_by_time_then_at_the_end() {
        let end = |builder: KafkaSourceBuilder| builder.build().unwrap().0.plan.end;
        let time = jiff::Timestamp::from_millisecond(1_767_225_600_000).unwrap();
        assert_eq!(end(builder()), None);
        assert_eq!(end(builder().end_offset(5)), None, "an end is ignored when unbounded");
        assert_eq!(end(builder().bounded()), Some(End::Latest));
        assert_eq!(end(builder().bounded().end_timestamp(time)), Some(End::Timestamp(1_767_225_600_000)));
        assert_eq!(end(builder().bounded().end_timestamp(time).end_offset(5)), Some(End::Offset(5)));
    }
}
