//! Dates and times: ranges, precision, zones.

use std::sync::Arc;

use connector_core::arrow::{
    array::{
        Array, ArrayRef, Date32Array, Date64Array, Int64Array, Time32SecondArray, Time64NanosecondArray,
        TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
    },
    datatypes::{DataType, TimeUnit},
};
use jiff::{
    SignedDuration, civil,
    tz::{AmbiguousOffset, TimeZone},
};
use proptest::prelude::*;

use super::{
    super::{EncodeError, EncodeRules},
    data_of, data_with, encode_one, refused,
};

fn strict() -> EncodeRules {
    EncodeRules::default()
}

fn floor() -> EncodeRules {
    EncodeRules { round_down: true, ..strict() }
}

fn clamp() -> EncodeRules {
    EncodeRules { clamp_times: true, ..strict() }
}

fn days(text: &str) -> i32 {
    let date: civil::Date = text.parse().unwrap();
    let since = date.since((jiff::Unit::Day, civil::date(1970, 1, 1))).unwrap();
    since.get_days()
}

fn i64s(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
}

fn u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
}

#[test]
fn one_instant_in_every_unit() {
    // B15: an instant with nanoseconds and one before 1970, into every precision.
    let nanoseconds = [1_712_030_340_072_229_523i64, -1_000_000];
    type Make = fn(Vec<i64>) -> ArrayRef;
    let units: [(i64, Make); 3] = [
        (1_000_000, |v| Arc::new(TimestampMillisecondArray::from(v).with_timezone("UTC"))),
        (1_000, |v| Arc::new(TimestampMicrosecondArray::from(v).with_timezone("+00:00"))),
        (1, |v| Arc::new(TimestampNanosecondArray::from(v).with_timezone("Asia/Tokyo"))),
    ];
    for (unit, array) in units {
        let values: Vec<i64> = nanoseconds.iter().map(|ns| ns.div_euclid(unit)).collect();
        for digits in [0u32, 3, 6, 9] {
            let tick = 10i64.pow(9 - digits);
            // Toward the past, also before 1970.
            let expected: Vec<i64> = values.iter().map(|v| (v * unit).div_euclid(tick)).collect();
            let ty = format!("DateTime64({digits})");
            assert_eq!(i64s(&data_with(array(values.clone()), &ty, &floor())), expected, "{unit} {ty}");
            let exact = values.iter().all(|v| v * unit % tick == 0);
            assert_eq!(encode_one(array(values.clone()), &ty, &strict()).is_ok(), exact, "{unit} {ty}");
        }
        let first = array(values[..1].to_vec());
        assert_eq!(u32s(&data_with(first, "DateTime", &floor())), [1_712_030_340]);
    }
    let (row, shown, reason) =
        refused(TimestampMillisecondArray::from(vec![0, 1]).with_timezone("UTC"), "DateTime", &strict());
    assert_eq!(
        (row, shown.as_str(), reason.as_str()),
        (1, "1970-01-01T00:00:00.001Z", "it is finer than the type's precision")
    );
    let before = TimestampMillisecondArray::from(vec![-1]).with_timezone("UTC");
    assert!(refused(before, "DateTime", &floor()).2.contains("1970-01-01T00:00:00Z to 2106-02-07T06:28:15Z"));
}

