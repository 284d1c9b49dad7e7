//! What of the Kafka source only a real broker shows: times, lost offsets, groups and their commits.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use connector_core::{
    ErrorKind, Source, SourceEvent, SourceReader,
    arrow::{
        array::AsArray,
        datatypes::{DataType, Field, Int64Type, Schema},
    },
};
use connector_kafka::{Assignment, AutoOffsetReset, Json, KafkaReader, KafkaSource, KafkaSplit, StartupMode};
use connector_tests::{kafka::Record, services, services::Kafka, unique_name};

const PATIENCE: Duration = Duration::from_secs(120);
/// 2026-01-01T00:00:00Z.
const NEW_YEAR: i64 = 1_767_225_600_000;

fn json() -> Json {
    Json::with_schema(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
}

/// Records with the ids of `ids`, a second apart from the new year on.
fn records(ids: std::ops::Range<i64>, partition: i32) -> Vec<Record> {
    ids.map(|id| Record {
        timestamp: Some(NEW_YEAR + id * 1000),
        ..Record::new(partition, format!(r#"{{"id":{id}}}"#))
    })
    .collect()
}

async fn ids_of(source: &KafkaSource) -> Vec<i64> {
    let splits = source.discover(&[]).await.unwrap();
    let mut reader = source.open(splits).await.unwrap();
    let mut ids = Vec::new();
    while let Some(event) = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap() {
        if let SourceEvent::Batch { rows, .. } = event {
            ids.extend(rows.rows().column(0).as_primitive::<Int64Type>().values());
        }
    }
    reader.close().await.unwrap();
    ids
}

fn bounded(kafka: &Kafka, topic: &str, options: &[(&str, &str)]) -> KafkaSource {
    let base = [("bootstrap_servers", kafka.bootstrap.as_str()), ("topics", topic), ("job_type", "BATCH")];
    KafkaSource::from_options(base.iter().chain(options).copied()).unwrap().format(json()).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_begin_and_end_at_times_and_dates() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("times");
    kafka.create_topic(&topic, 1, &[]).await;
    kafka.produce(&topic, records(0..100, 0)).await;
    let seconds = (NEW_YEAR / 1000 + 10).to_string();
    let millis = (NEW_YEAR + 10_500).to_string();
    let end = (NEW_YEAR + 20_000).to_string();
    type Pairs<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Pairs<'_>, std::ops::Range<i64>); 8] = [
        (&[("start_timestamp", &seconds), ("end_timestamp", &end)], 10..20),
        (&[("start_timestamp", &millis)], 11..100),
        (
            &[
                ("start_date", "20260101080010"),
                ("end_date", "20260101080020"),
                ("global_timezone", "Asia/Shanghai"),
            ],
            10..20,
        ),
        (&[("start_date", "2026-01-01T00:01:30Z"), ("date_format", "yyyy-MM-dd'T'HH:mm:ssX")], 90..100),
        // A time wins over a date, and an offset over both.
        (
            &[("start_date", "20260101000000"), ("start_timestamp", &seconds), ("global_timezone", "UTC")],
            10..100,
        ),
        (&[("start_timestamp", &seconds), ("start_offset", "95")], 95..100),
        // Later than every record: the partition begins at its end.
        (&[("start_date", "20260201000000")], 0..0),
        (&[("end_offset", "4")], 0..5),
    ];
    for (options, expected) in cases {
        assert_eq!(
            ids_of(&bounded(&kafka, &topic, options)).await,
            expected.collect::<Vec<_>>(),
            "{options:?}"
        );
    }
    // Without a zone of the job it is that of the system.
    let instant = jiff::Timestamp::from_millisecond(NEW_YEAR + 50_000).unwrap();
    let local = jiff::tz::TimeZone::system().to_datetime(instant);
    let date = local.strftime("%Y%m%d%H%M%S").to_string();
    assert_eq!(
        ids_of(&bounded(&kafka, &topic, &[("start_date", &date)])).await,
        (50..100).collect::<Vec<_>>()
    );
    let late = (jiff::Timestamp::now().as_millisecond() + 3_600_000).to_string();
    let error = bounded(&kafka, &topic, &[("end_timestamp", &late)]).check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_that_is_gone_follows_its_option() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("gone");
    kafka.create_topic(&topic, 1, &[]).await;
    kafka.produce(&topic, records(0..100, 0)).await;
    kafka.delete_records(&topic, 0, 50).await;
    let open = |reset: Option<AutoOffsetReset>| {
        let mut builder =
            KafkaSource::builder().bootstrap_servers(kafka.bootstrap.as_str()).topics([topic.as_str()]);
        if let Some(reset) = reset {
            builder = builder.auto_offset_reset(reset);
        }
        let source = builder.format(json()).build().unwrap();
        let split = KafkaSplit::new(topic.as_str(), 0).starting_at(10);
        async move { source.open(vec![split]).await }
    };
    for refused in [None, Some(AutoOffsetReset::None)] {
        let error = open(refused).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.context_value("available")),
            (ErrorKind::CheckpointInvalid, Some("50..100"))
        );
    }
    for (reset, expected) in [(AutoOffsetReset::Earliest, 50), (AutoOffsetReset::Latest, 100)] {
        let mut reader = open(Some(reset)).await.unwrap();
        assert_eq!(reader.splits()[0].offset.unwrap().0, expected);
        reader.close().await.unwrap();
    }
}

