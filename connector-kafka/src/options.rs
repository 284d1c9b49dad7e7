//! The options of the source, declared once: keys, spellings, defaults, bounds and what each does.

use std::time::Duration;

use connector_core::{
    BadRecordPolicy, Secret, option_enum, option_set,
    options::{Epoch, HostList, MemorySize, Millis, Problems, PropertyMap, RegexList},
};
use jiff::tz::TimeZone;

use crate::{
    date_pattern::DatePattern,
    format::MetadataColumn,
    properties::{self, Role},
    source::{discovery::TopicPattern, parts::Patience},
};

/// Where a split begins that no checkpoint knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupMode {
    /// At the first record that the log still has.
    Earliest,
    /// At the end as it is when the split is found: only records that are written later.
    Latest,
    /// At this offset in every partition, moved into what the log has.
    Offset(i64),
    /// At the first record of this time or later, in milliseconds since 1970; at the end where there is none.
    Timestamp(i64),
}

option_enum! {
    /// What happens where there is no valid offset.
    ///
    /// It has two jobs. It says where a split begins that no checkpoint knows, when nothing else does. And
    /// where it is set to `latest` or `earliest`, reading goes on there when the log no longer has the offset of
    /// a checkpoint; that is counted and logged. Not set, a lost offset is an error.
    pub enum AutoOffsetReset {
        /// At the end.
        Latest = "latest",
        /// At the first record that the log still has.
        Earliest = "earliest",
        /// Nowhere: it is an error.
        None = "none",
    }
}

/// What happens when the offset of a checkpoint is gone and the user wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetPolicy {
    Earliest,
    Latest,
}

option_enum! {
    /// How the values of records are written.
    pub enum FormatType {
        /// One JSON object a record.
        Json = "json",
        /// Lines of CSV.
        Csv = "csv",
        /// Avro with a schema registry, one record a row.
        Avro = "avro",
        /// Debezium's change events.
        DebeziumJson = "debezium_json",
        /// Debezium's change events in Avro with a schema registry.
        DebeziumAvro = "debezium_avro",
        /// Canal's change events.
        CanalJson = "canal_json",
        /// Maxwell's change events.
        MaxwellJson = "maxwell_json",
        /// Bytes as they are.
        Raw = "raw",
    }
}

option_enum! {
    /// Who deals the partitions out.
    pub enum Assignment {
        /// The host, among its readers. No member joins the group.
        Manual = "manual",
        /// The group, among all readers of all processes that join it under one `group_id`.
        Group = "group",
    }
}

option_enum! {
    /// Whether the job ends.
    pub enum JobType {
        /// It goes on until someone stops it.
        Streaming = "STREAMING",
        /// It ends where the partitions end when it begins, or earlier.
        Batch = "BATCH",
    }
}