#[test]
fn dates_at_the_ends_of_their_ranges() {
    // B20
    let at = |date: &str| Date32Array::from(vec![days(date)]);
    let midnight = |date: &str| TimestampSecondArray::from(vec![i64::from(days(date)) * 86_400]);
    for (date, in_date, in_date32, in_time, in_time64) in [
        ("0000-01-01", false, false, false, false),
        ("0001-01-01", false, false, false, false),
        ("0099-01-01", false, false, false, false),
        ("1899-12-31", false, false, false, false),
        ("1900-01-01", false, true, false, true),
        ("1969-12-31", false, true, false, true),
        ("1970-01-01", true, true, true, true),
        ("2106-02-07", true, true, true, true),
        ("2106-02-08", true, true, false, true),
        ("2149-06-06", true, true, false, true),
        ("2149-06-07", false, true, false, true),
        ("2299-12-31", false, true, false, true),
        ("2300-01-01", false, false, false, false),
        ("9999-12-31", false, false, false, false),
    ] {
        for (ty, fits) in
            [("Date", in_date), ("Date32", in_date32), ("DateTime", in_time), ("DateTime64(3)", in_time64)]
        {
            let arrays: [ArrayRef; 3] = [
                Arc::new(at(date)),
                Arc::new(midnight(date)),
                Arc::new(Date64Array::from(vec![i64::from(days(date)) * 86_400_000])),
            ];
            for array in arrays {
                let outcome = encode_one(Arc::clone(&array), ty, &strict());
                assert_eq!(outcome.is_ok(), fits, "{date} as {} in {ty}", array.data_type());
                if let Err(EncodeError::BadCell(cell)) = outcome {
                    assert!(
                        cell.value.starts_with(date) && cell.reason.starts_with("the type holds 19"),
                        "{cell}"
                    );
                    assert_eq!(cell.column, "c");
                }
            }
        }
    }
    assert_eq!(data_of(at("2149-06-06"), "Date"), [0xff, 0xff]);
    assert_eq!(data_with(Arc::new(at("0001-01-01")), "Date", &clamp()), [0, 0]);
    assert_eq!(data_with(Arc::new(at("9999-12-31")), "Date", &clamp()), [0xff, 0xff]);
    assert_eq!(data_with(Arc::new(at("9999-12-31")), "Date32", &clamp()), 120_529i32.to_le_bytes());
    assert_eq!(data_with(Arc::new(at("9999-12-31")), "DateTime", &clamp()), [0xff; 4]);
    assert_eq!(data_with(Arc::new(at("1000-01-01")), "Nullable(DateTime)", &clamp()), [0; 5]);
    let last = "2299-12-31T23:59:59.999Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(i64s(&data_with(Arc::new(at("9999-12-31")), "DateTime64(3)", &clamp())), [last]);
    // What is far outside of any calendar, and overflows on the way.
    let far = TimestampSecondArray::from(vec![i64::MAX, i64::MIN]);
    assert_eq!(
        i64s(&data_with(Arc::new(far.clone()), "DateTime64(9)", &clamp())),
        [i64::MAX, -2_208_988_800_000_000_000]
    );
    let far_in_zone = EncodeRules { time_zone: Some(TimeZone::get("Asia/Tokyo").unwrap()), ..clamp() };
    assert_eq!(
        data_with(Arc::new(far.clone()), "DateTime", &far_in_zone),
        [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]
    );
    assert!(refused(far, "DateTime64(9)", &strict()).2.contains("2262-04-11T23:47:16.854775807Z"));
    let nanosecond = "2262-04-12T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second();
    refused(TimestampSecondArray::from(vec![nanosecond]), "DateTime64(9)", &strict());
    data_of(TimestampSecondArray::from(vec![nanosecond]), "DateTime64(8)");
}

#[test]
fn a_time_of_day_does_not_fit_into_a_date() {
    let noon = TimestampSecondArray::from(vec![86_400 + 43_200]);
    assert_eq!(refused(noon.clone(), "Date", &strict()).2, "it is not at midnight");
    assert_eq!(data_with(Arc::new(noon), "Date", &floor()), [1, 0]);
    let before = TimestampSecondArray::from(vec![-1]);
    assert_eq!(data_with(Arc::new(before), "Date32", &floor()), [0xff; 4]);
    // The date is that of the timestamp's own zone.
    let evening = TimestampSecondArray::from(vec![16 * 3600]);
    assert_eq!(
        data_with(Arc::new(evening.clone().with_timezone("Asia/Shanghai")), "Date", &strict()),
        [1, 0]
    );
    assert_eq!(data_with(Arc::new(evening.clone().with_timezone("+08:00")), "Date", &strict()), [1, 0]);
    assert_eq!(data_with(Arc::new(evening.clone().with_timezone("-0530")), "Date", &floor()), [0, 0]);
    let error = encode_one(Arc::new(evening.with_timezone("Nowhere/City")), "Date", &floor()).unwrap_err();
    assert!(error.to_string().contains("`Nowhere/City`"), "{error}");
}

