//! The rows of a bucket of a primary-key table as they are at one offset of its log.
//!
//! A limit scan gives every row of the bucket, while writers go on. What they change meanwhile is in the log between
//! its end before the scan and its end after it: the last change of each key there is laid over what was scanned. Keys that nobody
//! touched are as they were scanned, touched ones as their last change says, so the result is the table exactly at the
//! second offset, wherever in between the server looked at each row.

use std::{sync::Arc, time::Duration};

use connector_core::{
    Error, ErrorKind, Result, RowKind,
    arrow::{
        array::{BooleanArray, RecordBatch, UInt32Array},
        compute::{concat_batches, filter_record_batch, take_record_batch},
        row::Rows,
    },
};
use fluss::{metadata::TableBucket, rpc::message::OffsetSpec};
use hashbrown::{HashMap, HashSet};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    changes::{Changes, Keys, unexpected},
    plan::Plan,
    split::{FlussOffset, FlussSplit, Key, Part},
};
use crate::{client::within, error::from_client};

const OPERATION: &str = "fluss.snapshot";

/// A server applies changes to its rows just after it has made them visible in the log. The log is laid over the scan from
/// a moment before the scan.
const SETTLE: Duration = Duration::from_millis(50);

/// Rows that are left to hand out, in the order of their keys.
pub(crate) struct Snapshot {
    rows: RecordBatch,
    keys: Keys,
    at: usize,
    /// The rows are as of this offset.
    offset: i64,
    /// Lets the next bucket in once these rows are gone.
    _turn: OwnedSemaphorePermit,
}

impl Snapshot {
    /// Reads the rows behind the last key of `parts`.
    ///
    /// # Errors
    /// `Unsupported` when the bucket has more rows than `scan.snapshot.max-rows`; else as every call.
    pub(crate) async fn load(
        plan: &Arc<Plan>,
        split: &FlussSplit,
        parts: &[Part],
        turns: &Arc<Semaphore>,
    ) -> Result<Self> {
        let turn = Arc::clone(turns)
            .acquire_owned()
            .await
            .map_err(|_| Error::new(ErrorKind::Closed, "the reader is closed").with_operation(OPERATION))?;
        let before = latest(plan, split).await?;
        tokio::time::sleep(SETTLE).await;
        let scanned = scan(plan, split).await?;
        let after = latest(plan, split).await?;
        let keys = Keys::new(&scanned, &plan.key)?;
        let behind = parts.last().and_then(|part| part.up_to.as_ref());
        let rows = if after > before {
            let changes = changes(plan, split, before, after).await?;
            overlay(&scanned, changes, &keys)?
        } else {
            scanned
        };
        let rows = sorted_behind(&rows, &keys, behind)?;
        Ok(Self { rows, keys, at: 0, offset: after, _turn: turn })
    }

    /// The next rows with the offset behind them, up to a key where one is given; `None` at the end.
    pub(crate) fn next(
        &mut self,
        parts: &[Part],
        most: usize,
        until: Option<&Key>,
    ) -> Result<Option<(RecordBatch, FlussOffset)>> {
        let left = self.rows.num_rows() - self.at;
        let mut count = left.min(most);
        if let Some(until) = until {
            let of = self.keys.of(&self.rows.slice(self.at, count))?;
            count = of.iter().take_while(|key| key.as_ref() <= until.bytes()).count();
        }
        if count == 0 {
            return Ok(None);
        }
        let rows = self.rows.slice(self.at, count);
        self.at += count;
        let last = self.keys.of(&rows.slice(count - 1, 1))?;
        let up_to = Some(Key::new(last.row(0).as_ref()));
        let mut parts = parts.to_vec();
        match parts.last_mut() {
            // Rows of the same read make the last part longer.
            Some(part) if part.from == self.offset => part.up_to = up_to,
            _ => parts.push(Part { up_to, from: self.offset }),
        }
        Ok(Some((rows, FlussOffset::Snapshot { parts })))
    }

    /// Where the log goes on when all rows are handed out: at the first part's offset, since what was read first lacks
    /// the most changes.
    pub(crate) fn then(&self, parts: &[Part]) -> FlussOffset {
        let mut parts = parts.to_vec();
        match parts.last_mut() {
            Some(part) if part.from == self.offset => part.up_to = None,
            _ => parts.push(Part { up_to: None, from: self.offset }),
        }
        let next = parts.iter().map(|part| part.from).min().unwrap_or(self.offset);
        if parts.len() == 1 {
            parts.clear();
        }
        FlussOffset::Log { next, parts }
    }
}

