//! Faults that a test scripts.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::exception::{Exception, code};

/// Something that goes wrong once, or as often as [`times`](Self::times) says.
///
/// Faults wait in the order in which they were injected; at each point the first one that fits takes effect.
///
/// ```
/// use bytehouse_testkit::Fault;
///
/// // The second and third insert into `orders` fail; all others go through.
/// let fault = Fault::fail_insert(252, "Too many parts (300)").nth(2).times(2).matching("orders");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    point: Point,
    effect: Effect,
    skip: u32,
    times: u32,
    matching: String,
}

/// Where a fault can strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Point {
    /// A connection was accepted; the client's hello was not read.
    Accept,
    /// The client's hello was read; the answer was not sent.
    Login,
    /// The server's hello was sent.
    AfterHello,
    /// A ping was read; it was not answered.
    Ping,
    /// Any statement was read; nothing was done.
    Statement,
    /// An INSERT was read; nothing was done.
    Insert,
    /// So many blocks of an insert were read.
    Block(usize),
    /// All blocks of an insert were read; nothing is stored.
    BeforeStore,
    /// All rows of an insert are stored; the end of the stream was not sent.
    AfterStore,
    /// The first block of a result is about to be sent.
    Result,
    /// A statement without a result was run; its end was not sent.
    Done,
}

/// What a fault does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    Fail(Exception),
    /// Closes the connection, in the middle of a block where one is under way.
    Cut,
    Stall(Duration),
    /// Reads the connection at this pace from here on.
    Throttle {
        bytes_per_second: u32,
    },
}

impl Fault {
    fn new(point: Point, effect: Effect) -> Self {
        Self { point, effect, skip: 0, times: 1, matching: String::new() }
    }

    /// Answers an INSERT with an exception instead of taking its rows.
    pub fn fail_insert(code: i32, message: impl Into<String>) -> Self {
        Self::new(Point::Insert, Effect::Fail(Exception::new(code, message)))
    }

    /// Answers a statement, whatever it is, with an exception.
    pub fn fail_statement(code: i32, message: impl Into<String>) -> Self {
        Self::new(Point::Statement, Effect::Fail(Exception::new(code, message)))
    }

    /// Answers an insert with an exception once `blocks` blocks have come.
    pub fn fail_after_blocks(blocks: usize, code: i32, message: impl Into<String>) -> Self {
        Self::new(Point::Block(blocks), Effect::Fail(Exception::new(code, message)))
    }

    /// Answers an insert with an exception after its rows are stored.
    pub fn fail_after_store(code: i32, message: impl Into<String>) -> Self {
        Self::new(Point::AfterStore, Effect::Fail(Exception::new(code, message)))
    }

    /// The insert that has too many parts to wait for: code 252, `times` times.
    pub fn too_many_parts(times: u32) -> Self {
        let message = "Too many parts (300). Merges are processing significantly slower than inserts.";
        Self::fail_insert(code::TOO_MANY_PARTS, message).times(times)
    }

    /// The insert on a node that only reads: code 164.
    pub fn read_only() -> Self {
        Self::fail_insert(code::READONLY, "Cannot execute query in readonly mode")
    }

    /// Refuses a login that would be right.
    pub fn refuse_login(code: i32) -> Self {
        Self::new(
            Point::Login,
            Effect::Fail(Exception::new(code, "Authentication failed: refused by a fault")),
        )
    }

    /// Closes the connection at a point. Rows are stored or not as the point says.
    pub fn cut(point: Point) -> Self {
        Self::new(point, Effect::Cut)
    }

    /// Closes the connection in the middle of the block of an insert that comes after `blocks` whole ones.
    pub fn cut_in_block(blocks: usize) -> Self {
        Self::new(Point::Block(blocks), Effect::Cut)
    }

    /// Closes the connection after the last block of an insert, before the end of the stream is sent.
    pub fn cut_before_end(stored: bool) -> Self {
        Self::cut(if stored { Point::AfterStore } else { Point::BeforeStore })
    }

    /// Closes the connection in the middle of the first block of a result.
    pub fn cut_in_result() -> Self {
        Self::cut(Point::Result)
    }

    /// Does nothing for a while at a point, then goes on. Time as tokio has it.
    pub fn stall(point: Point, duration: Duration) -> Self {
        Self::new(point, Effect::Stall(duration))
    }

    /// Reads what the next client sends at this pace.
    pub fn slow_reads(bytes_per_second: u32) -> Self {
        Self::new(Point::Accept, Effect::Throttle { bytes_per_second: bytes_per_second.max(1) })
    }

    /// Strikes the nth time for the first time, counted from 1 and from its injection.
    #[must_use]
    pub fn nth(mut self, n: u32) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// Strikes so many times, one after the other.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// Strikes only statements that hold this text.
    #[must_use]
    pub fn matching(mut self, text: impl Into<String>) -> Self {
        self.matching = text.into();
        self
    }
}

#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn add(&self, fault: Fault) {
        self.lock().push(fault);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// How many faults have not struck as often as they should.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// What happens at this point of this statement, if anything.
    pub(crate) fn take(&self, point: Point, sql: &str) -> Option<Effect> {
        let mut faults = self.lock();
        let mut found = None;
        for (i, fault) in faults.iter_mut().enumerate() {
            if fault.point != point || !sql.contains(&fault.matching) || fault.times == 0 {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            fault.times -= 1;
            found = Some((i, fault.times == 0, fault.effect.clone()));
            break;
        }
        let (i, done, effect) = found?;
        if done {
            faults.remove(i);
        }
        Some(effect)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_so_many_times_where_it_matches() {
        let faults = Faults::default();
        faults.add(Fault::fail_insert(1, "a").nth(2).times(2).matching("orders"));
        let strikes = |sql| faults.take(Point::Insert, sql).is_some();
        assert!(!strikes("into orders"), "the first one goes through");
        assert!(!strikes("into other") && faults.take(Point::Statement, "orders").is_none());
        assert!(strikes("into orders") && strikes("into orders"));
        assert!(!strikes("into orders") && faults.waiting() == 0);
    }
}
