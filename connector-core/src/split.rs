//! Splits and offsets: what a reader reads, and how far it has come.

use std::fmt::{self, Debug, Display};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The stable name of a split within its source, such as `orders-3`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SplitId(String);

impl SplitId {
    /// A split id.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place in a split: where reading goes on. An offset always means "the next row", never "the last one read".
pub trait Offset:
    Clone + Debug + Display + PartialOrd + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// A part of a source that one reader reads in order.
///
/// A split is plain data: a checkpoint is its serialized form, so its shape changes only together
/// with [`Split::FORMAT_VERSION`].
pub trait Split: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// A place in the split.
    type Offset: Offset;

    /// Version of the serialized form. Raise it with every change, and keep a golden file of each.
    const FORMAT_VERSION: u32;

    /// The split's name; the same for every discovery and across restarts.
    fn id(&self) -> SplitId;

    /// Where reading goes on; `None` before the reader has found its first offset.
    fn offset(&self) -> Option<&Self::Offset>;

    /// Moves the split to `offset`.
    fn seek(&mut self, offset: Self::Offset);

    /// Makes the split end before `end`, so that a reader reads exactly the rows up to there and
    /// then reports [`Finished`](crate::source::SourceEvent::Finished). Used to repeat a known
    /// range after a crash. An earlier end stays as it is.
    fn end_before(&mut self, end: &Self::Offset);
}
