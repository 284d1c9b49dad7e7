//! Between the thread that reads and the program that pulls: events one way, orders the other.
//!
//! The queue is bounded in bytes. It is the reading thread that waits when it is full; the pulling
//! side never blocks. Everything happens under one lock, so that giving up a split also takes back
//! what was read ahead of it, and nothing of it can arrive later.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connector_core::{Error, SourceEvent, SplitId};
use tokio::sync::Notify;

use super::split::KafkaSplit;

/// Names one stay of a split in a reader. A split that is given up and comes back has a new one.
pub(crate) type Token = u64;

/// Stands for the group: its events are about several splits.
pub(crate) const GROUP: Token = 0;

/// A split as the reading thread gets it: its offset is known to exist.
#[derive(Debug, Clone)]
pub(crate) struct Assigned {
    pub(crate) token: Token,
    pub(crate) split: KafkaSplit,
}

/// An event and what it weighs.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) token: Token,
    pub(crate) event: SourceEvent<KafkaSplit>,
    pub(crate) bytes: usize,
}

/// How the reading thread is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ending {
    /// Not at all.
    #[default]
    Open,
    /// Send what was acknowledged, then end.
    Close,
    /// End at once.
    Drop,
}

/// What the reading thread has to do besides reading.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) remove: Vec<Token>,
    pub(crate) add: Vec<Assigned>,
    pub(crate) commit: BTreeMap<(String, i32), i64>,
    /// What the group takes back may go: all of it was acknowledged.
    pub(crate) release: bool,
    pub(crate) ending: Ending,
}

/// What [`Handover::pop`] found.
#[derive(Debug)]
pub(crate) enum Popped {
    Event(Token, SourceEvent<KafkaSplit>),
    /// The reading thread failed; it is told once.
    Failed(Error),
    /// The reading thread has ended and there is nothing left.
    Ended,
    /// Nothing yet.
    Empty,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Queued>,
    bytes: usize,
    live: HashSet<Token>,
    /// Tokens of splits that the group gave, until the pulling side has heard of them.
    admitted: HashMap<SplitId, Token>,
    orders: Orders,
    failure: Option<Error>,
    ended: bool,
}

/// The meeting point of one reader and its thread.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    state: Mutex<State>,
    /// Wakes the reading thread: there is room, or an order.
    work: Condvar,
    /// Wakes the pulling side: there is an event, or the end.
    pub(crate) ready: Notify,
}

impl Handover {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The pulling side.

    /// The next event, in order. Takes it and gives it in one step, so a caller that is cancelled loses none.
    pub(crate) fn pop(&self) -> Popped {
        let mut state = self.lock();
        if let Some(queued) = state.events.pop_front() {
            state.bytes -= queued.bytes;
            self.work.notify_one();
            return Popped::Event(queued.token, queued.event);
        }
        match state.failure.take() {
            Some(error) => Popped::Failed(error),
            None if state.ended => Popped::Ended,
            None => Popped::Empty,
        }
    }

    pub(crate) fn add(&self, splits: Vec<Assigned>) {
        let mut state = self.lock();
        state.live.extend(splits.iter().map(|split| split.token));
        state.orders.add.extend(splits);
        self.work.notify_one();
    }

    /// Takes splits away, with everything that was read ahead of them.
    pub(crate) fn remove(&self, tokens: &[Token]) {
        let mut state = self.lock();
        for token in tokens {
            state.live.remove(token);
        }
        let state = &mut *state;
        let bytes = &mut state.bytes;
        state.events.retain(|queued| {
            let keep = !tokens.contains(&queued.token);
            *bytes -= if keep { 0 } else { queued.bytes };
            keep
        });
        // What was not taken up yet need not be.
        state.orders.add.retain(|split| !tokens.contains(&split.token));
        state.orders.remove.extend(tokens);
        self.work.notify_one();
    }

    /// The token of a split that the group gave.
    pub(crate) fn admitted(&self, id: &SplitId) -> Option<Token> {
        self.lock().admitted.remove(id)
    }

    /// Lets go of what the group takes back.
    pub(crate) fn release(&self) {
        self.lock().orders.release = true;
        self.work.notify_one();
    }

    /// Asks for offsets to be committed. A later one of a partition replaces an earlier one.
    pub(crate) fn commit(&self, offsets: impl IntoIterator<Item = ((String, i32), i64)>) {
        self.lock().orders.commit.extend(offsets);
        self.work.notify_one();
    }

    pub(crate) fn end(&self, ending: Ending) {
        let mut state = self.lock();
        state.orders.ending = ending;
        if ending == Ending::Drop {
            state.events.clear();
            state.bytes = 0;
        }
        self.work.notify_one();
    }

    /// Bytes of events that wait to be pulled.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    // The reading thread.

    /// Lets events of a split pass that the group gave.
    pub(crate) fn admit(&self, id: SplitId, token: Token) {
        let mut state = self.lock();
        state.live.insert(token);
        state.admitted.insert(id, token);
    }

    /// Ends what [`Self::admit`] began.
    pub(crate) fn retire(&self, tokens: &[Token]) {
        let mut state = self.lock();
        for token in tokens {
            state.live.remove(token);
        }
    }

