//! Types of Debezium's, Kafka Connect's and Avro's whose JSON form their Arrow type does not tell.

use connector_core::{
    Result,
    arrow::datatypes::{DataType, Field, TimeUnit},
    schema::metadata::SOURCE_TYPE,
};

use super::column::unsupported;

/// Key of the field metadata that holds the scale in which a decimal of type `org.apache.kafka.connect.data.Decimal`
/// is written, where it is not the column's own.
pub const SCALE: &str = "connector.kafka.scale";

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Encoding {
    /// As JSON has it.
    #[default]
    Plain,
    /// Days since 1970-01-01.
    Days,
    /// This unit since midnight.
    TimeOfDay(TimeUnit),
    /// This unit since 1970-01-01 00:00, on a wall clock.
    Epoch(TimeUnit),
    /// This unit since 1970-01-01 00:00 UTC.
    Instant(TimeUnit),
    /// Base64 of the unscaled number, with this scale, or that of the column.
    Decimal(Option<i32>),
    /// An object of a scale and the base64 of an unscaled number.
    VariableDecimal,
}

/// The names of types under [`metadata::SOURCE_TYPE`](connector_core::schema::metadata::SOURCE_TYPE) that change how a column
/// is read.
pub const DEBEZIUM_TYPES: &[&str] = &[
    "io.debezium.time.Date",
    "org.apache.kafka.connect.data.Date",
    "io.debezium.time.Time",
    "org.apache.kafka.connect.data.Time",
    "io.debezium.time.MicroTime",
    "io.debezium.time.NanoTime",
    "io.debezium.time.Timestamp",
    "org.apache.kafka.connect.data.Timestamp",
    "io.debezium.time.MicroTimestamp",
    "io.debezium.time.NanoTimestamp",
    "avro.timestamp-millis",
    "avro.timestamp-micros",
    "avro.timestamp-nanos",
    "org.apache.kafka.connect.data.Decimal",
    "io.debezium.data.VariableScaleDecimal",
];

impl Encoding {
    /// The form of the type with this name.
    pub(super) fn named(name: &str, scale: Option<i32>) -> Self {
        match name {
            "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" => Self::Days,
            "io.debezium.time.Time" | "org.apache.kafka.connect.data.Time" => {
                Self::TimeOfDay(TimeUnit::Millisecond)
            }
            "io.debezium.time.MicroTime" => Self::TimeOfDay(TimeUnit::Microsecond),
            "io.debezium.time.NanoTime" => Self::TimeOfDay(TimeUnit::Nanosecond),
            "io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp" => {
                Self::Epoch(TimeUnit::Millisecond)
            }
            "io.debezium.time.MicroTimestamp" => Self::Epoch(TimeUnit::Microsecond),
            "io.debezium.time.NanoTimestamp" => Self::Epoch(TimeUnit::Nanosecond),
            "avro.timestamp-millis" => Self::Instant(TimeUnit::Millisecond),
            "avro.timestamp-micros" => Self::Instant(TimeUnit::Microsecond),
            "avro.timestamp-nanos" => Self::Instant(TimeUnit::Nanosecond),
            "org.apache.kafka.connect.data.Decimal" => Self::Decimal(scale),
            "io.debezium.data.VariableScaleDecimal" => Self::VariableDecimal,
            _ => Self::Plain,
        }
    }

    /// The form of a field's values.
    ///
    /// # Errors
    /// `Unsupported` when the column's type cannot hold that.
    pub(super) fn of(field: &Field, path: &str) -> Result<Self> {
        let Some(name) = field.metadata().get(SOURCE_TYPE) else { return Ok(Self::Plain) };
        let scale = field.metadata().get(SCALE).and_then(|scale| scale.parse().ok());
        let encoding = Self::named(name, scale);
        let data_type = field.data_type();
        let fits = match encoding {
            Self::Plain => true,
            // A number can stay what it is.
            _ if data_type.is_integer() => !matches!(encoding, Self::Decimal(_) | Self::VariableDecimal),
            Self::Days => *data_type == DataType::Date32,
            Self::TimeOfDay(_) => matches!(data_type, DataType::Time32(_) | DataType::Time64(_)),
            Self::Epoch(_) | Self::Instant(_) => matches!(data_type, DataType::Timestamp(..)),
            Self::Decimal(_) | Self::VariableDecimal => {
                data_type.is_decimal()
                    || matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
            }
        };
        if fits {
            return Ok(encoding);
        }
        Err(unsupported(path, &format!("a value of type {name} cannot be read as {data_type}")))
    }
}

