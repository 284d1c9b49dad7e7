//! Booleans, integers, floats and decimals.

use std::{fmt::Display, sync::Arc};

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{
            ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BooleanArray, BooleanBufferBuilder,
            NullBufferBuilder,
        },
        datatypes::{DecimalType, Float32Type, Float64Type, i256, validate_decimal_precision_and_scale},
        error::ArrowError,
    },
};

use super::{
    DecimalText, JsonOptions,
    column::{Build, Context, Given, Store},
    cursor::Cursor,
    encoding::{Encoding, decimal_text},
    error::{Fault, JsonErrorKind},
    number::{Number, POW10, ShortDecimal, plain_integer, short_decimal},
    text::unscaled_decimal,
};

/// `true` and `false`.
#[derive(Debug)]
pub(super) struct BooleanColumn {
    values: BooleanBufferBuilder,
    validity: NullBufferBuilder,
    hint: usize,
}

impl BooleanColumn {
    pub(super) fn new() -> Self {
        Self { values: BooleanBufferBuilder::new(0), validity: NullBufferBuilder::new(0), hint: 0 }
    }

    fn push(&mut self, value: bool) {
        self.values.append(value);
        self.validity.append_non_null();
    }
}

const BOOLEAN: &str = "true, false, 1 or 0";

fn boolean_text(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

impl Build for BooleanColumn {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let lenient = context.options.lenient_booleans;
        let value = match cursor.peek() {
            b't' => cursor.literal("true").map(|()| true)?,
            b'f' => cursor.literal("false").map(|()| false)?,
            b'0' | b'1' if lenient => {
                let start = cursor.pos();
                let number = cursor.number()?.raw;
                boolean_text(number).ok_or_else(|| Fault::new(JsonErrorKind::OutOfRange, start, BOOLEAN))?
            }
            b'"' if lenient => {
                let start = cursor.pos();
                boolean_text(cursor.string(&mut context.scratch)?)
                    .ok_or_else(|| Fault::new(JsonErrorKind::InvalidText, start, BOOLEAN))?
            }
            _ => return Err(cursor.mismatch("true or false")),
        };
        self.push(value);
        Ok(())
    }

    fn decode_text(&mut self, text: &str, _: &mut Context) -> Result<(), Fault> {
        let value = boolean_text(text);
        self.push(value.ok_or_else(|| Fault::new(JsonErrorKind::InvalidText, 0, BOOLEAN))?);
        Ok(())
    }

    fn take(&mut self, given: Given<'_>, _: &Context) -> bool {
        let Given::Boolean(value) = given else { return false };
        self.push(value);
        true
    }

    fn append_null(&mut self) {
        self.values.append(false);
        self.validity.append_null();
    }

    fn append_filler(&mut self) {
        self.values.append(false);
        self.validity.append_non_null();
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.validity.truncate(len);
    }

    fn reserve(&mut self) {
        self.values.reserve(self.hint);
        self.validity = NullBufferBuilder::new(self.hint);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.hint = self.values.len();
        Ok(Arc::new(BooleanArray::new(self.values.finish(), self.validity.finish())))
    }

    fn memory_size(&self) -> usize {
        self.values.len().div_ceil(8) * 2
    }
}

/// Implements what all columns over a [`Store`] named `store` have in common.
macro_rules! store_methods {
    () => {
        fn append_null(&mut self) {
            self.store.push_null();
        }

        fn append_filler(&mut self) {
            self.store.push_filler();
        }

        fn truncate(&mut self, len: usize) {
            self.store.truncate(len);
        }

        fn reserve(&mut self) {
            self.store.reserve();
        }

        fn memory_size(&self) -> usize {
            self.store.memory_size()
        }
    };
}
pub(super) use store_methods;

/// The integers of Rust that Arrow has.
pub(super) trait Integer:
    ArrowNativeTypeOp + TryFrom<u64> + TryFrom<i64> + TryFrom<i128> + Display
{
    /// The value with the bits of a negative `value`, where the type is unsigned and as wide.
    fn from_twos_complement(value: i128) -> Option<Self>;
}

macro_rules! signed {
    ($($native:ty),+) => {
        $(impl Integer for $native {
            fn from_twos_complement(_: i128) -> Option<Self> {
                None
            }
        })+
    };
}

macro_rules! unsigned {
    ($($native:ty as $signed:ty),+) => {
        $(impl Integer for $native {
            fn from_twos_complement(value: i128) -> Option<Self> {
                <$signed>::try_from(value).ok().map(<$signed>::cast_unsigned)
            }
        })+
    };
}

signed!(i8, i16, i32, i64);
unsigned!(u8 as i8, u16 as i16, u32 as i32, u64 as i64);

