//! Lists: comma-separated text or a real list.

use std::fmt;

use super::{Codec, IntoValue, Invalid, Plain, into_by_parsing, into_itself};
use crate::options::RawValue;

/// The items of a comma list, trimmed; an empty text is the empty list.
fn split_commas(text: &str) -> Result<Vec<String>, Invalid> {
    non_empty_items(text.split(','), text)
}

fn non_empty_items<'a>(items: impl Iterator<Item = &'a str>, text: &str) -> Result<Vec<String>, Invalid> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let items: Vec<String> = items.map(|item| item.trim().to_owned()).collect();
    match items.iter().position(String::is_empty) {
        Some(place) => Err(Invalid::new(format!("has nothing at place {} of the list", place + 1))),
        None => Ok(items),
    }
}

/// Items as raw values: those of a real list as they are, those of a text split at its commas.
fn raw_items(raw: RawValue) -> Result<Vec<RawValue>, Invalid> {
    match raw {
        RawValue::List(items) => Ok(items),
        RawValue::Map(_) => Err(Invalid::new("must be a list, not a map")),
        single => Ok(split_commas(&single.into_text()?)?.into_iter().map(RawValue::text).collect()),
    }
}

impl<T> Codec<Vec<T>> for Plain
where
    Plain: Codec<T>,
{
    const TYPE: &'static str = <Plain as Codec<T>>::LIST_TYPE;
    const ALLOWED: &'static str = <Plain as Codec<T>>::ALLOWED;
    const SECRET: bool = <Plain as Codec<T>>::SECRET;

    fn from_raw(raw: RawValue) -> Result<Vec<T>, Invalid> {
        let read = |item: RawValue| {
            let shown = if Self::SECRET { "an item".to_owned() } else { item.shown() };
            <Plain as Codec<T>>::from_raw(item)
                .map_err(|reason| Invalid::new(format!("holds {shown}, which {reason}")))
        };
        raw_items(raw)?.into_iter().map(read).collect()
    }

    fn to_raw(values: &Vec<T>) -> RawValue {
        RawValue::List(values.iter().map(<Plain as Codec<T>>::to_raw).collect())
    }
}

impl<T, V: IntoValue<T>, const N: usize> IntoValue<Vec<T>> for [V; N] {
    fn into_value(self) -> Result<Vec<T>, Invalid> {
        self.into_iter().map(IntoValue::into_value).collect()
    }
}

impl<T, V: IntoValue<T>> IntoValue<Vec<T>> for Vec<V> {
    fn into_value(self) -> Result<Vec<T>, Invalid> {
        self.into_iter().map(IntoValue::into_value).collect()
    }
}

impl<T, V: IntoValue<T> + Clone> IntoValue<Vec<T>> for &[V] {
    fn into_value(self) -> Result<Vec<T>, Invalid> {
        self.iter().cloned().map(IntoValue::into_value).collect()
    }
}

impl<T> IntoValue<Vec<T>> for &str
where
    Plain: Codec<T>,
{
    fn into_value(self) -> Result<Vec<T>, Invalid> {
        <Plain as Codec<Vec<T>>>::from_raw(RawValue::text(self))
    }
}

/// A host name or address with its port. An IPv6 address is written in brackets: `[::1]:9092`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HostPort {
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl HostPort {
    /// A host and its port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    fn parse(text: &str) -> Result<Self, Invalid> {
        let wrong = |why: &str| Invalid::new(format!("holds `{text}`, which {why}"));
        if text.contains("://") {
            return Err(wrong("has a scheme; write host:port only"));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("has no port; write host:port"))?;
        let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(Some(address)) if address.parse::<std::net::Ipv6Addr>().is_ok() => address,
            Some(_) => return Err(wrong("is not an IPv6 address in brackets")),
            None if host.contains(':') => return Err(wrong("needs brackets: [address]:port")),
            None => host,
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || "/@[]".contains(c)) {
            return Err(wrong("has no valid host"));
        }
        let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        match port.parse() {
            Ok(port) if digits && port != 0 => Ok(Self::new(host, port)),
            _ => Err(wrong("has no port between 1 and 65535")),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A list of `host:port`. `Display` writes it as a comma list, as clients take it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostList(Vec<HostPort>);

impl HostList {
    /// The hosts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &HostPort> {
        self.0.iter()
    }

    /// The number of hosts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is no host.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<HostPort> for HostList {
    fn from_iter<I: IntoIterator<Item = HostPort>>(hosts: I) -> Self {
        Self(hosts.into_iter().collect())
    }
}

impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, host) in self.0.iter().enumerate() {
            write!(f, "{}{host}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Codec<HostList> for Plain {
    const TYPE: &'static str = "list<host:port>";

    fn from_raw(raw: RawValue) -> Result<HostList, Invalid> {
        raw_items(raw)?.into_iter().map(|item| HostPort::parse(item.into_text()?.trim())).collect()
    }

    fn to_raw(value: &HostList) -> RawValue {
        RawValue::List(value.iter().map(|host| RawValue::text(host.to_string())).collect())
    }
}

impl IntoValue<HostList> for HostPort {
    fn into_value(self) -> Result<HostList, Invalid> {
        Ok(HostList(vec![self]))
    }
}

/// A list of regular expressions or names, kept as text: what they match is up to the connector.
///
/// Written as text, the list is split at the commas outside of brackets, so `t_\d{1,3},audit` is two
/// items. The expressions are not compiled here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegexList(Vec<String>);

impl RegexList {
    /// The expressions, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The number of expressions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is no expression.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Splits at commas outside of `()`, `[]`, `{}` and not after a backslash.
    fn split(text: &str) -> Result<Vec<String>, Invalid> {
        let (mut items, mut start, mut open) = (Vec::new(), 0, Vec::new());
        let mut escaped = false;
        for (place, c) in text.char_indices() {
            let in_class = open.last() == Some(&']');
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if open.last() == Some(&c) => {
                    open.pop();
                }
                '[' if !in_class => open.push(']'),
                '(' if !in_class => open.push(')'),
                '{' if !in_class => open.push('}'),
                ',' if open.is_empty() => {
                    items.push(&text[start..place]);
                    start = place + 1;
                }
                _ => {}
            }
        }
        if let Some(closing) = open.last() {
            return Err(Invalid::new(format!("has a bracket that no `{closing}` closes")));
        }
        items.push(&text[start..]);
        non_empty_items(items.into_iter(), text)
    }
}

impl<S: Into<String>> FromIterator<S> for RegexList {
    fn from_iter<I: IntoIterator<Item = S>>(items: I) -> Self {
        Self(items.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for RegexList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl Codec<RegexList> for Plain {
    const TYPE: &'static str = "list<regex>";

    fn from_raw(raw: RawValue) -> Result<RegexList, Invalid> {
        match raw {
            RawValue::List(_) => <Plain as Codec<Vec<String>>>::from_raw(raw).map(RegexList),
            RawValue::Map(_) => Err(Invalid::new("must be a list, not a map")),
            single => RegexList::split(&single.into_text()?).map(RegexList),
        }
    }

    fn to_raw(value: &RegexList) -> RawValue {
        RawValue::List(value.iter().map(RawValue::text).collect())
    }
}

/// `IntoValue` from arrays, vectors and slices of text, each item parsed as an item of a real list.
macro_rules! into_list {
    ($($list:ty),*) => { $(
        impl<S: Into<String>, const N: usize> IntoValue<$list> for [S; N] {
            fn into_value(self) -> Result<$list, Invalid> {
                Vec::from(self).into_value()
            }
        }

        impl<S: Into<String>> IntoValue<$list> for Vec<S> {
            fn into_value(self) -> Result<$list, Invalid> {
                let items = self.into_iter().map(|item| RawValue::text(item.into())).collect();
                <Plain as Codec<$list>>::from_raw(RawValue::List(items))
            }
        }

        impl<S: Into<String> + Clone> IntoValue<$list> for &[S] {
            fn into_value(self) -> Result<$list, Invalid> {
                self.to_vec().into_value()
            }
        }
    )* };
}
into_list!(HostList, RegexList);
into_itself!(HostList, RegexList);
into_by_parsing!(&str => HostList, String => HostList, &str => RegexList, String => RegexList);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<T>(raw: impl Into<RawValue>) -> Result<T, String>
    where
        Plain: Codec<T>,
    {
        Plain::from_raw(raw.into()).map_err(|e| e.to_string())
    }

    #[test]
    fn string_lists() {
        assert_eq!(read::<Vec<String>>(" a , b,c "), Ok(vec!["a".into(), "b".into(), "c".into()]));
        assert_eq!(read::<Vec<String>>(""), Ok(vec![]));
        assert_eq!(read::<Vec<String>>(vec!["a,b", " c"]), Ok(vec!["a,b".into(), " c".into()]));
        assert_eq!(read::<Vec<String>>(5), Ok(vec!["5".into()]));
        assert_eq!(read::<Vec<String>>("a,,b"), Err("has nothing at place 2 of the list".into()));
        assert_eq!(read::<Vec<i64>>("1,x"), Err("holds `x`, which is not a whole number".into()));
        assert!(read::<Vec<String>>(RawValue::Map(vec![])).is_err());
        let hidden = read::<Vec<crate::Secret>>(RawValue::List(vec![4711.into()])).unwrap_err();
        assert!(!hidden.contains("4711"), "{hidden}");
    }

    #[test]
    fn builders_take_natural_lists() {
        let expected = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(IntoValue::<Vec<String>>::into_value(["a", "b"]), Ok(expected.clone()));
        assert_eq!(IntoValue::<Vec<String>>::into_value(&["a", "b"][..]), Ok(expected.clone()));
        assert_eq!(IntoValue::<Vec<String>>::into_value(expected.clone()), Ok(expected.clone()));
        assert_eq!(IntoValue::<Vec<String>>::into_value("a,b"), Ok(expected));
        let hosts: HostList = ["h1:1", "h2:2"].into_value().unwrap();
        assert_eq!(hosts.to_string(), "h1:1,h2:2");
        assert_eq!(IntoValue::<HostList>::into_value(HostPort::new("h", 1)).map(|l| l.len()), Ok(1));
        let list: RegexList = ["a,b"].into_value().unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), ["a,b"]);
    }

