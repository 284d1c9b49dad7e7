//! The options, declared once: keys, defaults, bounds and what each does.
//!
//! As in Fluss's Flink connector there is one map for a table: what it is stored like, how it is read, written and
//! looked up, and how the cluster is reached. See [`FlussOptions`].

mod check;
mod stored;
mod values;

use std::{path::PathBuf, sync::Once, time::Duration};

use connector_core::{
    Result, TableId, option_enum, option_set,
    options::{HostList, MemorySize, RawOptions, RawValue, Secret},
};
use jiff::{SignedDuration, tz::TimeZone};

pub(crate) use self::stored::{Given, persisted, table_properties};
pub use self::values::{StartTime, Ttl};

option_enum! {
    /// Where a read begins that no checkpoint knows.
    pub enum StartupMode {
        /// With all rows of the table as they are, and then with its changes. On a log table: the first row.
        Full = "full",
        /// At the first change that the log still has.
        Earliest = "earliest",
        /// At the end: only what is written later.
        Latest = "latest",
        /// At the first change of `scan.startup.timestamp` or later.
        Timestamp = "timestamp",
    }
}

option_enum! {
    /// What happens when the log no longer has the offset of a checkpoint.
    pub enum OffsetReset {
        /// It is an error.
        None = "none",
        /// Reading goes on at the first change that the log still has.
        Earliest = "earliest",
        /// Reading goes on at the end.
        Latest = "latest",
    }
}

option_enum! {
    /// The period of automatic partitions.
    pub enum PartitionUnit {
        /// `yyyy`
        Year = "YEAR",
        /// `yyyyQ`
        Quarter = "QUARTER",
        /// `yyyyMM`
        Month = "MONTH",
        /// `yyyyMMdd`
        Day = "DAY",
        /// `yyyyMMddHH`
        Hour = "HOUR",
    }
}

option_enum! {
    /// How a log is stored.
    pub enum LogFormat {
        /// Columns.
        Arrow = "ARROW",
        /// Rows; the client cannot write or read it.
        Indexed = "INDEXED",
    }
}

option_enum! {
    /// How the rows of a primary-key table are stored.
    pub enum KvFormat {
        /// Small.
        Compacted = "COMPACTED",
        /// With quick access to fields; the client cannot write or read it.
        Indexed = "INDEXED",
    }
}

option_enum! {
    /// How a log is compressed.
    pub enum LogCompression {
        /// Not at all.
        None = "NONE",
        /// LZ4 frames.
        Lz4Frame = "LZ4_FRAME",
        /// Zstandard.
        Zstd = "ZSTD",
    }
}

option_enum! {
    /// The lake that tables are tiered to.
    pub enum LakeFormat {
        /// Apache Paimon.
        Paimon = "paimon",
    }
}

option_enum! {
    /// What becomes of two rows of one key.
    pub enum MergeEngine {
        /// The first one stays.
        FirstRow = "first_row",
        /// The one of the highest version stays.
        Versioned = "versioned",
        /// They are aggregated.
        Aggregation = "aggregation",
    }
}

option_enum! {
    /// What the changelog of a primary-key table holds.
    pub enum ChangelogImage {
        /// Updates with the row before and the row after.
        Full = "FULL",
        /// Updates with the row after only.
        Wal = "WAL",
    }
}

option_enum! {
    /// What becomes of a delete.
    pub enum DeleteBehavior {
        /// The row goes.
        Allow = "ALLOW",
        /// Nothing.
        Ignore = "IGNORE",
        /// It is an error.
        Disable = "DISABLE",
    }
}

option_enum! {
    /// Where rows without a bucket key go.
    pub enum NoKeyAssigner {
        /// To one bucket until a batch is full, then to another.
        Sticky = "STICKY",
        /// To one after the other.
        RoundRobin = "ROUND_ROBIN",
    }
}