/// Integers, from numbers and from texts of numbers.
#[derive(Debug)]
pub(super) struct IntegerColumn<T: ArrowPrimitiveType> {
    store: Store<T>,
}

impl<T: ArrowPrimitiveType<Native: Integer>> IntegerColumn<T> {
    pub(super) fn new() -> Self {
        Self { store: Store::new() }
    }

    fn expected() -> String {
        format!("an integer from {} to {}", T::Native::MIN_TOTAL_ORDER, T::Native::MAX_TOTAL_ORDER)
    }

    #[inline]
    fn short(&self, (negative, magnitude): (bool, u64)) -> Option<T::Native> {
        if negative {
            T::Native::try_from(0_i64.checked_sub_unsigned(magnitude)?).ok()
        } else {
            T::Native::try_from(magnitude).ok()
        }
    }

    fn read_text(&self, text: &str, reinterpret: bool) -> Result<T::Native, JsonErrorKind> {
        match plain_integer(text.as_bytes()).and_then(|short| self.short(short)) {
            Some(value) => Ok(value),
            None => Number::from_text(text)
                .ok_or(JsonErrorKind::InvalidText)
                .and_then(|number| self.exact(&number, reinterpret)),
        }
    }

    #[cold]
    fn exact(&self, number: &Number<'_>, reinterpret: bool) -> Result<T::Native, JsonErrorKind> {
        let scaled = number.scaled(0).ok_or(JsonErrorKind::OutOfRange)?;
        if scaled.cut {
            return Err(JsonErrorKind::Inexact);
        }
        let value = scaled.value.to_i128().ok_or(JsonErrorKind::OutOfRange)?;
        let mut native = T::Native::try_from(value).ok();
        if native.is_none() && reinterpret && value < 0 {
            native = T::Native::from_twos_complement(value);
        }
        native.ok_or(JsonErrorKind::OutOfRange)
    }
}

impl<T: ArrowPrimitiveType<Native: Integer>> Build for IntegerColumn<T> {
    #[inline]
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let start = cursor.pos();
        let reinterpret = context.options.reinterpret_unsigned;
        let value = match cursor.peek() {
            b'"' => self.read_text(cursor.string(&mut context.scratch)?, reinterpret),
            b'-' | b'0'..=b'9' => match cursor.short_integer().and_then(|short| self.short(short)) {
                Some(value) => Ok(value),
                None => {
                    cursor.set_pos(start);
                    self.exact(&cursor.number()?, reinterpret)
                }
            },
            _ => return Err(cursor.mismatch(Self::expected())),
        };
        self.store.push(value.map_err(|kind| Fault::new(kind, start, Self::expected()))?);
        Ok(())
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        let value = self.read_text(text, context.options.reinterpret_unsigned);
        self.store.push(value.map_err(|kind| Fault::new(kind, 0, Self::expected()))?);
        Ok(())
    }

    #[inline]
    fn take(&mut self, given: Given<'_>, _: &Context) -> bool {
        let Given::Integer(value) = given else { return false };
        T::Native::try_from(value).map(|value| self.store.push(value)).is_ok()
    }

    store_methods!();

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.store.finish()?))
    }
}

/// The floats of Rust that Arrow and JSON share.
pub(super) trait Float: ArrowNativeTypeOp + std::str::FromStr {
    const NAME: &'static str;
    const LIMIT: Self;
    const NAN: Self;
    const INFINITY: Self;
    const NEGATIVE_INFINITY: Self;
    fn is_finite(self) -> bool;
    /// The nearest number.
    fn nearest(value: f64) -> Self;
}

macro_rules! floats {
    ($($native:ty = $name:literal),+) => {
        $(impl Float for $native {
            const NAME: &'static str = $name;
            const LIMIT: Self = <$native>::MAX;
            const NAN: Self = <$native>::NAN;
            const INFINITY: Self = <$native>::INFINITY;
            const NEGATIVE_INFINITY: Self = <$native>::NEG_INFINITY;

            fn is_finite(self) -> bool {
                <$native>::is_finite(self)
            }

            #[allow(clippy::cast_possible_truncation, reason = "it rounds")]
            fn nearest(value: f64) -> Self {
                value as $native
            }
        })+
    };
}

floats!(f32 = "a 32-bit", f64 = "a 64-bit");

/// Floating-point numbers: the nearest one to the digits as they stand.
#[derive(Debug)]
pub(super) struct FloatColumn<T: ArrowPrimitiveType> {
    store: Store<T>,
}

/// The Arrow types of [`Float`].
pub(super) trait FloatType: ArrowPrimitiveType<Native: Float> {}
impl FloatType for Float32Type {}
impl FloatType for Float64Type {}

impl<T: FloatType> FloatColumn<T> {
    pub(super) fn new() -> Self {
        Self { store: Store::new() }
    }

