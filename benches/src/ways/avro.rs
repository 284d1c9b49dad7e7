//! Our Kafka source on the orders in Avro.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use anyhow::Result;
use connector_core::TableSchema;
use connector_kafka::{Avro, KafkaSource, SchemaRegistry};
use connector_tests::{kafka::Record, orders::Order, unique_name};

use super::read::{PARTITIONS, fill, read_all};
use crate::{cli::Job, measure::Outcome, orders, services};

const SCHEMA: &str = r#"{"type":"record","name":"Order","fields":[
    {"name":"id","type":"long"},
    {"name":"customer","type":"string"},
    {"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":18,"scale":4}},
    {"name":"status","type":"string"},
    {"name":"note","type":"string"},
    {"name":"created_at","type":{"type":"long","logicalType":"timestamp-millis"}},
    {"name":"discount","type":["null","int"]},
    {"name":"tags","type":{"type":"array","items":"string"}}]}"#;

/// The orders in a topic of their own, read into the columns that the JSON orders have.
pub(crate) async fn read(job: &Job) -> Result<Outcome> {
    let kafka = services::kafka()?;
    let topic = unique_name("bench_avro");
    kafka.create_topic(&topic, PARTITIONS, &[]).await;
    let mut bytes = 0;
    let records = (0..job.rows).zip((0..PARTITIONS).cycle()).map(|(id, partition)| {
        let record = encoded(&Order::new(id));
        bytes += record.len() as u64;
        Record::new(partition, record)
    });
    fill(&kafka, &topic, records).await;
    let registry = SchemaRegistry::builder(registry()?).build()?;
    let source = KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic.as_str()])
        .format(Avro::new(registry).table(TableSchema::new(orders::schema("UTC"))))
        .bounded()
        .build()?;
    let outcome = read_all(&source, job.rows).await?;
    kafka.delete_topic(&topic).await;
    Ok(outcome.with_bytes(bytes))
}

/// The address of a registry that answers every question with the one schema: it is asked once.
fn registry() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        let (mut question, mut byte) = (Vec::new(), [0]);
        while !question.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
            question.push(byte[0]);
        }
        let body = serde_json::json!({ "schema": SCHEMA }).to_string();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        Ok(())
    });
    Ok(url)
}

fn encoded(order: &Order) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 0, 1];
    put_long(&mut out, i64::try_from(order.id).unwrap_or(i64::MAX));
    put_bytes(&mut out, format!("cust-{:08}", order.customer).as_bytes());
    let amount = order.amount_units.to_be_bytes();
    // Without the bytes that only repeat the sign, as Java writes it.
    let needless = amount.windows(2).take_while(|pair| pair[0] == 0 && pair[1] < 0x80).count();
    put_bytes(&mut out, &amount[needless..]);
    put_bytes(&mut out, order.status.as_bytes());
    put_bytes(&mut out, order.note.as_bytes());
    put_long(&mut out, order.created_at);
    match order.discount {
        None => put_long(&mut out, 0),
        Some(discount) => {
            put_long(&mut out, 1);
            put_long(&mut out, discount.into());
        }
    }
    if !order.tags().is_empty() {
        put_long(&mut out, i64::try_from(order.tags().len()).unwrap_or_default());
        for tag in order.tags() {
            put_bytes(&mut out, tag.as_bytes());
        }
    }
    put_long(&mut out, 0);
    out
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, i64::try_from(bytes.len()).unwrap_or_default());
    out.extend_from_slice(bytes);
}

fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(0x80 | rest.to_le_bytes()[0]);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}
