//! Values at the edge of what a column holds, odd names, nulls and defaults, on real servers: exact, or refused with
//! the column and the value, or changed as a named option says. Never wrapped, never shifted, never lost uncounted.

use std::sync::Arc;

use connector_bytehouse_cdw::{BytehouseCdwSink, BytehouseCdwSinkBuilder, SinkModeName};
use connector_bytehouse_common::wire::{Client, ClientOptions, Settings};
use connector_core::{
    BadRecordPolicy, ChangeBatch, Error, ErrorKind, Flushed, RowKind, RowKinds, Sink, SinkWriter, TableId,
    WriterContext,
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BinaryArray, Date32Array, Int8Array, Int32Array, Int64Array, ListArray,
            RecordBatch, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
            TimestampNanosecondArray, UInt64Array,
        },
        datatypes::{Field, Int32Type, Schema},
    },
};
use connector_tests::{
    clickhouse::NULL,
    services::{self, Clickhouse, Version},
    unique_name,
};

use crate::kafka_to_clickhouse::sink_at;

fn both() -> impl Iterator<Item = Clickhouse> {
    [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten()
}

/// A new table with these columns; returns its name with the database.
async fn table(server: &Clickhouse, columns: &str) -> String {
    let table = format!("{}.{}", server.create_database().await, unique_name("t"));
    server.execute(&format!("CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY tuple()")).await;
    table
}

fn inserts(server: &Clickhouse, table: &str) -> BytehouseCdwSinkBuilder {
    sink_at(&server.tcp).mode(SinkModeName::Insert).table(table).max_retries(0)
}

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.iter().map(|(_, array)| Arc::clone(array)).collect())
        .unwrap()
}

/// Writes one batch in one flush.
async fn write(sink: BytehouseCdwSink, columns: &[(&str, ArrayRef)]) -> Result<Flushed, Error> {
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    writer.write(&TableId::new("", "any"), ChangeBatch::append(batch(columns))).await?;
    let flushed = writer.flush(None).await?;
    writer.close().await?;
    Ok(flushed)
}

/// What a single value becomes, as text; or why it is refused.
async fn one(
    server: &Clickhouse,
    ty: &str,
    value: ArrayRef,
    change: impl FnOnce(BytehouseCdwSinkBuilder) -> BytehouseCdwSinkBuilder,
    show: &str,
) -> Result<String, Error> {
    let table = table(server, &format!("c {ty}")).await;
    write(change(inserts(server, &table)).build().unwrap(), &[("c", value)]).await?;
    let rows = server.query(&format!("SELECT {show} FROM {table}")).await.unwrap();
    assert_eq!(rows.len(), 1);
    Ok(rows[0].first().cloned().unwrap_or_default())
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(values.iter().copied().collect::<StringArray>())
}

fn ids(count: i32) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(0..count))
}

