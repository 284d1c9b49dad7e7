//! The way to a real broker breaks while a bounded read goes on: nothing is lost, nothing comes twice, it ends.

use std::{collections::BTreeSet, time::Duration};

use connector_core::{
    Source, SourceEvent, SourceReader, arrow::array::AsArray, arrow::datatypes::UInt64Type,
};
use connector_kafka::{KafkaSource, StartupMode, format::Json};
use connector_tests::{
    OwnedService, mix, orders,
    proxy::{Cut, Flow, Proxy, Rules},
    unique_name,
};
use tokio::time::{sleep, timeout};

const ROWS: u64 = 80_000;
const PATIENCE: Duration = Duration::from_secs(90);

fn source(proxy: &Proxy, topic: &str) -> KafkaSource {
    KafkaSource::builder()
        .bootstrap_servers(proxy.address().to_string().as_str())
        .topics([topic])
        .startup_mode(StartupMode::Earliest)
        .bounded()
        .max_batch_rows(2500)
        // What is read ahead must not be the whole topic.
        .prefetch_bytes(1_500_000)
        .property("reconnect.backoff.max.ms", "500")
        .property("socket.timeout.ms", "3000")
        .format(Json::with_schema(orders::schema()))
        .build()
        .unwrap()
}

/// Reads to the end while `trouble` does its work with every batch; checks that each order came once, in the order
/// of its partition.
async fn read_all(name: &str, proxy: &Proxy, topic: &str, mut trouble: impl AsyncFnMut(u64)) {
    let source = source(proxy, topic);
    let splits = source.discover(&[]).await.unwrap();
    let mut reader = source.open(splits).await.unwrap();
    let mut seen = BTreeSet::new();
    let mut batches = 0;
    let mut last = [None; 4];
    loop {
        let event = timeout(PATIENCE, reader.next())
            .await
            .unwrap_or_else(|_| panic!("{name}: the read stopped at {} rows", seen.len()));
        let Some(event) = event.unwrap_or_else(|error| panic!("{name}: {error}")) else { break };
        if let SourceEvent::Batch { rows, .. } = event {
            for id in rows.rows().column(0).as_primitive::<UInt64Type>().values() {
                assert!(seen.insert(*id), "{name}: order {id} came twice");
                let before = last[usize::try_from(id % 4).unwrap()].replace(*id);
                assert!(before.is_none_or(|before| before < *id), "{name}: order {id} is out of turn");
            }
            trouble(batches).await;
            batches += 1;
        }
    }
    assert_eq!(seen.len() as u64, ROWS, "{name}");
    reader.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_read_survives_every_way_in_which_a_connection_breaks() {
    let proxy = Proxy::reserve();
    let Some(owned) = OwnedService::start_kafka_behind(&proxy).await else { return };
    let kafka = owned.kafka();
    let topic = unique_name("faults");
    kafka.create_topic(&topic, 4, &[]).await;
    kafka.produce_orders(&topic, 0..ROWS, 4).await;

    read_all("calm", &proxy, &topic, async |_| {}).await;
    let direct = proxy.bytes_to_client();
    assert!(direct > ROWS * 100, "everything goes through the proxy: {direct} bytes");

    for (name, cut) in [("reset", Cut::Reset), ("close", Cut::Close)] {
        read_all(name, &proxy, &topic, async |batch| {
            if mix(batch).is_multiple_of(4) {
                if cut == Cut::Reset { proxy.reset_all() } else { proxy.close_all() }
            }
        })
        .await;
    }
    // Each connection ends within a fetched batch of records, a little later each time.
    for (name, cut) in [("reset in an answer", Cut::Reset), ("half an answer", Cut::HalfClose)] {
        read_all(name, &proxy, &topic, async |batch| {
            if batch == 0 {
                for connection in 0..12 {
                    let bytes = 200_000 + mix(connection) % 800_000;
                    proxy.set_next_rules(Rules::pass().to_client(Flow::pass().cut_after(bytes, cut)));
                }
                proxy.reset_all();
            }
        })
        .await;
        // Rules that no connection took would break the next read.
        proxy.forget_next_rules();
        proxy.reset_all();
    }
    read_all("stall", &proxy, &topic, async |batch| {
        if batch == 5 {
            proxy.set_rules(Rules::pass().to_client(Flow::pass().stall()));
            sleep(Duration::from_secs(4)).await;
            proxy.set_rules(Rules::pass());
        }
    })
    .await;
    read_all("refused for a while", &proxy, &topic, async |batch| {
        if batch == 5 {
            proxy.refuse().await;
            proxy.reset_all();
            sleep(Duration::from_secs(2)).await;
            proxy.accept().await;
        }
    })
    .await;
    proxy.set_rules(Rules::pass().to_client(Flow::pass().drip(61_111, Duration::from_millis(2))));
    read_all("in pieces", &proxy, &topic, async |_| {}).await;
}