    fn expected() -> String {
        format!(
            "{} floating-point number up to {:?}; JSON has no NaN or Infinity",
            T::Native::NAME,
            T::Native::LIMIT
        )
    }

    fn nearest(digits: &str) -> Result<T::Native, JsonErrorKind> {
        let value = digits.parse::<T::Native>().map_err(|_| JsonErrorKind::InvalidText)?;
        if value.is_finite() { Ok(value) } else { Err(JsonErrorKind::OutOfRange) }
    }

    fn from_text(text: &str, text_nan: bool) -> Result<T::Native, JsonErrorKind> {
        match text {
            "NaN" if text_nan => Ok(T::Native::NAN),
            "Infinity" | "+Infinity" if text_nan => Ok(T::Native::INFINITY),
            "-Infinity" if text_nan => Ok(T::Native::NEGATIVE_INFINITY),
            // Rust reads `inf` and `nan` too, so the grammar is checked first.
            _ => Self::nearest(Number::from_text(text).ok_or(JsonErrorKind::InvalidText)?.raw),
        }
    }
}

impl<T: FloatType> Build for FloatColumn<T> {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let start = cursor.pos();
        let value = match cursor.peek() {
            b'-' | b'0'..=b'9' => Self::nearest(cursor.number()?.raw),
            b'"' => {
                let text_nan = context.options.text_nan;
                Self::from_text(cursor.string(&mut context.scratch)?, text_nan)
            }
            _ => return Err(cursor.mismatch(Self::expected())),
        };
        self.store.push(value.map_err(|kind| Fault::new(kind, start, Self::expected()))?);
        Ok(())
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        let value = Self::from_text(text, context.options.text_nan);
        self.store.push(value.map_err(|kind| Fault::new(kind, 0, Self::expected()))?);
        Ok(())
    }

    fn take(&mut self, given: Given<'_>, _: &Context) -> bool {
        let Given::Float(value) = given else { return false };
        let value = T::Native::nearest(value);
        if value.is_finite() {
            self.store.push(value);
        }
        value.is_finite()
    }

    store_methods!();

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.store.finish()?))
    }
}

/// The integers that hold decimals.
pub(super) trait DecimalNative: ArrowNativeTypeOp {
    fn from_i128(value: i128) -> Option<Self>;
    fn from_i256(value: i256) -> Option<Self>;
}

macro_rules! decimal_natives {
    ($($native:ty),+) => {
        $(impl DecimalNative for $native {
            #[inline]
            fn from_i128(value: i128) -> Option<Self> {
                value.try_into().ok()
            }

            fn from_i256(value: i256) -> Option<Self> {
                Self::from_i128(value.to_i128()?)
            }
        })+
    };
}

decimal_natives!(i32, i64, i128);

impl DecimalNative for i256 {
    fn from_i128(value: i128) -> Option<Self> {
        Some(Self::from_i128(value))
    }

    fn from_i256(value: i256) -> Option<Self> {
        Some(value)
    }
}

/// Decimals from the digits of numbers and of texts.
#[derive(Debug)]
pub(super) struct DecimalColumn<T: DecimalType> {
    store: Store<T>,
    precision: u8,
    scale: i8,
    /// The first magnitude that has too many digits, as far as a short decimal can reach.
    short_limit: u64,
    encoding: Encoding,
    /// An unscaled number, and its digits.
    unscaled: Vec<u8>,
    digits: String,
}

impl<T: DecimalType<Native: DecimalNative>> DecimalColumn<T> {
    pub(super) fn new(
        precision: u8,
        scale: i8,
        encoding: Encoding,
        path: &str,
        options: &JsonOptions,
    ) -> Result<Self> {
        validate_decimal_precision_and_scale::<T>(precision, scale).map_err(|e| {
            Error::new(ErrorKind::SchemaMismatch, format!("column `{path}` has no valid decimal type"))
                .with_context("column", path)
                .with_source(e)
        })?;
        let short_limit = POW10.get(usize::from(precision)).copied().unwrap_or(u64::MAX);
        let encoding = match (encoding, options.decimal_text) {
            (Encoding::Plain, DecimalText::Base64) | (Encoding::Decimal(None), _) => {
                Encoding::Decimal(Some(i32::from(scale)))
            }
            (encoding, _) => encoding,
        };
        let (unscaled, digits) = (Vec::new(), String::new());
        Ok(Self { store: Store::new(), precision, scale, short_limit, encoding, unscaled, digits })
    }

