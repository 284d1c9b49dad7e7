//! Reports about other readers of JSON, retold as tests.

use connector_core::arrow::{
    array::{Array, AsArray},
    datatypes::{
        Decimal128Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType, UInt64Type,
    },
};
use jiff::tz::TimeZone;

use super::{
    super::{DuplicateKeys, EpochUnit},
    JsonErrorKind::*,
    *,
};

/// `{"status":400,"status":200}` must not depend on who reads it.
#[test]
fn duplicate_keys_follow_one_rule() {
    let status = schema([("status", DataType::Int64, true)]);
    let record = r#"{"status":400,"status":200}"#;
    let error = decoder(&status, JsonOptions::default()).decode(record.as_bytes()).unwrap_err();
    assert_eq!((error.kind(), error.path(), error.offset()), (DuplicateKey, "status", 14));
    let last = JsonOptions { duplicate_keys: DuplicateKeys::Last, ..JsonOptions::default() };
    assert_eq!(batch(&status, last, &[record]).column(0).as_primitive::<Int64Type>().value(0), 200);
    let any_case = JsonOptions { case_insensitive: true, ..JsonOptions::default() };
    let error = decoder(&status, any_case).decode(br#"{"status":400,"Status":200}"#).unwrap_err();
    assert_eq!(error.kind(), DuplicateKey);
}

/// Bare NaN and numbers without end fail one row, not the batch.
#[test]
fn numbers_that_json_does_not_have() {
    let schema = schema([("f", DataType::Float64, true)]);
    let mut decoder = decoder(&schema, JsonOptions::default());
    for (record, kind) in [
        (r#"{"f":NaN}"#, Syntax),
        (r#"{"f":Infinity}"#, Syntax),
        (r#"{"f":-Infinity}"#, Syntax),
        (r#"{"f":"NaN"}"#, InvalidText),
        (r#"{"f":1e999}"#, OutOfRange),
    ] {
        decoder.decode(br#"{"f":1.5}"#).unwrap();
        let error = decoder.decode(record.as_bytes()).expect_err(record);
        assert_eq!((error.kind(), error.path()), (kind, "f"), "{record}");
    }
    let batch = decoder.finish().unwrap();
    assert_eq!(batch.column(0).as_primitive::<Float64Type>().values().as_ref(), [1.5; 5]);
}

/// A millisecond value never lands in a nanosecond column as 1970, and nothing rounds toward zero.
#[test]
fn one_instant_in_every_scale() {
    let nanos = 1_712_030_340_072_229_523_i64;
    let before = -1_000_000_i64; // 1969-12-31T23:59:59.999
    let at = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let floor = |epoch_unit| JsonOptions { truncate_time: true, epoch_unit, ..JsonOptions::default() };
    let read = |unit, options: JsonOptions, text: &str| {
        let array = value_with(&at(unit), options, text).map_err(|e| e.kind())?;
        Ok(match unit {
            TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(0),
            TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(0),
            TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(0),
            TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(0),
        })
    };
    for (unit, per_unit) in [
        (TimeUnit::Second, 1_000_000_000),
        (TimeUnit::Millisecond, 1_000_000),
        (TimeUnit::Microsecond, 1_000),
        (TimeUnit::Nanosecond, 1),
    ] {
        for (value, iso) in [(nanos, "2024-04-02T03:59:00.072229523Z"), (before, "1969-12-31T23:59:59.999Z")]
        {
            let iso = format!("\"{iso}\"");
            let expected = value.div_euclid(per_unit);
            assert_eq!(read(unit, floor(EpochUnit::Column), &iso), Ok(expected), "{iso} {unit:?}");
            if value % per_unit == 0 {
                assert_eq!(read(unit, JsonOptions::default(), &iso), Ok(expected));
            } else {
                assert_eq!(read(unit, JsonOptions::default(), &iso), Err(Inexact), "{iso} {unit:?}");
            }
            for (epoch, digits) in
                [(EpochUnit::Millis, 1_000_000), (EpochUnit::Micros, 1_000), (EpochUnit::Nanos, 1)]
            {
                // The producer cut the value to its unit; the column cuts it once more at most.
                let sent = value.div_euclid(digits);
                let got = read(unit, floor(epoch), &sent.to_string());
                assert_eq!(got, Ok((sent * digits).div_euclid(per_unit)), "{sent} {epoch} {unit:?}");
            }
        }
    }
}

/// Texts and numbers mean the same instant; zones come from the value or one option, never the machine.
#[test]
fn zones() {
    let in_zone =
        |name: &str| JsonOptions { time_zone: TimeZone::get(name).unwrap(), ..JsonOptions::default() };
    let read = |zone: Option<&str>, options, text: &str| {
        let array = value_with(&DataType::Timestamp(TimeUnit::Second, zone.map(Into::into)), options, text);
        array.map(|array| array.as_primitive::<TimestampSecondType>().value(0)).map_err(|e| e.kind())
    };
    // The zone of the column says how to show an instant; it does not move it.
    for zone in [Some("UTC"), Some("Asia/Singapore"), Some("America/Chicago")] {
        for text in ["\"2026-01-01T00:00:00Z\"", "\"2026-01-01T08:00:00+08:00\"", "1767225600"] {
            assert_eq!(read(zone, JsonOptions::default(), text), Ok(1_767_225_600), "{text} {zone:?}");
        }
        assert_eq!(read(zone, in_zone("Asia/Shanghai"), "\"2026-01-01T08:00:00\""), Ok(1_767_225_600));
    }
    assert_eq!(read(None, in_zone("Asia/Shanghai"), "\"2026-01-01T00:00:00Z\""), Ok(1_767_225_600 + 28_800));
    assert_eq!(read(Some("UTC"), in_zone("America/Chicago"), "\"2026-03-08T02:00:00\""), Err(InvalidText));
}

/// A null stays a null, and where there can be none the row is refused and not the batch.
#[test]
fn nulls_and_lists() {
    let list = |nullable| DataType::List(Arc::new(Field::new("item", DataType::Utf8, nullable)));
    let schema = schema([
        ("t", DataType::Decimal128(10, 4), false),
        ("n", DataType::Decimal128(10, 4), true),
        ("l", list(false), false),
        ("ln", list(true), true),
    ]);
    let mut decoder = decoder(&schema, JsonOptions::default());
    for (record, refused) in [
        (r#"{"t":1,"n":null,"l":[],"ln":null}"#, None),
        (r#"{"t":null,"n":1,"l":[],"ln":[]}"#, Some("t")),
        (r#"{"n":1,"l":[],"ln":[]}"#, Some("t")),
        (r#"{"t":1,"n":1,"l":null,"ln":[]}"#, Some("l")),
        (r#"{"t":1,"n":1,"ln":[]}"#, Some("l")),
        (r#"{"t":1,"n":1,"l":["a",null],"ln":[]}"#, Some("l[1]")),
        (r#"{"t":1,"l":["a"],"ln":[null,"b",null]}"#, None),
        (r#"{"t":0,"n":0,"l":[""],"ln":[]}"#, None),
    ] {
        match (decoder.decode(record.as_bytes()), refused) {
            (Ok(()), None) => {}
            (Err(error), Some(path)) => {
                assert_eq!((error.kind(), error.path()), (MissingValue, path), "{record}")
            }
            (result, _) => panic!("{record}: {result:?}"),
        }
    }
    let batch = decoder.finish().unwrap();
    let n = batch.column(1).as_primitive::<Decimal128Type>();
    assert_eq!(n.iter().collect::<Vec<_>>(), [None, None, Some(0)]);
    let ln = batch.column(3).as_list::<i32>();
    assert_eq!((ln.is_null(0), ln.offsets().as_ref()), (true, &[0, 0, 3, 3][..]));
    assert_eq!(ln.values().null_count(), 2);
    assert_eq!(batch.column(0).nulls(), None);
}

/// Unsigned 64-bit numbers that come as -1 are 18446744073709551615 only where an option says so.
#[test]
fn unsigned_numbers_sent_as_signed_ones() {
    assert_eq!(refusal(&DataType::UInt64, "-1"), OutOfRange);
    let on = JsonOptions { reinterpret_unsigned: true, ..JsonOptions::default() };
    let array = value_with(&DataType::UInt64, on, "-1").unwrap();
    assert_eq!(array.as_primitive::<UInt64Type>().value(0), 18_446_744_073_709_551_615);
}

/// Numbers beyond 2^53 keep their last digit, as numbers and as texts.
#[test]
fn large_numbers_keep_every_digit() {
    for text in ["9007199254740993", "\"9007199254740993\"", "9007199254740993.0", "\"9.007199254740993e15\""]
    {
        let array = value(&DataType::Int64, text).unwrap();
        assert_eq!(array.as_primitive::<Int64Type>().value(0), 9_007_199_254_740_993, "{text}");
        let array = value(&DataType::Decimal128(38, 0), text).unwrap();
        assert_eq!(array.as_primitive::<Decimal128Type>().value(0), 9_007_199_254_740_993, "{text}");
    }
}
