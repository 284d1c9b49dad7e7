//! From raw options to a checked option set. Nothing here is generic over the set but the last step:
//! a set is a table of [`OptionSpec`]s and a list of slots in the same order.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    fmt,
    marker::PhantomData,
    sync::{LazyLock, Mutex, PoisonError},
};

use serde::{Deserialize, Deserializer, Serializer, de, ser::SerializeMap as _};

use super::{
    Codec, Invalid, OptionSpec, Plain, Problems, RawOptions, RawValue, SetSpec,
    raw::InClear,
    suggest::{SHORT_PREFIXES, nearest, short_form},
};
use crate::{Error, ErrorKind, Result};

/// A set of options that [`option_set!`](crate::option_set) declared.
pub trait OptionSet: Sized + Clone {
    /// The builder of the set.
    type Builder: Default;

    /// The table of the set.
    const SET: &'static SetSpec;

    /// A builder that holds the values of this set.
    fn to_builder(&self) -> Self::Builder;

    /// The builder's slots, in the order of the table.
    #[doc(hidden)]
    fn slots(builder: &mut Self::Builder) -> Vec<&mut dyn AnySlot>;

    /// The problems that the builder's setters met.
    #[doc(hidden)]
    fn problems(builder: &mut Self::Builder) -> &mut Problems;

    /// Takes the values out of a builder that was checked.
    #[doc(hidden)]
    fn assemble(builder: Self::Builder) -> Result<Self>;

    /// The cross-field check of the declaration.
    #[doc(hidden)]
    fn cross_check(&self, problems: &mut Problems);
}

/// The value of one option while a set is built.
#[doc(hidden)]
pub struct Slot<T, C = Plain> {
    value: Option<T>,
    codec: PhantomData<fn() -> C>,
}

impl<T, C: Codec<T>> Slot<T, C> {
    pub fn of(value: Option<T>) -> Self {
        Self { value, codec: PhantomData }
    }

    /// What a setter does.
    pub fn put(&mut self, value: Result<T, Invalid>, set: &SetSpec, key: &str, problems: &mut Problems) {
        problems.forget(key);
        match (value, set.options.iter().find(|spec| spec.key == key)) {
            (Ok(value), _) => self.value = Some(value),
            (Err(reason), Some(spec)) => problems.invalid(spec, spec.key, None, &reason),
            (Err(reason), None) => problems.push(key, format!("option `{key}` {reason}")),
        }
    }

    pub fn optional(self) -> Option<T> {
        self.value
    }

    pub fn required(self, key: &str) -> Result<T> {
        self.value.ok_or_else(|| {
            Error::new(ErrorKind::OptionInvalid, format!("required option `{key}` is missing"))
        })
    }

    pub fn or_default(self, text: &str, key: &str) -> Result<T> {
        match self.value {
            Some(value) => Ok(value),
            None => C::from_raw(text.into()).map_err(|reason| {
                Error::new(
                    ErrorKind::Unexpected,
                    format!(
                        "the default of option `{key}`, `{text}`, {reason}; this is a fault of the connector"
                    ),
                )
            }),
        }
    }
}

impl<T, C: Codec<T>> Default for Slot<T, C> {
    fn default() -> Self {
        Self::of(None)
    }
}

impl<T: Clone, C> Clone for Slot<T, C> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), codec: PhantomData }
    }
}

impl<T: fmt::Debug, C> fmt::Debug for Slot<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A [`Slot`] without its type.
#[doc(hidden)]
pub trait AnySlot {
    /// Parses and keeps the value.
    fn set(&mut self, raw: RawValue) -> Result<(), Invalid>;
    fn is_set(&self) -> bool;
    /// Compares the value with the bounds of its option.
    fn check(&self, spec: &OptionSpec) -> Result<(), Invalid>;
    /// The value as it would be written, secrets masked.
    fn to_raw(&self) -> Option<RawValue>;
    /// The names inside a map.
    fn names(&self) -> Vec<String>;
    /// Whether the text is a value, and whether bounds of this type can be checked.
    fn proof(&self, text: &str) -> Result<bool, Invalid>;
}

impl<T, C: Codec<T>> AnySlot for Slot<T, C> {
    fn set(&mut self, raw: RawValue) -> Result<(), Invalid> {
        self.value = Some(C::from_raw(raw)?);
        Ok(())
    }

    fn is_set(&self) -> bool {
        self.value.is_some()
    }

