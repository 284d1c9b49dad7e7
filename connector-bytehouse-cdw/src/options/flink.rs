//! The spelling of Flink CDC's YAML.

use std::time::Duration;

use connector_bytehouse_common::{
    native::EncodeRules,
    wire::{ClientOptions, Settings},
};
use connector_core::{
    BadRecordPolicy, Error, Result, Secret,
    batch::BatchPolicy,
    option_enum, option_set,
    options::{MemorySize, Problems, PropertyMap, SettingsList},
    retry::RetryPolicy,
};
use jiff::{SignedDuration, tz::TimeZone};

use super::{
    CompressionName, SinkModeName, connection,
    creation::{KeylessStrategy, check_settings},
    table,
};
use crate::{
    config::SinkConfig,
    sink::{BytehouseCdwSink, TableCreation},
};

option_enum! {
    /// Where the gateway's address comes from.
    pub enum Region {
        /// From `host` and `port`.
        VolcanoPrivate = "VOLCANO_PRIVATE",
    }
}

option_set! {
    /// Options of the sink in the spelling of Flink CDC's YAML, and a few of our own.
    pub struct BytehouseCdwSinkOptions, builder BytehouseCdwSinkOptionsBuilder {
        connector "bytehouse-cdw";
        role "sink";
        dialect "Flink CDC";
        validate check;
        constant "type" = "bytehouse-cdw";
        refused {
            "table-options" => "it belongs to a transform, one for each table: `Transform::table_options_list`";
        }
        options {
            /// A name for people; the server sees it as part of the client's name.
            "name" => name: String, optional;
            /// Where the gateway's address comes from; the only value takes `host` and `port`.
            "region" => region: Region, default "VOLCANO_PRIVATE";
            /// The gateway's host name.
            "host" => host: String, required;
            /// The gateway's native port.
            "port" => port: u16, default 19000;
            /// The compute group, sent with every query.
            "virtual-warehouse" => virtual_warehouse: String, required;
            /// The API token, taken as it is.
            "api-token" => api_token: Secret, required;
            /// Which rows are taken and what becomes of them.
            "sink.mode" => mode: SinkModeName, default "upsert";
            /// The longest time that a row waits for its flush.
            "sink.buffer-flush.interval" => flush_interval: Duration, default "1s", min "200ms";
            /// Rows that make a flush.
            "sink.buffer-flush.max-rows" => flush_max_rows: usize, default 50000, min 100, type_name "int";
            /// Tries after the first one; -1 is without end.
            "sink.max-retries" => max_retries: i32, default 15, min -1;
            /// The longest wait between tries: 1s, 2s, 4s … up to this.
            "jdbc.max-retry-backoff" => max_retry_backoff: Duration, default "32s", min "1s";
            /// Added to timestamps without a zone.
            "timestamp-offset" => timestamp_offset: SignedDuration, optional, type_name "duration", allowed "may be negative";
            /// One table, as `database.table`, for all rows; without it rows go to the tables they name.
            "table" => table: String, optional;
            /// Key columns in upsert mode, where they are not those of the table.
            "sink.unique-keys" => unique_keys: Vec<String>, optional, shown "the table's key";
            /// SETTINGS of created tables: name=value,name='text'; a transform's `table-options` go before.
            "table.create.settings" => create_settings: SettingsList, optional;
            /// Creates a table, and its database, that is announced and not there.
            "table.create.enabled" => create_tables: bool, default true;
            /// In upsert modes, for a table without a key upstream: SKIP drops its rows (counted and logged), CREATE_AS_APPEND appends.
            "table.create.without-primary-key" => keyless: KeylessStrategy, default "CREATE_AS_APPEND";
            /// Bytes of rows in memory: those that wait, and those of the INSERTs in flight, have an equal share each.
            "sink.buffer-flush.max-bytes" => flush_max_bytes: u64 as MemorySize, default "128mb", min "1kb";
            /// What happens to a row that its table cannot hold.
            "sink.bad-record-policy" => bad_record_policy: BadRecordPolicy, default "fail";
            /// Drops digits that a decimal or time column has no room for, toward the past.
            "sink.round-down" => round_down: bool, default false;
            /// Moves times outside a column's range to its nearest limit.
            "sink.clamp-times" => clamp_times: bool, default false;
            /// Writes the type's default for null into a column that is not nullable.
            "sink.null-as-default" => null_as_default: bool, default false;
            /// Writes null for a value that its nullable column cannot hold; counted.
            "sink.invalid-as-null" => invalid_as_null: bool, default false;
            /// True: columns that the rows do not bring keep their values, which the table must allow. False: they get their defaults.
            "sink.partial-update" => partial_update: bool, optional, shown "as the table says";
            /// INSERTs that wait for their confirmation at the same time; one per table in modes with keys.
            "sink.max-in-flight" => max_in_flight: usize, default 2, min 1, max 64, type_name "int";
            /// Every INSERT carries a label of its own, by which ByteHouse may recognise a repeated one.
            "sink.insertion-label" => insertion_label: bool, default false;
            /// The zone of timestamps without one.
            "time-zone" => time_zone: TimeZone, optional, type_name "iana zone", shown "UTC";
            /// Column names compare in lower case where no column has the exact name.
            "case-insensitive" => case_insensitive: bool, default true;
            /// TLS.
            "secure" => secure: bool, default true;
            /// False for an open-source ClickHouse: its SQL and engines, no compute group.
            "cnch-engine" => cnch_engine: bool, default true;
            /// user, password, database, sslmode, sslrootcert, sslcert, sslkey, server_name, connect_timeout and socket_timeout (ms).
            "connection-properties" => connection_properties: PropertyMap, default "{}", shown "";
            /// Settings of every INSERT.
            "query.settings" => query_settings: SettingsList, default "";
            /// Most partitions that one block may touch.
            "max-partitions-per-insert-block" => max_partitions: u32, default 10000, min 1;
            /// How blocks are compressed on the wire.
            "compression" => compression: CompressionName, default "none";
            /// The longest time that a query may take; then it is cancelled.
            "query-timeout" => query_timeout: Duration, default "180s", min "1ms";
            /// The longest wait for the ping that checks a connection before it is used.
            "connection-validity-timeout" => connection_validity_timeout: Duration, default "10s", min "1s";
            /// The protocol revision that we announce; 54406 for old gateways.
            "protocol-revision" => protocol_revision: u64, default 54448, min 54058, max 54451;
        }
    }
}

