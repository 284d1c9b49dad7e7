//! Integers, decimals and floats.

use connector_core::arrow::{
    array::{Array, ArrowPrimitiveType, AsArray},
    datatypes::{
        DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type,
        Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type, i256,
    },
};

use super::{
    super::types::{ChType, EnumValues},
    cells::{Encode, Fault, Values, put_booleans, put_cells},
    wide::{Rescale, Room, Wide, decimal_text},
};
use crate::native::EncodeRules;

/// The encoder for numbers and booleans; `None` when the types do not go together.
pub(super) fn plan(source: &DataType, target: &ChType, rules: &EncodeRules) -> Option<Encode> {
    Some(match (source, target) {
        (DataType::Boolean, ChType::Bool | ChType::UInt8 | ChType::Int8) => Box::new(|array, absent, out| {
            put_booleans(array.as_boolean().values(), absent, out);
            Ok(())
        }),
        (DataType::Int8, ChType::Int8) => copied::<Int8Type, 1>(),
        (DataType::Int16, ChType::Int16) => copied::<Int16Type, 2>(),
        (DataType::Int32, ChType::Int32) => copied::<Int32Type, 4>(),
        (DataType::Int64, ChType::Int64 | ChType::Interval(_)) => copied::<Int64Type, 8>(),
        (DataType::UInt8, ChType::UInt8) => copied::<UInt8Type, 1>(),
        (DataType::UInt16, ChType::UInt16) => copied::<UInt16Type, 2>(),
        (DataType::UInt32, ChType::UInt32 | ChType::IPv4) => copied::<UInt32Type, 4>(),
        (DataType::UInt64, ChType::UInt64) => copied::<UInt64Type, 8>(),
        (DataType::Float32, ChType::Float32) => copied::<Float32Type, 4>(),
        (DataType::Float64, ChType::Float64) => copied::<Float64Type, 8>(),
        (DataType::Float16 | DataType::Float32 | DataType::Float64, _) => return float(source, target),
        (_, ChType::Float32 | ChType::Float64) => return integer_to_float(source, target),
        (_, ChType::Enum8(values)) => listed(narrow(source)?, source.is_integer(), values.clone(), |n| {
            i8::try_from(n).ok().map(i8::to_le_bytes)
        })?,
        (_, ChType::Enum16(values)) => {
            listed(narrow(source)?, source.is_integer(), values.clone(), |n| Some(n.to_le_bytes()))?
        }
        _ => return exact(source, target, rules),
    })
}

/// A number's own bytes, as they stand on the wire.
pub(super) trait NativeBytes<const W: usize>: Copy {
    fn bytes(self) -> [u8; W];
}

macro_rules! native_bytes {
    ($($type:ty => $width:literal),*) => {
        $(impl NativeBytes<$width> for $type {
            #[inline(always)]
            fn bytes(self) -> [u8; $width] {
                self.to_le_bytes()
            }
        })*
    };
}
native_bytes!(i8 => 1, i16 => 2, i32 => 4, i64 => 8, u8 => 1, u16 => 2, u32 => 4, u64 => 8, f32 => 4, f64 => 8);

/// Values whose bytes are the same on both sides.
pub(super) fn copied<A: ArrowPrimitiveType, const W: usize>() -> Encode
where
    A::Native: NativeBytes<W>,
{
    Box::new(|array, absent, out| {
        let values = array.as_primitive::<A>().values();
        if absent.is_none() {
            out.extend_from_slice(values.inner().as_slice());
            return Ok(());
        }
        put_cells(values, absent, [0; W], out, |value| Some(value.bytes()))
            .map_err(|i| Fault::bad(i, "", "it cannot be copied"))
    })
}

fn each<A: ArrowPrimitiveType, N>(
    array: &dyn Array,
    at: usize,
    out: &mut [N],
    convert: impl Fn(A::Native) -> N,
) {
    for (slot, value) in out.iter_mut().zip(&array.as_primitive::<A>().values()[at..]) {
        *slot = convert(*value);
    }
}

macro_rules! fill {
    ($source:expr, $convert:expr, $($pattern:pat => $array:ty),*) => {
        match $source {
            $($pattern => Values::Filled(|array, at, out| {
                each::<$array, _>(array, at, out, |value| $convert(i128::from(value)));
            }),)*
            _ => return None,
        }
    };
}

