//! Local times to instants and back.

use jiff::{Timestamp, tz::AmbiguousOffset, tz::TimeZone};

/// Why a time cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Outside the type's range.
    Range,
    /// Finer than the type's precision.
    Fine,
    /// A local time that a clock change leaves out.
    Gap,
}

/// Reads times of one kind, in ticks of `per_second`, as times of another.
pub(super) struct Clock<'a> {
    zone: &'a TimeZone,
    per_second: i64,
    /// Seconds, as they are given, in which `offset` is known to hold.
    known: std::ops::Range<i64>,
    offset: i64,
}

impl<'a> Clock<'a> {
    pub(super) fn new(zone: &'a TimeZone, per_second: i64) -> Self {
        Self { zone, per_second, known: 0..0, offset: 0 }
    }

    /// The instant of a local time; the earlier one where there are two.
    #[inline]
    pub(super) fn instant(&mut self, local: i64) -> Result<i64, Why> {
        let second = local.div_euclid(self.per_second);
        if !self.known.contains(&second) {
            self.look_up_local(second)?;
        }
        local.checked_sub(self.offset * self.per_second).ok_or(Why::Range)
    }

    /// The local time of an instant.
    #[inline]
    pub(super) fn local(&mut self, instant: i64) -> Result<i64, Why> {
        let second = instant.div_euclid(self.per_second);
        if !self.known.contains(&second) {
            self.look_up_instant(second)?;
        }
        instant.checked_add(self.offset * self.per_second).ok_or(Why::Range)
    }

    #[cold]
    fn look_up_local(&mut self, second: i64) -> Result<(), Why> {
        let local = TimeZone::UTC.to_datetime(Timestamp::from_second(second).map_err(|_| Why::Range)?);
        self.known = second..second + 1;
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Gap { .. } => {
                self.known = 0..0;
                return Err(Why::Gap);
            }
            AmbiguousOffset::Fold { before, .. } => self.offset = i64::from(before.seconds()),
            AmbiguousOffset::Unambiguous { offset } => {
                self.offset = i64::from(offset.seconds());
                // The offset holds from one change of the clocks to the next, but for the local times near a change
                // that the change skips or repeats.
                let instant = second - self.offset;
                let start = self
                    .change_before(instant)
                    .map_or(i64::MIN, |change| change.at + change.offset.max(self.offset));
                let end = self
                    .change_after(instant)
                    .map_or(i64::MAX, |change| change.at + change.offset.min(self.offset));
                if (start..end).contains(&second) {
                    self.known = start..end;
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn look_up_instant(&mut self, second: i64) -> Result<(), Why> {
        let instant = Timestamp::from_second(second).map_err(|_| Why::Range)?;
        self.offset = i64::from(self.zone.to_offset(instant).seconds());
        let start = self.change_before(second).map_or(i64::MIN, |change| change.at);
        self.known = start..self.change_after(second).map_or(i64::MAX, |change| change.at);
        Ok(())
    }

    /// The last change of the clocks up to an instant, with the offset before it.
    fn change_before(&self, second: i64) -> Option<Change> {
        let change = self.zone.preceding(Timestamp::from_second(second + 1).ok()?).next()?;
        let at = change.timestamp().as_second();
        let earlier = Timestamp::from_second(at - 1).ok()?;
        Some(Change { at, offset: i64::from(self.zone.to_offset(earlier).seconds()) })
    }

    /// The next change of the clocks, with the offset after it.
    fn change_after(&self, second: i64) -> Option<Change> {
        let change = self.zone.following(Timestamp::from_second(second).ok()?).next()?;
        Some(Change { at: change.timestamp().as_second(), offset: i64::from(change.offset().seconds()) })
    }
}

/// A change of the clocks: when, and the offset on its other side.
struct Change {
    at: i64,
    offset: i64,
}

/// The zone that an Arrow type names: an IANA name or an offset such as `+08:00`; `None` for UTC.
pub(super) fn zone_of(name: &str) -> Result<Option<TimeZone>, String> {
    let unknown = || format!("the time zone `{name}` of the source is not known here");
    if let Some(sign) = name.chars().next().filter(|c| matches!(c, '+' | '-')) {
        let digits: String = name[1..].chars().filter(|c| *c != ':').collect();
        let part = |range: std::ops::Range<usize>| digits.get(range).and_then(|d| d.parse::<i32>().ok());
        let hours = part(0..2).ok_or_else(unknown)?;
        let minutes = if digits.len() > 2 { part(2..4).ok_or_else(unknown)? } else { 0 };
        if digits.len() > 4 || minutes > 59 {
            return Err(unknown());
        }
        let seconds = hours * 3600 + minutes * 60;
        let offset = jiff::tz::Offset::from_seconds(if sign == '-' { -seconds } else { seconds });
        let zone = TimeZone::fixed(offset.map_err(|_| unknown())?);
        return Ok(Some(zone).filter(|_| seconds != 0));
    }
    if name.eq_ignore_ascii_case("UTC") || name.eq_ignore_ascii_case("Z") {
        return Ok(None);
    }
    let zone = TimeZone::get(name).map_err(|_| unknown())?;
    Ok(Some(zone).filter(|zone| *zone != TimeZone::UTC))
}
