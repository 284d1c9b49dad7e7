//! What options say about each other, and what the client would refuse later.

use std::time::Duration;

use connector_core::options::Problems;
use jiff::tz::TimeZone;

use super::{
    Acks, DistributionMode, FlussOptions, KvFormat, LogCompression, LogFormat, MergeEngine, SecurityProtocol,
    StartupMode, Ttl,
};

/// The most that Fluss's own client configuration can hold.
const MOST: u64 = 0x7fff_ffff;

pub(super) fn check(options: &FlussOptions, problems: &mut Problems) {
    storage(options, problems);
    auto_partition(options, problems);
    merging(options, problems);
    reading(options, problems);
    writing(options, problems);
    looking_up(options, problems);
    connecting(options, problems);
}

fn storage(options: &FlussOptions, problems: &mut Problems) {
    if options.log_format == Some(LogFormat::Indexed) {
        let text = "`table.log.format` is `INDEXED`: the client writes logs in columns only, and such a log could not be read; use `ARROW`";
        problems.push("table.log.format", text);
    }
    if options.kv_format == Some(KvFormat::Indexed) {
        let text =
            "`table.kv.format` is `INDEXED`, which the client can neither write nor read; use `COMPACTED`";
        problems.push("table.kv.format", text);
    }
    if options.log_zstd_level.is_some()
        && options.log_compression.is_some_and(|compression| compression != LogCompression::Zstd)
    {
        let text =
            "`table.log.arrow.compression.zstd.level` is only for `table.log.arrow.compression.type` `ZSTD`";
        problems.push("table.log.arrow.compression.zstd.level", text);
    }
    if let (Some(local), Some(Ttl::After(ttl))) = (options.log_local_ttl, options.log_ttl)
        && local > ttl
    {
        problems.push("table.log.local-ttl", "`table.log.local-ttl` is longer than `table.log.ttl`");
    }
    if options.log_ttl == Some(Ttl::After(Duration::ZERO)) {
        let text = "`table.log.ttl`: a log that lives for no time holds nothing; give a time, or -1 for ever";
        problems.push("table.log.ttl", text);
    }
    if options.bucket_key.as_ref().is_some_and(|key| has_twin(key)) {
        problems.push("bucket.key", "`bucket.key` names a column twice");
    }
}

fn has_twin(names: &[String]) -> bool {
    names.iter().enumerate().any(|(i, name)| names[..i].contains(name))
}

fn auto_partition(options: &FlussOptions, problems: &mut Problems) {
    let dependent = [
        ("table.auto-partition.time-unit", options.auto_partition_time_unit.is_some()),
        ("table.auto-partition.num-precreate", options.auto_partition_num_precreate.is_some()),
        ("table.auto-partition.num-retention", options.auto_partition_num_retention.is_some()),
        ("table.auto-partition.time-zone", options.auto_partition_time_zone.is_some()),
    ];
    if options.auto_partition_enabled == Some(false) {
        for (key, _) in dependent.iter().filter(|(_, given)| *given) {
            problems
                .push(*key, format!("`{key}` has no meaning with `table.auto-partition.enabled` `false`"));
        }
    }
    if options.auto_partition_num_precreate.is_some_and(|number| number < 0) {
        problems
            .push("table.auto-partition.num-precreate", "`table.auto-partition.num-precreate` is below zero");
    }
    if let Some(zone) = &options.auto_partition_time_zone
        && zone.iana_name().is_none()
        && *zone != TimeZone::UTC
    {
        problems.push("table.auto-partition.time-zone", "`table.auto-partition.time-zone` has no name");
    }
}

fn merging(options: &FlussOptions, problems: &mut Problems) {
    let versioned = options.merge_engine == Some(MergeEngine::Versioned);
    if versioned != options.version_column.is_some() {
        let text = "`table.merge-engine` `versioned` and `table.merge-engine.versioned.ver-column` belong together; give both";
        problems.push("table.merge-engine.versioned.ver-column", text);
    }
    let fixed = matches!(options.merge_engine, Some(MergeEngine::FirstRow | MergeEngine::Versioned));
    if fixed && options.delete_behavior.is_some_and(|behaviour| behaviour != super::DeleteBehavior::Ignore) {
        let text = "`table.delete.behavior`: tables with `table.merge-engine` `first_row` or `versioned` ignore deletes, \
                    which cannot be changed";
        problems.push("table.delete.behavior", text);
    }
}

fn at_most(key: &'static str, value: u64, least: u64, problems: &mut Problems) {
    if !(least..=MOST).contains(&value) {
        problems.push(key, format!("`{key}` must be {least} to {MOST} bytes"));
    }
}

