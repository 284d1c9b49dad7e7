//! Lookups in a real cluster.

use std::{sync::Arc, time::Duration};

use connector_core::{
    ChangeBatch, ErrorKind, TableSchema,
    arrow::{
        array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Int64Type, Schema},
    },
};
use connector_fluss::{FlussLookup, Found};

use crate::fluss::{Site, keyed_table, rows};

fn keys(ids: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(ids.to_vec()))]).unwrap()
}

async fn lookup(site: &Site, table: &str, key: &[&str], more: &[(&str, &str)]) -> FlussLookup {
    let more: Vec<_> =
        [("client.lookup.batch-timeout", "5ms")].into_iter().chain(more.iter().copied()).collect();
    FlussLookup::open(site.options(table, &more), None, key).await.unwrap()
}

/// Which key each row belongs to, and its first two columns.
fn shown(found: &Found) -> Vec<(u32, i64, Option<String>)> {
    let ids = found.rows.column(0).as_primitive::<Int64Type>();
    let notes = found.rows.column(1).as_string::<i32>();
    let row = |row: usize| {
        (found.key_rows.value(row), ids.value(row), notes.is_valid(row).then(|| notes.value(row).to_owned()))
    };
    (0..found.rows.num_rows()).map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_find_their_rows_one_by_one_and_many_at_a_time() {
    let Some(site) = Site::new().await else { return };
    site.create("t", keyed_table(), &[("bucket.num", "3")]).await;
    site.write("t", &[], &[ChangeBatch::append(rows(0..2000, 0))]).await;
    for asynchronous in ["true", "false"] {
        let lookup = lookup(
            &site,
            "t",
            &["id"],
            &[("lookup.async", asynchronous), ("client.lookup.batch-timeout", "0ms")],
        )
        .await;
        let found = lookup.lookup(&keys(&[5, 9999, 7, 5])).await.unwrap();
        let note = |id: i64| Some(format!("note {id} v0"));
        assert_eq!(shown(&found), [(0, 5, note(5)), (2, 7, None), (3, 5, note(5))]);
        assert!(shown(&lookup.lookup(&keys(&[])).await.unwrap()).is_empty());
    }
    let many = lookup(&site, "t", &["id"], &[]).await;
    let ids: Vec<i64> = (0..3000).rev().collect();
    let found = many.lookup(&keys(&ids)).await.unwrap();
    assert_eq!(found.rows.column(0).as_primitive::<Int64Type>().values().to_vec(), ids[1000..]);
    // A further column is compared with what was found.
    let columns: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from(vec!["note 5 v0", "other"])), Arc::new(Int64Array::from(vec![5, 6]))];
    let schema =
        Schema::new(vec![Field::new("note", DataType::Utf8, true), Field::new("id", DataType::Int64, false)]);
    let both = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let compared = lookup(&site, "t", &["note", "id"], &[]).await.lookup(&both).await.unwrap();
    assert_eq!(shown(&compared), [(0, 5, Some("note 5 v0".to_owned()))]);
    let error = FlussLookup::open(site.options("t", &[]), None, &["note"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_keeps_what_was_found_and_what_was_not() {
    let Some(site) = Site::new().await else { return };
    site.create("t", keyed_table(), &[]).await;
    site.write("t", &[], &[ChangeBatch::append(rows(1..4, 0))]).await;
    let cache = [("lookup.cache", "PARTIAL"), ("lookup.partial-cache.max-rows", "100")];
    let with = |more: &[(&'static str, &'static str)]| cache.iter().chain(more).copied().collect::<Vec<_>>();
    let plain = lookup(&site, "t", &["id"], &[]).await;
    let kept = lookup(&site, "t", &["id"], &with(&[])).await;
    let no_misses =
        lookup(&site, "t", &["id"], &with(&[("lookup.partial-cache.cache-missing-key", "false")])).await;
    let short =
        lookup(&site, "t", &["id"], &with(&[("lookup.partial-cache.expire-after-write", "50ms")])).await;
    for lookup in [&plain, &kept, &no_misses, &short] {
        assert_eq!(lookup.lookup(&keys(&[1, 9])).await.unwrap().rows.num_rows(), 1);
    }
    site.write("t", &[], &[ChangeBatch::append(rows([1, 9], 5))]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let note = |version: i64| Some(format!("note 1 v{version}"));
    let nine = Some("note 9 v5".to_owned());
    for (lookup, expected) in [
        (&plain, vec![(0, 1, note(5)), (1, 9, nine.clone())]),
        (&kept, vec![(0, 1, note(0))]),
        (&no_misses, vec![(0, 1, note(0)), (1, 9, nine.clone())]),
        (&short, vec![(0, 1, note(5)), (1, 9, nine.clone())]),
    ] {
        assert_eq!(shown(&lookup.lookup(&keys(&[1, 9])).await.unwrap()), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_there_is_inserted_where_that_is_wanted() {
    let Some(site) = Site::new().await else { return };
    site.create("t", keyed_table(), &[]).await;
    let lookup = lookup(&site, "t", &["id"], &[("lookup.insert-if-not-exists", "true")]).await;
    let found = lookup.lookup(&keys(&[3, 4, 3])).await.unwrap();
    assert_eq!(shown(&found), [(0, 3, None), (1, 4, None), (2, 3, None)]);
    assert_eq!(site.read("t", &[]).await, ["+I 3|∅", "+I 4|∅"]);
    // A row that is there is left as it is.
    site.write("t", &[], &[ChangeBatch::append(rows([3], 8))]).await;
    assert_eq!(shown(&lookup.lookup(&keys(&[3])).await.unwrap()), [(0, 3, Some("note 3 v8".to_owned()))]);
    let strict = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("n", DataType::Int64, false),
    ]));
    site.create("strict", TableSchema::new(strict).with_primary_key(["id"]).unwrap(), &[]).await;
    let options = site.options("strict", &[("lookup.insert-if-not-exists", "true")]);
    let error = FlussLookup::open(options, None, &["id"]).await.unwrap_err();
    assert_eq!((error.kind(), error.context_value("column")), (ErrorKind::Unsupported, Some("n")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_finds_all_rows_of_it_and_a_missing_partition_none() {
    let Some(site) = Site::new().await else { return };
    let text = |name| Field::new(name, DataType::Utf8, false);
    let columns =
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), text("note"), text("day")]));
    let mut schema = TableSchema::new(Arc::clone(&columns)).with_primary_key(["day", "id", "note"]).unwrap();
    schema.partition_keys = vec!["day".to_owned()];
    site.create("t", schema, &[("bucket.num", "2"), ("bucket.key", "id")]).await;
    let ids: Vec<i64> = (0..20).collect();
    let batch = |day: &str| {
        let columns_of: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids.iter().map(|id| id / 4).collect::<Vec<_>>())),
            Arc::new(ids.iter().map(|id| Some(format!("n{id}"))).collect::<StringArray>()),
            Arc::new(ids.iter().map(|_| Some(day)).collect::<StringArray>()),
        ];
        ChangeBatch::append(RecordBatch::try_new(Arc::clone(&columns), columns_of).unwrap())
    };
    site.write("t", &[], &[batch("20260101"), batch("20260102")]).await;
    let lookup = lookup(&site, "t", &["id", "day"], &[]).await;
    let wanted: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![2, 2, 7])),
        Arc::new(StringArray::from(vec!["20260102", "20990101", "20260102"])),
    ];
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), text("day")]);
    let found = lookup.lookup(&RecordBatch::try_new(Arc::new(schema), wanted).unwrap()).await.unwrap();
    let mut notes: Vec<_> =
        shown(&found).into_iter().map(|(key, id, note)| (key, id, note.unwrap())).collect();
    notes.sort();
    let expected: Vec<_> = ["n10", "n11", "n8", "n9"].map(|note| (0, 2, note.to_owned())).into();
    assert_eq!(notes, expected);
    let options = site.options("t", &[("lookup.insert-if-not-exists", "true")]);
    let error = FlussLookup::open(options, None, &["id", "day"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