option_set! {
    /// Options of [`KafkaSource`](crate::KafkaSource).
    pub struct KafkaSourceOptions, builder KafkaSourceOptionsBuilder {
        connector "kafka";
        role "source";
        validate check;
        entries {
            "job.reader.properties" => properties::is_client_property;
        }
        options {
            /// initial brokers
            "job.reader.bootstrap_servers" alias "job.reader.kafka_servers" => bootstrap_servers: HostList, required;
            /// comma list; each entry a name (letters, digits, `.`, `_`, `-`) or a regular expression matched against the whole name
            "job.reader.topics" => topics: RegexList, required, type_name "list<string>|regex";
            /// the group to which acknowledged offsets are committed, and which deals the partitions out where assignment is group; the default is made of the job's name and task where the builder was told them, else of the topics' names, so it is the same after a restart
            "job.reader.group_id" => group_id: String, optional, shown "generated";
            /// value format
            "job.reader.format_type" alias "job.reader.content_type" => format_type: FormatType, optional, shown "json", allowed "json,csv and the change formats";
            /// one topic carries changes of several tables; each record is routed to its table (change formats)
            "job.reader.use_multi_table_record" => use_multi_table_record: bool, default false;
            /// first offset of all partitions, moved into what the log has; wins over start_timestamp
            "job.reader.start_offset" => start_offset: i64, default -1;
            /// last offset of all partitions, itself included, moved into what the log has; ignored when unbounded
            "job.reader.end_offset" => end_offset: i64, default -1;
            /// only when start_offset is unset; first record at or after; none found: the end
            "job.reader.start_timestamp" => start_timestamp: Epoch, default -1, allowed "10 digits s or 13 digits ms";
            /// the read ends before the first record at or after; later than now, or not after the start: the start fails; ignored when unbounded
            "job.reader.end_timestamp" => end_timestamp: Epoch, default -1, allowed "10 digits s or 13 digits ms";
            /// a date in the pattern date_format; only when start_offset and start_timestamp are unset
            "job.reader.start_date" => start_date: String, optional;
            /// a date in the pattern date_format; only when end_timestamp is unset
            "job.reader.end_date" => end_date: String, optional;
            /// pattern of start_date and end_date, which have to match it exactly; without an offset in it they are in global_timezone, else the system zone
            "job.reader.date_format" => date_format: String, default "yyyyMMddHHmmss", type_name "java date pattern";
            /// how often to look for new partitions and topics, which then begin at their first record; -1: once; off when bounded
            "job.reader.discovery_interval_seconds" => discovery_interval_seconds: i64, default -1;
            /// suggested parallelism = ceil(partitions / n); a pipeline that is told no number takes it where this is set
            "job.reader.max_partition_num_per_consumer" => max_partition_num_per_consumer: u32, optional, min 1, shown "1";
            /// set: wins over the suggestion
            "job.reader.reader_parallelism_num" => reader_parallelism_num: u32, optional, min 1;
            /// acknowledged offsets are committed, which is after the checkpoint was stored; false: a host that drives the reader may commit what it polled, too
            "job.reader.commit_in_checkpoint" => commit_in_checkpoint: bool, default false;
            /// columns that the record itself gives, behind those of its value; exact names, upper and lower case are the same
            "job.reader.metadata_columns" => metadata_columns: Vec<MetadataColumn>, optional, allowed "timestamp,offset,key,value,topic,partition,headers";
            /// raw client properties of librdkafka, highest priority; names of the Java client are translated where they mean the same
            "job.reader.properties" alias "job.reader.extra_raw_properties" => properties: PropertyMap, optional;
            /// where to begin when nothing else says it, and, where it is set, where to go on when an offset is gone; none: fail
            "job.reader.connector.auto_offset_reset" => auto_offset_reset: AutoOffsetReset, optional, shown "latest unbounded, earliest bounded";
            /// begin at the first record; start_offset and start_timestamp win over it
            "job.reader.read_from_earliest_offset" => read_from_earliest_offset: bool, default false;
            /// end where the partitions end when the read begins, also when job_type is STREAMING
            "job.reader.read_to_latest_offset" => read_to_latest_offset: bool, default false;
            /// a bounded read ends when so many looks for more at its end found nothing; -1: at once
            "job.reader.wait_poll_empty_times" => wait_poll_empty_times: i32, default -1;
            /// time between two such looks
            "job.reader.wait_poll_empty_interval" => wait_poll_empty_interval: Duration as Millis, default 1000, min 1, allowed ">0";
            /// what stands between fields of the format csv (an option of this crate)
            "job.reader.csv_delimiter" => csv_delimiter: String, default ",";
            /// what stands around fields of the format csv; empty: nothing does (an option of this crate)
            "job.reader.csv_quote" => csv_quote: String, default "\"";
            /// the text that is a null in the format csv where it is not quoted (an option of this crate)
            "job.reader.csv_null_text" => csv_null_text: String, default "";
            /// whether the first line of each record of the format csv names its columns (an option of this crate)
            "job.reader.csv_header" => csv_header: bool, default false;
            /// where the schemas of the formats avro and debezium_avro are; several addresses of one registry with commas between them (an option of this crate)
            "job.reader.schema_registry_url" => schema_registry_url: String, optional;
            /// name and password for the schema registry, as name:password (an option of this crate)
            "job.reader.schema_registry_basic_auth" => schema_registry_basic_auth: Secret, optional;
            /// token for the schema registry (an option of this crate)
            "job.reader.schema_registry_bearer_token" => schema_registry_bearer_token: Secret, optional;
            /// authorities that may have signed the schema registry's certificate, as PEM or the path of a file of it; the system's by default (an option of this crate)
            "job.reader.schema_registry_ca" => schema_registry_ca: String, optional;
            /// who deals the partitions out: the host among its readers, or the group among all that join it (an option of this crate)
            "job.reader.assignment" => assignment: Assignment, default "manual";
            /// what happens to a record that cannot be read (an option of this crate)
            "job.reader.bad_record_policy" => bad_record_policy: BadRecordPolicy, default "fail";
            /// most rows of a batch (an option of this crate)
            "job.reader.max_batch_rows" => max_batch_rows: u32, default 65536, min 1;
            /// how long a row may wait for its batch to fill while whoever pulls has nothing to do (an option of this crate)
            "job.reader.max_batch_wait" => max_batch_wait: Duration, default "150ms";
            /// memory of one reader for what is fetched and decoded ahead (an option of this crate)
            "job.reader.prefetch_bytes" => prefetch_bytes: u64 as MemorySize, default "32mb", min "1mb";
            /// time-out of each question to the cluster: metadata, offsets, opening (an option of this crate)
            "job.reader.request_timeout" => request_timeout: Duration, default "15s", min "100ms";
            /// BATCH: bounded
            "job.common.job_type" => job_type: JobType, default "STREAMING", role "common";
            /// zone of texts without one; unset: that of the format, which is UTC unless it was given another
            "job.common.global_timezone" => global_timezone: TimeZone, optional, role "common", shown "system zone";
            /// database, table and column names of the change formats compare, and are made, in lower case
            "job.common.cdc_multiplex_record_case_insensitive" => cdc_multiplex_record_case_insensitive: bool, default true, role "common";
        }
    }
}