option_enum! {
    /// Whose confirmation a write waits for.
    pub enum Acks {
        /// That of all replicas in sync.
        All = "all" | "-1",
        /// That of the leader.
        Leader = "1",
        /// Nobody's.
        Nobody = "0",
    }
}

option_enum! {
    /// Which chain's connection a row goes through.
    pub enum DistributionMode {
        /// `BUCKET` for tables with a bucket key, else `NONE`.
        Auto = "AUTO",
        /// That of the chain that wrote it.
        None = "NONE",
        /// That of its bucket: one connection writes all rows of a bucket.
        Bucket = "BUCKET",
        /// That of its partition; heavy partitions are spread over several.
        PartitionDynamic = "PARTITION_DYNAMIC",
    }
}

option_enum! {
    /// Whether lookups are cached.
    pub enum LookupCache {
        /// They are not.
        None = "NONE",
        /// What was looked up is kept for a while.
        Partial = "PARTIAL",
    }
}

option_enum! {
    /// How a client says who it is.
    pub enum SecurityProtocol {
        /// Not at all.
        Plaintext = "PLAINTEXT",
        /// By a user's name and password.
        Sasl = "SASL",
    }
}

option_enum! {
    /// The SASL mechanism.
    pub enum SaslMechanism {
        /// Name and password.
        Plain = "PLAIN",
    }
}

