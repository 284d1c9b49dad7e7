//! scratch
#[path = "it/common.rs"]
#[allow(dead_code)]
mod common;
use common::*;
use connector_core::*;
use connector_kafka::*;
use rdkafka::{ClientConfig, admin::*, client::DefaultClientContext, producer::*};
use std::time::Duration;

fn boot() -> String {
    std::env::var("KB").unwrap()
}
fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", boot()).create().unwrap()
}
async fn topic(name: &str, parts: i32, conf: &[(&str, &str)]) {
    let a = admin();
    let _ = a.delete_topics(&[name], &AdminOptions::new()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut t = NewTopic::new(name, parts, TopicReplication::Fixed(1));
    for (k, v) in conf {
        t = t.set(k, v);
    }
    for r in a.create_topics(&[t], &AdminOptions::new()).await.unwrap() {
        r.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
}
fn producer(txn: Option<&str>) -> BaseProducer {
    let mut c = ClientConfig::new();
    c.set("bootstrap.servers", boot()).set("linger.ms", "5");
    if let Some(t) = txn {
        c.set("transactional.id", t);
    }
    c.create().unwrap()
}
fn put(p: &BaseProducer, topic: &str, part: i32, ids: std::ops::Range<i64>, ts: Option<i64>) {
    for id in ids {
        let v = row(id);
        let mut r = BaseRecord::<str, str>::to(topic).partition(part).payload(&v);
        if let Some(t) = ts {
            r = r.timestamp(t + id);
        }
        p.send(r).map_err(|(e, _)| e).unwrap();
    }
}
const T: Duration = Duration::from_secs(20);
fn src(topics: &[&str]) -> KafkaSourceBuilder {
    source(&boot(), topics)
}

#[tokio::test]
async fn transactions() {
    topic("tx", 1, &[]).await;
    let p = producer(Some("tx-1"));
    p.init_transactions(T).unwrap();
    p.begin_transaction().unwrap();
    put(&p, "tx", 0, 0..100, None);
    p.commit_transaction(T).unwrap();
    p.begin_transaction().unwrap();
    put(&p, "tx", 0, 1000..1050, None);
    p.flush(T).unwrap();
    p.abort_transaction(T).unwrap();
    let s = src(&["tx"]).bounded().build().unwrap();
    let splits = s.discover(&[]).await.unwrap();
    println!("{splits:?}");
    assert_eq!(splits[0].stop, Some(KafkaOffset(152)));
    let mut r = s.open(splits).await.unwrap();
    let seen = drain(&mut r).await;
    assert_eq!(seen.all(), (0..100).collect::<Vec<_>>());
    assert_eq!(seen.next[&id("tx", 0)], KafkaOffset(152));
    // open transaction above: not read, not waited for
    p.begin_transaction().unwrap();
    put(&p, "tx", 0, 2000..2010, None);
    p.flush(T).unwrap();
    let s = src(&["tx"]).bounded().build().unwrap();
    let splits = s.discover(&[]).await.unwrap();
    assert_eq!(splits[0].stop, Some(KafkaOffset(152)));
    assert_eq!(drain(&mut s.open(splits).await.unwrap()).await.rows(), 100);
    // unbounded: advances past the marker, then reads after commit
    let s = src(&["tx"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut r = open_all(&s).await;
    let mut seen = Seen::default();
    pull_until(&mut r, &mut seen, |s| s.next.values().any(|n| n.0 == 152)).await;
    p.commit_transaction(T).unwrap();
    pull_until(&mut r, &mut seen, |s| s.rows() == 110).await;
    pull_until(&mut r, &mut seen, |s| s.next.values().any(|n| n.0 == 163)).await;
    // a split that begins inside the aborted part
    let s = src(&["tx"]).bounded().build().unwrap();
    let mut sp = KafkaSplit::new("tx", 0).starting_at(120);
    sp.end_before(&KafkaOffset(152));
    let seen = drain(&mut s.open(vec![sp]).await.unwrap()).await;
    assert_eq!(seen.rows(), 0);
    assert_eq!(seen.finished.len(), 1);
}

#[tokio::test]
async fn timestamps() {
    topic("ts", 2, &[]).await;
    let p = producer(None);
    let base = 1_767_225_600_000_i64;
    put(&p, "ts", 0, 0..100, Some(base));
    put(&p, "ts", 1, 0..10, Some(base));
    p.flush(T).unwrap();
    let s = src(&["ts"]).startup_mode(StartupMode::Timestamp(base + 50)).bounded().build().unwrap();
    let splits = s.discover(&[]).await.unwrap();
    println!("{splits:?}");
    assert_eq!(splits[0].offset, Some(KafkaOffset(50)));
    assert_eq!(splits[1].offset, Some(KafkaOffset(10)));
    let s = KafkaSource::from_options([
        ("bootstrap_servers", boot().as_str()),
        ("topics", "ts"),
        ("job_type", "BATCH"),
        ("start_timestamp", "1767225600020"),
        ("end_timestamp", "1767225600030"),
    ])
    .unwrap()
    .format(Json::with_schema(schema()))
    .build()
    .unwrap();
    let seen = drain(&mut open_all(&s).await).await;
    assert_eq!(seen.all(), (20..30).collect::<Vec<_>>());
}

#[tokio::test]
async fn compaction() {
    topic(
        "cp",
        1,
        &[("cleanup.policy", "compact"), ("segment.ms", "100"), ("min.cleanable.dirty.ratio", "0.01")],
    )
    .await;
    let p = producer(None);
    for i in 0..1000 {
        let v = row(i);
        p.send(BaseRecord::<str, str>::to("cp").partition(0).key("k").payload(&v))
            .map_err(|(e, _)| e)
            .unwrap();
        if i % 300 == 0 {
            p.flush(T).unwrap();
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }
    p.flush(T).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    for i in 1000..1010 {
        let v = row(i);
        p.send(BaseRecord::<str, str>::to("cp").partition(0).key("k").payload(&v))
            .map_err(|(e, _)| e)
            .unwrap();
        p.flush(T).unwrap();
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    let s = src(&["cp"]).bounded().build().unwrap();
    let seen = drain(&mut open_all(&s).await).await;
    println!("compaction left {} rows, next {:?}", seen.rows(), seen.next);
    assert!(seen.rows() < 800);
}

#[tokio::test]
async fn expired() {
    topic("ex", 1, &[]).await;
    let p = producer(None);
    put(&p, "ex", 0, 0..100, None);
    p.flush(T).unwrap();
    let mut l = rdkafka::TopicPartitionList::new();
    l.add_partition_offset("ex", 0, rdkafka::Offset::Offset(40)).unwrap();
    admin().delete_records(&l, &AdminOptions::new()).await.unwrap();
    let s = src(&["ex"]).bounded().build().unwrap();
    let e = s.open(vec![KafkaSplit::new("ex", 0).starting_at(10)]).await.unwrap_err();
    println!("{e}");
    assert_eq!(e.kind(), ErrorKind::CheckpointInvalid);
    assert_eq!(s.discover(&[]).await.unwrap()[0].offset, Some(KafkaOffset(40)));
    let s = src(&["ex"]).auto_offset_reset(AutoOffsetReset::Earliest).bounded().build().unwrap();
    let mut sp = KafkaSplit::new("ex", 0).starting_at(10);
    sp.end_before(&KafkaOffset(100));
    let seen = drain(&mut s.open(vec![sp]).await.unwrap()).await;
    assert_eq!(seen.all(), (40..100).collect::<Vec<_>>());
    // while reading: a slow reader
    topic("ex2", 1, &[]).await;
    put(&p, "ex2", 0, 0..30_000, None);
    p.flush(T).unwrap();
    for policy in [None, Some(AutoOffsetReset::Earliest)] {
        let mut b = src(&["ex2"])
            .startup_mode(StartupMode::Earliest)
            .prefetch_bytes(1 << 20_u64)
            .max_batch_rows(1000_u32);
        if let Some(p) = policy {
            b = b.auto_offset_reset(p);
        }
        let s = b.build().unwrap();
        let mut r = open_all(&s).await;
        let mut seen = Seen::default();
        pull_until(&mut r, &mut seen, |s| s.rows() >= 1000).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cut = if policy.is_none() { 28_000 } else { 29_000 };
        if policy.is_some() {
            put(&p, "ex2", 0, 30_000..60_000, None);
            p.flush(T).unwrap();
        }
        let cut = if policy.is_some() { 58_000 } else { cut };
        let mut l = rdkafka::TopicPartitionList::new();
        l.add_partition_offset("ex2", 0, rdkafka::Offset::Offset(cut)).unwrap();
        admin().delete_records(&l, &AdminOptions::new()).await.unwrap();
        let res = loop {
            match next(&mut r).await {
                Ok(Some(e)) => seen.note(e),
                Ok(None) => panic!(),
                Err(e) => break Some(e),
            }
            if seen.all().last() == Some(&59_999) {
                break None;
            }
        };
        println!("{policy:?}: {} rows, {res:?}", seen.rows());
        assert_eq!(res.is_some(), policy.is_none());
    }
}

#[tokio::test]
async fn deleted_and_grown() {
    topic("del", 1, &[]).await;
    let p = producer(None);
    put(&p, "del", 0, 0..10, None);
    p.flush(T).unwrap();
    let s = src(&["del"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut r = open_all(&s).await;
    let mut seen = Seen::default();
    pull_until(&mut r, &mut seen, |s| s.rows() == 10).await;
    admin().create_partitions(&[NewPartitions::new("del", 3)], &AdminOptions::new()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let p = producer(None);
    put(&p, "del", 2, 10..20, None);
    p.flush(T).unwrap();
    let new = s.discover(&[id("del", 0)]).await.unwrap();
    assert_eq!(new.len(), 2);
    r.add_splits(new).await.unwrap();
    pull_until(&mut r, &mut seen, |s| s.rows() == 20).await;
    drop(p);
    admin().delete_topics(&["del"], &AdminOptions::new()).await.unwrap();
    let begin = std::time::Instant::now();
    let e = loop {
        match tokio::time::timeout(Duration::from_secs(400), r.next()).await.unwrap() {
            Ok(e) => println!("{e:?}"),
            Err(e) => break e,
        }
    };
    println!("after {:?}: {e}", begin.elapsed());
    r.close().await.unwrap();
    let e = s.check().await.unwrap_err();
    println!("{e}");
    assert_eq!(e.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn near() {
    topic("sales-eu", 1, &[]).await;
    let e = src(&["sales-ue"]).build().unwrap().check().await.unwrap_err();
    println!("{e}");
    assert!(e.message().contains("`sales-eu`"));
    src(&["sales-.*"]).build().unwrap().check().await.unwrap();
    let p = producer(None);
    put(&p, "sales-eu", 0, 0..5, None);
    p.flush(T).unwrap();
    let s = src(&["sales-eu"]).group_id("g-near").startup_mode(StartupMode::Earliest).build().unwrap();
    let mut r = open_all(&s).await;
    let mut seen = Seen::default();
    pull_until(&mut r, &mut seen, |s| s.rows() == 5).await;
    let b = std::time::Instant::now();
    r.acknowledge(&r.splits()).await.unwrap();
    r.close().await.unwrap();
    println!("close with commit {:?}", b.elapsed());
    use rdkafka::consumer::Consumer;
    let c: rdkafka::consumer::BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", boot()).set("group.id", "g-near").create().unwrap();
    let mut l = rdkafka::TopicPartitionList::new();
    l.add_partition("sales-eu", 0);
    assert_eq!(c.committed_offsets(l, T).unwrap().elements()[0].offset(), rdkafka::Offset::Offset(5));
}
