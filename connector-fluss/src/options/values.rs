//! Values with spellings of their own.

use std::time::Duration;

use connector_core::options::{Codec, IntoValue, Invalid, Plain, RawValue, format_duration, parse_duration};
use jiff::{civil::DateTime, tz::TimeZone};

/// How long a table keeps its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// For so long.
    After(Duration),
    /// For ever.
    Never,
}

impl Ttl {
    /// As Fluss spells it.
    pub(crate) fn text(self) -> String {
        match self {
            Self::After(duration) => format_duration(duration),
            Self::Never => "-1".to_owned(),
        }
    }
}

impl Codec<Ttl> for Plain {
    const TYPE: &'static str = "duration";

    fn from_raw(raw: RawValue) -> Result<Ttl, Invalid> {
        let text = raw.into_text()?;
        if text.trim() == "-1" { Ok(Ttl::Never) } else { parse_duration(&text).map(Ttl::After) }
    }

    fn to_raw(value: &Ttl) -> RawValue {
        value.text().into()
    }
}

/// Where a read by time begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTime {
    /// Milliseconds since 1970.
    Millis(i64),
    /// A date and a time of day, in the option `time-zone`.
    Local(DateTime),
}

impl StartTime {
    /// Milliseconds since 1970.
    ///
    /// # Errors
    /// Says so when the zone has no such time, or the time is out of range.
    pub fn millis(self, zone: &TimeZone) -> Result<i64, String> {
        match self {
            Self::Millis(millis) => Ok(millis),
            Self::Local(time) => {
                let found = zone.to_ambiguous_timestamp(time).compatible().map_err(|e| e.to_string())?;
                Ok(found.as_millisecond())
            }
        }
    }
}

impl Codec<StartTime> for Plain {
    const TYPE: &'static str = "epoch ms or yyyy-MM-dd HH:mm:ss";

    fn from_raw(raw: RawValue) -> Result<StartTime, Invalid> {
        let text = raw.into_text()?;
        let text = text.trim();
        if let Ok(millis) = text.parse::<i64>() {
            return Ok(StartTime::Millis(millis));
        }
        match DateTime::strptime("%Y-%m-%d %H:%M:%S", text) {
            Ok(time) => Ok(StartTime::Local(time)),
            Err(_) => Err(Invalid::new(
                "is neither milliseconds since 1970, such as 1678883047356, nor a time such as 2023-12-09 23:09:12",
            )),
        }
    }

    fn to_raw(value: &StartTime) -> RawValue {
        match value {
            StartTime::Millis(millis) => RawValue::from(*millis),
            StartTime::Local(time) => RawValue::text(time.strftime("%Y-%m-%d %H:%M:%S").to_string()),
        }
    }
}

macro_rules! into_value {
    ($($type:ty),*) => { $(
        impl IntoValue<$type> for $type {
            fn into_value(self) -> Result<$type, Invalid> {
                Ok(self)
            }
        }

        impl IntoValue<$type> for &str {
            fn into_value(self) -> Result<$type, Invalid> {
                Plain::from_raw(self.into())
            }
        }
    )* };
}
into_value!(Ttl, StartTime);

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Result<StartTime, String> {
        Plain::from_raw(text.into()).map_err(|e: Invalid| e.to_string())
    }

    #[test]
    fn a_start_is_a_number_or_a_time_in_the_zone() {
        assert_eq!(time("1678883047356").unwrap(), StartTime::Millis(1_678_883_047_356));
        let local = time("2023-12-09 23:09:12").unwrap();
        let shanghai = TimeZone::get("Asia/Shanghai").unwrap();
        assert_eq!(local.millis(&TimeZone::UTC), Ok(1_702_163_352_000));
        assert_eq!(local.millis(&shanghai), Ok(1_702_163_352_000 - 8 * 3_600_000));
        assert_eq!(Plain::to_raw(&local).into_text().unwrap().as_str(), "2023-12-09 23:09:12");
        assert!(time("2023-12-09").unwrap_err().contains("23:09:12"));
        assert!(time("2023-13-09 00:00:00").is_err());
    }

    #[test]
    fn a_log_lives_for_a_time_or_for_ever() {
        let ttl = |text: &str| -> Result<Ttl, Invalid> { Plain::from_raw(text.into()) };
        assert_eq!(ttl("-1").unwrap(), Ttl::Never);
        assert_eq!(ttl("3 d").unwrap(), Ttl::After(Duration::from_secs(3 * 86_400)));
        assert_eq!(ttl("3 d").unwrap().text(), "3d");
        assert!(ttl("-2").is_err() && ttl("7").is_err());
    }
}