    fn check(&self, spec: &OptionSpec) -> Result<(), Invalid> {
        let Some(value) = &self.value else { return Ok(()) };
        if spec.required && C::is_blank(value) {
            return Err(Invalid::new("must not be empty"));
        }
        for (bound, wrong, words) in [
            (spec.min, Ordering::Less, "is below the minimum"),
            (spec.max, Ordering::Greater, "is above the maximum"),
        ] {
            let Some(bound) = bound else { continue };
            if C::compare(value, &C::from_raw(bound.into())?) == Some(wrong) {
                return Err(Invalid::new(format!("{words} {bound}")));
            }
        }
        Ok(())
    }

    fn to_raw(&self) -> Option<RawValue> {
        self.value.as_ref().map(C::to_raw)
    }

    fn names(&self) -> Vec<String> {
        self.value
            .as_ref()
            .map(|value| C::names(value).into_iter().map(str::to_owned).collect())
            .unwrap_or_default()
    }

    fn proof(&self, text: &str) -> Result<bool, Invalid> {
        let value = C::from_raw(text.into())?;
        Ok(C::compare(&value, &value).is_some())
    }
}

/// One appearance of an option in the raw map: the name as written, the value, the entry of a map.
struct Given {
    name: String,
    value: RawValue,
    entry: Option<String>,
}

/// Sorts raw options to their places in the table. Nested maps are followed by their dotted names
/// until a name is known.
fn sort(set: &SetSpec, raw: RawOptions, problems: &mut Problems) -> Vec<Vec<Given>> {
    let mut places: Vec<Vec<Given>> = set.options.iter().map(|_| Vec::new()).collect();
    let mut open: Vec<(String, RawValue)> = raw.into_iter().collect();
    open.reverse();
    while let Some((name, value)) = open.pop() {
        if let Some(place) = set.find(&name) {
            places[place].push(Given { name, value, entry: None });
        } else if let Some(reason) = set.refusal(&name) {
            let message = format!("option `{name}` is refused by the {}: {reason}", set.title());
            problems.push(name, message);
        } else if let Some((place, entry)) = set.find_entry(&name) {
            let entry = Some(entry.to_owned());
            places[place].push(Given { name, value, entry });
        } else {
            match value {
                RawValue::Map(map) if !map.is_empty() && set.find_sibling(&name).is_none() => {
                    open.extend(
                        map.into_iter().rev().map(|(inner, value)| (format!("{name}.{inner}"), value)),
                    );
                }
                _ => {
                    let message = unknown(set, &name);
                    problems.push(name, message);
                }
            }
        }
    }
    places
}

/// Says where an unknown name belongs, or what was probably meant.
fn unknown(set: &SetSpec, name: &str) -> String {
    let start = format!("unknown option `{name}` of the {}", set.title());
    if let Some(spec) = set.find_sibling(name) {
        return format!("{start}: it belongs to the {} {}", spec.connector, spec.role);
    }
    let short_name = short_form(name).unwrap_or(name);
    let is_long = SHORT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let spelled = |known: &'static str| if is_long { known } else { short_form(known).unwrap_or(known) };
    let names = |specs: &[OptionSpec]| {
        specs
            .iter()
            .flat_map(|spec| [spec.key].into_iter().chain(spec.aliases.iter().copied()))
            .collect::<Vec<_>>()
    };
    if let Some(map) = set.options.iter().find(|spec| set.holds(spec, short_name) == Some(true)) {
        return format!("{start}: it belongs inside the map `{}`", spelled(map.key));
    }
    if let Some(known) = nearest(name, names(set.options)) {
        return format!("{start}: did you mean `{}`?", spelled(known));
    }
    for sibling in set.siblings {
        if let Some(known) = nearest(name, names(sibling))
            && let Some(spec) = sibling.iter().find(|spec| spec.is_named(known))
        {
            let (connector, role) = (spec.connector, spec.role);
            return format!(
                "{start}: did you mean `{}`, which belongs to the {connector} {role}?",
                spelled(known)
            );
        }
    }
    format!("{start}: no option has a name like it")
}