macro_rules! fill_exact {
    ($source:expr, $convert:expr) => {
        fill!($source, $convert,
            DataType::Int8 => Int8Type, DataType::Int16 => Int16Type, DataType::Int32 => Int32Type,
            DataType::Int64 => Int64Type, DataType::UInt8 => UInt8Type, DataType::UInt16 => UInt16Type,
            DataType::UInt32 => UInt32Type, DataType::UInt64 => UInt64Type,
            DataType::Decimal32(..) => Decimal32Type, DataType::Decimal64(..) => Decimal64Type,
            DataType::Decimal128(..) => Decimal128Type)
    };
}

fn narrow(source: &DataType) -> Option<Values<i128>> {
    if matches!(source, DataType::Decimal128(..)) {
        return Some(Values::Direct(|array| array.as_primitive::<Decimal128Type>().values()));
    }
    Some(fill_exact!(source, |value: i128| value))
}

fn wide(source: &DataType) -> Option<Values<i256>> {
    if matches!(source, DataType::Decimal256(..)) {
        return Some(Values::Direct(|array| array.as_primitive::<Decimal256Type>().values()));
    }
    Some(fill_exact!(source, i256::from_i128))
}

/// Digits behind the point of an exact number.
fn scale_of(source: &DataType) -> i8 {
    match source {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    }
}

/// Integers and decimals to integers, decimals and `Bool`; integers also to `IPv4` and intervals.
fn exact(source: &DataType, target: &ChType, rules: &EncodeRules) -> Option<Encode> {
    let room = Room::of(target)?;
    if matches!(target, ChType::IPv4 | ChType::Interval(_)) && !source.is_integer() {
        return None;
    }
    let scale = scale_of(source);
    let rescale = Rescale::between(scale, room.scale);
    // 128 bits are enough for most; numbers of 256 bits cost several times as much.
    if let (Some(values), Some(room), Some(rescale)) = (narrow(source), room.narrow(), rescale.narrow()) {
        return by_width(
            target.width()?,
            Exact { values, room, rescale, scale, round_down: rules.round_down },
        );
    }
    by_width(
        target.width()?,
        Exact { values: wide(source)?, room, rescale, scale, round_down: rules.round_down },
    )
}

/// How exact numbers of one source become those of a target.
struct Exact<N> {
    values: Values<N>,
    room: Room<N>,
    rescale: Rescale<N>,
    scale: i8,
    round_down: bool,
}

fn by_width<N: Wide>(width: usize, exact: Exact<N>) -> Option<Encode> {
    Some(match width {
        1 => exact.encode::<1>(),
        2 => exact.encode::<2>(),
        4 => exact.encode::<4>(),
        8 => exact.encode::<8>(),
        16 => exact.encode::<16>(),
        32 => exact.encode::<32>(),
        _ => return None,
    })
}

impl<N: Wide> Exact<N> {
    fn encode<const W: usize>(self) -> Encode {
        Box::new(move |array, absent, out| {
            let Room { min, max, .. } = self.room;
            let outcome = match &self.rescale {
                Rescale::Same => self.values.put(array, absent, [0; W], out, |value: N| {
                    if value >= min && value <= max { Some(value.low_bytes()) } else { None }
                }),
                rescale => self.values.put(array, absent, [0; W], out, |value: N| {
                    let value = rescale.apply(value, self.round_down)?;
                    if value >= min && value <= max { Some(value.low_bytes()) } else { None }
                }),
            };
            outcome.map_err(|index| self.fault(array, index))
        })
    }

    #[cold]
    fn fault(&self, array: &dyn Array, index: usize) -> Fault {
        let value = self.values.get(array, index);
        let whole = self.rescale.apply(value, true);
        let fits = whole.is_some_and(|whole| whole >= self.room.min && whole <= self.room.max);
        let reason = match self.room.scale {
            0 if fits => "the type holds whole numbers only".to_owned(),
            scale if fits => format!("the type holds {scale} digits behind the point"),
            _ => self.room.limits(),
        };
        Fault::bad(index, decimal_text(&value.to_string(), self.scale), reason)
    }
}