#[test]
fn zones_of_columns_change_nothing() {
    // B16: an instant is the same number whatever the column's zone.
    let instant = TimestampSecondArray::from(vec![1_700_000_000]).with_timezone("+08:00");
    for ty in ["DateTime", "DateTime('UTC')", "DateTime('Asia/Singapore')"] {
        assert_eq!(u32s(&data_of(instant.clone(), ty)), [1_700_000_000]);
    }
    // Nor does a rule that is about times without a zone.
    let rules = EncodeRules {
        time_zone: Some(TimeZone::get("Asia/Shanghai").unwrap()),
        timestamp_offset: Some(SignedDuration::from_hours(-8)),
        ..strict()
    };
    assert_eq!(u32s(&data_with(Arc::new(instant), "DateTime", &rules)), [1_700_000_000]);
    assert_eq!(data_with(Arc::new(Date32Array::from(vec![1])), "Date", &rules), [1, 0]);
}

#[test]
fn times_without_a_zone_are_read_in_one() {
    let local = TimestampMillisecondArray::from(vec![1_700_000_000_500]);
    let at = |rules: &EncodeRules| i64s(&data_with(Arc::new(local.clone()), "DateTime64(3)", rules));
    assert_eq!(at(&strict()), [1_700_000_000_500]);
    let hours = 3_600_000;
    let shanghai = EncodeRules { time_zone: Some(TimeZone::get("Asia/Shanghai").unwrap()), ..strict() };
    assert_eq!(at(&shanghai), [1_700_000_000_500 - 8 * hours]);
    let shifted = EncodeRules { timestamp_offset: Some(SignedDuration::from_hours(-8)), ..strict() };
    assert_eq!(at(&shifted), [1_700_000_000_500 - 8 * hours]);
    let both = EncodeRules { time_zone: shanghai.time_zone.clone(), ..shifted.clone() };
    assert_eq!(at(&both), [1_700_000_000_500 - 16 * hours]);
    // The offset moves dates and numbers as well, the zone only what becomes an instant.
    let midnight = TimestampSecondArray::from(vec![8 * 3600]);
    assert_eq!(data_with(Arc::new(midnight.clone()), "Date", &shifted), [0, 0]);
    assert_eq!(i64s(&data_with(Arc::new(midnight), "Int64", &both)), [-8 * 3600]);
    let day = Date32Array::from(vec![1]);
    assert_eq!(u32s(&data_with(Arc::new(day), "DateTime", &shanghai)), [16 * 3600]);

    let fine = EncodeRules { timestamp_offset: Some(SignedDuration::from_millis(1)), ..strict() };
    let error = encode_one(Arc::new(TimestampSecondArray::from(vec![1])), "DateTime", &fine).unwrap_err();
    assert!(error.to_string().contains("finer than the unit"), "{error}");
}

#[test]
fn local_times_that_clocks_skip_or_repeat() {
    // B16: the hour from 02:00 does not exist in Chicago on 2026-03-08; that from 01:00 comes twice on 2026-11-01.
    let chicago = EncodeRules { time_zone: Some(TimeZone::get("America/Chicago").unwrap()), ..strict() };
    let second = |text: &str| {
        let local: civil::DateTime = text.parse().unwrap();
        TimeZone::UTC.to_timestamp(local).unwrap().as_second()
    };
    let local = |text: &str| TimestampSecondArray::from(vec![second(text)]);
    for skipped in ["2026-03-08T02:00:00", "2026-03-08T02:59:59"] {
        let (row, shown, reason) = refused(local(skipped), "DateTime", &chicago);
        assert_eq!((row, shown.as_str()), (0, skipped));
        assert_eq!(reason, "the local time does not exist in the time zone America/Chicago");
    }
    for (text, offset) in [
        ("2026-03-08T01:59:59", 6),
        ("2026-03-08T03:00:00", 5),
        ("2026-11-01T00:59:59", 5),
        ("2026-11-01T01:00:00", 5),
        ("2026-11-01T01:59:59", 5),
        ("2026-11-01T02:00:00", 6),
    ] {
        let instant = u32s(&data_with(Arc::new(local(text)), "DateTime", &chicago))[0];
        assert_eq!(i64::from(instant), second(text) + offset * 3600, "{text}");
    }
}

#[test]
fn instants_as_numbers() {
    let times = TimestampMillisecondArray::from(vec![-5, 7]).with_timezone("UTC");
    assert_eq!(i64s(&data_of(times.clone(), "Int64")), [-5, 7]);
    assert_eq!(refused(times, "UInt64", &strict()).0, 0);
    assert_eq!(data_of(Date32Array::from(vec![-1]), "Int32"), [0xff; 4]);
    assert_eq!(i64s(&data_of(Date64Array::from(vec![-86_400_000]), "Int64")), [-86_400_000]);
    let far = TimestampSecondArray::from(vec![1 << 40]).with_timezone("UTC");
    assert!(refused(far, "Int32", &clamp()).2.contains("outside -2147483648 to 2147483647"));
    assert!(encode_one(Arc::new(Int64Array::from(vec![1])), "DateTime", &strict()).is_err());
}

