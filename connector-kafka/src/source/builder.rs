//! Making a source: the builder, and what its options come to.

use std::{
    collections::BTreeSet,
    ffi::CString,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use connector_core::{
    BadRecordPolicy, Error, ErrorKind, Result, Secret, TableId, TableSchema,
    options::{HostList, IntoValue, PropertyMap, RawValue, RegexList},
};
use jiff::tz::TimeZone;

use super::{
    Inner, KafkaSource,
    discovery::{End, Plan, TopicPattern},
    memory::MemoryPlan,
    parts::Shape,
    sample::columns_are_given,
};
use crate::{
    client::ClientSettings,
    format::{Avro, Changes, Csv, Format, Json, MetadataColumn, Raw, metadata::MetadataColumns},
    options::{
        Assignment, AutoOffsetReset, FormatType, JobType, KafkaSourceOptions, KafkaSourceOptionsBuilder,
        StartupMode,
    },
    properties::Role,
    schema_registry::SchemaRegistry,
    tokens::{OauthTokenProvider, Tokens, expect_tokens},
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
    schema: Option<TableSchema>,
    job: Option<String>,
    startup: Option<StartupMode>,
    table: Option<Result<TableId, String>>,
    tokens: Option<Tokens>,
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
        /// Where the schemas of Avro records are, for a format that is named by the option `format_type` alone.
        schema_registry_url: String;
        /// The name and password for the schema registry, as `name:password`.
        schema_registry_basic_auth: Secret;
        /// The token for the schema registry.
        schema_registry_bearer_token: Secret;
        /// The authorities whose certificate the schema registry may have, as PEM or the path of a file of it.
        schema_registry_ca: String;
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
        /// Who deals the partitions out: the host, or the consumer group.
        assignment: Assignment;
        /// Whether a host may commit what it polled ([`KafkaReader::commit_polled`](super::KafkaReader::commit_polled)):
        /// not where this is set.
        commit_in_checkpoint: bool;
        /// The date at which the read begins, in the pattern `date_format`.
        start_date: String;
        /// The date at which a bounded read ends, in the pattern `date_format`.
        end_date: String;
        /// The pattern of dates, as Java's `SimpleDateFormat` has it.
        date_format: String;
        /// How many looks for more at the end of a bounded read have to find nothing; -1 for none.
        wait_poll_empty_times: i32;
        /// The time between two such looks.
        wait_poll_empty_interval: Duration;
        /// Columns that records have besides their values, in this order behind those.
        metadata_columns: Vec<MetadataColumn>;
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

    /// The job and the task of it that this source is, from which the group's name is made where `group_id` is not set:
    /// the same after every restart, and another one for each job and task.
    pub fn job(mut self, name: &str, task: &str) -> Self {
        self.job = Some(format!("{name}.{task}"));
        self
    }

    /// The table that the records make up, for a format that is named by the option `format_type` alone.
    pub fn schema(mut self, schema: impl Into<TableSchema>) -> Self {
        self.schema = Some(schema.into());
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

    /// Who gives the tokens of a login by SASL/OAUTHBEARER.
    pub fn oauth_tokens(mut self, provider: impl OauthTokenProvider) -> Self {
        self.tokens = Some(Tokens::new(provider));
        self
    }

    /// The options so far.
    pub(super) fn options(&self) -> Result<KafkaSourceOptions> {
        let mut options = self.options.clone();
        if !self.properties.is_empty() {
            options = options.properties(self.properties.clone());
        }
        options.build()
    }

    /// Reaches the cluster as `other` does.
    pub(super) fn same_client(mut self, other: &Self) -> Self {
        self.properties.clone_from(&other.properties);
        self.tokens.clone_from(&other.tokens);
        self
    }

    /// Nobody has given columns yet, and values are JSON.
    pub(super) fn expect_no_columns(&self) -> Result<()> {
        let named = self.options()?.format_type.is_some_and(|format| format != FormatType::Json);
        if named || self.format.is_some() || self.schema.is_some() {
            Err(columns_are_given())
        } else {
            Ok(())
        }
    }

    /// Checks everything and makes the source. Asks nobody yet.
    ///
    /// # Errors
    /// `OptionInvalid` when an option is missing, wrong or contradicts another; `Unsupported` and
    /// `SchemaMismatch` when the format cannot make the table's columns.
    pub fn build(self) -> Result<KafkaSource> {
        let options = self.options()?;
        let invalid =
            |text: String| Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options");
        let table = self.table.transpose().map_err(invalid)?;
        let format = resolved(self.format, self.schema, &options).map_err(invalid)?;
        let format = match &options.global_timezone {
            Some(zone) => format.in_zone(zone.clone()),
            None => format,
        };
        format.check()?;
        let columns = MetadataColumns::new(options.metadata_columns.as_deref().unwrap_or_default())?;
        if let Some(schema) = format.table_schema() {
            columns.check(&schema.columns)?;
        }
        let names: BTreeSet<&str> = options.topics.iter().collect();
        let names = self.job.as_deref().map_or(names, |job| BTreeSet::from([job]));
        let group = options.group_id.clone().unwrap_or_else(|| default_group(&names));
        let mut inner = inner(&options, self.startup, format, table, columns, group)?;
        expect_tokens(&inner.reader.properties, self.tokens.as_ref())?;
        inner.admin.tokens.clone_from(&self.tokens);
        inner.reader.tokens = self.tokens;
        if let Some(map) = &options.properties {
            Role::Consumer.warn(map);
        }
        Ok(KafkaSource(Arc::new(inner)))
    }
}

/// The format that was given, or that the options name, with what the options say about it.
fn resolved(
    given: Option<Format>,
    schema: Option<TableSchema>,
    options: &KafkaSourceOptions,
) -> Result<Format, String> {
    let named = options.format_type;
    let format = match (given, schema) {
        (Some(_), Some(_)) => {
            return Err("both a format and a schema are given; a format has its own columns".to_owned());
        }
        (Some(format), None) => {
            if let Some(named) = named.filter(|named| named.as_str() != format.name()) {
                return Err(format!(
                    "format_type is {named}, and the format that was given is {}",
                    format.name()
                ));
            }
            format
        }
        (None, schema) => named_format(named.unwrap_or(FormatType::Json), schema, options)?,
    };
    let Format::Changes(changes) = format else {
        if options.use_multi_table_record {
            return Err(format!(
                "use_multi_table_record is for the change formats, and not for {}",
                format.name()
            ));
        }
        return Ok(format);
    };
    let changes = if options.use_multi_table_record { changes.multi_table() } else { changes };
    let any_case = options.cdc_multiplex_record_case_insensitive;
    Ok(Format::Changes(if any_case { changes } else { changes.case_insensitive(false) }))
}

fn named_format(
    named: FormatType,
    schema: Option<TableSchema>,
    options: &KafkaSourceOptions,
) -> Result<Format, String> {
    let needed = |schema: Option<TableSchema>| {
        schema.ok_or_else(|| {
            format!(
                "no format is given; call `.format(…)`, or `.schema(…)` with the columns of the table for format_type {named}"
            )
        })
    };
    let with_table = |changes: Changes, schema: Option<TableSchema>| match schema {
        Some(schema) => changes.table(schema),
        None => changes,
    };
    Ok(match named {
        FormatType::Json => Json::with_table_schema(needed(schema)?).into(),
        FormatType::Csv => {
            let csv = Csv::with_table_schema(needed(schema)?)
                .delimiter(options.csv_delimiter.chars().next().unwrap_or(','))
                .quote(options.csv_quote.chars().next())
                .null_text(&options.csv_null_text)
                .header(options.csv_header);
            csv.into()
        }
        FormatType::Raw if schema.is_some() => {
            return Err("format_type is raw, which has one binary column `value` and no other".to_owned());
        }
        FormatType::Raw => Raw::default().into(),
        FormatType::Avro => {
            let avro = Avro::new(registry(named, options)?);
            match schema {
                Some(schema) => avro.table(schema),
                None => avro,
            }
            .into()
        }
        FormatType::DebeziumAvro => {
            with_table(Changes::debezium_avro(registry(named, options)?), schema).into()
        }
        FormatType::DebeziumJson => with_table(Changes::debezium(), schema).into(),
        FormatType::CanalJson => with_table(Changes::canal(), schema).into(),
        FormatType::MaxwellJson => with_table(Changes::maxwell(), schema).into(),
    })
}

/// The registry that the options name.
fn registry(named: FormatType, options: &KafkaSourceOptions) -> Result<SchemaRegistry, String> {
    let url = options.schema_registry_url.as_deref();
    let url = url.ok_or_else(|| format!("format_type {named} needs schema_registry_url"))?;
    let mut registry = SchemaRegistry::builder(url);
    if let Some(login) = &options.schema_registry_basic_auth {
        registry = registry.basic_auth(login.clone());
    }
    if let Some(token) = &options.schema_registry_bearer_token {
        registry = registry.bearer_token(token.clone());
    }
    if let Some(pem) = &options.schema_registry_ca {
        registry = registry.certificate_authorities(pem);
    }
    registry.build().map_err(|e| e.message().to_owned())
}

fn inner(
    options: &KafkaSourceOptions,
    startup: Option<StartupMode>,
    format: Format,
    table: Option<TableId>,
    columns: MetadataColumns,
    group: String,
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
        open_end: options.patience().is_some() && end(options) == Some(End::Latest),
        reset: options.reset_policy(),
    };
    let client = |own: &[(&str, String)]| {
        let (servers, user) = (&options.bootstrap_servers, options.properties.as_ref());
        ClientSettings::new(Role::Consumer, servers, own, user, options.request_timeout)
    };
    Ok(Inner {
        admin: client(&consumer_properties()),
        reader: client(&reader_properties(&group, &memory, options)),
        group: CString::new(group)
            .map_err(|_| Error::new(ErrorKind::OptionInvalid, "group_id holds a zero byte"))?,
        plan: Arc::new(plan),
        shape: Shape {
            format,
            table,
            columns,
            registry: Arc::default(),
            patience: options.patience(),
            policy: options.bad_record_policy,
            max_batch_rows: usize::try_from(options.max_batch_rows).unwrap_or(usize::MAX),
            max_batch_wait: options.max_batch_wait,
            building_bytes: memory.building,
            request_timeout: options.request_timeout,
        },
        handover_bytes: memory.handover,
        reset: options.reset_policy(),
        discovery_interval,
        max_partitions_per_reader: options
            .max_partition_num_per_consumer
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX)),
        parallelism: options
            .reader_parallelism_num
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX)),
        looked_in_vain: AtomicBool::new(false),
        known: (options.assignment == Assignment::Group).then(Arc::default),
        commits_polled: !options.commit_in_checkpoint,
    })
}

