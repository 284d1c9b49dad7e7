//! Values on their way: what fits arrives exactly, what does not is refused or changed as the options say.

use std::sync::Arc;

use bytehouse_testkit::BytehouseDouble;
use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    BadRecordPolicy, ChangeBatch, DeliveryGuarantee, Error, ErrorKind, RowKind, RowKinds, SinkWriter,
    TableId,
    arrow::{
        array::{
            ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringArray,
            TimestampMicrosecondArray, UInt64Array,
        },
        datatypes::{DataType, Field, Schema},
        util::display::array_value_to_string,
    },
};

use crate::support::{builder, double, upsert, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;

fn create(double: &BytehouseDouble, columns: &str) -> TableId {
    double.execute(&format!("CREATE TABLE app.v ({columns}) ENGINE = CnchMergeTree ORDER BY id")).unwrap();
    TableId::new("app", "v")
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> ChangeBatch {
    let ids = (0..columns[0].1.len() as u64).collect::<UInt64Array>();
    let mut all: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(ids))];
    all.extend(columns);
    ChangeBatch::append(RecordBatch::try_from_iter(all).unwrap())
}

async fn write(sink: &BytehouseCdwSink, table: &TableId, rows: ChangeBatch) -> Result<u64, Error> {
    let mut writer = writer(sink, AT_LEAST_ONCE).await;
    writer.write(table, rows).await?;
    Ok(writer.flush(None).await?.rows)
}