/// The one value of an option out of its appearances.
fn settle(spec: &OptionSpec, mut given: Vec<Given>, problems: &mut Problems) -> Option<(String, RawValue)> {
    given.retain(|one| one.entry.is_some() || !one.value.is_null());
    let (entries, mut whole): (Vec<Given>, Vec<Given>) =
        given.into_iter().partition(|one| one.entry.is_some());
    if let [first, second, ..] = whole.as_slice() {
        problems.push(
            spec.key,
            if first.name == second.name {
                format!("option `{}` is given twice", first.name)
            } else {
                format!("`{}` and `{}` are two names of one option; give one", first.name, second.name)
            },
        );
        return None;
    }
    match (whole.pop(), entries.first()) {
        (Some(whole), Some(entry)) => {
            let message =
                format!("`{}` and `{}` are both given; put all entries in one place", whole.name, entry.name);
            problems.push(spec.key, message);
            None
        }
        (Some(whole), None) => Some((whole.name, whole.value)),
        (None, Some(entry)) => {
            let end = entry.name.len() - entry.entry.as_ref().map_or(0, |inner| inner.len() + 1);
            let name = entry.name[..end].to_owned();
            let map = entries.into_iter().filter_map(|one| Some((one.entry?, one.value))).collect();
            Some((name, RawValue::Map(map)))
        }
        (None, None) => None,
    }
}

fn warn_about(spec: &OptionSpec, name: &str) {
    let connector = spec.connector;
    if spec.is_deprecated_name(name) && first_time(connector, name) {
        tracing::warn!(connector, option = name, replacement = spec.key, "option name is deprecated");
    }
    if let Some(reason) = spec.inert
        && first_time(connector, spec.key)
    {
        tracing::warn!(connector, option = spec.key, reason, "option has no effect");
    }
}

/// True once in the life of the process for a name.
fn first_time(connector: &str, name: &str) -> bool {
    static WARNED: LazyLock<Mutex<BTreeSet<String>>> = LazyLock::new(Mutex::default);
    WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{connector} {name}"))
}

/// Parses raw options into slots.
fn fill(set: &SetSpec, raw: RawOptions, slots: &mut [&mut dyn AnySlot], problems: &mut Problems) {
    for (place, given) in sort(set, raw, problems).into_iter().enumerate() {
        let spec = &set.options[place];
        let Some((name, value)) = settle(spec, given, problems) else { continue };
        warn_about(spec, &name);
        let shown = (!spec.secret).then(|| value.shown());
        let outcome = match (slots.get_mut(place), spec.constant) {
            (Some(slot), _) => slot.set(value),
            (None, Some(constant)) if value.into_text().is_ok_and(|text| text.as_str() == constant) => Ok(()),
            (None, constant) => Err(Invalid::new(format!("must be `{}`", constant.unwrap_or_default()))),
        };
        if let Err(reason) = outcome {
            problems.invalid(spec, &name, shown.as_deref(), &reason);
        }
    }
}

/// Checks what is in the slots: bounds, names inside maps, and what is missing.
fn check(set: &SetSpec, slots: &[&mut dyn AnySlot], problems: &mut Problems) {
    for (slot, spec) in slots.iter().zip(set.options) {
        if let Err(reason) = slot.check(spec) {
            let shown = slot.to_raw().map(|raw| raw.shown());
            problems.invalid(spec, spec.key, shown.as_deref(), &reason);
        }
        for name in slot.names() {
            if let Some(message) = misplaced(set, spec, &name) {
                problems.push(spec.key, message);
            }
        }
        if spec.required && !slot.is_set() {
            problems.missing(spec);
        }
    }
}

/// Says where an option belongs that was put inside a map of the system's own names.
fn misplaced(set: &SetSpec, map: &OptionSpec, name: &str) -> Option<String> {
    // Without word from the connector only a dotted key is surely ours: a short form such as
    // `retries` may be the system's name as well.
    let ours = match set.holds(map, name) {
        Some(theirs) => !theirs,
        None => name.contains('.') && short_form(name).is_some_and(|short| !short.is_empty()),
    };
    if !ours {
        return None;
    }
    let inside = format!("`{name}` inside `{}`", map.key);
    if set.find(name).is_some() || set.refusal(name).is_some() {
        return Some(format!("{inside} is an option of the {}; move it out of the map", set.title()));
    }
    let spec = set.find_sibling(name)?;
    Some(format!("{inside} is an option of the {} {}", spec.connector, spec.role))
}

/// Parses a set from raw options.
#[doc(hidden)]
pub fn from_raw<X: OptionSet>(raw: RawOptions) -> Result<X> {
    let mut builder = X::Builder::default();
    let mut problems = Problems::default();
    fill(X::SET, raw, &mut X::slots(&mut builder), &mut problems);
    *X::problems(&mut builder) = problems;
    build(builder)
}