fn end(options: &KafkaSourceOptions) -> Option<End> {
    let offset = Some(options.end_offset).filter(|offset| *offset >= 0);
    let time = options.end_millis();
    if !options.is_bounded() {
        if offset.is_some() || time.is_some() {
            tracing::warn!(
                "end_offset, end_timestamp and end_date are ignored: the read is unbounded; set job_type to BATCH"
            );
        }
        return None;
    }
    // As on the other side, an offset wins over a time.
    Some(offset.map(End::Offset).or_else(|| time.map(End::Timestamp)).unwrap_or(End::Latest))
}

/// What every consumer is told.
fn consumer_properties() -> Vec<(&'static str, String)> {
    vec![("check.crcs", "true".to_owned()), ("allow.auto.create.topics", "false".to_owned())]
}

fn reader_properties(
    group: &str,
    memory: &MemoryPlan,
    options: &KafkaSourceOptions,
) -> Vec<(&'static str, String)> {
    let mut own = consumer_properties();
    own.extend([
        // librdkafka wants one even where nobody joins it.
        ("group.id", group.to_owned()),
        ("enable.auto.commit", "false".to_owned()),
        ("enable.auto.offset.store", "false".to_owned()),
        // Offsets are looked up before they are assigned; nothing may jump by itself.
        ("auto.offset.reset", "error".to_owned()),
        // The default of a second makes a fast reader idle most of the time.
        ("fetch.queue.backoff.ms", "10".to_owned()),
    ]);
    own.extend(memory.client_properties());
    if options.assignment == Assignment::Group {
        // Partitions move one by one, and the others are read on meanwhile.
        own.push(("partition.assignment.strategy", "cooperative-sticky".to_owned()));
        if let Some(every) = options.discovery_interval() {
            own.push(("topic.metadata.refresh.interval.ms", every.as_millis().min(3_600_000).to_string()));
        }
    }
    own
}

/// A group that is the same for the same names.
fn default_group(names: &BTreeSet<&str>) -> String {
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
        assert_eq!(source.0.reader.secrets.len(), 1, "both have the same value");
    }

    #[test]
    fn the_default_group_is_the_same_for_the_same_job_or_topics() {
        let group_of =
            |builder: KafkaSourceBuilder| builder.build().unwrap().0.group.clone().into_string().unwrap();
        assert_eq!(group_of(builder().job("nightly load", "7")), "connector-kafka.nightly_load.7");
        assert_ne!(group_of(builder().job("a", "1")), group_of(builder().job("a", "2")));
        assert_eq!(group_of(builder().job("a", "1").group_id("mine")), "mine");
        assert_eq!(group_of(builder()), "connector-kafka.orders");
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