option_set! {
    /// The options of a table: storage, reading, writing, lookup and client.
    ///
    /// What was given with CREATE TABLE is stored with the table. Options given for a use (what SQL calls hints) win over
    /// stored ones; options of the role `table` cannot be given for a use, because they say how the table is stored.
    pub struct FlussOptions, builder FlussOptionsBuilder {
        connector "fluss";
        role "table";
        validate check::check;
        refused {
            "client.security.sasl.jaas.config" => "give `client.security.sasl.username` and `client.security.sasl.password` instead";
            "client.security.tls.enabled" => "the client has no TLS: put a tunnel or a service mesh between it and the cluster";
            "table.auto-increment.cache-size" => "it is called `table.auto-inc.batch-size` here";
            "properties.client.id" => "it is called `client.id` here";
        }
        options {
            /// how many buckets the table, or each of its partitions, has
            "bucket.num" => bucket_num: i32, optional, min "1", shown "1";
            /// the columns whose hash chooses the bucket
            "bucket.key" => bucket_key: Vec<String>, optional, allowed "subset of the primary key without partition keys";
            /// how long the log is kept
            "table.log.ttl" => log_ttl: Ttl, optional, shown "7d", allowed "-1: never";
            /// the server makes and drops partitions by itself
            "table.auto-partition.enabled" => auto_partition_enabled: bool, optional, shown "false";
            /// the period of such a partition
            "table.auto-partition.time-unit" => auto_partition_time_unit: PartitionUnit, optional, shown "DAY";
            /// how many are there ahead of time, the current one included
            "table.auto-partition.num-precreate" => auto_partition_num_precreate: i32, optional, shown "2";
            /// how many old ones stay
            "table.auto-partition.num-retention" => auto_partition_num_retention: i32, optional, shown "7";
            /// in which zone a period begins; unset, the server's own
            "table.auto-partition.time-zone" => auto_partition_time_zone: TimeZone, optional, shown "system zone";
            /// copies of each bucket; unset, the cluster's default
            "table.replication.factor" => replication_factor: i32, optional, min "1", allowed ">=1 and not above the number of tablet servers";
            /// INDEXED is refused: the client would write what nobody can read
            "table.log.format" => log_format: LogFormat, optional, shown "ARROW";
            /// how the log is compressed
            "table.log.arrow.compression.type" => log_compression: LogCompression, optional, shown "ZSTD";
            /// tables of another level than 3 can be read, and not written by this client
            "table.log.arrow.compression.zstd.level" => log_zstd_level: i32, optional, min "1", max "22", shown "3";
            /// columns to keep statistics of, so that servers can skip batches
            "table.statistics.columns" => statistics_columns: Vec<String>, optional;
            /// INDEXED is refused: the client can neither write nor read it
            "table.kv.format" => kv_format: KvFormat, optional, shown "COMPACTED";
            /// log segments that stay on a server when older ones have moved to remote storage
            "table.log.tiered.local-segments" => log_tiered_local_segments: i32, optional, shown "2", min "1", allowed ">0";
            /// tiers the table to the cluster's lake; rows that are only in the lake are not read
            "table.datalake.enabled" => datalake_enabled: bool, optional, shown "false";
            /// the lake whose hash and key encoding the table uses
            "table.datalake.format" => datalake_format: LakeFormat, optional;
            /// what becomes of two rows of one key; unset, the last one stays
            "table.merge-engine" => merge_engine: MergeEngine, optional;
            /// the column that holds the version
            "table.merge-engine.versioned.ver-column" => version_column: String, optional, allowed "needed with versioned";
            /// how long segments stay on a server
            "table.log.local-ttl" => log_local_ttl: Duration, optional, allowed "<= table.log.ttl; 0ms: off";
            /// how keys are encoded; unset, the coordinator chooses
            "table.kv.format-version" => kv_format_version: i32, optional, min "1", max "2", allowed "1,2";
            /// whether the changelog has the rows before updates; primary-key tables only
            "table.changelog.image" => changelog_image: ChangelogImage, optional, shown "FULL";
            /// what becomes of deletes; primary-key tables only
            "table.delete.behavior" => delete_behavior: DeleteBehavior, optional, shown "ALLOW";
            /// how many ids of an auto-increment column a server takes at once; servers call it table.auto-increment.cache-size
            "table.auto-inc.batch-size" => auto_inc_batch_size: i64, optional, min "1", shown "100000";
            /// tiering compacts the lake's files
            "table.datalake.auto-compaction" => datalake_auto_compaction: bool, optional, shown "false";
            /// tiering expires the lake's snapshots
            "table.datalake.auto-expire-snapshot" => datalake_auto_expire_snapshot: bool, optional, shown "false";
            /// lookups of partitions that are only in the lake: stored for other clients, not done by this one
            "table.datalake.historical-partition.enabled" => datalake_historical_partition_enabled: bool, optional, shown "false";

            /// where a read begins that no checkpoint knows
            "scan.startup.mode" => startup_mode: StartupMode, default "full", role "source";
            /// begin at the first change of that time; a time of day is one of the option time-zone
            "scan.startup.timestamp" => startup_timestamp: StartTime, optional, role "source";
            /// how often to look for new and dropped partitions
            "scan.partition.discovery.interval" => partition_discovery_interval: SignedDuration, default "10s", role "source", allowed "negative: off";
            /// true: a warning says once that the client does not verify checksums
            "client.scanner.log.check-crc" => check_crc: bool, default "true", role "source";
            /// most change rows of one poll; batches of log tables come whole
            "client.scanner.log.max-poll-records" => max_poll_records: i32, default "500", role "source";
            /// most bytes of one answer
            "client.scanner.log.fetch.max-bytes" => fetch_max_bytes: u64 as MemorySize, default "16mb", role "source";
            /// most bytes of one bucket in an answer
            "client.scanner.log.fetch.max-bytes-for-bucket" => fetch_max_bytes_for_bucket: u64 as MemorySize, default "1mb", role "source";
            /// an answer waits until it has so many bytes …
            "client.scanner.log.fetch.min-bytes" => fetch_min_bytes: u64 as MemorySize, default "1b", role "source";
            /// … or until so much time has passed
            "client.scanner.log.fetch.wait-max-time" => fetch_wait_max_time: Duration, default "500ms", role "source";
            /// where the client keeps files it has downloaded
            "client.scanner.io.tmpdir" => io_tmpdir: PathBuf, optional, role "source", shown "temporary directory + /fluss", inert "the client uses the temporary directory of the process (the variable TMPDIR)";
            /// segments of remote storage that are fetched ahead
            "client.scanner.remote-log.prefetch-num" => remote_log_prefetch_num: i32, default "4", role "source";
            /// downloads at the same time
            "client.remote-file.download-thread-num" => remote_file_download_thread_num: i32, default "3", role "source";
            /// the lease that keeps a KV snapshot
            "scan.kv.snapshot.lease.id" => snapshot_lease_id: String, optional, role "source", shown "random UUID", inert "rows are read through the servers and not from snapshot files, so there is nothing to keep";
            /// how long the lease lasts
            "scan.kv.snapshot.lease.duration" => snapshot_lease_duration: Duration, optional, role "source", shown "1day", inert "rows are read through the servers and not from snapshot files, so there is nothing to keep";
            /// the read ends where the table ends when its splits are found (an option of this crate)
            "scan.bounded" => scan_bounded: bool, default "false", role "source";
            /// columns to read, in this order; unset: all (an option of this crate)
            "scan.columns" => scan_columns: Vec<String>, optional, role "source";
            /// most rows of a bucket that a full read of a primary-key table keeps in memory (an option of this crate)
            "scan.snapshot.max-rows" => snapshot_max_rows: i32, default "5000000", min "1", role "source";
            /// most rows of a batch of a full read (an option of this crate)
            "scan.max-batch-rows" => max_batch_rows: u32, default "65536", min "1", role "source";
            /// where reading goes on when the log no longer has the offset of a checkpoint (an option of this crate)
            "scan.offset-reset" => offset_reset: OffsetReset, default "none", role "source";
            /// the zone of scan.startup.timestamp; unset: that of the system (an option of this crate)
            "time-zone" => time_zone: TimeZone, optional, role "source", shown "system zone";

            /// leaves out deletes and rows before updates
            "sink.ignore-delete" => ignore_delete: bool, default "false", role "sink";
            /// sink.distribution-mode of old: true is AUTO, false is NONE
            "sink.bucket-shuffle" => bucket_shuffle: bool, default "true", role "sink";
            /// memory of rows that are not confirmed yet
            "client.writer.buffer.memory-size" => buffer_memory_size: u64 as MemorySize, default "64mb", role "sink";
            /// most bytes of a batch
            "client.writer.batch-size" => batch_size: u64 as MemorySize, default "2mb", role "sink";
            /// how long a write waits for memory; never longer than sink.flush-timeout
            "client.writer.buffer.wait-timeout" => buffer_wait_timeout: Duration, optional, role "sink", shown "2^63-1 ns";
            /// how long a batch waits for more rows
            "client.writer.batch-timeout" => batch_timeout: Duration, default "100ms", role "sink";
            /// where rows without a bucket key go
            "client.writer.bucket.no-key-assigner" => no_key_assigner: NoKeyAssigner, default "STICKY", role "sink";
            /// whose confirmation a write waits for; 1 and 0 need client.writer.enable-idempotence=false
            "client.writer.acks" => acks: Acks, default "all", role "sink";
            /// most bytes of a request
            "client.writer.request-max-size" => request_max_size: u64 as MemorySize, default "10mb", role "sink";
            /// tries after the first one
            "client.writer.retries" => writer_retries: i32, default "2147483647", role "sink";
            /// servers recognise a batch that comes again
            "client.writer.enable-idempotence" => enable_idempotence: bool, default "true", role "sink";
            /// requests of a bucket that wait for their answer
            "client.writer.max-inflight-requests-per-bucket" => max_inflight_requests_per_bucket: i32, default "5", role "sink";
            /// twice this is the least size of a dynamic batch; this client's buffer has no pages
            "client.writer.buffer.page-size" => buffer_page_size: u64 as MemorySize, default "128kb", role "sink";
            /// memory that is taken at once
            "client.writer.buffer.per-request-memory-size" => buffer_per_request_memory_size: u64 as MemorySize, default "16mb", role "sink", inert "this client takes memory batch by batch";
            /// the size of batches follows what is written
            "client.writer.dynamic-batch-size.enabled" => dynamic_batch_size_enabled: bool, default "true", role "sink";
            /// which chain's connection a row goes through
            "sink.distribution-mode" => distribution_mode: DistributionMode, default "AUTO", role "sink";
            /// makes partitions that rows need and that are not there (an option of this crate)
            "client.writer.dynamic-create-partition.enabled" => dynamic_create_partition: bool, default "true", role "sink";
            /// columns that the rows do not have keep their values; else such rows are an error (an option of this crate)
            "sink.partial-update" => partial_update: bool, default "false", role "sink";
            /// the longest time of a flush, and of a write that waits for memory (an option of this crate)
            "sink.flush-timeout" => flush_timeout: Duration, default "2min", min "1s", role "sink";
            /// every table must have a primary key, so that a repeated row changes nothing (an option of this crate)
            "sink.require-primary-key" => require_primary_key: bool, default "false", role "sink";
            /// creates a table, and its database, that is announced and not there (an option of this crate)
            "sink.create-table" => create_table: bool, default "true", role "sink";

            /// many lookups at a time, else one after the other
            "lookup.async" => lookup_async: bool, default "true", role "lookup";
            /// a key that is not there is written with nulls in its other columns, and found
            "lookup.insert-if-not-exists" => insert_if_not_exists: bool, default "false", role "lookup";
            /// whether what was found is kept
            "lookup.cache" => lookup_cache: LookupCache, default "NONE", role "lookup";
            /// tries after the first one
            "lookup.max-retries" => lookup_max_retries: i32, default "3", role "lookup";
            /// how long an entry stays that nobody asks for
            "lookup.partial-cache.expire-after-access" => cache_expire_after_access: Duration, optional, role "lookup";
            /// how long an entry stays
            "lookup.partial-cache.expire-after-write" => cache_expire_after_write: Duration, optional, role "lookup";
            /// keys that were not found are kept too
            "lookup.partial-cache.cache-missing-key" => cache_missing_key: bool, default "true", role "lookup";
            /// most rows that are kept
            "lookup.partial-cache.max-rows" => cache_max_rows: i64, optional, role "lookup";
            /// lookups that wait to be sent
            "client.lookup.queue-size" => lookup_queue_size: i32, default "25600", role "lookup";
            /// most lookups of a request
            "client.lookup.max-batch-size" => lookup_max_batch_size: i32, default "128", role "lookup";
            /// requests that wait for their answer
            "client.lookup.max-inflight-requests" => lookup_max_inflight_requests: i32, default "128", role "lookup";
            /// how long a request waits for more lookups; 0 counts as 1ms
            "client.lookup.batch-timeout" => lookup_batch_timeout: Duration, default "100ms", role "lookup";
            /// tries of a request after the first one
            "client.lookup.max-retries" => client_lookup_max_retries: i32, default "2147483647", role "lookup";

            /// servers to ask first
            "bootstrap.servers" => bootstrap_servers: HostList, required, role "client";
            /// a name for this client in its logs and errors; the client does not tell it to servers
            "client.id" => client_id: String, optional, role "client";
            /// how long connecting may take, and how long a read bears servers that are away
            "client.connect-timeout" => connect_timeout: Duration, default "120s", role "client";
            /// how long an answer may take; servers are told 30 s for writes whatever is said here
            "client.request-timeout" => request_timeout: Duration, default "30s", role "client";
            /// wait before a token of a file system is asked for again
            "client.filesystem.security.token.renewal.backoff" => token_renewal_backoff: Duration, optional, role "client", shown "1h", inert "fixed at 30 s in the client";
            /// the part of a token's life after which it is renewed
            "client.filesystem.security.token.renewal.time-ratio" => token_renewal_time_ratio: f64, optional, role "client", shown "0.75", inert "fixed at 0.8 in the client";
            /// the client's own metrics of scanners and writers reach the recorder of the `metrics` facade; those of its requests always do
            "client.metrics.enabled" => metrics_enabled: bool, default "false", role "client";
            /// how the client says who it is (an option of this crate)
            "client.security.protocol" => security_protocol: SecurityProtocol, default "PLAINTEXT", role "client";
            /// the SASL mechanism (an option of this crate)
            "client.security.sasl.mechanism" => sasl_mechanism: SaslMechanism, default "PLAIN", role "client";
            /// the user's name (an option of this crate)
            "client.security.sasl.username" => sasl_username: String, optional, role "client";
            /// the user's password (an option of this crate)
            "client.security.sasl.password" => sasl_password: Secret, optional, role "client";
            /// the table, as database.table (an option of this crate)
            "table" => table: String, optional, role "client";
        }
    }
}

