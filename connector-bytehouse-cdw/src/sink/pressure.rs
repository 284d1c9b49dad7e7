//! How much goes into one INSERT: what the options say, and what the server can take now.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use connector_bytehouse_common::error::{Retry, code_rule};
use connector_core::{Error, batch::BatchPolicy};

/// The code of a table whose parts are merged slower than they come.
const TOO_MANY_PARTS: i32 = 252;
/// How many flushes go into one at most while the server has too many parts.
const MOST_MERGED: u32 = 16;
/// Confirmed INSERTs without trouble after which a restraint is halved.
const CALM: u32 = 4;

/// What the server's refusals ask of the INSERTs to come.
///
/// Too many parts: fewer and larger ones, one at a time. No memory: smaller ones. Both wear off with INSERTs that go
/// through.
#[derive(Debug)]
pub(super) struct Pressure {
    policy: BatchPolicy,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Flushes that are merged into one.
    merged: u32,
    /// The rows that an INSERT may have for the server's memory.
    max_rows: Option<usize>,
    calm: u32,
}

impl Pressure {
    pub(super) fn new(policy: BatchPolicy) -> Self {
        Self { policy, state: Mutex::new(State { merged: 1, max_rows: None, calm: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An INSERT of `rows` rows was refused.
    pub(super) fn refused(&self, error: &Error, rows: usize) {
        let Some(rule) = code_rule(error) else { return };
        let mut state = self.state();
        if rule.code == TOO_MANY_PARTS && rule.retry == Retry::SameConnection {
            state.merged = (state.merged * 2).min(MOST_MERGED);
        } else if rule.retry == Retry::HalveBatch {
            let rows = state.max_rows.unwrap_or(rows).min(rows) / 2;
            state.max_rows = Some(rows.max(1));
        } else {
            return;
        }
        state.calm = 0;
    }

    /// An INSERT went through.
    pub(super) fn confirmed(&self) {
        let mut state = self.state();
        state.calm += 1;
        if state.calm >= CALM {
            state.calm = 0;
            state.merged = (state.merged / 2).max(1);
            state.max_rows =
                state.max_rows.map(|rows| rows.saturating_mul(2)).filter(|rows| *rows < self.policy.max_rows);
        }
    }

    /// True while INSERTs should go one at a time.
    pub(super) fn is_tight(&self) -> bool {
        let state = self.state();
        state.merged > 1 || state.max_rows.is_some()
    }

    /// Rows that make a flush now.
    pub(super) fn max_rows(&self) -> usize {
        let state = self.state();
        let merged = usize::try_from(state.merged).unwrap_or(1).saturating_mul(self.policy.max_rows);
        state.max_rows.map_or(merged, |rows| rows.min(merged))
    }

    fn max_interval(&self) -> Duration {
        self.policy.max_interval.saturating_mul(self.state().merged)
    }
}

/// What waits for its INSERT.
#[derive(Debug, Default)]
pub(super) struct Fill {
    rows: usize,
    bytes: usize,
    first: Option<Instant>,
}

impl Fill {
    pub(super) fn add(&mut self, rows: usize, bytes: usize) {
        self.rows += rows;
        self.bytes += bytes;
        self.first.get_or_insert_with(Instant::now);
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// True when rows or bytes have reached their bound.
    pub(super) fn is_full(&self, pressure: &Pressure) -> bool {
        self.rows > 0 && (self.rows >= pressure.max_rows() || self.bytes >= pressure.policy.max_bytes)
    }

    /// When it is to be flushed: at once when it is full, else when its interval ends.
    pub(super) fn due(&self, pressure: &Pressure) -> Option<Instant> {
        let first = self.first?;
        if self.is_full(pressure) { Some(first) } else { first.checked_add(pressure.max_interval()) }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use connector_bytehouse_common::error::server_error;

    use super::*;

    fn pressure() -> Pressure {
        Pressure::new(BatchPolicy {
            max_rows: 1000,
            max_bytes: 1 << 20,
            max_interval: Duration::from_secs(1),
        })
    }

    fn refusal(code: i32, text: &str) -> Error {
        server_error(code, "DB::Exception", text, "test")
    }

    #[test]
    fn too_many_parts_merge_flushes_until_inserts_go_through_again() {
        let pressure = pressure();
        let parts = refusal(252, "Too many parts (300)");
        pressure.refused(&parts, 1000);
        assert_eq!((pressure.max_rows(), pressure.is_tight()), (2000, true));
        (0..10).for_each(|_| pressure.refused(&parts, 1000));
        assert_eq!(pressure.max_rows(), 16_000);
        let mut fill = Fill::default();
        fill.add(15_999, 1);
        let first = fill.first.unwrap();
        assert_eq!(fill.due(&pressure), Some(first + Duration::from_secs(16)));
        fill.add(1, 1);
        assert_eq!(fill.due(&pressure), Some(first));
        (0..16).for_each(|_| pressure.confirmed());
        assert_eq!((pressure.max_rows(), pressure.is_tight()), (1000, false));
        pressure.refused(&refusal(252, "Too many partitions for single INSERT block (more than 100)"), 1000);
        assert_eq!(pressure.max_rows(), 1000, "that is not about parts");
    }

    #[test]
    fn memory_errors_make_flushes_smaller() {
        let pressure = pressure();
        let memory = refusal(241, "Memory limit exceeded");
        pressure.refused(&memory, 1000);
        pressure.refused(&memory, 500);
        assert_eq!((pressure.max_rows(), pressure.is_tight()), (250, true));
        (0..4).for_each(|_| pressure.confirmed());
        assert_eq!(pressure.max_rows(), 500);
        (0..4).for_each(|_| pressure.confirmed());
        assert_eq!((pressure.max_rows(), pressure.is_tight()), (1000, false));
        pressure.refused(&memory, 1);
        assert_eq!(pressure.max_rows(), 1);
    }
}
