//! Client properties: which are the connector's own, and the Java client's names for librdkafka's.

use connector_core::options::{PropertyMap, is_secret_key};
use rdkafka::ClientConfig;

/// What becomes of a property that is not simply passed on.
enum Rule {
    /// The connector sets it; the text says what to use instead. The value, where there is one, is that which
    /// the connector sets anyway, so giving it is no contradiction.
    Owned(&'static str, Option<&'static str>),
    /// librdkafka's name for it.
    Rename(&'static str),
    /// Means nothing here and does no harm.
    Ignore,
}

/// Rules by the property's name.
type Rules = [(&'static str, Rule)];

/// For producers.
const SINK: &Rules = {
    use Rule::{Ignore, Owned, Rename};
    &[
        ("bootstrap.servers", Owned("use the option bootstrap_servers", None)),
        ("metadata.broker.list", Owned("use the option bootstrap_servers", None)),
        (
            "transactional.id",
            Owned("it is made of the pipeline's name and the chain, under exactly-once", None),
        ),
        ("delivery.report.only.error", Owned("the writer counts what was delivered", Some("false"))),
        ("key.serializer", Ignore),
        ("value.serializer", Ignore),
        ("metadata.max.age.ms", Rename("topic.metadata.refresh.interval.ms")),
        ("max.request.size", Rename("message.max.bytes")),
        ("send.buffer.bytes", Rename("socket.send.buffer.bytes")),
        ("receive.buffer.bytes", Rename("socket.receive.buffer.bytes")),
    ]
};

/// For consumers.
const RULES: &Rules = {
    use Rule::{Ignore, Owned, Rename};
    &[
        ("bootstrap.servers", Owned("use the option bootstrap_servers", None)),
        ("metadata.broker.list", Owned("use the option bootstrap_servers", None)),
        ("group.id", Owned("use the option group_id", None)),
        ("auto.offset.reset", Owned("use the option connector.auto_offset_reset", None)),
        (
            "enable.auto.commit",
            Owned("offsets are committed only after they were acknowledged", Some("false")),
        ),
        (
            "auto.commit.enable",
            Owned("offsets are committed only after they were acknowledged", Some("false")),
        ),
        ("auto.commit.interval.ms", Owned("offsets are committed only after they were acknowledged", None)),
        ("enable.auto.offset.store", Owned("the reader keeps the offsets itself", Some("false"))),
        (
            "enable.partition.eof",
            Owned("the reader finds the end of a partition by its offset", Some("false")),
        ),
        ("max.poll.records", Owned("use the option max_batch_rows", None)),
        ("default.api.timeout.ms", Owned("use the option request_timeout", None)),
        ("key.deserializer", Ignore),
        ("value.deserializer", Ignore),
        ("metadata.max.age.ms", Rename("topic.metadata.refresh.interval.ms")),
        ("fetch.max.wait.ms", Rename("fetch.wait.max.ms")),
        ("request.timeout.ms", Rename("socket.timeout.ms")),
        ("send.buffer.bytes", Rename("socket.send.buffer.bytes")),
        ("receive.buffer.bytes", Rename("socket.receive.buffer.bytes")),
    ]
};

fn rule(rules: &'static Rules, name: &str) -> Option<&'static Rule> {
    rules.iter().find(|(known, _)| *known == name).map(|(_, rule)| rule)
}

/// True when `name` is a consumer's property and not an option of ours.
pub(crate) fn is_client_property(name: &str) -> bool {
    is_property(RULES, name)
}

/// True when `name` is a producer's property and not an option of ours.
pub(crate) fn is_producer_property(name: &str) -> bool {
    is_property(SINK, name)
}

fn is_property(rules: &'static Rules, name: &str) -> bool {
    // librdkafka does not own up to a secret that has no value.
    let is_secret = name.contains('.') && is_secret_key(name);
    is_secret
        || rule(rules, name).is_some()
        || ClientConfig::new().create_native_config().is_ok_and(|config| config.get(name).is_ok())
}

/// What is wrong with a consumer's properties: `(name, sentence)` for each. No sentence holds the value of a secret.
pub(crate) fn problems(map: &PropertyMap) -> Vec<(String, String)> {
    all_problems(RULES, map)
}

/// What is wrong with a producer's properties, as [`problems`] tells it.
pub(crate) fn producer_problems(map: &PropertyMap) -> Vec<(String, String)> {
    all_problems(SINK, map)
}

fn all_problems(rules: &'static Rules, map: &PropertyMap) -> Vec<(String, String)> {
    map.iter().filter_map(|(name, value)| Some((name.to_owned(), problem(rules, name, value)?))).collect()
}

fn problem(rules: &'static Rules, name: &str, value: &str) -> Option<String> {
    let name_for_client = match rule(rules, name) {
        Some(Rule::Owned(_, Some(ours))) if ours.eq_ignore_ascii_case(value.trim()) => return None,
        Some(Rule::Owned(instead, _)) => {
            return Some(format!("the property `{name}` is the connector's own: {instead}"));
        }
        Some(Rule::Ignore) => return None,
        Some(Rule::Rename(other)) => other,
        None => name,
    };
    // librdkafka checks a property when it is set; each alone, so that one fault does not hide another.
    let refused = ClientConfig::new().set(name_for_client, value).create_native_config().is_err();
    if !refused {
        return None;
    }
    Some(if !is_property(rules, name) {
        format!("librdkafka has no property `{name}`")
    } else if is_secret_key(name) {
        format!("librdkafka does not accept the value of the property `{name}`")
    } else {
        format!("librdkafka does not accept `{value}` for the property `{name}`")
    })
}

/// A consumer's properties as librdkafka gets them, after [`problems`] found none.
pub(crate) fn translated(map: &PropertyMap) -> impl Iterator<Item = (String, String)> {
    all_translated(RULES, map)
}

/// A producer's properties as librdkafka gets them, after [`producer_problems`] found none.
pub(crate) fn producer_translated(map: &PropertyMap) -> impl Iterator<Item = (String, String)> {
    all_translated(SINK, map)
}

fn all_translated(rules: &'static Rules, map: &PropertyMap) -> impl Iterator<Item = (String, String)> {
    map.iter().filter_map(move |(name, value)| {
        let name = match rule(rules, name) {
            Some(Rule::Owned(..) | Rule::Ignore) => return None,
            Some(Rule::Rename(other)) => other,
            None => name,
        };
        Some((name.to_owned(), value.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs = Vec<(String, String)>;

    fn all(pairs: &[(&str, &str)]) -> (Pairs, Pairs) {
        let map: PropertyMap = pairs.iter().copied().collect();
        (problems(&map), translated(&map).collect())
    }

    #[test]
    fn names_of_the_client_pass_as_they_are() {
        let (problems, properties) = all(&[("fetch.min.bytes", "100"), ("sasl.mechanism", "PLAIN")]);
        assert_eq!(problems, []);
        let expected = [("fetch.min.bytes", "100"), ("sasl.mechanism", "PLAIN")];
        assert_eq!(properties, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn java_names_that_mean_the_same_are_translated() {
        for (name, rule) in RULES {
            let Rule::Rename(other) = rule else { continue };
            let (problems, properties) = all(&[(name, "20000")]);
            assert_eq!(problems, [], "{name}");
            assert_eq!(properties, [((*other).to_owned(), "20000".to_owned())]);
        }
    }

    #[test]
    fn what_the_connector_owns_is_refused_unless_it_says_the_same() {
        for (name, rule) in RULES {
            let Rule::Owned(instead, ours) = rule else { continue };
            let (problems, properties) = all(&[(name, "true")]);
            assert_eq!(problems.len(), 1, "{name}");
            assert!(problems[0].1.contains(name) && problems[0].1.contains(instead), "{problems:?}");
            assert_eq!(properties, []);
            if let Some(ours) = ours {
                assert_eq!(all(&[(name, ours)]), (vec![], vec![]), "{name}");
            }
        }
    }

    #[test]
    fn every_wrong_property_is_told_at_once_and_no_secret_with_it() {
        let (problems, _) = all(&[
            ("fetch.min.bytes", "many"),
            ("no.such.property", "hunter2"),
            ("security.protocol", "carrier-pigeon"),
            ("acks", "all"),
        ]);
        let names: Vec<&str> = problems.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["fetch.min.bytes", "no.such.property", "security.protocol"]);
        assert!(problems[0].1.contains("`many`"));
        assert!(!problems[1].1.contains("hunter2"));
    }

    #[test]
    fn client_properties_are_told_from_options() {
        for name in ["fetch.min.bytes", "sasl.password", "group.id", "max.poll.records"] {
            assert!(is_client_property(name), "{name}");
        }
        for name in ["start_offset", "topics", "no.such.property"] {
            assert!(!is_client_property(name), "{name}");
        }
    }
}
