//! Writes whose fate is not known yet.

use std::collections::VecDeque;

use connector_core::{Error, Result};
use fluss::client::WriteResultFuture;
use futures_util::FutureExt as _;

use crate::error::from_client;

/// The client's own flush says nothing of writes that failed, so each is kept until its answer is there.
#[derive(Default)]
pub(crate) struct Pending {
    writes: VecDeque<WriteResultFuture>,
    failed: u64,
    first: Option<Error>,
}

impl Pending {
    pub(crate) fn extend(&mut self, writes: Vec<WriteResultFuture>) {
        self.writes.extend(writes);
    }

    /// Forgets writes that are answered, the oldest first. The client's memory bounds what is left.
    pub(crate) fn reap(&mut self) -> Result<()> {
        while let Some(write) = self.writes.front_mut() {
            let Some(answer) = write.now_or_never() else { break };
            self.writes.pop_front();
            self.note(answer);
        }
        self.verdict()
    }

    /// Waits for every answer. Cancelling it loses no answer.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        while let Some(write) = self.writes.front_mut() {
            let answer = write.await;
            self.writes.pop_front();
            self.note(answer);
        }
        self.verdict()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    pub(crate) fn open(&self) -> usize {
        self.writes.len()
    }

    fn note(&mut self, answer: fluss::error::Result<()>) {
        if let Err(error) = answer {
            self.failed += 1;
            self.first.get_or_insert_with(|| from_client(&error));
        }
    }

    fn verdict(&mut self) -> Result<()> {
        self.first.take().map_or(Ok(()), |error| Err(error.with_context("failed_writes", self.failed)))
    }
}
