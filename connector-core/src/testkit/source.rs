//! The contracts of sources and readers.

use std::{collections::BTreeMap, future::Future, pin::pin, task::Poll, time::Duration};

use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use tokio::time::timeout;

use crate::{
    change::ChangeBatch,
    error::ErrorKind,
    schema::{SchemaChange, TableId},
    source::{Boundedness, Source, SourceEvent, SourceReader},
    split::{Split, SplitId},
};

/// Longest wait for any one event.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the suite needs to know of a source under test.
#[async_trait]
pub trait SourceFixture: Send + Sync {
    /// The source under test.
    type Source: Source;

    /// A new bounded source over the same rows, at least two splits and several batches of them.
    async fn source(&self) -> Self::Source;

    /// Every row that must come out, in any order, as [`Self::row_ids`] names them.
    fn expected(&self) -> Vec<String>;

    /// A name for each row of a batch; by default table, row kind and all columns as text.
    fn row_ids(&self, table: &TableId, rows: &ChangeBatch) -> Vec<String> {
        let options = FormatOptions::default();
        let columns: Vec<_> = rows
            .rows()
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c, &options).expect("a column that can be shown"))
            .collect();
        let cells =
            |row: usize| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|");
        (0..rows.num_rows()).map(|row| format!("{table} {} {}", rows.kinds().get(row), cells(row))).collect()
    }
}

/// Runs every check.
///
/// # Panics
/// When a contract is broken.
pub async fn check_source<F: SourceFixture>(fixture: &F) {
    discovery_is_stable(fixture).await;
    everything_comes_once_and_in_form(fixture).await;
    resuming_loses_and_repeats_nothing(fixture).await;
    next_is_cancel_safe(fixture).await;
    splits_can_be_moved_between_readers(fixture).await;
    a_range_can_be_read_again(fixture).await;
    acknowledging_and_closing_are_harmless(fixture).await;
}

type ReaderOf<F> = <<F as SourceFixture>::Source as Source>::Reader;
type SplitOf<F> = <<F as SourceFixture>::Source as Source>::Split;

async fn open<F: SourceFixture>(fixture: &F) -> (F::Source, ReaderOf<F>) {
    let source = fixture.source().await;
    assert_eq!(source.boundedness(), Boundedness::Bounded, "the fixture must give a bounded source");
    let splits = source.discover(&[]).await.expect("discover");
    let reader = source.open(splits).await.expect("open");
    (source, reader)
}

async fn next<R: SourceReader>(reader: &mut R) -> Option<SourceEvent<R::Split>> {
    timeout(PATIENCE, reader.next()).await.expect("an event in time").expect("next")
}

/// Reads to the end and names every row.
async fn drain<F: SourceFixture>(fixture: &F, reader: &mut ReaderOf<F>, rows: &mut Vec<String>) {
    while let Some(event) = next(reader).await {
        take(fixture, event, rows);
    }
}

fn take<F: SourceFixture>(fixture: &F, event: SourceEvent<SplitOf<F>>, rows: &mut Vec<String>) {
    if let SourceEvent::Batch { table, rows: batch, .. } = event {
        rows.extend(fixture.row_ids(&table, &batch));
    }
}

fn assert_same<F: SourceFixture>(fixture: &F, mut rows: Vec<String>, what: &str) {
    let mut expected = fixture.expected();
    rows.sort_unstable();
    expected.sort_unstable();
    assert_eq!(rows.len(), expected.len(), "{what}: the number of rows");
    for (row, wanted) in rows.iter().zip(&expected) {
        assert_eq!(row, wanted, "{what}");
    }
}

/// The split as a host stores and restores it.
fn through_checkpoint<F: SourceFixture>(source: &F::Source, splits: &[SplitOf<F>]) -> Vec<SplitOf<F>> {
    let values = source.snapshot(splits).expect("snapshot");
    let text = serde_json::to_string(&values).expect("JSON");
    let values: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    source.restore(source.split_format_version(), &values).expect("restore")
}

async fn discovery_is_stable<F: SourceFixture>(fixture: &F) {
    let source = fixture.source().await;
    source.check().await.expect("check");
    let ids = |splits: &[SplitOf<F>]| splits.iter().map(Split::id).collect::<Vec<SplitId>>();
    let first = ids(&source.discover(&[]).await.expect("discover"));
    assert!(first.len() >= 2, "the fixture must have at least two splits");
    let mut again = ids(&fixture.source().await.discover(&[]).await.expect("discover"));
    let mut sorted = first.clone();
    sorted.sort();
    again.sort();
    assert_eq!(sorted, again, "splits keep their ids");
    assert!(source.discover(&first).await.expect("discover").is_empty(), "known splits are not found again");
    let rest = ids(&source.discover(&first[..1]).await.expect("discover"));
    assert!(!rest.contains(&first[0]) && rest.len() == first.len() - 1, "only unknown splits are found");
    let refused = source.restore(source.split_format_version() + 1000, &[]).expect_err("an unknown version");
    assert_eq!(refused.kind(), ErrorKind::CheckpointInvalid, "an unknown format version");
}

