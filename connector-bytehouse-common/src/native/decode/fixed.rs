//! Columns whose values all have the same number of bytes.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{
            ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, NullArray, PrimitiveArray,
            StringBuilder,
        },
        buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer},
        datatypes::{
            ArrowNativeType, DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
            Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
            Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
            TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
            UInt32Type, UInt64Type, i256,
        },
    },
};

use super::{
    super::{
        arrow_types::{arrow_type, unit},
        encode::uuid_bytes,
        types::{ChType, EnumValues},
    },
    input::{Input, broken_column},
};
use crate::wire::io::ByteSource;

const SECONDS_PER_DAY: i64 = 86_400;

pub(super) async fn read_fixed<S: ByteSource>(
    input: &mut Input<'_, S>,
    ty: &ChType,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let Some(width) = ty.width() else {
        return Err(Error::new(ErrorKind::Unsupported, format!("columns of type {ty} cannot be read here")));
    };
    let wire = input.read_values(rows, width).await?;
    let data_type = arrow_type(ty, false)?;
    let column = Column { wire, rows, nulls, data_type };
    match ty {
        ChType::Enum8(_) | ChType::Enum16(_) => column.names(input, ty),
        ChType::DateTime64(digits, _) => column.timestamps(input, *digits),
        ChType::Time => column.times(input, 0),
        ChType::Time64 { scale, .. } => column.times(input, *scale),
        _ => column.plain(input, ty),
    }
}

/// A column's bytes and what they are to become.
struct Column {
    wire: Buffer,
    rows: usize,
    nulls: Option<NullBuffer>,
    data_type: DataType,
}

impl Column {
    /// Values whose bytes are the same on both sides.
    fn same<A: ArrowPrimitiveType>(self) -> ArrayRef {
        let values = ScalarBuffer::<A::Native>::new(self.wire, 0, self.rows);
        Arc::new(PrimitiveArray::<A>::new(values, self.nulls).with_data_type(self.data_type))
    }

    /// Values of another width or meaning.
    fn mapped<S, W: ArrowNativeType, A: ArrowPrimitiveType>(
        self,
        input: &mut Input<'_, S>,
        convert: impl Fn(W) -> A::Native,
    ) -> Result<ArrayRef>
    where
        S: ByteSource,
    {
        input.charge_values(self.rows, size_of::<A::Native>())?;
        let values: Vec<A::Native> =
            self.wire.typed_data::<W>().iter().map(|value| convert(*value)).collect();
        Ok(Arc::new(PrimitiveArray::<A>::new(values.into(), self.nulls).with_data_type(self.data_type)))
    }

    fn bytes(self, width: i32) -> Result<ArrayRef> {
        Ok(Arc::new(FixedSizeBinaryArray::try_new(width, self.wire, self.nulls).map_err(broken_column)?))
    }

