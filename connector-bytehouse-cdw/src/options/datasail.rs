//! The spelling of DataSail: `job.writer.*`.

use std::time::Duration;

use connector_bytehouse_common::{
    native::EncodeRules,
    wire::{ClientOptions, Settings},
};
use connector_core::{
    BadRecordPolicy, Error, Result, Secret, TableId,
    batch::BatchPolicy,
    option_enum, option_set,
    options::{MemorySize, Millis, Problems, PropertyMap, Seconds, SettingsList},
    retry::RetryPolicy,
};
use jiff::tz::TimeZone;

use super::{
    CompressionName, connection,
    creation::{KeylessStrategy, check_buckets, check_settings},
};
use crate::{
    config::{SinkConfig, SinkMode},
    sink::{AtomicWrite, BytehouseCdwSink, TableCreation},
};

option_enum! {
    /// `job.writer.write_mode`
    pub enum WriteMode {
        /// `+I` rows are appended.
        Insert = "INSERT",
        /// Rows replace or delete the row of their key.
        Upsert = "UPSERT",
    }
}

option_enum! {
    /// `job.common.job_type`
    pub enum JobType {
        /// Runs until it is stopped.
        Streaming = "STREAMING",
        /// Runs until its source ends.
        Batch = "BATCH",
    }
}

