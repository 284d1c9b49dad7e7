//! One checkpoint for all chains: each chain reports the splits that it made durable.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Mutex;

use crate::{
    checkpoint::{Checkpoint, CheckpointStore, PendingFlush},
    error::{Error, Result},
    sink::FlushToken,
    source::Source,
    split::{Split, SplitId},
};

/// A flush that was announced: which splits it covers, up to where.
pub(super) struct Pending<S> {
    pub(super) token: FlushToken,
    pub(super) until: Vec<S>,
}

struct State<S> {
    splits: BTreeMap<SplitId, S>,
    pending: BTreeMap<usize, Pending<S>>,
}

/// Merges what the chains report and stores it.
pub(super) struct Coordinator<S: Source> {
    source: Arc<S>,
    store: Option<Arc<dyn CheckpointStore>>,
    state: Mutex<State<S::Split>>,
    stored: AtomicU64,
}

impl<S: Source> Coordinator<S> {
    /// Loads the newest checkpoint. Returns the flushes to repeat, and whether there was one at all.
    pub(super) async fn load(
        source: Arc<S>,
        store: Option<Arc<dyn CheckpointStore>>,
    ) -> Result<(Self, Vec<Pending<S::Split>>, bool)> {
        let checkpoint = match &store {
            Some(store) => store.load().await?,
            None => None,
        };
        let mut splits = BTreeMap::new();
        let mut pending = Vec::new();
        if let Some(checkpoint) = &checkpoint {
            checkpoint.expect_connector(source.connector())?;
            let version = checkpoint.format_version();
            for split in source.restore(version, checkpoint.values())? {
                splits.insert(split.id(), split);
            }
            for flush in checkpoint.pending() {
                pending.push(Pending {
                    token: flush.token.clone(),
                    until: source.restore(version, &flush.until)?,
                });
            }
        }
        let state = Mutex::new(State { splits, pending: BTreeMap::new() });
        Ok((Self { source, store, state, stored: AtomicU64::new(0) }, pending, checkpoint.is_some()))
    }

    /// All splits known, at the offsets from which a restart reads.
    pub(super) async fn splits(&self) -> Vec<S::Split> {
        self.state.lock().await.splits.values().cloned().collect()
    }

    /// How many checkpoints were stored.
    pub(super) fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Says that a chain is about to flush under a token, so that a restart repeats exactly that.
    pub(super) async fn announce(&self, chain: usize, pending: Pending<S::Split>) -> Result<()> {
        let mut state = self.state.lock().await;
        state.pending.insert(chain, pending);
        self.store(&state).await
    }

    /// Everything before the offsets of `splits` is durable.
    pub(super) async fn commit(&self, chain: usize, splits: &[S::Split]) -> Result<()> {
        let mut state = self.state.lock().await;
        state.pending.remove(&chain);
        state.splits.extend(splits.iter().map(|split| (split.id(), split.clone())));
        self.store(&state).await
    }

    /// Splits that someone else reads from now on.
    pub(super) async fn forget(&self, ids: impl Iterator<Item = SplitId>) -> Result<()> {
        let mut state = self.state.lock().await;
        for id in ids {
            state.splits.remove(&id);
        }
        self.store(&state).await
    }

    async fn store(&self, state: &State<S::Split>) -> Result<()> {
        if let Some(store) = &self.store {
            store
                .store(&self.checkpoint(state)?)
                .await
                .map_err(|e| e.with_operation("pipeline.checkpoint"))?;
        }
        self.stored.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn checkpoint(&self, state: &State<S::Split>) -> Result<Checkpoint, Error> {
        let splits: Vec<S::Split> = state.splits.values().cloned().collect();
        let pending = state.pending.values().map(|pending| {
            Ok(PendingFlush { token: pending.token.clone(), until: self.source.snapshot(&pending.until)? })
        });
        let pending = pending.collect::<Result<Vec<_>>>()?;
        let values = self.source.snapshot(&splits)?;
        let version = self.source.split_format_version();
        Ok(Checkpoint::from_values(self.source.connector(), version, values).with_pending(pending))
    }
}
