//! Dates, times of day and timestamps.

use std::sync::Arc;

use connector_core::arrow::{
    array::ArrayRef,
    datatypes::{
        Date32Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
        Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
    error::ArrowError,
};
use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, Offset, TimeZone},
};

use super::{
    JsonOptions,
    column::{Build, Context, Given, Store},
    cursor::Cursor,
    encoding::Encoding,
    error::{Fault, JsonErrorKind},
    scalar::store_methods,
    time::{
        COMMON_LEN, DateTime, SECONDS_PER_DAY, TimeOfDay, common_datetime, parse_date, parse_datetime,
        parse_time,
    },
};

/// Dates: `YYYY-MM-DD`, or whole days since 1970-01-01.
#[derive(Debug)]
pub(super) struct DateColumn {
    store: Store<Date32Type>,
}

impl DateColumn {
    pub(super) fn new() -> Self {
        Self { store: Store::new() }
    }
}

impl Build for DateColumn {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        const EXPECTED: &str = "a date from 0000-01-01 to 9999-12-31, or days since 1970-01-01 in 32 bits";
        let start = cursor.pos();
        let value = match cursor.peek() {
            b'"' => parse_date(cursor.string(&mut context.scratch)?).ok_or(JsonErrorKind::InvalidText),
            b'-' | b'0'..=b'9' => whole(cursor, 0, context.options.truncate_time)?
                .and_then(|days| i32::try_from(days).map_err(|_| JsonErrorKind::OutOfRange)),
            _ => return Err(cursor.mismatch(EXPECTED)),
        };
        self.store.push(value.map_err(|kind| Fault::new(kind, start, EXPECTED))?);
        Ok(())
    }

    fn decode_text(&mut self, text: &str, _: &mut Context) -> Result<(), Fault> {
        let value = parse_date(text);
        let expected = "a date such as 2026-01-31";
        self.store.push(value.ok_or_else(|| Fault::new(JsonErrorKind::InvalidText, 0, expected))?);
        Ok(())
    }

    fn take(&mut self, given: Given<'_>, _: &Context) -> bool {
        let Given::Integer(days) = given else { return false };
        i32::try_from(days).map(|days| self.store.push(days)).is_ok()
    }

    store_methods!();

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.store.finish()?))
    }
}

/// Reads a number times ten to the `power` as a whole one; with `floor` a fraction is cut toward the past.
#[inline]
fn whole(cursor: &mut Cursor<'_>, power: i64, floor: bool) -> Result<Result<i64, JsonErrorKind>, Fault> {
    let start = cursor.pos();
    if power == 0
        && let Some((negative, magnitude)) = cursor.short_integer()
    {
        let value =
            if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
        return Ok(value.ok_or(JsonErrorKind::OutOfRange));
    }
    cursor.set_pos(start);
    let number = cursor.number()?;
    let Some(scaled) = number.scaled(power) else { return Ok(Err(JsonErrorKind::OutOfRange)) };
    if scaled.cut && !floor {
        return Ok(Err(JsonErrorKind::Inexact));
    }
    let below = i128::from(scaled.cut && number.is_negative());
    let value = scaled.value.to_i128().and_then(|value| i64::try_from(value - below).ok());
    Ok(value.ok_or(JsonErrorKind::OutOfRange))
}

/// Digits after the second that a unit stands for.
fn unit_digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "seconds",
        TimeUnit::Millisecond => "milliseconds",
        TimeUnit::Microsecond => "microseconds",
        TimeUnit::Nanosecond => "nanoseconds",
    }
}

