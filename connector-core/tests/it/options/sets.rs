//! Option sets that use every feature of the declaration.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use connector_core::{
    Secret, option_enum, option_set,
    options::{
        Epoch, HostList, MemorySize, Millis, Problems, PropertyMap, RegexList, Seconds, SettingsList, Sql,
    },
};
use jiff::{SignedDuration, tz::TimeZone};

option_enum! {
    /// What becomes of the water.
    pub enum Mode {
        /// It is kept.
        Keep = "keep",
        /// It is poured out.
        Pour = "pour" | "spill",
        /// It is boiled first.
        Boil = "BOIL_FIRST",
    }
}

option_set! {
    /// Options of the well source.
    pub struct WellSourceOptions, builder WellSourceOptionsBuilder {
        connector "well";
        role "source";
        dialect "DataSail";
        validate check_source;
        siblings [WellSinkOptions];
        entries { "job.reader.properties" => is_client_property; }
        refused {
            "job.reader.exactly_once" => "it is not supported yet";
            "job.reader.raw" => "the well has no raw options";
        }
        options {
            /// initial brokers
            "job.reader.bootstrap_servers" alias "job.reader.well_servers" deprecated "job.reader.brokers"
                => bootstrap_servers: HostList, required;
            /// comma list; each entry a name
            /// or a regular expression
            "job.reader.topics" => topics: RegexList, required, type_name "list<string>|regex";
            /// shared progress
            "job.reader.group_id" => group_id: String, optional, shown "generated";
            /// all splits
            "job.reader.start_offset" => start_offset: i64, default -1, min -1;
            /// inclusive
            "job.reader.end_offset" => end_offset: i64, optional;
            /// first record at or after
            "job.reader.start_timestamp" => start_timestamp: Epoch, default -1, allowed "10 digits s or 13 digits ms";
            /// suggested parallelism
            "job.reader.parallelism" => parallelism: u32, optional, min 1, max 64;
            /// extra columns
            "job.reader.columns" => columns: Vec<Mode>, optional;
            /// fields of the key
            "job.reader.key_fields" => key_fields: Vec<String>, optional;
            /// raw client properties
            "job.reader.properties" alias "job.reader.extra_raw_properties" => properties: PropertyMap, optional;
            /// where each table begins
            "job.reader.initial_offsets" => initial_offsets: BTreeMap<String, i64>, optional, type_name "map<db.table,long>";
            /// login
            "job.reader.password" => password: Secret, optional;
            /// nothing
            "job.reader.bucket_colour" => bucket_colour: String, optional, inert "buckets have no colour";
            /// dates
            "job.common.global_timezone" => global_timezone: TimeZone, optional, role "common", shown "system zone";
            /// names compare in lower case
            "job.common.ignore_case" => ignore_case: bool, default true, role "common";
        }
    }
}

fn is_client_property(name: &str) -> bool {
    name.contains('.') && !name.contains('_')
}

fn check_source(options: &WellSourceOptions, problems: &mut Problems) {
    if options.end_offset.is_some_and(|end| end < options.start_offset) {
        problems.push("job.reader.end_offset", "`end_offset` is before `start_offset`");
    }
    if options.start_offset >= 0 && !options.start_timestamp.is_unset() {
        problems
            .push("job.reader.start_timestamp", "`start_offset` and `start_timestamp` exclude each other");
    }
}

option_set! {
    /// Options of the well sink in the spelling of DataSail.
    pub struct WellSinkOptions, builder WellSinkOptionsBuilder {
        connector "well";
        role "sink";
        dialect "DataSail";
        siblings [WellSourceOptions];
        options {
            /// where to write
            "job.writer.topic_name" => topic_name: String, required;
            /// how often to try again
            "job.writer.retries" => retries: i32, default 10, min 0;
            /// wait for more
            "job.writer.linger_ms" => linger: Duration as Millis, default 5000, min 1;
            /// wait for a connection
            "job.writer.connect_timeout" => connect_timeout: Duration as Seconds, default 10, min 1;
            /// rows of a flush
            "job.writer.buffer_count" => buffer_count: usize, default 8192, min 1, type_name "rows";
            /// raw client properties
            "job.writer.properties" => properties: PropertyMap, optional;
            /// API token
            "job.writer.token" => token: Secret, optional;
            /// names compare in lower case
            "job.common.ignore_case" => ignore_case: bool, default true, role "common";
        }
    }
}

option_set! {
    /// Options of the well sink in the spelling of Flink CDC.
    pub struct WellPipelineOptions, builder WellPipelineOptionsBuilder {
        connector "well";
        role "sink";
        dialect "Flink CDC";
        constant "type" = "well";
        options {
            /// gateway
            "host" => host: String, required;
            /// login
            "api-token" => api_token: Secret, required;
            /// what to do
            "sink.mode" => mode: Mode, default "pour";
            /// time between two flushes
            "sink.buffer-flush.interval" => flush_interval: Duration, default "1s", min "200ms";
            /// memory between two flushes
            "sink.buffer-flush.size" => flush_size: u64 as MemorySize, default "64mb", max "1gb";
            /// share of the memory
            "sink.ratio" => ratio: f64, default 0.75, min 0, max 1;
            /// added to times
            "timestamp-offset" => timestamp_offset: SignedDuration, optional, allowed "may be negative";
            /// settings of the new table
            "table.create.settings" => create_settings: SettingsList, optional;
            /// when rows end
            "table.create.ttl" => create_ttl: String as Sql, optional;
            /// folder for big flushes
            "sink.tmpdir" => tmpdir: PathBuf, optional, shown "temporary directory";
        }
    }
}
