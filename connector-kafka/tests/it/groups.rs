//! Members of one consumer group.

use std::{collections::BTreeSet, time::Duration};

use connector_core::{ErrorKind, Source, SourceEvent, SourceReader};
use connector_kafka::{Assignment, KafkaReader, KafkaSource, KafkaSplit, StartupMode};

use rdkafka::{
    Offset,
    types::{RDKafkaApiKey, RDKafkaRespErr as Err},
};

use crate::{
    common::{Cluster, PATIENCE},
    lifecycle::committed,
};

fn member(cluster: &Cluster, strategy: &str) -> KafkaSource {
    cluster
        .source(&["orders"])
        .group_id("loaders")
        .assignment(Assignment::Group)
        .startup_mode(StartupMode::Earliest)
        .property("partition.assignment.strategy", strategy)
        .property("session.timeout.ms", "6000")
        .property("heartbeat.interval.ms", "200")
        .build()
        .unwrap()
}

/// A member with what it was given and what it read.
struct Member {
    reader: KafkaReader,
    owned: BTreeSet<i32>,
    ids: Vec<i64>,
    revoked: usize,
}

impl Member {
    async fn open(source: &KafkaSource, known: Vec<KafkaSplit>) -> Self {
        assert!(source.discover(&[]).await.unwrap().is_empty(), "splits come from the group");
        let reader = source.open(known).await.unwrap();
        Self { reader, owned: BTreeSet::new(), ids: Vec::new(), revoked: 0 }
    }

    /// Takes what there is within a short time. What is taken back was acknowledged before.
    async fn pull(&mut self) {
        let Ok(event) = tokio::time::timeout(Duration::from_millis(50), self.reader.next()).await else {
            return;
        };
        match event.unwrap().expect("a member has no end") {
            SourceEvent::Assigned { splits } => self.owned.extend(splits.iter().map(|split| split.partition)),
            SourceEvent::Revoked { splits } => {
                self.revoked += splits.len();
                self.reader.acknowledge(&splits).await.unwrap();
                for split in splits {
                    assert!(self.owned.remove(&split.partition));
                }
            }
            SourceEvent::Batch { rows, .. } => {
                use connector_core::arrow::{array::AsArray, datatypes::Int64Type};
                self.ids.extend(rows.rows().column(0).as_primitive::<Int64Type>().values());
                let splits = self.reader.splits();
                self.reader.acknowledge(&splits).await.unwrap();
            }
            _ => {}
        }
    }
}

async fn pull_until(members: &mut [&mut Member], enough: impl Fn(&[&mut Member]) -> bool) {
    let until = std::time::Instant::now() + PATIENCE;
    while !enough(members) {
        assert!(std::time::Instant::now() < until, "it never came to that");
        for member in &mut *members {
            member.pull().await;
        }
    }
}

fn all_ids(members: &[&mut Member]) -> Vec<i64> {
    let mut ids: Vec<i64> = members.iter().flat_map(|member| member.ids.iter().copied()).collect();
    ids.sort_unstable();
    ids
}

async fn partitions_move(strategy: &str) {
    let cluster = Cluster::with_topic("orders", 4);
    for partition in 0..4 {
        cluster.write_rows("orders", partition, i64::from(partition) * 100..i64::from(partition) * 100 + 50);
    }
    let source = member(&cluster, strategy);
    let mut one = Member::open(&source, Vec::new()).await;
    pull_until(&mut [&mut one], |members| members[0].owned.len() == 4 && members[0].ids.len() == 200).await;
    // A second member takes half of them; what was acknowledged does not come again.
    let mut two = Member::open(&source, Vec::new()).await;
    pull_until(&mut [&mut one, &mut two], |m| m[0].owned.len() == 2 && m[1].owned.len() == 2).await;
    assert!(one.owned.is_disjoint(&two.owned));
    assert!(one.revoked >= 2);
    for partition in 0..4 {
        cluster.write_rows(
            "orders",
            partition,
            i64::from(partition) * 100 + 50..i64::from(partition) * 100 + 60,
        );
    }
    pull_until(&mut [&mut one, &mut two], |m| m[0].ids.len() + m[1].ids.len() >= 240).await;
    let expected: Vec<i64> = (0..4).flat_map(|p| p * 100..p * 100 + 60).collect();
    assert_eq!(all_ids(&[&mut one, &mut two]), expected);
    // The first one goes, and its partitions come back to the second.
    one.reader.close().await.unwrap();
    pull_until(&mut [&mut two], |members| members[0].owned.len() == 4).await;
    cluster.write_rows("orders", 0, 1000..1001);
    pull_until(&mut [&mut two], |members| members[0].ids.contains(&1000)).await;
    assert_eq!(all_ids(&[&mut one, &mut two]).len(), 241, "nothing came twice");
    two.reader.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_move_one_by_one() {
    partitions_move("cooperative-sticky").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_move_all_at_once() {
    partitions_move("roundrobin").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_says_where_a_member_goes_on() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..20);
    let source = member(&cluster, "cooperative-sticky");
    let mut one = Member::open(&source, vec![KafkaSplit::new("orders", 0).starting_at(15)]).await;
    pull_until(&mut [&mut one], |members| members[0].ids.len() >= 5).await;
    assert_eq!(one.ids, (15..20).collect::<Vec<_>>());
    // The host deals nothing out.
    let error = one.reader.add_splits(vec![KafkaSplit::new("orders", 0)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(one.reader.remove_splits(&[]).await.unwrap_err().kind(), ErrorKind::Unsupported);
    one.reader.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_that_a_rebalance_kept_from_the_group_are_sent_again() {
    let cluster = Cluster::with_topic("orders", 1);
    let source = member(&cluster, "cooperative-sticky");
    let mut one = Member::open(&source, Vec::new()).await;
    pull_until(&mut [&mut one], |members| !members[0].owned.is_empty()).await;
    let wait_for = async |one: &mut Member, offset| {
        let until = std::time::Instant::now() + PATIENCE;
        while committed(&cluster, "loaders") != Offset::Offset(offset) {
            assert!(std::time::Instant::now() < until, "{:?}", committed(&cluster, "loaders"));
            one.pull().await;
        }
    };
    wait_for(&mut one, 0).await;
    for (error, rows) in [
        (Err::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, 0..20),
        (Err::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, 20..40),
    ] {
        // No row comes after these, and nothing is acknowledged again.
        cluster.mock.request_errors(RDKafkaApiKey::OffsetCommit, &[error, error]);
        let end = rows.end;
        cluster.write_rows("orders", 0, rows);
        wait_for(&mut one, end).await;
    }
    one.reader.close().await.unwrap();
}

#[tokio::test]
async fn what_was_polled_is_committed_only_where_that_is_asked_for() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..20);
    for in_checkpoint in [true, false] {
        let source = cluster
            .source(&["orders"])
            .startup_mode(StartupMode::Earliest)
            .commit_in_checkpoint(in_checkpoint)
            .build()
            .unwrap();
        let mut reader = crate::common::open_all(&source).await;
        crate::common::pull_until(&mut reader, &mut crate::common::Seen::default(), |seen| seen.rows() == 20)
            .await;
        let result = reader.commit_polled();
        match in_checkpoint {
            true => assert_eq!(result.unwrap_err().kind(), ErrorKind::Unsupported),
            false => result.unwrap(),
        }
        reader.close().await.unwrap();
    }
}