async fn latest(plan: &Plan, split: &FlussSplit) -> Result<i64> {
    let found =
        plan.offsets(OPERATION, split.partition.as_ref(), &[split.bucket], &OffsetSpec::Latest).await?;
    found.get(&split.bucket).copied().ok_or_else(|| {
        Error::new(ErrorKind::Unexpected, "the cluster told no offset of a bucket").with_operation(OPERATION)
    })
}

/// Every row of the bucket, or an error when there are too many.
async fn scan(plan: &Plan, split: &FlussSplit) -> Result<RecordBatch> {
    let most = plan.options.snapshot_max_rows;
    let connection = plan.client.connection_for(OPERATION, &plan.info).await?;
    let bucket = plan.bucket(split);
    let mut scanner = plan
        .scan(&connection, |scan| scan.limit(most.saturating_add(1))?.create_bucket_batch_scanner(bucket))?;
    // The whole bucket comes in one answer.
    let limit = plan.client.request_timeout().max(Duration::from_secs(60));
    let rows = within(OPERATION, limit, scanner.next_batch()).await?;
    let rows = rows
        .ok_or_else(|| Error::new(ErrorKind::Unexpected, "a scan gave no batch").with_operation(OPERATION))?;
    let rows = rows.into_batch();
    if rows.num_rows() > usize::try_from(most).unwrap_or(usize::MAX) {
        return Err(too_many(plan, "rows"));
    }
    Ok(rows)
}

/// Up to `limit` rows of the table, from as few buckets as have them.
pub(crate) async fn first_rows(plan: &Plan, operation: &'static str, limit: u32) -> Result<RecordBatch> {
    let named = |error: Error| error.with_operation(operation).with_context("table", &plan.table);
    let mut left = i32::try_from(limit).unwrap_or(i32::MAX);
    let mut found = Vec::new();
    for partition in plan.partitions(operation).await? {
        for bucket in 0..plan.info.get_num_buckets() {
            if left == 0 {
                break;
            }
            let connection = plan.client.connection_for(operation, &plan.info).await?;
            let partition = partition.as_ref().map(|partition| partition.id);
            let bucket = TableBucket::new_with_partition(plan.info.get_table_id(), partition, bucket);
            let mut scanner = plan
                .scan(&connection, |scan| scan.limit(left)?.create_bucket_batch_scanner(bucket))
                .map_err(named)?;
            let batch = within(operation, plan.client.request_timeout(), scanner.next_batch()).await;
            let Some(batch) = batch.map_err(named)? else { continue };
            let rows = plan.hand_out(&batch.into_batch())?;
            let rows = rows.slice(0, rows.num_rows().min(usize::try_from(left).unwrap_or(0)));
            left -= i32::try_from(rows.num_rows()).unwrap_or(left);
            found.push(rows);
        }
    }
    concat_batches(&plan.schema, &found).map_err(unexpected("cannot join rows"))
}

fn too_many(plan: &Plan, what: &str) -> Error {
    let text = format!(
        "a bucket has more than {} {what}, which a full read keeps in memory at a time; raise scan.snapshot.max-rows, give \
         the table more buckets (bucket.num), or read its log only (scan.startup.mode)",
        plan.options.snapshot_max_rows
    );
    Error::new(ErrorKind::Unsupported, text).with_operation(OPERATION)
}

/// Polls in a row that give nothing, each with an answer of the server in between, before the log counts as read.
const SILENT_POLLS: u32 = 8;

