//! Dates, times and timestamps.

use connector_core::arrow::{
    array::{Array, ArrowPrimitiveType, AsArray},
    datatypes::{
        DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
        DurationNanosecondType, DurationSecondType, Time32MillisecondType, Time32SecondType,
        Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    },
};
use jiff::{SignedDuration, civil, tz::TimeZone};

use super::{
    super::types::ChType,
    cells::{Encode, Fault, Values},
    number::copied,
    zone::{Clock, Why, zone_of},
};
use crate::{native::EncodeRules, wire::io::put_string};

const SECONDS_PER_DAY: i64 = 86_400;
/// 1900-01-01 and 2299-12-31 in days since 1970, the range of `Date32`.
const DATE32: (i64, i64) = (-25_567, 120_529);

/// Ticks per second of an Arrow unit.
pub(super) fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The encoder for a date or time, or nothing when the types do not go together.
pub(super) fn plan(
    source: &DataType,
    target: &ChType,
    rules: &EncodeRules,
) -> Result<Option<Encode>, String> {
    let Some(reader) = Reader::of(source, target, rules)? else { return Ok(None) };
    if let ChType::String = target {
        return Ok(reader.time_of_day.then(|| reader.text()));
    }
    let Some(fit) = Fit::of(&reader, target, rules) else { return Ok(None) };
    Ok(match target.width() {
        Some(2) => Some(reader.encode::<2>(fit)),
        Some(4) => Some(reader.encode::<4>(fit)),
        Some(8) if fit.is_copy() && matches!(reader.shift, Shift::None) => reader.copy(),
        Some(8) => Some(reader.encode::<8>(fit)),
        _ => None,
    })
}

/// 64-bit ticks as they are.
fn ticks<A: ArrowPrimitiveType<Native = i64>>() -> Values<i64> {
    Values::Direct(|array| array.as_primitive::<A>().values())
}

fn fill<A: ArrowPrimitiveType>(array: &dyn Array, at: usize, out: &mut [i64])
where
    A::Native: Into<i64>,
{
    for (slot, value) in out.iter_mut().zip(&array.as_primitive::<A>().values()[at..]) {
        *slot = (*value).into();
    }
}

fn fill_midnights(array: &dyn Array, at: usize, out: &mut [i64]) {
    fill::<Date32Type>(array, at, out);
    out.iter_mut().for_each(|day| *day *= SECONDS_PER_DAY);
}

/// What happens to a tick before it is fitted into the type.
enum Shift {
    None,
    Add(i64),
    /// A local time, after adding to it, becomes the instant at which clocks in the zone show it.
    FromZone(i64, TimeZone),
    /// An instant becomes the local time in the zone.
    ToZone(TimeZone),
}

/// How the values of a source are read.
struct Reader {
    source: DataType,
    ticks: Values<i64>,
    /// Ticks per second; 0 when a tick is a day.
    per_second: i64,
    shift: Shift,
    time_of_day: bool,
    /// Whether the ticks are instants whatever the zone.
    zoned: bool,
}

impl Reader {
    fn of(source: &DataType, target: &ChType, rules: &EncodeRules) -> Result<Option<Self>, String> {
        let to_date = matches!(target, ChType::Date | ChType::Date32);
        let to_instant = matches!(target, ChType::DateTime(_) | ChType::DateTime64(..));
        // A zone that is UTC changes nothing.
        let zone = rules.time_zone.clone().filter(|zone| *zone != TimeZone::UTC);
        let midnight =
            || zone.clone().filter(|_| to_instant).map_or(Shift::None, |zone| Shift::FromZone(0, zone));
        let reader = |ticks: Values<i64>, per_second: i64, shift: Shift| Self {
            source: source.clone(),
            ticks,
            per_second,
            shift,
            time_of_day: matches!(source, DataType::Time32(_) | DataType::Time64(_)),
            zoned: matches!(source, DataType::Timestamp(_, Some(_))),
        };
        Ok(Some(match source {
            DataType::Date32 if to_instant => reader(Values::Filled(fill_midnights), 1, midnight()),
            DataType::Date32 => reader(Values::Filled(fill::<Date32Type>), 0, Shift::None),
            DataType::Date64 => reader(ticks::<Date64Type>(), 1000, midnight()),
            DataType::Timestamp(unit, zone_name) => {
                let shift = match zone_name {
                    Some(name) if to_date => zone_of(name)?.map_or(Shift::None, Shift::ToZone),
                    Some(_) => Shift::None,
                    None => match (added(unit, rules)?, zone.filter(|_| !to_date)) {
                        (0, None) => Shift::None,
                        (add, None) => Shift::Add(add),
                        (add, Some(zone)) => Shift::FromZone(add, zone),
                    },
                };
                let ticks = match unit {
                    TimeUnit::Second => ticks::<TimestampSecondType>(),
                    TimeUnit::Millisecond => ticks::<TimestampMillisecondType>(),
                    TimeUnit::Microsecond => ticks::<TimestampMicrosecondType>(),
                    TimeUnit::Nanosecond => ticks::<TimestampNanosecondType>(),
                };
                reader(ticks, per_second(unit), shift)
            }
            DataType::Time32(unit @ TimeUnit::Second) => {
                reader(Values::Filled(fill::<Time32SecondType>), per_second(unit), Shift::None)
            }
            DataType::Time32(unit) => {
                reader(Values::Filled(fill::<Time32MillisecondType>), per_second(unit), Shift::None)
            }
            DataType::Time64(unit @ TimeUnit::Microsecond) => {
                reader(ticks::<Time64MicrosecondType>(), per_second(unit), Shift::None)
            }
            DataType::Time64(unit) => reader(ticks::<Time64NanosecondType>(), per_second(unit), Shift::None),
            DataType::Duration(unit) => {
                let ticks = match unit {
                    TimeUnit::Second => ticks::<DurationSecondType>(),
                    TimeUnit::Millisecond => ticks::<DurationMillisecondType>(),
                    TimeUnit::Microsecond => ticks::<DurationMicrosecondType>(),
                    TimeUnit::Nanosecond => ticks::<DurationNanosecondType>(),
                };
                reader(ticks, per_second(unit), Shift::None)
            }
            _ => return Ok(None),
        }))
    }

