//! Full reads of primary-key tables while others write: rows as they are, then changes, exact through interruptions.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use connector_core::{
    ChangeBatch, ErrorKind, RowKind, RowKinds, SinkWriter, Source, SourceEvent, SourceReader, Split as _,
    arrow::array::{Array, AsArray},
    arrow::datatypes::Int64Type,
};
use connector_fluss::{FlussOffset, FlussSource, FlussSplit};
use connector_tests::mix;

use crate::fluss::{Site, id_schema, keyed_table, next, open, rows};

const KEYS: u64 = 3_000;

type State = BTreeMap<i64, Option<String>>;

/// Applies events to a model that refuses what a changelog may not say.
#[derive(Default)]
struct Model {
    rows: State,
}

impl Model {
    fn apply(&mut self, batch: &ChangeBatch) {
        let ids = batch.rows().column(0).as_primitive::<Int64Type>();
        let notes = batch.rows().column(1).as_string::<i32>();
        for row in 0..batch.num_rows() {
            let (id, note) = (ids.value(row), notes.is_valid(row).then(|| notes.value(row).to_owned()));
            match batch.kinds().get(row) {
                RowKind::Insert => assert_eq!(self.rows.insert(id, note), None, "{id} was there already"),
                RowKind::UpdateBefore => {
                    assert_eq!(self.rows.get(&id), Some(&note), "{id} before its update")
                }
                RowKind::UpdateAfter => {
                    assert!(self.rows.insert(id, note).is_some(), "{id} was not there to be updated")
                }
                RowKind::Delete => assert_eq!(self.rows.remove(&id), Some(note), "{id} before its delete"),
            }
        }
    }
}

/// Upserts and deletes keys without a pause until it is told to stop; returns what must be there then.
async fn write_until(site: Arc<Site>, stop: Arc<AtomicBool>, mut state: State, seed: u64) -> State {
    let mut writer = site.writer("t", &[]).await;
    let mut round = seed;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let picked: std::collections::BTreeSet<i64> =
            (0..200).map(|n| i64::try_from(mix(round * 1000 + n) % KEYS).unwrap()).collect();
        let (gone, put): (Vec<i64>, Vec<i64>) =
            picked.into_iter().partition(|id| mix(u64::try_from(*id).unwrap() ^ round).is_multiple_of(3));
        let version = i64::try_from(round).unwrap();
        let put = rows(put, version);
        let ids = put.column(0).as_primitive::<Int64Type>();
        let notes = put.column(1).as_string::<i32>();
        for row in 0..put.num_rows() {
            state.insert(ids.value(row), notes.is_valid(row).then(|| notes.value(row).to_owned()));
        }
        gone.iter().for_each(|id| drop(state.remove(id)));
        let deletes = ChangeBatch::try_new(rows(gone, 0), RowKinds::Uniform(RowKind::Delete)).unwrap();
        writer.write(&site.id("t"), ChangeBatch::append(put)).await.unwrap();
        writer.write(&site.id("t"), deletes).await.unwrap();
        writer.flush(None).await.unwrap();
    }
    writer.close().await.unwrap();
    state
}

fn through_checkpoint(source: &FlussSource, splits: &[FlussSplit]) -> Vec<FlussSplit> {
    let text = serde_json::to_string(&source.snapshot(splits).unwrap()).unwrap();
    let values: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    source.restore(source.split_format_version(), &values).unwrap()
}

