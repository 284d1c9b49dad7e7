//! Row kinds: pairing, cutting, filtering, and the way to and from a change type column.

use connector_core::{
    ChangeBatch, ErrorKind, RowKind, RowKinds,
    testkit::{change_sequence, orders},
};
use proptest::prelude::*;

fn kinds() -> impl Strategy<Value = Vec<RowKind>> {
    let unit = prop_oneof![
        Just(vec![RowKind::Insert]),
        Just(vec![RowKind::UpdateAfter]),
        Just(vec![RowKind::Delete]),
        Just(vec![RowKind::UpdateBefore, RowKind::UpdateAfter]),
    ];
    prop::collection::vec(unit, 0..40).prop_map(|units| units.concat())
}

fn batch(kinds: &[RowKind]) -> ChangeBatch {
    ChangeBatch::try_new(orders(0..kinds.len() as u64), RowKinds::from_kinds(kinds)).unwrap()
}

proptest! {
    #[test]
    fn well_paired_kinds_go_there_and_back(kinds in kinds()) {
        let batch = batch(&kinds);
        prop_assert_eq!((0..kinds.len()).map(|row| batch.kinds().get(row)).collect::<Vec<_>>(), kinds);
        let plain = batch.to_change_type_column().unwrap();
        prop_assert_eq!(ChangeBatch::from_change_type_column(&plain).unwrap(), batch);
    }

    #[test]
    fn any_codes_are_taken_or_refused_but_never_kept_unpaired(codes in prop::collection::vec(0u8..6, 0..20)) {
        let paired = codes.iter().enumerate().all(|(row, code)| *code < 4 && (*code != 1 || codes.get(row + 1) == Some(&2)));
        let batch = ChangeBatch::try_new(orders(0..codes.len() as u64), RowKinds::PerRow(codes.into()));
        prop_assert_eq!(batch.is_ok(), paired);
    }

    #[test]
    fn a_cut_never_parts_a_pair(kinds in kinds(), wish in 0usize..60) {
        let whole = batch(&kinds);
        let cut = whole.cut_at(wish);
        prop_assert!(cut <= whole.num_rows() && cut + 1 >= wish.min(whole.num_rows()));
        for part in [whole.slice(0, cut), whole.slice(cut, whole.num_rows() - cut)] {
            let (rows, kinds) = part.into_parts();
            prop_assert!(ChangeBatch::try_new(rows, kinds).is_ok());
        }
    }

    #[test]
    fn filtering_keeps_the_wanted_kinds_in_order(kinds in kinds()) {
        let kept = batch(&kinds).filter_kinds(|kind| kind != RowKind::UpdateBefore).unwrap();
        let wanted: Vec<_> = kinds.iter().copied().filter(|kind| *kind != RowKind::UpdateBefore).collect();
        prop_assert_eq!((0..kept.num_rows()).map(|row| kept.kinds().get(row)).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn seeded_change_sequences_are_well_formed(seed: u64, size in 1usize..300, batch in 1usize..50) {
        let (batches, state) = change_sequence(seed, 20, size, batch);
        prop_assert!(batches.iter().map(ChangeBatch::num_rows).sum::<usize>() >= size);
        prop_assert!(state.num_rows() <= 20);
    }
}

#[test]
fn only_before_rows_are_refused() {
    let before = ChangeBatch::try_new(orders(0..2), RowKinds::Uniform(RowKind::UpdateBefore)).unwrap_err();
    assert_eq!(before.kind(), ErrorKind::DataInvalid);
    let length = ChangeBatch::try_new(orders(0..3), RowKinds::PerRow(vec![0u8, 0].into())).unwrap_err();
    assert_eq!(length.message(), "2 row kinds for 3 rows");
}

#[test]
fn row_kinds_have_flinks_names() {
    assert_eq!(RowKind::ALL.map(RowKind::as_str), ["+I", "-U", "+U", "-D"]);
    assert!("+X".parse::<RowKind>().unwrap_err().message().contains("+I, -U, +U or -D"));
}