impl KafkaSourceOptions {
    /// True when the read ends by itself.
    pub fn is_bounded(&self) -> bool {
        self.job_type == JobType::Batch || self.read_to_latest_offset
    }

    /// Where splits begin that no checkpoint knows: `start_offset`, else `start_timestamp`, else
    /// `read_from_earliest_offset`, else `auto_offset_reset`. `None` when that says `none`.
    pub fn startup_mode(&self) -> Option<StartupMode> {
        if self.start_offset >= 0 {
            return Some(StartupMode::Offset(self.start_offset));
        }
        if let Some(millis) = self.start_millis() {
            return Some(StartupMode::Timestamp(millis));
        }
        if self.read_from_earliest_offset {
            return Some(StartupMode::Earliest);
        }
        match self.auto_offset_reset {
            Some(AutoOffsetReset::Earliest) => Some(StartupMode::Earliest),
            Some(AutoOffsetReset::Latest) => Some(StartupMode::Latest),
            Some(AutoOffsetReset::None) => None,
            None if self.is_bounded() => Some(StartupMode::Earliest),
            None => Some(StartupMode::Latest),
        }
    }

    /// The time at which the read begins, by `start_timestamp` or else `start_date`.
    pub(crate) fn start_millis(&self) -> Option<i64> {
        // A date that cannot be read was refused when the options were built.
        self.start_timestamp.millis().or_else(|| self.date_millis(self.start_date.as_deref()).ok()?)
    }

    /// The time at which a bounded read ends, by `end_timestamp` or else `end_date`.
    pub(crate) fn end_millis(&self) -> Option<i64> {
        self.end_timestamp.millis().or_else(|| self.date_millis(self.end_date.as_deref()).ok()?)
    }

