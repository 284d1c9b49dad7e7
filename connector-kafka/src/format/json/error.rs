//! Why a record could not be decoded, and where in it.

use std::{borrow::Cow, error::Error as StdError, fmt};

use connector_core::{Error, ErrorKind};

/// The most bytes of a value that an error repeats.
const EXCERPT: usize = 80;

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// It is not one JSON object in UTF-8: empty, cut off, malformed, followed by more, nested too deep.
    Syntax,
    /// A value has a JSON type that its column does not take.
    WrongType,
    /// A text is not what its column needs, such as a date or a number.
    InvalidText,
    /// A value is outside the limits of its column.
    OutOfRange,
    /// A value has more digits than its column can hold.
    Inexact,
    /// A null, or no value at all, for a column that is not nullable.
    MissingValue,
    /// A key stands twice in one object.
    DuplicateKey,
    /// A key has no column.
    UnknownField,
    /// The source did not have the value: a placeholder stands for it.
    Unavailable,
    /// It is well-formed and not what the format says, such as a change event without its table.
    Unexpected,
    /// The batch cannot take the record: finish it and decode the record again. The record is not at fault.
    BatchFull,
}

impl JsonErrorKind {
    /// A name for metric labels, such as `out_of_range`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::WrongType => "wrong_type",
            Self::InvalidText => "invalid_text",
            Self::OutOfRange => "out_of_range",
            Self::Inexact => "inexact",
            Self::MissingValue => "missing_value",
            Self::DuplicateKey => "duplicate_key",
            Self::UnknownField => "unknown_field",
            Self::Unavailable => "unavailable",
            Self::Unexpected => "unexpected",
            Self::BatchFull => "batch_full",
        }
    }
}

/// One step from an object or array to a value in it.
#[derive(Debug)]
enum Step {
    Field(String),
    Item(usize),
    Entry(String),
}

#[derive(Debug)]
struct Cause {
    kind: JsonErrorKind,
    offset: usize,
    expected: Cow<'static, str>,
    /// Stands for the value where there is none to show.
    found: Option<&'static str>,
    /// From the value outward.
    steps: Vec<Step>,
}

/// An error on its way out of the decoder: it collects its path and does not know the record's bytes.
#[derive(Debug)]
pub(in crate::format) struct Fault(Box<Cause>);

impl Fault {
    #[cold]
    pub(in crate::format) fn new(
        kind: JsonErrorKind,
        offset: usize,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self(Box::new(Cause { kind, offset, expected: expected.into(), found: None, steps: Vec::new() }))
    }

    #[cold]
    pub(in crate::format) fn syntax(offset: usize, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new(JsonErrorKind::Syntax, offset, expected)
    }

    /// A column without a value; `offset` is where its object ends.
    #[cold]
    pub(in crate::format) fn absent(offset: usize) -> Self {
        let mut fault =
            Self::new(JsonErrorKind::MissingValue, offset, "a value, as the column is not nullable");
        fault.0.found = Some("no such key");
        fault
    }

    /// Not the value is at fault: the batch has no room for it.
    #[cold]
    pub(in crate::format) fn batch_full() -> Self {
        Self::new(JsonErrorKind::BatchFull, 0, "at most 2 GiB of records in one batch").showing("more")
    }

    /// What is wrong.
    pub(in crate::format) fn kind(&self) -> JsonErrorKind {
        self.0.kind
    }

    /// The same for a value that stands at `offset`.
    #[cold]
    pub(in crate::format) fn at(mut self, offset: usize) -> Self {
        self.0.offset = offset;
        self
    }