    fn plain<S: ByteSource>(self, input: &mut Input<'_, S>, ty: &ChType) -> Result<ArrayRef> {
        Ok(match ty {
            ChType::Nothing => Arc::new(NullArray::new(self.rows)),
            ChType::Bool => {
                let values = BooleanBuffer::collect_bool(self.rows, |row| self.wire[row] != 0);
                Arc::new(BooleanArray::new(values, self.nulls))
            }
            ChType::Int8 => self.same::<Int8Type>(),
            ChType::Int16 => self.same::<Int16Type>(),
            ChType::Int32 => self.same::<Int32Type>(),
            ChType::Int64 | ChType::Interval(_) => self.same::<Int64Type>(),
            ChType::UInt8 => self.same::<UInt8Type>(),
            ChType::UInt16 => self.same::<UInt16Type>(),
            ChType::UInt32 | ChType::IPv4 => self.same::<UInt32Type>(),
            ChType::UInt64 => self.same::<UInt64Type>(),
            ChType::Float32 => self.same::<Float32Type>(),
            ChType::Float64 => self.same::<Float64Type>(),
            ChType::BFloat16 => {
                self.mapped::<_, u16, Float32Type>(input, |half| f32::from_bits(u32::from(half) << 16))?
            }
            ChType::Date => self.mapped::<_, u16, Date32Type>(input, i32::from)?,
            ChType::Date32 => self.same::<Date32Type>(),
            ChType::DateTime(_) => self.mapped::<_, u32, TimestampSecondType>(input, i64::from)?,
            ChType::Int128 => self.mapped::<_, i128, Decimal256Type>(input, i256::from_i128)?,
            ChType::UInt128 => self.mapped::<_, i128, Decimal256Type>(input, |value| {
                i256::from_parts(u128::from_le_bytes(value.to_le_bytes()), 0)
            })?,
            ChType::Decimal { precision, .. } => match precision {
                0..=9 => self.mapped::<_, i32, Decimal128Type>(input, i128::from)?,
                10..=18 => self.mapped::<_, i64, Decimal128Type>(input, i128::from)?,
                19..=38 => self.same::<Decimal128Type>(),
                _ => self.same::<Decimal256Type>(),
            },
            ChType::Uuid => {
                let wire: Vec<u8> =
                    self.wire.as_chunks().0.iter().flat_map(|uuid| uuid_bytes(*uuid)).collect();
                Column { wire: wire.into(), ..self }.bytes(16)?
            }
            ChType::IPv6 => self.bytes(16)?,
            ChType::Int256 | ChType::UInt256 => self.bytes(32)?,
            ChType::FixedString(width) => self.bytes(i32::try_from(*width).unwrap_or(i32::MAX))?,
            _ => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("columns of type {ty} cannot be read here"),
                ));
            }
        })
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The names of an enum's numbers.
    fn names<S: ByteSource>(self, input: &mut Input<'_, S>, ty: &ChType) -> Result<ArrayRef> {
        let (values, wide): (&EnumValues, bool) = match ty {
            ChType::Enum16(values) => (values, true),
            ChType::Enum8(values) => (values, false),
            _ => return Err(Error::new(ErrorKind::Unexpected, format!("{ty} is not an enum"))),
        };
        let mut names = StringBuilder::new();
        for row in 0..self.rows {
            if self.is_null(row) {
                names.append_null();
                continue;
            }
            let number = if wide {
                self.wire.typed_data::<i16>()[row]
            } else {
                i16::from(self.wire.typed_data::<i8>()[row])
            };
            let name = values
                .name(number)
                .ok_or_else(|| input.bad_value(row, &format!("{number} is not listed in the enum")))?;
            input.charge(name.len() + 4)?;
            names.append_value(name);
        }
        Ok(Arc::new(names.finish()))
    }

    /// 64-bit ticks, multiplied to the unit of the Arrow type.
    fn ticks<S: ByteSource>(
        &self,
        input: &mut Input<'_, S>,
        digits: u8,
        reason: &str,
    ) -> Result<ScalarBuffer<i64>> {
        let of_unit: u32 = match unit(digits) {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        let factor = 10i64.pow(of_unit - u32::from(digits.min(9)));
        if factor == 1 {
            return Ok(ScalarBuffer::new(self.wire.clone(), 0, self.rows));
        }
        input.charge_values(self.rows, 8)?;
        let mut ticks = Vec::with_capacity(self.rows);
        for (row, tick) in self.wire.typed_data::<i64>().iter().enumerate() {
            match tick.checked_mul(factor) {
                Some(tick) => ticks.push(tick),
                None if self.is_null(row) => ticks.push(0),
                None => return Err(input.bad_value(row, reason)),
            }
        }
        Ok(ticks.into())
    }

    fn timestamps<S: ByteSource>(self, input: &mut Input<'_, S>, digits: u8) -> Result<ArrayRef> {
        let ticks = self.ticks(input, digits, "the time is outside of what Arrow's nanoseconds hold")?;
        let (nulls, data_type) = (self.nulls, self.data_type);
        Ok(match unit(digits) {
            TimeUnit::Second => {
                Arc::new(PrimitiveArray::<TimestampSecondType>::new(ticks, nulls).with_data_type(data_type))
            }
            TimeUnit::Millisecond => Arc::new(
                PrimitiveArray::<TimestampMillisecondType>::new(ticks, nulls).with_data_type(data_type),
            ),
            TimeUnit::Microsecond => Arc::new(
                PrimitiveArray::<TimestampMicrosecondType>::new(ticks, nulls).with_data_type(data_type),
            ),
            TimeUnit::Nanosecond => Arc::new(
                PrimitiveArray::<TimestampNanosecondType>::new(ticks, nulls).with_data_type(data_type),
            ),
        })
    }

    /// Times of day; servers also know times outside of a day, which Arrow does not.
    fn times<S: ByteSource>(mut self, input: &mut Input<'_, S>, digits: u8) -> Result<ArrayRef> {
        const REASON: &str = "it is not a time of day";
        if self.wire.len() == 4 * self.rows {
            input.charge_values(self.rows, 8)?;
            let wide: Vec<i64> =
                self.wire.typed_data::<i32>().iter().map(|second| i64::from(*second)).collect();
            self.wire = Buffer::from_vec(wide);
        }
        let ticks = self.ticks(input, digits, REASON)?;
        let per_second = 10i64.pow(match unit(digits) {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        });
        let day = 0..SECONDS_PER_DAY * per_second;
        if let Some(row) = (0..self.rows).find(|row| !day.contains(&ticks[*row]) && !self.is_null(*row)) {
            return Err(input.bad_value(row, REASON));
        }
        let nulls = self.nulls;
        Ok(match unit(digits) {
            TimeUnit::Microsecond => Arc::new(PrimitiveArray::<Time64MicrosecondType>::new(ticks, nulls)),
            TimeUnit::Nanosecond => Arc::new(PrimitiveArray::<Time64NanosecondType>::new(ticks, nulls)),
            coarse => {
                // They fit: a day has 86,400,000 milliseconds.
                let ticks: Vec<i32> = ticks.iter().map(|tick| i32::try_from(*tick).unwrap_or(0)).collect();
                match coarse {
                    TimeUnit::Second => {
                        Arc::new(PrimitiveArray::<Time32SecondType>::new(ticks.into(), nulls))
                    }
                    _ => Arc::new(PrimitiveArray::<Time32MillisecondType>::new(ticks.into(), nulls)),
                }
            }
        })
    }
}
