//! Reads that end, on a real log: its last offsets may be markers, aborted records, tombstones, or gone.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    BadRecordPolicy, ErrorKind, Source, SourceEvent, SourceReader, Split,
    arrow::{
        array::AsArray,
        datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
    },
};
use connector_kafka::{
    AutoOffsetReset, KafkaOffset, KafkaReader, KafkaSource, KafkaSourceBuilder, KafkaSplit, StartupMode,
    format::Json,
};
use connector_tests::{
    kafka::Record,
    mix,
    services::{self, Kafka},
    unique_name,
};
use tokio::time::{sleep, timeout};

/// A read that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Columns `id` and `note`.
pub(crate) fn id_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("note", DataType::Utf8, true),
    ]))
}

/// A record of these columns.
pub(crate) fn row(id: i64) -> String {
    format!(r#"{{"id":{id},"note":"note {id}"}}"#)
}

fn keyed(partition: i32, key: &str, id: i64) -> Record {
    Record { key: Some(key.into()), ..Record::new(partition, row(id)) }
}

fn tombstone(partition: i32, key: &str) -> Record {
    Record { key: Some(key.into()), value: None, ..Record::new(partition, "") }
}

fn source(kafka: &Kafka, topic: &str) -> KafkaSourceBuilder {
    KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic])
        .startup_mode(StartupMode::Earliest)
        .bounded()
        .max_batch_wait(Duration::from_millis(20))
        .format(Json::with_schema(id_schema()))
}

/// What came out of each partition, in order.
#[derive(Debug, Default)]
struct Seen {
    ids: BTreeMap<i32, Vec<i64>>,
    /// Offsets of records that could not be read.
    dead: BTreeMap<i32, Vec<i64>>,
    finished: usize,
}

impl Seen {
    fn note(&mut self, event: SourceEvent<KafkaSplit>) {
        let partition = |split: &connector_core::SplitId| -> i32 {
            split.as_str().rsplit_once('-').unwrap().1.parse().unwrap()
        };
        match event {
            SourceEvent::Batch { split, rows, .. } => {
                let ids = rows.rows().column(0).as_primitive::<Int64Type>();
                self.ids.entry(partition(&split)).or_default().extend(ids.values());
            }
            SourceEvent::DeadLetters { split, records, .. } => {
                let offsets = records.iter().map(|record| record.offset.parse::<i64>().unwrap());
                self.dead.entry(partition(&split)).or_default().extend(offsets);
            }
            SourceEvent::Finished { .. } => self.finished += 1,
            _ => {}
        }
    }

    fn ids(&self, partition: i32) -> Vec<i64> {
        self.ids.get(&partition).cloned().unwrap_or_default()
    }
}

async fn next(reader: &mut KafkaReader) -> Option<SourceEvent<KafkaSplit>> {
    timeout(PATIENCE, reader.next()).await.expect("the read goes on or ends").unwrap()
}

/// Reads to the end; returns what came and where each split stands.
async fn drain(reader: &mut KafkaReader) -> (Seen, BTreeMap<i32, i64>) {
    let mut seen = Seen::default();
    while let Some(event) = next(reader).await {
        seen.note(event);
    }
    let ends = reader.splits().into_iter().map(|split| (split.partition, split.offset.unwrap().0)).collect();
    reader.close().await.unwrap();
    (seen, ends)
}