/// Seconds and the fraction of `time` as a count of `unit`; the fraction is cut only where `floor` allows.
#[inline]
fn count(seconds: i64, time: TimeOfDay, unit: TimeUnit, floor: bool) -> Result<i64, JsonErrorKind> {
    #[inline]
    fn parts<const NANOS: u32>(time: TimeOfDay) -> (u32, bool) {
        (time.nanos / NANOS, time.finer || !time.nanos.is_multiple_of(NANOS))
    }
    let (per_second, (fraction, cut)) = match unit {
        TimeUnit::Second => (1_i64, parts::<1_000_000_000>(time)),
        TimeUnit::Millisecond => (1_000, parts::<1_000_000>(time)),
        TimeUnit::Microsecond => (1_000_000, parts::<1_000>(time)),
        TimeUnit::Nanosecond => (1_000_000_000, parts::<1>(time)),
    };
    if cut && !floor {
        return Err(JsonErrorKind::Inexact);
    }
    // The product alone may overflow where the sum does not, so both are wider than the result.
    let value = i128::from(seconds) * i128::from(per_second) + i128::from(fraction);
    i64::try_from(value).map_err(|_| JsonErrorKind::OutOfRange)
}

/// Times of day: `HH:MM`, `HH:MM:SS` and fractions, or a number in the column's unit.
#[derive(Debug)]
pub(super) struct TimeColumn {
    store: Store<Int64Type>,
    unit: TimeUnit,
    /// The power of ten between the unit of numbers and the column's.
    power: i64,
}

impl TimeColumn {
    pub(super) fn new(unit: TimeUnit, encoding: Encoding) -> Self {
        let power = match encoding {
            Encoding::TimeOfDay(written) => i64::from(unit_digits(unit)) - i64::from(unit_digits(written)),
            _ => 0,
        };
        Self { store: Store::new(), unit, power }
    }

    fn read_text(&self, text: &str, floor: bool) -> Result<i64, JsonErrorKind> {
        parse_time(text)
            .ok_or(JsonErrorKind::InvalidText)
            .and_then(|time| count(i64::from(time.seconds), time, self.unit, floor))
    }

    fn expected(&self) -> String {
        let (digits, unit) = (unit_digits(self.unit), unit_name(self.unit));
        format!(
            "a time of day from 00:00 to before 24:00 with at most {digits} digits after the second, or {unit} since midnight"
        )
    }

    fn in_day(&self, value: i64) -> Result<i64, JsonErrorKind> {
        let day = count(SECONDS_PER_DAY, TimeOfDay::default(), self.unit, false)?;
        if (0..day).contains(&value) { Ok(value) } else { Err(JsonErrorKind::OutOfRange) }
    }
}

impl Build for TimeColumn {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let start = cursor.pos();
        let floor = context.options.truncate_time;
        let value = match cursor.peek() {
            b'"' => self.read_text(cursor.string(&mut context.scratch)?, floor),
            b'-' | b'0'..=b'9' => whole(cursor, self.power, floor)?.and_then(|value| self.in_day(value)),
            _ => return Err(cursor.mismatch(self.expected())),
        };
        self.store.push(value.map_err(|kind| Fault::new(kind, start, self.expected()))?);
        Ok(())
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        let value = self.read_text(text, context.options.truncate_time);
        self.store.push(value.map_err(|kind| Fault::new(kind, 0, self.expected()))?);
        Ok(())
    }

    fn take(&mut self, given: Given<'_>, _: &Context) -> bool {
        match given {
            Given::Integer(value) if self.power == 0 => {
                self.in_day(value).map(|value| self.store.push(value)).is_ok()
            }
            _ => false,
        }
    }

    store_methods!();

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let array = self.store.finish()?;
        Ok(match self.unit {
            TimeUnit::Second => {
                Arc::new(array.unary::<_, Int32Type>(narrow).reinterpret_cast::<Time32SecondType>())
            }
            TimeUnit::Millisecond => {
                Arc::new(array.unary::<_, Int32Type>(narrow).reinterpret_cast::<Time32MillisecondType>())
            }
            TimeUnit::Microsecond => Arc::new(array.reinterpret_cast::<Time64MicrosecondType>()),
            TimeUnit::Nanosecond => Arc::new(array.reinterpret_cast::<Time64NanosecondType>()),
        })
    }
}

