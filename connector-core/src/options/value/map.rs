//! Maps whose keys are the system's own.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use serde::{Serialize, Serializer};
use zeroize::Zeroizing;

use super::{Codec, IntoValue, Invalid, Plain, into_itself};
use crate::options::{RawValue, mask, mask_map};

/// Raw properties that are handed to a system's client or server, such as Kafka client properties.
///
/// Written as a JSON object in text, or as a nested map whose inner maps become dotted names. Values
/// are text. `Debug`, `Display` and `Serialize` mask values that look like secrets (see
/// [`is_secret_key`](crate::options::is_secret_key)); [`get`](Self::get) and [`iter`](Self::iter) give
/// them in clear. The memory of values is overwritten when dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PropertyMap(BTreeMap<String, Zeroizing<String>>);

impl PropertyMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value under a name, in clear.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.as_str())
    }

    /// Sets a value; an earlier one is lost.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), Zeroizing::new(value.into()));
    }

    /// True when the name is there.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Names and values in clear, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for PropertyMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        entries.into_iter().for_each(|(name, value)| map.insert(name, value));
        map
    }
}

impl fmt::Debug for PropertyMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&mask_map(self.iter()), f)
    }
}

impl fmt::Display for PropertyMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Serialize for PropertyMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, value)| (name, mask(name, value))))
    }
}

impl Codec<PropertyMap> for Plain {
    const TYPE: &'static str = "map";
    const SECRET: bool = true;
    const MAP: bool = true;

    fn from_raw(raw: RawValue) -> Result<PropertyMap, Invalid> {
        let mut map = PropertyMap::new();
        for (name, value) in raw.into_entries()? {
            let mut text = value
                .into_text()
                .map_err(|reason| Invalid::new(format!("holds `{name}`, whose value {reason}")))?;
            map.insert(name, std::mem::take(&mut *text));
        }
        Ok(map)
    }

    fn to_raw(value: &PropertyMap) -> RawValue {
        RawValue::Map(
            value.iter().map(|(name, value)| (name.to_owned(), RawValue::text(mask(name, value)))).collect(),
        )
    }

    fn names(value: &PropertyMap) -> Vec<&str> {
        value.iter().map(|(name, _)| name).collect()
    }
}

into_itself!(PropertyMap, BTreeMap<String, i64>);

/// `IntoValue` from collections of pairs.
macro_rules! into_properties {
    ($([$($generic:tt)*] $from:ty),* $(,)?) => { $(
        impl<K: Into<String>, V: Into<String>, $($generic)*> IntoValue<PropertyMap> for $from {
            fn into_value(self) -> Result<PropertyMap, Invalid> {
                Ok(self.into_iter().collect())
            }
        }
    )* };
}
into_properties!([const N: usize] [(K, V); N], [] Vec<(K, V)>, [] BTreeMap<K, V>, [S] HashMap<K, V, S>);

