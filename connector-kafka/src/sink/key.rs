//! Message keys, and partitions chosen by a column.

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch},
        compute::cast,
        datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type},
    },
};

use super::{
    encode::{self, Encoded},
    options::KeyFormat,
};

/// Appends each row's key. `concat`: the texts of the key columns, nothing between them, nothing for a null. `json`: an
/// object of the key columns.
///
/// # Errors
/// `SchemaMismatch` when the rows lack a key column; `Unsupported` for a type that has no text.
pub(super) fn keys(
    rows: &RecordBatch,
    fields: &[String],
    format: KeyFormat,
    out: &mut Encoded,
) -> Result<()> {
    let places = fields.iter().map(|name| place(rows, name, "key_fields")).collect::<Result<Vec<_>>>()?;
    if format == KeyFormat::Json {
        let columns = rows
            .project(&places)
            .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot select the key columns").with_source(e))?;
        return encode::json(&columns, out);
    }
    let texts = places.iter().map(|place| text(rows, *place)).collect::<Result<Vec<_>>>()?;
    for row in 0..rows.num_rows() {
        out.push(|bytes| {
            for column in &texts {
                if !column.is_null(row) {
                    bytes.extend_from_slice(column.as_string::<i32>().value(row).as_bytes());
                }
            }
        });
    }
    Ok(())
}

fn place(rows: &RecordBatch, name: &str, option: &str) -> Result<usize> {
    rows.schema().index_of(name).map_err(|_| {
        let known: Vec<&str> = rows.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        Error::new(
            ErrorKind::SchemaMismatch,
            format!("the rows lack the column `{name}` of `{option}`; they have {}", known.join(", ")),
        )
    })
}

/// A column as text.
fn text(rows: &RecordBatch, place: usize) -> Result<ArrayRef> {
    cast(rows.column(place), &DataType::Utf8).map_err(|e| {
        let name = rows.schema_ref().field(place).name().clone();
        Error::new(ErrorKind::Unsupported, format!("`{name}` has a type that cannot be part of a key"))
            .with_source(e)
    })
}

/// For each row the number that its partition follows from: what Java's `hashCode` gives for the value, without its
/// sign, as BitSail's writer takes it. Texts, booleans, integers, doubles and decimals are hashed as `String`, `Boolean`,
/// `Integer`, `Long`, `Double` and `BigDecimal`; other types by their text. 0 for a null.
///
/// # Errors
/// `SchemaMismatch` when the rows lack the column; `Unsupported` for a type that has no text.
pub(super) fn hashes(rows: &RecordBatch, field: &str) -> Result<Vec<u32>> {
    let column = rows.column(place(rows, field, "partition_field")?);
    let converted = |to: &DataType| {
        cast(column, to).map_err(|e| {
            let text = format!("`{field}` of `partition_field` is {}, which has no hash", column.data_type());
            Error::new(ErrorKind::Unsupported, text).with_source(e)
        })
    };
    let signed: Vec<i32> = match column.data_type() {
        DataType::Boolean => {
            column.as_boolean().values().iter().map(|value| if value { 1231 } else { 1237 }).collect()
        }
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            converted(&DataType::Int32)?.as_primitive::<Int32Type>().values().to_vec()
        }
        DataType::Int64 | DataType::UInt32 => {
            let values = converted(&DataType::Int64)?;
            values
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .map(|value| folded(value.cast_unsigned()))
                .collect()
        }
        DataType::Float32 | DataType::Float64 => {
            let values = converted(&DataType::Float64)?;
            values.as_primitive::<Float64Type>().values().iter().map(|value| double_hash(*value)).collect()
        }
        DataType::Decimal128(_, scale) => {
            let values = column.as_primitive::<Decimal128Type>().values();
            values.iter().map(|value| decimal_hash(*value, *scale)).collect()
        }
        _ => {
            let texts = converted(&DataType::Utf8)?;
            let texts = texts.as_string::<i32>();
            // The text of a null is empty, and so is its hash.
            (0..texts.len()).map(|row| string_hash(texts.value(row))).collect()
        }
    };
    let unsigned = |(row, hash): (usize, i32)| match hash.checked_abs() {
        Some(hash) if !column.is_null(row) => hash.unsigned_abs(),
        // Java's `abs` leaves the lowest number negative; there is no such partition.
        _ => 0,
    };
    Ok(signed.into_iter().enumerate().map(unsigned).collect())
}