fn reading(options: &FlussOptions, problems: &mut Problems) {
    let by_time = options.startup_mode == StartupMode::Timestamp;
    if by_time != options.startup_timestamp.is_some() {
        let text = "`scan.startup.mode` `timestamp` and `scan.startup.timestamp` belong together; give both";
        problems.push("scan.startup.timestamp", text);
    }
    if let Some(start) = options.startup_timestamp {
        let zone = options.time_zone.clone().unwrap_or_else(TimeZone::system);
        if let Err(reason) = start.millis(&zone) {
            problems.push("scan.startup.timestamp", format!("`scan.startup.timestamp`: {reason}"));
        }
    }
    if options.scan_columns.as_ref().is_some_and(|names| names.is_empty() || has_twin(names)) {
        problems.push("scan.columns", "`scan.columns` must name columns, each of them once");
    }
    at_most("client.scanner.log.fetch.max-bytes", options.fetch_max_bytes, 1, problems);
    at_most("client.scanner.log.fetch.min-bytes", options.fetch_min_bytes, 1, problems);
    let of_bucket = options.fetch_max_bytes_for_bucket;
    at_most("client.scanner.log.fetch.max-bytes-for-bucket", of_bucket, 1, problems);
    for (key, value) in [
        ("client.scanner.log.fetch.min-bytes", options.fetch_min_bytes),
        ("client.scanner.log.fetch.max-bytes-for-bucket", of_bucket),
    ] {
        if value > options.fetch_max_bytes {
            problems.push(key, format!("`{key}` is above `client.scanner.log.fetch.max-bytes`"));
        }
    }
    positive(
        &[
            ("client.scanner.log.max-poll-records", options.max_poll_records),
            ("client.scanner.remote-log.prefetch-num", options.remote_log_prefetch_num),
            ("client.remote-file.download-thread-num", options.remote_file_download_thread_num),
        ],
        problems,
    );
}

fn positive(values: &[(&'static str, i32)], problems: &mut Problems) {
    for (key, _) in values.iter().filter(|(_, value)| *value < 1) {
        problems.push(*key, format!("`{key}` must be at least 1"));
    }
}

fn writing(options: &FlussOptions, problems: &mut Problems) {
    at_most("client.writer.batch-size", options.batch_size, 1, problems);
    at_most("client.writer.request-max-size", options.request_max_size, 1, problems);
    at_most("client.writer.buffer.page-size", options.buffer_page_size, 1, problems);
    for (key, value) in [
        ("client.writer.request-max-size", options.request_max_size),
        ("client.writer.buffer.memory-size", options.buffer_memory_size),
    ] {
        if options.batch_size > value {
            problems.push("client.writer.batch-size", format!("`client.writer.batch-size` is above `{key}`"));
        }
    }
    if options.buffer_per_request_memory_size < options.buffer_page_size {
        let text = "`client.writer.buffer.per-request-memory-size` is below `client.writer.buffer.page-size`";
        problems.push("client.writer.buffer.per-request-memory-size", text);
    }
    let inflight = options.max_inflight_requests_per_bucket;
    positive(&[("client.writer.max-inflight-requests-per-bucket", inflight)], problems);
    if options.enable_idempotence {
        for (key, wrong, wanted) in [
            ("client.writer.acks", options.acks != Acks::All, "`all`"),
            ("client.writer.retries", options.writer_retries < 1, "at least 1"),
            ("client.writer.max-inflight-requests-per-bucket", inflight > 5, "at most 5"),
        ] {
            if wrong {
                let text = format!(
                    "`{key}` must be {wanted} with `client.writer.enable-idempotence`, or set that to `false`"
                );
                problems.push(key, text);
            }
        }
    }
    if options.writer_retries < 0 {
        problems.push("client.writer.retries", "`client.writer.retries` is below zero");
    }
    if options.distribution_mode == DistributionMode::Bucket
        && options.no_key_assigner == super::NoKeyAssigner::RoundRobin
    {
        let text = "`sink.distribution-mode` `BUCKET` goes by the bucket key, and `client.writer.bucket.no-key-assigner` is for \
                    tables without one; give one of them";
        problems.push("sink.distribution-mode", text);
    }
}

fn looking_up(options: &FlussOptions, problems: &mut Problems) {
    positive(
        &[
            ("client.lookup.queue-size", options.lookup_queue_size),
            ("client.lookup.max-batch-size", options.lookup_max_batch_size),
            ("client.lookup.max-inflight-requests", options.lookup_max_inflight_requests),
        ],
        problems,
    );
    for (key, value) in [
        ("lookup.max-retries", options.lookup_max_retries),
        ("client.lookup.max-retries", options.client_lookup_max_retries),
    ] {
        if value < 0 {
            problems.push(key, format!("`{key}` is below zero"));
        }
    }
    if options.cache_max_rows.is_some_and(|rows| rows < 1) {
        problems.push("lookup.partial-cache.max-rows", "`lookup.partial-cache.max-rows` must be at least 1");
    }
    for (key, time) in [
        ("lookup.partial-cache.expire-after-access", options.cache_expire_after_access),
        ("lookup.partial-cache.expire-after-write", options.cache_expire_after_write),
    ] {
        // The cache does not take longer times than that.
        if time.is_some_and(|time| time > Duration::from_secs(1000 * 365 * 86_400)) {
            problems.push(key, format!("`{key}` is longer than 1000 years; leave it out"));
        }
    }
}

fn connecting(options: &FlussOptions, problems: &mut Problems) {
    if options.request_timeout.is_zero() {
        problems.push("client.request-timeout", "`client.request-timeout` must be longer than nothing");
    }
    let sasl = options.security_protocol == SecurityProtocol::Sasl;
    for (key, given) in [
        (
            "client.security.sasl.username",
            options.sasl_username.as_ref().is_some_and(|name| !name.is_empty()),
        ),
        (
            "client.security.sasl.password",
            options.sasl_password.as_ref().is_some_and(|word| !word.is_empty()),
        ),
    ] {
        if sasl && !given {
            problems.push(key, format!("`{key}` is needed with `client.security.protocol` `SASL`"));
        } else if !sasl && given {
            problems.push(key, format!("`{key}` has no meaning without `client.security.protocol` `SASL`"));
        }
    }
    if let Some(table) = &options.table
        && !table.split_once('.').is_some_and(|(database, table)| !database.is_empty() && !table.is_empty())
    {
        problems.push("table", format!("`table`: `{table}` is not a database, a dot and a table"));
    }
}
