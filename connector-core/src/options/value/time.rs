//! Durations in Flink's spelling and as plain numbers, points in time, and time zones.

use std::{
    cmp::Ordering,
    fmt,
    time::{Duration, SystemTime},
};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use super::{
    Codec, IntoValue, Invalid, Plain, into_by_parsing, into_itself, size::number_and_unit, whole_number,
};
use crate::options::{RawValue, suggest};

/// A [`Duration`] as a plain number of milliseconds, where the option's name fixes the unit.
#[derive(Debug, Clone, Copy)]
pub struct Millis;

/// A [`Duration`] as a plain number of seconds, where the option's name fixes the unit.
#[derive(Debug, Clone, Copy)]
pub struct Seconds;

/// Nanoseconds of each unit with its names, largest first. The first name is the one we write.
const UNITS: [(u64, &[&str]); 7] = [
    (86_400_000_000_000, &["d", "day", "days"]),
    (3_600_000_000_000, &["h", "hour", "hours"]),
    (60_000_000_000, &["min", "m", "mins", "minute", "minutes"]),
    (1_000_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (1_000_000, &["ms", "milli", "millis", "millisecond", "milliseconds"]),
    (1_000, &["us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"]),
    (1, &["ns", "nano", "nanos", "nanosecond", "nanoseconds"]),
];

/// Reads a duration in Flink's spelling: `1s`, `200 ms`, `1day`, `7d`, `1 min`, `2h`, `10us`, `5ns`.
/// Units ignore case. A bare number is refused, because readers disagree about its unit.
///
/// # Errors
/// Says what is wrong: no number, no unit, an unknown unit, a fraction, or too large.
pub fn parse_duration(text: &str) -> Result<Duration, Invalid> {
    if text.trim_start().starts_with('-') {
        return Err(Invalid::new("is negative"));
    }
    let (number, unit) = number_and_unit(text)
        .ok_or_else(|| Invalid::new("is not a duration; write a whole number and a unit, such as 200ms"))?;
    if unit.is_empty() {
        return Err(Invalid::new("has no unit; write one, such as 10s or 200ms"));
    }
    if unit.starts_with(['.', ',']) {
        return Err(Invalid::new("has a fraction; write a whole number of a smaller unit, such as 1500ms"));
    }
    let unit = unit.to_lowercase();
    let nanos = UNITS
        .iter()
        .find(|(_, names)| names.contains(&unit.as_str()))
        .map(|(nanos, _)| *nanos)
        .ok_or_else(|| Invalid::new("has an unknown unit; the units are d, h, min, s, ms, us and ns"))?;
    number
        .parse::<u128>()
        .ok()
        .and_then(|number| {
            let total = number.checked_mul(u128::from(nanos))?;
            let seconds = u64::try_from(total / 1_000_000_000).ok()?;
            let rest = u32::try_from(total % 1_000_000_000).ok()?;
            Some(Duration::new(seconds, rest))
        })
        .ok_or_else(|| Invalid::new("is too large"))
}

/// Reads a duration as [`parse_duration`] does, with an optional sign in front: `-8h`.
///
/// # Errors
/// As [`parse_duration`].
pub fn parse_signed_duration(text: &str) -> Result<SignedDuration, Invalid> {
    let text = text.trim();
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.starts_with('-') {
        return Err(Invalid::new("has two signs"));
    }
    let duration =
        SignedDuration::try_from(parse_duration(rest)?).map_err(|_| Invalid::new("is too large"))?;
    Ok(if negative { -duration } else { duration })
}

/// Writes a duration with the largest unit that holds it exactly: `1min`, `90s`, `200ms`; zero is `0ms`.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match UNITS.iter().find(|(unit, _)| nanos != 0 && nanos.is_multiple_of(u128::from(*unit))) {
        Some((unit, names)) => format!("{}{}", nanos / u128::from(*unit), names[0]),
        None => "0ms".to_owned(),
    }
}

impl Codec<Duration> for Plain {
    const TYPE: &'static str = "duration";

    fn from_raw(raw: RawValue) -> Result<Duration, Invalid> {
        parse_duration(&raw.into_text()?)
    }

