//! [`KafkaReader`]: what a program pulls events from.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use connector_core::{
    Boundedness, Error, ErrorKind, Result, SourceEvent, SourceReader, Split, SplitId, async_trait,
};
use tokio::sync::oneshot;

use super::{
    Inner,
    handover::{Assigned, Ending, Handover, Popped, Token},
    split::{KafkaOffset, KafkaSplit},
    worker,
};

/// How long [`SourceReader::close`] takes at most.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

struct Entry {
    split: KafkaSplit,
    token: Token,
    finished: bool,
}

/// Reads partitions of Kafka topics on a thread of its own and hands out their rows.
///
/// See [`SourceReader`] for what each method promises. Dropping a reader lets its thread go; it ends by
/// itself. Events of different splits come in no particular order; those of one split in the log's order.
pub struct KafkaReader {
    source: Arc<Inner>,
    splits: BTreeMap<SplitId, Entry>,
    handover: Arc<Handover>,
    next_token: Token,
    /// Splits that the last event took away: the next call lets them go.
    revoked: Vec<SplitId>,
    /// Resolves when the thread has ended, librdkafka's threads included.
    ended: Option<oneshot::Receiver<()>>,
    closed: bool,
}

impl fmt::Debug for KafkaReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaReader")
            .field("splits", &self.splits.keys().map(SplitId::as_str).collect::<Vec<_>>())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl KafkaReader {
    pub(crate) async fn open(source: Arc<Inner>, splits: Vec<KafkaSplit>) -> Result<Self> {
        refuse_twice(&splits)?;
        // Where the group deals the partitions out, these are offsets for what it may give, here or elsewhere.
        source.remember(&splits);
        let splits = if source.known.is_some() { Vec::new() } else { source.place(splits).await? };
        let handover = Arc::new(Handover::default());
        let (started, start) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let settings = source.worker_settings();
        let thread = {
            let handover = Arc::clone(&handover);
            move || {
                worker::run(settings, &handover, started);
                drop(end);
            }
        };
        std::thread::Builder::new().name("kafka-reader".to_owned()).spawn(thread).map_err(|e| {
            Error::new(ErrorKind::Unavailable, "the system gives no further thread")
                .with_operation("kafka.open")
                .with_source(e)
        })?;
        // From here on dropping the reader, also half opened, ends the thread.
        let mut reader = Self {
            source,
            splits: BTreeMap::new(),
            handover,
            next_token: 1,
            revoked: Vec::new(),
            ended: Some(ended),
            closed: false,
        };
        start.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Unexpected, "the reading thread ended at once")
                .with_operation("kafka.open"))
        })?;
        reader.take_in(splits);
        Ok(reader)
    }

    /// Bytes of rows that are decoded and wait to be pulled. What librdkafka holds comes on top;
    /// `prefetch_bytes` bounds both together.
    pub fn read_ahead_bytes(&self) -> usize {
        self.handover.bytes()
    }

    fn take_in(&mut self, splits: Vec<KafkaSplit>) {
        let mut assigned = Vec::with_capacity(splits.len());
        for split in splits {
            let token = self.next_token;
            self.next_token += 1;
            assigned.push(Assigned { token, split: split.clone() });
            self.splits.insert(split.id(), Entry { split, token, finished: false });
        }
        self.handover.add(assigned);
    }

    /// Notes what an event says about its split.
    fn note(&mut self, token: Token, event: &SourceEvent<KafkaSplit>) {
        let (split, next) = match event {
            SourceEvent::Batch { split, next, .. }
            | SourceEvent::DeadLetters { split, next, .. }
            | SourceEvent::Schema { split, next: Some(next), .. }
            | SourceEvent::Advanced { split, next } => (split, Some(*next)),
            SourceEvent::Finished { split } => (split, None),
            SourceEvent::Assigned { splits } => {
                for split in splits {
                    let Some(token) = self.handover.admitted(&split.id()) else { continue };
                    self.splits.insert(split.id(), Entry { split: split.clone(), token, finished: false });
                }
                return;
            }
            SourceEvent::Revoked { splits } => {
                self.revoked = splits.iter().map(Split::id).collect();
                return;
            }
            _ => return,
        };
        let Some(entry) = self.splits.get_mut(split).filter(|entry| entry.token == token) else { return };
        match next {
            Some(next) => entry.split.seek(next),
            None => entry.finished = true,
        }
    }

    /// True when no further event can come.
    fn is_at_end(&self) -> bool {
        let bounded = self.source.boundedness() == Boundedness::Bounded;
        (bounded || !self.splits.is_empty()) && self.splits.values().all(|entry| entry.finished)
    }

    /// Commits the offsets behind all events returned so far to the group, whether or not anything was made of them.
    ///
    /// Called after each [`next`](SourceReader::next), this is what the option `commit_in_checkpoint=false` does in
    /// the product that its name comes from: rows that were polled and not written yet are lost to a crash. A pipeline
    /// never calls it.
    ///
    /// # Errors
    /// `Unsupported` where `commit_in_checkpoint` is set; `Closed` after the end. What becomes of the commit is counted, as
    /// that of an acknowledgement.
    pub fn commit_polled(&mut self) -> Result<()> {
        self.check_open()?;
        if !self.source.commits_polled {
            let text = "commit_in_checkpoint is set: offsets are committed when a checkpoint is acknowledged, and only then";
            return Err(Error::new(ErrorKind::Unsupported, text).with_operation("kafka.commit"));
        }
        let offsets = self.splits.values().filter_map(|entry| {
            let split = &entry.split;
            Some(((split.topic.clone(), split.partition), split.offset?.0))
        });
        self.handover.commit(offsets);
        Ok(())
    }

    fn check_manual(&self, operation: &'static str) -> Result<()> {
        if self.source.known.is_some() {
            let text = "the group deals the partitions out (assignment is `group`), and not the host";
            return Err(Error::new(ErrorKind::Unsupported, text).with_operation(operation));
        }
        Ok(())
    }

    fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::new(ErrorKind::Closed, "the reader is closed").with_operation("kafka.next"));
        }
        Ok(())
    }
}