// B15
#[tokio::test(flavor = "multi_thread")]
async fn an_instant_is_the_same_in_every_column_or_is_refused_or_rounded_toward_the_past() {
    let Some(server) = services::clickhouse_current() else { return };
    // 2024-04-02 03:59:00.072229523 and 1969-12-31 23:59:59.999 UTC.
    let (late, early) = (1_712_030_340_072_229_523i64, -1_000_000i64);
    type OneValue = fn(i64) -> ArrayRef;
    let sources: [(&str, OneValue, i64); 3] = [
        ("ns", |v| Arc::new(TimestampNanosecondArray::from(vec![v]).with_timezone("UTC")), 1),
        ("us", |v| Arc::new(TimestampMicrosecondArray::from(vec![v]).with_timezone("UTC")), 1000),
        ("ms", |v| Arc::new(TimestampMillisecondArray::from(vec![v]).with_timezone("UTC")), 1_000_000),
    ];
    for nanos in [late, early] {
        for (unit, array, per_tick) in &sources {
            let ticks = nanos.div_euclid(*per_tick);
            for digits in [None, Some(0u32), Some(3), Some(6), Some(9)] {
                let ty = digits.map_or("DateTime('UTC')".to_owned(), |d| format!("DateTime64({d}, 'UTC')"));
                let name = format!("{nanos} as {unit} in {ty}");
                let scale = 10i64.pow(9 - digits.unwrap_or(0));
                let kept = (ticks * per_tick).div_euclid(scale) * scale;
                let whole = kept == ticks * per_tick;
                let shown = jiff::Timestamp::from_nanosecond(kept.into()).unwrap();
                let digits = digits.unwrap_or(0);
                let part = format!("{:09}", kept.rem_euclid(1_000_000_000));
                let mut expected = shown.strftime("%Y-%m-%d %H:%M:%S").to_string();
                if digits > 0 {
                    expected = format!("{expected}.{}", &part[..digits as usize]);
                }
                let fits = kept >= 0 || ty.starts_with("DateTime64");
                let strict = one(&server, &ty, array(ticks), |sink| sink, "toString(c)").await;
                let rounded = one(
                    &server,
                    &ty,
                    array(ticks),
                    |sink| sink.options(|options| options.round_down(true)),
                    "toString(c)",
                )
                .await;
                if fits && whole {
                    assert_eq!(strict.unwrap(), expected, "{name}");
                } else {
                    let error = strict.expect_err(&name);
                    assert_eq!(error.kind(), ErrorKind::DataInvalid, "{name}: {error}");
                    assert_eq!(error.context_value("column"), Some("c"), "{name}: {error}");
                }
                if fits {
                    assert_eq!(rounded.unwrap(), expected, "{name}, rounded");
                } else {
                    rounded.expect_err(&name);
                }
            }
        }
    }
}

// B16
#[tokio::test(flavor = "multi_thread")]
async fn zones_of_columns_and_servers_do_not_move_an_instant() {
    for server in both() {
        // 2026-07-01 12:00:00 UTC, and the same figures as a local time.
        let noon = 1_782_907_200i64;
        let zoned = |zone: &str| -> ArrayRef {
            Arc::new(TimestampMillisecondArray::from(vec![noon * 1000]).with_timezone(zone))
        };
        let local = || -> ArrayRef { Arc::new(TimestampMillisecondArray::from(vec![noon * 1000])) };
        let mut types = vec!["DateTime", "DateTime('UTC')", "DateTime('Asia/Singapore')"];
        if server.version == Version::Current {
            types.extend(["DateTime64(3)", "DateTime64(3, 'America/Chicago')"]);
        }
        for ty in types {
            let seconds = |value, change: fn(BytehouseCdwSinkBuilder) -> BytehouseCdwSinkBuilder| {
                let server = server.clone();
                async move { one(&server, ty, value, change, "toUInt32(c)").await.unwrap() }
            };
            for zone in ["UTC", "+08:00", "America/Chicago"] {
                // An option about local times leaves instants alone.
                let options: fn(BytehouseCdwSinkBuilder) -> BytehouseCdwSinkBuilder = |sink| {
                    sink.options(|options| {
                        options
                            .time_zone(jiff::tz::TimeZone::get("Asia/Shanghai").unwrap())
                            .timestamp_offset(jiff::SignedDuration::from_hours(-8))
                    })
                };
                assert_eq!(seconds(zoned(zone), |sink| sink).await, noon.to_string(), "{zone} in {ty}");
                assert_eq!(seconds(zoned(zone), options).await, noon.to_string(), "{zone} in {ty}");
            }
            assert_eq!(seconds(local(), |sink| sink).await, noon.to_string(), "a local time is UTC in {ty}");
            let shanghai: fn(BytehouseCdwSinkBuilder) -> BytehouseCdwSinkBuilder =
                |sink| sink.options(|o| o.time_zone(jiff::tz::TimeZone::get("Asia/Shanghai").unwrap()));
            assert_eq!(seconds(local(), shanghai).await, (noon - 8 * 3600).to_string(), "{ty}");
            let shifted: fn(BytehouseCdwSinkBuilder) -> BytehouseCdwSinkBuilder =
                |sink| sink.options(|o| o.timestamp_offset(jiff::SignedDuration::from_hours(-8)));
            assert_eq!(seconds(local(), shifted).await, (noon - 8 * 3600).to_string(), "{ty}");
        }
        // 2026-03-08 02:00:00 does not exist in Chicago.
        let gap: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_772_935_200_000]));
        let chicago = |sink: BytehouseCdwSinkBuilder| {
            sink.options(|o| o.time_zone(jiff::tz::TimeZone::get("America/Chicago").unwrap()))
        };
        let error = one(&server, "DateTime('UTC')", gap, chicago, "c").await.expect_err("no such time");
        assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
        assert!(error.to_string().contains("2026-03-08"), "{error}");
    }
}