async fn read_all(source: &KafkaSource) -> (Seen, BTreeMap<i32, i64>) {
    let splits = source.discover(&[]).await.unwrap();
    drain(&mut source.open(splits).await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn markers_aborted_records_and_tombstones_at_the_end_do_not_hold_the_read_up() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("ends");
    kafka.create_topic(&topic, 7, &[]).await;
    let rows = |partition: i32, ids: std::ops::Range<i64>| -> Vec<Record> {
        ids.map(|id| Record::new(partition, row(id))).collect()
    };
    // 0: ends with a commit marker. 1: rows, then an aborted transaction. 2: nothing but aborted ones.
    // 3: ends with tombstones. 4: nothing but tombstones. 5: empty. 6: markers between rows.
    kafka.begin_transaction(&topic, rows(0, 0..10)).await.commit().await;
    kafka.produce(&topic, rows(1, 100..110)).await;
    kafka.begin_transaction(&topic, rows(1, 110..130)).await.abort().await;
    for _ in 0..3 {
        kafka.begin_transaction(&topic, rows(2, 200..205)).await.abort().await;
    }
    let mut ending = rows(3, 300..310);
    ending.extend((0..5).map(|_| tombstone(3, "k")));
    ending.extend((0..8).map(|_| tombstone(4, "k")));
    kafka.produce(&topic, ending).await;
    for transaction in 0..10 {
        let id = 600 + transaction;
        let open = kafka.begin_transaction(&topic, rows(6, id..id + 1)).await;
        if transaction % 3 == 0 { open.abort().await } else { open.commit().await }
    }

    let (seen, ends) = read_all(&source(&kafka, &topic).build().unwrap()).await;
    assert_eq!(seen.ids(0), (0..10).collect::<Vec<_>>());
    assert_eq!(seen.ids(1), (100..110).collect::<Vec<_>>());
    assert_eq!(seen.ids(3), (300..310).collect::<Vec<_>>());
    assert_eq!(seen.ids(6), [601, 602, 604, 605, 607, 608]);
    for partition in [2, 4, 5] {
        assert!(seen.ids(partition).is_empty(), "{seen:?}");
    }
    assert_eq!(seen.finished, 7);
    for (partition, end) in ends {
        assert_eq!(end, kafka.watermarks(&topic, partition).await.1, "partition {partition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_ends_the_read_before_it_and_is_read_once_it_is_committed() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("open");
    kafka.create_topic(&topic, 1, &[]).await;
    kafka.produce(&topic, (0..10).map(|id| Record::new(0, row(id))).collect()).await;
    let open = kafka.begin_transaction(&topic, vec![Record::new(0, row(10)), Record::new(0, row(11))]).await;
    // Behind it, and so not to be read before its outcome is known.
    kafka.produce(&topic, vec![Record::new(0, row(12))]).await;

    let source = source(&kafka, &topic).build().unwrap();
    let (seen, ends) = read_all(&source).await;
    assert_eq!((seen.ids(0), ends[&0]), ((0..10).collect(), 10));
    open.commit().await;
    let mut split = KafkaSplit::new(&topic, 0).starting_at(10);
    split.end_before(&KafkaOffset(kafka.watermarks(&topic, 0).await.1));
    let (seen, _) = drain(&mut source.open(vec![split]).await.unwrap()).await;
    assert_eq!(seen.ids(0), [10, 11, 12]);
}

/// Waits until the cleaner has removed every record of partition 0 from `from` to before `to`.
async fn wait_until_compacted(kafka: &Kafka, topic: &str, from: i64, to: i64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut split = KafkaSplit::new(topic, 0).starting_at(from);
        split.end_before(&KafkaOffset(to));
        let mut reader = source(kafka, topic).build().unwrap().open(vec![split]).await.unwrap();
        if drain(&mut reader).await.0.ids(0).is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{topic} was not compacted");
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_end_that_was_compacted_away_is_still_reached() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("compacted");
    let options = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("min.compaction.lag.ms", "0"),
        ("max.compaction.lag.ms", "100"),
        ("delete.retention.ms", "0"),
    ];
    kafka.create_topic(&topic, 1, &options).await;
    // 0 to 4 stay, 5 to 14 are replaced later, so that the last offsets before 15 are holes.
    kafka.produce(&topic, (0..5).map(|id| keyed(0, &format!("stays-{id}"), id)).collect()).await;
    kafka.produce(&topic, (5..15).map(|id| keyed(0, &format!("goes-{id}"), id)).collect()).await;
    let source = source(&kafka, &topic).build().unwrap();
    let before = source.discover(&[]).await.unwrap();
    assert_eq!(before[0].stop.unwrap().0, 15);
    // A checkpoint of then, half way.
    let mut half = before.clone();
    half[0].seek(KafkaOffset(9));

    // Each write after the segment's time begins a new segment; only the last one is not cleaned.
    kafka.produce(&topic, (5..15).map(|id| keyed(0, &format!("goes-{id}"), id + 100)).collect()).await;
    for turn in 0..2 {
        sleep(Duration::from_millis(300)).await;
        kafka.produce(&topic, vec![keyed(0, &format!("turn-{turn}"), 1000 + turn)]).await;
    }
    wait_until_compacted(&kafka, &topic, 5, 15).await;

    let (seen, ends) = drain(&mut source.open(before).await.unwrap()).await;
    assert_eq!((seen.ids(0), ends[&0], seen.finished), ((0..5).collect(), 15, 1));
    let (seen, ends) = drain(&mut source.open(half).await.unwrap()).await;
    assert_eq!((seen.ids(0), ends[&0], seen.finished), (vec![], 15, 1));
    // A new read finds what is left, holes and all.
    let (seen, ends) = read_all(&source).await;
    let expected: Vec<i64> = (0..5).chain(105..115).chain([1000, 1001]).collect();
    assert_eq!((seen.ids(0), ends[&0]), (expected, 27));
}

/// What stands at each offset of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Row,
    Tombstone,
    Bad,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_offset_is_a_row_a_tombstone_or_a_bad_record_however_often_the_read_is_resumed() {
    let Some(kafka) = services::kafka() else { return };
    for seed in 1..=3u64 {
        let topic = unique_name("positions");
        kafka.create_topic(&topic, 3, &[]).await;
        // Partition 2 has rows in the first seed only.
        let lengths = [700, 40, if seed == 1 { 300 } else { 0 }];
        let place = |partition: i32, offset: i64| match mix(seed << 40
            | u64::try_from(partition).unwrap() << 32
            | u64::try_from(offset).unwrap())
            % 10
        {
            0..=5 => Place::Row,
            6 | 7 => Place::Tombstone,
            _ => Place::Bad,
        };
        let offsets = |partition: i32, wanted: Place| -> Vec<i64> {
            let length = lengths[usize::try_from(partition).unwrap()];
            (0..length).filter(|offset| place(partition, *offset) == wanted).collect()
        };
        let mut records = Vec::new();
        for (partition, length) in (0..).zip(lengths) {
            records.extend((0..length).map(|offset| match place(partition, offset) {
                Place::Row => Record::new(partition, row(offset)),
                Place::Tombstone => tombstone(partition, "k"),
                Place::Bad => Record::new(partition, format!("{{\"id\":\"bad {offset}\"")),
            }));
        }
        kafka.produce(&topic, records).await;

        let source = source(&kafka, &topic)
            .bad_record_policy(BadRecordPolicy::DeadLetter)
            .max_batch_rows(16)
            .build()
            .unwrap();
        let mut splits = source.discover(&[]).await.unwrap();
        let mut seen = Seen::default();
        for turn in 0u64.. {
            let mut reader = source.open(splits).await.unwrap();
            let mut ended = false;
            for _ in 0..mix(seed * 1000 + turn) % 12 {
                match next(&mut reader).await {
                    Some(event) => seen.note(event),
                    None => ended = true,
                }
            }
            let values = source.snapshot(&reader.splits()).unwrap();
            splits = source.restore(source.split_format_version(), &values).unwrap();
            reader.close().await.unwrap();
            // The rows and the bad records of one read are two events, of which the first moves no offset: what lies
            // behind the offset comes again. In this topic an id is its offset.
            for split in &splits {
                let before = |offset: &i64| *offset < split.offset.unwrap().0;
                seen.ids.entry(split.partition).or_default().retain(before);
                seen.dead.entry(split.partition).or_default().retain(before);
            }
            if ended {
                break;
            }
            assert!(turn < 1000, "seed {seed}: the read does not come to its end: {splits:?}");
        }
        for partition in 0..3 {
            let name = format!("seed {seed}, partition {partition}");
            assert_eq!(seen.ids(partition), offsets(partition, Place::Row), "{name}");
            let dead = seen.dead.get(&partition).cloned().unwrap_or_default();
            assert_eq!(dead, offsets(partition, Place::Bad), "{name}");
            let split = splits.iter().find(|split| split.partition == partition).unwrap();
            let taken = seen.ids(partition).len() + dead.len() + offsets(partition, Place::Tombstone).len();
            assert_eq!(split.offset.unwrap().0, i64::try_from(taken).unwrap(), "{name}");
            assert_eq!(split.offset, split.stop, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_retention_has_passed_is_refused_or_moved_as_the_option_says() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("retention");
    kafka.create_topic(&topic, 1, &[]).await;
    kafka.produce(&topic, (0..100).map(|id| Record::new(0, row(id))).collect()).await;
    let strict = source(&kafka, &topic).build().unwrap();
    let mut splits = strict.discover(&[]).await.unwrap();
    splits[0].seek(KafkaOffset(5));
    kafka.delete_records(&topic, 0, 50).await;

    let error = strict.open(splits.clone()).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CheckpointInvalid, "{error}");
    assert_eq!(error.context_value("topic"), Some(topic.as_str()), "{error}");
    assert_eq!(error.context_value("partition"), Some("0"), "{error}");
    assert_eq!(error.context_value("offset"), Some("5"), "{error}");
    assert_eq!(error.context_value("available"), Some("50..100"), "{error}");

    let lenient = source(&kafka, &topic).auto_offset_reset(AutoOffsetReset::Earliest).build().unwrap();
    let (seen, ends) = drain(&mut lenient.open(splits).await.unwrap()).await;
    assert_eq!((seen.ids(0), ends[&0]), ((50..100).collect(), 100));
}
