//! Columns out of a sample of records.

use std::{fmt, sync::Arc};

use connector_core::{
    Error, ErrorKind, Result,
    arrow::datatypes::{DataType, Field, Fields, Schema},
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

use super::Json;

/// Whole numbers up to here are the same as floats.
const EXACT_IN_FLOATS: u64 = 1 << 53;

/// What values looked like so far.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    /// Nothing but nulls.
    Nothing,
    Boolean,
    Whole {
        negative: bool,
        /// The largest distance from zero.
        most: u64,
    },
    Fraction,
    Text,
    List(Box<Shape>),
    /// Fields in the order of their first appearance.
    Object(Vec<(String, Shape)>),
    /// No type holds all of it exactly, other than as text.
    Mixed,
}

impl Shape {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, shape) | (shape, Self::Nothing) => shape,
            (Self::Whole { negative, most }, Self::Whole { negative: other, most: more }) => {
                Self::Whole { negative: negative || other, most: most.max(more) }
            }
            (Self::Whole { most, .. }, Self::Fraction) | (Self::Fraction, Self::Whole { most, .. })
                if most <= EXACT_IN_FLOATS =>
            {
                Self::Fraction
            }
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.and(*other))),
            (Self::Object(mut fields), Self::Object(others)) => {
                for (name, shape) in others {
                    match fields.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => *known = std::mem::replace(known, Self::Nothing).and(shape),
                        None => fields.push((name, shape)),
                    }
                }
                Self::Object(fields)
            }
            (one, other) if one == other => one,
            _ => Self::Mixed,
        }
    }

    /// The column's type. Sets `texts` where other values are to be taken as their text.
    fn data_type(&self, texts: &mut bool) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Whole { most, .. } if *most <= i64::MAX.unsigned_abs() => DataType::Int64,
            Self::Whole { negative: false, .. } => DataType::UInt64,
            Self::Whole { .. } => DataType::Decimal128(20, 0),
            Self::Fraction => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::List(item) => DataType::List(Arc::new(Field::new("item", item.data_type(texts), true))),
            Self::Object(fields) if !fields.is_empty() => DataType::Struct(columns(fields, texts)),
            Self::Nothing | Self::Object(_) | Self::Mixed => {
                *texts = true;
                DataType::Utf8
            }
        }
    }
}