option_set! {
    /// Options of the sink in the spelling of DataSail, and a few of our own.
    pub struct BytehouseCdwWriterOptions, builder BytehouseCdwWriterOptionsBuilder {
        connector "bytehouse-cdw";
        role "sink";
        dialect "DataSail";
        validate check;
        refused {
            "job.common.is_merge_job" => "this version does not have the day roll; leave the option out";
            "job.writer.init_with_previous_partition" => "this version does not have the day roll; leave the option out";
            "job.writer.event_time_partition_column_name" => "this version does not have the day roll; leave the option out";
            "job.common.time_unit" => "this version does not have the day roll; leave the option out";
            "job.common.start_event_timestamp" => "this version does not have the day roll; leave the option out";
        }
        options {
            /// BATCH: the source ends. Says the same to source and sink.
            "job.common.job_type" => job_type: JobType, default "STREAMING", role "common";
            /// The zone of every date and time without one; held in the job, never in the process environment.
            "job.common.global_timezone" => global_timezone: TimeZone, optional, type_name "iana zone", shown "system zone", role "common";
            /// Database, table and column names compare in lower case.
            "job.common.cdc_multiplex_record_case_insensitive" => case_insensitive: bool, default true, role "common";
            /// The gateway's host name.
            "job.writer.host" => host: String, required;
            /// The gateway's native port.
            "job.writer.port" => port: u16, default 19000;
            /// The API token, taken as it is.
            "job.writer.token" => token: Secret, required;
            /// The compute group, sent with every query.
            "job.writer.virtual_warehouse" => virtual_warehouse: String, required;
            /// The target's database.
            "job.writer.db_name" => db_name: String, required;
            /// The target table.
            "job.writer.table_name" => table_name: String, required;
            /// Rows that make a flush.
            "job.writer.buffer_count" => buffer_count: usize, default 8192, min 1, type_name "rows";
            /// The longest time that a row waits for its flush.
            "job.writer.flush_interval" => flush_interval: Duration as Millis, default 60000, min 1;
            /// The longest wait for the ping that checks a connection before it is used; a dead one is replaced.
            "job.writer.connection_validity_timeout" => connection_validity_timeout: Duration as Seconds, default 10, min 1;
            /// Most partitions that one block may touch; sent as a setting.
            "job.writer.max_partitions_per_insert_block" => max_partitions_per_insert_block: u32, default 10000, min 1;
            /// The longest time that a query may take; then it is cancelled.
            "job.writer.query_timeout" => query_timeout: Duration as Millis, default 180000, min 1;
            /// TLS.
            "job.writer.secure" => secure: bool, default true;
            /// False for an open-source ClickHouse: its SQL and engines, no compute group.
            "job.writer.cnch_engine" => cnch_engine: bool, default true;
            /// user, password, database, sslmode, sslrootcert, sslcert, sslkey, server_name, connect_timeout and socket_timeout (ms).
            "job.writer.bh_connection_properties" => bh_connection_properties: PropertyMap, default "{}", shown "";
            /// Settings of every INSERT; never in a log unmasked.
            "job.writer.session_properties" => session_properties: PropertyMap, default "{}", shown "";
            /// INSERT appends; UPSERT replaces and deletes by key.
            "job.writer.write_mode" => write_mode: WriteMode, default "INSERT";
            /// With BATCH: rows go to a temporary table, whose partitions move to the target once all are written. Ignored in STREAMING.
            "job.writer.atomic_write" => atomic_write: bool, default false;
            /// Further tries of the commit, after errors that may pass.
            "job.writer.atomic_write_retry_limits" => atomic_retry_limits: usize, default 30, min 0, type_name "int";
            /// The wait between tries of the commit.
            "job.writer.atomic_write_retry_wait_millis" => atomic_retry_wait: Duration as Millis, default 10000, min 0;
            /// The batch's partitions take the place of the target's, instead of being added to them.
            "job.writer.atomic_write_replace_partitions" => atomic_replace: bool, default false;
            /// Temporary tables that other jobs left are dropped when they are older than this.
            "job.writer.atomic_write_leftover_age" => atomic_leftover_age: Duration, default "7d";
            /// Columns of ORDER BY of a created table; the key where none are named.
            "job.writer.ddl_create_table_order_by_fields" => order_by: Vec<String>, optional;
            /// Columns of PARTITION BY of a created table.
            "job.writer.ddl_create_table_partition_by_fields" => partition_by: Vec<String>, optional;
            /// Columns of CLUSTER BY of a created table.
            "job.writer.ddl_create_table_cluster_by_fields" => cluster_by: Vec<String>, optional;
            /// How many buckets `ddl_create_table_cluster_by_fields` makes.
            "job.writer.ddl_create_table_buckets" => buckets: u32, optional, type_name "int";
            /// SAMPLE BY of a created table.
            "job.writer.ddl_create_table_sample_by_expression" => sample_by: String, optional, type_name "sql";
            /// TTL of a created table.
            "job.writer.ddl_create_table_ttl_expression" => ttl: String, optional, type_name "sql";
            /// SETTINGS of a created table; those that come with a table go before.
            "job.writer.ddl_create_table_settings" => create_settings: SettingsList, optional, type_name "map";
            /// In UPSERT, for a table without a key upstream: SKIP drops its rows (counted and logged), CREATE_AS_APPEND appends.
            "job.writer.table_without_primary_key_strategy" => keyless: KeylessStrategy, default "SKIP";
            /// Creates a table, and its database, that is announced and not there.
            "job.writer.ddl_create_table_enabled" => create_tables: bool, default true;
            /// Key columns in UPSERT, where they are not those of the table; UPSERT without both fails at the start.
            "job.writer.unique_keys" => unique_keys: Vec<String>, optional, shown "catalog key";
            /// Bytes of rows in memory: those that wait, and those of the INSERTs in flight, have an equal share each.
            "job.writer.buffer_bytes" => buffer_bytes: u64 as MemorySize, default "128mb", min "1kb";
            /// What happens to a row that its table cannot hold.
            "job.writer.bad_record_policy" => bad_record_policy: BadRecordPolicy, default "fail";
            /// Drops digits that a decimal or time column has no room for, toward the past.
            "job.writer.round_down" => round_down: bool, default false;
            /// Moves times outside a column's range to its nearest limit.
            "job.writer.clamp_times" => clamp_times: bool, default false;
            /// Writes the type's default for null into a column that is not nullable.
            "job.writer.null_as_default" => null_as_default: bool, default false;
            /// Writes null for a value that its nullable column cannot hold; counted.
            "job.writer.invalid_as_null" => invalid_as_null: bool, default false;
            /// True: columns that the rows do not bring keep their values, which the table must allow. False: they get their defaults.
            "job.writer.partial_update" => partial_update: bool, optional, shown "as the table says";
            /// INSERTs that wait for their confirmation at the same time; one in UPSERT.
            "job.writer.max_in_flight" => max_in_flight: usize, default 2, min 1, max 64, type_name "int";
            /// Every INSERT carries a label of its own, by which ByteHouse may recognise a repeated one.
            "job.writer.insertion_label" => insertion_label: bool, default false;
            /// How blocks are compressed on the wire.
            "job.writer.compression" => compression: CompressionName, default "none";
            /// The protocol revision that we announce; 54406 for old gateways.
            "job.writer.protocol_revision" => protocol_revision: u64, default 54448, min 54058, max 54451;
        }
    }
}