/// A time within one day in seconds or milliseconds always fits.
fn narrow(value: i64) -> i32 {
    i32::try_from(value).unwrap_or_default()
}

/// Points in time, or times on a wall clock where the column has no zone.
#[derive(Debug)]
pub(super) struct TimestampColumn {
    store: Store<Int64Type>,
    unit: TimeUnit,
    zone: Option<Arc<str>>,
    /// The power of ten between the unit of numbers and the column's.
    epoch_power: i64,
    /// Whether numbers are times on a wall clock and not instants.
    wall: bool,
}

/// Why a time cannot be held.
#[derive(Debug, Clone, Copy)]
enum Misfit {
    Kind(JsonErrorKind),
    /// The clocks of the zone skip it.
    Skipped,
}

impl From<JsonErrorKind> for Misfit {
    fn from(kind: JsonErrorKind) -> Self {
        Self::Kind(kind)
    }
}

impl TimestampColumn {
    pub(super) fn new(
        unit: TimeUnit,
        zone: Option<Arc<str>>,
        encoding: Encoding,
        options: &JsonOptions,
    ) -> Self {
        let digits = unit_digits(unit);
        let (written, wall) = match encoding {
            Encoding::Epoch(unit) => (unit_digits(unit), true),
            Encoding::Instant(unit) => (unit_digits(unit), false),
            _ => (options.epoch_unit.digits(digits), false),
        };
        let epoch_power = i64::from(digits) - i64::from(written);
        Self { store: Store::new(), unit, zone, epoch_power, wall }
    }

    #[inline]
    fn datetime_count(&self, datetime: DateTime, context: &Context) -> Result<i64, Misfit> {
        let mut seconds = datetime.civil_seconds();
        match datetime.offset {
            Some(offset) => {
                seconds -= i64::from(offset);
                if self.zone.is_none() && !context.utc {
                    seconds += offset_at(seconds, &context.options.time_zone)?;
                }
            }
            None if self.zone.is_some() && !context.utc => {
                seconds -= offset_of_local(seconds, &context.options.time_zone)?;
            }
            None => {}
        }
        Ok(count(seconds, datetime.time, self.unit, context.options.truncate_time)?)
    }

    fn epoch_count(&self, value: i64, context: &Context) -> Result<i64, Misfit> {
        if context.utc || self.zone.is_some() != self.wall {
            return Ok(value);
        }
        let one_second = count(1, TimeOfDay::default(), self.unit, false)?;
        if self.wall {
            let shift = offset_of_local(value.div_euclid(one_second), &context.options.time_zone)?;
            return value.checked_sub(shift * one_second).ok_or(Misfit::Kind(JsonErrorKind::OutOfRange));
        }
        let shift = offset_at(value.div_euclid(one_second), &context.options.time_zone)?;
        value.checked_add(shift * one_second).ok_or(Misfit::Kind(JsonErrorKind::OutOfRange))
    }

    #[cold]
    fn fault(&self, misfit: Misfit, start: usize, context: &Context) -> Fault {
        let unit = unit_name(self.unit);
        let kind = match misfit {
            Misfit::Kind(kind) => kind,
            Misfit::Skipped => {
                let zone = &context.options.time_zone;
                let name = zone.iana_name().map_or_else(|| format!("{zone:?}"), str::to_owned);
                let expected = format!("a local time that the clocks of {name} do not skip");
                return Fault::new(JsonErrorKind::InvalidText, start, expected);
            }
        };
        let expected = match kind {
            JsonErrorKind::Inexact => {
                format!("a time with at most {} digits after the second", unit_digits(self.unit))
            }
            JsonErrorKind::OutOfRange => {
                format!("a time from {} to {} {unit} since 1970-01-01T00:00:00Z", i64::MIN, i64::MAX)
            }
            _ => self.expected(context),
        };
        Fault::new(kind, start, expected)
    }

