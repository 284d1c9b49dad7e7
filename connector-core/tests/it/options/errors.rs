//! What does not parse, and how the error says it.

use std::sync::{Arc, Mutex};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::{
    message,
    sets::{WellPipelineOptions, WellSinkOptions, WellSourceOptions},
};

/// The source with its required options and some more.
fn source(more: &[(&str, &str)]) -> connector_core::Result<WellSourceOptions> {
    let required = [("bootstrap_servers", "h:1"), ("topics", "t")];
    WellSourceOptions::from_options(required.iter().chain(more).copied())
}

#[test]
fn unknown_names_come_with_the_nearest_known_one() {
    let unknown = |name| message(source(&[(name, "1")]));
    assert_eq!(
        unknown("start_ofset"),
        "unknown option `start_ofset` of the well source: did you mean `start_offset`?"
    );
    assert_eq!(
        unknown("job.reader.startOffset"),
        "unknown option `job.reader.startOffset` of the well source: did you mean `job.reader.start_offset`?"
    );
    assert_eq!(
        unknown("job.writer.start_offset"),
        "unknown option `job.writer.start_offset` of the well source: did you mean `job.reader.start_offset`?"
    );
    assert_eq!(
        unknown("wheelbarrow"),
        "unknown option `wheelbarrow` of the well source: no option has a name like it"
    );
    let nested = serde_json::from_str::<WellPipelineOptions>(
        r#"{"host": "h", "api-token": "t", "sink": {"buffer-flush": {"intervall": "1s"}, "empty": {}}}"#,
    );
    let text = nested.unwrap_err().to_string();
    assert!(
        text.contains("`sink.buffer-flush.intervall`") && text.contains("`sink.buffer-flush.interval`?"),
        "{text}"
    );
    assert!(text.contains("unknown option `sink.empty`"), "{text}");
}

#[test]
fn options_of_another_role_say_where_they_belong() {
    for name in ["job.writer.topic_name", "topic_name", "job.writer.properties.acks"] {
        assert_eq!(
            message(source(&[(name, "x")])),
            format!("unknown option `{name}` of the well source: it belongs to the well sink")
        );
    }
    assert_eq!(
        message(source(&[("job.writer.topic_nam", "x")])),
        "unknown option `job.writer.topic_nam` of the well source: did you mean `job.writer.topic_name`, which belongs \
         to the well sink?"
    );
}