// B18
#[tokio::test(flavor = "multi_thread")]
async fn an_enum_takes_its_names_and_numbers_and_learns_new_ones() {
    for server in both() {
        let table = table(
            &server,
            "n Int32, c Enum8('public' = 1, 'restricted' = 2), d Nullable(Enum8('public' = 1))",
        )
        .await;
        let sink = || inserts(&server, &table).build().unwrap();
        let no = texts(&[None]);
        let value = |name: &str| texts(&[Some(name)]);
        write(sink(), &[("n", ids(1)), ("c", value("public")), ("d", Arc::clone(&no))]).await.unwrap();
        let number = |n: i8| -> ArrayRef { Arc::new(Int8Array::from(vec![n])) };
        write(sink(), &[("n", ids(1)), ("c", number(2)), ("d", number(1))]).await.unwrap();
        for bad in [value("user"), number(3), Arc::clone(&no)] {
            let error =
                write(sink(), &[("n", ids(1)), ("c", bad), ("d", Arc::clone(&no))]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
            assert_eq!(error.context_value("column"), Some("c"), "{error}");
        }
        // The table still reads, which it would not with a number that is not listed.
        let rows = server.query(&format!("SELECT c, d FROM {table} ORDER BY c")).await.unwrap();
        assert_eq!(rows, [["public", NULL], ["restricted", "public"]]);

        // A writer that runs while the enum grows.
        let rows = |name: &str| {
            ChangeBatch::append(batch(&[("n", ids(1)), ("c", value(name)), ("d", value("public"))]))
        };
        let mut writer = sink().open(WriterContext::default()).await.unwrap();
        let any = TableId::new("", "any");
        writer.write(&any, rows("restricted")).await.unwrap();
        writer.flush(None).await.unwrap();
        server
            .execute(&format!(
                "ALTER TABLE {table} MODIFY COLUMN c Enum8('public' = 1, 'restricted' = 2, 'user' = 3)"
            ))
            .await;
        writer.write(&any, rows("user")).await.unwrap();
        writer.flush(None).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(server.count(&format!("(SELECT * FROM {table} WHERE c = 'user')")).await, 1);
    }
}

// B20
#[tokio::test(flavor = "multi_thread")]
async fn dates_out_of_range_are_refused_or_moved_to_the_limit_and_never_wrapped() {
    let day = |text: &str| -> i32 {
        let date: jiff::civil::Date = text.parse().unwrap();
        date.since(jiff::civil::date(1970, 1, 1)).unwrap().get_days()
    };
    let dates = [
        "0001-01-01",
        "0099-01-01",
        "1969-12-31",
        "1970-01-01",
        "2106-02-07",
        "2149-06-06",
        "2149-06-07",
        "9999-12-31",
    ];
    for server in both() {
        // Type, first and last day, and how its value shows as days since 1970.
        let mut types = vec![
            ("Date", "1970-01-01", "2149-06-06", "toInt32(toUInt16(c))"),
            ("DateTime('UTC')", "1970-01-01", "2106-02-07", "toInt32(intDiv(toUInt32(c), 86400))"),
        ];
        if server.version == Version::Current {
            types.extend([
                ("Date32", "1900-01-01", "2299-12-31", "toInt32(c)"),
                ("DateTime64(0, 'UTC')", "1900-01-01", "2299-12-31", "toInt32(floor(toInt64(c) / 86400))"),
            ]);
        }
        for (ty, first, last, show) in types {
            for date in dates {
                let value: ArrayRef = Arc::new(Date32Array::from(vec![day(date)]));
                let name = format!("{date} in {ty} at {:?}", server.version);
                let strict = one(&server, ty, Arc::clone(&value), |sink| sink, show).await;
                let clamped = one(&server, ty, value, |sink| sink.options(|o| o.clamp_times(true)), show)
                    .await
                    .unwrap();
                if (first..=last).contains(&date) {
                    assert_eq!(strict.unwrap(), day(date).to_string(), "{name}");
                } else {
                    let error = strict.expect_err(&name);
                    assert_eq!(error.kind(), ErrorKind::DataInvalid, "{name}: {error}");
                    let text = error.to_string();
                    assert!(text.contains("`c`") && text.contains(&date[..4]), "{name}: {text}");
                    assert!(text.contains(&first[..4]) || text.contains(&last[..4]), "the limits: {text}");
                }
                let nearest = day(date).clamp(day(first), day(last));
                assert_eq!(clamped, nearest.to_string(), "{name}, clamped");
            }
        }
    }
}

// B21
#[tokio::test(flavor = "multi_thread")]
async fn computed_columns_are_left_to_the_server_and_names_decide_not_places() {
    for server in both() {
        let wide = if server.version == Version::Current {
            ", m MATERIALIZED toDecimal256(id, 8)"
        } else {
            ", m MATERIALIZED id * 10"
        };
        let table = table(
            &server,
            &format!(
                "id Int32, note String DEFAULT concat('n', toString(id)), a ALIAS id + 1{wide}, last Int32"
            ),
        )
        .await;
        let sink = inserts(&server, &table).build().unwrap();
        let mut writer = sink.open(WriterContext::default()).await.unwrap();
        let any = TableId::new("", "any");
        // Another order than the table's, and without the column that has a default.
        let one = batch(&[("last", ids(2)), ("id", Arc::new(Int32Array::from(vec![7, 8])))]);
        writer.write(&any, ChangeBatch::append(one)).await.unwrap();
        writer.flush(None).await.unwrap();
        server.execute(&format!("ALTER TABLE {table} ADD COLUMN added Int64 DEFAULT 5 AFTER id")).await;
        let two = batch(&[("last", ids(1)), ("id", Arc::new(Int32Array::from(vec![9])))]);
        writer.write(&any, ChangeBatch::append(two)).await.unwrap();
        writer.flush(None).await.unwrap();
        // Rows that bring the new column.
        let three = batch(&[
            ("last", ids(1)),
            ("added", Arc::new(Int64Array::from(vec![-1]))),
            ("id", Arc::new(Int32Array::from(vec![10]))),
        ]);
        writer.write(&any, ChangeBatch::append(three)).await.unwrap();
        writer.flush(None).await.unwrap();
        let rows = server
            .query(&format!("SELECT id, added, note, a, toString(toInt64(m)), last FROM {table} ORDER BY id"))
            .await
            .unwrap();
        let m = |id: i32| if server.version == Version::Current { id } else { id * 10 }.to_string();
        let row = |id: i32, added: i32, last: i32| {
            [
                id.to_string(),
                added.to_string(),
                format!("n{id}"),
                (id + 1).to_string(),
                m(id),
                last.to_string(),
            ]
        };
        assert_eq!(rows, [row(7, 5, 0), row(8, 5, 1), row(9, 5, 0), row(10, -1, 0)], "{:?}", server.version);
        // What the server computes cannot be written.
        for computed in ["a", "m"] {
            let columns = [("id", ids(1)), (computed, ids(1))];
            let error = write(inserts(&server, &table).build().unwrap(), &columns).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
            assert!(error.to_string().contains(&format!("`{computed}`")), "{error}");
        }
    }
}

// B23
#[tokio::test(flavor = "multi_thread")]
async fn odd_names_are_names() {
    let columns = [
        "my-key",
        "from",
        "a.b",
        "订单",
        "back`tick",
        "quo'te",
        "double\"quote",
        "back\\slash",
        "😀",
        "test id",
    ];
    let quote = |name: &str| format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"));
    for server in both() {
        let database = format!("order-{}", unique_name("db"));
        server.execute(&format!("CREATE DATABASE {}", quote(&database))).await;
        for (name, mode) in [("table", SinkModeName::Insert), ("trans action", SinkModeName::UpsertNoDelete)]
        {
            let list: Vec<String> = columns.iter().map(|column| format!("{} Int32", quote(column))).collect();
            server
                .execute(&format!(
                    "CREATE TABLE {}.{} ({}, `ver sion` UInt64) ENGINE = ReplacingMergeTree(`ver sion`) \
                     ORDER BY ({}, {})",
                    quote(&database),
                    quote(name),
                    list.join(", "),
                    quote("my-key"),
                    quote("back`tick"),
                ))
                .await;
            let sink = sink_at(&server.tcp).mode(mode).max_retries(0).build().unwrap();
            let mut writer = sink.open(WriterContext::default()).await.unwrap();
            let id = TableId::new(database.as_str(), name);
            let place = |at: usize| i32::try_from(at).unwrap();
            let mut rows: Vec<(&str, ArrayRef)> = Vec::new();
            for (at, column) in columns.iter().enumerate() {
                rows.push((column, Arc::new(Int32Array::from(vec![place(at), place(at) + 100]))));
            }
            if mode == SinkModeName::Insert {
                rows.push(("ver sion", Arc::new(UInt64Array::from(vec![1, 1]))));
            }
            writer.write(&id, ChangeBatch::append(batch(&rows))).await.unwrap();
            writer.flush(None).await.unwrap();
            writer.close().await.unwrap();
            let select: Vec<String> = columns.iter().map(|column| quote(column)).collect();
            let sql = format!(
                "SELECT {} FROM {}.{} FINAL ORDER BY {}",
                select.join(", "),
                quote(&database),
                quote(name),
                quote("from")
            );
            let expected =
                |add: usize| (0..columns.len()).map(|at| (at + add).to_string()).collect::<Vec<_>>();
            let found = server.query(&sql).await.unwrap();
            assert_eq!(found, [expected(0), expected(100)], "{name} at {:?}", server.version);
        }
        server.execute(&format!("DROP DATABASE {}", quote(&database))).await;
    }
}

// B24
#[tokio::test(flavor = "multi_thread")]
async fn nulls_are_kept_refused_one_by_one_or_replaced_as_the_option_says() {
    for server in both() {
        let table = table(
            &server,
            "n Int32, plain Int32, nullable Nullable(Int32), defaulted Int32 DEFAULT 5, list Array(Int32), \
             inner Array(Nullable(Int32)), low LowCardinality(Nullable(String))",
        )
        .await;
        let some = |values: &[Option<i32>]| -> ArrayRef { Arc::new(Int32Array::from(values.to_vec())) };
        let lists = |values: Vec<Option<Vec<Option<i32>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(values))
        };
        let full = || {
            vec![
                ("n", ids(3)),
                ("plain", some(&[Some(1), Some(2), Some(3)])),
                ("nullable", some(&[None, Some(2), None])),
                ("list", lists(vec![Some(vec![]), Some(vec![Some(1), Some(2)]), Some(vec![])])),
                ("inner", lists(vec![Some(vec![None, Some(1)]), Some(vec![]), Some(vec![None])])),
                ("low", texts(&[None, Some(""), None])),
            ]
        };
        write(inserts(&server, &table).build().unwrap(), &full()).await.unwrap();
        let sql = format!(
            "SELECT plain, nullable, defaulted, toString(list), toString(inner), low FROM {table} ORDER BY n"
        );
        let rows = server.query(&sql).await.unwrap();
        assert_eq!(rows[0], ["1", NULL, "5", "[]", "[NULL,1]", NULL]);
        assert_eq!(rows[1], ["2", "2", "5", "[1,2]", "[]", ""]);
        assert_eq!(rows[2], ["3", NULL, "5", "[]", "[NULL]", NULL]);

        // Columns with a null in the first and in the last row that cannot have it: those rows are refused, the
        // other is not. An explicit null is not the column's DEFAULT.
        let bad: [(&str, ArrayRef); 4] = [
            ("plain", some(&[None, Some(2), None])),
            ("defaulted", some(&[None, Some(2), None])),
            ("list", lists(vec![None, Some(vec![Some(2)]), None])),
            ("list", lists(vec![Some(vec![None]), Some(vec![Some(2)]), Some(vec![Some(1), None])])),
        ];
        for (column, values) in bad {
            let mut columns = full();
            columns.retain(|(name, _)| *name != column);
            columns.push((column, values));
            let before = server.count(&table).await;
            let error = write(inserts(&server, &table).build().unwrap(), &columns).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
            assert_eq!(error.context_value("column"), Some(column), "{error}");
            assert_eq!(server.count(&table).await, before, "nothing of a failed flush");
            let skip = inserts(&server, &table).bad_record_policy(BadRecordPolicy::Skip).build().unwrap();
            let flushed = write(skip, &columns).await.unwrap();
            assert_eq!(flushed.rows, 1, "{column}");
            let refused: usize = flushed.rejected.iter().map(|rows| rows.rows.num_rows()).sum();
            assert_eq!(refused, 2, "{column}");
            assert_eq!(server.count(&table).await, before + 1, "{column}");
            let defaults = inserts(&server, &table).options(|o| o.null_as_default(true)).build().unwrap();
            assert_eq!(write(defaults, &columns).await.unwrap().rows, 3, "{column}");
        }
        let zeros = server.count(&format!("(SELECT * FROM {table} WHERE defaulted = 0)")).await;
        assert_eq!(zeros, 2, "null_as_default writes the type's default, not the column's");
    }
}