    /// 64-bit ticks that go to the wire as they are.
    fn copy(&self) -> Option<Encode> {
        Some(match &self.source {
            DataType::Date64 => copied::<Date64Type, 8>(),
            DataType::Timestamp(TimeUnit::Second, _) => copied::<TimestampSecondType, 8>(),
            DataType::Timestamp(TimeUnit::Millisecond, _) => copied::<TimestampMillisecondType, 8>(),
            DataType::Timestamp(TimeUnit::Microsecond, _) => copied::<TimestampMicrosecondType, 8>(),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => copied::<TimestampNanosecondType, 8>(),
            DataType::Time64(TimeUnit::Microsecond) => copied::<Time64MicrosecondType, 8>(),
            DataType::Time64(TimeUnit::Nanosecond) => copied::<Time64NanosecondType, 8>(),
            DataType::Duration(TimeUnit::Second) => copied::<DurationSecondType, 8>(),
            DataType::Duration(TimeUnit::Millisecond) => copied::<DurationMillisecondType, 8>(),
            DataType::Duration(TimeUnit::Microsecond) => copied::<DurationMicrosecondType, 8>(),
            DataType::Duration(TimeUnit::Nanosecond) => copied::<DurationNanosecondType, 8>(),
            _ => return None,
        })
    }

    fn encode<const W: usize>(self, fit: Fit) -> Encode {
        Box::new(move |array, absent, out| {
            let outcome = match &self.shift {
                Shift::None if fit.is_plain() => {
                    let (min, max) = (fit.min, fit.max);
                    self.ticks.put(array, absent, [0; W], out, |tick| {
                        if tick >= min && tick <= max { Some(low_bytes(tick)) } else { None }
                    })
                }
                Shift::None => {
                    self.ticks.put(array, absent, [0; W], out, |tick| fit.apply(tick).ok().map(low_bytes))
                }
                shift => {
                    let mut shifter = Shifter::new(shift, self.per_second);
                    self.ticks.put(array, absent, [0; W], out, |tick| {
                        fit.shifted(&mut shifter, tick).ok().map(low_bytes)
                    })
                }
            };
            outcome.map_err(|index| self.fault(array, index, &fit))
        })
    }

    #[cold]
    fn fault(&self, array: &dyn Array, index: usize, fit: &Fit) -> Fault {
        let tick = self.ticks.get(array, index);
        let why = fit.shifted(&mut Shifter::new(&self.shift, self.per_second), tick);
        let reason = match why {
            Err(Why::Fine) => fit.precision.to_owned(),
            Err(Why::Gap) => match &self.shift {
                Shift::FromZone(_, zone) => format!(
                    "the local time does not exist in the time zone {}",
                    zone.iana_name().unwrap_or("of the rules")
                ),
                _ => "the local time does not exist".to_owned(),
            },
            _ => fit.limits.clone(),
        };
        Fault::bad(index, self.show(tick), reason)
    }

