//! The Fluss connector on a real cluster: the core's contracts, tables, and what readers and writers share.

use std::{collections::HashMap, sync::Arc, time::Duration};

use connector_core::{
    ChangeBatch, DeliveryGuarantee, Error, ErrorKind, RowKind, RowKinds, Sink, SinkWriter, Source,
    SourceEvent, SourceReader, TableId, TableSchema, WriterContext,
    arrow::{
        array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt64Array},
        datatypes::{DataType, Decimal128Type, Field, Int64Type, Schema, SchemaRef},
    },
    async_trait,
    testkit::{SinkFixture, SourceFixture, check_sink, check_source, orders_schema},
};
use connector_fluss::{FlussCatalog, FlussOptions, FlussReader, FlussSink, FlussSource, FlussWriter};
use connector_tests::{
    services::{self, Fluss},
    unique_name,
};

/// A database of a test's own.
pub(crate) struct Site {
    pub(crate) fluss: Fluss,
    pub(crate) database: String,
}

impl Site {
    pub(crate) async fn new() -> Option<Self> {
        let fluss = services::fluss()?;
        Some(Self { database: fluss.create_database().await, fluss })
    }

    pub(crate) fn on(fluss: Fluss, database: String) -> Self {
        Self { fluss, database }
    }

    pub(crate) fn pairs(&self, table: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = [
            ("bootstrap.servers".to_owned(), self.fluss.bootstrap.clone()),
            ("table".to_owned(), self.id(table).to_string()),
            ("client.scanner.log.fetch.wait-max-time".to_owned(), "20ms".to_owned()),
            ("client.writer.batch-timeout".to_owned(), "5ms".to_owned()),
        ];
        let more = more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let mut all: Vec<(String, String)> = own.into_iter().collect();
        for (key, value) in more {
            all.retain(|(other, _)| *other != key);
            all.push((key, value));
        }
        all
    }

    pub(crate) fn options(&self, table: &str, more: &[(&str, &str)]) -> FlussOptions {
        FlussOptions::from_options(self.pairs(table, more)).unwrap()
    }

    pub(crate) fn catalog(&self) -> FlussCatalog {
        FlussCatalog::new(self.options("none", &[]))
    }

    pub(crate) fn id(&self, table: &str) -> TableId {
        TableId::new(self.database.as_str(), table)
    }

    /// Makes a table, with options of its own, and waits until its buckets have leaders.
    pub(crate) async fn create(&self, table: &str, mut schema: TableSchema, options: &[(&str, &str)]) {
        schema.options.extend(options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        self.catalog().create_table(&self.id(table), &schema).await.unwrap();
        if schema.partition_keys.is_empty() {
            self.fluss.end(&self.database, table, None).await;
        }
    }

    pub(crate) fn source(&self, table: &str, more: &[(&str, &str)]) -> FlussSource {
        FlussSource::from_options(self.pairs(table, more)).unwrap()
    }

    pub(crate) fn sink(&self, table: &str, more: &[(&str, &str)]) -> FlussSink {
        FlussSink::from_options(self.pairs(table, more)).unwrap()
    }

    pub(crate) async fn writer(&self, table: &str, more: &[(&str, &str)]) -> FlussWriter {
        self.sink(table, more).open(WriterContext::default()).await.unwrap()
    }

    /// Writes batches, each with a flush of its own.
    pub(crate) async fn write(&self, table: &str, more: &[(&str, &str)], batches: &[ChangeBatch]) {
        let mut writer = self.writer(table, more).await;
        for batch in batches {
            writer.write(&self.id(table), batch.clone()).await.unwrap();
            writer.flush(None).await.unwrap();
        }
        writer.close().await.unwrap();
    }

    /// Reads a table to its present end: each row with its kind, as [`texts`] shows them, sorted.
    pub(crate) async fn read(&self, table: &str, more: &[(&str, &str)]) -> Vec<String> {
        let more: Vec<_> = more.iter().copied().chain([("scan.bounded", "true")]).collect();
        let mut reader = open(&self.source(table, &more)).await;
        let mut rows = drain(&mut reader).await;
        rows.sort_unstable();
        rows
    }
}

pub(crate) async fn open(source: &FlussSource) -> FlussReader {
    let splits = source.discover(&[]).await.unwrap();
    source.open(splits).await.unwrap()
}

pub(crate) async fn drain(reader: &mut FlussReader) -> Vec<String> {
    let mut rows = Vec::new();
    while let Some(event) = next(reader).await {
        if let SourceEvent::Batch { rows: batch, .. } = event {
            rows.extend(texts(&batch));
        }
    }
    rows
}

pub(crate) async fn next(reader: &mut FlussReader) -> Option<SourceEvent<connector_fluss::FlussSplit>> {
    tokio::time::timeout(Duration::from_secs(60), reader.next()).await.expect("an event in time").unwrap()
}

/// `+I 1|a` for each row.
pub(crate) fn texts(batch: &ChangeBatch) -> Vec<String> {
    use connector_core::arrow::util::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::default().with_null("∅");
    let rows = batch.rows();
    let columns: Vec<_> =
        rows.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
    let cells = |row: usize| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..rows.num_rows()).map(|row| format!("{} {}", batch.kinds().get(row), cells(row))).collect()
}

