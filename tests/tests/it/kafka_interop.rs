//! What the Kafka sink writes, as clients see it that share no code with us: the Java client's console tools and kcat.

use std::{collections::BTreeMap, process::Stdio, sync::Arc};

use connector_core::{
    ChangeBatch, RowKind, RowKinds, Sink, SinkWriter, TableId, WriterContext,
    arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array},
};
use connector_kafka::{KafkaSink, options::FormatType};
use connector_tests::{
    services::{self, Kafka},
    unique_name,
};
use tokio::{io::AsyncWriteExt as _, process::Command};

const KEYS: usize = 200;
const PARTITIONS: i32 = 7;

/// Keys of many lengths and alphabets; no line ends and no tabs, which divide the tools' output.
fn keys() -> Vec<String> {
    let texts = ["k", "订单-", "café ", "🎁", "a-much-longer-key-of-an-order-", " ", "x|y,z:"];
    (0..KEYS).map(|id| format!("{}{}", texts[id % texts.len()].repeat(id % 4), id)).collect()
}

fn batch(keys: &[String]) -> ChangeBatch {
    let ids = 0..keys.len() as u64;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(UInt64Array::from_iter_values(ids))),
        ("name", Arc::new(StringArray::from(keys.to_vec()))),
    ];
    let kinds: Vec<RowKind> =
        (0..keys.len()).map(|id| if id % 5 == 4 { RowKind::Delete } else { RowKind::Insert }).collect();
    ChangeBatch::try_new(RecordBatch::try_from_iter(columns).unwrap(), RowKinds::from_kinds(&kinds)).unwrap()
}

/// A record as a tool shows it: its partition, headers and value by its key.
type Shown = BTreeMap<String, (i32, String, String)>;

async fn output(command: &mut Command, input: &str) -> String {
    let command =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("the tool can be started");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn java(kafka: &Kafka, class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]);
    command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", &kafka.tools, class]);
    command.args(["--bootstrap-server", &kafka.bootstrap]);
    command
}

async fn console_consumer(kafka: &Kafka, topic: &str) -> Shown {
    let mut command = java(kafka, "org.apache.kafka.tools.consumer.ConsoleConsumer");
    command.args(["--topic", topic, "--from-beginning", "--timeout-ms", "60000", "--max-messages"]);
    command.arg(KEYS.to_string());
    for name in ["print.key", "print.partition", "print.headers"] {
        command.args(["--formatter-property", &format!("{name}=true")]);
    }
    let text = output(&mut command, "").await;
    let shown = text.lines().filter(|line| !line.is_empty()).map(|line| {
        let [partition, headers, key, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let partition = partition.strip_prefix("Partition:").unwrap().parse().unwrap();
        (key.to_owned(), (partition, headers.to_owned(), value.to_owned()))
    });
    shown.collect()
}

async fn kcat(kafka: &Kafka, topic: &str) -> Shown {
    let mut command = Command::new("kcat");
    command.args(["-C", "-e", "-q", "-b", &kafka.bootstrap, "-t", topic, "-o", "beginning"]);
    command.args(["-f", "%p\\t%h\\t%k\\t%s\\n"]);
    let text = output(&mut command, "").await;
    let shown = text.lines().map(|line| {
        let [partition, headers, key, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        // The one writes `key=value`, the other `key:value`.
        (key.to_owned(), (partition.parse().unwrap(), headers.replace('=', ":"), value.to_owned()))
    });
    shown.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn other_clients_see_the_same_keys_partitions_and_headers() {
    let Some(kafka) = services::kafka() else { return };
    let (ours, theirs) = (unique_name("ours"), unique_name("theirs"));
    kafka.create_topic(&ours, PARTITIONS, &[]).await;
    kafka.create_topic(&theirs, PARTITIONS, &[]).await;
    let keys = keys();
    let mut writer = KafkaSink::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topic(ours.as_str())
        .format_type(FormatType::MaxwellJson)
        .key_fields(["name"])
        .build()
        .unwrap()
        .open(WriterContext::default())
        .await
        .unwrap();
    writer.write(&TableId::new("shop", "orders"), batch(&keys)).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, KEYS as u64);

    let by_java = console_consumer(&kafka, &ours).await;
    assert_eq!(by_java.len(), KEYS, "all keys, each as it is");
    for (id, key) in keys.iter().enumerate() {
        let (_, headers, value) = &by_java[key];
        let (op, kind) = if id % 5 == 4 { ("D", "delete") } else { ("I", "insert") };
        assert_eq!(headers, &format!("database:shop,table:orders,op:{op}"));
        let value: serde_json::Value = serde_json::from_str(value).unwrap();
        assert_eq!((&value["type"], &value["data"]["id"]), (&kind.into(), &id.into()), "{key}");
        assert_eq!(value["data"]["name"], key.as_str());
    }

    // Java's producer sends the same keys to the same partitions.
    let mut producer = java(&kafka, "org.apache.kafka.tools.ConsoleProducer");
    producer.args(["--topic", &theirs, "--reader-property", "parse.key=true"]);
    let lines: String = keys.iter().map(|key| format!("{key}\tx\n")).collect();
    output(&mut producer, &lines).await;
    let found = kafka.read_committed(&theirs, PARTITIONS).await;
    assert_eq!(found.len(), KEYS);
    for record in found {
        let key = String::from_utf8(record.key.unwrap()).unwrap();
        assert_eq!(by_java[&key].0, record.partition, "{key}");
    }

    let has_kcat = Command::new("kcat").arg("-V").stderr(Stdio::null()).stdout(Stdio::null()).status().await;
    if has_kcat.is_ok_and(|status| status.success()) {
        assert_eq!(kcat(&kafka, &ours).await, by_java);
    } else {
        assert!(std::env::var_os("CI").is_none(), "kcat is missing; ./dev installs it");
        eprintln!("kcat is not installed: what it shows was not compared");
    }
}
