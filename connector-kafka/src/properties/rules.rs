//! The table: a rule for each property that librdkafka does not simply take under the same name.

use connector_core::options::PropertyMap;

use super::Translation;

/// Pairs for librdkafka, or why there are none.
type Changed = Result<Vec<(&'static str, String)>, String>;

/// What becomes of a property that is not simply passed on.
pub(super) enum Rule {
    /// The connector sets it; the text says what to use instead. The value, where there is one, is that which
    /// the connector sets anyway, so giving it is no contradiction.
    Owned(&'static str, Option<&'static str>),
    /// librdkafka's name for it.
    Rename(&'static str),
    /// librdkafka says the same by other values or several properties.
    Change(fn(&str) -> Changed),
    /// Only means something beside others, with which it is looked at.
    Together,
    /// Accepted with a warning that gives the reason.
    Inert(&'static str),
    /// There is nothing like it, and doing without would be something else. Says what to do.
    Refused(&'static str),
}

use Rule::{Change, Inert, Owned, Refused, Rename, Together};

const NO_EQUAL: &str = "librdkafka has nothing like it";
const OWN_METRICS: &str = "metrics come through the `metrics` crate";
const OPENSSL: &str = "librdkafka speaks TLS by OpenSSL, which has no such choice";
const NO_KERBEROS: &str = "librdkafka is built without Kerberos here";
const NO_CLASSES: &str = "no Java class can run here; leave it out";
const TOKENS: &str = "no Java class can run here; give the builder a token provider (`oauth_tokens`)";
const FETCHES_NONE: &str =
    "this build makes and fetches no tokens itself; give the builder a token provider (`oauth_tokens`)";
const ACKNOWLEDGED: &str = "offsets are committed only after they were acknowledged";

/// For consumers and producers.
pub(super) const BOTH: &super::Rules = &[
    ("bootstrap.servers", Owned("use the option bootstrap_servers", None)),
    ("metadata.broker.list", Owned("use the option bootstrap_servers", None)),
    ("metadata.max.age.ms", Rename("topic.metadata.refresh.interval.ms")),
    ("metadata.max.idle.ms", Inert(NO_EQUAL)),
    ("socket.connection.setup.timeout.max.ms", Inert(NO_EQUAL)),
    ("send.buffer.bytes", Change(|value| system_default("socket.send.buffer.bytes", value))),
    ("receive.buffer.bytes", Change(|value| system_default("socket.receive.buffer.bytes", value))),
    ("retry.backoff.ms", Change(|value| at_least_one("retry.backoff.ms", value))),
    ("metric.reporters", Inert(OWN_METRICS)),
    ("metrics.num.samples", Inert(OWN_METRICS)),
    ("metrics.sample.window.ms", Inert(OWN_METRICS)),
    ("metrics.recording.level", Inert(OWN_METRICS)),
    ("auto.include.jmx.reporter", Inert(OWN_METRICS)),
    ("interceptor.classes", Refused(NO_CLASSES)),
    ("config.providers", Refused("write the value itself, or let your program fetch it")),
    // TLS.
    ("ssl.truststore.location", Together),
    ("ssl.truststore.password", Together),
    ("ssl.truststore.type", Together),
    ("ssl.truststore.certificates", Together),
    ("ssl.keystore.location", Together),
    ("ssl.keystore.password", Together),
    ("ssl.keystore.type", Together),
    ("ssl.keystore.key", Together),
    ("ssl.keystore.certificate.chain", Together),
    ("ssl.endpoint.identification.algorithm", Change(endpoint_identification)),
    ("ssl.cipher.suites", Change(cipher_suites)),
    ("ssl.protocol", Inert(OPENSSL)),
    ("ssl.enabled.protocols", Inert(OPENSSL)),
    ("ssl.provider", Inert(OPENSSL)),
    ("ssl.keymanager.algorithm", Inert(OPENSSL)),
    ("ssl.trustmanager.algorithm", Inert(OPENSSL)),
    ("ssl.secure.random.implementation", Inert(OPENSSL)),
    ("security.providers", Inert(OPENSSL)),
    ("ssl.engine.factory.class", Refused(NO_CLASSES)),
    // SASL.
    ("sasl.jaas.config", Together),
    ("sasl.client.callback.handler.class", Refused(TOKENS)),
    ("sasl.login.callback.handler.class", Refused(TOKENS)),
    ("sasl.login.class", Refused(TOKENS)),
    ("sasl.oauthbearer.token.endpoint.url", Refused(FETCHES_NONE)),
    ("sasl.oauthbearer.method", Refused(FETCHES_NONE)),
    ("sasl.oauthbearer.config", Refused(FETCHES_NONE)),
    ("enable.sasl.oauthbearer.unsecure.jwt", Refused(FETCHES_NONE)),
    ("sasl.oauthbearer.scope.claim.name", Inert("the token provider makes the token")),
    ("sasl.oauthbearer.sub.claim.name", Inert("the token provider makes the token")),
    ("sasl.login.refresh.window.factor", Inert("the token provider says how long a token lives")),
    ("sasl.login.refresh.window.jitter", Inert("the token provider says how long a token lives")),
    ("sasl.login.refresh.min.period.seconds", Inert("the token provider says how long a token lives")),
    ("sasl.login.refresh.buffer.seconds", Inert("the token provider says how long a token lives")),
    ("sasl.kerberos.service.name", Inert(NO_KERBEROS)),
    ("sasl.kerberos.kinit.cmd", Inert(NO_KERBEROS)),
    ("sasl.kerberos.min.time.before.relogin", Inert(NO_KERBEROS)),
    ("sasl.kerberos.ticket.renew.window.factor", Inert(NO_KERBEROS)),
    ("sasl.kerberos.ticket.renew.jitter", Inert(NO_KERBEROS)),
];

/// For producers.
pub(super) const SINK: &super::Rules = &[
    ("transactional.id", Owned("it is made of the pipeline's name and the chain, under exactly-once", None)),
    ("delivery.report.only.error", Owned("the writer counts what was delivered", Some("false"))),
    ("max.block.ms", Owned("use the option request_timeout", None)),
    ("key.serializer", Change(plain_bytes)),
    ("value.serializer", Change(plain_bytes)),
    ("max.request.size", Rename("message.max.bytes")),
    ("request.timeout.ms", Change(|value| both(["request.timeout.ms", "socket.timeout.ms"], value))),
    ("batch.size", Change(|value| at_least_one("batch.size", value))),
    ("buffer.memory", Change(buffer_memory)),
    ("compression.gzip.level", Together),
    ("compression.lz4.level", Together),
    ("compression.zstd.level", Together),
    ("partitioner.class", Change(partitioner)),
    ("partitioner.ignore.keys", Change(ignore_keys)),
    ("partitioner.adaptive.partitioning.enable", Inert(NO_EQUAL)),
    ("partitioner.availability.timeout.ms", Inert(NO_EQUAL)),
];

/// For consumers.
pub(super) const RULES: &super::Rules = &[
    ("group.id", Owned("use the option group_id", None)),
    ("auto.offset.reset", Owned("use the option connector.auto_offset_reset", None)),
    ("enable.auto.commit", Owned(ACKNOWLEDGED, Some("false"))),
    ("auto.commit.enable", Owned(ACKNOWLEDGED, Some("false"))),
    ("auto.commit.interval.ms", Owned(ACKNOWLEDGED, None)),
    ("enable.auto.offset.store", Owned("the reader keeps the offsets itself", Some("false"))),
    ("enable.partition.eof", Owned("the reader finds the end of a partition by its offset", Some("false"))),
    ("exclude.internal.topics", Owned("a pattern never matches internal topics; name them", Some("true"))),
    ("max.poll.records", Owned("use the option max_batch_rows", None)),
    ("default.api.timeout.ms", Owned("use the option request_timeout", None)),
    // Those of Confluent's deserializers.
    ("schema.registry.url", Refused("use the option schema_registry_url")),
    ("basic.auth.credentials.source", Refused("use the option schema_registry_basic_auth")),
    ("basic.auth.user.info", Refused("use the option schema_registry_basic_auth")),
    ("schema.registry.basic.auth.user.info", Refused("use the option schema_registry_basic_auth")),
    ("bearer.auth.credentials.source", Refused("use the option schema_registry_bearer_token")),
    ("bearer.auth.token", Refused("use the option schema_registry_bearer_token")),
    ("schema.registry.ssl.truststore.location", Refused("use the option schema_registry_ca, with PEM")),
    ("key.deserializer", Change(plain_bytes)),
    ("value.deserializer", Change(plain_bytes)),
    ("fetch.max.wait.ms", Rename("fetch.wait.max.ms")),
    ("fetch.min.bytes", Change(|value| at_least_one("fetch.min.bytes", value))),
    ("fetch.max.bytes", Change(fetch_max_bytes)),
    ("request.timeout.ms", Rename("socket.timeout.ms")),
    ("partition.assignment.strategy", Change(assignment_strategy)),
];

/// Rules over several properties that are neither about TLS nor about logins.
pub(super) fn apply_together(map: &PropertyMap, out: &mut Translation) {
    compression_level(map, out);
    // librdkafka refuses a pause above its bound, which is a second unless somebody says more.
    let pause = map.get("retry.backoff.ms").and_then(|text| text.trim().parse::<u64>().ok());
    if let Some(pause) = pause.filter(|pause| *pause > 1000 && map.get("retry.backoff.max.ms").is_none()) {
        out.set("retry.backoff.max.ms", pause.to_string());
    }
}

/// Java has a level for each codec, librdkafka one for that which is used.
fn compression_level(map: &PropertyMap, out: &mut Translation) {
    let levels = [
        ("gzip", "compression.gzip.level", 0..=9),
        ("lz4", "compression.lz4.level", 1..=17),
        ("zstd", "compression.zstd.level", -131_072..=22),
    ];
    for (codec, name, range) in levels {
        let Some(text) = map.get(name) else { continue };
        let Some(level) = text.trim().parse::<i64>().ok().filter(|level| range.contains(level)) else {
            out.refuse(name, format!("the property `{name}`: `{text}` is not within {range:?}"));
            continue;
        };
        // librdkafka's own bounds are narrower.
        let level = if codec == "gzip" { level } else { level.clamp(-1, 12) };
        match map.get("compression.type") {
            Some(chosen) if chosen.trim().eq_ignore_ascii_case(codec) => {
                out.set("compression.level", level.to_string());
            }
            Some(_) => out
                .warnings
                .push(format!("the property `{name}` has no effect: compression.type is another codec")),
            None => out.refuse(
                name,
                format!("the property `{name}` needs `compression.type` beside it, among the properties"),
            ),
        }
    }
}

fn number(value: &str) -> Result<i64, String> {
    value.trim().parse().map_err(|_| format!("`{value}` is not a whole number"))
}

/// Java's -1 leaves it to the system, as librdkafka's 0.
fn system_default(name: &'static str, value: &str) -> Changed {
    let value = if value.trim() == "-1" { "0" } else { value };
    Ok(vec![(name, value.to_owned())])
}

/// Java takes a 0 that librdkafka does not.
fn at_least_one(name: &'static str, value: &str) -> Changed {
    let value = if value.trim() == "0" { "1" } else { value };
    Ok(vec![(name, value.to_owned())])
}

fn both(names: [&'static str; 2], value: &str) -> Changed {
    Ok(names.map(|name| (name, value.to_owned())).to_vec())
}

fn buffer_memory(value: &str) -> Changed {
    let bytes = number(value)?;
    if bytes < 1024 {
        return Err(format!("`{value}` is below 1024 bytes"));
    }
    Ok(vec![("queue.buffering.max.kbytes", (bytes / 1024).min(i64::from(i32::MAX)).to_string())])
}

/// librdkafka wants the answer to fit its buffer, and the bound not below that of one record.
fn fetch_max_bytes(value: &str) -> Changed {
    const RECORD: i64 = 1_000_000;
    const ANSWER: i64 = 100_000_000;
    let bytes = number(value)?.max(RECORD);
    let mut pairs = vec![("fetch.max.bytes", bytes.to_string())];
    if bytes + 512 > ANSWER {
        pairs.push(("receive.message.max.bytes", (bytes + 512).to_string()));
    }
    Ok(pairs)
}

/// Classes of the Java client whose bytes are what the format makes.
fn plain_bytes(class: &str) -> Changed {
    let name = class.trim().rsplit('.').next().unwrap_or_default();
    let plain = ["ByteArray", "ByteBuffer", "Bytes", "String"];
    let is_plain = name
        .strip_suffix("Deserializer")
        .or_else(|| name.strip_suffix("Serializer"))
        .is_some_and(|kind| plain.contains(&kind));
    if is_plain {
        return Ok(Vec::new());
    }
    Err(format!("`{class}` cannot run here: the option format_type decides how values are read and written"))
}

fn assignment_strategy(value: &str) -> Changed {
    let known = |class: &str| match class.trim().rsplit('.').next().unwrap_or_default() {
        "RangeAssignor" | "range" => Some("range"),
        "RoundRobinAssignor" | "roundrobin" => Some("roundrobin"),
        "CooperativeStickyAssignor" | "cooperative-sticky" => Some("cooperative-sticky"),
        _ => None,
    };
    let mut names: Vec<&str> = Vec::new();
    for class in value.split(',').filter(|class| !class.trim().is_empty()) {
        let name = known(class).ok_or_else(|| {
            format!(
                "`{}` is none of range, roundrobin and cooperative-sticky, or Java's classes of these",
                class.trim()
            )
        })?;
        names.push(name);
    }
    // Members that give partitions back one by one and members that give back all cannot be one group.
    if names.contains(&"cooperative-sticky") && names.iter().any(|name| *name != "cooperative-sticky") {
        return Err(
            "cooperative-sticky does not go with the others here; name it alone once all members know it"
                .to_owned(),
        );
    }
    Ok(vec![("partition.assignment.strategy", names.join(","))])
}

fn partitioner(class: &str) -> Changed {
    match class.trim().rsplit('.').next().unwrap_or_default() {
        // As Java's: murmur2 of the key, and one partition after the other in batches without one.
        "" | "DefaultPartitioner" => Ok(vec![("partitioner", "murmur2_random".to_owned())]),
        "UniformStickyPartitioner" => Ok(vec![("partitioner", "random".to_owned())]),
        "RoundRobinPartitioner" => {
            Err("librdkafka takes no turns; leave it out, or name a column in the option partition_field"
                .to_owned())
        }
        _ => Err(format!(
            "`{class}` cannot run here: leave it out, or name a column in the option partition_field"
        )),
    }
}

fn ignore_keys(value: &str) -> Changed {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(vec![("partitioner", "random".to_owned())]),
        "false" => Ok(Vec::new()),
        _ => Err(format!("`{value}` is neither true nor false")),
    }
}

fn endpoint_identification(value: &str) -> Changed {
    let value = value.trim().to_ascii_lowercase();
    let value = if value.is_empty() { "none".to_owned() } else { value };
    Ok(vec![("ssl.endpoint.identification.algorithm", value)])
}

/// Up to TLS 1.2 Java has IANA's names, OpenSSL its own.
fn cipher_suites(value: &str) -> Changed {
    if value.contains("_WITH_") {
        return Err("OpenSSL has other names for these, such as ECDHE-RSA-AES128-GCM-SHA256; use them, joined by colons".to_owned());
    }
    Ok(vec![("ssl.cipher.suites", value.to_owned())])
}
