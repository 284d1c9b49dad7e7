//! Parts and starts of dates and times.

use connector_bytehouse_common::native::ChType;
use jiff::civil::{Date, DateTime, Time};

use super::{Evaluated, Plan, expect, illegal};
use crate::{
    engine::{
        eval::Scope,
        value::{Value, Zone, days_of, plain},
    },
    exception::{Result, exception},
};

pub(super) fn plan<'a>(
    name: &'a str,
    args: &'a [Evaluated],
    scope: &'a Scope<'_>,
) -> Result<Option<Plan<'a>>> {
    let ty = match name {
        "toYear" => ChType::UInt16,
        "toMonth" | "toQuarter" | "toDayOfMonth" | "toDayOfWeek" | "toHour" | "toMinute" | "toSecond" => {
            ChType::UInt8
        }
        "toYYYYMM" | "toYYYYMMDD" | "toUnixTimestamp" => ChType::UInt32,
        "toYYYYMMDDhhmmss" => ChType::UInt64,
        "toStartOfYear" | "toStartOfQuarter" | "toStartOfMonth" | "toMonday" => ChType::Date,
        "toStartOfDay" | "toStartOfHour" | "toStartOfMinute" => ChType::DateTime(None),
        "toUnixTimestamp64Milli" | "toUnixTimestamp64Micro" | "toUnixTimestamp64Nano" => ChType::Int64,
        _ => return Ok(None),
    };
    expect(name, args, 1..=1)?;
    let from = plain(&args[0].ty);
    if !matches!(
        from,
        ChType::Date | ChType::Date32 | ChType::DateTime(_) | ChType::DateTime64(..) | ChType::Nothing
    ) {
        return Err(illegal(name, from));
    }
    let zone = scope.context.zone.of(from);
    Ok(Some(Plan::new(ty, move |row| part(name, &row[0], &zone))))
}

fn part(name: &str, value: &Value, zone: &Zone) -> Result<Value> {
    let out_of_range = || exception!(ARGUMENT_OUT_OF_BOUND, "the argument of {name} is out of range");
    if let (Some(scale), Value::Instant(ticks, from)) = (epoch_scale(name), value) {
        let factor = 10i64.checked_pow(u32::from(scale.saturating_sub(*from))).ok_or_else(out_of_range)?;
        let divisor = 10i64.checked_pow(u32::from(from.saturating_sub(scale))).ok_or_else(out_of_range)?;
        return Ok(Value::int(ticks.div_euclid(divisor).checked_mul(factor).ok_or_else(out_of_range)?));
    }
    let local: DateTime = match value {
        Value::Date(days) => zone.civil(*days).ok_or_else(out_of_range)?,
        Value::Instant(ticks, scale) => zone.local(*ticks, *scale).ok_or_else(out_of_range)?,
        _ => return Err(out_of_range()),
    };
    let date = local.date();
    let (year, month, day) = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
    let (hour, minute, second) =
        (i64::from(local.hour()), i64::from(local.minute()), i64::from(local.second()));
    let start = |date: Option<Date>| date.map(|d| Value::Date(days_of(d))).ok_or_else(out_of_range);
    let instant = |time: Option<Time>| {
        let ticks = time.and_then(|time| zone.instant(date.to_datetime(time), 0));
        ticks.map(|ticks| Value::Instant(ticks, 0)).ok_or_else(out_of_range)
    };
    Ok(Value::int(match name {
        "toYear" => year,
        "toQuarter" => (month + 2) / 3,
        "toMonth" => month,
        "toDayOfMonth" => day,
        "toDayOfWeek" => i64::from(date.weekday().to_monday_one_offset()),
        "toHour" => hour,
        "toMinute" => minute,
        "toSecond" => second,
        "toYYYYMM" => year * 100 + month,
        "toYYYYMMDD" => (year * 100 + month) * 100 + day,
        "toYYYYMMDDhhmmss" => {
            ((((year * 100 + month) * 100 + day) * 100 + hour) * 100 + minute) * 100 + second
        }
        "toUnixTimestamp" => zone.instant(local, 0).ok_or_else(out_of_range)?,
        "toStartOfYear" => return start(Date::new(date.year(), 1, 1).ok()),
        "toStartOfQuarter" => return start(Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1).ok()),
        "toStartOfMonth" => return start(Date::new(date.year(), date.month(), 1).ok()),
        "toMonday" => {
            return Ok(Value::Date(days_of(date) - i32::from(date.weekday().to_monday_zero_offset())));
        }
        "toStartOfDay" => return instant(Some(Time::midnight())),
        "toStartOfHour" => return instant(Time::new(local.hour(), 0, 0, 0).ok()),
        "toStartOfMinute" => return instant(Time::new(local.hour(), local.minute(), 0, 0).ok()),
        _ => return Err(out_of_range()),
    }))
}

fn epoch_scale(name: &str) -> Option<u8> {
    match name {
        "toUnixTimestamp" => Some(0),
        "toUnixTimestamp64Milli" => Some(3),
        "toUnixTimestamp64Micro" => Some(6),
        "toUnixTimestamp64Nano" => Some(9),
        _ => None,
    }
}
