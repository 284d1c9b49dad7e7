//! Options as they arrive: text pairs, or the nested maps of a YAML or JSON file.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroizing;

use super::{Invalid, secret::MASK};

/// A value before it is parsed. `Debug` shows its shape only, and text is overwritten when dropped,
/// because a value may be a secret.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum RawValue {
    /// Nothing, as in `key:` of a YAML file. The option counts as not given.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a fraction or exponent.
    Float(f64),
    /// Text, also text that holds a number.
    Text(Zeroizing<String>),
    /// A list.
    List(Vec<RawValue>),
    /// A map, in the order in which it was written.
    Map(Vec<(String, RawValue)>),
}

impl RawValue {
    /// A text value.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Zeroizing::new(text.into()))
    }

    /// The text of a single value: what was written, for numbers and booleans their usual spelling.
    ///
    /// # Errors
    /// Nothing, a list and a map have no text.
    pub fn into_text(self) -> Result<Zeroizing<String>, Invalid> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Bool(value) => Ok(Zeroizing::new(value.to_string())),
            Self::Int(value) => Ok(Zeroizing::new(value.to_string())),
            Self::Float(value) => Ok(Zeroizing::new(value.to_string())),
            Self::Null => Err(Invalid::new("has no value")),
            Self::List(_) => Err(Invalid::new("must be one value, not a list")),
            Self::Map(_) => Err(Invalid::new("must be one value, not a map")),
        }
    }

    /// The entries of a map, nested maps flattened to dotted names. Text is read as a JSON object.
    ///
    /// # Errors
    /// Anything else, text that is not a JSON object, and a name that comes twice. The reason never
    /// holds a value.
    pub fn into_entries(self) -> Result<Vec<(String, RawValue)>, Invalid> {
        let map = match self {
            Self::Map(map) => map,
            Self::Text(text) if text.trim().is_empty() => Vec::new(),
            Self::Text(text) => parse_json_object(&text)?,
            _ => return Err(Invalid::new("must be a map, or text that holds a JSON object")),
        };
        let mut entries = Vec::new();
        flatten(String::new(), map, &mut entries);
        let mut names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Invalid::new(format!("holds `{}` twice", pair[0]))),
            None => Ok(entries),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            _ => false,
        }
    }

    /// How the value stands in an error about it.
    pub(crate) fn shown(&self) -> String {
        const LONGEST: usize = 80;
        let text = match self {
            Self::Text(text) => Cow::Borrowed(text.as_str()),
            Self::Bool(value) => value.to_string().into(),
            Self::Int(value) => value.to_string().into(),
            Self::Float(value) => value.to_string().into(),
            Self::Null => return "the empty value".to_owned(),
            Self::List(_) => return "the list".to_owned(),
            Self::Map(_) => return "the map".to_owned(),
        };
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("`{}…`", &text[..end]),
            None => format!("`{text}`"),
        }
    }
}

fn flatten(prefix: String, map: Vec<(String, RawValue)>, entries: &mut Vec<(String, RawValue)>) {
    for (name, value) in map {
        let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            RawValue::Map(inner) if !inner.is_empty() => flatten(path, inner, entries),
            value => entries.push((path, value)),
        }
    }
}

fn parse_json_object(text: &str) -> Result<Vec<(String, RawValue)>, Invalid> {
    match serde_json::from_str::<RawValue>(text) {
        Ok(RawValue::Map(map)) => Ok(map),
        Ok(_) => Err(Invalid::new("must be a JSON object such as {\"name\": \"value\"}")),
        // serde_json's own text could quote a value.
        Err(error) => Err(Invalid::new(format!(
            "is not a JSON object: the text is wrong at line {}, column {}",
            error.line(),
            error.column()
        ))),
    }
}

impl fmt::Debug for RawValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(_) => write!(f, "Bool({MASK})"),
            Self::Int(_) => write!(f, "Int({MASK})"),
            Self::Float(_) => write!(f, "Float({MASK})"),
            Self::Text(_) => write!(f, "Text({MASK})"),
            Self::List(list) => f.debug_list().entries(list).finish(),
            Self::Map(map) => f.debug_map().entries(map.iter().map(|(k, v)| (k, v))).finish(),
        }
    }
}

macro_rules! from_ints {
    ($($int:ty),*) => { $(
        impl From<$int> for RawValue {
            fn from(value: $int) -> Self {
                Self::Int(i128::from(value))
            }
        }
    )* };
}
from_ints!(i32, i64, u16, u32, u64);

impl From<&str> for RawValue {
    fn from(value: &str) -> Self {
        Self::text(value)
    }
}

impl From<String> for RawValue {
    fn from(value: String) -> Self {
        Self::text(value)
    }
}

impl From<&String> for RawValue {
    fn from(value: &String) -> Self {
        Self::text(value.as_str())
    }
}

