//! Texts of dates and times: ISO 8601 as RFC 3339 and Java, Python and databases write it.

/// A day as a text gives it, a time of day, and the distance from UTC if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DateTime {
    /// Days since 1970-01-01.
    pub(super) days: i32,
    pub(super) time: TimeOfDay,
    /// Seconds east of UTC.
    pub(super) offset: Option<i32>,
}

/// A time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TimeOfDay {
    pub(super) seconds: u32,
    pub(super) nanos: u32,
    /// Whether there were digits other than zero after the ninth.
    pub(super) finer: bool,
}

pub(super) const SECONDS_PER_DAY: i64 = 86_400;

impl DateTime {
    /// Seconds since 1970 as if the text were UTC.
    #[inline]
    pub(super) fn civil_seconds(&self) -> i64 {
        i64::from(self.days) * SECONDS_PER_DAY + i64::from(self.time.seconds)
    }
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar; `None` when there is no such date.
#[inline]
fn days_since_epoch(year: u32, month: u32, day: u32) -> Option<i32> {
    const LENGTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    const BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let index = usize::try_from(month.wrapping_sub(1)).ok()?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = LENGTHS.get(index)? + u32::from(leap && month == 2);
    if day == 0 || day > length {
        return None;
    }
    // Leap days in the years before this one; the year 0 is one of them.
    let leap_days = year.div_ceil(4) - year.div_ceil(100) + year.div_ceil(400);
    let day_of_year = BEFORE.get(index)? + u32::from(leap && month > 2) + day - 1;
    let days = year * 365 + leap_days + day_of_year;
    Some(i32::try_from(days).ok()? - 719_528)
}

#[inline]
fn digits<const N: usize>(text: &[u8; N], places: [usize; 2], valid: &mut bool) -> u32 {
    let digit = |place: usize| u32::from(text[place].wrapping_sub(b'0'));
    let (tens, ones) = (digit(places[0]), digit(places[1]));
    *valid &= tens < 10 && ones < 10;
    tens.wrapping_mul(10).wrapping_add(ones)
}

/// Reads `YYYY-MM-DD`.
#[inline]
fn fixed_date(text: &[u8; 10]) -> Option<i32> {
    let mut valid = text[4] == b'-' && text[7] == b'-';
    let year = digits(text, [0, 1], &mut valid) * 100 + digits(text, [2, 3], &mut valid);
    let month = digits(text, [5, 6], &mut valid);
    let day = digits(text, [8, 9], &mut valid);
    if valid { days_since_epoch(year, month, day) } else { None }
}

/// Reads `HH:MM:SS` as seconds of the day. There is no 24:00:00 and no leap second.
#[inline]
fn fixed_time(text: &[u8; 8]) -> Option<u32> {
    let mut valid = text[2] == b':' && text[5] == b':';
    let hour = digits(text, [0, 1], &mut valid);
    let minute = digits(text, [3, 4], &mut valid);
    let second = digits(text, [6, 7], &mut valid);
    let valid = valid && hour < 24 && minute < 60 && second < 60;
    valid.then_some(hour * 3600 + minute * 60 + second)
}

/// The form that most producers write, with its quotes: `"YYYY-MM-DDTHH:MM:SS.mmmZ"`.
pub(super) const COMMON_LEN: usize = 26;

/// Reads the common form; `None` for all others.
#[inline]
pub(super) fn common_datetime(text: &[u8; COMMON_LEN]) -> Option<DateTime> {
    let [b'"', rest @ ..] = text else { return None };
    let (date, rest) = rest.split_first_chunk::<10>()?;
    let ([b'T'], rest) = rest.split_first_chunk::<1>()? else { return None };
    let (time, rest) = rest.split_first_chunk::<8>()?;
    let [b'.', hundreds, tens, ones, b'Z', b'"'] = rest else { return None };
    let mut valid = true;
    let millis =
        digits(&[b'0', *hundreds], [0, 1], &mut valid) * 100 + digits(&[*tens, *ones], [0, 1], &mut valid);
    if !valid {
        return None;
    }
    let time = TimeOfDay { seconds: fixed_time(time)?, nanos: millis * 1_000_000, finer: false };
    Some(DateTime { days: fixed_date(date)?, time, offset: Some(0) })
}

/// Reads a date, `YYYY-MM-DD`, as days since 1970-01-01.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    fixed_date(text.as_bytes().try_into().ok()?)
}

