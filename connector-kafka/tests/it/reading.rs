//! What a reader hands out: batches, their bounds, and what cancelling and giving up do to them.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use connector_core::{ErrorKind, SchemaChange, Source, SourceEvent, SourceReader, Split, TableId};
use connector_kafka::{KafkaOffset, KafkaSplit, StartupMode};

use crate::common::{Cluster, Seen, drain, id, next, open_all, pull_until};

#[tokio::test]
async fn a_table_is_announced_with_its_columns_and_again_after_a_restart() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    let table = TableId::new("app", "sales");
    let source = cluster.source(&["orders"]).table("app.sales").bounded().build().unwrap();
    for start in [0, 5] {
        let mut split = KafkaSplit::new("orders", 0).starting_at(start);
        split.end_before(&KafkaOffset(10));
        let mut reader = source.open(vec![split]).await.unwrap();
        let event = next(&mut reader).await.unwrap().unwrap();
        let SourceEvent::Schema {
            change: SchemaChange::CreateTable { table: named, schema },
            next: None,
            ..
        } = event
        else {
            panic!("{event:?}")
        };
        assert_eq!(named, table);
        assert_eq!(schema.columns, crate::common::schema());
        let event = next(&mut reader).await.unwrap().unwrap();
        let SourceEvent::Batch { table: named, .. } = event else { panic!("{event:?}") };
        assert_eq!(named, table);
    }
}

#[tokio::test]
async fn without_a_name_the_topic_names_the_table() {
    let cluster = Cluster::with_topic("orders.eu", 1);
    cluster.write_rows("orders.eu", 0, 0..1);
    let source = cluster.source(&["orders.eu"]).bounded().build().unwrap();
    let event = next(&mut open_all(&source).await).await.unwrap().unwrap();
    let SourceEvent::Schema { change, .. } = event else { panic!("{event:?}") };
    assert_eq!(change.table(), &TableId::new("", "orders.eu"));
}

#[tokio::test]
async fn batches_have_at_most_the_rows_that_were_asked_for() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..1000);
    let source = cluster
        .source(&["orders"])
        .max_batch_rows(100)
        .max_batch_wait(Duration::from_secs(3600))
        .bounded()
        .build()
        .unwrap();
    let mut reader = open_all(&source).await;
    let mut offset = 0;
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::Batch { rows, next, .. } = event {
            assert_eq!(rows.num_rows(), 100);
            offset += 100;
            assert_eq!(next, KafkaOffset(offset));
        }
    }
    assert_eq!(offset, 1000);
}

