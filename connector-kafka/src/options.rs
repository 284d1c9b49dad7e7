//! The options of the source, declared once: keys, spellings, defaults, bounds and what each does.

use std::time::Duration;

use connector_core::{
    BadRecordPolicy, option_enum, option_set,
    options::{Epoch, HostList, MemorySize, Problems, PropertyMap, RegexList},
};
use jiff::tz::TimeZone;

use crate::{properties, source::discovery::TopicPattern};

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
        /// Debezium's change events.
        DebeziumJson = "debezium_json",
        /// Canal's change events.
        CanalJson = "canal_json",
        /// Maxwell's change events.
        MaxwellJson = "maxwell_json",
        /// Bytes as they are.
        Raw = "raw",
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
        refused {
            "job.reader.start_date" => "it is not available yet; use start_timestamp";
            "job.reader.end_date" => "it is not available yet; use end_timestamp";
            "job.reader.date_format" => "it is not available yet; use start_timestamp and end_timestamp";
            "job.reader.metadata_columns" => "it is not available yet";
            "job.reader.wait_poll_empty_times" => "it is not available yet";
            "job.reader.wait_poll_empty_interval" => "it is not available yet";
            "job.common.cdc_multiplex_record_case_insensitive" => "it is for the change formats, which are not available yet";
        }
        options {
            /// initial brokers
            "job.reader.bootstrap_servers" alias "job.reader.kafka_servers" => bootstrap_servers: HostList, required;
            /// comma list; each entry a name (letters, digits, `.`, `_`, `-`) or a regular expression matched against the whole name
            "job.reader.topics" => topics: RegexList, required, type_name "list<string>|regex";
            /// the group to which acknowledged offsets are committed; the default is made of the topics' names, so it is the same after a restart
            "job.reader.group_id" => group_id: String, optional, shown "generated";
            /// value format; only json is available yet
            "job.reader.format_type" alias "job.reader.content_type" => format_type: FormatType, default "json", allowed "json,csv and the change formats";
            /// one topic carries changes of several tables; not available yet
            "job.reader.use_multi_table_record" => use_multi_table_record: bool, default false;
            /// first offset of all partitions, moved into what the log has; wins over start_timestamp
            "job.reader.start_offset" => start_offset: i64, default -1;
            /// last offset of all partitions, itself included, moved into what the log has; ignored when unbounded
            "job.reader.end_offset" => end_offset: i64, default -1;
            /// only when start_offset is unset; first record at or after; none found: the end
            "job.reader.start_timestamp" => start_timestamp: Epoch, default -1, allowed "10 digits s or 13 digits ms";
            /// the read ends before the first record at or after; later than now, or not after the start: the start fails; ignored when unbounded
            "job.reader.end_timestamp" => end_timestamp: Epoch, default -1, allowed "10 digits s or 13 digits ms";
            /// how often to look for new partitions and topics, which then begin at their first record; -1: once; off when bounded
            "job.reader.discovery_interval_seconds" => discovery_interval_seconds: i64, default -1;
            /// suggested parallelism = ceil(partitions / n)
            "job.reader.max_partition_num_per_consumer" => max_partition_num_per_consumer: u32, default 1, min 1;
            /// set: wins over the suggestion
            "job.reader.reader_parallelism_num" => reader_parallelism_num: u32, optional, min 1;
            /// both values commit acknowledged offsets only, which is after the checkpoint was stored
            "job.reader.commit_in_checkpoint" => commit_in_checkpoint: bool, default false;
            /// raw client properties of librdkafka, highest priority; names of the Java client are translated where they mean the same
            "job.reader.properties" alias "job.reader.extra_raw_properties" => properties: PropertyMap, optional;
            /// where to begin when nothing else says it, and, where it is set, where to go on when an offset is gone; none: fail
            "job.reader.connector.auto_offset_reset" => auto_offset_reset: AutoOffsetReset, optional, shown "latest unbounded, earliest bounded";
            /// begin at the first record; start_offset and start_timestamp win over it
            "job.reader.read_from_earliest_offset" => read_from_earliest_offset: bool, default false;
            /// end where the partitions end when the read begins, also when job_type is STREAMING
            "job.reader.read_to_latest_offset" => read_to_latest_offset: bool, default false;
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
        if let Some(millis) = self.start_timestamp.millis() {
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
    if options.format_type != FormatType::Json {
        let text = format!("`format_type`: `{}` is not available yet; only json is", options.format_type);
        problems.push("job.reader.format_type", text);
    }
    if options.use_multi_table_record {
        let text = "`use_multi_table_record` is for the change formats, which are not available yet";
        problems.push("job.reader.use_multi_table_record", text);
    }
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
    if let (Some(start), Some(end)) = (options.start_timestamp.millis(), options.end_timestamp.millis())
        && end <= start
        && options.start_offset < 0
    {
        problems.push("job.reader.end_timestamp", "`end_timestamp` is not after `start_timestamp`");
    }
    for entry in options.topics.iter() {
        if let Err(e) = TopicPattern::parse(entry) {
            problems.push("job.reader.topics", e.message().to_owned());
        }
    }
    if let Some(map) = &options.properties {
        for (name, problem) in properties::problems(map) {
            problems.push(format!("job.reader.properties.{name}"), problem);
        }
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
        let own =
            ["bad_record_policy", "max_batch_rows", "max_batch_wait", "prefetch_bytes", "request_timeout"];
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
        let cases: [(Pairs, Option<StartupMode>); 10] = [
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
    fn contradictions_and_what_is_not_available_yet() {
        let cases: [(&[(&str, &str)], &str); 15] = [
            (&[("format_type", "csv")], "`csv` is not available yet"),
            (&[("content_type", "debezium_json")], "`debezium_json` is not available yet"),
            (&[("use_multi_table_record", "true")], "not available yet"),
            (&[("metadata_columns", "offset")], "not available yet"),
            (&[("start_date", "20260101000000")], "use start_timestamp"),
            (&[("wait_poll_empty_times", "3")], "not available yet"),
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
