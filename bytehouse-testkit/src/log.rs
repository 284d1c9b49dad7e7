//! What clients asked for.

use std::sync::{Mutex, PoisonError};

/// A statement that a client sent, for assertions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// The connection that it came by: 1 for the first one.
    pub connection: u64,
    /// The user.
    pub user: String,
    /// The session's database.
    pub database: String,
    /// The query id that the client chose; empty when it left that to the server.
    pub query_id: String,
    /// The statement as it came.
    pub sql: String,
    /// The settings that came with it, as text.
    pub settings: Vec<(String, String)>,
    /// True when blocks travelled compressed.
    pub compression: bool,
    /// The protocol revision in use.
    pub revision: u64,
    /// Blocks with rows that the client sent.
    pub blocks: usize,
    /// Rows that the client sent.
    pub rows: usize,
    /// What became of it.
    pub outcome: Outcome,
}

impl LogEntry {
    /// The value of one of its settings.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The insert's deduplication token.
    pub fn insert_token(&self) -> Option<&str> {
        self.setting("insert_deduplication_token")
    }

    /// The insert's label.
    pub fn insert_label(&self) -> Option<&str> {
        self.setting("insertion_label")
    }

    /// True for an INSERT.
    pub fn is_insert(&self) -> bool {
        self.sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("insert"))
    }
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is not done.
    Running,
    /// The client got everything.
    Done,
    /// The client got an exception with this code.
    Failed(i32),
    /// The connection ended first, and nothing was stored.
    Broken,
    /// The connection ended first, but the rows are stored: the client cannot know.
    BrokenButStored,
}

#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Vec<LogEntry>>);

impl Log {
    /// Adds an entry and returns its number.
    pub(crate) fn add(&self, entry: LogEntry) -> usize {
        let mut entries = self.lock();
        entries.push(entry);
        entries.len() - 1
    }

    pub(crate) fn update(&self, number: usize, change: impl FnOnce(&mut LogEntry)) {
        if let Some(entry) = self.lock().get_mut(number) {
            change(entry);
        }
    }

    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<LogEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