/// The changes between two offsets, the first included, the second not.
async fn changes(plan: &Plan, split: &FlussSplit, from: i64, to: i64) -> Result<Vec<Changes>> {
    const POLL: Duration = Duration::from_millis(500);
    let connection = plan.client.connection_for(OPERATION, &plan.info).await?;
    let scanner = plan.scan(&connection, |scan| scan.create_log_scanner())?;
    let limit = plan.client.request_timeout();
    let subscribed = match &split.partition {
        Some(partition) => {
            within(OPERATION, limit, scanner.subscribe_partition(partition.id, split.bucket, from)).await
        }
        None => within(OPERATION, limit, scanner.subscribe(split.bucket, from)).await,
    };
    subscribed?;
    let most = usize::try_from(plan.options.snapshot_max_rows).unwrap_or(usize::MAX);
    let (mut found, mut count, mut reached) = (Vec::new(), 0usize, from);
    let (deadline, mut silent) = (tokio::time::Instant::now() + limit, 0);
    while reached < to {
        let polled = tokio::time::timeout_at(deadline, scanner.poll(POLL)).await.map_err(|_| late())?;
        let records: Vec<_> = polled.map_err(|e| from_client(&e))?.into_iter().collect();
        if records.is_empty() {
            // The last batches may have no rows, which the client does not tell: see the worker's silence. A server that
            // answers this question is not one that is away.
            latest(plan, split).await?;
            silent += 1;
            if silent > SILENT_POLLS {
                return Ok(found);
            }
        } else {
            silent = 0;
        }
        if let Some(mut some) = Changes::of(&records)? {
            reached = some.offsets.last().map_or(reached, |last| last + 1);
            some.end_before(to)?;
            count += some.offsets.len();
            found.push(some);
        } else if tokio::time::Instant::now() >= deadline {
            return Err(late());
        }
        if count > most {
            return Err(too_many(plan, "changes"));
        }
    }
    Ok(found)
}

fn late() -> Error {
    let text = "the changes of the time of a scan did not come within client.request-timeout";
    Error::new(ErrorKind::Timeout, text).transient().with_operation(OPERATION)
}

/// Lays changes over scanned rows: for each key the last one counts.
fn overlay(scanned: &RecordBatch, changes: Vec<Changes>, keys: &Keys) -> Result<RecordBatch> {
    let schema = scanned.schema();
    let batches: Vec<RecordBatch> = changes
        .iter()
        .map(|some| RecordBatch::try_new(Arc::clone(&schema), some.rows.columns().to_vec()))
        .collect::<Result<_, _>>()
        .map_err(unexpected("changes do not have the columns of the scan"))?;
    let all = concat_batches(&schema, &batches).map_err(unexpected("cannot join changes"))?;
    let kinds: Vec<RowKind> = changes.iter().flat_map(|some| some.kinds.iter().copied()).collect();
    let of = keys.of(&all)?;
    let mut last: HashMap<&[u8], usize> = HashMap::new();
    for (row, kind) in kinds.iter().enumerate() {
        // The row before an update says nothing that the row after it does not.
        if *kind != RowKind::UpdateBefore {
            last.insert(of.row(row).data(), row);
        }
    }
    let touched: HashSet<&[u8]> = last.keys().copied().collect();
    let scanned_keys = keys.of(scanned)?;
    let untouched: BooleanArray =
        scanned_keys.iter().map(|key| Some(!touched.contains(key.data()))).collect();
    let kept = filter_record_batch(scanned, &untouched).map_err(unexpected("cannot choose scanned rows"))?;
    let mut alive: Vec<u32> = last
        .into_values()
        .filter(|row| kinds[*row] != RowKind::Delete)
        .filter_map(|row| u32::try_from(row).ok())
        .collect();
    alive.sort_unstable();
    let changed =
        take_record_batch(&all, &UInt32Array::from(alive)).map_err(unexpected("cannot choose changes"))?;
    concat_batches(&schema, [&kept, &changed]).map_err(unexpected("cannot join rows"))
}

