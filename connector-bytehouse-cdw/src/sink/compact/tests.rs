use std::{collections::BTreeMap, sync::Arc};

use connector_core::{
    arrow::{
        array::{ArrayRef, StringArray, UInt64Array},
        datatypes::UInt64Type,
    },
    testkit::{change_sequence, orders},
};

use super::*;

fn by_id(mode: SinkMode) -> Identity {
    Identity { mode, columns: vec!["id".to_owned()], version: None, forced_deletes: false, partial: None }
}

fn ids(rows: &RecordBatch) -> Vec<u64> {
    rows.column(0).as_primitive::<UInt64Type>().values().to_vec()
}

/// Rounds with the rows of each in one.
fn compact(batches: &[ChangeBatch], identity: &Identity) -> Result<Vec<Piece>> {
    let rounds = super::compact(batches, identity)?;
    Ok(rounds.into_iter().map(joined).collect())
}

fn joined(round: Round) -> Piece {
    let rows = concat_batches(&round[0].rows.schema(), round.iter().map(|piece| &piece.rows)).unwrap();
    let fates = round.iter().flat_map(|piece| {
        (0..piece.rows.num_rows()).map(|row| match &piece.fates {
            Fates::Uniform(fate) => *fate,
            Fates::PerRow(fates) => fates[row],
        })
    });
    Piece { fates: Fates::of(fates.collect()), rows }
}

fn deleted(round: &Piece) -> Vec<bool> {
    (0..round.rows.num_rows()).map(|row| round.fates.is_delete(row)).collect()
}

#[test]
fn the_last_row_of_a_key_wins_whatever_its_kind() {
    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
    let kinds = [Insert, Insert, UpdateBefore, UpdateAfter, Delete, Insert, Delete];
    let batch = ChangeBatch::try_new(orders([1, 2, 1, 1, 2, 3, 9]), RowKinds::from_kinds(&kinds)).unwrap();
    let more = ChangeBatch::append(orders([9, 4]));
    let left = compact(&[batch, more], &by_id(SinkMode::Upsert)).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(ids(&left[0].rows), [1, 2, 3, 9, 4]);
    assert_eq!(deleted(&left[0]), [false, true, false, false, false]);
    assert!(compact(&[], &by_id(SinkMode::Upsert)).unwrap().is_empty());
}

#[test]
fn an_update_of_the_key_deletes_the_old_one_where_the_mode_may() {
    use RowKind::{UpdateAfter, UpdateBefore};
    let kinds = RowKinds::from_kinds(&[UpdateBefore, UpdateAfter]);
    for (mode, left) in [
        (SinkMode::Upsert, vec![(1, Fate::Delete), (2, Fate::Put)]),
        (SinkMode::UpsertAllNoDelete, vec![(1, Fate::Delete), (2, Fate::Put)]),
        (SinkMode::UpsertNoDelete, vec![(2, Fate::Put)]),
        (SinkMode::UpsertWithDeleteToNull, vec![(1, Fate::Null), (2, Fate::Put)]),
        (SinkMode::DeleteOnly, vec![]),
    ] {
        let batch = ChangeBatch::try_new(orders([1, 2]), kinds.clone()).unwrap();
        let rounds = compact(&[batch], &by_id(mode)).unwrap();
        let found: Vec<(u64, Fate)> = rounds
            .iter()
            .flat_map(|round| {
                ids(&round.rows).into_iter().enumerate().map(|(row, id)| match &round.fates {
                    Fates::Uniform(fate) => (id, *fate),
                    Fates::PerRow(fates) => (id, fates[row]),
                })
            })
            .collect();
        assert_eq!(found, left, "{mode:?}");
    }
}

#[test]
fn a_missing_key_column_is_named() {
    let identity = Identity { columns: vec!["no".to_owned()], ..by_id(SinkMode::Upsert) };
    let error = compact(&[ChangeBatch::append(orders([1]))], &identity).unwrap_err();
    assert!(error.message().contains("`no`"), "{error}");
}

#[test]
fn any_cut_into_flushes_ends_in_the_state_of_a_plain_model() {
    for seed in 0..200 {
        let (batches, wanted) = change_sequence(seed, 12, 80, 7);
        let mut state: BTreeMap<u64, RecordBatch> = BTreeMap::new();
        let flush = usize::try_from(seed % 5 + 1).unwrap();
        for flush in batches.chunks(flush) {
            for round in compact(flush, &by_id(SinkMode::Upsert)).unwrap() {
                for (row, id) in ids(&round.rows).into_iter().enumerate() {
                    if round.fates.is_delete(row) {
                        state.remove(&id);
                    } else {
                        state.insert(id, round.rows.slice(row, 1));
                    }
                }
            }
        }
        let rows: Vec<RecordBatch> = state.into_values().collect();
        assert_eq!(concat_batches(&wanted.schema(), &rows).unwrap(), wanted, "seed {seed}");
    }
}

