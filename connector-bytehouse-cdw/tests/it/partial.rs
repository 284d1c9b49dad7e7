//! Partial updates: columns that a change does not bring keep their value.

use std::{collections::BTreeMap, sync::Arc};

use bytehouse_testkit::BytehouseDouble;
use connector_bytehouse_cdw::SinkModeName;
use connector_core::{
    ChangeBatch, DeliveryGuarantee, ErrorKind, RowKind, RowKinds, Sink, SinkWriter, TableId,
    arrow::{
        array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array},
        util::display::array_value_to_string,
    },
};

use crate::{
    model::Dice,
    support::{builder, double, upsert, writer},
};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;
const COLUMNS: &str = "id UInt64, a Nullable(Int64), b Nullable(Int64)";
const PARTIAL: &str = "CnchMergeTree ORDER BY id UNIQUE KEY id SETTINGS enable_unique_partial_update = 1";

fn create(double: &BytehouseDouble, engine: &str) -> TableId {
    double.execute(&format!("CREATE TABLE app.t ({COLUMNS}) ENGINE = {engine}")).unwrap();
    TableId::new("app", "t")
}

fn rows(columns: &[(&str, &[i64])]) -> RecordBatch {
    let columns = columns.iter().map(|(name, values)| {
        let array: ArrayRef = if *name == "id" {
            Arc::new(values.iter().map(|id| u64::try_from(*id).unwrap()).collect::<UInt64Array>())
        } else {
            Arc::new(Int64Array::from(values.to_vec()))
        };
        (*name, array)
    });
    RecordBatch::try_from_iter(columns).unwrap()
}

fn state(double: &BytehouseDouble) -> Vec<Vec<String>> {
    let rows = double.execute("SELECT id, a, b FROM app.t ORDER BY id").unwrap();
    (0..rows.num_rows())
        .map(|row| rows.columns().iter().map(|column| array_value_to_string(column, row).unwrap()).collect())
        .collect()
}

#[tokio::test]
async fn columns_that_rows_lack_keep_their_values_as_the_table_and_the_option_say() {
    for (engine, option, left) in [
        (PARTIAL, None, [["1", "7", "20"], ["2", "", "30"]]),
        (PARTIAL, Some(true), [["1", "7", "20"], ["2", "", "30"]]),
        (PARTIAL, Some(false), [["1", "", "20"], ["2", "", "30"]]),
        ("CnchMergeTree ORDER BY id UNIQUE KEY id", None, [["1", "", "20"], ["2", "", "30"]]),
    ] {
        let double = double().await;
        let table = create(&double, engine);
        let sink = builder(&double).mode(SinkModeName::Upsert);
        let sink = match option {
            Some(option) => sink.partial_update(option),
            None => sink,
        };
        let mut writer = writer(&sink.build().unwrap(), AT_LEAST_ONCE).await;
        let whole = rows(&[("id", &[1]), ("a", &[7]), ("b", &[8])]);
        writer.write(&table, ChangeBatch::append(whole)).await.unwrap();
        let some = rows(&[("id", &[1, 2]), ("b", &[20, 30])]);
        writer.write(&table, ChangeBatch::append(some)).await.unwrap();
        writer.flush(None).await.unwrap();
        assert_eq!(state(&double), left, "{engine}, {option:?}");
    }
}

#[tokio::test]
async fn a_row_after_a_delete_keeps_nothing_of_the_row_before() {
    let double = double().await;
    let table = create(&double, PARTIAL);
    let mut writer = writer(&upsert(&double), AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(rows(&[("id", &[1]), ("a", &[7]), ("b", &[8])]))).await.unwrap();
    writer.flush(None).await.unwrap();
    let kinds = RowKinds::from_kinds(&[RowKind::Delete, RowKind::Insert]);
    let again = ChangeBatch::try_new(rows(&[("id", &[1, 1]), ("b", &[0, 9])]), kinds).unwrap();
    writer.write(&table, again).await.unwrap();
    writer.flush(None).await.unwrap();
    assert_eq!(state(&double), [["1", "", "9"]]);
}