#[test]
fn options_inside_and_outside_of_a_map_say_where_they_belong() {
    assert_eq!(
        message(source(&[("properties", r#"{"start_offset": 5, "fetch.min.bytes": 1}"#)])),
        "`start_offset` inside `job.reader.properties` is an option of the well source; move it out of the map"
    );
    assert!(message(source(&[("properties.job.reader.end_offset", "5")])).contains("move it out of the map"));
    assert_eq!(
        message(source(&[("properties", r#"{"job.writer.topic_name": "t"}"#)])),
        "`job.writer.topic_name` inside `job.reader.properties` is an option of the well sink"
    );
    let built =
        WellSourceOptions::builder().bootstrap_servers("h:1").topics("t").properties([("start_offset", "5")]);
    assert!(message(built.build()).contains("move it out of the map"));
    assert_eq!(
        message(source(&[("fetch.wait.max", "5")])),
        "unknown option `fetch.wait.max` of the well source: it belongs inside the map `properties`"
    );
    // The sink does not say which names belong into its map, and `retries` is a client property as well.
    let sink = |entry| {
        WellSinkOptions::from_options([("topic_name".to_owned(), "t"), (format!("properties.{entry}"), "5")])
    };
    sink("retries").unwrap();
    assert!(message(sink("job.writer.retries")).contains("move it out of the map"));
}

#[test]
fn an_option_is_given_once() {
    let both = "`bootstrap_servers` and `job.reader.well_servers` are two names of one option; give one";
    assert_eq!(message(source(&[("job.reader.well_servers", "h:1")])), both);
    assert_eq!(
        message(source(&[("end_offset", "1"), ("end_offset", "1")])),
        "option `end_offset` is given twice"
    );
    assert_eq!(
        message(source(&[("end_offset", "1"), ("job.reader.end_offset", "1")])),
        "`end_offset` and `job.reader.end_offset` are two names of one option; give one"
    );
    assert_eq!(
        message(source(&[("properties", "{}"), ("properties.acks", "1")])),
        "`properties` and `properties.acks` are both given; put all entries in one place"
    );
    assert!(
        message(source(&[("properties.acks", "1"), ("properties.acks", "1")])).contains("holds `acks` twice")
    );
}

#[test]
fn everything_wrong_is_told_at_once() {
    let error = WellPipelineOptions::from_options([
        ("sink.mode", "boil"),
        ("sink.buffer-flush.interval", "100ms"),
        ("sink.buffer-flush.size", "2gb"),
        ("sink.ratio", "1.5"),
        ("timestamp-offset", "8"),
        ("type", "kafka"),
        ("hots", "x"),
    ])
    .unwrap_err();
    let text = error.message();
    for part in [
        "8 problems: (1) required options `host`, `api-token` are missing; (2) ",
        "unknown option `hots` of the well sink: did you mean `host`?",
        "option `sink.mode`: `boil` is not one of keep, pour, spill, BOIL_FIRST (type enum, allowed: \
         keep,pour,spill,BOIL_FIRST)",
        "option `sink.buffer-flush.interval`: `100ms` is below the minimum 200ms (type duration, allowed: >=200ms)",
        "option `sink.buffer-flush.size`: `2gb` is above the maximum 1gb (type memory size, allowed: <=1gb)",
        "option `sink.ratio`: `1.5` is above the maximum 1 (type double, allowed: 0..1)",
        "option `timestamp-offset`: `8` has no unit; write one, such as 10s or 200ms (type duration, allowed: may be \
         negative)",
        "option `type`: `kafka` must be `well` (type const)",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
    let options = error.context_value("option").unwrap();
    assert!(options.starts_with("host,api-token,hots,") && options.ends_with("sink.ratio"), "{options}");
}

#[test]
fn builders_report_at_build() {
    let builder = WellSourceOptions::builder().bootstrap_servers("h").parallelism(0);
    assert_eq!(
        message(builder.clone().build()),
        "3 problems: (1) required option `job.reader.topics` is missing; (2) option `job.reader.bootstrap_servers`: the \
         value holds `h`, which has no port; write host:port (type list<host:port>); (3) option \
         `job.reader.parallelism`: `0` is below the minimum 1 (type int, allowed: 1..64)"
    );
    builder.topics(["t"]).bootstrap_servers("h:1").parallelism(1).build().unwrap();
}

#[test]
fn required_options_are_not_empty() {
    let text = message(WellPipelineOptions::from_options([("host", " "), ("api-token", "")]));
    assert!(text.contains("option `host`: ` ` must not be empty (type string)"), "{text}");
    assert!(text.contains("option `api-token`: the value must not be empty (type secret)"), "{text}");
    // Nothing at all is not given; an empty list is given.
    let nothing = serde_json::from_str::<WellSourceOptions>(r#"{"topics": [], "bootstrap_servers": null}"#);
    let text = nothing.unwrap_err().to_string();
    assert!(text.contains("required option `job.reader.bootstrap_servers` is missing"), "{text}");
    assert!(text.contains("option `job.reader.topics`: the list must not be empty"), "{text}");
}

#[test]
fn wrong_shapes_are_named() {
    let text = serde_json::from_str::<WellPipelineOptions>(
        r#"{"host": {"a": 1}, "api-token": 1234, "sink.mode": ["pour"], "sink.tmpdir": 1.10}"#,
    )
    .unwrap_err()
    .to_string();
    // A map under the name of a plain option is that option's value.
    assert!(text.contains("option `host`: the map must be one value, not a map"), "{text}");
    assert!(text.contains("`sink.mode`: the list must be one value"), "{text}");
    assert!(text.contains("`sink.tmpdir`: `1.1` is a number where text is expected"), "{text}");
    assert!(text.contains("`api-token`: the value must be text; put a number in quotes"), "{text}");
    assert!(!text.contains("1234"), "{text}");
}

#[test]
fn refused_options_say_why() {
    for name in ["job.reader.exactly_once", "exactly_once"] {
        assert_eq!(
            message(source(&[(name, "true")])),
            format!("option `{name}` is refused by the well source: it is not supported yet")
        );
    }
    assert!(message(source(&[("raw.a", "1")])).contains("the well has no raw options"));
}

#[test]
fn contradictions_are_found_by_the_cross_field_check() {
    let text =
        message(source(&[("start_offset", "5"), ("end_offset", "4"), ("start_timestamp", "1672531200")]));
    assert_eq!(
        text,
        "2 problems: (1) `end_offset` is before `start_offset`; (2) `start_offset` and `start_timestamp` exclude each \
         other"
    );
}

/// Collects the fields of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{}={value:?}", field.name()));
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

// The one test that uses deprecated and inert options: their warnings come once in a process.
#[test]
fn deprecated_and_inert_options_warn_once() {
    let warnings = Warnings::default();
    let parse = || {
        let options = [("job.reader.brokers", "h:1"), ("topics", "t"), ("bucket_colour", "red")];
        WellSourceOptions::from_options(options).unwrap()
    };
    let parsed = tracing::subscriber::with_default(warnings.clone(), || (parse(), parse()).0);
    assert_eq!(
        (parsed.bootstrap_servers.to_string(), parsed.bucket_colour),
        ("h:1".into(), Some("red".into()))
    );
    assert_eq!(
        *warnings.0.lock().unwrap(),
        [
            "message=option name is deprecated",
            "connector=\"well\"",
            "option=\"job.reader.brokers\"",
            "replacement=\"job.reader.bootstrap_servers\"",
            "message=option has no effect",
            "connector=\"well\"",
            "option=\"job.reader.bucket_colour\"",
            "reason=\"buckets have no colour\"",
        ]
    );
}
