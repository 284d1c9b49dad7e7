//! What parses, from pairs, nested maps and builders.

use std::{collections::BTreeMap, time::Duration};

use connector_core::{
    Secret,
    options::{Epoch, HostPort, RawOptions, RawValue, SettingsList, declaration_faults, detect_dialect},
};
use jiff::{SignedDuration, tz::TimeZone};
use proptest::prelude::*;

use super::{
    message,
    sets::{Mode, WellPipelineOptions, WellSinkOptions, WellSourceOptions},
};

#[test]
fn declarations_have_no_faults() {
    assert_eq!(declaration_faults::<WellSourceOptions>(), Vec::<String>::new());
    assert_eq!(declaration_faults::<WellSinkOptions>(), Vec::<String>::new());
    assert_eq!(declaration_faults::<WellPipelineOptions>(), Vec::<String>::new());
}

#[test]
fn pairs_a_nested_map_and_a_builder_give_the_same() {
    let pairs = WellSourceOptions::from_options([
        ("job.reader.bootstrap_servers", "h1:9092, h2:9093"),
        ("topics", "orders, t_\\d{1,3}"),
        ("job.reader.start_offset", "5"),
        ("parallelism", "4"),
        ("columns", "KEEP,spill"),
        ("job.reader.properties", r#"{"fetch.min.bytes": 1, "sasl.password": "s"}"#),
        ("initial_offsets", r#"{"app.orders": 7}"#),
        ("password", "hunter2"),
        ("job.common.global_timezone", "Asia/Shanghai"),
        ("ignore_case", "FALSE"),
    ])
    .unwrap();
    let nested: WellSourceOptions = serde_json::from_str(
        r#"{
            "job": {
                "reader": {
                    "bootstrap_servers": ["h1:9092", "h2:9093"],
                    "start_offset": 5,
                    "properties": {"fetch": {"min.bytes": 1}, "sasl.password": "s"},
                    "end_offset": null
                },
                "common": {"global_timezone": "Asia/Shanghai"},
                "common.ignore_case": false
            },
            "topics": ["orders", "t_\\d{1,3}"],
            "parallelism": 4,
            "columns": ["keep", "pour"],
            "initial_offsets": {"app": {"orders": 7}},
            "password": "hunter2"
        }"#,
    )
    .unwrap();
    let built = WellSourceOptions::builder()
        .bootstrap_servers(["h1:9092", "h2:9093"])
        .topics(["orders", "t_\\d{1,3}"])
        .start_offset(5)
        .parallelism(4)
        .columns([Mode::Keep, Mode::Pour])
        .properties([("fetch.min.bytes", "1"), ("sasl.password", "s")])
        .initial_offsets([("app.orders", 7)])
        .password(Secret::new("hunter2"))
        .global_timezone(TimeZone::get("Asia/Shanghai").unwrap())
        .ignore_case(false)
        .build()
        .unwrap();
    assert_eq!(pairs, built);
    assert_eq!(nested, built);
    assert_eq!(built.bootstrap_servers.iter().last(), Some(&HostPort::new("h2", 9093)));
    assert_eq!(built.initial_offsets, Some(BTreeMap::from([("app.orders".to_owned(), 7)])));
}

#[test]
fn flat_entries_of_a_map_option() {
    let options = WellSinkOptions::from_options([
        ("topic_name", "t"),
        ("properties.acks", "all"),
        ("job.writer.properties.batch.size", "1"),
    ])
    .unwrap();
    let properties = options.properties.unwrap();
    assert_eq!(properties.iter().collect::<Vec<_>>(), [("acks", "all"), ("batch.size", "1")]);
}

#[test]
fn defaults_and_values_of_every_type() {
    let defaults = WellPipelineOptions::builder().host("h").api_token(Secret::new("t")).build().unwrap();
    assert_eq!((defaults.mode, defaults.flush_interval), (Mode::Pour, Duration::from_secs(1)));
    assert_eq!((defaults.flush_size, defaults.ratio, defaults.timestamp_offset), (64 << 20, 0.75, None));
    let options = WellPipelineOptions::from_options([
        ("type", "well"),
        ("host", "h"),
        ("api-token", "t"),
        ("sink.mode", "boil_first"),
        ("sink.buffer-flush.interval", "200 ms"),
        ("sink.buffer-flush.size", "16 mb"),
        ("sink.ratio", "1"),
        ("timestamp-offset", "-8h"),
        ("table.create.settings", "a=1,b='x,y'"),
        ("table.create.ttl", "d + INTERVAL 1 DAY"),
        ("sink.tmpdir", "/tmp/x"),
    ])
    .unwrap();
    let built = WellPipelineOptions::builder()
        .host("h")
        .api_token(Secret::new("t"))
        .mode(Mode::Boil)
        .flush_interval(Duration::from_millis(200))
        .flush_size(16 << 20)
        .ratio(1.0)
        .timestamp_offset(SignedDuration::from_hours(-8))
        .create_settings(SettingsList::new().with("a", 1).with_text("b", "x,y"))
        .create_ttl("d + INTERVAL 1 DAY")
        .tmpdir("/tmp/x")
        .build()
        .unwrap();
    assert_eq!(options, built);
    assert_eq!(options.to_builder().build().unwrap(), built);
    let sink =
        WellSinkOptions::from_options([("topic_name", "t"), ("linger_ms", "7"), ("connect_timeout", "3")])
            .unwrap();
    assert_eq!((sink.linger, sink.connect_timeout), (Duration::from_millis(7), Duration::from_secs(3)));
    assert_eq!((sink.retries, sink.buffer_count), (10, 8192));
}

#[test]
fn changed_options_are_checked_again() {
    let mut options = WellSourceOptions::builder().bootstrap_servers("h:1").topics("t").build().unwrap();
    assert_eq!(options.start_timestamp, Epoch::UNSET);
    options.validate().unwrap();
    options.parallelism = Some(65);
    assert_eq!(
        message(options.validate()),
        "option `job.reader.parallelism`: `65` is above the maximum 64 (type int, allowed: 1..64)"
    );
    options.parallelism = None;
    (options.start_offset, options.end_offset) = (5, Some(4));
    assert_eq!(message(options.validate()), "`end_offset` is before `start_offset`");
}

#[test]
fn a_map_speaks_one_dialect() {
    let sets = [WellSinkOptions::SET, WellPipelineOptions::SET];
    let detect = |names: &[&str]| {
        let raw: RawOptions = names.iter().map(|name| (*name, "x")).collect();
        detect_dialect(&sets, &raw).map(|set| set.dialect)
    };
    assert_eq!(detect(&["job.writer.topic_name"]).unwrap(), "DataSail");
    assert_eq!(detect(&["nonsense", "topic_name", "properties.acks"]).unwrap(), "DataSail");
    assert_eq!(detect(&["host", "sink.mode"]).unwrap(), "Flink CDC");
    assert_eq!(detect(&["nonsense"]).unwrap(), "DataSail");
    assert_eq!(
        message(detect(&["topic_name", "host"])),
        "option `topic_name` is in the spelling of DataSail, `host` in that of Flink CDC; use one spelling for all \
         options of a sink"
    );
    let nested: RawOptions = serde_json::from_str(r#"{"sink": {"mode": "pour"}, "linger_ms": 1}"#).unwrap();
    let mixed = message(detect_dialect(&sets, &nested));
    assert!(mixed.contains("`sink.mode`") && mixed.contains("`linger_ms`"), "{mixed}");
    assert!(detect_dialect(&[], &nested).is_err());
}

proptest! {
    #[test]
    fn written_options_parse_to_the_same(
        host in "[a-z]{1,9}(\\.[a-z]{1,9}){0,2}",
        port in 1u16..,
        topics in proptest::collection::vec("[a-z_]{1,9}", 1..4),
        start_offset in -1i64..,
        parallelism in proptest::option::of(1u32..=64),
        columns in proptest::option::of(proptest::sample::subsequence(Mode::ALL, 0..3)),
        ignore_case: bool,
    ) {
        let mut builder = WellSourceOptions::builder()
            .bootstrap_servers(HostPort::new(host, port))
            .topics(topics)
            .start_offset(start_offset)
            .ignore_case(ignore_case);
        if let Some(parallelism) = parallelism {
            builder = builder.parallelism(parallelism);
        }
        if let Some(columns) = columns {
            builder = builder.columns(columns);
        }
        let options = builder.build().unwrap();
        prop_assert_eq!(&WellSourceOptions::from_options(options.to_options()).unwrap(), &options);
        let json = serde_json::to_string(&options).unwrap();
        prop_assert_eq!(serde_json::from_str::<WellSourceOptions>(&json).unwrap(), options);
    }

    #[test]
    fn what_parses_from_any_text_is_valid(pairs in proptest::collection::vec((".{0,12}|job.reader.[a-z_]{1,16}", ".{0,12}"), 0..6)) {
        if let Ok(options) = WellSourceOptions::from_options(pairs.clone()) {
            prop_assert!(options.validate().is_ok());
        }
        let raw: RawOptions = pairs.iter().map(|(name, value)| (name, RawValue::from(value))).collect();
        prop_assert_eq!(detect_dialect(&[WellSinkOptions::SET], &raw).map(|set| set.role).ok(), Some("sink"));
        prop_assert!(WellPipelineOptions::from_raw(raw).is_err());
    }
}