    fn to_raw(value: &Duration) -> RawValue {
        RawValue::text(format_duration(*value))
    }

    fn compare(left: &Duration, right: &Duration) -> Option<Ordering> {
        Some(left.cmp(right))
    }
}

impl Codec<SignedDuration> for Plain {
    const TYPE: &'static str = "duration";

    fn from_raw(raw: RawValue) -> Result<SignedDuration, Invalid> {
        parse_signed_duration(&raw.into_text()?)
    }

    fn to_raw(value: &SignedDuration) -> RawValue {
        let sign = if value.is_negative() { "-" } else { "" };
        RawValue::text(format!("{sign}{}", format_duration(value.unsigned_abs())))
    }

    fn compare(left: &SignedDuration, right: &SignedDuration) -> Option<Ordering> {
        Some(left.cmp(right))
    }
}

macro_rules! fixed_unit {
    ($codec:ident, $name:literal, $from:path, $units:expr) => {
        impl Codec<Duration> for $codec {
            const TYPE: &'static str = $name;

            fn from_raw(raw: RawValue) -> Result<Duration, Invalid> {
                let number = whole_number(raw).map_err(|_| {
                    Invalid::new(concat!("is not a whole number of ", $name, "; write it without a unit"))
                })?;
                match number.map(u64::try_from) {
                    Some(Ok(number)) => Ok($from(number)),
                    Some(Err(_)) if number < Some(0) => Err(Invalid::new("is negative")),
                    _ => Err(Invalid::new("is too large")),
                }
            }

            fn to_raw(value: &Duration) -> RawValue {
                RawValue::Int($units(value))
            }

            fn compare(left: &Duration, right: &Duration) -> Option<Ordering> {
                Some(left.cmp(right))
            }
        }
    };
}
fixed_unit!(Millis, "millis", Duration::from_millis, |d: &Duration| i128::try_from(d.as_millis())
    .unwrap_or(i128::MAX));
fixed_unit!(Seconds, "seconds", Duration::from_secs, |d: &Duration| i128::from(d.as_secs()));
into_itself!(Duration, SignedDuration, TimeZone, Epoch);

impl IntoValue<SignedDuration> for Duration {
    fn into_value(self) -> Result<SignedDuration, Invalid> {
        SignedDuration::try_from(self).map_err(|_| Invalid::new("is too large"))
    }
}

/// A point in time: 10 digits are seconds since 1970, 13 digits are milliseconds, `-1` is unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(Option<i64>);

impl Epoch {
    /// No point in time.
    pub const UNSET: Self = Self(None);
    /// The last millisecond that 13 digits hold, in the year 2286.
    const LAST: i64 = 9_999_999_999_999;

    /// Milliseconds since 1970 in UTC; `None` when unset.
    pub fn millis(self) -> Option<i64> {
        self.0
    }

    /// The point in time; `None` when unset.
    pub fn timestamp(self) -> Option<Timestamp> {
        self.0.and_then(|millis| Timestamp::from_millisecond(millis).ok())
    }

    /// True when no point in time is given.
    pub fn is_unset(self) -> bool {
        self.0.is_none()
    }

    fn from_millis(millis: i64) -> Result<Self, Invalid> {
        if (0..=Self::LAST).contains(&millis) {
            Ok(Self(Some(millis)))
        } else {
            Err(Invalid::new("is not between 1970 and 2286"))
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(millis) => write!(f, "{millis:013}"),
            None => f.write_str("-1"),
        }
    }
}

impl Codec<Epoch> for Plain {
    const TYPE: &'static str = "epoch";

    fn from_raw(raw: RawValue) -> Result<Epoch, Invalid> {
        let text = raw.into_text()?;
        let digits = text.trim();
        if digits == "-1" {
            return Ok(Epoch::UNSET);
        }
        let unit = match digits.len() {
            10 => 1_000,
            13 => 1,
            _ => 0,
        };
        match digits.parse::<i64>() {
            Ok(number) if unit != 0 && digits.bytes().all(|b| b.is_ascii_digit()) => {
                Epoch::from_millis(number * unit)
            }
            _ => Err(Invalid::new(
                "has neither 10 digits (seconds) nor 13 digits (milliseconds), nor is it -1",
            )),
        }
    }