async fn everything_comes_once_and_in_form<F: SourceFixture>(fixture: &F) {
    let (_, mut reader) = open(fixture).await;
    let mut announced: Vec<(SplitId, TableId)> = Vec::new();
    let mut finished: Vec<SplitId> = Vec::new();
    let mut rows = Vec::new();
    while let Some(event) = next(&mut reader).await {
        match &event {
            SourceEvent::Schema { split, change: SchemaChange::CreateTable { table, .. }, .. } => {
                announced.push((split.clone(), table.clone()));
            }
            SourceEvent::Batch { split, table, rows, .. } => {
                assert!(
                    announced.contains(&(split.clone(), table.clone())),
                    "{table} was announced before its first batch"
                );
                assert!(!finished.contains(split), "{split} gave rows after it was finished");
                assert!(rows.num_rows() > 0, "no empty batches");
            }
            SourceEvent::Finished { split } => {
                assert!(!finished.contains(split), "{split} finished twice");
                finished.push(split.clone());
            }
            _ => {}
        }
        take(fixture, event, &mut rows);
    }
    assert_same(fixture, rows, "a full read");
    assert_eq!(finished.len(), reader.splits().len(), "every split finished");
    reader.close().await.expect("close");
}

async fn resuming_loses_and_repeats_nothing<F: SourceFixture>(fixture: &F) {
    for stop_after in 0.. {
        let (source, mut reader) = open(fixture).await;
        let mut rows = Vec::new();
        let mut ended = false;
        for _ in 0..stop_after {
            match next(&mut reader).await {
                Some(event) => take(fixture, event, &mut rows),
                None => ended = true,
            }
        }
        let splits = through_checkpoint::<F>(&source, &reader.splits());
        reader.close().await.expect("close");
        let mut resumed = source.open(splits).await.expect("open at a checkpoint");
        drain(fixture, &mut resumed, &mut rows).await;
        resumed.close().await.expect("close");
        assert_same(fixture, rows, &format!("a read resumed after {stop_after} events"));
        // Every event is a place to stop at; a dozen of them, then the end, are proof enough.
        if ended || stop_after > 12 {
            return;
        }
    }
}

async fn next_is_cancel_safe<F: SourceFixture>(fixture: &F) {
    let (_, mut reader) = open(fixture).await;
    let mut rows = Vec::new();
    loop {
        // Poll once and drop: whatever the future had in its hands must come with a later call.
        for _ in 0..3 {
            let ready = {
                let mut future = pin!(reader.next());
                std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
            };
            match ready {
                Poll::Ready(event) => match event.expect("next") {
                    Some(event) => take(fixture, event, &mut rows),
                    None => {
                        reader.close().await.expect("close");
                        return assert_same(fixture, rows, "a read with cancelled calls");
                    }
                },
                Poll::Pending => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

async fn splits_can_be_moved_between_readers<F: SourceFixture>(fixture: &F) {
    let (source, mut first) = open(fixture).await;
    let mut rows = Vec::new();
    for _ in 0..3 {
        if let Some(event) = next(&mut first).await {
            take(fixture, event, &mut rows);
        }
    }
    let ids: Vec<SplitId> = first.splits().iter().map(Split::id).collect();
    let before: BTreeMap<SplitId, String> = offsets(&first.splits());
    let moved = first.remove_splits(&ids[..1]).await.expect("remove_splits");
    assert_eq!(moved.len(), 1, "the split that was asked for");
    assert_eq!(offsets(&moved).get(&ids[0]), before.get(&ids[0]), "a removed split is at the offset reached");
    assert!(
        first.remove_splits(&ids[..1]).await.expect("remove_splits").is_empty(),
        "an unknown id is ignored"
    );
    let mut second = source.open(Vec::new()).await.expect("open without splits");
    second.add_splits(moved.clone()).await.expect("add_splits");
    let twice = second.add_splits(moved).await.expect_err("a split added twice");
    assert_eq!(twice.kind(), ErrorKind::Conflict, "a split added twice");
    drain(fixture, &mut first, &mut rows).await;
    drain(fixture, &mut second, &mut rows).await;
    first.close().await.expect("close");
    second.close().await.expect("close");
    assert_same(fixture, rows, "a read with a moved split");
}

fn offsets<S: Split>(splits: &[S]) -> BTreeMap<SplitId, String> {
    splits.iter().filter_map(|split| Some((split.id(), split.offset()?.to_string()))).collect()
}

async fn a_range_can_be_read_again<F: SourceFixture>(fixture: &F) {
    let (source, mut reader) = open(fixture).await;
    let start = reader.splits();
    let mut rows = Vec::new();
    for _ in 0..5 {
        if let Some(event) = next(&mut reader).await {
            take(fixture, event, &mut rows);
        }
    }
    let reached = reader.splits();
    reader.close().await.expect("close");
    let mut range = Vec::new();
    for (mut split, end) in start.into_iter().zip(&reached) {
        if let Some(end) = end.offset() {
            split.end_before(end);
            range.push(split);
        }
    }
    let mut again = source.open(range).await.expect("open a range");
    let mut repeated = Vec::new();
    drain(fixture, &mut again, &mut repeated).await;
    again.close().await.expect("close");
    rows.sort_unstable();
    repeated.sort_unstable();
    assert_eq!(rows, repeated, "end_before gives exactly the rows up to there");
}

async fn acknowledging_and_closing_are_harmless<F: SourceFixture>(fixture: &F) {
    let (_, mut reader) = open(fixture).await;
    let mut rows = Vec::new();
    for _ in 0..4 {
        if let Some(event) = next(&mut reader).await {
            take(fixture, event, &mut rows);
        }
    }
    let splits = reader.splits();
    reader.acknowledge(&splits).await.expect("acknowledge");
    reader.acknowledge(&[]).await.expect("acknowledge nothing");
    drain(fixture, &mut reader, &mut rows).await;
    assert_same(fixture, rows, "a read with acknowledgements");
    timeout(Duration::from_secs(10), reader.close())
        .await
        .expect("close within its deadline")
        .expect("close");
    let after = reader.next().await.expect_err("next after close");
    assert_eq!(after.kind(), ErrorKind::Closed, "next after close");
}