/// The rows with greater keys than `behind`, by key.
fn sorted_behind(rows: &RecordBatch, keys: &Keys, behind: Option<&Key>) -> Result<RecordBatch> {
    let of: Rows = keys.of(rows)?;
    let is_wanted = |row: &u32| {
        let key = of.row(usize::try_from(*row).unwrap_or(0));
        behind.is_none_or(|behind| key.data() > behind.bytes())
    };
    let count = u32::try_from(rows.num_rows()).unwrap_or(u32::MAX);
    let mut order: Vec<u32> = (0..count).filter(is_wanted).collect();
    let key = |row: u32| of.row(usize::try_from(row).unwrap_or(0));
    // Servers give rows by key already, by an encoding whose order is mostly this one.
    if order.is_sorted_by(|a, b| key(*a) <= key(*b)) && order.len() == rows.num_rows() {
        return Ok(rows.clone());
    }
    order.sort_by(|a, b| key(*a).cmp(&key(*b)));
    take_record_batch(rows, &UInt32Array::from(order)).map_err(unexpected("cannot order rows"))
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::{
        array::{AsArray, Int64Array},
        datatypes::{DataType, Field, Int64Type, Schema},
    };

    use super::*;

    fn rows(pairs: &[(i64, i64)]) -> RecordBatch {
        let field = |name| Field::new(name, DataType::Int64, false);
        let column = |pick: fn(&(i64, i64)) -> i64| Arc::new(pairs.iter().map(pick).collect::<Int64Array>());
        let schema = Schema::new(vec![field("id"), field("value")]);
        RecordBatch::try_new(Arc::new(schema), vec![column(|p| p.0), column(|p| p.1)]).unwrap()
    }

    fn pairs(rows: &RecordBatch) -> Vec<(i64, i64)> {
        let column = |place: usize| rows.column(place).as_primitive::<Int64Type>().values().to_vec();
        column(0).into_iter().zip(column(1)).collect()
    }

    fn some(pairs: &[(i64, i64)], kinds: &[RowKind]) -> Changes {
        Changes { rows: rows(pairs), kinds: kinds.to_vec(), offsets: (0..).take(kinds.len()).collect() }
    }

    #[test]
    fn the_last_change_of_a_key_counts_wherever_the_scan_saw_it() {
        use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
        // Key 2 was scanned after its change, key 3 before its delete, key 4 before its insert.
        let scanned = rows(&[(1, 10), (2, 21), (3, 30), (-5, 50)]);
        let changes = vec![
            some(&[(2, 20), (2, 21), (4, 40)], &[UpdateBefore, UpdateAfter, Insert]),
            some(
                &[(3, 30), (4, 40), (4, 41), (6, 60), (6, 60)],
                &[Delete, UpdateBefore, UpdateAfter, Insert, Delete],
            ),
        ];
        let keys = Keys::new(&scanned, &[0]).unwrap();
        let merged = overlay(&scanned, changes, &keys).unwrap();
        let sorted = sorted_behind(&merged, &keys, None).unwrap();
        assert_eq!(pairs(&sorted), [(-5, 50), (1, 10), (2, 21), (4, 41)]);
        let one = keys.of(&rows(&[(1, 0)])).unwrap();
        let behind = Key::new(one.row(0).as_ref());
        assert_eq!(pairs(&sorted_behind(&merged, &keys, Some(&behind)).unwrap()), [(2, 21), (4, 41)]);
    }

    #[tokio::test]
    async fn parts_say_as_of_when_each_key_was_read() {
        let table = rows(&[(1, 10), (2, 20), (3, 30), (4, 40)]);
        let keys = || Keys::new(&table, &[0]).unwrap();
        let turn = || Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let mut first = Snapshot { rows: table.clone(), keys: keys(), at: 0, offset: 100, _turn: turn() };
        let (got, offset) = first.next(&[], 2, None).unwrap().unwrap();
        assert_eq!(pairs(&got), [(1, 10), (2, 20)]);
        let FlussOffset::Snapshot { parts } = &offset else { panic!("{offset}") };
        assert_eq!((parts.len(), parts[0].from), (1, 100));
        // Uninterrupted, the log goes on at the scan's offset.
        let (_, whole) = first.next(parts, 9, None).unwrap().unwrap();
        let FlussOffset::Snapshot { parts: whole } = whole else { panic!() };
        assert_eq!(first.then(&whole), FlussOffset::log(100));
        // Interrupted after two rows, it goes on at the first scan's, and knows what the second one has seen.
        let rest = sorted_behind(&table, &keys(), parts[0].up_to.as_ref()).unwrap();
        let mut second = Snapshot { rows: rest, keys: keys(), at: 0, offset: 150, _turn: turn() };
        let (got, offset) = second.next(parts, 9, None).unwrap().unwrap();
        assert_eq!(pairs(&got), [(3, 30), (4, 40)]);
        let FlussOffset::Snapshot { parts } = offset else { panic!() };
        assert!(second.next(&parts, 9, None).unwrap().is_none());
        let FlussOffset::Log { next, parts } = second.then(&parts) else { panic!() };
        assert_eq!((next, parts.len(), parts[1].from, parts[1].up_to.is_none()), (100, 2, 150, true));
        // A read of a known range ends behind its last key.
        let end = parts[0].up_to.clone();
        let mut again = Snapshot { rows: table.clone(), keys: keys(), at: 0, offset: 160, _turn: turn() };
        let (got, offset) = again.next(&[], 9, end.as_ref()).unwrap().unwrap();
        assert_eq!((pairs(&got).len(), offset.last_key()), (2, end.as_ref()));
    }
}
