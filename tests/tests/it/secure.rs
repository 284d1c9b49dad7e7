//! TLS, mutual TLS and logins on a real broker, in the spellings of both clients, and what is said when they are wrong.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use connector_core::{
    ChangeBatch, DeliveryGuarantee, Error, ErrorKind, Secret, Sink, SinkWriter, Source, SourceEvent,
    SourceReader, TableId, WriterContext,
    arrow::{
        array::{Int64Array, RecordBatch},
        datatypes::{DataType, Field, Schema},
    },
};
use connector_kafka::{Json, KafkaSink, KafkaSource, OauthToken};
use connector_tests::{
    services::{self, Kafka, TESTER},
    unique_name,
};
use tempfile::TempDir;

/// Longer than the time-outs of the clients here.
const IN_TIME: Duration = Duration::from_secs(30);
/// Of the stores that the tests make, and in no error.
const STORE_PASSWORD: &str = "store-hunter2";

type Properties = Vec<(&'static str, String)>;

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
}

/// One way in.
#[derive(Clone)]
struct Door {
    address: String,
    topic: String,
    properties: Properties,
    /// The claims of the token, for OAUTHBEARER.
    claims: Option<String>,
}

impl Door {
    fn source(&self) -> Result<KafkaSource, Error> {
        let mut builder = KafkaSource::builder()
            .bootstrap_servers(self.address.as_str())
            .topics([self.topic.as_str()])
            .bounded()
            .request_timeout(Duration::from_secs(8))
            .format(Json::with_schema(schema()));
        for (name, value) in &self.properties {
            builder = builder.property(*name, value);
        }
        if let Some(claims) = self.claims.clone() {
            builder = builder.oauth_tokens(move || Ok(token(&claims)));
        }
        builder.build()
    }

    fn sink(&self) -> Result<KafkaSink, Error> {
        let mut builder = KafkaSink::builder()
            .bootstrap_servers(self.address.as_str())
            .topic(self.topic.as_str())
            .request_timeout(Duration::from_secs(8))
            .linger(Duration::ZERO);
        for (name, value) in &self.properties {
            builder = builder.property(*name, value);
        }
        if let Some(claims) = self.claims.clone() {
            builder = builder.oauth_tokens(move || Ok(token(&claims)));
        }
        builder.build()
    }

    /// Writes a row and reads all, through this door both times.
    async fn passes(&self, row: i64) {
        let sink = self.sink().unwrap();
        sink.check(DeliveryGuarantee::AtLeastOnce).await.unwrap();
        let mut writer = sink.open(WriterContext::default()).await.unwrap();
        let rows = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(vec![row]))]).unwrap();
        writer.write(&TableId::new("", "t"), ChangeBatch::append(rows)).await.unwrap();
        assert_eq!(writer.flush(None).await.unwrap().rows, 1);
        writer.close().await.unwrap();
        let source = self.source().unwrap();
        source.check().await.unwrap();
        let splits = source.discover(&[]).await.unwrap();
        let mut reader = source.open(splits).await.unwrap();
        let mut rows = 0;
        while let Some(event) = tokio::time::timeout(IN_TIME, reader.next()).await.unwrap().unwrap() {
            if let SourceEvent::Batch { rows: batch, .. } = event {
                rows += batch.num_rows();
            }
        }
        assert_eq!(rows, usize::try_from(row + 1).unwrap());
        reader.close().await.unwrap();
    }

    /// The errors of both, which show no secret.
    async fn refuses(&self, secrets: &[&str]) -> [Error; 2] {
        let source = self.source().unwrap();
        let sink = self.sink().unwrap();
        let errors = [
            tokio::time::timeout(IN_TIME, source.check()).await.unwrap().expect_err("a refusal"),
            tokio::time::timeout(IN_TIME, sink.check(DeliveryGuarantee::AtLeastOnce))
                .await
                .unwrap()
                .expect_err("a refusal"),
        ];
        for error in &errors {
            println!("{error}");
            for secret in secrets {
                assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
            }
        }
        errors
    }
}