// B27
#[tokio::test(flavor = "multi_thread")]
async fn bytes_in_are_bytes_out() {
    let large = "订单🎁".repeat(400_000);
    let values: Vec<&[u8]> = vec![
        &[0, 0xDE, 0xAD, 0xBE, 0xEF, 0],
        &[0xFF],
        b"",
        "🎁".as_bytes(),
        &"🎁".as_bytes()[..2],
        &"🎁".as_bytes()[2..],
        large.as_bytes(),
    ];
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    for server in both() {
        let table = table(&server, "n Int32, c String, l LowCardinality(String)").await;
        let array: ArrayRef = Arc::new(BinaryArray::from_iter_values(&values));
        let columns = [("n", ids(7)), ("c", Arc::clone(&array)), ("l", Arc::clone(&array))];
        write(inserts(&server, &table).build().unwrap(), &columns).await.unwrap();
        let rows = server.query(&format!("SELECT hex(c), hex(l) FROM {table} ORDER BY n")).await.unwrap();
        for (row, value) in rows.iter().zip(&values) {
            assert!(row[0] == hex(value) && row[1] == hex(value), "{} bytes", value.len());
        }
        // Our client reads bytes where it is told to, and does not pass off as text what is none.
        let (host, port) = server.tcp.rsplit_once(':').unwrap();
        let mut options = ClientOptions::new(host, port.parse().unwrap());
        let sql = format!("SELECT c FROM {table} ORDER BY n");
        let mut client = Client::connect(options.clone()).await.unwrap();
        let error = client.query(&sql, &Settings::new()).await.unwrap().next_block().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
        assert!(error.to_string().contains("UTF-8"), "{error}");
        options.read.strings_as_binary = true;
        let mut client = Client::connect(options).await.unwrap();
        let mut stream = client.query(&sql, &Settings::new()).await.unwrap();
        let mut read: Vec<Vec<u8>> = Vec::new();
        while let Some(block) = stream.next_block().await.unwrap() {
            read.extend(block.rows.column(0).as_binary::<i32>().iter().flatten().map(<[u8]>::to_vec));
        }
        assert!(read.iter().map(Vec::as_slice).eq(values.iter().copied()));

        // FixedString(4): shorter ones are padded, longer ones refused.
        let bytes = |value: &[u8]| -> ArrayRef { Arc::new(BinaryArray::from_iter_values([value])) };
        let padded = one(&server, "FixedString(4)", bytes(&[1, 0xFF, 3]), |sink| sink, "hex(c)").await;
        assert_eq!(padded.unwrap(), "01FF0300");
        let error = one(&server, "FixedString(4)", bytes(b"12345"), |sink| sink, "c").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
        assert_eq!(error.context_value("column"), Some("c"), "{error}");
    }
}

