//! Dates by a pattern, as Java's `SimpleDateFormat` has them, read strictly.

use jiff::{
    civil::DateTime,
    tz::{Offset, TimeZone},
};

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A letter, and how often it stands.
    Field(char, usize),
    Text(String),
}

/// A pattern such as `yyyyMMddHHmmss`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatePattern(Vec<Part>);

/// What a text gave so far. What it leaves out is the beginning of 1970.
#[derive(Debug, Clone, Copy)]
struct Fields {
    year: i16,
    month: i8,
    day: i8,
    hour: i8,
    /// Hours of a clock with twelve, and whether it is past noon.
    half_hour: Option<i8>,
    afternoon: bool,
    minute: i8,
    second: i8,
    millis: i32,
    offset: Option<Offset>,
}

impl DatePattern {
    /// # Errors
    /// Says which letter is not known.
    pub(crate) fn parse(pattern: &str) -> Result<Self, String> {
        let mut parts: Vec<Part> = Vec::new();
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            if c == '\'' {
                let mut text = String::new();
                // Two quotes are one, inside of quotes and outside.
                if chars.next_if_eq(&'\'').is_some() {
                    text.push('\'');
                } else {
                    loop {
                        match chars.next() {
                            None => return Err("a quote is not closed".to_owned()),
                            Some('\'') if chars.next_if_eq(&'\'').is_some() => text.push('\''),
                            Some('\'') => break,
                            Some(other) => text.push(other),
                        }
                    }
                }
                parts.push(Part::Text(text));
            } else if c.is_ascii_alphabetic() {
                let mut count = 1;
                while chars.next_if_eq(&c).is_some() {
                    count += 1;
                }
                if !"yuMdHkhKamsSZXz".contains(c) || (c == 'M' && count > 2) || c == 'z' {
                    return Err(format!(
                        "`{}` is not supported; there are y, M (by number), d, H, k, h, K, a, m, s, S, Z and X",
                        c.to_string().repeat(count)
                    ));
                }
                parts.push(Part::Field(c, count));
            } else {
                parts.push(Part::Text(c.to_string()));
            }
        }
        Ok(Self(parts))
    }

    /// The milliseconds since 1970 of a text, in `zone` where it names none.
    ///
    /// # Errors
    /// Says what does not fit.
    pub(crate) fn millis(&self, text: &str, zone: &TimeZone) -> Result<i64, String> {
        let mut fields = Fields {
            year: 1970,
            month: 1,
            day: 1,
            hour: 0,
            half_hour: None,
            afternoon: false,
            minute: 0,
            second: 0,
            millis: 0,
            offset: None,
        };
        let mut rest = text;
        for (at, part) in self.0.iter().enumerate() {
            rest = match part {
                Part::Text(expected) => rest
                    .strip_prefix(expected.as_str())
                    .ok_or_else(|| format!("`{expected}` is expected at `{rest}`"))?,
                Part::Field(letter, count) => {
                    // A number has the pattern's width; a single letter takes all digits, unless a further number follows.
                    let next_is_number = matches!(self.0.get(at + 1), Some(Part::Field(letter, _)) if !"aZX".contains(*letter));
                    fields.read(*letter, *count, *count > 1 || next_is_number, rest)?
                }
            };
        }
        if !rest.is_empty() {
            return Err(format!("`{rest}` is left over"));
        }
        fields.millis(zone)
    }
}

fn number(text: &str, count: usize, exact: bool) -> Result<(i32, &str), String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let len = if exact { count } else { digits.max(count) };
    if digits < len || digits == 0 {
        return Err(format!("{count} digits are expected at `{text}`"));
    }
    let (number, rest) = text.split_at(len);
    Ok((number.parse().map_err(|_| format!("`{number}` is too large"))?, rest))
}