    /// Gives an event to the pulling side. Never waits; the thread looks for room before it reads on.
    pub(crate) fn push(&self, queued: Queued) {
        let mut state = self.lock();
        if queued.token != GROUP && !state.live.contains(&queued.token) {
            return;
        }
        state.bytes += queued.bytes;
        state.events.push_back(queued);
        drop(state);
        self.ready.notify_one();
    }

    /// Waits until less than `limit` bytes wait to be pulled, an order arrives, or `timeout` has passed.
    /// True when there is room.
    pub(crate) fn wait_for_room(&self, limit: usize, timeout: Duration) -> bool {
        let state = self.lock();
        let busy = |state: &mut State| state.bytes >= limit && state.orders.is_empty();
        let waited = self.work.wait_timeout_while(state, timeout, busy);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes < limit
    }

    /// Waits. False where the reader is to end.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let is_open = |state: &mut State| state.orders.ending == Ending::Open;
        let waited = self.work.wait_timeout_while(self.lock(), time, is_open);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_open(&mut state)
    }

    /// True when nothing waits to be pulled: whoever pulls is faster than what is read.
    pub(crate) fn is_drained(&self) -> bool {
        self.lock().events.is_empty()
    }

    pub(crate) fn take_orders(&self) -> Orders {
        let mut state = self.lock();
        let ending = state.orders.ending;
        std::mem::replace(&mut state.orders, Orders { ending, ..Orders::default() })
    }

    /// The thread is done. `failure` comes after the events that are queued already. The first call counts.
    pub(crate) fn finish(&self, failure: Option<Error>) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.ended, true) {
            state.failure = failure;
        }
        drop(state);
        self.ready.notify_one();
    }
}

impl Orders {
    fn is_empty(&self) -> bool {
        self.remove.is_empty()
            && self.add.is_empty()
            && self.commit.is_empty()
            && !self.release
            && self.ending == Ending::Open
    }
}

#[cfg(test)]
mod tests {
    use connector_core::ErrorKind;

    use super::*;
    use crate::source::split::{KafkaOffset, split_id};

    fn event(token: Token, next: i64, bytes: usize) -> Queued {
        let event = SourceEvent::Advanced { split: split_id("t", 0), next: KafkaOffset(next) };
        Queued { token, event, bytes }
    }

    fn live(tokens: &[Token]) -> Handover {
        let handover = Handover::default();
        let splits = tokens.iter().map(|token| Assigned { token: *token, split: KafkaSplit::new("t", 0) });
        handover.add(splits.collect());
        handover.take_orders();
        handover
    }

    #[test]
    fn events_come_in_order_and_the_failure_after_them() {
        let handover = live(&[1]);
        handover.push(event(1, 5, 10));
        handover.push(event(1, 6, 20));
        handover.finish(Some(Error::new(ErrorKind::DataInvalid, "bad")));
        assert_eq!(handover.bytes(), 30);
        for expected in [5, 6] {
            let Popped::Event(1, SourceEvent::Advanced { next, .. }) = handover.pop() else { panic!() };
            assert_eq!(next, KafkaOffset(expected));
        }
        assert_eq!(handover.bytes(), 0);
        assert!(matches!(handover.pop(), Popped::Failed(e) if e.kind() == ErrorKind::DataInvalid));
        assert!(matches!(handover.pop(), Popped::Ended));
    }

    #[test]
    fn a_split_that_is_given_up_leaves_nothing_behind_and_nothing_follows() {
        let handover = live(&[1, 2]);
        handover.push(event(1, 5, 10));
        handover.push(event(2, 7, 20));
        handover.remove(&[1]);
        handover.push(event(1, 6, 40));
        assert_eq!(handover.bytes(), 20);
        assert!(matches!(handover.pop(), Popped::Event(2, _)));
        assert!(matches!(handover.pop(), Popped::Empty));
        assert_eq!(handover.take_orders().remove, [1]);
    }

    #[test]
    fn an_order_to_add_is_forgotten_when_the_split_is_given_up_first() {
        let handover = Handover::default();
        handover.add(vec![Assigned { token: 3, split: KafkaSplit::new("t", 0) }]);
        handover.remove(&[3]);
        assert!(handover.take_orders().add.is_empty());
    }

    #[test]
    fn room_is_waited_for_and_orders_break_the_wait() {
        let handover = live(&[1]);
        handover.push(event(1, 5, 100));
        assert!(!handover.wait_for_room(100, Duration::from_millis(1)));
        assert!(handover.wait_for_room(101, Duration::from_secs(60)));
        handover.end(Ending::Close);
        // Would wait for a minute otherwise.
        assert!(!handover.wait_for_room(100, Duration::from_secs(60)));
        assert_eq!(handover.take_orders().ending, Ending::Close);
        assert_eq!(handover.take_orders().ending, Ending::Close, "the end stays ordered");
    }

    #[test]
    fn a_later_offset_replaces_an_earlier_one() {
        let handover = Handover::default();
        handover.commit([(("t".to_owned(), 0), 5)]);
        handover.commit([(("t".to_owned(), 0), 9), (("t".to_owned(), 1), 1)]);
        let commit = handover.take_orders().commit;
        assert_eq!(
            commit.into_iter().collect::<Vec<_>>(),
            [(("t".to_owned(), 0), 9), (("t".to_owned(), 1), 1)]
        );
        assert!(handover.take_orders().commit.is_empty());
    }
}
