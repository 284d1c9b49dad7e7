//! What cannot work is refused with an error of the right kind, in time, and says what to do.

use std::time::{Duration, Instant};

use connector_bytehouse_cdw::{BytehouseCdwSink, BytehouseCdwSinkBuilder, SinkModeName};
use connector_core::{
    CancellationToken, ChangeBatch, DeliveryGuarantee, Error, ErrorKind, Pipeline, Secret, Sink, Source,
    TableId,
    memory::{MemorySink, MemorySource},
    testkit::orders,
};
use connector_kafka::{KafkaSource, format::Json};
use connector_tests::{
    orders::schema,
    services::{self, Clickhouse},
};

/// Longer than any time-out that these tests set.
const IN_TIME: Duration = Duration::from_secs(15);

fn builder(address: &str) -> BytehouseCdwSinkBuilder {
    let (host, port) = address.rsplit_once(':').unwrap();
    BytehouseCdwSink::builder()
        .clickhouse(host, port.parse().unwrap())
        .mode(SinkModeName::Insert)
        .max_retries(0)
        .connection_properties([("connect_timeout", "3000")])
}

async fn refused(sink: BytehouseCdwSink) -> Error {
    let start = Instant::now();
    let error = sink.check(DeliveryGuarantee::AtLeastOnce).await.expect_err("a refusal");
    assert!(start.elapsed() < IN_TIME, "{error} took {:?}", start.elapsed());
    println!("{error}");
    error
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test]
async fn a_wrong_broker_address() {
    let source = KafkaSource::builder()
        .bootstrap_servers(nobody().as_str())
        .topics(["orders"])
        .request_timeout(Duration::from_secs(3))
        .format(Json::with_schema(schema()))
        .build()
        .unwrap();
    let start = Instant::now();
    let error = source.check().await.expect_err("a refusal");
    assert!(start.elapsed() < IN_TIME);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("127.0.0.1"), "the error names the address: {error}");
}

#[tokio::test]
async fn a_missing_topic() {
    let Some(kafka) = services::kafka() else { return };
    let source = KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics(["no_such_topic_here"])
        .format(Json::with_schema(schema()))
        .build()
        .unwrap();
    let error = source.check().await.expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("no_such_topic_here"), "{error}");
}

#[tokio::test]
async fn a_wrong_port_and_a_port_of_another_protocol() {
    let Some(server) = services::clickhouse_18() else { return };
    let error = refused(builder(&nobody()).build().unwrap()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let error = refused(builder(&server.http).build().unwrap()).await;
    let kinds = [ErrorKind::Unavailable, ErrorKind::OptionInvalid, ErrorKind::Unexpected, ErrorKind::Timeout];
    assert!(kinds.contains(&error.kind()), "{error}");
    assert!(error.to_string().contains("port"), "it says that the port may be wrong: {error}");
}

#[tokio::test]
async fn tls_to_a_plain_port_and_the_reverse() {
    let Some(server) = services::clickhouse_18() else { return };
    let tls = server.tls.clone().expect("18.16 has TLS");
    let certificate = tls.certificate.display().to_string();
    let secure = |address: &str, properties: Vec<(&'static str, String)>| {
        builder(address)
            .secure(true)
            .connection_properties(connector_core::options::PropertyMap::from_iter(properties))
    };
    let error = refused(secure(&server.tcp, vec![("connect_timeout", "3000".into())]).build().unwrap()).await;
    assert!(error.to_string().contains("TLS"), "{error}");
    let error = refused(builder(&tls.tcp).build().unwrap()).await;
    assert!(error.to_string().contains("TLS"), "it says that TLS may be missing: {error}");
    let error = refused(secure(&tls.tcp, vec![]).build().unwrap()).await;
    assert!(error.to_string().contains("certificate"), "an unknown certificate is not trusted: {error}");
    let good = secure(&tls.tcp, vec![("sslrootcert", certificate), ("server_name", "localhost".into())]);
    good.build()
        .unwrap()
        .check(DeliveryGuarantee::AtLeastOnce)
        .await
        .expect("TLS with the right certificate");
}

#[tokio::test]
async fn a_wrong_token_and_a_read_only_user() {
    let Some(server) = services::clickhouse_18() else { return };
    let login = |user: &str, password: &str| {
        builder(&server.tcp)
            .connection_properties([("user", user)])
            .api_token(Secret::new(password))
            .build()
            .unwrap()
    };
    let error = refused(login("tester", "not-the-secret")).await;
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(!format!("{error:?}").contains("not-the-secret"), "{error:?}");
    login("tester", "secret").check(DeliveryGuarantee::AtLeastOnce).await.expect("the right password");
    let error = refused(login("reader", "secret")).await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

async fn one_batch(server: &Clickhouse, table: &str) -> Error {
    let source = MemorySource::bounded();
    source.push("s", TableId::new("", "orders"), ChangeBatch::append(orders(0..10)));
    // A table that is not there would be created.
    let sink =
        builder(&server.tcp).table(table).options(|options| options.create_tables(false)).build().unwrap();
    Pipeline::new(source, sink).run(CancellationToken::new()).await.expect_err("a refusal")
}

#[tokio::test]
async fn a_missing_table_and_a_missing_column() {
    for server in [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten() {
        let database = server.create_database().await;
        let error = one_batch(&server, &format!("{database}.nothing")).await;
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains("nothing"), "{error}");
        let columns = "id UInt64, customer String, amount Decimal(18, 4)";
        server
            .execute(&format!("CREATE TABLE {database}.short ({columns}) ENGINE = MergeTree ORDER BY id"))
            .await;
        let error = one_batch(&server, &format!("{database}.short")).await;
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        assert!(error.to_string().contains("`discount`"), "it names the column: {error}");
    }
}

#[tokio::test]
async fn exactly_once_is_refused_where_it_would_not_be_true() {
    let Some(server) = services::clickhouse_current() else { return };
    let database = server.create_database().await;
    server.execute(&format!("CREATE TABLE {database}.t (id UInt64) ENGINE = MergeTree ORDER BY id")).await;
    let sink = builder(&server.tcp).table(format!("{database}.t")).build().unwrap();
    let error = sink.check(DeliveryGuarantee::ExactlyOnce).await.expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("non_replicated_deduplication_window"), "{error}");
    let upsert =
        builder(&server.tcp).mode(SinkModeName::Upsert).table(format!("{database}.t")).build().unwrap();
    // Rows whose source names no key may be appended, so only the first rows tell.
    let source = MemorySource::bounded();
    source.push("s", TableId::new("", "orders"), ChangeBatch::append(orders(0..10)));
    let error = Pipeline::new(source, upsert).run(CancellationToken::new()).await.expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    // A pair that can do it takes it.
    Pipeline::new(MemorySource::bounded(), MemorySink::new())
        .delivery(DeliveryGuarantee::ExactlyOnce)
        .check()
        .await
        .expect("memory keeps exactly once");
}