impl Fields {
    fn read<'t>(
        &mut self,
        letter: char,
        count: usize,
        exact: bool,
        text: &'t str,
    ) -> Result<&'t str, String> {
        match letter {
            'a' => {
                let (half, rest) = text.split_at_checked(2).ok_or("AM or PM is missing")?;
                self.afternoon = match half.to_ascii_uppercase().as_str() {
                    "AM" => false,
                    "PM" => true,
                    _ => return Err(format!("AM or PM is expected at `{text}`")),
                };
                return Ok(rest);
            }
            'Z' | 'X' => return self.read_offset(text),
            _ => {}
        }
        let (value, rest) = number(text, count, exact)?;
        let small = |from: i32, to: i32| {
            i8::try_from(value)
                .ok()
                .filter(|_| (from..=to).contains(&value))
                .ok_or_else(|| format!("{value} is not from {from} to {to}"))
        };
        match letter {
            'y' | 'u' => {
                // Two digits are of this century, as nobody's records are older.
                let year = if count == 2 && value < 100 { 2000 + value } else { value };
                self.year = i16::try_from(year)
                    .ok()
                    .filter(|year| (1..=9999).contains(year))
                    .ok_or_else(|| format!("{year} is no year"))?;
            }
            'M' => self.month = small(1, 12)?,
            'd' => self.day = small(1, 31)?,
            'H' => self.hour = small(0, 23)?,
            'k' => self.hour = small(1, 24)? % 24,
            'h' => self.half_hour = Some(small(1, 12)? % 12),
            'K' => self.half_hour = Some(small(0, 11)?),
            'm' => self.minute = small(0, 59)?,
            's' => self.second = small(0, 59)?,
            _ => {
                self.millis = Some(value)
                    .filter(|value| (0..1000).contains(value))
                    .ok_or_else(|| format!("{value} is no number of milliseconds"))?;
            }
        }
        Ok(rest)
    }

    fn read_offset<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let wrong = || format!("an offset such as +0800 is expected at `{text}`");
        if let Some(rest) = text.strip_prefix('Z') {
            self.offset = Some(Offset::UTC);
            return Ok(rest);
        }
        let sign = match text.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(wrong()),
        };
        let (hours, rest) = number(&text[1..], 2, true).map_err(|_| wrong())?;
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        let (minutes, rest) = match number(rest, 2, true) {
            Ok(found) => found,
            Err(_) if rest.is_empty() => (0, rest),
            Err(_) => return Err(wrong()),
        };
        if hours > 18 || minutes > 59 {
            return Err(wrong());
        }
        self.offset = Some(Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).map_err(|_| wrong())?);
        Ok(rest)
    }

    fn millis(self, zone: &TimeZone) -> Result<i64, String> {
        let hour = self.half_hour.map_or(self.hour, |hour| hour + if self.afternoon { 12 } else { 0 });
        let time = DateTime::new(
            self.year,
            self.month,
            self.day,
            hour,
            self.minute,
            self.second,
            self.millis * 1_000_000,
        )
        .map_err(|_| format!("there is no day {} in month {} of {}", self.day, self.month, self.year))?;
        let instant = match self.offset {
            Some(offset) => offset.to_timestamp(time),
            None => {
                let found = zone.to_ambiguous_timestamp(time);
                if matches!(found.offset(), jiff::tz::AmbiguousOffset::Gap { .. }) {
                    return Err(format!("the clocks skip {time} in that zone"));
                }
                found.earlier()
            }
        };
        Ok(instant.map_err(|_| "it is out of range".to_owned())?.as_millisecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(pattern: &str, text: &str) -> Result<i64, String> {
        DatePattern::parse(pattern).unwrap().millis(text, &TimeZone::get("Asia/Shanghai").unwrap())
    }

    fn utc(text: &str) -> i64 {
        text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn dates_by_their_pattern() {
        for (pattern, text, expected) in [
            ("yyyyMMddHHmmss", "20231027080000", "2023-10-27T00:00:00Z"),
            ("yyyy-MM-dd HH:mm:ss.SSS", "2023-10-27 08:00:00.123", "2023-10-27T00:00:00.123Z"),
            ("yyyy-MM-dd'T'HH:mm:ssXXX", "2023-10-27T08:00:00+00:00", "2023-10-27T08:00:00Z"),
            ("yyyy-MM-dd'T'HH:mm:ssX", "2023-10-27T08:00:00Z", "2023-10-27T08:00:00Z"),
            ("yyyyMMddHHmmssZ", "20231027080000-0330", "2023-10-27T11:30:00Z"),
            ("d/M/yyyy", "7/1/2024", "2024-01-06T16:00:00Z"),
            ("yy.MM.dd", "24.01.07", "2024-01-06T16:00:00Z"),
            ("yyyy-MM-dd hh:mm a", "2024-01-07 12:30 am", "2024-01-06T16:30:00Z"),
            ("yyyy-MM-dd hh:mm a", "2024-01-07 01:30 PM", "2024-01-07T05:30:00Z"),
            ("yyyy-MM-dd kk", "2024-01-07 24", "2024-01-06T16:00:00Z"),
            ("yyyy 'o''clock' HH", "2024 o'clock 08", "2024-01-01T00:00:00Z"),
        ] {
            assert_eq!(millis(pattern, text), Ok(utc(expected)), "{pattern} {text}");
        }
    }

    #[test]
    fn what_does_not_match_to_the_last_letter_is_refused() {
        for (pattern, text) in [
            ("yyyyMMddHHmmss", "2023102708000"),
            ("yyyyMMddHHmmss", "202310270800000"),
            ("yyyyMMddHHmmss", "2023-10-27 08:00:00"),
            ("yyyyMMdd", "20230229"),
            ("yyyyMMdd", "20231301"),
            ("yyyyMMddHH", "2023010124"),
            ("yyyy-MM-dd", "2023-10-27 "),
            ("yyyy-MM-dd hh a", "2023-10-27 13 PM"),
            ("yyyyMMddX", "20231027"),
            ("yyyyMMddX", "20231027+"),
            ("", "x"),
        ] {
            assert!(millis(pattern, text).is_err(), "{pattern} {text}");
        }
        let chicago = TimeZone::get("America/Chicago").unwrap();
        let pattern = DatePattern::parse("yyyyMMddHHmm").unwrap();
        assert!(pattern.millis("202603080230", &chicago).unwrap_err().contains("skip"));
        assert_eq!(
            pattern.millis("202611010130", &chicago),
            Ok(utc("2026-11-01T06:30:00Z")),
            "the first of two"
        );
    }

    #[test]
    fn patterns_that_are_not_known() {
        for (pattern, part) in
            [("yyyy-MMM", "MMM"), ("EEE", "EEE"), ("yyyy'", "not closed"), ("z", "`z`"), ("Q", "`Q`")]
        {
            assert!(DatePattern::parse(pattern).unwrap_err().contains(part), "{pattern}");
        }
    }
}