impl From<bool> for RawValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for RawValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<V: Into<RawValue>> From<Vec<V>> for RawValue {
    fn from(values: Vec<V>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

/// Serializes a value in clear, for values that were masked before. [`RawValue`] itself has no
/// `Serialize`, since it may hold a secret.
pub(crate) struct InClear<'a>(pub(crate) &'a RawValue);

impl Serialize for InClear<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use RawValue::{Bool, Float, Int, List, Map, Null, Text};
        match self.0 {
            Null => serializer.serialize_unit(),
            Bool(value) => serializer.serialize_bool(*value),
            Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => serializer.serialize_i64(value),
                (_, Ok(value)) => serializer.serialize_u64(value),
                _ => serializer.serialize_str(&value.to_string()),
            },
            Float(value) => serializer.serialize_f64(*value),
            Text(text) => serializer.serialize_str(text),
            List(list) => serializer.collect_seq(list.iter().map(InClear)),
            Map(map) => serializer.collect_map(map.iter().map(|(name, value)| (name, InClear(value)))),
        }
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> de::Visitor<'de> for RawVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an option value")
    }

    fn visit_unit<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_none<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawValue, D::Error> {
        RawValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawValue, E> {
        Ok(RawValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawValue, E> {
        Ok(RawValue::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawValue, E> {
        Ok(RawValue::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<RawValue, E> {
        Ok(RawValue::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawValue, E> {
        Ok(RawValue::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawValue, E> {
        Ok(RawValue::text(value))
    }

    fn visit_string<E>(self, value: String) -> Result<RawValue, E> {
        Ok(RawValue::text(value))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<RawValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = access.next_element()? {
            list.push(item);
        }
        Ok(RawValue::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<RawValue, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = access.next_entry()? {
            map.push(entry);
        }
        Ok(RawValue::Map(map))
    }
}

/// The options of one source or sink before they are parsed: names and values in their order.
///
/// Collect it from pairs, or deserialize it from a YAML or JSON map. `Debug` shows names only.
///
/// ```
/// use connector_core::options::RawOptions;
///
/// let pairs: RawOptions = [("job.reader.topics", "orders")].into_iter().collect();
/// let file: RawOptions = serde_json::from_str(r#"{"job": {"reader": {"topics": ["orders"]}}}"#)?;
/// assert_eq!((pairs.len(), file.len()), (1, 1));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Default)]
pub struct RawOptions(Vec<(String, RawValue)>);

impl RawOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one option. A name that is there already stays as well, and parsing reports both.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<RawValue>) {
        self.0.push((name.into(), value.into()));
    }

    /// Takes an option out by its exact top-level name, such as the `type` that chose the connector.
    pub fn remove(&mut self, name: &str) -> Option<RawValue> {
        let place = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(place).1)
    }

    /// The value under an exact top-level name.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// The number of top-level names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are no options.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The dotted names of all single values.
    pub(crate) fn leaf_names(&self) -> Vec<String> {
        fn visit(prefix: &str, map: &[(String, RawValue)], leaves: &mut Vec<String>) {
            for (name, value) in map {
                let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                match value {
                    RawValue::Map(inner) if !inner.is_empty() => visit(&path, inner, leaves),
                    _ => leaves.push(path),
                }
            }
        }
        let mut leaves = Vec::new();
        visit("", &self.0, &mut leaves);
        leaves
    }
}

impl IntoIterator for RawOptions {
    type Item = (String, RawValue);
    type IntoIter = std::vec::IntoIter<(String, RawValue)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Into<String>, V: Into<RawValue>> FromIterator<(K, V)> for RawOptions {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for RawOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'de> Deserialize<'de> for RawOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match RawValue::deserialize(deserializer)? {
            RawValue::Map(map) => Ok(Self(map)),
            RawValue::Null => Ok(Self::default()),
            _ => Err(de::Error::custom("options must be a map of names to values")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_maps_flatten_to_dotted_names() {
        let raw: RawOptions =
            serde_json::from_str(r#"{"a": {"b": 1, "c.d": {"e": [true, null]}}, "f": 1.5}"#).unwrap();
        assert_eq!(raw.leaf_names(), ["a.b", "a.c.d.e", "f"]);
        let (_, first) = raw.into_iter().next().unwrap();
        assert_eq!(serde_json::to_string(&InClear(&first)).unwrap(), r#"{"b":1,"c.d":{"e":[true,null]}}"#);
    }

    #[test]
    fn values_never_show_in_debug() {
        let raw: RawOptions =
            serde_json::from_str(r#"{"token": "hunter2", "n": {"pin": 4711, "list": ["x9"]}}"#).unwrap();
        let shown = format!("{raw:?}");
        assert_eq!(shown, r#"{"token": Text(***), "n": {"pin": Int(***), "list": [Text(***)]}}"#);
    }

    #[test]
    fn entries_come_from_maps_and_json_text() {
        let names = |raw: RawValue| {
            raw.into_entries()
                .map(|e| e.into_iter().map(|(n, _)| n).collect::<Vec<_>>())
                .map_err(|e| e.to_string())
        };
        assert_eq!(names(RawValue::text(r#" {"b": 1, "a": {"c": "x"}} "#)).unwrap(), ["b", "a.c"]);
        assert_eq!(names(RawValue::text(" ")).unwrap(), Vec::<String>::new());
        assert_eq!(names(RawValue::text(r#"{"a.b": 1, "a": {"b": 2}}"#)).unwrap_err(), "holds `a.b` twice");
        assert_eq!(names(RawValue::text(r#"{"a": 1, "a": 2}"#)).unwrap_err(), "holds `a` twice");
        assert!(names(RawValue::text("[1]")).unwrap_err().contains("must be a JSON object"));
        let broken = names(RawValue::text(r#"{"sasl.password": "hunter2""#)).unwrap_err();
        assert!(broken.contains("line 1, column 27") && !broken.contains("hunter2"), "{broken}");
        assert!(names(RawValue::Bool(true)).unwrap_err().contains("must be a map"));
    }

    #[test]
    fn long_values_are_cut_in_errors() {
        let long = RawValue::text("ä".repeat(100));
        assert_eq!(long.shown(), format!("`{}…`", "ä".repeat(80)));
        assert_eq!(RawValue::from(5).shown(), "`5`");
    }
}