// B28
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_over_many_partitions_passes_whole_or_in_parts() {
    for server in both() {
        let name = format!("{}.days", server.create_database().await);
        server
            .execute(&format!(
                "CREATE TABLE {name} (d Date, n Int32) ENGINE = MergeTree PARTITION BY d ORDER BY n"
            ))
            .await;
        let days: ArrayRef = Arc::new(Date32Array::from_iter_values(10_000..10_400));
        let columns = [("d", days), ("n", ids(400))];
        // The default leaves room for years of days.
        let flushed = write(inserts(&server, &name).build().unwrap(), &columns).await.unwrap();
        assert_eq!((flushed.rows, server.count(&name).await), (400, 400));
        if server.version == Version::V18 {
            // It has no such limit.
            continue;
        }
        let few = |sink: BytehouseCdwSinkBuilder| sink.options(|o| o.max_partitions(100));
        let sink = few(inserts(&server, &name).max_retries(0)).build().unwrap();
        // More than the server takes at once: it goes in parts, each of few partitions, and no try is used up.
        let flushed = write(sink, &columns).await.unwrap();
        assert_eq!((flushed.rows, server.count(&name).await), (400, 800));
    }
}

/// A row that is deleted by its key alone: the other columns may be missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_delete_needs_the_key_alone() {
    let Some(server) = services::clickhouse_current() else { return };
    let name = format!("{}.latest", server.create_database().await);
    server
        .execute(&format!(
            "CREATE TABLE {name} (id Int32, note String, version UInt64, is_deleted UInt8) \
             ENGINE = ReplacingMergeTree(version, is_deleted) ORDER BY id"
        ))
        .await;
    let sink = sink_at(&server.tcp).mode(SinkModeName::Upsert).table(name.as_str()).build().unwrap();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    let any = TableId::new("", "any");
    let rows = batch(&[("id", ids(2)), ("note", texts(&[Some("a"), Some("b")]))]);
    writer.write(&any, ChangeBatch::append(rows)).await.unwrap();
    writer.flush(None).await.unwrap();
    let gone = batch(&[("id", ids(1)), ("note", texts(&[None]))]);
    let kinds = RowKinds::from_kinds(&[RowKind::Delete]);
    writer.write(&any, ChangeBatch::try_new(gone, kinds).unwrap()).await.unwrap();
    writer.flush(None).await.unwrap();
    let rows = server.query(&format!("SELECT id, note FROM {name} FINAL")).await.unwrap();
    assert_eq!(rows, [["1", "b"]]);
}
