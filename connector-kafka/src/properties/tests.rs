use super::*;

type Pairs = Vec<(String, String)>;

fn all(pairs: &[(&str, &str)]) -> (Pairs, Pairs) {
    let map: PropertyMap = pairs.iter().copied().collect();
    (Role::Consumer.problems(&map), Role::Consumer.translated(&map))
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
    for (name, rule) in RULES.iter().chain(rules::BOTH) {
        let Rule::Rename(other) = rule else { continue };
        let (problems, properties) = all(&[(name, "20000")]);
        assert_eq!(problems, [], "{name}");
        assert_eq!(properties, [((*other).to_owned(), "20000".to_owned())]);
    }
}

#[test]
fn what_the_connector_owns_is_refused_unless_it_says_the_same() {
    for (name, rule) in RULES.iter().chain(rules::BOTH) {
        let Rule::Owned(instead, ours) = rule else { continue };
        let other = if *ours == Some("true") { "false" } else { "true" };
        let (problems, properties) = all(&[(name, other)]);
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

fn producer(pairs: &[(&str, &str)]) -> (Pairs, Pairs) {
    let map: PropertyMap = pairs.iter().copied().collect();
    (Role::Producer.problems(&map), Role::Producer.translated(&map))
}

fn pair((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// What librdkafka gets for one property of the Java consumer.
#[test]
fn values_of_the_java_consumer_become_those_of_librdkafka() {
    for (name, value, expected) in [
        ("fetch.min.bytes", "0", vec![("fetch.min.bytes", "1")]),
        ("fetch.max.bytes", "1000", vec![("fetch.max.bytes", "1000000")]),
        (
            "fetch.max.bytes",
            "200000000",
            vec![("fetch.max.bytes", "200000000"), ("receive.message.max.bytes", "200000512")],
        ),
        ("retry.backoff.ms", "0", vec![("retry.backoff.ms", "1")]),
        ("retry.backoff.ms", "5000", vec![("retry.backoff.ms", "5000"), ("retry.backoff.max.ms", "5000")]),
        ("receive.buffer.bytes", "-1", vec![("socket.receive.buffer.bytes", "0")]),
        ("send.buffer.bytes", "65536", vec![("socket.send.buffer.bytes", "65536")]),
        (
            "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            vec![("partition.assignment.strategy", "cooperative-sticky")],
        ),
        (
            "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.RangeAssignor, org.apache.kafka.clients.consumer.RoundRobinAssignor",
            vec![("partition.assignment.strategy", "range,roundrobin")],
        ),
        ("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer", vec![]),
        ("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer", vec![]),
        (
            "ssl.endpoint.identification.algorithm",
            "",
            vec![("ssl.endpoint.identification.algorithm", "none")],
        ),
        (
            "ssl.endpoint.identification.algorithm",
            "HTTPS",
            vec![("ssl.endpoint.identification.algorithm", "https")],
        ),
        ("metrics.num.samples", "2", vec![]),
    ] {
        let expected: Pairs = expected.into_iter().map(pair).collect();
        assert_eq!(all(&[(name, value)]), (vec![], expected), "{name} = {value}");
    }
}

#[test]
fn values_of_the_java_producer_become_those_of_librdkafka() {
    for (given, expected) in [
        (vec![("batch.size", "0")], vec![("batch.size", "1")]),
        (vec![("buffer.memory", "33554432")], vec![("queue.buffering.max.kbytes", "32768")]),
        (vec![("max.request.size", "2000000")], vec![("message.max.bytes", "2000000")]),
        (
            vec![("request.timeout.ms", "20000")],
            vec![("request.timeout.ms", "20000"), ("socket.timeout.ms", "20000")],
        ),
        (
            vec![("compression.type", "gzip"), ("compression.gzip.level", "7")],
            vec![("compression.type", "gzip"), ("compression.level", "7")],
        ),
        (
            vec![("compression.type", "lz4"), ("compression.gzip.level", "7")],
            vec![("compression.type", "lz4")],
        ),
        (vec![("partitioner.ignore.keys", "true")], vec![("partitioner", "random")]),
        (
            vec![("partitioner.class", "org.apache.kafka.clients.producer.UniformStickyPartitioner")],
            vec![("partitioner", "random")],
        ),
        (vec![("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer")], vec![]),
    ] {
        let expected: Pairs = expected.into_iter().map(pair).collect();
        let (problems, mut properties) = producer(&given);
        assert_eq!(problems, [], "{given:?}");
        properties.sort_by_key(|(name, _)| expected.iter().position(|(other, _)| name == other));
        assert_eq!(properties, expected, "{given:?}");
    }
}

/// What cannot be honoured is told with what to do instead.
#[test]
fn what_only_java_can_do_is_refused_with_a_sentence() {
    for (name, value, words) in [
        ("interceptor.classes", "com.example.Audit", "no Java class"),
        ("config.providers", "file", "write the value itself"),
        ("value.deserializer", "io.confluent.kafka.serializers.KafkaAvroDeserializer", "format_type"),
        ("schema.registry.url", "http://registry:8081", "schema_registry_url"),
        ("basic.auth.user.info", "me:hunter2", "schema_registry_basic_auth"),
        (
            "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.StickyAssignor",
            "StickyAssignor",
        ),
        ("partition.assignment.strategy", "range,cooperative-sticky", "does not go with"),
        ("ssl.cipher.suites", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "OpenSSL"),
        ("ssl.engine.factory.class", "x.Factory", "no Java class"),
        (
            "sasl.login.callback.handler.class",
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
            "token provider",
        ),
        ("sasl.oauthbearer.token.endpoint.url", "https://auth.example/token", "token provider"),
        ("fetch.max.bytes", "much", "whole number"),
    ] {
        let (problems, _) = all(&[(name, value)]);
        assert_eq!(problems.len(), 1, "{name}: {problems:?}");
        assert!(problems[0].1.contains(name) && problems[0].1.contains(words), "{problems:?}");
    }
    for (given, words) in [
        (
            vec![("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner")],
            "partition_field",
        ),
        (vec![("partitioner.class", "com.example.Mine")], "cannot run here"),
        (vec![("value.serializer", "com.example.Mine")], "format_type"),
        (vec![("compression.gzip.level", "7")], "compression.type"),
        (vec![("compression.type", "gzip"), ("compression.gzip.level", "12")], "not within"),
        (vec![("buffer.memory", "5")], "below"),
    ] {
        let (problems, _) = producer(&given);
        assert_eq!(problems.len(), 1, "{given:?}: {problems:?}");
        assert!(problems[0].1.contains(words), "{problems:?}");
    }
}

/// Whatever becomes of it, no rule of the table yields what librdkafka does not know.
#[test]
fn every_name_that_rules_give_is_librdkafkas() {
    let config = ClientConfig::new().create_native_config().unwrap();
    for (name, rule) in RULES.iter().chain(SINK).chain(rules::BOTH) {
        if let Rule::Rename(other) = rule {
            assert!(config.get(other).is_ok(), "{name} becomes {other}");
        }
    }
}

#[test]
fn secrets_out_of_a_jaas_line_are_secrets() {
    let jaas = r#"org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";"#;
    let map: PropertyMap = [("sasl.jaas.config", jaas)].into_iter().collect();
    let pairs: Pairs = Role::Consumer.translated(&map);
    let secrets = secrets(&map, &pairs);
    assert!(secrets.iter().any(|secret| secret.expose() == "hunter2"));
}