impl<K: Into<String>, const N: usize> IntoValue<BTreeMap<String, i64>> for [(K, i64); N] {
    fn into_value(self) -> Result<BTreeMap<String, i64>, Invalid> {
        Ok(self.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Codec<BTreeMap<String, i64>> for Plain {
    const TYPE: &'static str = "map<string,long>";
    const MAP: bool = true;

    fn from_raw(raw: RawValue) -> Result<BTreeMap<String, i64>, Invalid> {
        let read = |(name, value): (String, RawValue)| match Plain::from_raw(value) {
            Ok(number) => Ok((name, number)),
            Err(reason) => Err(Invalid::new(format!("holds `{name}`, whose value {reason}"))),
        };
        raw.into_entries()?.into_iter().map(read).collect()
    }

    fn to_raw(value: &BTreeMap<String, i64>) -> RawValue {
        RawValue::Map(value.iter().map(|(name, number)| (name.clone(), (*number).into())).collect())
    }

    fn names(value: &BTreeMap<String, i64>) -> Vec<&str> {
        value.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<T>(raw: RawValue) -> Result<T, String>
    where
        Plain: Codec<T>,
    {
        Plain::from_raw(raw).map_err(|e| e.to_string())
    }

    fn json(text: &str) -> RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn maps_from_json_text_and_nested_maps() {
        let text = r#"{"fetch.min.bytes": 1048576, "enable.x": true, "acks": "all", "r": 0.5}"#;
        let map: PropertyMap = read(RawValue::text(text)).unwrap();
        assert_eq!(
            map.iter().collect::<Vec<_>>(),
            [("acks", "all"), ("enable.x", "true"), ("fetch.min.bytes", "1048576"), ("r", "0.5")]
        );
        assert_eq!(read(json(text)), Ok(map));
        let nested: PropertyMap = read(json(r#"{"fetch": {"min": {"bytes": 1}}, "a.b": "c"}"#)).unwrap();
        assert_eq!(nested.iter().collect::<Vec<_>>(), [("a.b", "c"), ("fetch.min.bytes", "1")]);
        assert!(read::<PropertyMap>(RawValue::text("")).unwrap().is_empty());
    }

    #[test]
    fn errors_name_the_entry_and_never_its_value() {
        for (raw, reason) in [
            (
                json(r#"{"sasl.password": ["hunter2"]}"#),
                "holds `sasl.password`, whose value must be one value",
            ),
            (json(r#"{"sasl.password": null}"#), "holds `sasl.password`, whose value has no value"),
            (RawValue::text(r#"{"p": "hunter2"} x"#), "is not a JSON object"),
            (RawValue::text("hunter2"), "is not a JSON object"),
            (json(r#"["hunter2"]"#), "must be a map"),
        ] {
            let error = read::<PropertyMap>(raw).unwrap_err();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn secrets_are_masked_wherever_a_map_is_shown() {
        let map: PropertyMap = [
            ("acks", "all"),
            ("sasl.password", "hunter2"),
            ("ssl.key.pem", "hunter2"),
            ("sasl.jaas.config", "hunter2"),
            ("plugin", "a;password=hunter2"),
        ]
        .into_value()
        .unwrap();
        let shown = [
            format!("{map:?}"),
            format!("{map:#?}"),
            map.to_string(),
            serde_json::to_string(&map).unwrap(),
            format!("{:?}", <Plain as Codec<PropertyMap>>::to_raw(&map)),
        ];
        for text in &shown {
            assert!(!text.contains("hunter2"), "{text}");
        }
        assert!(shown[0].contains(r#""acks": "all""#) && shown[0].contains(r#""sasl.password": "***""#));
        assert_eq!(map.get("sasl.password"), Some("hunter2"));
    }

    #[test]
    fn maps_of_numbers() {
        let map: BTreeMap<String, i64> =
            read(RawValue::text(r#"{"app.orders": 5, "app.items": "7"}"#)).unwrap();
        assert_eq!(map, BTreeMap::from([("app.orders".into(), 5), ("app.items".into(), 7)]));
        assert_eq!(read(json(r#"{"app": {"orders": 5, "items": 7}}"#)), Ok(map));
        let error = read::<BTreeMap<String, i64>>(json(r#"{"a.b": "x"}"#)).unwrap_err();
        assert_eq!(error, "holds `a.b`, whose value is not a whole number");
    }

    proptest! {
        #[test]
        fn maps_survive_a_round_trip(
            texts in proptest::collection::btree_map("[a-c.]{1,8}", "[ -~]{0,6}", 0..6),
            numbers in proptest::collection::btree_map(".{1,8}", any::<i64>(), 0..6),
        ) {
            let text = serde_json::to_string(&texts).unwrap();
            let map: PropertyMap = texts.into_value().unwrap();
            prop_assert_eq!(read(RawValue::text(text)), Ok(map));
            prop_assert_eq!(read(<Plain as Codec<BTreeMap<String, i64>>>::to_raw(&numbers)), Ok(numbers));
        }

        #[test]
        fn what_is_read_from_any_text_is_read_again(text in r#".*|\{("[a-c]": ?(1|"x"|\{"d":2\}),?){0,3}\}"#) {
            if let Ok(map) = read::<PropertyMap>(RawValue::text(text)) {
                prop_assert_eq!(read(<Plain as Codec<PropertyMap>>::to_raw(&map)), Ok(map));
            }
        }
    }
}