    fn date_millis(&self, date: Option<&str>) -> Result<Option<i64>, String> {
        // An empty text is what the vendor's documents give as "none".
        let Some(date) = date.filter(|date| !date.is_empty()) else { return Ok(None) };
        let zone = self.global_timezone.clone().unwrap_or_else(TimeZone::system);
        DatePattern::parse(&self.date_format)?.millis(date, &zone).map(Some)
    }

    /// How long a bounded split waits at its end.
    pub(crate) fn patience(&self) -> Option<Patience> {
        let times = u32::try_from(self.wait_poll_empty_times).ok().filter(|times| *times > 0)?;
        (self.is_bounded()).then_some(Patience { times, interval: self.wait_poll_empty_interval })
    }

    /// What happens when an offset is gone, where the user said it.
    pub(crate) fn reset_policy(&self) -> Option<ResetPolicy> {
        match self.auto_offset_reset? {
            AutoOffsetReset::Earliest => Some(ResetPolicy::Earliest),
            AutoOffsetReset::Latest => Some(ResetPolicy::Latest),
            AutoOffsetReset::None => None,
        }
    }

    /// How often to look for new splits.
    pub(crate) fn discovery_interval(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.discovery_interval_seconds).ok()?;
        // 0 would never stop asking; a bounded read must not find new work for ever.
        (!self.is_bounded()).then(|| Duration::from_secs(seconds.max(1)))
    }
}

/// What options say about each other, and what only this crate can check.
fn check(options: &KafkaSourceOptions, problems: &mut Problems) {
    let changes = matches!(
        options.format_type,
        Some(
            FormatType::DebeziumJson
                | FormatType::DebeziumAvro
                | FormatType::CanalJson
                | FormatType::MaxwellJson
        )
    );
    if options.use_multi_table_record && options.format_type.is_some() && !changes {
        let text = "`use_multi_table_record` is for the change formats debezium_json, debezium_avro, canal_json and maxwell_json";
        problems.push("job.reader.use_multi_table_record", text);
    }
    check_registry(options, problems);
    check_dates(options, problems);
    check_own(options, problems);
    for (key, value) in [
        ("start_offset", options.start_offset),
        ("end_offset", options.end_offset),
        ("discovery_interval_seconds", options.discovery_interval_seconds),
    ] {
        if value < -1 {
            problems
                .push(format!("job.reader.{key}"), format!("`{key}`: {value} is below -1, which is unset"));
        }
    }
    if options.end_offset >= 0 && options.end_offset < options.start_offset {
        problems.push("job.reader.end_offset", "`end_offset` is before `start_offset`");
    }
    if let (Some(start), Some(end)) = (options.start_millis(), options.end_millis())
        && end <= start
        && options.start_offset < 0
    {
        let name = if options.end_timestamp.is_unset() { "end_date" } else { "end_timestamp" };
        let text = format!(
            "`{name}` is not after the start: the time of the end is {end}, that of the start {start}"
        );
        problems.push(format!("job.reader.{name}"), text);
    }
    for entry in options.topics.iter() {
        if let Err(e) = TopicPattern::parse(entry) {
            problems.push("job.reader.topics", e.message().to_owned());
        }
    }
    if let Some(map) = &options.properties {
        for (name, problem) in Role::Consumer.problems(map) {
            problems.push(format!("job.reader.properties.{name}"), problem);
        }
    }
}

fn check_registry(options: &KafkaSourceOptions, problems: &mut Problems) {
    let given = [
        ("schema_registry_url", options.schema_registry_url.is_some()),
        ("schema_registry_basic_auth", options.schema_registry_basic_auth.is_some()),
        ("schema_registry_bearer_token", options.schema_registry_bearer_token.is_some()),
        ("schema_registry_ca", options.schema_registry_ca.is_some()),
    ];
    let avro = matches!(options.format_type, Some(FormatType::Avro | FormatType::DebeziumAvro));
    for (name, _) in given.iter().filter(|(_, given)| *given && !avro) {
        let text =
            format!("`{name}` is for the formats avro and debezium_avro; set `format_type` to one of them");
        problems.push(format!("job.reader.{name}"), text);
    }
}