/// Reads a time of day: `HH:MM`, `HH:MM:SS` or either with a fraction of the second.
pub(super) fn parse_time(text: &str) -> Option<TimeOfDay> {
    let (time, rest) = time_prefix(text.as_bytes())?;
    rest.is_empty().then_some(time)
}

/// Reads a date and a time with `T`, `t` or a space between them, and after it `Z`, `z`, an offset or
/// nothing. A date alone is its midnight.
pub(super) fn parse_datetime(text: &str) -> Option<DateTime> {
    let (date, rest) = text.as_bytes().split_first_chunk::<10>()?;
    let days = fixed_date(date)?;
    if rest.is_empty() {
        return Some(DateTime { days, time: TimeOfDay::default(), offset: None });
    }
    let (b'T' | b't' | b' ', rest) = rest.split_first()? else { return None };
    let (time, rest) = time_prefix(rest)?;
    let offset = if rest.is_empty() { None } else { Some(parse_offset(rest)?) };
    Some(DateTime { days, time, offset })
}

fn time_prefix(text: &[u8]) -> Option<(TimeOfDay, &[u8])> {
    let (seconds, rest) = match text.split_first_chunk::<8>() {
        Some((time, rest)) if time[5] == b':' => (fixed_time(time)?, rest),
        _ => {
            let (short, rest) = text.split_first_chunk::<5>()?;
            let [h1, h2, c, m1, m2] = *short;
            return Some((
                TimeOfDay {
                    seconds: fixed_time(&[h1, h2, c, m1, m2, b':', b'0', b'0'])?,
                    nanos: 0,
                    finer: false,
                },
                rest,
            ));
        }
    };
    let mut time = TimeOfDay { seconds, nanos: 0, finer: false };
    let Some((b'.', after)) = rest.split_first() else { return Some((time, rest)) };
    let len = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (fraction, rest) = after.split_at(len);
    if fraction.is_empty() {
        return None;
    }
    for place in 0..9 {
        time.nanos = time.nanos * 10 + fraction.get(place).map_or(0, |digit| u32::from(digit - b'0'));
    }
    time.finer = fraction.iter().skip(9).any(|digit| *digit != b'0');
    Some((time, rest))
}

