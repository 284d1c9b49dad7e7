//! Finds topics, partitions and offsets. Everything here blocks and runs off the runtime.

use std::collections::{BTreeMap, BTreeSet};

use connector_core::{Error, ErrorKind, Result, Split};
use jiff::Timestamp;
use rdkafka::{Offset, TopicPartitionList, metadata::MetadataTopic, types::RDKafkaErrorCode as Code};
use regex::Regex;

use super::{
    metrics::count_expired,
    split::{KafkaOffset, KafkaSplit},
    worker::expired_error,
};
use crate::{
    client::Admin,
    error,
    options::{ResetPolicy, StartupMode},
};

/// Up to so many named topics are asked for one by one; beyond it one question for all topics is cheaper.
const ASK_ONE_BY_ONE: usize = 16;
/// How alike a name must be to be offered in place of one that does not exist.
const ALIKE: f64 = 0.7;

/// One entry of the option `topics`.
#[derive(Debug, Clone)]
pub(crate) enum TopicPattern {
    /// A name.
    Name(String),
    /// A regular expression that the whole name must match.
    Regex(Regex),
}

impl TopicPattern {
    /// An entry made only of letters, digits, `.`, `_` and `-` is a name; anything else an expression.
    pub(crate) fn parse(entry: &str) -> Result<Self> {
        if entry.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')) {
            return Ok(Self::Name(entry.to_owned()));
        }
        Regex::new(&format!("^(?:{entry})$")).map(Self::Regex).map_err(|e| {
            Error::new(
                ErrorKind::OptionInvalid,
                format!("topics: `{entry}` is neither a topic's name nor a regular expression (look-around and back-references are not supported)"),
            )
            .with_source(e)
        })
    }

    /// Internal topics, which begin with `__`, are read only where they are named.
    fn matches(&self, topic: &str) -> bool {
        match self {
            Self::Name(name) => name == topic,
            Self::Regex(regex) => !topic.starts_with("__") && regex.is_match(topic),
        }
    }
}

/// Where the splits of a bounded read end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// At the end of the log as it is now.
    Latest,
    /// Behind this offset.
    Offset(i64),
    /// Before the first record of this time (milliseconds) or later.
    Timestamp(i64),
}

/// What to look for.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) topics: Vec<TopicPattern>,
    /// `None` where nothing says where to start: only a checkpoint can.
    pub(crate) startup: Option<StartupMode>,
    /// `None` for a read without end.
    pub(crate) end: Option<End>,
    /// Whether splits wait at their end for more.
    pub(crate) open_end: bool,
    /// Whether topics may appear later.
    pub(crate) topics_may_follow: bool,
    pub(crate) reset: Option<ResetPolicy>,
}

/// A topic and one of its partitions.
pub(crate) type Place = (String, i32);

impl Plan {
    /// What depends on the present time.
    pub(crate) fn check_times(&self) -> Result<()> {
        let Some(End::Timestamp(end)) = self.end else { return Ok(()) };
        if end > Timestamp::now().as_millisecond() {
            let text = "end_timestamp is later than now; records up to it may still be written";
            return Err(Error::new(ErrorKind::OptionInvalid, text).with_context("end_timestamp", end));
        }
        Ok(())
    }

    /// The partitions of the topics, in order.
    pub(crate) fn places(&self, admin: &Admin<'_>) -> Result<Vec<Place>> {
        let names: BTreeSet<&str> = self.names().collect();
        let mut partitions = BTreeMap::new();
        if names.len() == self.topics.len() && names.len() <= ASK_ONE_BY_ONE {
            for name in names {
                let metadata = admin.metadata(Some(name))?;
                for topic in metadata.topics().iter().filter(|topic| topic.name() == name) {
                    self.note(topic, &mut partitions)?;
                }
            }
        } else {
            let metadata = admin.metadata(None)?;
            for topic in metadata.topics() {
                if self.topics.iter().any(|pattern| pattern.matches(topic.name())) {
                    self.note(topic, &mut partitions)?;
                }
            }
        }
        self.check_found(admin, &partitions)?;
        Ok(partitions
            .into_iter()
            .flat_map(|(topic, ids)| ids.into_iter().map(move |id| (topic.clone(), id)))
            .collect())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.topics.iter().filter_map(|pattern| match pattern {
            TopicPattern::Name(name) => Some(name.as_str()),
            TopicPattern::Regex(_) => None,
        })
    }

