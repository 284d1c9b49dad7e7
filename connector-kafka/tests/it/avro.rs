//! Avro with a schema registry that stands in this process. A real registry is asked elsewhere.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use connector_core::{
    BadRecordPolicy, ChangelogMode, Error, ErrorKind, Source, SourceEvent, SourceReader, TableSchema,
    arrow::{array::AsArray, datatypes::Int64Type},
};
use connector_kafka::{
    Avro, Changes, KafkaSource, KafkaSourceOptions, SchemaRegistry, StartupMode, source::KafkaSourceBuilder,
};
use tiny_http::{Response, Server};

use crate::common::{Cluster, Seen, drain, next, open_all, pull_until, schema};

const ROW: &str = r#"{"type":"record","name":"Row","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"note","type":["null","string"]}]}"#;

/// A row of schema `number`, of numbers up to 63.
fn row(number: u8, id: u8) -> Vec<u8> {
    assert!(id < 64);
    vec![0, 0, 0, 0, number, id * 2, 0]
}

/// What the registry says of a schema.
fn registered(schema: &str, more: &str) -> (u16, String) {
    let schema = serde_json::Value::from(schema);
    (200, format!(r#"{{"schema":{schema}{more}}}"#))
}

#[derive(Default)]
struct State {
    answers: HashMap<String, (u16, String)>,
    asked: Vec<String>,
    logins: Vec<String>,
}

/// A registry that gives answers by path.
struct Registry {
    url: String,
    state: Arc<Mutex<State>>,
    server: Arc<Server>,
}

impl Registry {
    fn start(answers: &[(&str, (u16, String))]) -> Self {
        let server = Arc::new(Server::http("127.0.0.1:0").unwrap());
        let url = format!("http://{}", server.server_addr().to_ip().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let registry = Self { url, state: Arc::clone(&state), server: Arc::clone(&server) };
        for (path, answer) in answers {
            registry.answer(path, answer.clone());
        }
        std::thread::spawn(move || {
            for request in server.incoming_requests() {
                let mut state = state.lock().unwrap();
                state.asked.push(request.url().to_owned());
                let login = request.headers().iter().find(|header| header.field.equiv("Authorization"));
                state.logins.extend(login.map(|header| header.value.to_string()));
                let unknown = (404, r#"{"error_code":40403,"message":"Schema not found"}"#.to_owned());
                let (status, body) = state.answers.get(request.url()).cloned().unwrap_or(unknown);
                drop(state);
                // Whoever asked may have gone.
                drop(request.respond(Response::from_string(body).with_status_code(status)));
            }
        });
        registry
    }

    /// One with the schema 1 of rows.
    fn with_rows() -> Self {
        Self::start(&[("/schemas/ids/1", registered(ROW, ""))])
    }

    fn answer(&self, path: &str, answer: (u16, String)) {
        self.state.lock().unwrap().answers.insert(path.to_owned(), answer);
    }

    fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    fn avro(&self) -> Avro {
        Avro::new(SchemaRegistry::builder(&self.url).build().unwrap())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.unblock();
    }
}

fn source(cluster: &Cluster, format: impl Into<connector_kafka::Format>) -> KafkaSourceBuilder {
    cluster.source(&["orders"]).format(format).bounded()
}

fn cluster(values: &[Vec<u8>]) -> Cluster {
    let cluster = Cluster::with_topic("orders", 2);
    for (partition, value) in (0..2).cycle().zip(values) {
        cluster.write("orders", partition, "k", Some(value));
    }
    cluster
}

async fn failure(source: &KafkaSource) -> Error {
    let mut reader = open_all(source).await;
    loop {
        match next(&mut reader).await {
            Ok(event) => assert!(event.is_some(), "no error came"),
            Err(error) => return error,
        }
    }
}

#[tokio::test]
async fn rows_by_options_alone_and_a_schema_that_is_fetched_once() {
    let cluster = cluster(&[row(1, 1), row(1, 2), row(1, 3), row(1, 4)]);
    let registry = Registry::with_rows();
    let options = |more: &[(&str, &str)]| {
        let address = cluster.address();
        let own = [("bootstrap_servers", address.as_str()), ("topics", "orders"), ("job_type", "BATCH")];
        let pairs = own.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        KafkaSourceOptions::from_options(pairs.collect::<Vec<_>>())
    };
    // One of the addresses is dead, and a slash stands at the end of the other.
    let url = format!("http://127.0.0.1:1, {}/", registry.url);
    let by_name = [
        ("format_type", "AVRO"),
        ("schema_registry_url", url.as_str()),
        ("schema_registry_basic_auth", "me:hunter2"),
    ];
    let source = KafkaSourceBuilder::from(options(&by_name).unwrap()).build().unwrap();
    assert_eq!(source.changelog_mode(), ChangelogMode::Append);
    assert!(!format!("{source:?}").contains("hunter2"));
    source.check().await.unwrap();
    let seen = drain(&mut open_all(&source).await).await;
    assert_eq!(seen.all(), [1, 2, 3, 4]);
    assert_eq!(registry.asked(), ["/schemas/types", "/schemas/ids/1"]);
    assert_eq!(registry.state.lock().unwrap().logins[0], "Basic bWU6aHVudGVyMg==");

    let with_token = [
        ("format_type", "debezium_avro"),
        ("schema_registry_url", &registry.url),
        ("schema_registry_bearer_token", "t0k"),
    ];
    let source = KafkaSourceBuilder::from(options(&with_token).unwrap()).build().unwrap();
    assert_eq!(source.changelog_mode(), ChangelogMode::Full);
    source.check().await.unwrap();
    assert_eq!(registry.state.lock().unwrap().logins.last().unwrap(), "Bearer t0k");

    let error = KafkaSourceBuilder::from(options(&[("format_type", "avro")]).unwrap()).build().unwrap_err();
    assert!(error.message().contains("schema_registry_url"), "{error}");
    let declared = KafkaSourceBuilder::from(options(&by_name).unwrap())
        .schema(TableSchema::new(schema()))
        .build()
        .unwrap();
    assert_eq!(drain(&mut open_all(&declared).await).await.all(), [1, 2, 3, 4]);
    for (pairs, part) in [
        (vec![("schema_registry_url", "http://r:1")], "is for the formats avro and debezium_avro"),
        (
            vec![("format_type", "json"), ("schema_registry_ca", "x")],
            "`schema_registry_ca` is for the formats",
        ),
        (vec![("format_type", "avro"), ("use_multi_table_record", "true")], "use_multi_table_record"),
    ] {
        let error = options(&pairs).unwrap_err();
        assert!(error.message().contains(part), "{pairs:?}: {error}");
    }
}

#[test]
fn registries_that_cannot_be() {
    let build = |url: &str| SchemaRegistry::builder(url).build();
    for (url, part) in [
        ("", "no address"),
        ("registry:8081", "no address"),
        ("http://", "no address"),
        ("http://a b", "no address"),
        ("http://me:hunter2@registry:8081", "schema_registry_basic_auth"),
        ("http://one:1,,http://two:2", "no address"),
    ] {
        let error = build(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains(part) && !error.to_string().contains("hunter2"), "{url}: {error}");
    }
    let registry = || SchemaRegistry::builder("https://registry");
    for (builder, part) in [
        (registry().basic_auth("me"), "name:password"),
        (registry().basic_auth("a:b").bearer_token("c"), "one is enough"),
        (registry().certificate_authorities("/no/such/file"), "cannot be read"),
        (registry().certificate_authorities("-----BEGIN CERTIFICATE-----"), "no certificate"),
    ] {
        let error = builder.build().unwrap_err();
        assert!(error.message().contains(part), "{error}");
    }
    let secret = registry().basic_auth("me:hunter2");
    assert!(!format!("{secret:?} {:?}", secret.clone().build().unwrap()).contains("hunter2"));
}

/// Schemas may name types of other subjects, and those again.
#[tokio::test]
async fn schemas_of_other_subjects() {
    let whole = r#"{"type":"record","name":"Row","fields":[{"name":"id","type":"shop.Id"},{"name":"note","type":["null","shop.Note"]}]}"#;
    let id = r#"{"type":"record","name":"Id","namespace":"shop","fields":[{"name":"note","type":"Note"}]}"#;
    let note = r#"{"type":"enum","name":"Note","namespace":"shop","symbols":["a","b"]}"#;
    let references = r#","references":[{"name":"shop.Id","subject":"a/ü","version":3},{"name":"shop.Note","subject":"note","version":1}]"#;
    let registry = Registry::start(&[
        ("/schemas/ids/1", registered(whole, references)),
        (
            "/subjects/a%2F%C3%BC/versions/3",
            registered(id, r#","references":[{"name":"shop.Note","subject":"note","version":1}]"#),
        ),
        ("/subjects/note/versions/1", registered(note, r#","schemaType":"AVRO","references":[]"#)),
    ]);
    let cluster = cluster(&[vec![0, 0, 0, 0, 1, 2, 0]]);
    let mut reader = open_all(&source(&cluster, registry.avro()).build().unwrap()).await;
    let mut rows = 0;
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::Batch { rows: batch, .. } = event {
            rows += batch.num_rows();
            assert_eq!(
                batch.rows().schema().field(0).data_type().to_string(),
                r#"Struct("note": non-null Utf8)"#
            );
        }
    }
    assert_eq!(rows, 1);
    assert_eq!(registry.asked().len(), 3);
}

#[tokio::test]
async fn a_registry_that_does_not_serve_is_waited_for() {
    let cluster = cluster(&[row(1, 1), row(1, 2)]);
    let registry = Registry::start(&[("/schemas/ids/1", (503, "busy".to_owned()))]);
    let read = source(&cluster, registry.avro()).build().unwrap();
    let mut reader = open_all(&read).await;
    let late = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        registry.answer("/schemas/ids/1", registered(ROW, ""));
    };
    let (seen, ()) = tokio::join!(drain(&mut reader), late);
    assert_eq!(seen.all(), [1, 2]);
    assert!(registry.asked().len() > 2);
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let cluster = cluster(&[row(1, 1)]);
    let nobody = || Avro::new(SchemaRegistry::builder("http://127.0.0.1:1").build().unwrap());
    let source = |timeout| source(&cluster, nobody()).request_timeout(timeout).build().unwrap();
    let error = failure(&source(Duration::from_secs(1))).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.is_transient(), "{error}");
    for (key, value) in
        [("schema_registry_url", "http://127.0.0.1:1"), ("schema", "1"), ("topic", "orders"), ("offset", "0")]
    {
        assert_eq!(error.context_value(key), Some(value), "{error}");
    }
    assert_eq!(source(Duration::from_secs(1)).check().await.unwrap_err().kind(), ErrorKind::Unavailable);
    // Whoever closes the reader does not wait for it either.
    let mut reader = open_all(&source(Duration::from_secs(600))).await;
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(500), reader.next()).await {
        assert!(matches!(event, Ok(Some(SourceEvent::Finished { .. }))), "{event:?}");
    }
    let start = Instant::now();
    // It may tell why the reader had stopped.
    drop(reader.close().await);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn schemas_that_cannot_be_used_are_the_records_fault() {
    let registry = Registry::start(&[
        ("/schemas/ids/1", registered(ROW, "")),
        ("/schemas/ids/2", registered("syntax = \"proto3\";", r#","schemaType":"PROTOBUF""#)),
        ("/schemas/ids/3", registered("{\"type\":\"array\"}", "")),
        ("/schemas/ids/4", registered(ROW, r#","references":[{"name":"x","subject":"gone","version":1}]"#)),
    ]);
    for (number, part) in [
        (2, "is of PROTOBUF and not of Avro"),
        (3, "`items`"),
        (4, "does not have /subjects/gone/versions/1"),
        (5, "the schema 5, which the registry does not have"),
    ] {
        let cluster = cluster(&[row(number, 1)]);
        let error = failure(&source(&cluster, registry.avro()).build().unwrap()).await;
        assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
        assert!(error.message().contains(part), "{error}");
    }
    // The others are read, and nobody asks for each bad record again.
    let records: Vec<Vec<u8>> = (0..20).flat_map(|id| [row(1, id), row(2, id), row(5, id)]).collect();
    let cluster = cluster(&records);
    let before = registry.asked().len();
    let skipping =
        source(&cluster, registry.avro()).bad_record_policy(BadRecordPolicy::DeadLetter).build().unwrap();
    let seen = drain(&mut open_all(&skipping).await).await;
    assert_eq!(seen.all(), (0..20).collect::<Vec<_>>());
    assert_eq!(seen.dead.len(), 40);
    assert_eq!(registry.asked().len() - before, 3);
}

#[tokio::test]
async fn answers_that_say_no() {
    let cluster = cluster(&[row(1, 1)]);
    for (status, body, kind, part) in [
        (401, r#"{"error_code":401,"message":"Unauthorized"}"#, ErrorKind::Unauthenticated, "Unauthorized"),
        (403, "", ErrorKind::PermissionDenied, "forbids"),
        (404, "<html>", ErrorKind::NotFound, "check schema_registry_url"),
        (200, "<html>", ErrorKind::Unexpected, "makes no sense"),
        (422, r#"{"error_code":42202,"message":"no"}"#, ErrorKind::Unexpected, "422"),
    ] {
        let answer = (status, body.to_owned());
        let registry = Registry::start(&[("/schemas/ids/1", answer.clone()), ("/schemas/types", answer)]);
        let login = SchemaRegistry::builder(&registry.url).basic_auth("me:hunter2").build().unwrap();
        let source = source(&cluster, Avro::new(login)).build().unwrap();
        for error in [failure(&source).await, source.check().await.unwrap_err()] {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.message().contains(part), "{error}");
            assert!(!error.is_transient() && !format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}

/// Whoever reads on while schemas change has every row, with the columns of all of them.
#[tokio::test]
async fn a_schema_that_changes_under_way() {
    let wider = r#"{"type":"record","name":"Row","fields":[{"name":"id","type":"long"},{"name":"note","type":["null","string"]},{"name":"more","type":["null","int"]}]}"#;
    let registry = Registry::start(&[
        ("/schemas/ids/1", registered(ROW, "")),
        ("/schemas/ids/2", registered(wider, "")),
    ]);
    let cluster = Cluster::with_topic("orders", 1);
    for id in 0..10 {
        let mut value = row(1 + id % 2, id);
        value.extend((id % 2 == 1).then_some(0));
        cluster.write("orders", 0, "k", Some(&value));
    }
    let read = source(&cluster, registry.avro()).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = open_all(&read).await;
    let (mut changes, mut ids, mut widths) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(event) = next(&mut reader).await.unwrap() {
        match event {
            SourceEvent::Schema { change, .. } => changes.push(change.kind().as_str()),
            SourceEvent::Batch { rows, .. } => {
                widths.push(rows.rows().num_columns());
                ids.extend(rows.rows().column(0).as_primitive::<Int64Type>().values().iter().copied());
            }
            _ => {}
        }
    }
    assert_eq!(ids, (0..10).collect::<Vec<_>>());
    assert_eq!(changes, ["create.table", "add.column"]);
    assert_eq!((widths.first(), widths.last()), (Some(&2), Some(&3)));
}

#[tokio::test]
async fn events_and_tombstones() {
    let event = r#"{"type":"record","name":"Envelope","fields":[
        {"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"note","type":["null","string"]}]}]},
        {"name":"after","type":["null","Value"]},{"name":"op","type":"string"}]}"#;
    let registry = Registry::start(&[("/schemas/ids/1", registered(event, ""))]);
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write("orders", 0, "k", Some(&[0, 0, 0, 0, 1, 0, 2, 14, 0, 2, b'c']));
    cluster.write("orders", 0, "k", Some(&[0, 0, 0, 0, 1, 2, 14, 0, 0, 2, b'd']));
    cluster.write("orders", 0, "k", None);
    let registry = SchemaRegistry::builder(&registry.url).build().unwrap();
    let changes = Changes::debezium_avro(registry).table(TableSchema::new(schema()));
    let mut reader = open_all(&source(&cluster, changes).build().unwrap()).await;
    let mut kinds = Vec::new();
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::Batch { rows, .. } = event {
            kinds.extend((0..rows.num_rows()).map(|row| rows.kinds().get(row).to_string()));
        }
    }
    assert_eq!(kinds, ["+I", "-D"]);
}

/// A server that speaks TLS with a certificate of its own.
fn tls_registry() -> (String, String) {
    use openssl::{
        asn1::Asn1Time,
        bn::BigNum,
        hash::MessageDigest,
        pkey::PKey,
        rsa::Rsa,
        ssl::{SslAcceptor, SslMethod},
        x509::{X509, X509NameBuilder, extension::SubjectAlternativeName},
    };
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "registry").unwrap();
    let name = name.build();
    let mut certificate = X509::builder().unwrap();
    certificate.set_version(2).unwrap();
    certificate.set_serial_number(&BigNum::from_u32(1).unwrap().to_asn1_integer().unwrap()).unwrap();
    certificate.set_subject_name(&name).unwrap();
    certificate.set_issuer_name(&name).unwrap();
    certificate.set_pubkey(&key).unwrap();
    certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    certificate.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    let names =
        SubjectAlternativeName::new().ip("127.0.0.1").build(&certificate.x509v3_context(None, None)).unwrap();
    certificate.append_extension(names).unwrap();
    certificate.sign(&key, MessageDigest::sha256()).unwrap();
    let certificate = certificate.build();
    let pem = String::from_utf8(certificate.to_pem().unwrap()).unwrap();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    acceptor.set_private_key(&key).unwrap();
    acceptor.set_certificate(&certificate).unwrap();
    let acceptor = acceptor.build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(mut stream) = acceptor.accept(stream) else { continue };
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                request.push(byte[0]);
            }
            let body = registered(ROW, "").1;
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            drop(stream.write_all(format!("{head}{body}").as_bytes()));
        }
    });
    (url, pem)
}

#[tokio::test]
async fn certificates_are_looked_at() {
    let (url, pem) = tls_registry();
    let cluster = cluster(&[row(1, 1)]);
    let strange = Avro::new(SchemaRegistry::builder(&url).build().unwrap());
    let error = failure(&source(&cluster, strange).build().unwrap()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.is_transient() && error.message().contains("schema_registry_ca"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &pem).unwrap();
    for ca in [pem.replace('\n', "\\n"), file.to_str().unwrap().to_owned()] {
        let trusted = SchemaRegistry::builder(&url).certificate_authorities(ca).build().unwrap();
        let mut reader = open_all(&source(&cluster, Avro::new(trusted)).build().unwrap()).await;
        let mut seen = Seen::default();
        pull_until(&mut reader, &mut seen, |seen| seen.rows() == 1).await;
    }
}