fn check(options: &BytehouseCdwWriterOptions, problems: &mut Problems) {
    let properties = &options.bh_connection_properties;
    connection::check("job.writer.bh_connection_properties", properties, options.secure, problems);
    check_buckets(options.cluster_by.as_ref(), options.buckets, options.cnch_engine, problems);
    if let Some(settings) = &options.create_settings {
        check_settings("job.writer.ddl_create_table_settings", settings, problems);
    }
    let mode = options.write_mode.into();
    super::check_keys("job.writer.unique_keys", options.unique_keys.as_ref(), mode, problems);
    super::check_settings("job.writer.session_properties", options.session_properties.iter(), problems);
}

impl From<WriteMode> for SinkMode {
    fn from(mode: WriteMode) -> Self {
        match mode {
            WriteMode::Insert => Self::Insert,
            WriteMode::Upsert => Self::Upsert,
        }
    }
}

impl TryFrom<BytehouseCdwWriterOptions> for BytehouseCdwSink {
    type Error = Error;

    fn try_from(options: BytehouseCdwWriterOptions) -> Result<Self> {
        let atomic = options.atomic_write && options.job_type == JobType::Batch;
        if options.atomic_write && !atomic {
            tracing::warn!("`job.writer.atomic_write` has no effect with `job.common.job_type` STREAMING");
        }
        let mut client = ClientOptions::new(options.host, options.port);
        client.user = if options.cnch_engine { "bytehouse" } else { "default" }.to_owned();
        client.password = options.token;
        client.compression = options.compression.into();
        client.query_timeout = Some(options.query_timeout);
        client.revision = options.protocol_revision;
        connection::apply(&mut client, &options.bh_connection_properties, options.secure)?;
        if options.cnch_engine {
            client.settings.set("virtual_warehouse", &options.virtual_warehouse);
        }
        let mut insert_settings = Settings::new();
        insert_settings.set("max_partitions_per_insert_block", options.max_partitions_per_insert_block);
        for (name, value) in options.session_properties.iter() {
            insert_settings.set(name, value);
        }
        Ok(Self::new(SinkConfig {
            client,
            table: Some(TableId::new(options.db_name, options.table_name)),
            mode: options.write_mode.into(),
            unique_keys: options.unique_keys.unwrap_or_default(),
            partial_update: options.partial_update,
            cnch_engine: options.cnch_engine,
            flush: BatchPolicy {
                max_rows: options.buffer_count,
                max_bytes: usize::try_from(options.buffer_bytes).unwrap_or(usize::MAX),
                max_interval: options.flush_interval,
            },
            max_in_flight: options.max_in_flight,
            retry: RetryPolicy::default(),
            insert_settings,
            insertion_label: options.insertion_label,
            creation: TableCreation {
                enabled: options.create_tables,
                order_by: options.order_by.unwrap_or_default(),
                partition_by: options.partition_by.unwrap_or_default(),
                cluster_by: options.cluster_by.unwrap_or_default(),
                buckets: options.buckets,
                sample_by: options.sample_by,
                ttl: options.ttl,
                settings: options.create_settings.unwrap_or_default(),
                keyless: options.keyless.into(),
            },
            atomic: atomic.then_some(AtomicWrite {
                retry_limits: options.atomic_retry_limits,
                retry_wait: options.atomic_retry_wait,
                replace: options.atomic_replace,
                leftover_age: options.atomic_leftover_age,
            }),
            case_insensitive: options.case_insensitive,
            rules: EncodeRules {
                round_down: options.round_down,
                clamp_times: options.clamp_times,
                null_as_default: options.null_as_default,
                timestamp_offset: None,
                time_zone: Some(options.global_timezone.unwrap_or_else(TimeZone::system)),
            },
            invalid_as_null: options.invalid_as_null,
            bad_records: options.bad_record_policy,
            validity_timeout: options.connection_validity_timeout,
        }))
    }
}