    /// A value as people write it.
    fn show(&self, tick: i64) -> String {
        if self.time_of_day {
            return Clockface::of(tick, self.per_second)
                .map_or_else(|| tick.to_string(), |face| face.to_string());
        }
        let (seconds, nanoseconds) = match self.per_second {
            0 => (tick.saturating_mul(SECONDS_PER_DAY), 0),
            per_second => {
                (tick.div_euclid(per_second), tick.rem_euclid(per_second) * (1_000_000_000 / per_second))
            }
        };
        let since_1970 = SignedDuration::new(seconds, i32::try_from(nanoseconds).unwrap_or(0));
        let Ok(moment) = civil::date(1970, 1, 1).at(0, 0, 0, 0).checked_add(since_1970) else {
            return format!("{tick} (outside of the calendar)");
        };
        match &self.source {
            _ if self.zoned => format!("{moment}Z"),
            DataType::Date32 | DataType::Date64 => moment.date().to_string(),
            _ => moment.to_string(),
        }
    }

    /// Times of day as text: `HH:MM:SS`, with as many digits behind the second as the source's unit has.
    fn text(self) -> Encode {
        Box::new(move |array, absent, out| {
            for index in 0..array.len() {
                if absent.is_some_and(|absent| absent.is_null(index)) {
                    out.push(0);
                    continue;
                }
                let tick = self.ticks.get(array, index);
                let face = Clockface::of(tick, self.per_second)
                    .ok_or_else(|| Fault::bad(index, tick.to_string(), "it is not a time of day"))?;
                let (bytes, len) = face.text();
                put_string(out, &bytes[..len]);
            }
            Ok(())
        })
    }
}

/// What the rules add to timestamps without a zone, in ticks.
fn added(unit: &TimeUnit, rules: &EncodeRules) -> Result<i64, String> {
    let Some(offset) = rules.timestamp_offset else { return Ok(0) };
    let tick = i128::from(1_000_000_000 / per_second(unit));
    let nanoseconds = offset.as_nanos();
    if nanoseconds % tick != 0 {
        return Err(format!("the timestamp offset {offset:#} is finer than the unit of the source"));
    }
    i64::try_from(nanoseconds / tick).map_err(|_| format!("the timestamp offset {offset:#} is too large"))
}

struct Shifter<'a> {
    add: i64,
    clock: Option<Clock<'a>>,
    to_local: bool,
}

impl<'a> Shifter<'a> {
    fn new(shift: &'a Shift, per_second: i64) -> Self {
        match shift {
            Shift::None => Self { add: 0, clock: None, to_local: false },
            Shift::Add(add) => Self { add: *add, clock: None, to_local: false },
            Shift::FromZone(add, zone) => {
                Self { add: *add, clock: Some(Clock::new(zone, per_second)), to_local: false }
            }
            Shift::ToZone(zone) => Self { add: 0, clock: Some(Clock::new(zone, per_second)), to_local: true },
        }
    }

    #[inline]
    fn apply(&mut self, tick: i64) -> Result<i64, Why> {
        let tick = tick.checked_add(self.add).ok_or(Why::Range)?;
        match &mut self.clock {
            None => Ok(tick),
            Some(clock) if self.to_local => clock.local(tick),
            Some(clock) => clock.instant(tick),
        }
    }
}

/// How a tick becomes a number on the wire.
struct Fit {
    times: i64,
    divided_by: i64,
    min: i64,
    max: i64,
    round_down: bool,
    clamp: bool,
    limits: String,
    precision: &'static str,
}

impl Fit {
    fn of(reader: &Reader, target: &ChType, rules: &EncodeRules) -> Option<Self> {
        let is_timestamp = matches!(reader.source, DataType::Date64 | DataType::Timestamp(..));
        let is_date = reader.source == DataType::Date32;
        let ten = |digits: u8| 10i64.pow(u32::from(digits.min(9)));
        let mut fit = Self {
            times: 1,
            divided_by: 1,
            min: 0,
            max: 0,
            round_down: rules.round_down,
            clamp: rules.clamp_times,
            limits: String::new(),
            precision: "it is finer than the type's precision",
        };
        match target {
            ChType::Date | ChType::Date32 if is_timestamp || is_date => {
                fit.divided_by = if is_date { 1 } else { reader.per_second * SECONDS_PER_DAY };
                fit.precision = "it is not at midnight";
                (fit.min, fit.max) = if *target == ChType::Date { (0, i64::from(u16::MAX)) } else { DATE32 };
                fit.limits = match target {
                    ChType::Date => "the type holds 1970-01-01 to 2149-06-06".to_owned(),
                    _ => "the type holds 1900-01-01 to 2299-12-31".to_owned(),
                };
            }
            ChType::DateTime(_) if is_timestamp || is_date => {
                fit.divided_by = reader.per_second;
                fit.max = i64::from(u32::MAX);
                fit.limits = "the type holds 1970-01-01T00:00:00Z to 2106-02-07T06:28:15Z".to_owned();
            }
            ChType::DateTime64(precision, _) if is_timestamp || is_date => {
                fit.rescale(reader.per_second, ten(*precision));
                (fit.min, fit.max) = date_time64_range(ten(*precision));
                let end = if *precision == 9 { "2262-04-11T23:47:16.854775807Z" } else { "the end of 2299" };
                fit.limits = format!("the type holds 1900-01-01T00:00:00Z to {end}");
            }
            ChType::Time | ChType::Time64 { .. } if reader.time_of_day => {
                let to = if let ChType::Time64 { scale, .. } = target { ten(*scale) } else { 1 };
                fit.rescale(reader.per_second, to);
                fit.max = SECONDS_PER_DAY * to - 1;
                fit.limits = "the type holds the times of one day".to_owned();
            }
            ChType::Int32 => (fit.min, fit.max) = (i64::from(i32::MIN), i64::from(i32::MAX)),
            ChType::UInt32 => fit.max = i64::from(u32::MAX),
            ChType::Int64 => (fit.min, fit.max) = (i64::MIN, i64::MAX),
            ChType::UInt64 => fit.max = i64::MAX,
            _ => return None,
        }
        if matches!(target, ChType::Int32 | ChType::UInt32 | ChType::Int64 | ChType::UInt64) {
            // A number out of range is no time out of range.
            fit.clamp = false;
            fit.limits = format!("as a number it is outside {} to {}", fit.min, fit.max);
        }
        Some(fit)
    }