fn check_dates(options: &KafkaSourceOptions, problems: &mut Problems) {
    if let Err(problem) = DatePattern::parse(&options.date_format) {
        problems
            .push("job.reader.date_format", format!("`date_format` `{}`: {problem}", options.date_format));
        return;
    }
    for (key, date) in [("start_date", &options.start_date), ("end_date", &options.end_date)] {
        if let Err(problem) = options.date_millis(date.as_deref()) {
            let text = format!(
                "`{key}` `{}` is no date in the pattern `{}`: {problem}",
                date.as_deref().unwrap_or_default(),
                options.date_format
            );
            problems.push(format!("job.reader.{key}"), text);
        }
    }
}

/// Options of this crate.
fn check_own(options: &KafkaSourceOptions, problems: &mut Problems) {
    for (key, value, least) in
        [("csv_delimiter", &options.csv_delimiter, 1), ("csv_quote", &options.csv_quote, 0)]
    {
        if !(least..=1).contains(&value.chars().count()) {
            problems.push(format!("job.reader.{key}"), format!("`{key}`: `{value}` is not one character"));
        }
    }
    if options.wait_poll_empty_times < -1 {
        let text =
            format!("`wait_poll_empty_times`: {} is below -1, which is unset", options.wait_poll_empty_times);
        problems.push("job.reader.wait_poll_empty_times", text);
    }
    if options.assignment == Assignment::Group && options.is_bounded() {
        let text = "`assignment` is `group`, and the read is bounded: a member of a group does not know when all of it has \
                    been read; use `manual`";
        problems.push("job.reader.assignment", text);
    }
}

#[cfg(test)]
mod tests {
    use connector_core::{
        Error, ErrorKind,
        options::{declaration_faults, differences},
    };

    use super::*;

    /// The two that are required.
    const BASE: [(&str, &str); 2] =
        [("job.reader.bootstrap_servers", "b1:9092, b2:9092"), ("topics", "orders")];

    fn parse(more: &[(&str, &str)]) -> Result<KafkaSourceOptions, Error> {
        KafkaSourceOptions::from_options(BASE.into_iter().chain(more.iter().copied()))
    }

    #[test]
    fn the_declaration_has_no_faults() {
        assert_eq!(declaration_faults::<KafkaSourceOptions>(), Vec::<String>::new());
    }

    #[test]
    fn every_option_of_the_list_is_known_and_ours_are_the_only_others() {
        let list = include_str!("../tests/golden/source-options.tsv");
        let own = [
            "csv_delimiter",
            "csv_quote",
            "csv_null_text",
            "csv_header",
            "schema_registry_url",
            "schema_registry_basic_auth",
            "schema_registry_bearer_token",
            "schema_registry_ca",
            "assignment",
            "bad_record_policy",
            "max_batch_rows",
            "max_batch_wait",
            "prefetch_bytes",
            "request_timeout",
        ];
        let expected: Vec<String> = own
            .iter()
            .map(|key| format!("kafka source job.reader.{key}: is in the code, not in the list"))
            .collect();
        assert_eq!(differences(&[KafkaSourceOptions::SET], list), expected);
    }