fn columns(fields: &[(String, Shape)], texts: &mut bool) -> Fields {
    fields.iter().map(|(name, shape)| Field::new(name, shape.data_type(texts), true)).collect()
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Boolean)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Shape, E> {
        Ok(Shape::Whole { negative: number < 0, most: number.unsigned_abs() })
    }

    fn visit_u64<E>(self, number: u64) -> Result<Shape, E> {
        Ok(Shape::Whole { negative: false, most: number })
    }

    fn visit_f64<E>(self, number: f64) -> Result<Shape, E> {
        // Whole numbers come so when no integer holds them.
        let is_whole = number.fract() == 0.0 && number.abs() > 9e15;
        Ok(if is_whole { Shape::Mixed } else { Shape::Fraction })
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Text)
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut all = Shape::Nothing;
        while let Some(item) = items.next_element::<Shape>()? {
            all = all.and(item);
        }
        Ok(Shape::List(Box::new(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Shape, A::Error> {
        let mut all = Shape::Object(Vec::new());
        while let Some((name, shape)) = entries.next_entry::<String, Shape>()? {
            all = all.and(Shape::Object(vec![(name, shape)]));
        }
        Ok(all)
    }
}

impl Json {
    /// Columns out of a sample of records, for when nobody knows them. They are in the order of their first appearance
    /// and may all be null.
    ///
    /// Whole numbers become `Int64`, `UInt64` or `Decimal128(20, 0)`, whichever holds all of the sample, and others
    /// `Float64`: declare the columns where digits behind the point count. Objects become structs and arrays lists. What
    /// no type holds exactly is text, and so is what was never anything but null; later values of other kinds are
    /// taken as their JSON text there. A value that comes later and does not fit its column is a bad record.
    ///
    /// # Errors
    /// `DataInvalid` when a record is not one JSON object, with its number in the sample, or when there is none.
    ///
    /// ```
    /// use connector_kafka::Json;
    ///
    /// let json = Json::infer([&br#"{"id": 1, "note": null}"#[..], br#"{"id": 2, "tags": ["a"]}"#])?;
    /// let names: Vec<&str> = json.table_schema().columns.fields().iter().map(|f| f.name().as_str()).collect();
    /// assert_eq!(names, ["id", "note", "tags"]);
    /// # Ok::<(), connector_core::Error>(())
    /// ```
    pub fn infer<'a>(sample: impl IntoIterator<Item = &'a [u8]>) -> Result<Self> {
        let invalid =
            |text: String| Error::new(ErrorKind::DataInvalid, text).with_operation("kafka.infer_schema");
        let mut all = Shape::Nothing;
        for (number, record) in sample.into_iter().enumerate() {
            let shape: Shape = serde_json::from_slice(record)
                .map_err(|e| invalid(format!("record {number} of the sample is not JSON: {e}")))?;
            if !matches!(shape, Shape::Object(_)) {
                return Err(invalid(format!(
                    "record {number} of the sample is not a JSON object; declare the columns"
                )));
            }
            all = all.and(shape);
        }
        let Shape::Object(fields) = all else {
            return Err(invalid(
                "the sample has no record; declare the columns, or try again when there are some".to_owned(),
            ));
        };
        let mut texts = false;
        let json = Self::with_schema(Schema::new(columns(&fields, &mut texts)));
        Ok(json.coerce_to_text(texts))
    }
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::array::{Array as _, AsArray as _};

    use super::*;

    fn types(sample: &[&str]) -> Vec<(String, DataType)> {
        let json = Json::infer(sample.iter().map(|text| text.as_bytes())).unwrap();
        let fields = json.table_schema().columns.fields().iter();
        fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
    }

    fn one(values: &[&str]) -> DataType {
        let records: Vec<String> = values.iter().map(|value| format!(r#"{{"a": {value}}}"#)).collect();
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        types(&records).remove(0).1
    }

    #[test]
    fn each_type_holds_the_whole_sample_exactly() {
        for (values, expected) in [
            (vec!["true", "null"], DataType::Boolean),
            (vec!["1", "-5"], DataType::Int64),
            (vec!["1", "9223372036854775808"], DataType::UInt64),
            (vec!["-1", "18446744073709551615"], DataType::Decimal128(20, 0)),
            (vec!["1", "1.5"], DataType::Float64),
            (vec!["1e3"], DataType::Float64),
            // A float would not hold the first.
            (vec!["9007199254740993", "1.5"], DataType::Utf8),
            (vec!["340282366920938463463374607431768211456"], DataType::Utf8),
            (vec!["\"x\""], DataType::Utf8),
            (vec!["null"], DataType::Utf8),
            (vec!["{}"], DataType::Utf8),
            (vec!["1", "\"x\""], DataType::Utf8),
            (vec!["[]", "[1, null]"], DataType::new_list(DataType::Int64, true)),
            (vec!["[[1], [2.5]]"], DataType::new_list(DataType::new_list(DataType::Float64, true), true)),
            (
                vec![r#"{"x": 1}"#, r#"{"y": "t"}"#],
                DataType::Struct(Fields::from(vec![
                    Field::new("x", DataType::Int64, true),
                    Field::new("y", DataType::Utf8, true),
                ])),
            ),
        ] {
            assert_eq!(one(&values), expected, "{values:?}");
        }
    }

    #[test]
    fn columns_come_in_the_order_of_their_first_appearance() {
        let names: Vec<String> = types(&[r#"{"z": 1, "a": 2}"#, r#"{"b": 3, "z": 4}"#])
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["z", "a", "b"]);
    }

    #[test]
    fn every_record_of_the_sample_can_be_read_with_its_columns() {
        let sample = [
            r#"{"id": 1, "mixed": 1.50, "big": 340282366920938463463374607431768211456, "tags": ["a"]}"#,
            r#"{"id": 18446744073709551615, "mixed": {"x": [1]}, "null": null}"#,
            r#"{"id": -7, "mixed": "text", "null": 5}"#,
        ];
        let json = Json::infer(sample.iter().map(|text| text.as_bytes())).unwrap();
        let mut decoder = json.decoder().unwrap();
        for record in sample {
            decoder.decode(record.as_bytes()).unwrap();
        }
        let batch = decoder.finish().unwrap();
        let text = |name: &str, row: usize| {
            batch.column_by_name(name).unwrap().as_string::<i32>().value(row).to_owned()
        };
        assert_eq!((text("mixed", 0), text("mixed", 1)), ("1.50".to_owned(), r#"{"x": [1]}"#.to_owned()));
        assert_eq!(text("big", 0), "340282366920938463463374607431768211456");
        assert!(batch.column_by_name("tags").unwrap().is_null(2));
    }

    #[test]
    fn a_sample_that_says_nothing_is_refused() {
        for (sample, words) in [
            (vec![], "no record"),
            (vec!["{}", "[1]"], "record 1"),
            (vec!["{\"a\": "], "record 0"),
            (vec![""], "record 0"),
        ] {
            let error = Json::infer(sample.iter().map(|text| text.as_bytes())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataInvalid);
            assert!(error.message().contains(words), "{error}");
        }
    }
}