/// The digits of a big-endian number in two's complement, with the point `scale` digits from the right.
pub(super) fn decimal_text(bytes: &[u8], scale: i32, out: &mut String) {
    out.clear();
    let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    // The magnitude in 32-bit limbs, the highest first.
    let pad = if negative { 0xFF } else { 0 };
    let missing = (4 - bytes.len() % 4) % 4;
    let padded: Vec<u8> = std::iter::repeat_n(pad, missing).chain(bytes.iter().copied()).collect();
    let mut limbs: Vec<u32> = padded
        .chunks_exact(4)
        .map(|limb| limb.iter().fold(0, |sum, byte| (sum << 8) | u32::from(*byte)))
        .collect();
    if negative {
        let mut carry = true;
        for limb in limbs.iter_mut().rev() {
            let (value, overflow) = (!*limb).overflowing_add(u32::from(carry));
            (*limb, carry) = (value, overflow);
        }
        // The least number of its width has no positive of that width.
        if carry {
            limbs.insert(0, 1);
        }
    }
    // Nine digits at a time, the lowest first.
    let mut groups: Vec<u32> = Vec::new();
    while limbs.iter().any(|limb| *limb != 0) {
        let mut rest = 0_u64;
        for limb in &mut limbs {
            let value = (rest << 32) | u64::from(*limb);
            rest = value % 1_000_000_000;
            // The quotient fits: the part carried over is smaller than the divisor.
            *limb = u32::try_from(value / 1_000_000_000).unwrap_or(u32::MAX);
        }
        groups.push(u32::try_from(rest).unwrap_or_default());
    }
    let mut digits = groups.pop().unwrap_or_default().to_string();
    for group in groups.iter().rev() {
        digits.push_str(&format!("{group:09}"));
    }
    place_point(negative, &digits, scale, out);
}

fn place_point(negative: bool, digits: &str, scale: i32, out: &mut String) {
    if negative {
        out.push('-');
    }
    let places = usize::try_from(scale.unsigned_abs()).unwrap_or(usize::MAX);
    if scale <= 0 {
        out.push_str(digits);
        if digits != "0" {
            out.extend(std::iter::repeat_n('0', places));
        }
    } else if digits.len() > places {
        let (whole, fraction) = digits.split_at(digits.len() - places);
        out.push_str(whole);
        out.push('.');
        out.push_str(fraction);
    } else {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', places - digits.len()));
        out.push_str(digits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], scale: i32) -> String {
        let mut out = String::new();
        decimal_text(bytes, scale, &mut out);
        out
    }

    #[test]
    fn unscaled_numbers_become_digits() {
        assert_eq!(text(&[0x0F, 0x3C], 2), "39.00");
        assert_eq!(text(&[0xFF], 2), "-0.01");
        assert_eq!(text(&[], 2), "0.00");
        assert_eq!(text(&[0], 0), "0");
        assert_eq!(text(&[0], -3), "0");
        assert_eq!(text(&[5], -3), "5000");
        assert_eq!(text(&[0x80], 0), "-128");
        assert_eq!(text(&[0x80, 0, 0, 0], 0), "-2147483648");
        assert_eq!(text(&[1], 5), "0.00001");
    }

    #[test]
    fn they_agree_with_wide_integers() {
        for value in
            [0, 1, -1, i128::MAX, i128::MIN, 10_i128.pow(37), -(10_i128.pow(18)), 999_999_999, 1_000_000_000]
        {
            assert_eq!(text(&value.to_be_bytes(), 0), value.to_string());
        }
        // 2^160
        let mut wide = vec![1];
        wide.extend([0; 20]);
        assert_eq!(text(&wide, 0), "1461501637330902918203684832716283019655932542976");
    }
}