fn refuse_twice(splits: &[KafkaSplit]) -> Result<()> {
    let mut ids: Vec<SplitId> = splits.iter().map(Split::id).collect();
    ids.sort();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::new(ErrorKind::Conflict, "a split stands twice in the list")
            .with_operation("kafka.open")
            .with_context("split", &pair[0])),
        None => Ok(()),
    }
}

#[async_trait]
impl SourceReader for KafkaReader {
    type Split = KafkaSplit;

    async fn next(&mut self) -> Result<Option<SourceEvent<KafkaSplit>>> {
        self.check_open()?;
        if !self.revoked.is_empty() {
            for id in std::mem::take(&mut self.revoked) {
                self.splits.remove(&id);
            }
            self.handover.release();
        }
        loop {
            match self.handover.pop() {
                Popped::Event(token, event) => {
                    self.note(token, &event);
                    return Ok(Some(event));
                }
                Popped::Failed(error) => return Err(error),
                Popped::Ended => {
                    let text = "the reader failed before; close it and open another one from the checkpoint";
                    return Err(Error::new(ErrorKind::Closed, text).with_operation("kafka.next"));
                }
                Popped::Empty if self.is_at_end() => return Ok(None),
                Popped::Empty => {}
            }
            // A wake-up between the look and the wait is kept, so none is missed.
            self.handover.ready.notified().await;
        }
    }

    async fn add_splits(&mut self, splits: Vec<KafkaSplit>) -> Result<()> {
        self.check_open()?;
        self.check_manual("kafka.add_splits")?;
        refuse_twice(&splits)?;
        if let Some(twice) = splits.iter().map(Split::id).find(|id| self.splits.contains_key(id)) {
            return Err(Error::new(ErrorKind::Conflict, "the reader has this split already")
                .with_operation("kafka.add_splits")
                .with_context("split", twice));
        }
        let splits = self.source.place(splits).await?;
        self.take_in(splits);
        Ok(())
    }

    async fn remove_splits(&mut self, ids: &[SplitId]) -> Result<Vec<KafkaSplit>> {
        self.check_open()?;
        self.check_manual("kafka.remove_splits")?;
        let gone: Vec<Entry> = ids.iter().filter_map(|id| self.splits.remove(id)).collect();
        self.handover.remove(&gone.iter().map(|entry| entry.token).collect::<Vec<_>>());
        Ok(gone.into_iter().map(|entry| entry.split).collect())
    }

    fn splits(&self) -> Vec<KafkaSplit> {
        self.splits.values().map(|entry| entry.split.clone()).collect()
    }

    async fn acknowledge(&mut self, splits: &[KafkaSplit]) -> Result<()> {
        self.check_open()?;
        self.source.remember(splits);
        let offsets = splits.iter().filter_map(|split| {
            let KafkaOffset(offset) = split.offset?;
            Some(((split.topic.clone(), split.partition), offset))
        });
        self.handover.commit(offsets);
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.handover.end(Ending::Close);
        let Some(ended) = &mut self.ended else { return Ok(()) };
        // The sender is dropped, never used: an error of the channel is the thread's end.
        let Ok(_) = tokio::time::timeout(CLOSE_DEADLINE, ended).await else {
            self.ended = None;
            let text = "the reader did not end in time; it goes on ending in the background";
            return Err(Error::new(ErrorKind::Timeout, text).with_operation("kafka.close"));
        };
        self.ended = None;
        Ok(())
    }
}

impl Drop for KafkaReader {
    fn drop(&mut self) {
        // After a close that ended well there is nobody left to hear it.
        if !self.closed {
            self.handover.end(Ending::Drop);
        }
    }
}