/// Rows of (id, version, changed columns, kind).
fn versioned(rows: &[(u64, Option<u64>, &str, RowKind)]) -> ChangeBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(rows.iter().map(|row| row.0).collect::<UInt64Array>())),
        ("v", Arc::new(rows.iter().map(|row| row.1).collect::<UInt64Array>())),
        ("changed", Arc::new(rows.iter().map(|row| Some(row.2)).collect::<StringArray>())),
    ];
    let kinds: Vec<RowKind> = rows.iter().map(|row| row.3).collect();
    ChangeBatch::try_new(RecordBatch::try_from_iter(columns).unwrap(), RowKinds::from_kinds(&kinds)).unwrap()
}

fn versions(round: &Piece) -> Vec<u64> {
    round.rows.column(1).as_primitive::<UInt64Type>().values().to_vec()
}

#[test]
fn a_higher_version_wins_over_a_later_row() {
    use RowKind::{Delete, Insert};
    let identity = Identity { version: Some("v".to_owned()), ..by_id(SinkMode::Upsert) };
    let batch = versioned(&[
        (1, Some(5), "", Insert),
        (1, Some(4), "", Insert),
        (2, Some(3), "", Insert),
        (2, Some(3), "", Delete),
        (3, Some(9), "", Delete),
        (3, Some(1), "", Insert),
    ]);
    let left = compact(&[batch], &identity).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(
        (ids(&left[0].rows), versions(&left[0]), deleted(&left[0])),
        (vec![1, 2, 3], vec![5, 3, 9], vec![false, true, true])
    );
}

#[test]
fn a_delete_without_a_version_goes_before_what_follows_it() {
    use RowKind::{Delete, Insert};
    let identity =
        Identity { version: Some("v".to_owned()), forced_deletes: true, ..by_id(SinkMode::Upsert) };
    let batch = versioned(&[
        (1, Some(5), "", Insert),
        (1, Some(0), "", Delete),
        (1, Some(3), "", Insert),
        (2, None, "", Delete),
    ]);
    let left = compact(&[batch], &identity).unwrap();
    assert_eq!(left.len(), 2);
    assert_eq!((ids(&left[0].rows), deleted(&left[0])), (vec![1], vec![true]));
    assert_eq!((ids(&left[1].rows), deleted(&left[1])), (vec![1, 2], vec![false, true]));
}

#[test]
fn partial_rows_of_one_key_keep_their_order_in_rounds() {
    use RowKind::{Delete, UpdateAfter};
    let identity = Identity { partial: Some(Some("changed".to_owned())), ..by_id(SinkMode::Upsert) };
    let batch = versioned(&[
        (1, Some(1), "a", UpdateAfter),
        (1, Some(2), "b", UpdateAfter),
        (1, Some(3), "a", UpdateAfter),
        (2, Some(4), "a", UpdateAfter),
        (2, Some(5), "", Delete),
        (2, Some(6), "b", UpdateAfter),
    ]);
    let left = compact(&[batch], &identity).unwrap();
    let found: Vec<_> = left.iter().map(versions).collect();
    assert_eq!(found, [vec![2, 5], vec![3, 6]]);
}

#[test]
fn batches_that_count_whole_are_not_copied() {
    let many = |start: u64| orders(start..start + 5000);
    let batches = [
        ChangeBatch::append(many(0)),
        // Half of it comes again behind it.
        ChangeBatch::append(many(10_000)),
        ChangeBatch::append(many(12_500)),
    ];
    let rounds = super::compact(&batches, &by_id(SinkMode::Upsert)).unwrap();
    let [round] = rounds.as_slice() else { panic!("{} rounds", rounds.len()) };
    assert_eq!(round.iter().map(|piece| piece.rows.num_rows()).collect::<Vec<_>>(), [5000, 2500, 5000]);
    for (piece, batch) in [(0, 0), (2, 2)] {
        assert!(Arc::ptr_eq(round[piece].rows.column(0), batches[batch].rows().column(0)));
    }
    assert_eq!(ids(&round[1].rows), (10_000..12_500).collect::<Vec<_>>());
    // Many small ones are one block.
    let small: Vec<ChangeBatch> = (0..10).map(|id| ChangeBatch::append(orders(id * 5..id * 5 + 5))).collect();
    let rounds = super::compact(&small, &by_id(SinkMode::Upsert)).unwrap();
    assert_eq!((rounds.len(), rounds[0].len()), (1, 1));
    assert_eq!(ids(&rounds[0][0].rows), (0..50).collect::<Vec<_>>());
}
