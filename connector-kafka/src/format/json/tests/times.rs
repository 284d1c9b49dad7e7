//! Dates, times of day and timestamps.

use connector_core::arrow::{
    array::{Array, AsArray},
    datatypes::{
        Date32Type, Int32Type, Int64Type, TimeUnit,
        TimeUnit::{Microsecond, Millisecond, Nanosecond, Second},
    },
};
use jiff::tz::TimeZone;

use super::{super::EpochUnit, JsonErrorKind::*, *};

const UNITS: [(TimeUnit, i64); 4] =
    [(Second, 1), (Millisecond, 1_000), (Microsecond, 1_000_000), (Nanosecond, 1_000_000_000)];

fn instant(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some("Asia/Singapore".into()))
}

fn wall(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, None)
}

fn zone(name: &str) -> JsonOptions {
    JsonOptions { time_zone: TimeZone::get(name).unwrap(), ..JsonOptions::default() }
}

fn read(data_type: &DataType, options: JsonOptions, text: &str) -> Result<i64, JsonErrorKind> {
    let array = value_with(data_type, options, text).map_err(|e| e.kind())?;
    assert_eq!(array.data_type(), data_type);
    Ok(match data_type {
        DataType::Timestamp(Second, _) => {
            array.as_primitive::<connector_core::arrow::datatypes::TimestampSecondType>().value(0)
        }
        DataType::Timestamp(Millisecond, _) => {
            array.as_primitive::<connector_core::arrow::datatypes::TimestampMillisecondType>().value(0)
        }
        DataType::Timestamp(Microsecond, _) => {
            array.as_primitive::<connector_core::arrow::datatypes::TimestampMicrosecondType>().value(0)
        }
        DataType::Timestamp(Nanosecond, _) => {
            array.as_primitive::<connector_core::arrow::datatypes::TimestampNanosecondType>().value(0)
        }
        DataType::Time32(_) => i64::from(array.to_data().buffers()[0].typed_data::<i32>()[0]),
        DataType::Time64(_) => array.to_data().buffers()[0].typed_data::<i64>()[0],
        other => panic!("{other}"),
    })
}