/// Integers as the numbers of an enum; only listed ones.
fn listed<const W: usize>(
    numbers: Values<i128>,
    integer: bool,
    values: EnumValues,
    bytes: impl Fn(i16) -> Option<[u8; W]> + Send + Sync + 'static,
) -> Option<Encode> {
    let default = bytes(values.smallest())?;
    integer.then(|| -> Encode {
        Box::new(move |array, absent, out| {
            let outcome = numbers.put(array, absent, default, out, |number| {
                let number = i16::try_from(number).ok()?;
                values.name(number)?;
                bytes(number)
            });
            outcome.map_err(|index| {
                let number = numbers.get(array, index).to_string();
                Fault::bad(index, number, "the number is not listed in the enum")
            })
        })
    })
}

/// Integers as floats; only those that a float holds exactly.
fn integer_to_float(source: &DataType, target: &ChType) -> Option<Encode> {
    let values = narrow(source).filter(|_| source.is_integer())?;
    let fault = move |array: &dyn Array, index: usize| {
        Fault::bad(index, values.get(array, index).to_string(), "the type holds it only approximately")
    };
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "compared with the way back"
    )]
    Some(match target {
        ChType::Float32 => Box::new(move |array, absent, out| {
            let outcome = values.put(array, absent, [0; 4], out, |value| {
                let float = value as f32;
                (float as i128 == value).then(|| float.to_le_bytes())
            });
            outcome.map_err(|index| fault(array, index))
        }),
        _ => Box::new(move |array, absent, out| {
            let outcome = values.put(array, absent, [0; 8], out, |value| {
                let float = value as f64;
                (float as i128 == value).then(|| float.to_le_bytes())
            });
            outcome.map_err(|index| fault(array, index))
        }),
    })
}

/// Floats of another width: wider always, narrower when nothing is lost.
fn float(source: &DataType, target: &ChType) -> Option<Encode> {
    Some(match (source, target) {
        (DataType::Float16, ChType::Float32) => {
            converted::<Float16Type, 4>(|v| Some(v.to_f32().to_le_bytes()), |v| v.to_string())
        }
        (DataType::Float16, ChType::Float64) => {
            converted::<Float16Type, 8>(|v| Some(v.to_f64().to_le_bytes()), |v| v.to_string())
        }
        (DataType::Float16, ChType::BFloat16) => {
            converted::<Float16Type, 2>(|v| upper_half(v.to_f32()), |v| v.to_string())
        }
        (DataType::Float32, ChType::Float64) => {
            converted::<Float32Type, 8>(|v| Some(f64::from(v).to_le_bytes()), |v| v.to_string())
        }
        (DataType::Float32, ChType::BFloat16) => converted::<Float32Type, 2>(upper_half, |v| v.to_string()),
        (DataType::Float64, ChType::Float32) => {
            converted::<Float64Type, 4>(|v| shortened(v).map(f32::to_le_bytes), |v| v.to_string())
        }
        (DataType::Float64, ChType::BFloat16) => {
            converted::<Float64Type, 2>(|v| shortened(v).and_then(upper_half), |v| v.to_string())
        }
        _ => return None,
    })
}

fn converted<A: ArrowPrimitiveType, const W: usize>(
    convert: fn(A::Native) -> Option<[u8; W]>,
    show: fn(A::Native) -> String,
) -> Encode {
    Box::new(move |array, absent, out| {
        let values = array.as_primitive::<A>().values();
        put_cells(values, absent, [0; W], out, convert)
            .map_err(|i| Fault::bad(i, show(values[i]), "the type holds it only approximately"))
    })
}

#[allow(clippy::cast_possible_truncation, reason = "compared with the way back")]
fn shortened(value: f64) -> Option<f32> {
    let short = value as f32;
    (f64::from(short) == value || value.is_nan()).then_some(short)
}

/// The bytes of a `BFloat16`.
fn upper_half(value: f32) -> Option<[u8; 2]> {
    let [a, b, c, d] = value.to_le_bytes();
    if value.is_nan() {
        // The mark of a NaN may lie in the lower half.
        return Some([c | 0x40, d]);
    }
    ((a, b) == (0, 0)).then_some([c, d])
}