    /// Notes the partitions of a topic that exists. One without a leader counts too: it gets one.
    fn note(&self, topic: &MetadataTopic, partitions: &mut BTreeMap<String, Vec<i32>>) -> Result<()> {
        match topic.error().map(Code::from) {
            None | Some(Code::LeaderNotAvailable) => {
                let mut ids: Vec<i32> = topic.partitions().iter().map(|partition| partition.id()).collect();
                ids.sort_unstable();
                if !ids.is_empty() {
                    partitions.insert(topic.name().to_owned(), ids);
                }
                Ok(())
            }
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => Ok(()),
            // A topic that an expression happens to match and that is not for us is not asked for.
            Some(Code::TopicAuthorizationFailed) if !self.names().any(|name| name == topic.name()) => Ok(()),
            Some(code) => Err(error::from_code(code, "").with_context("topic", topic.name())),
        }
    }

    fn check_found(&self, admin: &Admin<'_>, found: &BTreeMap<String, Vec<i32>>) -> Result<()> {
        let missing: BTreeSet<&str> = self.names().filter(|name| !found.contains_key(*name)).collect();
        if !missing.is_empty() {
            return Err(missing_topics(&missing, admin));
        }
        if found.is_empty() && !self.topics_may_follow {
            let patterns: Vec<String> = self.topics.iter().map(|pattern| format!("`{pattern}`")).collect();
            let text =
                format!("no topic matches {}; an expression must match the whole name", patterns.join(", "));
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        Ok(())
    }

    /// Splits at their first start: by the startup mode, and with their end.
    pub(crate) fn first_splits(&self, admin: &Admin<'_>, places: &[Place]) -> Result<Vec<KafkaSplit>> {
        let Some(startup) = self.startup else {
            let text = "auto_offset_reset is none, so nothing says where to start without a checkpoint; \
                        set start_offset or start_timestamp, or auto_offset_reset to earliest or latest";
            return Err(Error::new(ErrorKind::OptionInvalid, text));
        };
        self.splits(admin, places, startup)
    }

    /// Splits that were found after the first start: nothing written before that may be lost.
    pub(crate) fn later_splits(&self, admin: &Admin<'_>, places: &[Place]) -> Result<Vec<KafkaSplit>> {
        self.splits(admin, places, StartupMode::Earliest)
    }

    fn splits(&self, admin: &Admin<'_>, places: &[Place], startup: StartupMode) -> Result<Vec<KafkaSplit>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let low = admin.offsets(places, Offset::Beginning)?;
        // Before any question about times: a record that is written between the two is not skipped then.
        let high = admin.offsets(places, Offset::End)?;
        let starts = match startup {
            StartupMode::Timestamp(millis) => Some(admin.offsets(places, Offset::Offset(millis))?),
            _ => None,
        };
        let ends = match self.end {
            Some(End::Timestamp(millis)) => Some(admin.offsets(places, Offset::Offset(millis))?),
            _ => None,
        };
        places
            .iter()
            .map(|place| {
                let (low, high) = (known(&low, place)?, known(&high, place)?);
                let start = match startup {
                    StartupMode::Earliest => low,
                    StartupMode::Latest => high,
                    StartupMode::Offset(offset) => offset.clamp(low, high.max(low)),
                    StartupMode::Timestamp(millis) => {
                        let found = starts.as_ref().and_then(|starts| starts.get(place)).copied().flatten();
                        if found.is_none() && high > low {
                            let (topic, partition) = place;
                            tracing::warn!(
                                topic,
                                partition,
                                millis,
                                "no record is as late as start_timestamp; starting at the end"
                            );
                        }
                        found.unwrap_or(high)
                    }
                };
                let stop = self.end.map(|end| match end {
                    End::Latest => high,
                    End::Offset(offset) => offset.saturating_add(1).clamp(low, high.max(low)),
                    End::Timestamp(_) => {
                        ends.as_ref().and_then(|ends| ends.get(place)).copied().flatten().unwrap_or(high)
                    }
                });
                let split = KafkaSplit::new(place.0.clone(), place.1).starting_at(start);
                Ok(KafkaSplit { stop: stop.map(KafkaOffset), open_end: self.open_end, ..split })
            })
            .collect()
    }

    /// Sees to it that a split's offsets are in the log, from `low` to `high`.
    fn moved_into(&self, split: &mut KafkaSplit, asked: KafkaOffset, (low, high): (i64, i64)) -> Result<()> {
        let high = high.max(low);
        let (topic, partition) = (split.topic.clone(), split.partition);
        let gone = |offset: i64| match self.reset {
            None => Err(expired_error(&topic, partition, offset, (low, high))),
            Some(policy) => {
                let next = if policy == ResetPolicy::Earliest { low } else { high };
                tracing::warn!(
                    topic,
                    partition,
                    offset,
                    next,
                    "an offset is gone from the log; reading goes on elsewhere"
                );
                count_expired(&topic);
                Ok(next)
            }
        };
        if !(low..=high).contains(&asked.0) {
            split.seek(KafkaOffset(gone(asked.0)?));
        }
        // A known end was once in the log. Where it is not any more, waiting for it would never end.
        if let Some(stop) = split.stop.filter(|stop| stop.0 > high && !split.open_end) {
            gone(stop.0)?;
            split.stop = Some(KafkaOffset(high));
        }
        Ok(())
    }

    /// Splits that a reader can be opened on: each at an offset that is in the log.
    ///
    /// # Errors
    /// `CheckpointInvalid` for an offset that is gone, unless `auto_offset_reset` was set to go on elsewhere.
    pub(crate) fn placed(&self, admin: &Admin<'_>, splits: Vec<KafkaSplit>) -> Result<Vec<KafkaSplit>> {
        let place = |split: &KafkaSplit| (split.topic.clone(), split.partition);
        let unplaced: Vec<Place> = splits.iter().filter(|split| split.offset.is_none()).map(place).collect();
        let mut starts = BTreeMap::new();
        if !unplaced.is_empty() {
            let found = self.first_splits(admin, &unplaced)?;
            starts.extend(found.into_iter().map(|split| (place(&split), split)));
        }
        let to_check: Vec<Place> =
            splits.iter().filter(|split| split.offset.is_some() && !split.is_finished()).map(place).collect();
        let (low, high) = if to_check.is_empty() {
            (BTreeMap::new(), BTreeMap::new())
        } else {
            (admin.offsets(&to_check, Offset::Beginning)?, admin.offsets(&to_check, Offset::End)?)
        };
        splits
            .into_iter()
            .map(|mut split| {
                let place = place(&split);
                let Some(asked) = split.offset.filter(|_| !split.is_finished()) else {
                    // Its own end, where it has one, is what its owner wants.
                    if let Some(found) = starts.remove(&place) {
                        split.open_end |= split.stop.is_none() && found.open_end;
                        split.stop = split.stop.or(found.stop);
                        split.offset = split.offset.or(found.offset);
                    }
                    return Ok(split);
                };
                let log = (known(&low, &place)?, known(&high, &place)?);
                self.moved_into(&mut split, asked, log)?;
                Ok(split)
            })
            .collect()
    }
}

impl std::fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            // Without the anchors that were put around it.
            Self::Regex(regex) => {
                let text = regex.as_str();
                f.write_str(text.strip_prefix("^(?:").and_then(|t| t.strip_suffix(")$")).unwrap_or(text))
            }
        }
    }
}