#[test]
fn times_of_day() {
    assert_eq!(i64s(&data_of(Time32SecondArray::from(vec![86_399]), "Time(3)")), [86_399_000]);
    let fine = Time64NanosecondArray::from(vec![1_000_000_001]);
    assert_eq!(refused(fine.clone(), "Time(6)", &strict()).1, "00:00:01.000000001");
    assert_eq!(i64s(&data_with(Arc::new(fine.clone()), "Time64(6)", &floor())), [1_000_000]);
    assert_eq!(data_with(Arc::new(fine), "Time", &floor()), [1, 0, 0, 0]);
    assert!(refused(Time32SecondArray::from(vec![86_400]), "Time(0)", &strict()).2.contains("one day"));
    assert!(refused(Time32SecondArray::from(vec![-1]), "Time(0)", &strict()).2.contains("one day"));
}

proptest! {
    /// What one look-up of a zone is remembered for gives the same as looking up every value.
    #[test]
    fn remembered_offsets_are_right(
        zone in prop::sample::select(vec!["America/Chicago", "Asia/Shanghai", "Europe/London", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "UTC"]),
        start in -2_000_000_000i64..4_000_000_000,
        steps in prop::collection::vec(-200_000i64..200_000, 1..200),
    ) {
        let zone = TimeZone::get(zone).unwrap();
        let mut at = start;
        let seconds: Vec<i64> = steps.iter().map(|step| { at += step; at }).collect();
        let expected: Vec<Option<i64>> = seconds.iter().map(|second| {
            let local = TimeZone::UTC.to_datetime(jiff::Timestamp::from_second(*second).unwrap());
            let found = zone.to_ambiguous_timestamp(local);
            if matches!(found.offset(), AmbiguousOffset::Gap { .. }) { None } else { Some(found.earlier().unwrap().as_second()) }
        }).collect();
        let rules = EncodeRules { time_zone: Some(zone.clone()), ..strict() };
        let real: Vec<i64> = seconds.iter().zip(&expected).filter(|(_, e)| e.is_some()).map(|(s, _)| *s).collect();
        let expected: Vec<i64> = expected.into_iter().flatten().collect();
        if !real.is_empty() {
            prop_assert_eq!(real.len() == seconds.len(), encode_one(Arc::new(TimestampSecondArray::from(seconds)), "Int64", &rules).is_ok());
            let block = encode_one(Arc::new(TimestampSecondArray::from(real.clone())), "Int64", &rules).unwrap();
            prop_assert_eq!(i64s(&block[block.len() - 8 * real.len()..]), expected.clone());
        }
        // And back: dates in a zone.
        let dates: Vec<i64> = expected.iter().map(|second| {
            let date = zone.to_datetime(jiff::Timestamp::from_second(*second).unwrap()).date();
            i64::from(date.since((jiff::Unit::Day, civil::date(1970, 1, 1))).unwrap().get_days())
        }).collect();
        let name = zone.iana_name().unwrap();
        let instants = TimestampSecondArray::from(expected).with_timezone(name);
        prop_assume!(!instants.is_empty());
        let block = encode_one(Arc::new(instants), "Date32", &floor()).unwrap();
        let found: Vec<i64> = block[block.len() - 4 * dates.len()..].as_chunks().0.iter().map(|b| i32::from_le_bytes(*b).into()).collect();
        prop_assert_eq!(found, dates);
    }
}

#[test]
fn every_unit_is_read_as_it_is() {
    for (digits, unit) in [
        (0, TimeUnit::Second),
        (3, TimeUnit::Millisecond),
        (6, TimeUnit::Microsecond),
        (9, TimeUnit::Nanosecond),
    ] {
        let bytes = format!("\x01\x01\x01c\x0dDateTime64({digits})").into_bytes();
        let array = super::read_one(&[&bytes[..], &5i64.to_le_bytes()].concat());
        assert_eq!(array.data_type(), &DataType::Timestamp(unit, Some("UTC".into())));
    }
}