#[tokio::test]
async fn partial_updates_that_cannot_be_are_refused_at_the_start() {
    for (engine, mode, cnch, words) in [
        (
            "CnchMergeTree ORDER BY id UNIQUE KEY id",
            SinkModeName::Upsert,
            true,
            "enable_unique_partial_update = 1",
        ),
        (
            "CnchMergeTree ORDER BY id UNIQUE KEY id SETTINGS partition_level_unique_keys = 0",
            SinkModeName::Upsert,
            true,
            "unique over all partitions",
        ),
        (PARTIAL, SinkModeName::Insert, true, "a mode with keys"),
        ("ReplacingMergeTree(id) ORDER BY id", SinkModeName::UpsertNoDelete, false, "open-source ClickHouse"),
    ] {
        let double = double().await;
        create(&double, engine);
        let sink = builder(&double)
            .mode(mode)
            .table("app.t")
            .partial_update(true)
            .cnch_engine(cnch)
            .connection_properties([("user", "bytehouse")])
            .build()
            .unwrap();
        let error = sink.check(AT_LEAST_ONCE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(words), "{error}");
    }
}

#[tokio::test]
async fn delete_to_null_needs_columns_that_can_be_null() {
    for (columns, engine, words) in [
        ("id UInt64, a Int64, b Nullable(Int64)", "CnchMergeTree ORDER BY id UNIQUE KEY id", "`a` is Int64"),
        (COLUMNS, PARTIAL, "partial update leaves"),
    ] {
        let double = double().await;
        double.execute(&format!("CREATE TABLE app.t ({columns}) ENGINE = {engine}")).unwrap();
        let sink = builder(&double).mode(SinkModeName::UpsertWithDeleteToNull).build().unwrap();
        let mut writer = writer(&sink, AT_LEAST_ONCE).await;
        let some = rows(&[("id", &[1]), ("a", &[7])]);
        let error = writer.write(&TableId::new("app", "t"), ChangeBatch::append(some)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(words), "{error}");
    }
}

/// Rows that say by themselves which columns they change, compared with a plain model.
#[tokio::test]
async fn seeded_partial_changes_end_in_the_state_of_a_plain_model() {
    let double = double().await;
    let table = create(&double, PARTIAL);
    let mut writer = writer(&upsert(&double), AT_LEAST_ONCE).await;
    for seed in 0..1000 {
        double.execute("TRUNCATE TABLE app.t").unwrap();
        let mut dice = Dice::new(seed);
        let mut model: BTreeMap<u64, [Option<i64>; 2]> = BTreeMap::new();
        for _flush in 0..3 {
            let (mut ids, mut values, mut names, mut kinds) = (vec![], [vec![], vec![]], vec![], vec![]);
            for n in 0..dice.below(12) {
                let id = dice.below(4);
                let change = [i64::try_from(100 * seed + n).unwrap(), -i64::try_from(n).unwrap()];
                ids.push(id);
                if dice.below(5) == 0 {
                    values.iter_mut().for_each(|column| column.push(None));
                    kinds.push(RowKind::Delete);
                    names.push("");
                    model.remove(&id);
                    continue;
                }
                kinds.push(RowKind::UpdateAfter);
                let (name, changed) = [("a", [true, false]), ("b", [false, true]), ("a,b", [true, true])]
                    [usize::try_from(dice.below(3)).unwrap()];
                names.push(name);
                let row = model.entry(id).or_default();
                for (column, slot) in row.iter_mut().enumerate() {
                    values[column].push(changed[column].then_some(change[column]));
                    if changed[column] {
                        *slot = Some(change[column]);
                    }
                }
            }
            if ids.is_empty() {
                continue;
            }
            let [a, b] = values;
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("id", Arc::new(UInt64Array::from(ids))),
                ("a", Arc::new(Int64Array::from(a))),
                ("b", Arc::new(Int64Array::from(b))),
                ("_update_columns_", Arc::new(StringArray::from(names))),
            ];
            let rows = RecordBatch::try_from_iter(columns).unwrap();
            let changes = ChangeBatch::try_new(rows, RowKinds::from_kinds(&kinds)).unwrap();
            writer.write(&table, changes).await.unwrap();
            writer.flush(None).await.unwrap();
        }
        let text = |value: Option<i64>| value.map(|value| value.to_string()).unwrap_or_default();
        let wanted: Vec<Vec<String>> =
            model.iter().map(|(id, [a, b])| vec![id.to_string(), text(*a), text(*b)]).collect();
        assert_eq!(state(&double), wanted, "seed {seed}");
    }
}