    fn expected(&self, context: &Context) -> String {
        let unit = match context.options.epoch_unit {
            super::EpochUnit::Column => unit_name(self.unit),
            other => other.as_str(),
        };
        format!("an ISO 8601 time such as 2026-01-31T12:34:56.789Z, or {unit} since 1970-01-01T00:00:00Z")
    }
}

/// What the clocks of a zone are ahead of UTC at an instant.
#[cold]
fn offset_at(seconds: i64, zone: &TimeZone) -> Result<i64, Misfit> {
    let instant = Timestamp::from_second(seconds).map_err(|_| JsonErrorKind::OutOfRange)?;
    Ok(i64::from(zone.to_offset(instant).seconds()))
}

/// What the clocks of a zone are ahead of UTC when they show a time, given in seconds as if it were UTC. A
/// time that they show twice is the first of the two.
#[cold]
fn offset_of_local(seconds: i64, zone: &TimeZone) -> Result<i64, Misfit> {
    let shown = Timestamp::from_second(seconds).map_err(|_| JsonErrorKind::OutOfRange)?;
    let shown = Offset::UTC.to_datetime(shown);
    match zone.to_ambiguous_timestamp(shown).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            Ok(i64::from(offset.seconds()))
        }
        AmbiguousOffset::Gap { .. } => Err(Misfit::Skipped),
    }
}

impl Build for TimestampColumn {
    #[inline]
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let start = cursor.pos();
        let common = cursor.rest().first_chunk::<COMMON_LEN>().and_then(common_datetime);
        let value = match (common, cursor.peek()) {
            (Some(datetime), _) => {
                cursor.advance(COMMON_LEN);
                self.datetime_count(datetime, context)
            }
            (None, b'"') => {
                let datetime = parse_datetime(cursor.string(&mut context.scratch)?);
                match datetime {
                    Some(datetime) => self.datetime_count(datetime, context),
                    None => Err(JsonErrorKind::InvalidText.into()),
                }
            }
            (None, b'-' | b'0'..=b'9') => {
                match whole(cursor, self.epoch_power, context.options.truncate_time)? {
                    Ok(value) => self.epoch_count(value, context),
                    Err(kind) => Err(kind.into()),
                }
            }
            _ => return Err(cursor.mismatch(self.expected(context))),
        };
        self.store.push(value.map_err(|misfit| self.fault(misfit, start, context))?);
        Ok(())
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        let value = match parse_datetime(text) {
            Some(datetime) => self.datetime_count(datetime, context),
            None => Err(JsonErrorKind::InvalidText.into()),
        };
        self.store.push(value.map_err(|misfit| self.fault(misfit, 0, context))?);
        Ok(())
    }

    fn take(&mut self, given: Given<'_>, context: &Context) -> bool {
        match given {
            Given::Integer(value) if self.epoch_power == 0 => {
                self.epoch_count(value, context).map(|value| self.store.push(value)).is_ok()
            }
            Given::Text(text) => parse_datetime(text)
                .and_then(|datetime| self.datetime_count(datetime, context).ok())
                .map(|value| self.store.push(value))
                .is_some(),
            _ => false,
        }
    }

    store_methods!();

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (array, zone) = (self.store.finish()?, self.zone.clone());
        Ok(match self.unit {
            TimeUnit::Second => {
                Arc::new(array.reinterpret_cast::<TimestampSecondType>().with_timezone_opt(zone))
            }
            TimeUnit::Millisecond => {
                Arc::new(array.reinterpret_cast::<TimestampMillisecondType>().with_timezone_opt(zone))
            }
            TimeUnit::Microsecond => {
                Arc::new(array.reinterpret_cast::<TimestampMicrosecondType>().with_timezone_opt(zone))
            }
            TimeUnit::Nanosecond => {
                Arc::new(array.reinterpret_cast::<TimestampNanosecondType>().with_timezone_opt(zone))
            }
        })
    }
}