/// An offset that the brokers must know.
fn known(offsets: &BTreeMap<Place, Option<i64>>, place: &Place) -> Result<i64> {
    offsets.get(place).copied().flatten().ok_or_else(|| {
        Error::new(ErrorKind::Unexpected, "the broker did not say where the partition begins or ends")
            .with_context("topic", &place.0)
            .with_context("partition", place.1)
    })
}

impl Admin<'_> {
    /// Offsets by `question`: the log's ends, or the first record at a time. `None` where there is no such record.
    fn offsets(&self, places: &[Place], question: Offset) -> Result<BTreeMap<Place, Option<i64>>> {
        let mut list = TopicPartitionList::with_capacity(places.len());
        for (topic, partition) in places {
            list.add_partition_offset(topic, *partition, question).map_err(|e| error::from_kafka(&e, ""))?;
        }
        let found = self.offsets_for_times(&list)?;
        Ok(found
            .elements()
            .iter()
            .map(|element| {
                let offset = match element.offset() {
                    Offset::Offset(offset) => Some(offset),
                    _ => None,
                };
                ((element.topic().to_owned(), element.partition()), offset)
            })
            .collect())
    }
}

fn missing_topics(missing: &BTreeSet<&str>, admin: &Admin<'_>) -> Error {
    // A list of names to choose from is a courtesy: without it the error stands all the same.
    let all: Vec<String> = admin
        .metadata(None)
        .map(|metadata| metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
        .unwrap_or_default();
    let parts: Vec<String> = missing
        .iter()
        .map(|name| {
            let near = near_names(name, &all);
            let hint = if near.is_empty() {
                String::new()
            } else {
                format!(" (did you mean {}?)", near.join(" or "))
            };
            format!("`{name}`{hint}")
        })
        .collect();
    let text = format!("no such topic, or no right to see it: {}", parts.join(", "));
    Error::new(ErrorKind::NotFound, text)
        .with_context("topic", missing.iter().copied().collect::<Vec<_>>().join(","))
}

fn near_names(name: &str, all: &[String]) -> Vec<String> {
    let lower = name.to_lowercase();
    let mut near: Vec<(f64, &String)> = all
        .iter()
        .filter(|other| *other != name && !other.starts_with("__"))
        .map(|other| (strsim::normalized_damerau_levenshtein(&lower, &other.to_lowercase()), other))
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(3).map(|(_, other)| format!("`{other}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_name_or_an_expression_for_the_whole_name() {
        let name = TopicPattern::parse("orders.eu_1-x").unwrap();
        assert!(matches!(&name, TopicPattern::Name(_)) && name.matches("orders.eu_1-x"));
        assert!(!name.matches("ordersXeu_1-x"), "a dot in a name is a dot");
        let regex = TopicPattern::parse("orders|pay.*").unwrap();
        assert!(regex.matches("orders") && regex.matches("payments"));
        assert!(!regex.matches("orders2") && !regex.matches("xorders") && !regex.matches("__pay"));
        assert_eq!(regex.to_string(), "orders|pay.*");
        assert!(!TopicPattern::parse(".*").unwrap().matches("__consumer_offsets"));
        assert!(TopicPattern::parse("__consumer_offsets").unwrap().matches("__consumer_offsets"));
        let error = TopicPattern::parse("orders(?!x)").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains("orders(?!x)"));
    }

    #[test]
    fn near_names_are_offered_the_nearest_first() {
        let all = ["orders", "Orders-eu", "payments", "__orders"].map(String::from);
        assert_eq!(near_names("order", &all), ["`orders`"]);
        assert_eq!(near_names("orders-eu", &all)[0], "`Orders-eu`");
        assert!(near_names("zebra", &all).is_empty());
    }

    #[test]
    fn an_end_in_the_future_is_refused() {
        let end = Timestamp::now().as_millisecond() + 60_000;
        let plan = |end| Plan {
            topics: Vec::new(),
            startup: None,
            end: Some(End::Timestamp(end)),
            open_end: false,
            topics_may_follow: false,
            reset: None,
        };
        assert_eq!(plan(end).check_times().unwrap_err().kind(), ErrorKind::OptionInvalid);
        plan(end - 120_000).check_times().unwrap();
    }
}
