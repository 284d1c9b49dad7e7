//! The option table as a document, and options from pairs of text.

use connector_core::{
    ErrorKind,
    options::{RawOptions, declaration_faults, markdown},
};
use connector_fluss::FlussOptions;

const BASE: [(&str, &str); 1] = [("bootstrap.servers", "a:1")];

fn parse(more: &[(&str, &str)]) -> connector_core::Result<FlussOptions> {
    FlussOptions::from_options(BASE.into_iter().chain(more.iter().copied()))
}

fn raw(pairs: &[(&str, &str)]) -> RawOptions {
    pairs.iter().copied().collect()
}

#[test]
fn the_declaration_has_no_faults() {
    assert_eq!(declaration_faults::<FlussOptions>(), Vec::<String>::new());
}

#[test]
fn options_md_is_what_the_declarations_say() {
    let text = format!(
        "# Options of connector-fluss\n\nWritten by a test (`UPDATE_DOCS=1 cargo test -p connector-fluss options_md`).\n\n{}",
        markdown(&[FlussOptions::OPTIONS])
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/OPTIONS.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text, "run it with UPDATE_DOCS=1");
}

#[test]
fn hints_win_and_storage_is_no_hint() {
    let stored = raw(&[
        ("bootstrap.servers", "a:1"),
        ("table.log.ttl", "3d"),
        ("client.scanner.log.check-crc", "false"),
        ("client.writer.batch-size", "1mb"),
    ]);
    let hints = raw(&[("client.scanner.log.check-crc", "true"), ("sink.ignore-delete", "true")]);
    let options = FlussOptions::with_hints(stored.clone(), hints).unwrap();
    assert!(options.check_crc && options.ignore_delete);
    assert_eq!(options.batch_size, 1 << 20);
    let error = FlussOptions::with_hints(stored, raw(&[("table.log.ttl", "1d")])).unwrap_err();
    assert_eq!(
        (error.kind(), error.context_value("option")),
        (ErrorKind::OptionInvalid, Some("table.log.ttl"))
    );
}

