//! Exact arithmetic on integers and decimals: 128 bits wide, or 256 where that is not enough.

use std::fmt::Display;

use connector_core::arrow::datatypes::{ArrowNativeType, i256};

use super::super::types::ChType;

/// A width in which exact numbers are compared and scaled.
pub(super) trait Wide: ArrowNativeType + Display + Ord + Default + Send + Sync {
    fn times(self, factor: Self) -> Option<Self>;

    /// The next smaller whole quotient by a positive divisor, and whether the division was exact.
    fn floor_div(self, divisor: Self) -> (Self, bool);

    /// The low `W` bytes, with the sign in front where there are more than the number has.
    fn low_bytes<const W: usize>(self) -> [u8; W];
}

impl Wide for i128 {
    #[inline(always)]
    fn times(self, factor: Self) -> Option<Self> {
        self.checked_mul(factor)
    }

    #[inline(always)]
    fn floor_div(self, divisor: Self) -> (Self, bool) {
        // Division of 128-bit numbers is slow and few values need it.
        if let (Ok(value), Ok(divisor)) = (i64::try_from(self), i64::try_from(divisor)) {
            (i128::from(value.div_euclid(divisor)), value.rem_euclid(divisor) == 0)
        } else {
            (self.div_euclid(divisor), self.rem_euclid(divisor) == 0)
        }
    }

    #[inline(always)]
    fn low_bytes<const W: usize>(self) -> [u8; W] {
        let bytes = self.to_le_bytes();
        let mut low = [if self < 0 { 0xff } else { 0 }; W];
        let count = W.min(bytes.len());
        low[..count].copy_from_slice(&bytes[..count]);
        low
    }
}

impl Wide for i256 {
    fn times(self, factor: Self) -> Option<Self> {
        self.checked_mul(factor)
    }

    fn floor_div(self, divisor: Self) -> (Self, bool) {
        let (quotient, rest) = (self.wrapping_div(divisor), self.wrapping_rem(divisor));
        let exact = rest == i256::ZERO;
        (if self.is_negative() && !exact { quotient.wrapping_sub(i256::ONE) } else { quotient }, exact)
    }

    fn low_bytes<const W: usize>(self) -> [u8; W] {
        let bytes = self.to_le_bytes();
        let mut low = [if self.is_negative() { 0xff } else { 0 }; W];
        let count = W.min(bytes.len());
        low[..count].copy_from_slice(&bytes[..count]);
        low
    }
}

/// What a type has room for: `min` to `max`, in units of `10^-scale`.
pub(super) struct Room<N> {
    pub(super) min: N,
    pub(super) max: N,
    pub(super) scale: u8,
}

impl Room<i256> {
    /// The room of an integer, decimal, interval, `Bool` or `IPv4`.
    pub(super) fn of(target: &ChType) -> Option<Self> {
        let power = |base: i128, exponent: u32| i256::from_i128(base).checked_pow(exponent);
        let below = |bits: u32| Some(power(2, bits)?.wrapping_sub(i256::ONE));
        let signed = |bits: u32| {
            Some(Self { min: power(2, bits - 1)?.wrapping_neg(), max: below(bits - 1)?, scale: 0 })
        };
        let unsigned = |bits: u32| Some(Self { min: i256::ZERO, max: below(bits)?, scale: 0 });
        match target {
            ChType::Int8 => signed(8),
            ChType::Int16 => signed(16),
            ChType::Int32 => signed(32),
            ChType::Int64 | ChType::Interval(_) => signed(64),
            ChType::Int128 => signed(128),
            ChType::Int256 => Some(Self { min: i256::MIN, max: i256::MAX, scale: 0 }),
            ChType::Bool => unsigned(1),
            ChType::UInt8 => unsigned(8),
            ChType::UInt16 => unsigned(16),
            ChType::UInt32 | ChType::IPv4 => unsigned(32),
            ChType::UInt64 => unsigned(64),
            ChType::UInt128 => unsigned(128),
            // It holds more, but no Arrow number does.
            ChType::UInt256 => Some(Self { min: i256::ZERO, max: i256::MAX, scale: 0 }),
            ChType::Decimal { precision, scale } => {
                let max = power(10, u32::from(*precision))?.wrapping_sub(i256::ONE);
                Some(Self { min: max.wrapping_neg(), max, scale: *scale })
            }
            _ => None,
        }
    }

    pub(super) fn narrow(&self) -> Option<Room<i128>> {
        Some(Room { min: self.min.to_i128()?, max: self.max.to_i128()?, scale: self.scale })
    }
}

impl<N: Wide> Room<N> {
    pub(super) fn limits(&self) -> String {
        let scale = i8::try_from(self.scale).unwrap_or(0);
        let text = |value: N| decimal_text(&value.to_string(), scale);
        format!("the type holds {} to {}", text(self.min), text(self.max))
    }
}

/// How a number gets from one scale to another.
#[derive(Clone, Copy)]
pub(super) enum Rescale<N> {
    Same,
    /// Times a power of ten; `None` for one so large that only zero survives it.
    Up(Option<N>),
    /// By a power of ten; `None` as above.
    Down(Option<N>),
}

impl Rescale<i256> {
    pub(super) fn between(from: i8, to: u8) -> Self {
        let digits = i16::from(to) - i16::from(from);
        let power = i256::from_i128(10).checked_pow(u32::from(digits.unsigned_abs()));
        match digits {
            0 => Self::Same,
            1.. => Self::Up(power),
            _ => Self::Down(power),
        }
    }

    /// The same with numbers of 128 bits, if its power fits.
    pub(super) fn narrow(&self) -> Option<Rescale<i128>> {
        Some(match self {
            Self::Same => Rescale::Same,
            Self::Up(power) => Rescale::Up(Some((*power)?.to_i128()?)),
            Self::Down(power) => Rescale::Down(Some((*power)?.to_i128()?)),
        })
    }
}

impl<N: Wide> Rescale<N> {
    /// The value in the other scale; `None` when it is too large, or loses digits that `round_down` does not drop.
    #[inline(always)]
    pub(super) fn apply(&self, value: N, round_down: bool) -> Option<N> {
        match self {
            Self::Same => Some(value),
            Self::Up(Some(factor)) => value.times(*factor),
            Self::Down(Some(divisor)) => {
                let (quotient, exact) = value.floor_div(*divisor);
                (exact || round_down).then_some(quotient)
            }
            Self::Up(None) | Self::Down(None) => (value == N::default()).then_some(value),
        }
    }
}

/// The digits of a whole number with a point before the last `scale` of them.
pub(super) fn decimal_text(digits: &str, scale: i8) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    match usize::try_from(scale) {
        Ok(0) => format!("{sign}{digits}"),
        Ok(scale) => {
            let padded = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = padded.split_at(padded.len() - scale);
            format!("{sign}{whole}.{fraction}")
        }
        Err(_) if digits == "0" => "0".to_owned(),
        Err(_) => format!("{sign}{digits}{}", "0".repeat(usize::from(scale.unsigned_abs()))),
    }
}