    fn to_raw(value: &Epoch) -> RawValue {
        RawValue::text(value.to_string())
    }
}

impl IntoValue<Epoch> for Timestamp {
    fn into_value(self) -> Result<Epoch, Invalid> {
        Epoch::from_millis(self.as_millisecond())
    }
}

impl IntoValue<Epoch> for SystemTime {
    fn into_value(self) -> Result<Epoch, Invalid> {
        let timestamp =
            Timestamp::try_from(self).map_err(|_| Invalid::new("is not between 1970 and 2286"))?;
        timestamp.into_value()
    }
}

impl Codec<TimeZone> for Plain {
    const TYPE: &'static str = "iana zone";

    fn from_raw(raw: RawValue) -> Result<TimeZone, Invalid> {
        let text = raw.into_text()?;
        let name = text.trim();
        TimeZone::get(name).map_err(|_| {
            let names: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
            if names.is_empty() {
                return Invalid::new(
                    "cannot be looked up: this system has no time zone database (package tzdata)",
                );
            }
            let hint = suggest::nearest(name, names.iter().map(String::as_str))
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            Invalid::new(format!("is not the name of a time zone, such as Asia/Shanghai or UTC{hint}"))
        })
    }

    fn to_raw(value: &TimeZone) -> RawValue {
        match value.iana_name() {
            Some(name) => RawValue::text(name),
            None => RawValue::text(value.to_offset(Timestamp::UNIX_EPOCH).to_string()),
        }
    }
}
into_by_parsing!(&str => TimeZone, String => TimeZone);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<C: Codec<T>, T>(raw: impl Into<RawValue>) -> Result<T, String> {
        C::from_raw(raw.into()).map_err(|e| e.to_string())
    }

    #[test]
    fn durations_in_every_form() {
        for (text, nanos) in [
            ("1s", 1_000_000_000),
            ("200 ms", 200_000_000),
            ("1day", 86_400_000_000_000),
            ("500ms", 500_000_000),
            ("7d", 7 * 86_400_000_000_000),
            ("1 min", 60_000_000_000),
            ("5 Minutes", 300_000_000_000),
            ("2h", 7_200_000_000_000),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("5ns", 5),
            (" 32 SECONDS ", 32_000_000_000),
            ("0ms", 0),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
        ] {
            assert_eq!(parse_duration(text).map(|d| d.as_nanos()), Ok(nanos), "{text}");
        }
        for (millis, text) in [
            (1_000, "1s"),
            (200, "200ms"),
            (60_000, "1min"),
            (90_000, "90s"),
            (86_400_000, "1d"),
            (0, "0ms"),
            (3_600_000, "1h"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn wrong_durations() {
        for (text, reason) in [
            ("10", "has no unit"),
            ("", "is not a duration"),
            ("s", "is not a duration"),
            ("1.5s", "has a fraction"),
            ("3 fortnights", "unknown unit"),
            ("-8h", "is negative"),
            ("99999999999999999999s", "is too large"),
            ("18446744073709551615d", "is too large"),
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(read::<Plain, Duration>(1000).unwrap_err().contains("has no unit"));
    }

    #[test]
    fn signed_durations() {
        for (text, seconds) in [("-8h", -28_800), ("- 8 h", -28_800), ("+1s", 1), ("90min", 5_400)] {
            assert_eq!(parse_signed_duration(text).map(|d| d.as_secs()), Ok(seconds), "{text}");
        }
        for text in ["--8h", "-", "-8", "18446744073709551615s"] {
            assert!(parse_signed_duration(text).is_err(), "{text}");
        }
        assert_eq!(
            <Plain as Codec<SignedDuration>>::to_raw(&SignedDuration::from_hours(-8)),
            RawValue::text("-8h")
        );
    }

    #[test]
    fn numbers_of_a_fixed_unit() {
        assert_eq!(read::<Millis, _>("5000"), Ok(Duration::from_secs(5)));
        assert_eq!(read::<Millis, _>(5000), Ok(Duration::from_secs(5)));
        assert_eq!(read::<Seconds, _>("10"), Ok(Duration::from_secs(10)));
        assert_eq!(Millis::to_raw(&Duration::from_secs(5)), RawValue::Int(5000));
        assert_eq!(Seconds::to_raw(&Duration::from_secs(5)), RawValue::Int(5));
        assert!(read::<Millis, _>("5s").unwrap_err().contains("without a unit"));
        assert!(read::<Millis, _>("-1").unwrap_err().contains("is negative"));
        assert!(read::<Seconds, _>("99999999999999999999").unwrap_err().contains("is too large"));
        assert!(read::<Seconds, _>("9".repeat(99)).unwrap_err().contains("is too large"));
    }

    #[test]
    fn epochs() {
        assert_eq!(read::<Plain, Epoch>("1672531200").map(Epoch::millis), Ok(Some(1_672_531_200_000)));
        assert_eq!(
            read::<Plain, Epoch>(1_672_531_200_123_i64).map(Epoch::millis),
            Ok(Some(1_672_531_200_123))
        );
        assert_eq!(read::<Plain, Epoch>("-1"), Ok(Epoch::UNSET));
        for text in ["0", "167253120", "16725312000", "-167253120", "-2", "", "+167253120", "2023-01-01"] {
            assert!(read::<Plain, Epoch>(text).unwrap_err().contains("10 digits"), "{text}");
        }
        let timestamp: Timestamp = "2023-01-01T00:00:00Z".parse().unwrap();
        let epoch: Epoch = timestamp.into_value().unwrap();
        assert_eq!((epoch.to_string(), epoch.timestamp()), ("1672531200000".to_owned(), Some(timestamp)));
        assert_eq!(IntoValue::<Epoch>::into_value(SystemTime::UNIX_EPOCH).map(Epoch::millis), Ok(Some(0)));
        assert!(IntoValue::<Epoch>::into_value(Timestamp::MIN).is_err());
    }

    #[test]
    fn zones() {
        let zone = read::<Plain, TimeZone>("Asia/Shanghai").unwrap();
        assert_eq!(zone.iana_name(), Some("Asia/Shanghai"));
        assert_eq!(<Plain as Codec<TimeZone>>::to_raw(&zone), RawValue::text("Asia/Shanghai"));
        assert!(
            read::<Plain, TimeZone>("Asia/Shangai").unwrap_err().contains("did you mean `Asia/Shanghai`?")
        );
        assert!(read::<Plain, TimeZone>("").is_err());
    }

    proptest! {
        #[test]
        fn values_survive_a_round_trip(seconds: u64, nanos in 0u32..1_000_000_000, millis in 0..=Epoch::LAST, signed: i64) {
            let (long, short) = (Duration::new(seconds, nanos), Duration::from_millis(seconds));
            for duration in [long, short, Duration::from_nanos(seconds), Duration::from_secs(seconds)] {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
            let signed = SignedDuration::from_nanos(signed);
            prop_assert_eq!(Plain::from_raw(<Plain as Codec<SignedDuration>>::to_raw(&signed)), Ok(signed));
            let epoch = Epoch::from_millis(millis).unwrap();
            prop_assert_eq!(Plain::from_raw(RawValue::text(epoch.to_string())), Ok(epoch));
            prop_assert_eq!(Millis::from_raw(Millis::to_raw(&Duration::from_millis(seconds))), Ok(Duration::from_millis(seconds)));
        }

        #[test]
        fn what_is_read_from_any_text_is_read_again(text in ".*|[-+]?[0-9]{1,21} ?[a-zµ]{0,4}") {
            if let Ok(duration) = parse_signed_duration(&text) {
                prop_assert_eq!(Plain::from_raw(<Plain as Codec<SignedDuration>>::to_raw(&duration)), Ok(duration));
            }
            if let Ok(epoch) = read::<Plain, Epoch>(text.as_str()) {
                prop_assert_eq!(read::<Plain, Epoch>(epoch.to_string()), Ok(epoch));
            }
            if let Ok(seconds) = read::<Seconds, _>(text) {
                prop_assert_eq!(Seconds::from_raw(Seconds::to_raw(&seconds)), Ok(seconds));
            }
        }
    }
}