#[test]
fn contradictions_are_told_before_any_connection() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("table.log.format", "INDEXED")], "`table.log.format` is `INDEXED`"),
        (&[("table.kv.format", "INDEXED")], "`table.kv.format` is `INDEXED`"),
        (&[("table.log.arrow.compression.zstd.level", "23")], "maximum 22"),
        (&[("table.log.arrow.compression.zstd.level", "0")], "minimum 1"),
        (
            &[("table.log.arrow.compression.zstd.level", "5"), ("table.log.arrow.compression.type", "NONE")],
            "only for `table.log.arrow.compression.type` `ZSTD`",
        ),
        (&[("table.log.ttl", "1d"), ("table.log.local-ttl", "2d")], "longer than `table.log.ttl`"),
        (&[("table.log.ttl", "0ms")], "lives for no time"),
        (&[("bucket.key", "a,b,a")], "names a column twice"),
        (&[("bucket.num", "0")], "minimum 1"),
        (&[("table.replication.factor", "0")], "minimum 1"),
        (&[("table.log.tiered.local-segments", "0")], "minimum 1"),
        (&[("table.kv.format-version", "3")], "maximum 2"),
        (&[("table.auto-inc.batch-size", "0")], "minimum 1"),
        (&[("table.datalake.format", "hudi")], "paimon"),
        (&[("table.changelog.image", "NONE")], "FULL,WAL"),
        (
            &[("table.auto-partition.enabled", "false"), ("table.auto-partition.time-unit", "DAY")],
            "no meaning with `table.auto-partition.enabled` `false`",
        ),
        (&[("table.auto-partition.num-precreate", "-1")], "below zero"),
        (&[("table.auto-partition.time-zone", "Mars/Base")], "table.auto-partition.time-zone"),
        (&[("table.merge-engine", "versioned")], "belong together"),
        (&[("table.merge-engine.versioned.ver-column", "v")], "belong together"),
        (&[("table.merge-engine", "first_row"), ("table.delete.behavior", "ALLOW")], "ignore deletes"),
        (&[("scan.startup.mode", "timestamp")], "belong together"),
        (&[("scan.startup.timestamp", "1")], "belong together"),
        (
            &[("scan.startup.mode", "timestamp"), ("scan.startup.timestamp", "tomorrow")],
            "2023-12-09 23:09:12",
        ),
        (&[("scan.columns", "a,a")], "each of them once"),
        (&[("client.scanner.log.fetch.max-bytes", "1kb")], "above `client.scanner.log.fetch.max-bytes`"),
        (&[("client.scanner.log.fetch.min-bytes", "0b")], "1 to 2147483647"),
        (&[("client.scanner.log.max-poll-records", "0")], "at least 1"),
        (&[("client.scanner.remote-log.prefetch-num", "0")], "at least 1"),
        (&[("client.remote-file.download-thread-num", "0")], "at least 1"),
        (&[("client.writer.batch-size", "20mb")], "above `client.writer.request-max-size`"),
        (&[("client.writer.buffer.memory-size", "1mb")], "above `client.writer.buffer.memory-size`"),
        (
            &[("client.writer.buffer.per-request-memory-size", "1kb")],
            "below `client.writer.buffer.page-size`",
        ),
        (&[("client.writer.acks", "1")], "`client.writer.acks` must be `all`"),
        (&[("client.writer.acks", "2")], "all,-1,1,0"),
        (&[("client.writer.retries", "0")], "`client.writer.retries` must be at least 1"),
        (&[("client.writer.max-inflight-requests-per-bucket", "6")], "at most 5"),
        (&[("client.writer.max-inflight-requests-per-bucket", "0")], "at least 1"),
        (
            &[("sink.distribution-mode", "BUCKET"), ("client.writer.bucket.no-key-assigner", "ROUND_ROBIN")],
            "give one of them",
        ),
        (&[("lookup.cache", "FULL")], "NONE,PARTIAL"),
        (&[("lookup.max-retries", "-1")], "below zero"),
        (&[("client.lookup.max-retries", "-1")], "below zero"),
        (&[("lookup.partial-cache.max-rows", "0")], "at least 1"),
        (&[("lookup.partial-cache.expire-after-write", "400000d")], "1000 years"),
        (&[("client.lookup.queue-size", "0")], "at least 1"),
        (&[("client.lookup.max-batch-size", "0")], "at least 1"),
        (&[("client.lookup.max-inflight-requests", "0")], "at least 1"),
        (&[("client.security.protocol", "SSL")], "PLAINTEXT,SASL"),
        (&[("client.security.protocol", "SASL")], "`client.security.sasl.username` is needed"),
        (&[("client.security.sasl.username", "me")], "no meaning without"),
        (&[("client.security.sasl.mechanism", "GSSAPI")], "PLAIN"),
        (&[("client.security.sasl.jaas.config", "x")], "client.security.sasl.username"),
        (&[("client.security.tls.enabled", "true")], "no TLS"),
        (&[("table.auto-increment.cache-size", "5")], "table.auto-inc.batch-size"),
        (&[("table", "orders")], "a database, a dot and a table"),
        (&[("table.log.tll", "1d")], "did you mean `table.log.ttl`"),
        (&[("client.connect-timeout", "15000")], "no unit"),
        (&[("client.request-timeout", "0ms")], "longer than nothing"),
    ];
    for (pairs, part) in cases {
        let error = parse(pairs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains(part), "{pairs:?}: {error}");
    }
    assert!(
        FlussOptions::from_options([("table", "a.b")])
            .unwrap_err()
            .message()
            .contains("`bootstrap.servers` is missing")
    );
}

#[test]
fn secrets_never_show() {
    let options = parse(&[
        ("client.security.protocol", "sasl"),
        ("client.security.sasl.username", "me"),
        ("client.security.sasl.password", "hunter2"),
    ])
    .unwrap();
    let shown = [
        format!("{options:?}"),
        serde_json::to_string(&options).unwrap(),
        format!("{:?}", options.to_options()),
    ];
    assert!(shown.iter().all(|text| !text.contains("hunter2")), "{shown:?}");
}