pub(crate) fn id_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("note", DataType::Utf8, true),
    ]))
}

/// Rows of an id and a text; ids divisible by seven have none.
pub(crate) fn rows(ids: impl IntoIterator<Item = i64>, version: i64) -> RecordBatch {
    let ids: Vec<i64> = ids.into_iter().collect();
    let note = |id: &i64| (id % 7 != 0).then(|| format!("note {id} v{version}"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(ids.iter().map(note).collect::<StringArray>()),
    ];
    RecordBatch::try_new(id_schema(), columns).unwrap()
}

pub(crate) fn log_table() -> TableSchema {
    TableSchema::new(id_schema())
}

pub(crate) fn keyed_table() -> TableSchema {
    TableSchema::new(id_schema()).with_primary_key(["id"]).unwrap()
}

/// Three buckets of 300 rows in many batches.
struct Read {
    site: Site,
    table: &'static str,
    options: &'static [(&'static str, &'static str)],
    expected: Vec<ChangeBatch>,
}

#[async_trait]
impl SourceFixture for Read {
    type Source = FlussSource;

    async fn source(&self) -> FlussSource {
        let more: Vec<_> = self.options.iter().copied().chain([("scan.bounded", "true")]).collect();
        self.site.source(self.table, &more)
    }

    fn expected(&self) -> Vec<String> {
        let id = self.site.id(self.table);
        self.expected.iter().flat_map(|batch| self.row_ids(&id, batch)).collect()
    }
}

fn appended(ids: std::ops::Range<i64>) -> ChangeBatch {
    ChangeBatch::append(rows(ids, 0))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_keeps_the_contracts_on_a_log_table() {
    let Some(site) = Site::new().await else { return };
    site.create("log", log_table(), &[("bucket.num", "3"), ("bucket.key", "id")]).await;
    let batches: Vec<ChangeBatch> = (0..9).map(|part| appended(part * 100..part * 100 + 100)).collect();
    site.write("log", &[], &batches).await;
    let options =
        &[("client.scanner.log.fetch.max-bytes-for-bucket", "1b"), ("scan.startup.mode", "earliest")];
    check_source(&Read { site, table: "log", options, expected: batches }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_keeps_the_contracts_on_the_rows_of_a_primary_key_table() {
    let Some(site) = Site::new().await else { return };
    site.create("keyed", keyed_table(), &[("bucket.num", "3")]).await;
    site.write("keyed", &[], &[appended(0..600), appended(0..900)]).await;
    let options = &[("scan.max-batch-rows", "61")];
    check_source(&Read { site, table: "keyed", options, expected: vec![appended(0..900)] }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_keeps_the_contracts_on_a_changelog() {
    let Some(site) = Site::new().await else { return };
    site.create("keyed", keyed_table(), &[("bucket.num", "2")]).await;
    let deleted = ChangeBatch::try_new(rows(0..40, 1), RowKinds::Uniform(RowKind::Delete)).unwrap();
    let updated = ChangeBatch::append(rows(0..100, 1));
    site.write("keyed", &[], &[appended(0..100), updated, deleted.clone()]).await;
    let pairs = (0..100).flat_map(|id| {
        let batch =
            connector_core::arrow::compute::concat_batches(&id_schema(), [&rows([id], 0), &rows([id], 1)])
                .unwrap();
        let kinds = RowKinds::from_kinds(&[RowKind::UpdateBefore, RowKind::UpdateAfter]);
        [ChangeBatch::try_new(batch, kinds).unwrap()]
    });
    let expected = [appended(0..100), deleted].into_iter().chain(pairs).collect();
    let options = &[("scan.startup.mode", "earliest"), ("client.scanner.log.max-poll-records", "17")];
    check_source(&Read { site, table: "keyed", options, expected }).await;
}

/// Tables of orders, with a key or without.
struct Written {
    site: Site,
    keyed: bool,
}

#[async_trait]
impl SinkFixture for Written {
    type Sink = FlussSink;

    async fn sink(&self) -> FlussSink {
        let required = if self.keyed { "true" } else { "false" };
        let pairs = self.site.pairs("none", &[("sink.require-primary-key", required)]);
        FlussSink::from_options(pairs.into_iter().filter(|(key, _)| key != "table")).unwrap()
    }

    async fn table(&self) -> TableId {
        let name = unique_name("orders");
        if !self.keyed {
            self.site.create(&name, TableSchema::new(orders_schema()), &[("bucket.num", "2")]).await;
        }
        self.site.id(&name)
    }

    async fn rows(&self, table: &TableId) -> Vec<RecordBatch> {
        let batches = self.site.fluss.rows(&table.database, &table.table).await;
        let ids = batches.iter().flat_map(|batch| {
            let ids = batch.column(0).as_primitive::<Decimal128Type>().values().to_vec();
            ids.into_iter().map(|id| u64::try_from(id).unwrap())
        });
        let ids: UInt64Array = ids.collect();
        let schema = Schema::new(vec![Field::new("id", DataType::UInt64, false)]);
        vec![RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids)]).unwrap()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sink_keeps_the_contracts_with_a_key_and_without() {
    for keyed in [false, true] {
        let Some(site) = Site::new().await else { return };
        check_sink(&Written { site, keyed }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sink_keeps_the_contracts_on_one_thread() {
    let Some(site) = Site::new().await else { return };
    site.create("log", log_table(), &[("bucket.num", "4")]).await;
    let site = Arc::new(site);
    // A buffer of two batches: the client blocks its caller, which must not be the only thread of the runtime.
    let runtime = std::thread::spawn({
        let site = Arc::clone(&site);
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let small =
                    [("client.writer.buffer.memory-size", "256kb"), ("client.writer.batch-size", "128kb")];
                let mut writer = site.writer("log", &small).await;
                for part in 0..40 {
                    writer.write(&site.id("log"), appended(part * 5000..part * 5000 + 5000)).await.unwrap();
                }
                let flushed = writer.flush(None).await.unwrap();
                writer.close().await.unwrap();
                flushed.rows
            })
        }
    });
    let written = tokio::task::spawn_blocking(move || runtime.join().unwrap()).await.unwrap();
    assert_eq!(written, 200_000);
    assert_eq!(site.fluss.end(&site.database, "log", None).await, 200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_a_table_takes_as_many_rows_as_are_asked_for() {
    let Some(site) = Site::new().await else { return };
    for (table, schema) in [("log", log_table()), ("keyed", keyed_table())] {
        site.create(table, schema, &[("bucket.num", "3")]).await;
        let source = site.source(table, &[("scan.columns", "id")]);
        assert_eq!(source.limit_scan(5).await.unwrap().num_rows(), 0);
        site.write(table, &[], &[appended(0..100)]).await;
        for (limit, expected) in [(0, 0), (1, 1), (7, 7), (100, 100), (u32::MAX, 100)] {
            let rows = source.limit_scan(limit).await.unwrap();
            let ids = rows.column(0).as_primitive::<Int64Type>().values();
            let distinct: std::collections::HashSet<_> =
                ids.iter().filter(|id| (0..100).contains(*id)).collect();
            assert_eq!(
                (rows.num_columns(), ids.len(), distinct.len()),
                (1, expected, expected),
                "{table} {limit}"
            );
        }
    }
    let error = site.source("none", &[]).limit_scan(1).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::NotFound, "fluss.limit_scan"));
}

/// Two chains of one sink, whose rows meet in the same buckets.
#[tokio::test(flavor = "multi_thread")]
async fn chains_share_the_buckets_whatever_the_distribution() {
    let Some(site) = Site::new().await else { return };
    for mode in ["BUCKET", "NONE"] {
        let table = format!("t_{}", mode.to_lowercase());
        site.create(&table, keyed_table(), &[("bucket.num", "4")]).await;
        let sink = site.sink(&table, &[("sink.distribution-mode", mode)]);
        let mut writers = Vec::new();
        for chain in 0..2 {
            let context = WriterContext { chain, chains: 2, ..WriterContext::default() };
            writers.push(sink.open(context).await.unwrap());
        }
        for round in 0..5 {
            for (chain, writer) in (0_i64..).zip(&mut writers) {
                let ids: Vec<i64> = (0..200).filter(|id| id % 2 == chain).collect();
                let batch = ChangeBatch::append(rows(ids, round));
                writer.write(&site.id(&table), batch).await.unwrap();
            }
        }
        for writer in &mut writers {
            assert_eq!(writer.flush(None).await.unwrap().rows, 500);
        }
        let mut expected = texts(&ChangeBatch::append(rows(0..200, 4)));
        expected.sort_unstable();
        assert_eq!(site.read(&table, &[]).await, expected, "{mode}");
        // One ends, the other goes on.
        writers[0].close().await.unwrap();
        writers[1].write(&site.id(&table), ChangeBatch::append(rows(200..300, 0))).await.unwrap();
        writers[1].flush(None).await.unwrap();
        writers[1].close().await.unwrap();
        assert_eq!(site.read(&table, &[]).await.len(), 300, "{mode}");
    }
}

async fn refused(result: impl Future<Output = connector_core::Result<()>>) -> Error {
    result.await.expect_err("a refusal")
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_and_tables_that_are_not_there_and_logins() {
    let Some(site) = Site::new().await else { return };
    let missing = refused(site.source("nothing", &[]).check()).await;
    assert_eq!((missing.kind(), missing.is_transient()), (ErrorKind::NotFound, false));
    assert!(!missing.to_string().contains("\tat "), "{missing}");
    let nobody = site.source("t", &[("bootstrap.servers", "127.0.0.1:9"), ("client.connect-timeout", "2s")]);
    let away = refused(nobody.check()).await;
    assert_eq!((away.kind(), away.is_transient()), (ErrorKind::Unavailable, true), "{away}");
    site.create("log", log_table(), &[]).await;
    let login = |password: &'static str| {
        let servers = site.fluss.sasl_bootstrap.clone();
        let pairs = site.pairs(
            "log",
            &[
                ("bootstrap.servers", servers.as_str()),
                ("client.security.protocol", "SASL"),
                ("client.security.sasl.username", services::TESTER.0),
                ("client.security.sasl.password", password),
            ],
        );
        FlussSource::from_options(pairs).unwrap()
    };
    login(services::TESTER.1).check().await.unwrap();
    let wrong = refused(login("wrong").check()).await;
    assert_eq!(wrong.kind(), ErrorKind::Unauthenticated, "{wrong}");
    assert!(!format!("{wrong:?}").contains("wrong\""), "{wrong:?}");
    let anonymous = site.source("log", &[("bootstrap.servers", &site.fluss.sasl_bootstrap)]);
    assert_eq!(refused(anonymous.check()).await.kind(), ErrorKind::Unauthenticated);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_the_client_would_write_wrongly_are_refused_before_a_byte() {
    let Some(site) = Site::new().await else { return };
    use fluss::metadata::{DataTypes, Schema as FlussSchema, TableDescriptor, TablePath};
    let admin = site.fluss.connect().await.get_admin().unwrap();
    for (name, keyed, key, value, part) in [
        ("indexed", false, "table.log.format", "INDEXED", "table.log.format"),
        ("indexed_kv", true, "table.kv.format", "INDEXED", "table.kv.format"),
        ("level", false, "table.log.arrow.compression.zstd.level", "9", "level 9"),
    ] {
        let mut schema =
            FlussSchema::builder().column("id", DataTypes::bigint()).column("note", DataTypes::string());
        if keyed {
            schema = schema.primary_key(["id"]).unwrap();
        }
        let table =
            TableDescriptor::builder().schema(schema.build().unwrap()).property(key, value).build().unwrap();
        admin.create_table(&TablePath::new(site.database.as_str(), name), &table, false).await.unwrap();
        let checked = site.sink(name, &[]).check(DeliveryGuarantee::AtLeastOnce).await.unwrap_err();
        assert_eq!(checked.kind(), ErrorKind::Unsupported, "{name}");
        assert!(checked.message().contains(part), "{checked}");
        // Also where the sink does not know its tables beforehand.
        let pairs = site.pairs(name, &[]).into_iter().filter(|(key, _)| key != "table");
        let mut writer =
            FlussSink::from_options(pairs).unwrap().open(WriterContext::default()).await.unwrap();
        let error = writer.write(&site.id(name), appended(0..5)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        if name != "indexed_kv" {
            assert_eq!(site.fluss.end(&site.database, name, None).await, 0);
        }
    }
    // Reading another level is fine.
    site.source("level", &[]).check().await.unwrap();
    assert!(refused(site.source("indexed", &[]).check()).await.message().contains("INDEXED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_with_a_table_holds_until_somebody_says_otherwise() {
    let Some(site) = Site::new().await else { return };
    let options = [
        ("bucket.num", "2"),
        ("bucket.key", "id"),
        ("table.log.ttl", "3d"),
        ("table.log.arrow.compression.type", "LZ4_FRAME"),
        ("table.auto-inc.batch-size", "5"),
        ("sink.ignore-delete", "true"),
        ("scan.startup.mode", "latest"),
    ];
    site.create("t", keyed_table(), &options).await;
    let stored = site.catalog().table(&site.id("t")).await.unwrap();
    for (key, value) in [
        ("bucket.num", "2"),
        ("bucket.key", "id"),
        ("table.log.ttl", "3d"),
        ("table.log.arrow.compression.type", "LZ4_FRAME"),
        ("table.auto-increment.cache-size", "5"),
        ("sink.ignore-delete", "true"),
        ("scan.startup.mode", "latest"),
    ] {
        assert_eq!(stored.options.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(stored.primary_key, ["id"]);
    let deletes = ChangeBatch::try_new(rows(0..3, 0), RowKinds::Uniform(RowKind::Delete)).unwrap();
    site.write("t", &[], &[appended(0..5), deletes.clone()]).await;
    assert_eq!(
        site.read("t", &[("scan.startup.mode", "full")]).await.len(),
        5,
        "deletes are ignored as stored"
    );
    site.write("t", &[("sink.ignore-delete", "false")], &[deletes]).await;
    assert_eq!(
        site.read("t", &[("scan.startup.mode", "full")]).await.len(),
        2,
        "a hint wins, the default as well"
    );
    assert_eq!(site.read("t", &[]).await, Vec::<String>::new(), "the stored mode is latest");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_the_cluster_does_not_know_are_named() {
    let Some(site) = Site::new().await else { return };
    let mut schema = log_table();
    schema.options.insert("table.log.local-ttl".to_owned(), "1h".to_owned());
    let error = site.catalog().create_table(&site.id("t"), &schema).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid, "{error}");
    assert!(error.message().contains("table.log.local-ttl"), "{error}");
    let mut schema = keyed_table();
    schema.options.insert("bucket.key".to_owned(), "note".to_owned());
    let error = site.catalog().create_table(&site.id("t"), &schema).await.unwrap_err();
    assert!(error.message().contains("part of the primary key"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_made_for_rows_found_by_readers_and_end_quietly() {
    let Some(site) = Site::new().await else { return };
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("day", DataType::Utf8, false),
    ]));
    let mut schema = TableSchema::new(Arc::clone(&columns));
    schema.partition_keys = vec!["day".to_owned()];
    site.create("days", schema, &[("bucket.num", "2")]).await;
    let batch = |ids: std::ops::Range<i64>, days: &[&str]| {
        let day: StringArray =
            ids.clone().map(|id| Some(days[usize::try_from(id).unwrap() % days.len()])).collect();
        let columns_of: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(day)];
        ChangeBatch::append(RecordBatch::try_new(Arc::clone(&columns), columns_of).unwrap())
    };
    let strict = [("client.writer.dynamic-create-partition.enabled", "false")];
    let mut writer = site.writer("days", &strict).await;
    let error = writer.write(&site.id("days"), batch(0..4, &["20260101"])).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.context_value("partition")),
        (ErrorKind::NotFound, Some("20260101")),
        "{error}"
    );
    writer.close().await.unwrap();
    // One batch of two days: each row goes to its own.
    site.write("days", &[], &[batch(0..10, &["20260101", "20260102"])]).await;
    for day in ["20260101", "20260102"] {
        assert_eq!(site.fluss.end(&site.database, "days", Some(day)).await, 5, "{day}");
    }
    let bad =
        site.writer("days", &[]).await.write(&site.id("days"), batch(0..1, &["a/b"])).await.unwrap_err();
    assert_eq!((bad.kind(), bad.context_value("row")), (ErrorKind::DataInvalid, Some("0")), "{bad}");

    let source = site.source("days", &[("client.request-timeout", "1s"), ("scan.startup.mode", "latest")]);
    let splits = source.discover(&[]).await.unwrap();
    assert_eq!(splits.len(), 4);
    let known: Vec<_> = splits.iter().map(connector_core::Split::id).collect();
    let mut reader = source.open(splits).await.unwrap();
    site.write("days", &[], &[batch(10..20, &["20260101", "20260103"])]).await;
    // What is found later begins at its first row, whatever the mode.
    let new = source.discover(&known).await.unwrap();
    assert_eq!(new.len(), 2);
    reader.add_splits(new).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 10 {
        if let Some(SourceEvent::Batch { rows, .. }) = next(&mut reader).await {
            seen.extend(rows.rows().column(0).as_primitive::<Int64Type>().values().to_vec());
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (10..20).collect::<Vec<_>>());
    let values = HashMap::from([("day".to_owned(), "20260103".to_owned())]);
    site.catalog().drop_partition(&site.id("days"), &values).await.unwrap();
    let mut finished = 0;
    while finished < 2 {
        if let Some(SourceEvent::Finished { split }) = next(&mut reader).await {
            assert!(split.as_str().starts_with("20260103@"), "{split}");
            finished += 1;
        }
    }
    // A checkpoint with splits of a dropped partition goes on without them.
    let mut again = source.open(reader.splits()).await.unwrap();
    reader.close().await.unwrap();
    let mut finished = 0;
    while finished < 2 {
        if let Some(SourceEvent::Finished { .. }) = next(&mut again).await {
            finished += 1;
        }
    }
}
