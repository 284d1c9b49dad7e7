//! [`FlussSplit`]: a bucket of a table or of one of its partitions, and how far it has been read.

use std::{cmp::Ordering, fmt, fmt::Write as _};

use connector_core::{Offset, Split, SplitId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A primary key in bytes that sort as a full read hands rows out. Opaque to hosts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn hex(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, byte| {
            // Writing into a string does not fail.
            write!(text, "{byte:02x}").ok();
            text
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || de::Error::custom("a key must be an even number of hexadecimal digits");
        if !text.is_ascii() || text.len() % 2 != 0 {
            return Err(wrong());
        }
        let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16));
        bytes.collect::<Result<Vec<u8>, _>>().map(Self).map_err(|_| wrong())
    }
}

/// Keys that were read as they were at one offset of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The last of these keys, itself included; `None` for all that follow.
    pub up_to: Option<Key>,
    /// Changes from this offset on are not in what was read.
    pub from: i64,
}

/// A place in a split: the next row to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlussOffset {
    /// Among the rows of a full read of a primary-key table, which come in the order of their keys. Nothing was
    /// read yet where there are no parts; there are several where the read was interrupted.
    Snapshot {
        /// What was handed out.
        parts: Vec<Part>,
    },
    /// In the log.
    Log {
        /// The next change.
        next: i64,
        /// What a full read handed out, where parts of it are as of different offsets: a change before the
        /// offset of its key's part has been read already.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
    },
}

impl FlussOffset {
    /// A place in the log.
    pub fn log(next: i64) -> Self {
        Self::Log { next, parts: Vec::new() }
    }

    /// The next offset in the log, when reading is there.
    pub fn next_in_log(&self) -> Option<i64> {
        match self {
            Self::Log { next, .. } => Some(*next),
            Self::Snapshot { .. } => None,
        }
    }

    /// The last key that a full read handed out.
    pub(crate) fn last_key(&self) -> Option<&Key> {
        match self {
            Self::Snapshot { parts } => parts.last()?.up_to.as_ref(),
            Self::Log { .. } => None,
        }
    }
}

impl PartialOrd for FlussOffset {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Snapshot { .. }, Self::Snapshot { .. }) => self.last_key().partial_cmp(&other.last_key()),
            (Self::Snapshot { .. }, Self::Log { .. }) => Some(Ordering::Less),
            (Self::Log { .. }, Self::Snapshot { .. }) => Some(Ordering::Greater),
            (Self::Log { next: a, .. }, Self::Log { next: b, .. }) => a.partial_cmp(b),
        }
    }
}

impl fmt::Display for FlussOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log { next, .. } => write!(f, "{next}"),
            Self::Snapshot { .. } => match self.last_key() {
                Some(key) => write!(f, "full read after {key:?}"),
                None => f.write_str("full read"),
            },
        }
    }
}

impl Offset for FlussOffset {}

/// A partition of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FlussPartition {
    /// Its id: a partition that is dropped and made again has another one.
    pub id: i64,
    /// Its name: the values of the partition keys, joined by `$`.
    pub name: String,
}

/// A bucket of a table, or of one of its partitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlussSplit {
    /// The table's id: a table that is dropped and made again has another one.
    pub table_id: i64,
    /// The partition, in a partitioned table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<FlussPartition>,
    /// The bucket, from 0.
    pub bucket: i32,
    /// The next row.
    pub offset: FlussOffset,
    /// Where the split ends, itself not included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<FlussOffset>,
}

impl FlussSplit {
    pub(crate) fn is_at_end(&self) -> bool {
        self.end.as_ref().is_some_and(|end| self.offset >= *end)
    }
}

pub(crate) fn split_id(partition: Option<&FlussPartition>, bucket: i32) -> SplitId {
    SplitId::new(match partition {
        Some(partition) => format!("{}@{}/{bucket}", partition.name, partition.id),
        None => bucket.to_string(),
    })
}

impl Split for FlussSplit {
    type Offset = FlussOffset;

    const FORMAT_VERSION: u32 = 1;

    fn id(&self) -> SplitId {
        split_id(self.partition.as_ref(), self.bucket)
    }

    fn offset(&self) -> Option<&FlussOffset> {
        Some(&self.offset)
    }

    fn seek(&mut self, offset: FlussOffset) {
        self.offset = offset;
    }

    fn end_before(&mut self, end: &FlussOffset) {
        if self.end.as_ref().is_none_or(|old| end < old) {
            self.end = Some(end.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key::new(&[byte, 0xff])
    }

    fn snapshot(byte: u8) -> FlussOffset {
        FlussOffset::Snapshot { parts: vec![Part { up_to: Some(key(byte)), from: 7 }] }
    }

    #[test]
    fn the_stored_form_stays_what_it_is() {
        let mut split = FlussSplit {
            table_id: 3,
            partition: Some(FlussPartition { id: 5, name: "20260101$eu".to_owned() }),
            bucket: 2,
            offset: snapshot(10),
            end: None,
        };
        split.end_before(&FlussOffset::log(90));
        let golden = r#"{"table_id":3,"partition":{"id":5,"name":"20260101$eu"},"bucket":2,"offset":{"snapshot":{"parts":[{"up_to":"0aff","from":7}]}},"end":{"log":{"next":90}}}"#;
        assert_eq!(serde_json::to_string(&split).unwrap(), golden);
        assert_eq!(serde_json::from_str::<FlussSplit>(golden).unwrap(), split);
        assert_eq!(split.id().as_str(), "20260101$eu@5/2");
        let plain = r#"{"table_id":3,"bucket":0,"offset":{"log":{"next":4,"parts":[{"up_to":"0aff","from":4},{"up_to":null,"from":9}]}}}"#;
        let parsed: FlussSplit = serde_json::from_str(plain).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), plain);
        assert_eq!((parsed.id().as_str(), parsed.offset.next_in_log()), ("0", Some(4)));
        for wrong in ["0af", "0g", "ä"] {
            assert!(serde_json::from_str::<Key>(&format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn offsets_are_ordered_and_an_earlier_end_stays() {
        let start = FlussOffset::Snapshot { parts: Vec::new() };
        let order = [start, snapshot(1), snapshot(2), FlussOffset::log(0), FlussOffset::log(5)];
        assert!(order.windows(2).all(|pair| pair[0] < pair[1]));
        let mut split = FlussSplit {
            table_id: 1,
            partition: None,
            bucket: 0,
            offset: snapshot(1),
            end: Some(FlussOffset::log(5)),
        };
        split.end_before(&snapshot(2));
        split.end_before(&FlussOffset::log(0));
        assert_eq!(split.end, Some(snapshot(2)));
        assert!(!split.is_at_end());
        split.seek(snapshot(2));
        assert!(split.is_at_end());
        assert_eq!(snapshot(1).to_string(), "full read after 01ff");
    }
}