/// A token that nobody signed, as the broker's own validator takes it outside production.
fn token(claims: &str) -> OauthToken {
    let text = format!("{}.{}.", base64(br#"{"alg":"none"}"#), base64(claims.as_bytes()));
    OauthToken {
        value: Secret::new(text),
        principal: TESTER.0.to_owned(),
        expires: SystemTime::now() + Duration::from_secs(600),
    }
}

/// Base64 for URLs, without padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |n, byte| n << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        (0..=chunk.len()).for_each(|i| out.push(LETTERS[(number >> (18 - 6 * i) & 63) as usize].into()));
    }
    out
}

fn claims(from_now: i64) -> String {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    format!(r#"{{"sub":"{}","iat":{},"exp":{}}}"#, TESTER.0, now - 3600, now + from_now)
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_str().unwrap().to_owned()
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Stores as Java's and OpenSSL's own tools make them.
struct Stores {
    folder: TempDir,
    kafka: Kafka,
}

impl Stores {
    fn new(kafka: &Kafka) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), kafka: kafka.clone() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A trust store by `keytool`.
    fn trust(&self, kind: &str) -> String {
        let store = text(self.path(&format!("trust.{kind}")));
        let certificate = text(&self.kafka.certificate);
        #[rustfmt::skip]
        run("keytool", &[
            "-importcert", "-noprompt", "-alias", "broker", "-file", &certificate,
            "-keystore", &store, "-storetype", kind, "-storepass", STORE_PASSWORD,
        ]);
        store
    }

    /// The client's key and certificate in PKCS12.
    fn own(&self) -> String {
        let store = text(self.path("own.p12"));
        let password = format!("pass:{STORE_PASSWORD}");
        let (certificate, key) = (text(&self.kafka.client_certificate), text(&self.kafka.client_key));
        run(
            "openssl",
            &[
                "pkcs12",
                "-export",
                "-in",
                &certificate,
                "-inkey",
                &key,
                "-out",
                &store,
                "-passout",
                &password,
            ],
        );
        store
    }

    /// A certificate that the broker does not know, and its key.
    fn stranger(&self) -> (String, String) {
        let (certificate, key) = (text(self.path("stranger.crt")), text(self.path("stranger.key")));
        #[rustfmt::skip]
        run("openssl", &[
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=stranger",
            "-keyout", &key, "-out", &certificate,
        ]);
        (certificate, key)
    }
}

async fn door(kafka: &Kafka, address: &str) -> Door {
    let topic = unique_name("secure");
    kafka.create_topic(&topic, 1, &[]).await;
    Door { address: address.to_owned(), topic, properties: Properties::new(), claims: None }
}

fn ssl(more: &[(&'static str, String)]) -> Properties {
    let mut properties = vec![("security.protocol", "SSL".to_owned())];
    properties.extend_from_slice(more);
    properties
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_are_trusted_by_every_kind_of_store() {
    let Some(kafka) = services::kafka() else { return };
    let stores = Stores::new(&kafka);
    let door = door(&kafka, &kafka.tls_bootstrap).await;
    let password = ("ssl.truststore.password", STORE_PASSWORD.to_owned());
    let pem = fs::read_to_string(&kafka.certificate).unwrap();
    let ways = [
        vec![("ssl.ca.location", text(&kafka.certificate))],
        vec![
            ("ssl.truststore.location", text(&kafka.certificate)),
            ("ssl.truststore.type", "PEM".to_owned()),
        ],
        vec![("ssl.truststore.location", stores.trust("JKS")), password.clone()],
        vec![
            ("ssl.truststore.location", stores.trust("PKCS12")),
            password,
            ("ssl.truststore.type", "PKCS12".to_owned()),
        ],
        vec![("ssl.truststore.certificates", pem.clone())],
        vec![("ssl.truststore.certificates", pem.trim().replace('\n', "\\n"))],
    ];
    for (row, way) in (0..).zip(ways) {
        Door { properties: ssl(&way), ..door.clone() }.passes(row).await;
    }
    // Nobody vouches for the broker.
    let (stranger, _) = stores.stranger();
    for trust in [vec![], vec![("ssl.truststore.location", stranger)]] {
        for error in (Door { properties: ssl(&trust), ..door.clone() }).refuses(&[]).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("certificate verify failed"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_their_certificate_where_the_broker_wants_it() {
    let Some(kafka) = services::kafka() else { return };
    let stores = Stores::new(&kafka);
    let door = door(&kafka, &kafka.mutual_bootstrap).await;
    let trust = ("ssl.truststore.location", text(&kafka.certificate));
    let (certificate, key) = (&kafka.client_certificate, &kafka.client_key);
    let both = stores.path("both.pem");
    let pems = [certificate, key].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&both, pems.concat()).unwrap();
    let ways = [
        vec![("ssl.certificate.location", text(certificate)), ("ssl.key.location", text(key))],
        vec![("ssl.keystore.location", stores.own()), ("ssl.keystore.password", STORE_PASSWORD.to_owned())],
        vec![("ssl.keystore.location", text(&both)), ("ssl.keystore.type", "PEM".to_owned())],
        vec![("ssl.keystore.certificate.chain", pems[0].clone()), ("ssl.keystore.key", pems[1].clone())],
    ];
    for (row, mut way) in (0..).zip(ways) {
        way.push(trust.clone());
        Door { properties: ssl(&way), ..door.clone() }.passes(row).await;
    }
    let (certificate, key) = stores.stranger();
    for way in [vec![], vec![("ssl.certificate.location", certificate), ("ssl.key.location", key)]] {
        let properties = ssl(&[way, vec![trust.clone()]].concat());
        for error in (Door { properties, ..door.clone() }).refuses(&[&pems[1]]).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
        }
    }
}

/// The properties of a login with a password, as Java's users write them and as librdkafka's do.
fn login(mechanism: &str, password: &str, java: bool) -> Properties {
    let module = if mechanism == "PLAIN" { "plain.PlainLoginModule" } else { "scram.ScramLoginModule" };
    let mut properties = vec![("sasl.mechanism", mechanism.to_owned())];
    if java {
        let jaas = format!(
            r#"org.apache.kafka.common.security.{module} required username="{}" password="{password}";"#,
            TESTER.0
        );
        properties.push(("sasl.jaas.config", jaas));
    } else {
        properties.extend([("sasl.username", TESTER.0.to_owned()), ("sasl.password", password.to_owned())]);
    }
    properties
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_with_passwords_pass_and_wrong_ones_are_told_without_the_password() {
    let Some(kafka) = services::kafka() else { return };
    let plain = door(&kafka, &kafka.sasl_bootstrap).await;
    let trust = ("ssl.ca.location", text(&kafka.certificate));
    let mut row = 0;
    for (mechanism, java) in
        [("PLAIN", true), ("PLAIN", false), ("SCRAM-SHA-256", false), ("SCRAM-SHA-512", true)]
    {
        for tls in [false, true] {
            let way = |password| {
                let mut properties = login(mechanism, password, java);
                let protocol = if tls { "SASL_SSL" } else { "SASL_PLAINTEXT" };
                properties.push(("security.protocol", protocol.to_owned()));
                properties.extend(tls.then(|| trust.clone()));
                let address = if tls { &kafka.sasl_tls_bootstrap } else { &kafka.sasl_bootstrap };
                Door { properties, address: address.clone(), ..plain.clone() }
            };
            way(TESTER.1).passes(row).await;
            row += 1;
            if tls == java {
                for error in way("hunter2-wrong").refuses(&["hunter2-wrong"]).await {
                    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{mechanism}: {error}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_with_tokens_pass_and_expired_ones_do_not() {
    let Some(kafka) = services::kafka() else { return };
    let mut door = door(&kafka, &kafka.sasl_bootstrap).await;
    door.properties = vec![
        ("security.protocol", "SASL_PLAINTEXT".to_owned()),
        ("sasl.mechanism", "OAUTHBEARER".to_owned()),
    ];
    // Nobody gives tokens.
    for error in [door.source().unwrap_err(), door.sink().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains("oauth_tokens"), "{error}");
    }
    door.claims = Some(claims(600));
    door.passes(0).await;
    let expired = claims(-600);
    door.claims = Some(expired.clone());
    for error in door.refuses(&[&base64(expired.as_bytes())]).await {
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
    }
}
