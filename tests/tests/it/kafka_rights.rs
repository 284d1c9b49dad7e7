//! A broker with an authorizer, and a user who may not do what the sink's options ask for.

use connector_core::{
    DeliveryGuarantee, Error, ErrorKind, SchemaChange, Sink, SinkWriter, TableId, TableSchema, WriterContext,
    testkit::orders_schema,
};
use connector_kafka::KafkaSink;
use connector_tests::{
    OwnedService,
    services::{Kafka, TESTER},
    unique_name,
};
use tokio::process::Command;

fn sink(kafka: &Kafka, topic: &str) -> KafkaSink {
    KafkaSink::builder()
        .bootstrap_servers(kafka.sasl_bootstrap.as_str())
        .topic(topic)
        .create_topic_enabled(true)
        .property("security.protocol", "SASL_PLAINTEXT")
        .property("sasl.mechanism", "PLAIN")
        .property("sasl.username", TESTER.0)
        .property("sasl.password", TESTER.1)
        .build()
        .unwrap()
}

/// Gives the user the right to see all topics and to write to them.
async fn allow(kafka: &Kafka) {
    let mut command = Command::new("java");
    command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", &kafka.tools]);
    command.args(["org.apache.kafka.tools.AclCommand", "--bootstrap-server", &kafka.bootstrap, "--add"]);
    command.args(["--allow-principal", &format!("User:{}", TESTER.0), "--topic", "*"]);
    command.args(["--operation", "Describe", "--operation", "Write"]);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn check(error: &Error, topic: &str) {
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains(topic), "{text}");
    assert!(!text.contains(TESTER.1), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_this_user_may_not_create_is_told_with_the_option_that_asks_for_it() {
    let Some(broker) = OwnedService::start_kafka_with_rights().await else { return };
    let kafka = broker.kafka();
    let topic = unique_name("made");
    // Without any right nobody says whether the topic is there.
    let error = sink(&kafka, &topic).open(WriterContext::default()).await.unwrap_err();
    check(&error, &topic);

    allow(&kafka).await;
    let fixed = sink(&kafka, &topic);
    fixed.check(DeliveryGuarantee::AtLeastOnce).await.unwrap();
    let error = fixed.open(WriterContext::default()).await.unwrap_err();
    check(&error, &topic);
    assert!(error.message().contains("`create_topic_enabled`"), "{error}");

    // And where the topic follows from the table.
    let mut writer = sink(&kafka, "${table}").open(WriterContext::default()).await.unwrap();
    let table = TableId::new("shop", topic.as_str());
    let change = SchemaChange::CreateTable { table, schema: TableSchema::new(orders_schema()) };
    let error = writer.apply(&change).await.unwrap_err();
    check(&error, &topic);
    assert!(error.message().contains("`create_topic_enabled`"), "{error}");

    // Somebody else creates it.
    kafka.create_topic(&topic, 1, &[]).await;
    fixed.open(WriterContext::default()).await.unwrap();
}