/// Reads `Z`, `±HH`, `±HHMM`, `±HH:MM` or `±HH:MM:SS`, a space before it allowed, as seconds east of UTC.
fn parse_offset(text: &[u8]) -> Option<i32> {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let (sign, rest) = text.split_first()?;
    let east = match sign {
        b'Z' | b'z' => return rest.is_empty().then_some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let clock = match *rest {
        [h1, h2] => [h1, h2, b':', b'0', b'0', b':', b'0', b'0'],
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => [h1, h2, b':', m1, m2, b':', b'0', b'0'],
        [h1, h2, b':', m1, m2, b':', s1, s2] => [h1, h2, b':', m1, m2, b':', s1, s2],
        _ => return None,
    };
    Some(east * i32::try_from(fixed_time(&clock)?).ok()?)
}

#[cfg(test)]
mod tests {
    use jiff::civil;

    use super::*;

    #[test]
    fn days_agree_with_a_calendar() {
        let epoch = civil::date(1970, 1, 1);
        let mut date = civil::date(0, 1, 1);
        let last = civil::date(9999, 12, 31);
        loop {
            let text = date.to_string();
            let expected = (date - epoch).get_days();
            assert_eq!(parse_date(&text), Some(expected), "{text}");
            if date == last {
                break;
            }
            date = date.tomorrow().unwrap();
        }
        for text in
            ["2023-02-29", "1900-02-29", "2024-00-01", "2024-13-01", "2024-01-00", "2024-04-31", "0000-00-00"]
        {
            assert_eq!(parse_date(text), None, "{text}");
        }
        for text in [
            "",
            "2024-1-1",
            "24-01-01",
            "2024/01/01",
            "2024-01-01T",
            "+2024-01-01",
            "２０24-01-01",
            "2024-01-0x",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn times_of_day() {
        let time = |seconds, nanos| Some(TimeOfDay { seconds, nanos, finer: false });
        assert_eq!(parse_time("00:00"), time(0, 0));
        assert_eq!(parse_time("23:59:59.999999999"), time(86_399, 999_999_999));
        assert_eq!(parse_time("01:02:03.5"), time(3723, 500_000_000));
        assert_eq!(parse_time("01:02:03.0000000000"), time(3723, 0));
        assert!(parse_time("01:02:03.0000000001").is_some_and(|t| t.finer));
        for text in [
            "24:00",
            "23:60",
            "23:59:60",
            "1:02",
            "01:02:",
            "01:02:03.",
            "01:02.5",
            "01-02-03",
            "",
            "01:02:03Z",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn datetimes_in_all_forms() {
        let days = 19_815; // 2024-04-02
        let at = |seconds, nanos, offset| {
            Some(DateTime { days, time: TimeOfDay { seconds, nanos, finer: false }, offset })
        };
        for (text, expected) in [
            ("2024-04-02T03:59:00.072229523Z", at(14_340, 72_229_523, Some(0))),
            ("2024-04-02 03:59:00", at(14_340, 0, None)),
            ("2024-04-02t03:59z", at(14_340, 0, Some(0))),
            ("2024-04-02T03:59", at(14_340, 0, None)),
            ("2024-04-02T03:59:00+08", at(14_340, 0, Some(28_800))),
            ("2024-04-02T03:59:00-0330", at(14_340, 0, Some(-12_600))),
            ("2024-04-02T03:59:00.5+05:45", at(14_340, 500_000_000, Some(20_700))),
            ("2024-04-02 03:59:00 +08:00", at(14_340, 0, Some(28_800))),
            ("2024-04-02T03:59:00+00:00:01", at(14_340, 0, Some(1))),
            ("2024-04-02", at(0, 0, None)),
        ] {
            assert_eq!(parse_datetime(text), expected, "{text}");
        }
        for text in [
            "",
            "2024-04-02T",
            "2024-04-02T03",
            "2024-04-02X03:59",
            "2024-04-02T03:59:00+",
            "2024-04-02T03:59:00+8",
            "2024-04-02T03:59:00 ",
            "2024-04-02T03:59:00UTC",
            "2024-04-02T03:59:00+08:00[Asia/Shanghai]",
            "2024-04-02T03:59:00Zx",
            "2024-04-02T24:00:00Z",
            "2016-12-31T23:59:60Z",
            "2024-04-02T03:59:00+24:00",
            "2024-04-02T03:59:00.Z",
            "20240402T035900Z",
            "1712030340",
        ] {
            assert_eq!(parse_datetime(text), None, "{text}");
        }
    }

    #[test]
    fn the_common_form_is_read_as_the_general_one_is() {
        let common = |text: &str| common_datetime(format!("\"{text}\"").as_bytes().try_into().unwrap());
        for text in ["2026-01-01T00:00:00.137Z", "1969-12-31T23:59:59.999Z", "0000-02-29T12:00:00.000Z"] {
            assert_eq!(common(text), parse_datetime(text), "{text}");
            assert!(common(text).is_some());
        }
        for text in [
            "2026-02-29T00:00:00.137Z",
            "2026-01-01T00:00:00.13xZ",
            "2026-01-01 00:00:00.137Z",
            "2026-01-01T00:00:00.1370",
        ] {
            assert_eq!(common(text), None, "{text}");
        }
    }
}