fn check(options: &BytehouseCdwSinkOptions, problems: &mut Problems) {
    connection::check("connection-properties", &options.connection_properties, options.secure, problems);
    super::check_keys("sink.unique-keys", options.unique_keys.as_ref(), options.mode.into(), problems);
    let settings = options.query_settings.iter().map(|s| (s.name.as_str(), s.value.as_str()));
    super::check_settings("query.settings", settings, problems);
    if let Some(settings) = &options.create_settings {
        check_settings("table.create.settings", settings, problems);
    }
    if let Some(name) = &options.table
        && let Err(error) = table("table", name)
    {
        problems.push("table", error.message());
    }
}

impl TryFrom<BytehouseCdwSinkOptions> for BytehouseCdwSink {
    type Error = Error;

    fn try_from(options: BytehouseCdwSinkOptions) -> Result<Self> {
        let mut client = ClientOptions::new(options.host, options.port);
        client.user = if options.cnch_engine { "bytehouse" } else { "default" }.to_owned();
        client.password = options.api_token;
        client.compression = options.compression.into();
        client.query_timeout = Some(options.query_timeout);
        client.revision = options.protocol_revision;
        if let Some(name) = &options.name {
            client.client_name = format!("{} {name}", client.client_name);
        }
        connection::apply(&mut client, &options.connection_properties, options.secure)?;
        if options.cnch_engine {
            client.settings.set("virtual_warehouse", &options.virtual_warehouse);
        }
        let mut insert_settings = Settings::new();
        insert_settings.set("max_partitions_per_insert_block", options.max_partitions);
        for setting in options.query_settings.iter() {
            insert_settings.set(&setting.name, &setting.value);
        }
        let max_retries = usize::try_from(options.max_retries).ok();
        Ok(Self::new(SinkConfig {
            client,
            table: options.table.map(|name| table("table", &name)).transpose()?,
            mode: options.mode.into(),
            unique_keys: options.unique_keys.unwrap_or_default(),
            partial_update: options.partial_update,
            cnch_engine: options.cnch_engine,
            flush: BatchPolicy {
                max_rows: options.flush_max_rows,
                max_bytes: usize::try_from(options.flush_max_bytes).unwrap_or(usize::MAX),
                max_interval: options.flush_interval,
            },
            max_in_flight: options.max_in_flight,
            retry: RetryPolicy {
                max_retries,
                min_backoff: Duration::from_secs(1),
                max_backoff: options.max_retry_backoff,
            },
            insert_settings,
            insertion_label: options.insertion_label,
            creation: TableCreation {
                enabled: options.create_tables,
                order_by: Vec::new(),
                partition_by: Vec::new(),
                cluster_by: Vec::new(),
                buckets: None,
                sample_by: None,
                ttl: None,
                settings: options.create_settings.unwrap_or_default(),
                keyless: options.keyless.into(),
            },
            atomic: None,
            case_insensitive: options.case_insensitive,
            rules: EncodeRules {
                round_down: options.round_down,
                clamp_times: options.clamp_times,
                null_as_default: options.null_as_default,
                timestamp_offset: options.timestamp_offset,
                time_zone: options.time_zone,
            },
            invalid_as_null: options.invalid_as_null,
            bad_records: options.bad_record_policy,
            validity_timeout: options.connection_validity_timeout,
        }))
    }
}