fn column(double: &BytehouseDouble, expression: &str) -> Vec<String> {
    let rows = double.execute(&format!("SELECT {expression} FROM app.v ORDER BY id")).unwrap();
    (0..rows.num_rows()).map(|row| array_value_to_string(rows.column(0), row).unwrap()).collect()
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_row_column_value_and_limits_or_changed_by_a_named_option() {
    let amounts = || {
        let amounts = Decimal128Array::from(vec![12_345, -12_345]).with_precision_and_scale(18, 3).unwrap();
        vec![("amount", Arc::new(amounts) as ArrayRef)]
    };
    let days = || vec![("day", Arc::new(Date32Array::from(vec![0, -1])) as ArrayRef)];
    let counts = || vec![("count", Arc::new(Int64Array::from(vec![Some(7), Some(300)])) as ArrayRef)];
    let nulls = || vec![("count", Arc::new(Int64Array::from(vec![Some(7), None])) as ArrayRef)];
    type Columns<'a> = &'a dyn Fn() -> Vec<(&'static str, ArrayRef)>;
    type Case<'a> = (&'a str, Columns<'a>, &'a str, [&'a str; 3], [&'a str; 2]);
    let cases: [Case<'_>; 4] = [
        (
            "id UInt64, amount Decimal(18, 2)",
            &amounts,
            "sink.round-down",
            ["row 0", "`amount`", "12.345"],
            ["12.34", "-12.35"],
        ),
        ("id UInt64, day Date", &days, "sink.clamp-times", ["row 1", "1969-12-31", "2149-06-06"], ["0", "0"]),
        (
            "id UInt64, count Nullable(UInt8)",
            &counts,
            "sink.invalid-as-null",
            ["row 1", "300", "255"],
            ["7", ""],
        ),
        (
            "id UInt64, count UInt8",
            &nulls,
            "sink.null-as-default",
            ["row 1", "null", "not nullable"],
            ["7", "0"],
        ),
    ];
    for (columns, values, option, words, left) in cases {
        let double = double().await;
        let table = create(&double, columns);
        let plain = builder(&double).mode(SinkModeName::Insert).build().unwrap();
        let error = write(&plain, &table, rows(values())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
        words.iter().for_each(|word| assert!(error.message().contains(word), "{word}: {error}"));
        assert!(!double.log().iter().any(|entry| entry.rows > 0), "nothing left us");
        let lenient = with(&double, &[(option, "true")]);
        assert_eq!(write(&lenient, &table, rows(values())).await.unwrap(), 2, "{option}");
        let name = columns.split(", ").nth(1).and_then(|part| part.split(' ').next()).unwrap();
        let shown = if name == "day" { "toUInt32(day)" } else { name };
        assert_eq!(column(&double, shown), left, "{option}");
    }
}

/// A sink in mode insert from options by their keys.
fn with(double: &BytehouseDouble, more: &[(&str, &str)]) -> BytehouseCdwSink {
    let port = double.addr().port().to_string();
    let base = [
        ("host", "127.0.0.1"),
        ("port", &port),
        ("virtual-warehouse", "vw_load"),
        ("api-token", bytehouse_testkit::DoubleOptions::TOKEN),
        ("secure", "false"),
        ("sink.mode", "insert"),
    ];
    BytehouseCdwSink::from_options(base.iter().chain(more).copied()).unwrap()
}

#[tokio::test]
async fn what_cannot_become_null_is_a_bad_row_still() {
    let double = double().await;
    let table = create(&double, "id UInt64, n UInt8, m Nullable(UInt8)");
    let sink = builder(&double)
        .mode(SinkModeName::Insert)
        .bad_record_policy(BadRecordPolicy::Skip)
        .options(|options| options.invalid_as_null(true))
        .build()
        .unwrap();
    let values = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let batch = rows(vec![("n", values(vec![1, 400, 3])), ("m", values(vec![900, 1, 5]))]);
    assert_eq!(write(&sink, &table, batch).await.unwrap(), 2);
    assert_eq!(
        (column(&double, "n"), column(&double, "m")),
        (vec!["1".into(), "3".into()], vec!["".into(), "5".into()])
    );
}

#[tokio::test]
async fn a_new_name_of_an_enum_is_taken_without_a_restart() {
    let double = double().await;
    let table = create(&double, "id UInt64, e Enum8('public' = 1, 'restricted' = 2)");
    let sink = builder(&double).mode(SinkModeName::Insert).build().unwrap();
    let names = |name: &str| rows(vec![("e", Arc::new(StringArray::from(vec![name])) as ArrayRef)]);
    let error = write(&sink, &table, names("secret")).await.unwrap_err();
    assert!(error.message().contains("secret") && error.message().contains("not listed"), "{error}");
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    writer.write(&table, names("public")).await.unwrap();
    writer.flush(None).await.unwrap();
    double
        .execute("ALTER TABLE app.v MODIFY COLUMN e Enum8('public' = 1, 'restricted' = 2, 'secret' = 3)")
        .unwrap();
    writer.write(&table, names("secret")).await.unwrap();
    writer.flush(None).await.unwrap();
    assert_eq!(column(&double, "toString(e)").len(), 2);
}

#[tokio::test]
async fn times_without_a_zone_are_read_in_the_zone_of_the_job_and_moved_by_the_offset() {
    // 2024-03-10 10:00:00.123456 and 1969-12-31 23:59:59.999 as clocks show them.
    let micros = [1_710_064_800_123_456i64, -1_000];
    let batch = || {
        let plain = TimestampMicrosecondArray::from(micros.to_vec());
        let zoned = plain.clone().with_timezone("UTC");
        rows(vec![("plain", Arc::new(plain) as ArrayRef), ("zoned", Arc::new(zoned))])
    };
    for (more, hours) in [
        (&[][..], 0),
        (&[("time-zone", "Asia/Shanghai")], -8),
        (&[("timestamp-offset", "-8h")], -8),
        (&[("time-zone", "Asia/Shanghai"), ("timestamp-offset", "8h")], 0),
    ] {
        let double = double().await;
        let table = create(
            &double,
            "id UInt64, plain DateTime64(6, 'America/Chicago'), zoned DateTime64(6, 'America/Chicago')",
        );
        assert_eq!(write(&with(&double, more), &table, batch()).await.unwrap(), 2);
        let wanted: Vec<String> = micros.iter().map(|m| (m + hours * 3_600_000_000).to_string()).collect();
        assert_eq!(column(&double, "toUnixTimestamp64Micro(plain)"), wanted, "{more:?}");
        let instants: Vec<String> = micros.iter().map(ToString::to_string).collect();
        assert_eq!(column(&double, "toUnixTimestamp64Micro(zoned)"), instants, "{more:?}: an instant stays");
    }
}

#[tokio::test]
async fn a_delete_is_not_refused_for_what_it_does_not_need_but_for_its_partition() {
    let double = double().await;
    let columns = "id UInt64, day Date, small UInt8";
    let engine = "CnchMergeTree PARTITION BY toYYYYMM(day) ORDER BY id UNIQUE KEY id";
    double.execute(&format!("CREATE TABLE app.v ({columns}) ENGINE = {engine}")).unwrap();
    double.execute("INSERT INTO app.v VALUES (1, '2024-01-01', 1), (2, '2024-02-01', 2)").unwrap();
    let table = TableId::new("app", "v");
    let batch = |id: u64, day: Option<i32>| {
        let schema = Schema::new(vec![
            Field::new("id", DataType::UInt64, false),
            Field::new("day", DataType::Date32, true),
            Field::new("small", DataType::Int64, true),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(vec![id])),
            Arc::new(Date32Array::from(vec![day])),
            Arc::new(Int64Array::from(vec![9999])),
        ];
        let rows = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
        ChangeBatch::try_new(rows, RowKinds::Uniform(RowKind::Delete)).unwrap()
    };
    write(&upsert(&double), &table, batch(1, Some(19_723))).await.unwrap();
    assert_eq!(column(&double, "id"), ["2"]);
    let error = write(&upsert(&double), &table, batch(2, None)).await.unwrap_err();
    assert!(error.message().contains("`day`") && error.message().contains("null"), "{error}");
    // Without the column no delete could ever find its row.
    let bare = ChangeBatch::append(
        RecordBatch::try_from_iter([("id", Arc::new(UInt64Array::from(vec![3])) as ArrayRef)]).unwrap(),
    );
    let error = write(&upsert(&double), &table, bare).await.unwrap_err();
    assert!(error.kind() == ErrorKind::SchemaMismatch && error.message().contains("`day`"), "{error}");
}