    #[test]
    fn host_lists() {
        let hosts = read::<HostList>(" b1.example:9092 ,[::1]:9093,10.0.0.1:1").unwrap();
        assert_eq!(
            hosts.iter().map(|h| (h.host.as_str(), h.port)).collect::<Vec<_>>(),
            [("b1.example", 9092), ("::1", 9093), ("10.0.0.1", 1)]
        );
        assert_eq!(hosts.to_string(), "b1.example:9092,[::1]:9093,10.0.0.1:1");
        for (text, reason) in [
            ("b1", "has no port"),
            ("b1:", "no port between"),
            ("b1:0", "no port between"),
            ("b1:+1", "no port between"),
            ("b1:65536", "no port between"),
            (":9092", "no valid host"),
            ("a b:1", "no valid host"),
            ("::1:9092", "needs brackets"),
            ("[::1:9092", "not an IPv6 address"),
            ("[host]:1", "not an IPv6 address"),
            ("kafka://b1:9092", "has a scheme"),
        ] {
            let error = read::<HostList>(text).unwrap_err();
            assert!(error.contains(reason) && error.contains(&format!("`{text}`")), "{text}: {error}");
        }
    }

    #[test]
    fn regex_lists_split_outside_of_brackets_only() {
        let list = read::<RegexList>(r"orders, t_\d{1,3} ,[a,b]+,(x|y,z), q\,r, [\],(]").unwrap();
        assert_eq!(
            list.iter().collect::<Vec<_>>(),
            ["orders", r"t_\d{1,3}", "[a,b]+", "(x|y,z)", r"q\,r", r"[\],(]"]
        );
        assert_eq!(read::<RegexList>("(a,b"), Err("has a bracket that no `)` closes".into()));
        assert!(read::<RegexList>("a,").unwrap_err().contains("place 2"));
        assert!(read::<RegexList>("").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn lists_survive_a_round_trip(
            strings in proptest::collection::vec(".*", 0..5),
            hosts in proptest::collection::vec(("[a-z][a-z0-9.-]{0,20}", 1u16..), 0..5),
            v6 in any::<std::net::Ipv6Addr>(),
        ) {
            prop_assert_eq!(read::<Vec<String>>(<Plain as Codec<Vec<String>>>::to_raw(&strings)), Ok(strings.clone()));
            let list: RegexList = strings.into_iter().collect();
            prop_assert_eq!(read::<RegexList>(<Plain as Codec<RegexList>>::to_raw(&list)), Ok(list));
            let mut hosts: HostList = hosts.into_iter().map(|(host, port)| HostPort::new(host, port)).collect();
            hosts.0.push(HostPort::new(v6.to_string(), 7));
            prop_assert_eq!(read::<HostList>(hosts.to_string()), Ok(hosts.clone()));
            prop_assert_eq!(read::<HostList>(<Plain as Codec<HostList>>::to_raw(&hosts)), Ok(hosts));
        }

        #[test]
        fn what_is_read_from_any_text_is_read_again(text in ".*|[a\\[\\](){},\\\\]{0,9}|([a-z:.]{1,5}:[0-9]{1,5},?){1,3}") {
            if let Ok(hosts) = read::<HostList>(text.as_str()) {
                prop_assert_eq!(read(hosts.to_string()), Ok(hosts));
            }
            if let Ok(list) = read::<RegexList>(text.as_str()) {
                prop_assert_eq!(read(list.to_string()), Ok(list));
            }
            if let Ok(list) = read::<Vec<String>>(text) {
                prop_assert_eq!(read(list.join(",")), Ok(list));
            }
        }
    }
}