    fn rescale(&mut self, from: i64, to: i64) {
        if to >= from {
            self.times = to / from;
        } else {
            self.divided_by = from / to;
        }
    }

    fn is_plain(&self) -> bool {
        self.times == 1 && self.divided_by == 1 && !self.clamp
    }

    fn is_copy(&self) -> bool {
        self.is_plain() && (self.min, self.max) == (i64::MIN, i64::MAX)
    }

    #[inline]
    fn shifted(&self, shifter: &mut Shifter<'_>, tick: i64) -> Result<i64, Why> {
        match shifter.apply(tick) {
            Ok(tick) => self.apply(tick),
            // So far outside that no calendar has an offset for it.
            Err(Why::Range) if self.clamp => Ok(if tick < 0 { self.min } else { self.max }),
            Err(why) => Err(why),
        }
    }

    #[inline]
    fn apply(&self, tick: i64) -> Result<i64, Why> {
        let value = if self.divided_by != 1 {
            if !self.round_down && tick % self.divided_by != 0 {
                return Err(Why::Fine);
            }
            tick.div_euclid(self.divided_by)
        } else {
            match tick.checked_mul(self.times) {
                Some(value) => value,
                None if self.clamp && tick < 0 => self.min,
                None if self.clamp => self.max,
                None => return Err(Why::Range),
            }
        };
        if value >= self.min && value <= self.max {
            Ok(value)
        } else if self.clamp {
            Ok(value.clamp(self.min, self.max))
        } else {
            Err(Why::Range)
        }
    }
}

/// From 1900 to the end of 2299, as far as 64 bits reach.
fn date_time64_range(per_second: i64) -> (i64, i64) {
    let start = DATE32.0 * SECONDS_PER_DAY;
    let end = (DATE32.1 + 1) * SECONDS_PER_DAY;
    (start.saturating_mul(per_second), end.checked_mul(per_second).map_or(i64::MAX, |end| end - 1))
}

#[inline(always)]
fn low_bytes<const W: usize>(value: i64) -> [u8; W] {
    let mut low = [0; W];
    low.copy_from_slice(&value.to_le_bytes()[..W]);
    low
}

/// A time of day in parts.
struct Clockface {
    seconds: i64,
    fraction: i64,
    digits: usize,
}

impl Clockface {
    fn of(tick: i64, per_second: i64) -> Option<Self> {
        let digits = match per_second {
            1 => 0,
            1_000 => 3,
            1_000_000 => 6,
            _ => 9,
        };
        let seconds = tick.div_euclid(per_second);
        (0..SECONDS_PER_DAY).contains(&seconds).then(|| Self {
            seconds,
            fraction: tick.rem_euclid(per_second),
            digits,
        })
    }

    /// The text and its length.
    fn text(&self) -> ([u8; 18], usize) {
        let mut text = *b"00:00:00.000000000";
        let mut put = |end: usize, count: usize, mut number: i64| {
            for slot in text[end - count..end].iter_mut().rev() {
                *slot = b'0' + u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        };
        put(2, 2, self.seconds / 3600);
        put(5, 2, self.seconds / 60 % 60);
        put(8, 2, self.seconds % 60);
        put(9 + self.digits, self.digits, self.fraction);
        (text, if self.digits == 0 { 8 } else { 9 + self.digits })
    }
}

impl std::fmt::Display for Clockface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (text, len) = self.text();
        f.write_str(&String::from_utf8_lossy(&text[..len]))
    }
}
