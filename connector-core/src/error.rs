//! The one error type of the workspace.
//!
//! An [`Error`] says *what* went wrong ([`ErrorKind`]), *whether trying again can help*
//! ([`RetryState`]), *where* (the operation, such as `kafka.fetch`) and *about what* (context
//! pairs, such as the topic and the offset). It is one word wide, so a `Result` stays small.

use std::{borrow::Cow, error::Error as StdError, fmt};

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Decides what a program does; the message is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option is unknown, missing, malformed, out of bounds or contradicts another one.
    OptionInvalid,
    /// The system did not accept who we say we are.
    Unauthenticated,
    /// The system knows who we are and forbids what we want.
    PermissionDenied,
    /// A table, topic, column, file or offset does not exist.
    NotFound,
    /// Something that was to be created exists already.
    AlreadyExists,
    /// The system cannot be reached, or cannot serve now.
    Unavailable,
    /// No answer came within the time allowed; the outcome may be unknown.
    Timeout,
    /// The system asks us to slow down.
    RateLimited,
    /// A table does not have the shape that the rows need.
    SchemaMismatch,
    /// A record or value cannot be read, or cannot be held exactly by its target.
    DataInvalid,
    /// Someone else did something first: fenced, concurrent commit, offset out of order.
    Conflict,
    /// A checkpoint cannot be used: another connector, an unknown version, damaged.
    CheckpointInvalid,
    /// The connector or the system cannot do this.
    Unsupported,
    /// The reader, writer or connection was closed before.
    Closed,
    /// A broken invariant, or an answer that makes no sense.
    Unexpected,
}

impl ErrorKind {
    /// The kind's name as it stands in messages and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OptionInvalid => "OptionInvalid",
            Self::Unauthenticated => "Unauthenticated",
            Self::PermissionDenied => "PermissionDenied",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Unavailable => "Unavailable",
            Self::Timeout => "Timeout",
            Self::RateLimited => "RateLimited",
            Self::SchemaMismatch => "SchemaMismatch",
            Self::DataInvalid => "DataInvalid",
            Self::Conflict => "Conflict",
            Self::CheckpointInvalid => "CheckpointInvalid",
            Self::Unsupported => "Unsupported",
            Self::Closed => "Closed",
            Self::Unexpected => "Unexpected",
        }
    }
}

/// Whether the same call may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryState {
    /// It fails again until someone changes something.
    Permanent,
    /// It may succeed when tried again.
    Transient,
    /// It was transient, was tried as often as allowed, and still fails.
    Exhausted,
}

struct Inner {
    kind: ErrorKind,
    retry: RetryState,
    operation: &'static str,
    message: Cow<'static, str>,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The error of every fallible call in the workspace.
///
/// `Display` is one line without the source (error reporters walk [`StdError::source`]); `Debug`
/// spans lines and includes it. Neither ever shows a secret: option values appear only where the
/// option is not a [`Secret`](crate::options::Secret).
pub struct Error(Box<Inner>);

impl Error {
    /// A permanent error of `kind` with a message that says what to do.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            retry: RetryState::Permanent,
            operation: "",
            message: message.into(),
            context: Vec::new(),
            source: None,
        }))
    }

    /// Names the operation that failed, such as `"bytehouse.insert"`. The innermost name stays.
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        if self.0.operation.is_empty() {
            self.0.operation = operation;
        }
        self
    }

    /// Adds a context pair, such as `("table", "app.orders")`. A key that is there already stays as it is.
    #[must_use]
    pub fn with_context(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        if !self.0.context.iter().any(|(k, _)| *k == key) {
            self.0.context.push((key, value.to_string()));
        }
        self
    }

    /// Keeps the foreign error that led to this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Sets whether trying again can help.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryState) -> Self {
        self.0.retry = retry;
        self
    }

    /// Marks the error as one that may go away when tried again.
    #[must_use]
    pub fn transient(self) -> Self {
        self.with_retry(RetryState::Transient)
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether trying again can help.
    pub fn retry_state(&self) -> RetryState {
        self.0.retry
    }

    /// True when the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        self.0.retry == RetryState::Transient
    }

    /// The operation that failed; empty when nobody named it.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The message without operation and context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The context pairs in the order in which they were added.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(k, v)| (*k, v.as_str()))
    }

    /// The value of one context key.
    pub fn context_value(&self, key: &str) -> Option<&str> {
        self.0.context.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.kind.as_str())?;
        match self.0.retry {
            RetryState::Permanent => {}
            RetryState::Transient => f.write_str(" (transient)")?,
            RetryState::Exhausted => f.write_str(" (retries exhausted)")?,
        }
        if !self.0.operation.is_empty() {
            write!(f, " at {}", self.0.operation)?;
        }
        write!(f, ": {}", self.0.message)?;
        for (i, (key, value)) in self.0.context.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { " [" } else { ", " })?;
        }
        if self.0.context.is_empty() { Ok(()) } else { f.write_str("]") }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut source = StdError::source(self);
        while let Some(error) = source {
            write!(f, "\n  caused by: {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_line_and_debug_walks_the_sources() {
        let io = std::io::Error::other("connection reset");
        let error = Error::new(ErrorKind::Unavailable, "the server closed the connection")
            .transient()
            .with_operation("bytehouse.insert")
            .with_operation("pipeline.flush")
            .with_context("table", "app.orders")
            .with_context("table", "other")
            .with_context("rows", 12)
            .with_source(io);
        assert_eq!(
            error.to_string(),
            "Unavailable (transient) at bytehouse.insert: the server closed the connection [table=app.orders, rows=12]"
        );
        assert_eq!(format!("{error:?}"), format!("{error}\n  caused by: connection reset"));
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