/// The reader is dropped and opened again from its checkpoint before its first row, in the middle of the rows of each
/// bucket (several times), between rows and log, and in the log, while a writer never rests.
#[tokio::test(flavor = "multi_thread")]
async fn rows_and_changes_fit_together_whenever_the_read_is_interrupted() {
    let Some(site) = Site::new().await else { return };
    let site = Arc::new(site);
    site.create("t", keyed_table(), &[("bucket.num", "2")]).await;
    let first = rows(0..i64::try_from(KEYS).unwrap(), 0);
    let mut model_of_writer = Model::default();
    model_of_writer.apply(&ChangeBatch::append(first.clone()));
    site.write("t", &[], &[ChangeBatch::append(first)]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write_until(Arc::clone(&site), Arc::clone(&stop), model_of_writer.rows, 1));

    let source = site.source("t", &[("scan.max-batch-rows", "250")]);
    let mut splits = source.discover(&[]).await.unwrap();
    let mut model = Model::default();
    let (mut interruptions, mut in_rows, mut mixed) = (0u64, 0, 0);
    // Each life of a reader takes a few events; the last one reads on until everything has come.
    let expected = loop {
        let mut reader = source.open(through_checkpoint(&source, &splits)).await.unwrap();
        for _ in 0..mix(interruptions) % 5 {
            if let Some(SourceEvent::Batch { rows, .. }) = next(&mut reader).await {
                model.apply(&rows);
            }
        }
        splits = reader.splits();
        reader.close().await.unwrap();
        interruptions += 1;
        in_rows += usize::from(
            splits
                .iter()
                .any(|split| matches!(&split.offset, FlussOffset::Snapshot { parts } if parts.len() > 1)),
        );
        mixed += usize::from(
            splits
                .iter()
                .any(|split| matches!(&split.offset, FlussOffset::Log { parts, .. } if parts.len() > 1)),
        );
        let all_in_log = splits.iter().all(|split| split.offset.next_in_log().is_some());
        if (all_in_log && interruptions > 20) || interruptions > 200 {
            stop.store(true, Ordering::Relaxed);
            break writing.await.unwrap();
        }
    };
    assert!(in_rows > 0, "interrupted among the rows: {in_rows}");
    assert!(mixed > 0, "interrupted where parts are as of different offsets: {mixed}");
    let end = site.fluss.end(&site.database, "t", None).await;
    let mut reader = source.open(through_checkpoint(&source, &splits)).await.unwrap();
    while reader.splits().iter().filter_map(|split| split.offset.next_in_log()).sum::<i64>() < end {
        if let Some(SourceEvent::Batch { rows, .. }) = next(&mut reader).await {
            model.apply(&rows);
        }
    }
    assert_eq!(model.rows, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_read_has_a_bound_and_says_which() {
    let Some(site) = Site::new().await else { return };
    site.create("t", keyed_table(), &[]).await;
    site.write("t", &[], &[ChangeBatch::append(rows(0..100, 0))]).await;
    assert_eq!(site.read("t", &[("scan.snapshot.max-rows", "100")]).await.len(), 100);
    let source = site.source("t", &[("scan.snapshot.max-rows", "99")]);
    let error = open(&source).await.next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("scan.snapshot.max-rows"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_chosen_and_old_rows_have_nulls_in_new_ones() {
    let Some(site) = Site::new().await else { return };
    use connector_core::{
        SchemaChange,
        arrow::datatypes::{DataType, Field},
        schema::ColumnPosition,
    };
    for (table, schema, compression) in [
        ("keyed", keyed_table(), "NONE"),
        ("lz4", crate::fluss::log_table(), "LZ4_FRAME"),
        ("zstd", crate::fluss::log_table(), "ZSTD"),
    ] {
        site.create(table, schema, &[("table.log.arrow.compression.type", compression)]).await;
        let mut writer = site.writer(table, &[]).await;
        writer.write(&site.id(table), ChangeBatch::append(rows(1..4, 0))).await.unwrap();
        writer.flush(None).await.unwrap();
        let old = site.source(table, &[("scan.startup.mode", "earliest")]);
        let checkpoint = old.discover(&[]).await.unwrap();
        let column = Arc::new(Field::new("age", DataType::Int64, true));
        let change = SchemaChange::AddColumn {
            table: site.id(table),
            column: Arc::clone(&column),
            position: ColumnPosition::Last,
        };
        writer.apply(&change).await.unwrap();
        writer.apply(&change).await.unwrap();
        let mut fields: Vec<_> = id_schema().fields().iter().cloned().collect();
        fields.push(column);
        let wide = connector_core::arrow::array::RecordBatch::try_new(
            Arc::new(connector_core::arrow::datatypes::Schema::new(fields)),
            rows(4..6, 0)
                .columns()
                .iter()
                .cloned()
                .chain([Arc::new(connector_core::arrow::array::Int64Array::from(vec![40, 50])) as _])
                .collect(),
        );
        writer.write(&site.id(table), ChangeBatch::append(wide.unwrap())).await.unwrap();
        writer.flush(None).await.unwrap();
        writer.close().await.unwrap();
        for mode in ["full", "earliest"] {
            let read = |columns: &'static str| {
                site.read(
                    table,
                    if columns.is_empty() {
                        vec![("scan.startup.mode", mode)]
                    } else {
                        vec![("scan.startup.mode", mode), ("scan.columns", columns)]
                    }
                    .leak(),
                )
            };
            assert_eq!(
                read("").await,
                [
                    "+I 1|note 1 v0|∅",
                    "+I 2|note 2 v0|∅",
                    "+I 3|note 3 v0|∅",
                    "+I 4|note 4 v0|40",
                    "+I 5|note 5 v0|50"
                ],
                "{table} {mode}"
            );
            assert_eq!(read("age").await, ["+I 40", "+I 50", "+I ∅", "+I ∅", "+I ∅"], "{table} {mode}");
            assert_eq!(read("note,id").await[0], "+I note 1 v0|1", "{table} {mode}");
        }
        let mut resumed = old.open(checkpoint).await.unwrap();
        let mut seen = 0;
        while seen < 5 {
            if let Some(SourceEvent::Batch { rows, .. }) = next(&mut resumed).await {
                assert_eq!(rows.rows().num_columns(), 3);
                seen += rows.num_rows();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_begin_where_they_are_told_and_say_when_they_cannot() {
    let Some(site) = Site::new().await else { return };
    site.create("log", crate::fluss::log_table(), &[]).await;
    site.write("log", &[], &[ChangeBatch::append(rows(0..10, 0))]).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    let middle =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis().to_string();
    tokio::time::sleep(Duration::from_millis(30)).await;
    site.write("log", &[], &[ChangeBatch::append(rows(10..15, 0))]).await;
    assert_eq!(site.read("log", &[("scan.startup.mode", "full")]).await.len(), 15);
    assert_eq!(site.read("log", &[("scan.startup.mode", "earliest")]).await.len(), 15);
    assert_eq!(site.read("log", &[("scan.startup.mode", "latest")]).await.len(), 0);
    assert_eq!(
        site.read("log", &[("scan.startup.mode", "timestamp"), ("scan.startup.timestamp", &middle)])
            .await
            .len(),
        5
    );
    let old = [
        ("scan.startup.mode", "timestamp"),
        ("scan.startup.timestamp", "2001-01-01 00:00:00"),
        ("time-zone", "UTC"),
    ];
    assert_eq!(site.read("log", &old).await.len(), 15);
    let future = [
        ("scan.startup.mode", "timestamp"),
        ("scan.startup.timestamp", "2999-01-01 00:00:00"),
        ("time-zone", "UTC"),
    ];
    let error = site.source("log", &future).discover(&[]).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::OptionInvalid, false), "{error}");

    // A place that the log does not have: an error that names what there is, or a new place where the options say so.
    let source = site.source("log", &[]);
    let mut splits = source.discover(&[]).await.unwrap();
    splits[0].seek(FlussOffset::log(99));
    let error = source.open(splits.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CheckpointInvalid);
    for (key, value) in [("offset", "99"), ("earliest", "0"), ("latest", "15"), ("bucket", "0")] {
        assert_eq!(error.context_value(key), Some(value), "{error}");
    }
    for (policy, count) in [("earliest", 15), ("latest", 0)] {
        let lenient = site.source("log", &[("scan.offset-reset", policy)]);
        let mut splits = splits.clone();
        splits[0].end_before(&FlussOffset::log(i64::MAX));
        let reader = lenient.open(splits).await.unwrap();
        assert_eq!(reader.splits()[0].offset, FlussOffset::log(15 - count), "{policy}");
    }
    // A table of the same name is another table.
    site.catalog().drop_table(&site.id("log")).await.unwrap();
    site.create("log", crate::fluss::log_table(), &[]).await;
    splits[0].seek(FlussOffset::log(0));
    let error = source.open(splits).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CheckpointInvalid);
    assert!(error.message().contains("created again"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_come_with_their_kinds_whatever_the_table_merges() {
    let Some(site) = Site::new().await else { return };
    let deletes = ChangeBatch::try_new(rows([1], 1), RowKinds::Uniform(RowKind::Delete)).unwrap();
    let batches = [ChangeBatch::append(rows(1..3, 0)), ChangeBatch::append(rows([1], 1)), deletes];
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: [Case<'_>; 3] = [
        (
            "full",
            &[],
            &["+I 1|note 1 v0", "+I 2|note 2 v0", "+U 1|note 1 v1", "-D 1|note 1 v1", "-U 1|note 1 v0"],
        ),
        (
            "wal",
            &[("table.changelog.image", "WAL")],
            &["+U 1|note 1 v0", "+U 1|note 1 v1", "+U 2|note 2 v0", "-D 1|note 1 v1"],
        ),
        ("first", &[("table.merge-engine", "first_row")], &["+I 1|note 1 v0", "+I 2|note 2 v0"]),
    ];
    for (table, options, expected) in cases {
        site.create(table, keyed_table(), options).await;
        site.write(table, &[], &batches).await;
        assert_eq!(site.read(table, &[("scan.startup.mode", "earliest")]).await, expected, "{table}");
    }
}