/// The same for the offset of a group, which nobody looked at before the partition was given, under both kinds of
/// strategies.
#[tokio::test(flavor = "multi_thread")]
async fn a_groups_offset_that_is_gone_follows_its_option() {
    let Some(kafka) = services::kafka() else { return };
    for strategy in ["range", "cooperative-sticky"] {
        let topic = unique_name("gone");
        kafka.create_topic(&topic, 1, &[]).await;
        kafka.produce(&topic, records(0..100, 0)).await;
        let group = unique_name("group");
        let source = |reset: AutoOffsetReset| {
            KafkaSource::builder()
                .bootstrap_servers(kafka.bootstrap.as_str())
                .topics([topic.as_str()])
                .group_id(group.as_str())
                .assignment(Assignment::Group)
                .startup_mode(StartupMode::Earliest)
                .property("partition.assignment.strategy", strategy)
                .auto_offset_reset(reset)
                .max_batch_rows(10)
                .format(json())
                .build()
                .unwrap()
        };
        let mut reader = source(AutoOffsetReset::None).open(Vec::new()).await.unwrap();
        while reader.splits().first().and_then(|split| split.offset).is_none_or(|offset| offset.0 < 10) {
            tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
        }
        let splits = reader.splits();
        reader.acknowledge(&splits).await.unwrap();
        reader.close().await.unwrap();
        kafka.delete_records(&topic, 0, 50).await;

        let mut reader = source(AutoOffsetReset::None).open(Vec::new()).await.unwrap();
        let error = loop {
            match tokio::time::timeout(PATIENCE, reader.next()).await.unwrap() {
                Ok(event) => {
                    assert!(!matches!(event, Some(SourceEvent::Batch { .. })), "{strategy}: {event:?}")
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::CheckpointInvalid, "{strategy}: {error}");
        reader.close().await.unwrap();

        let mut reader = source(AutoOffsetReset::Earliest).open(Vec::new()).await.unwrap();
        let mut ids = Vec::new();
        while ids.len() < 50 {
            let event = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
            if let Some(SourceEvent::Batch { rows, .. }) = event {
                ids.extend_from_slice(rows.rows().column(0).as_primitive::<Int64Type>().values());
            }
        }
        assert_eq!(ids, (50..100).collect::<Vec<i64>>(), "{strategy}");
        reader.close().await.unwrap();
    }
}

/// B10: what is committed to the group is never ahead of what was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_committed_before_it_is_acknowledged() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("commits");
    kafka.create_topic(&topic, 1, &[]).await;
    kafka.produce(&topic, records(0..100, 0)).await;
    for (in_checkpoint, assignment) in
        [(true, Assignment::Manual), (false, Assignment::Manual), (true, Assignment::Group)]
    {
        let group = unique_name("group");
        let source = KafkaSource::builder()
            .bootstrap_servers(kafka.bootstrap.as_str())
            .topics([topic.as_str()])
            .group_id(group.as_str())
            .assignment(assignment)
            .commit_in_checkpoint(in_checkpoint)
            .startup_mode(StartupMode::Earliest)
            .max_batch_rows(50)
            .format(json())
            .build()
            .unwrap();
        let splits = source.discover(&[]).await.unwrap();
        let mut reader = source.open(splits).await.unwrap();
        let mut rows = 0;
        while rows < 100 {
            let event = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
            if let Some(SourceEvent::Batch { rows: batch, .. }) = event {
                rows += batch.num_rows();
                if rows == 50 {
                    let splits = reader.splits();
                    reader.acknowledge(&splits).await.unwrap();
                }
            }
        }
        // All rows were read, half of them are safe. Ending commits nothing.
        reader.close().await.unwrap();
        assert_eq!(kafka.committed_offset(&group, &topic, 0).await, Some(50), "{assignment}");
        if !in_checkpoint {
            // What the vendor's product does after each poll, for a host that asks for it.
            let mut reader =
                source.open(vec![KafkaSplit::new(topic.as_str(), 0).starting_at(0)]).await.unwrap();
            while reader.splits()[0].offset.unwrap().0 < 100 {
                tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
            }
            reader.commit_polled().unwrap();
            reader.close().await.unwrap();
            assert_eq!(kafka.committed_offset(&group, &topic, 0).await, Some(100));
        }
    }
}

/// A member of a group, which counts what it reads.
struct Member {
    reader: KafkaReader,
    seen: BTreeMap<i64, u32>,
}

impl Member {
    async fn pull(&mut self) {
        let Ok(event) = tokio::time::timeout(Duration::from_millis(20), self.reader.next()).await else {
            return;
        };
        match event.unwrap().expect("a member has no end") {
            SourceEvent::Revoked { splits } => self.reader.acknowledge(&splits).await.unwrap(),
            SourceEvent::Batch { rows, .. } => {
                for id in rows.rows().column(0).as_primitive::<Int64Type>().values() {
                    *self.seen.entry(*id).or_default() += 1;
                }
                let splits = self.reader.splits();
                self.reader.acknowledge(&splits).await.unwrap();
            }
            _ => {}
        }
    }
}

/// Members come and go while records flow: none is lost, and those who leave in order leave nothing to repeat.
#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_group_share_the_partitions() {
    let Some(kafka) = services::kafka() else { return };
    for strategy in ["cooperative-sticky", "range"] {
        let topic = unique_name("shared");
        kafka.create_topic(&topic, 6, &[]).await;
        let source = KafkaSource::builder()
            .bootstrap_servers(kafka.bootstrap.as_str())
            .topics([topic.as_str()])
            .group_id(unique_name("group"))
            .assignment(Assignment::Group)
            .startup_mode(StartupMode::Earliest)
            .property("partition.assignment.strategy", strategy)
            .property("heartbeat.interval.ms", "200")
            .format(json())
            .build()
            .unwrap();
        let open =
            || async { Member { reader: source.open(Vec::new()).await.unwrap(), seen: BTreeMap::new() } };
        let mut members = vec![open().await];
        let (mut gone, mut written) = (Vec::new(), 0);
        let until = Instant::now() + PATIENCE;
        for step in 0..4 {
            for partition in 0..6 {
                kafka.produce(&topic, records(written..written + 500, partition)).await;
                written += 500;
            }
            match step {
                1 | 2 => members.push(open().await),
                3 => {
                    let mut first: Member = members.remove(0);
                    first.reader.close().await.unwrap();
                    gone.push(first);
                }
                _ => {}
            }
            let expected = usize::try_from(written).unwrap();
            let seen = |members: &[Member], gone: &[Member]| -> usize {
                let all: std::collections::BTreeSet<i64> =
                    members.iter().chain(gone).flat_map(|member| member.seen.keys().copied()).collect();
                all.len()
            };
            // Every record, and every member has something to do.
            while seen(&members, &gone) < expected || members.iter().any(|m| m.reader.splits().is_empty()) {
                assert!(Instant::now() < until, "{strategy}: {} of {expected}", seen(&members, &gone));
                for member in &mut members {
                    member.pull().await;
                }
            }
        }
        let repeated: u32 = {
            let mut counts: BTreeMap<i64, u32> = BTreeMap::new();
            for (id, times) in members.iter().chain(&gone).flat_map(|member| &member.seen) {
                *counts.entry(*id).or_default() += times;
            }
            counts.values().map(|times| times - 1).sum()
        };
        assert_eq!(repeated, 0, "{strategy}: every revocation was acknowledged before it was followed");
        for mut member in members {
            member.reader.close().await.unwrap();
        }
    }
}