    #[test]
    fn defaults() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.bootstrap_servers.to_string(), "b1:9092,b2:9092");
        assert_eq!(options.topics.to_string(), "orders");
        assert_eq!(options.startup_mode(), Some(StartupMode::Latest));
        assert_eq!(options.reset_policy(), None);
        assert!(!options.is_bounded());
        assert_eq!(options.discovery_interval(), None);
        assert_eq!(options.prefetch_bytes, 32 << 20);
        assert_eq!(options.max_batch_rows, 65_536);
        assert_eq!(options.bad_record_policy, BadRecordPolicy::Fail);
        assert!(!options.commit_in_checkpoint);
    }

    #[test]
    fn aliases_name_the_same_options() {
        let options = KafkaSourceOptions::from_options([
            ("job.reader.kafka_servers", "b:1"),
            ("job.reader.topics", "t"),
            ("job.reader.content_type", "JSON"),
            ("job.reader.extra_raw_properties", r#"{"client.id": "x"}"#),
        ])
        .unwrap();
        assert_eq!(options.bootstrap_servers.to_string(), "b:1");
        assert_eq!(options.properties.unwrap().get("client.id"), Some("x"));
        let twice = parse(&[("kafka_servers", "b:1")]).unwrap_err();
        assert!(twice.message().contains("two names of one option"), "{twice}");
    }

    #[test]
    fn where_a_read_begins() {
        type Pairs = &'static [(&'static str, &'static str)];
        let cases: [(Pairs, Option<StartupMode>); 14] = [
            (
                &[("start_date", "20260101080000"), ("global_timezone", "Asia/Shanghai")],
                Some(StartupMode::Timestamp(1_767_225_600_000)),
            ),
            (
                &[("start_date", "2026-01-01 00:00:00+0000"), ("date_format", "yyyy-MM-dd HH:mm:ssZ")],
                Some(StartupMode::Timestamp(1_767_225_600_000)),
            ),
            (
                &[("start_date", "20260101000000"), ("start_timestamp", "1767225601")],
                Some(StartupMode::Timestamp(1_767_225_601_000)),
            ),
            (&[("start_date", "")], Some(StartupMode::Latest)),
            (&[("start_offset", "5"), ("start_timestamp", "1767225600")], Some(StartupMode::Offset(5))),
            (&[("start_timestamp", "1767225600")], Some(StartupMode::Timestamp(1_767_225_600_000))),
            (&[("start_timestamp", "1767225600123")], Some(StartupMode::Timestamp(1_767_225_600_123))),
            (&[("connector.auto_offset_reset", "earliest")], Some(StartupMode::Earliest)),
            (&[("connector.auto_offset_reset", "latest"), ("job_type", "BATCH")], Some(StartupMode::Latest)),
            (&[("connector.auto_offset_reset", "none")], None),
            (&[("connector.auto_offset_reset", "none"), ("start_offset", "0")], Some(StartupMode::Offset(0))),
            (&[("job_type", "batch")], Some(StartupMode::Earliest)),
            (&[("read_to_latest_offset", "true")], Some(StartupMode::Earliest)),
            (&[("read_from_earliest_offset", "true")], Some(StartupMode::Earliest)),
        ];
        for (pairs, expected) in cases {
            assert_eq!(parse(pairs).unwrap().startup_mode(), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_read_is_bounded_by_either_option() {
        assert!(parse(&[("job.common.job_type", "BATCH")]).unwrap().is_bounded());
        assert!(parse(&[("read_to_latest_offset", "true")]).unwrap().is_bounded());
    }

    #[test]
    fn a_lost_offset_is_replaced_only_where_the_user_said_so() {
        let policy = |text| parse(&[("connector.auto_offset_reset", text)]).unwrap().reset_policy();
        assert_eq!(policy("earliest"), Some(ResetPolicy::Earliest));
        assert_eq!(policy("latest"), Some(ResetPolicy::Latest));
        assert_eq!(policy("none"), None);
    }

    #[test]
    fn discovery_is_off_at_minus_one_and_when_bounded() {
        let every = |pairs: &[(&str, &str)]| parse(pairs).unwrap().discovery_interval();
        assert_eq!(every(&[("discovery_interval_seconds", "30")]), Some(Duration::from_secs(30)));
        assert_eq!(every(&[("discovery_interval_seconds", "0")]), Some(Duration::from_secs(1)));
        assert_eq!(every(&[("discovery_interval_seconds", "-1")]), None);
        assert_eq!(every(&[("discovery_interval_seconds", "30"), ("job_type", "BATCH")]), None);
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let error = KafkaSourceOptions::from_options([
            ("job.reader.bootstrap_servers", "b1"),
            ("job.reader.start_offset", "-5"),
            ("job.reader.topic", "orders"),
        ])
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        for part in ["has no port", "did you mean `job.reader.topics`", "`job.reader.topics` is missing"] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn contradictions() {
        let cases: [(&[(&str, &str)], &str); 20] = [
            (&[("use_multi_table_record", "true"), ("format_type", "csv")], "change formats"),
            (&[("metadata_columns", "event_timestamp")], "timestamp"),
            (
                &[("start_date", "2026-01-01")],
                "`start_date` `2026-01-01` is no date in the pattern `yyyyMMddHHmmss`",
            ),
            (&[("end_date", "20260101"), ("date_format", "yyyy-MM-dd")], "`end_date`"),
            (&[("date_format", "EEE")], "`EEE`"),
            (
                &[("start_date", "20260102000000"), ("end_date", "20260101000000")],
                "`end_date` is not after the start",
            ),
            (&[("wait_poll_empty_times", "-2")], "below -1"),
            (&[("wait_poll_empty_interval", "0")], "minimum 1"),
            (&[("csv_delimiter", "||")], "not one character"),
            (&[("csv_quote", "''")], "not one character"),
            (&[("assignment", "group"), ("job_type", "BATCH")], "the read is bounded"),
            (&[("start_offset", "-2")], "below -1"),
            (&[("end_offset", "-3")], "below -1"),
            (&[("discovery_interval_seconds", "-2")], "below -1"),
            (&[("start_offset", "9"), ("end_offset", "8")], "`end_offset` is before"),
            (&[("start_timestamp", "1767225600"), ("end_timestamp", "1767225600000")], "not after"),
            (&[("start_timestamp", "17672256")], "10 digits"),
            (&[("max_partition_num_per_consumer", "0")], "minimum 1"),
            (&[("topics", "orders(")], "two names"),
            (&[("prefetch_bytes", "1kb")], "minimum 1mb"),
        ];
        for (pairs, part) in cases {
            let error = parse(pairs).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OptionInvalid);
            // A second `topics` is a problem of its own, told before the expression is looked at.
            let part = if part == "two names" { "topics` is given twice" } else { part };
            assert!(error.message().contains(part), "{pairs:?}: {error}");
        }
        let error =
            KafkaSourceOptions::from_options([("bootstrap_servers", "b:1"), ("topics", "[a-")]).unwrap_err();
        assert!(error.message().contains("topics"), "{error}");
        let error = KafkaSourceOptions::from_options([("bootstrap_servers", "b:1"), ("topics", "a(?=b)")])
            .unwrap_err();
        assert!(error.message().contains("regular expression"), "{error}");
    }

    #[test]
    fn names_that_the_connector_owns_are_refused_among_the_properties_and_options_are_sent_out() {
        let error = parse(&[(
            "properties",
            r#"{"enable.auto.commit": true, "group.id": "g", "no.such.name": 1, "sasl.password": "hunter2"}"#,
        )])
        .unwrap_err();
        let misplaced = parse(&[("properties", r#"{"start_offset": 5}"#)]).unwrap_err();
        assert!(misplaced.message().contains("`start_offset` inside"), "{misplaced}");
        for part in ["`enable.auto.commit`", "group_id", "`no.such.name`"] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }

    #[test]
    fn a_client_property_outside_of_the_map_is_sent_into_it() {
        let error = parse(&[("fetch.min.bytes", "1")]).unwrap_err();
        assert!(error.message().contains("inside the map `properties`"), "{error}");
    }

    #[test]
    fn secrets_among_the_properties_never_show() {
        let options =
            parse(&[("properties.sasl.password", "hunter2"), ("properties.ssl.key.pem", "hunter2")]).unwrap();
        assert_eq!(options.properties.as_ref().unwrap().get("sasl.password"), Some("hunter2"));
        let shown =
            [format!("{options:?}"), format!("{options:#?}"), serde_json::to_string(&options).unwrap()];
        for text in shown {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