    #[cold]
    pub(in crate::format) fn of_kind(mut self, kind: JsonErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    #[cold]
    pub(in crate::format) fn showing(mut self, found: &'static str) -> Self {
        self.0.found = Some(found);
        self
    }

    /// What stands for the value where nothing else does.
    #[cold]
    pub(in crate::format) fn or_showing(mut self, found: &'static str) -> Self {
        self.0.found.get_or_insert(found);
        self
    }

    #[cold]
    pub(in crate::format) fn in_field(mut self, name: &str) -> Self {
        self.0.steps.push(Step::Field(name.to_owned()));
        self
    }

    /// As `in_field`, for a name that the record chose, which may be long.
    #[cold]
    pub(in crate::format) fn in_key(self, key: &str) -> Self {
        self.in_field(&excerpt_text(key))
    }

    #[cold]
    pub(in crate::format) fn in_item(mut self, index: usize) -> Self {
        self.0.steps.push(Step::Item(index));
        self
    }

    #[cold]
    pub(in crate::format) fn in_entry(mut self, key: &str) -> Self {
        self.0.steps.push(Step::Entry(excerpt_text(key)));
        self
    }

    /// Adds what only the owner of the record's bytes knows.
    #[cold]
    pub(in crate::format) fn into_error(self, record: &[u8]) -> JsonError {
        let cause = *self.0;
        let mut path = String::new();
        for step in cause.steps.iter().rev() {
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                Step::Item(index) => path.push_str(&format!("[{index}]")),
                Step::Entry(key) => path.push_str(&format!("[{key:?}]")),
            }
        }
        let value = match cause.found {
            Some(_) => String::new(),
            None => excerpt(record, cause.offset),
        };
        JsonError(Box::new(Parts {
            kind: cause.kind,
            path,
            value,
            offset: cause.offset,
            expected: cause.expected,
            found: cause.found,
        }))
    }
}

/// The token that starts at `offset`, at most [`EXCERPT`] bytes of it.
fn excerpt(record: &[u8], offset: usize) -> String {
    let rest = record.get(offset..).unwrap_or_default();
    // A few bytes more than are shown, so that the cut is seen and falls between characters.
    let rest = rest.get(..EXCERPT + 8).unwrap_or(rest);
    let end = match rest.first() {
        None => 0,
        Some(b'"') => {
            let mut escaped = false;
            let close = rest.iter().skip(1).position(|byte| {
                let ends = *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                ends
            });
            close.map_or(rest.len(), |at| at + 2)
        }
        Some(b'{' | b'[' | b'\\') => rest.len(),
        Some(b',' | b':' | b'}' | b']') => 1,
        Some(_) => {
            let stop = rest.iter().position(|byte| b",:}] \t\r\n\"".contains(byte));
            stop.unwrap_or(rest.len()).max(1)
        }
    };
    let whole = rest.get(..end).unwrap_or(rest);
    excerpt_text(&String::from_utf8_lossy(whole))
}

fn excerpt_text(text: &str) -> String {
    if text.len() <= EXCERPT {
        return text.to_owned();
    }
    let end = (0..=EXCERPT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    kind: JsonErrorKind,
    path: String,
    value: String,
    offset: usize,
    expected: Cow<'static, str>,
    found: Option<&'static str>,
}

/// Why a record of any format was refused: the field, the value, where it stands and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError(Box<Parts>);

impl JsonError {
    /// The same of a value that stands elsewhere.
    pub(in crate::format) fn at(mut self, offset: usize) -> Self {
        self.0.offset = offset;
        self
    }

    /// What is wrong.
    pub fn kind(&self) -> JsonErrorKind {
        self.0.kind
    }

    /// The field, such as `items[3].price` or `labels["env"]`; empty for the record itself.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The value as it stands in the record, about 80 bytes of it at most; empty where there is none.
    pub fn value(&self) -> &str {
        &self.0.value
    }

    /// Where in the record the value, or the byte that makes no sense, stands: bytes from its start.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// What was expected there.
    pub fn expected(&self) -> &str {
        &self.0.expected
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "field `{}` ", self.0.path)?;
        }
        write!(f, "at byte {}: expected {}, found ", self.0.offset, self.0.expected)?;
        match self.0.found {
            Some(found) => f.write_str(found),
            None if self.0.value.is_empty() => f.write_str("the end of the record"),
            None => write!(f, "`{}`", self.0.value),
        }
    }
}

impl StdError for JsonError {}

impl From<JsonError> for Error {
    /// `DataInvalid`, with the field, the byte and the value as context; for a full batch `Unexpected`.
    fn from(error: JsonError) -> Self {
        let kind = match error.kind() {
            JsonErrorKind::BatchFull => ErrorKind::Unexpected,
            _ => ErrorKind::DataInvalid,
        };
        let mut converted = Self::new(kind, error.to_string()).with_operation("kafka.decode");
        if !error.path().is_empty() {
            converted = converted.with_context("field", error.path());
        }
        converted = converted.with_context("byte", error.offset());
        if !error.value().is_empty() {
            converted = converted.with_context("value", error.value());
        }
        converted
    }
}