    /// Reads a decimal that is written as an unscaled number in bytes.
    fn decode_unscaled(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let start = cursor.pos();
        let scale = unscaled_decimal(self.encoding, cursor, context, &mut self.unscaled)?;
        if let Some(value) = self.short_unscaled(&self.unscaled, scale) {
            self.store.push(value);
            return Ok(());
        }
        decimal_text(&self.unscaled, scale, &mut self.digits);
        let value = Number::from_text(&self.digits)
            .ok_or(JsonErrorKind::InvalidText)
            .and_then(|number| self.exact(&number));
        self.store.push(value.map_err(|kind| Fault::new(kind, start, self.expected()))?);
        Ok(())
    }

    /// The number as it is, where its scale is the column's and it has few digits.
    fn short_unscaled(&self, unscaled: &[u8], scale: i32) -> Option<T::Native> {
        let [first, ..] = unscaled else { return None };
        if scale != i32::from(self.scale) || unscaled.len() > 8 {
            return None;
        }
        let sign = if *first >= 0x80 { -1_i64 } else { 0 };
        let value = unscaled.iter().fold(sign, |sum, byte| (sum << 8) | i64::from(*byte));
        (value.unsigned_abs() < self.short_limit).then(|| T::Native::from_i128(i128::from(value)))?
    }

    fn expected(&self) -> String {
        let (precision, scale) = (self.precision, self.scale);
        if scale >= 0 {
            format!("a decimal of at most {precision} digits, {scale} of them after the point")
        } else {
            format!("a decimal of at most {precision} digits before {} zeros", -i16::from(scale))
        }
    }

    #[inline]
    fn short(&self, decimal: ShortDecimal) -> Option<T::Native> {
        // Where the value has more fraction digits than the column, they may be zeros: the slow path looks.
        let missing = u32::try_from(self.scale).ok()?.checked_sub(decimal.fraction)?;
        let power = POW10.get(usize::try_from(missing).ok()?)?;
        let magnitude = decimal.digits.checked_mul(*power)?;
        if magnitude >= self.short_limit {
            return None;
        }
        let magnitude = i128::from(magnitude);
        T::Native::from_i128(if decimal.negative { -magnitude } else { magnitude })
    }

    fn exact(&self, number: &Number<'_>) -> Result<T::Native, JsonErrorKind> {
        let scaled = number.scaled(i64::from(self.scale)).ok_or(JsonErrorKind::OutOfRange)?;
        if scaled.digits > usize::from(self.precision) {
            return Err(JsonErrorKind::OutOfRange);
        }
        if scaled.cut {
            return Err(JsonErrorKind::Inexact);
        }
        T::Native::from_i256(scaled.value).ok_or(JsonErrorKind::OutOfRange)
    }

    /// Reads a decimal that is in quotes or bare, if it is short.
    #[inline]
    fn decode_short(&self, cursor: &mut Cursor<'_>) -> Option<T::Native> {
        let quoted = cursor.peek() == b'"';
        let bytes = cursor.rest().get(usize::from(quoted)..)?;
        let decimal = short_decimal(bytes)?;
        if quoted && bytes.get(decimal.len) != Some(&b'"') {
            return None;
        }
        let value = self.short(decimal)?;
        cursor.advance(decimal.len + 2 * usize::from(quoted));
        Some(value)
    }
}

impl<T: DecimalType<Native: DecimalNative>> Build for DecimalColumn<T> {
    #[inline]
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        if self.encoding != Encoding::Plain {
            return self.decode_unscaled(cursor, context);
        }
        let start = cursor.pos();
        if let Some(value) = self.decode_short(cursor) {
            self.store.push(value);
            return Ok(());
        }
        let value = match cursor.peek() {
            b'"' => Number::from_text(cursor.string(&mut context.scratch)?)
                .ok_or(JsonErrorKind::InvalidText)
                .and_then(|number| self.exact(&number)),
            b'-' | b'0'..=b'9' => self.exact(&cursor.number()?),
            _ => return Err(cursor.mismatch(self.expected())),
        };
        self.store.push(value.map_err(|kind| Fault::new(kind, start, self.expected()))?);
        Ok(())
    }

    fn decode_text(&mut self, text: &str, _: &mut Context) -> Result<(), Fault> {
        let value =
            Number::from_text(text).ok_or(JsonErrorKind::InvalidText).and_then(|number| self.exact(&number));
        self.store.push(value.map_err(|kind| Fault::new(kind, 0, self.expected()))?);
        Ok(())
    }

    fn take(&mut self, given: Given<'_>, _: &Context) -> bool {
        let (Given::Bytes(bytes), Encoding::Decimal(Some(scale))) = (given, self.encoding) else {
            return false;
        };
        self.short_unscaled(bytes, scale).map(|value| self.store.push(value)).is_some()
    }

    store_methods!();

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.store.finish()?.with_precision_and_scale(self.precision, self.scale)?))
    }
}