impl FlussOptions {
    /// Options of a map that came with a table, and others that are given for one use and win.
    ///
    /// # Errors
    /// As [`Self::from_options`]; a storage option among the hints is an error too.
    pub fn with_hints(stored: RawOptions, hints: RawOptions) -> Result<Self> {
        stored::merge(stored, hints)
    }

    /// These options with storage options that go before them.
    pub(crate) fn with_storage(&self, storage: RawOptions) -> Result<Self> {
        stored::with_storage(self, storage)
    }

    /// How rows are dealt out to connections.
    pub(crate) fn distribution(&self) -> DistributionMode {
        match self.distribution_mode {
            DistributionMode::Auto if !self.bucket_shuffle => DistributionMode::None,
            mode => mode,
        }
    }

    /// How often to look for partitions, if at all.
    pub(crate) fn discovery_interval(&self) -> Option<Duration> {
        let interval = Duration::try_from(self.partition_discovery_interval).ok()?;
        (!self.scan_bounded && !interval.is_zero()).then_some(interval)
    }

    /// Says once what is accepted and done otherwise than one may think.
    pub(crate) fn warn(&self) {
        static CRC: Once = Once::new();
        static CLIENT_ID: Once = Once::new();
        if self.check_crc {
            CRC.call_once(|| {
                tracing::warn!(
                    "client.scanner.log.check-crc: the client does not verify checksums of batches; set it to false to say that you know"
                )
            });
        }
        if self.client_id.as_ref().is_some_and(|id| !id.is_empty()) {
            CLIENT_ID.call_once(|| tracing::warn!("client.id: the client does not tell servers its name"));
        }
        if self.request_timeout != Duration::from_secs(30) {
            tracing::debug!(
                "client.request-timeout: servers are told 30s for writes; the client waits as long as the option says"
            );
        }
    }