/// The lower half of a number.
fn low(bits: u64) -> i32 {
    let [a, b, c, d, ..] = bits.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn folded(bits: u64) -> i32 {
    low(bits ^ (bits >> 32))
}

fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

fn double_hash(value: f64) -> i32 {
    // Java knows one NaN only.
    folded(if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() })
}

fn decimal_hash(unscaled: i128, scale: i8) -> i32 {
    let bytes = unscaled.unsigned_abs().to_be_bytes();
    let words = bytes.chunks_exact(4).map(|word| i32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    // Words of leading zeros add nothing.
    let magnitude = words.fold(0, |hash: i32, word| hash.wrapping_mul(31).wrapping_add(word));
    let signed = if unscaled < 0 { magnitude.wrapping_neg() } else { magnitude };
    signed.wrapping_mul(31).wrapping_add(i32::from(scale))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use connector_core::arrow::array::{
        BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
    };

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn hashes_of(column: ArrayRef) -> Vec<u32> {
        hashes(&batch(vec![("c", column)]), "c").unwrap()
    }

    #[test]
    fn hashes_are_those_of_java() {
        // From java.lang's documents of hashCode, worked out by hand.
        assert_eq!(hashes_of(Arc::new(StringArray::from(vec!["", "a", "hello"]))), [0, 97, 99_162_322]);
        assert_eq!(string_hash("polygenelubricants"), i32::MIN);
        assert_eq!(hashes_of(Arc::new(StringArray::from(vec!["polygenelubricants"]))), [0]);
        assert_eq!(string_hash("😀"), 0xd83d * 31 + 0xde00, "surrogates count one by one");
        assert_eq!(hashes_of(Arc::new(Int32Array::from(vec![Some(-7), None]))), [7, 0]);
        assert_eq!(hashes_of(Arc::new(Int64Array::from(vec![1_i64 << 32, -1]))), [1, 0]);
        assert_eq!(hashes_of(Arc::new(BooleanArray::from(vec![true, false]))), [1231, 1237]);
        assert_eq!(hashes_of(Arc::new(Float64Array::from(vec![0.0, 1.0]))), [0, 1_072_693_248]);
        let decimals =
            Decimal128Array::from(vec![0, 12_345, -12_345]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(hashes_of(Arc::new(decimals)), [2, 12_345 * 31 + 2, 12_345 * 31 - 2]);
    }

    #[test]
    fn keys_are_joined_or_an_object() {
        let rows = batch(vec![
            ("id", Arc::new(Int64Array::from(vec![1, 12]))),
            ("city", Arc::new(StringArray::from(vec![Some("北京"), None]))),
        ]);
        let fields = ["id".to_owned(), "city".to_owned()];
        let mut out = Encoded::default();
        keys(&rows, &fields, KeyFormat::Concat, &mut out).unwrap();
        assert_eq!([out.get(0), out.get(1)], ["1北京".as_bytes(), b"12"]);
        out.clear(0);
        keys(&rows, &fields, KeyFormat::Json, &mut out).unwrap();
        assert_eq!(out.get(0), r#"{"id":1,"city":"北京"}"#.as_bytes());
        assert_eq!(out.get(1), br#"{"id":12,"city":null}"#);
        let error = keys(&rows, &["town".to_owned()], KeyFormat::Concat, &mut out).unwrap_err();
        assert!(error.message().contains("town") && error.message().contains("city"), "{error}");
    }
}