/// Checks a builder and takes the set out of it.
#[doc(hidden)]
pub fn build<X: OptionSet>(mut builder: X::Builder) -> Result<X> {
    let mut problems = std::mem::take(X::problems(&mut builder));
    check(X::SET, &X::slots(&mut builder), &mut problems);
    problems.into_result(X::SET)?;
    let options = X::assemble(builder).map_err(|error| error.with_operation(X::SET.operation))?;
    let mut problems = Problems::default();
    options.cross_check(&mut problems);
    problems.into_result(X::SET)?;
    Ok(options)
}

/// The values of a set as they would be written, secrets masked, unset ones left out.
#[doc(hidden)]
pub fn to_options<X: OptionSet>(options: &X) -> Vec<(&'static str, RawValue)> {
    let mut builder = options.to_builder();
    let slots = X::slots(&mut builder);
    slots.iter().zip(X::SET.options).filter_map(|(slot, spec)| Some((spec.key, slot.to_raw()?))).collect()
}

/// `Serialize` of a set: a flat map of keys to values, secrets masked.
#[doc(hidden)]
pub fn serialize<X: OptionSet, S: Serializer>(options: &X, serializer: S) -> Result<S::Ok, S::Error> {
    let options = to_options(options);
    let mut map = serializer.serialize_map(Some(options.len()))?;
    for (key, value) in &options {
        map.serialize_entry(key, &InClear(value))?;
    }
    map.end()
}

/// `Deserialize` of a set, by the same parser as pairs of text.
#[doc(hidden)]
pub fn deserialize<'de, X: OptionSet, D: Deserializer<'de>>(deserializer: D) -> Result<X, D::Error> {
    from_raw(RawOptions::deserialize(deserializer)?).map_err(de::Error::custom)
}

/// Reads an enum by its spellings.
#[doc(hidden)]
pub fn read_enum<E: Copy>(raw: RawValue, spellings: &[(E, &'static [&'static str])]) -> Result<E, Invalid> {
    let text = raw.into_text()?;
    let word = text.trim();
    if let Some((value, _)) =
        spellings.iter().find(|(_, words)| words.iter().any(|w| w.eq_ignore_ascii_case(word)))
    {
        return Ok(*value);
    }
    let words = spellings.iter().flat_map(|(_, words)| words.iter().copied());
    Err(Invalid::new(match nearest(word, words.clone()) {
        Some(near) => format!("is not one of the values; did you mean `{near}`?"),
        None => format!("is not one of {}", words.collect::<Vec<_>>().join(", ")),
    }))
}

/// Finds faults of a declaration, for a test of every option set: names that two options share,
/// defaults and bounds that do not parse, defaults out of bounds, missing behaviour lines.
pub fn declaration_faults<X: OptionSet>() -> Vec<String> {
    let set = X::SET;
    let mut faults = Vec::new();
    let mut names = BTreeSet::new();
    let refused = set.refused.iter().flat_map(|(key, _)| [Some(*key), short_form(key)]).flatten();
    for name in set.options.iter().flat_map(OptionSpec::names).chain(refused) {
        if !names.insert(name) {
            faults.push(format!("`{name}` is the name of two options"));
        }
    }
    for (key, _) in set.entries {
        if !set.options.iter().any(|spec| spec.map && spec.key == *key) {
            faults.push(format!("`{key}` under `entries` is not a map option"));
        }
    }
    let mut builder = X::Builder::default();
    for (slot, spec) in X::slots(&mut builder).into_iter().zip(set.options) {
        let mut fault = |text: String| faults.push(format!("`{}`: {text}", spec.key));
        if spec.behaviour.is_empty() {
            fault("has no behaviour line".to_owned());
        }
        for bound in [spec.min, spec.max].into_iter().flatten() {
            match slot.proof(bound) {
                Ok(true) => {}
                Ok(false) => fault(format!("values of type {} cannot be bounded", spec.type_name)),
                Err(reason) => fault(format!("the bound `{bound}` {reason}")),
            }
        }
        if let Some(text) = spec.default
            && let Err(reason) = slot.set(text.into()).and_then(|()| slot.check(spec))
        {
            fault(format!("the default `{text}` {reason}"));
        }
    }
    faults
}