#[tokio::test]
async fn rows_do_not_wait_for_a_full_batch() {
    let cluster = Cluster::with_topic("orders", 1);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    for id in 0..5 {
        cluster.write_rows("orders", 0, id..id + 1);
        pull_until(&mut reader, &mut seen, |seen| seen.all().last() == Some(&id)).await;
    }
    assert_eq!(seen.batches, 5);
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test]
async fn dropping_the_future_of_next_loses_nothing() {
    let cluster = Cluster::with_topic("orders", 2);
    let source = cluster
        .source(&["orders"])
        .startup_mode(StartupMode::Earliest)
        .max_batch_rows(10)
        .max_batch_wait(Duration::from_millis(1))
        .build()
        .unwrap();
    let mut reader = open_all(&source).await;
    let waker = Waker::from(Arc::new(Nobody));
    let mut seen = Seen::default();
    let mut cancelled = 0;
    for id in 0..200 {
        cluster.write_rows("orders", i32::try_from(id % 2).unwrap(), id..id + 1);
        // Looked at once and dropped, as a `select!` does; or pulled for a moment.
        for wait in [Duration::ZERO, Duration::from_micros(300)] {
            if wait.is_zero() {
                let mut future = pin!(reader.next());
                match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(event) => seen.note(event.unwrap().unwrap()),
                    Poll::Pending => cancelled += 1,
                }
            } else if let Ok(event) = tokio::time::timeout(wait, reader.next()).await {
                seen.note(event.unwrap().unwrap());
            }
        }
    }
    assert!(cancelled > 0, "no future was dropped while it waited");
    pull_until(&mut reader, &mut seen, |seen| seen.rows() >= 200).await;
    assert_eq!(seen.all(), (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_slow_puller_bounds_what_is_read_ahead_and_loses_nothing() {
    let cluster = Cluster::with_topic("orders", 4);
    let note = "x".repeat(200);
    for id in 0..20_000 {
        cluster.queue("orders", id % 4, format!(r#"{{"id":{id},"note":"{note}"}}"#).as_bytes());
    }
    cluster.flush();
    let bound = 1 << 20;
    let source = cluster.source(&["orders"]).prefetch_bytes(bound).bounded().build().unwrap();
    let mut reader = open_all(&source).await;
    // Nothing of 4 MB is pulled until it has read ahead as far as it likes: the figure stands still.
    let (mut read_ahead, mut same) = (0, 0);
    while same < 20 {
        tokio::time::sleep(Duration::from_millis(25)).await;
        let now = reader.read_ahead_bytes();
        same = if now == read_ahead && now > 0 { same + 1 } else { 0 };
        read_ahead = now;
    }
    assert!(read_ahead <= usize::try_from(bound).unwrap(), "{read_ahead} bytes were read ahead");
    let mut seen = Seen::default();
    let mut largest = 0;
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::Batch { rows, .. } = &event {
            largest = largest.max(rows.memory_size());
        }
        seen.note(event);
        assert!(reader.read_ahead_bytes() <= usize::try_from(bound).unwrap());
    }
    assert_eq!(seen.all(), (0..20_000).collect::<Vec<_>>());
    // Five sixteenths may be under construction and a quarter of that comes at once; the buffers have grown by doubling.
    assert!(largest <= usize::try_from(bound).unwrap() * 13 / 16, "a batch of {largest} bytes");
}

#[tokio::test]
async fn a_split_that_is_given_up_stops_where_its_events_ended() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 0, 0..1000);
    cluster.write_rows("orders", 1, 1000..2000);
    let source =
        cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).max_batch_rows(50).build().unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| {
        seen.ids.get(&id("orders", 0)).is_some_and(|ids| ids.len() >= 100)
    })
    .await;
    let given = reader.remove_splits(&[id("orders", 0), id("nowhere", 0)]).await.unwrap();
    assert_eq!(given.len(), 1);
    assert_eq!(given[0].offset().copied(), seen.next.get(&id("orders", 0)).copied());
    assert_eq!(reader.splits().len(), 1);
    let before = seen.ids[&id("orders", 0)].len();
    pull_until(&mut reader, &mut seen, |seen| {
        seen.ids.get(&id("orders", 1)).is_some_and(|ids| ids.len() == 1000)
    })
    .await;
    assert_eq!(seen.ids[&id("orders", 0)].len(), before, "rows of a split that was given up");
    // It comes back where it left, and goes on.
    reader.add_splits(given).await.unwrap();
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 2000).await;
    assert_eq!(seen.ids[&id("orders", 0)], (0..1000).collect::<Vec<_>>());
    cluster.write_rows("orders", 0, 2000..2010);
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 2010).await;
}

#[tokio::test]
async fn a_split_can_come_back_at_once_and_often() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 0, 0..500);
    cluster.write_rows("orders", 1, 500..1000);
    let source =
        cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).max_batch_rows(25).build().unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    for round in 1..=10 {
        pull_until(&mut reader, &mut seen, |seen| seen.rows() >= round * 50).await;
        let given = reader.remove_splits(&[id("orders", 0)]).await.unwrap();
        reader.add_splits(given).await.unwrap();
    }
    pull_until(&mut reader, &mut seen, |seen| seen.rows() >= 1000).await;
    assert_eq!(seen.ids[&id("orders", 0)], (0..500).collect::<Vec<_>>());
    assert_eq!(seen.ids[&id("orders", 1)], (500..1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_split_twice_is_a_conflict_and_changes_nothing() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 0, 0..10);
    let source = cluster.source(&["orders"]).bounded().build().unwrap();
    let splits = source.discover(&[]).await.unwrap();
    let twice = vec![splits[0].clone(), splits[0].clone()];
    assert_eq!(source.open(twice.clone()).await.unwrap_err().kind(), ErrorKind::Conflict);
    let mut reader = source.open(vec![splits[0].clone()]).await.unwrap();
    for wrong in [splits.clone(), vec![splits[1].clone(), splits[1].clone()]] {
        assert_eq!(reader.add_splits(wrong).await.unwrap_err().kind(), ErrorKind::Conflict);
    }
    assert_eq!(reader.splits().len(), 1);
    assert_eq!(drain(&mut reader).await.all(), (0..10).collect::<Vec<_>>());
}
