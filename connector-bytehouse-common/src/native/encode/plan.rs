//! Which encoder takes an Arrow type to a column type.

use std::fmt;

use connector_core::arrow::{
    array::{AsArray, UInt64Array},
    compute::take,
    datatypes::{DataType, Int16Type, Int32Type, Int64Type},
};

use super::{
    super::types::ChType,
    cells::{Encode, nullable, required},
    defaults::put_defaults,
    low_cardinality::{self, Dictionary},
    nested, number, text, time,
};
use crate::native::EncodeRules;

/// Why an Arrow type cannot be written to a column, as far as there is more to say than that.
#[derive(Debug, Default)]
pub(super) struct Refused(String);

impl Refused {
    pub(super) fn because(reason: String) -> Self {
        Self(reason)
    }

    pub(super) fn within(self, part: &str) -> Self {
        Self(if self.0.is_empty() { format!("in `{part}`") } else { format!("{} (in `{part}`)", self.0) })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) struct Planner<'a> {
    pub(super) rules: &'a EncodeRules,
}

impl Planner<'_> {
    /// The encoder of a column or of a part of one.
    pub(super) fn plan(&self, source: &DataType, target: &ChType) -> Result<Encode, Refused> {
        let null_as_default = self.rules.null_as_default;
        match (source, target) {
            (_, ChType::Unknown(_)) => Err(Refused::because("this crate does not know the type".into())),
            (DataType::Dictionary(_, values), ChType::LowCardinality(inner)) => {
                let dictionary = Dictionary::of(inner);
                // Nulls among the values are taken for nulls of the rows, so the keys have none.
                let keys = self.values(values, &dictionary.key)?;
                let nullable = dictionary.nullable;
                let encode = low_cardinality::from_dictionary(dictionary, keys);
                Ok(if nullable { encode } else { required(encode, null_as_default) })
            }
            (DataType::Dictionary(_, values), _) => Ok(unpacked(self.plan(values, target)?)),
            (DataType::RunEndEncoded(_, values), _) => {
                Ok(run_lengths(self.plan(values.data_type(), target)?))
            }
            (_, ChType::Nullable(inner)) => Ok(nullable(self.values(source, inner)?)),
            (_, ChType::LowCardinality(inner)) => {
                let dictionary = Dictionary::of(inner);
                let values = self.values(source, &dictionary.key)?;
                let nullable = dictionary.nullable;
                let encode = low_cardinality::from_values(dictionary, values);
                Ok(if nullable { encode } else { required(encode, null_as_default) })
            }
            _ => Ok(required(self.values(source, target)?, null_as_default)),
        }
    }

    /// The encoder of the values, which leaves nulls to others.
    fn values(&self, source: &DataType, target: &ChType) -> Result<Encode, Refused> {
        if let DataType::Null = source {
            let target = target.clone();
            return Ok(Box::new(move |array, _, out| {
                put_defaults(&target, array.len(), out);
                Ok(())
            }));
        }
        if let Some(encode) = number::plan(source, target, self.rules) {
            return Ok(encode);
        }
        if let Some(encode) = text::plan(source, target) {
            return Ok(encode);
        }
        if let Some(encode) = time::plan(source, target, self.rules).map_err(Refused::because)? {
            return Ok(encode);
        }
        nested::plan(self, source, target)?.ok_or_else(|| Refused(hint(source, target).to_owned()))
    }
}

/// What a user may not expect about a pair of types.
fn hint(source: &DataType, target: &ChType) -> &'static str {
    let text = matches!(source, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match target {
        ChType::String => "values are not turned into text",
        _ if text => "text is not read as another type here; give the column its type where it is read",
        _ => "",
    }
}

/// Plain values from an Arrow dictionary.
fn unpacked(encode: Encode) -> Encode {
    Box::new(move |array, absent, out| {
        let dictionary = array.as_any_dictionary();
        let plain = take(dictionary.values(), dictionary.keys(), None)?;
        encode(plain.as_ref(), absent, out)
    })
}

/// Plain values from a run-end encoded array.
fn run_lengths(encode: Encode) -> Encode {
    Box::new(move |array, absent, out| {
        let rows: Vec<u64> = (0..array.len() as u64).collect();
        let (places, values) = if let Some(runs) = array.as_run_opt::<Int16Type>() {
            (runs.get_physical_indices(&rows)?, runs.values())
        } else if let Some(runs) = array.as_run_opt::<Int32Type>() {
            (runs.get_physical_indices(&rows)?, runs.values())
        } else {
            let runs = array.as_run::<Int64Type>();
            (runs.get_physical_indices(&rows)?, runs.values())
        };
        let places: UInt64Array = places.into_iter().map(|place| place as u64).collect();
        let plain = take(values, &places, None)?;
        encode(plain.as_ref(), absent, out)
    })
}