    /// The time at which the read begins, where it begins by time.
    pub(crate) fn start_millis(&self) -> Option<i64> {
        let zone = self.time_zone.clone().unwrap_or_else(TimeZone::system);
        // A time that cannot be told was refused when the options were built.
        self.startup_timestamp?.millis(&zone).ok()
    }
}

/// The table that is meant: the one that code names, else the one of the options.
pub(crate) fn table_of(options: &FlussOptions, table: Option<TableId>) -> Result<TableId> {
    match (table, &options.table) {
        (Some(table), _) => Ok(table),
        (None, Some(name)) => name.parse(),
        (None, None) => Err(crate::source::no_table()),
    }
}

/// The pairs that the user gave, to be laid over what a table has stored.
pub(crate) fn given(options: &FlussOptions) -> Vec<(&'static str, RawValue)> {
    let defaults = FlussOptions::OPTIONS;
    options
        .to_options()
        .into_iter()
        .filter(|(key, value)| {
            let default = defaults.iter().find(|spec| spec.key == *key).and_then(|spec| spec.default);
            default.is_none_or(|default| !same_text(value, default))
        })
        .collect()
}

fn same_text(value: &RawValue, text: &str) -> bool {
    value.clone().into_text().is_ok_and(|value| value.as_str() == text)
}