#[test]
fn dates() {
    let date = |text: &str| value(&DataType::Date32, text).map(|a| a.as_primitive::<Date32Type>().value(0));
    for (text, days) in [
        ("\"1970-01-01\"", 0),
        ("\"1969-12-31\"", -1),
        ("\"0001-01-01\"", -719_162),
        ("\"9999-12-31\"", 2_932_896),
        ("\"2024-02-29\"", 19_782),
        (r#""2024\u002d02-29""#, 19_782),
        ("19782", 19_782),
        ("-1", -1),
        ("1e2", 100),
    ] {
        assert_eq!(date(text).unwrap(), days, "{text}");
    }
    for (text, kind) in [
        ("\"0000-00-00\"", InvalidText),
        ("\"2023-02-29\"", InvalidText),
        ("\"2024-02-29T00:00:00Z\"", InvalidText),
        ("\"24-02-29\"", InvalidText),
        ("\"\"", InvalidText),
        ("\"19782\"", InvalidText),
        ("1.5", Inexact),
        ("2147483648", OutOfRange),
        ("1e30", OutOfRange),
        ("true", WrongType),
    ] {
        assert_eq!(refusal(&DataType::Date32, text), kind, "{text}");
    }
}

#[test]
fn times_of_day() {
    for (unit, per_second) in UNITS {
        let data_type = if per_second <= 1_000 { DataType::Time32(unit) } else { DataType::Time64(unit) };
        let time = |text: &str| read(&data_type, JsonOptions::default(), text);
        assert_eq!(time("\"00:00\""), Ok(0));
        assert_eq!(time("\"23:59:59\""), Ok(86_399 * per_second));
        assert_eq!(time("\"23:59:59.000000000000\""), Ok(86_399 * per_second));
        assert_eq!(time(&format!("{}", 86_400 * per_second - 1)), Ok(86_400 * per_second - 1));
        assert_eq!(time(&format!("{}", 86_400 * per_second)), Err(OutOfRange));
        assert_eq!(time("-1"), Err(OutOfRange));
        assert_eq!(time("\"24:00\""), Err(InvalidText));
        assert_eq!(time("\"1\""), Err(InvalidText));
        assert_eq!(time("0.5"), Err(Inexact));
        assert_eq!(time("[]"), Err(WrongType));
        assert_eq!(time("\"00:00:00.0000000001\""), Err(Inexact));
        let cut = JsonOptions { truncate_time: true, ..JsonOptions::default() };
        assert_eq!(read(&data_type, cut, "\"12:00:00.9999999999\""), Ok(43_201 * per_second - 1));
    }
    let time = |text: &str| read(&DataType::Time32(Millisecond), JsonOptions::default(), text);
    assert_eq!(time("\"12:34:56.789\""), Ok(45_296_789));
    assert_eq!(time("\"12:34:56.7891\""), Err(Inexact));
}

#[test]
fn one_instant_in_every_unit() {
    // 1,711,994,340 s is 2024-04-01T17:59:00Z.
    for (unit, per_second) in UNITS {
        for data_type in [instant(unit), wall(unit)] {
            for text in [
                "2024-04-01T17:59:00Z",
                "2024-04-01T17:59:00.000Z",
                "2024-04-01T17:59:00.000000000000Z",
                "2024-04-01 17:59Z",
                "2024-04-02T01:59:00+08:00",
                "2024-04-02 01:59:00+08",
                "2024-04-01t14:29:00-0330",
                "2024-04-01T17:59:00",
                "2024-04-01T17:59",
            ] {
                let got = read(&data_type, JsonOptions::default(), &format!("\"{text}\""));
                assert_eq!(got, Ok(1_711_994_340 * per_second), "{text} as {data_type}");
            }
            let got = read(&data_type, JsonOptions::default(), &format!("{}", 1_711_994_340 * per_second));
            assert_eq!(got, Ok(1_711_994_340 * per_second));
            assert_eq!(read(&data_type, JsonOptions::default(), "\"1970-01-01\""), Ok(0));
        }
    }
}

#[test]
fn the_common_form_in_every_unit() {
    let text = "\"1969-12-31T23:59:59.120Z\"";
    assert_eq!(read(&instant(Millisecond), JsonOptions::default(), text), Ok(-880));
    assert_eq!(read(&wall(Microsecond), JsonOptions::default(), text), Ok(-880_000));
    assert_eq!(read(&instant(Nanosecond), JsonOptions::default(), text), Ok(-880_000_000));
    assert_eq!(read(&instant(Second), JsonOptions::default(), text), Err(Inexact));
}

#[test]
fn what_is_no_time() {
    for text in [
        "\"\"",
        "\"now\"",
        "\"1711994340\"",
        "\"2024-04-01T\"",
        "\"2024-04-01T17\"",
        "\"2024-04-01T24:00:00Z\"",
        "\"2016-12-31T23:59:60Z\"",
        "\"2024-02-30T00:00:00Z\"",
        "\"2024-04-01T17:59:00.Z\"",
        "\"2024-04-01T17:59:00 UTC\"",
        "\"2024-04-01T17:59:00+08:00[Asia/Shanghai]\"",
        "\"2024-04-01T17:59:00.12xZ\"",
    ] {
        assert_eq!(refusal(&instant(Millisecond), text), InvalidText, "{text}");
    }
    assert_eq!(refusal(&instant(Millisecond), "true"), WrongType);
    let error = value(&instant(Millisecond), "\"yesterday\"").unwrap_err();
    assert_eq!(
        error.expected(),
        "an ISO 8601 time such as 2026-01-31T12:34:56.789Z, or milliseconds since 1970-01-01T00:00:00Z"
    );
}

#[test]
fn digits_that_do_not_fit_are_refused_or_cut_toward_the_past() {
    let cut = || JsonOptions { truncate_time: true, ..JsonOptions::default() };
    for (text, unit, floor) in [
        ("\"1970-01-01T00:00:00.9Z\"", Second, 0),
        ("\"1969-12-31T23:59:59.9Z\"", Second, -1),
        ("\"1969-12-31T23:59:58.001Z\"", Second, -2),
        ("\"1969-12-31T23:59:59.9999Z\"", Millisecond, -1),
        ("\"1970-01-01T00:00:00.0009Z\"", Millisecond, 0),
        ("\"1969-12-31T23:59:59.9999999999Z\"", Nanosecond, -1),
        ("0.5", Second, 0),
        ("-0.5", Second, -1),
        ("-1.0001", Millisecond, -2),
    ] {
        assert_eq!(refusal(&instant(unit), text), Inexact, "{text}");
        assert_eq!(read(&instant(unit), cut(), text), Ok(floor), "{text}");
    }
    let error = value(&instant(Millisecond), "\"1970-01-01T00:00:00.0009Z\"").unwrap_err();
    assert_eq!(error.expected(), "a time with at most 3 digits after the second");
}

#[test]
fn nanoseconds_have_limits() {
    for (text, expected) in [
        ("\"1677-09-21T00:12:43.145224192Z\"", Ok(i64::MIN)),
        ("\"2262-04-11T23:47:16.854775807Z\"", Ok(i64::MAX)),
        ("\"1677-09-21T00:12:43.145224191Z\"", Err(OutOfRange)),
        ("\"2262-04-11T23:47:16.854775808Z\"", Err(OutOfRange)),
        ("9223372036854775807", Ok(i64::MAX)),
        ("-9223372036854775808", Ok(i64::MIN)),
        ("9223372036854775808", Err(OutOfRange)),
        ("\"9999-12-31T23:59:59Z\"", Err(OutOfRange)),
    ] {
        assert_eq!(read(&instant(Nanosecond), JsonOptions::default(), text), expected, "{text}");
    }
    let error = value(&instant(Nanosecond), "\"9999-12-31T23:59:59Z\"").unwrap_err();
    assert_eq!(
        error.expected(),
        "a time from -9223372036854775808 to 9223372036854775807 nanoseconds since 1970-01-01T00:00:00Z"
    );
}

#[test]
fn numbers_may_count_another_unit() {
    let counting = |epoch_unit| JsonOptions { epoch_unit, ..JsonOptions::default() };
    for (epoch, unit, text, expected) in [
        (EpochUnit::Seconds, Millisecond, "1711994340", Ok(1_711_994_340_000)),
        (EpochUnit::Seconds, Millisecond, "1711994340.072", Ok(1_711_994_340_072)),
        (EpochUnit::Seconds, Millisecond, "1.711994340072e9", Ok(1_711_994_340_072)),
        (EpochUnit::Seconds, Millisecond, "1711994340.0722", Err(Inexact)),
        (EpochUnit::Millis, Second, "1711994340000", Ok(1_711_994_340)),
        (EpochUnit::Millis, Second, "1711994340001", Err(Inexact)),
        (EpochUnit::Millis, Nanosecond, "-1", Ok(-1_000_000)),
        (EpochUnit::Micros, Microsecond, "7", Ok(7)),
        (EpochUnit::Nanos, Millisecond, "1711994340072000000", Ok(1_711_994_340_072)),
        (EpochUnit::Seconds, Nanosecond, "9223372037", Err(OutOfRange)),
    ] {
        assert_eq!(read(&instant(unit), counting(epoch), text), expected, "{text} {epoch}");
    }
    let floor = JsonOptions { truncate_time: true, ..counting(EpochUnit::Nanos) };
    assert_eq!(read(&instant(Millisecond), floor, "-1"), Ok(-1));
    // Texts are not touched.
    assert_eq!(read(&instant(Second), counting(EpochUnit::Nanos), "\"1970-01-01T00:00:01Z\""), Ok(1));
}

#[test]
fn the_zone_option_decides_where_text_and_column_do_not_agree() {
    let shanghai = || zone("Asia/Shanghai");
    let eight_hours = 8 * 3600;
    for (text, data_type, expected) in [
        ("\"1970-01-02T00:00:00\"", instant(Second), 86_400 - eight_hours),
        ("\"1970-01-02\"", instant(Second), 86_400 - eight_hours),
        ("\"1970-01-02T00:00:00Z\"", instant(Second), 86_400),
        ("\"1970-01-02T00:00:00-01:00\"", instant(Second), 90_000),
        ("86400", instant(Second), 86_400),
        ("\"1970-01-02T00:00:00\"", wall(Second), 86_400),
        ("\"1970-01-02T00:00:00Z\"", wall(Second), 86_400 + eight_hours),
        ("\"1970-01-02T08:00:00+08:00\"", wall(Second), 86_400 + eight_hours),
        ("86400", wall(Second), 86_400 + eight_hours),
    ] {
        assert_eq!(read(&data_type, shanghai(), text), Ok(expected), "{text} as {data_type}");
    }
    assert_eq!(read(&wall(Millisecond), shanghai(), "-1"), Ok(eight_hours * 1000 - 1));
    assert_eq!(read(&wall(Nanosecond), shanghai(), "9223372036854775807"), Err(OutOfRange));
}

#[test]
fn local_times_that_are_skipped_or_shown_twice() {
    let chicago = || zone("America/Chicago");
    // 2026-03-08: 01:59:59 -06:00 is followed by 03:00:00 -05:00, which is 1,772,956,800 s.
    let read = |data_type: DataType, text: &str| read(&data_type, chicago(), text);
    assert_eq!(read(instant(Second), "\"2026-03-08T01:59:59\""), Ok(1_772_956_799));
    assert_eq!(read(instant(Second), "\"2026-03-08T03:00:00\""), Ok(1_772_956_800));
    for text in ["\"2026-03-08T02:00:00\"", "\"2026-03-08T02:30:00.5\"", "\"2026-03-08T02:59:59\""] {
        assert_eq!(read(instant(Nanosecond), text), Err(InvalidText), "{text}");
        // On a wall it is just what stands there, and with an offset there is no doubt.
        assert!(read(wall(Nanosecond), text).is_ok(), "{text}");
    }
    assert_eq!(read(instant(Second), "\"2026-03-08T02:00:00-06:00\""), Ok(1_772_956_800));
    let error = value_with(&instant(Second), chicago(), "\"2026-03-08T02:30:00\"").unwrap_err();
    assert_eq!(error.expected(), "a local time that the clocks of America/Chicago do not skip");
    // 2026-11-01: 01:30 comes at -05:00 first, then again at -06:00.
    assert_eq!(read(instant(Second), "\"2026-11-01T01:30:00\""), Ok(1_793_514_600));
    assert_eq!(read(instant(Second), "\"2026-11-01T01:30:00-05:00\""), Ok(1_793_514_600));
    assert_eq!(
        read(wall(Second), "\"2026-11-01T07:30:00Z\""),
        read(wall(Second), "\"2026-11-01T06:30:00Z\"")
    );
}

#[test]
fn the_zone_of_the_column_is_kept() {
    let array = value(&DataType::Timestamp(Millisecond, Some("+05:30".into())), "0").unwrap();
    assert_eq!(array.data_type(), &DataType::Timestamp(Millisecond, Some("+05:30".into())));
    let types = [DataType::Time32(Second), DataType::Time32(Millisecond), DataType::Time64(Nanosecond)];
    for data_type in types {
        assert_eq!(value(&data_type, "0").unwrap().data_type(), &data_type);
    }
    let _: (Int32Type, Int64Type);
}
