//! Checkpoints: what a host stores so that reading goes on where it stopped.

use std::{
    fs::{self, File},
    io::{ErrorKind as IoErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::{Error, ErrorKind, Result},
    sink::FlushToken,
    split::Split,
};

/// Version of the envelope below, apart from that of the splits in it.
const ENVELOPE_VERSION: u32 = 1;

/// Where a source's splits are, and which flushes were under way. JSON; opaque to everybody but the
/// connector that wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Version of this envelope.
    version: u32,
    /// The connector whose splits these are.
    connector: String,
    /// [`Split::FORMAT_VERSION`] of the splits.
    format_version: u32,
    /// Every split seen so far, finished ones included, at the offset from which a restart reads.
    splits: Vec<Value>,
    /// Flushes that were announced and not confirmed: a restart repeats exactly them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending: Vec<PendingFlush>,
}

/// A flush that may or may not have reached its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingFlush {
    /// Its token.
    pub token: FlushToken,
    /// The splits it covers, at the offsets where it ends; it begins where `Checkpoint::splits` stands.
    pub until: Vec<Value>,
}

impl Checkpoint {
    /// A checkpoint of `splits`.
    ///
    /// # Errors
    /// `Unexpected` when a split does not serialize.
    pub fn new<S: Split>(connector: &str, splits: &[S]) -> Result<Self> {
        Ok(Self {
            version: ENVELOPE_VERSION,
            connector: connector.to_owned(),
            format_version: S::FORMAT_VERSION,
            splits: splits_to_values(splits)?,
            pending: Vec::new(),
        })
    }

    /// A checkpoint of splits that are serialized already, for erased sources.
    pub(crate) fn from_values(connector: &str, format_version: u32, splits: Vec<Value>) -> Self {
        Self {
            version: ENVELOPE_VERSION,
            connector: connector.to_owned(),
            format_version,
            splits,
            pending: Vec::new(),
        }
    }

    /// Adds flushes that are about to begin.
    #[must_use]
    pub fn with_pending(mut self, pending: Vec<PendingFlush>) -> Self {
        self.pending = pending;
        self
    }

    /// The connector that wrote it.
    pub fn connector(&self) -> &str {
        &self.connector
    }

    /// The flushes that were under way.
    pub fn pending(&self) -> &[PendingFlush] {
        &self.pending
    }

    /// How many splits it holds.
    pub fn num_splits(&self) -> usize {
        self.splits.len()
    }

    /// The splits, for the connector of this name and format version.
    ///
    /// # Errors
    /// `CheckpointInvalid` when another connector wrote it, when its version is not this one's, or when
    /// a split does not parse.
    pub fn splits<S: Split>(&self, connector: &str) -> Result<Vec<S>> {
        self.expect_connector(connector)?;
        splits_from_values(self.format_version, &self.splits)
    }

    /// Checks who wrote it.
    pub(crate) fn expect_connector(&self, connector: &str) -> Result<()> {
        if self.connector == connector {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::CheckpointInvalid,
            format!(
                "the checkpoint was written by `{}` and cannot be used by `{connector}`; give this pipeline a store of its own",
                self.connector
            ),
        ))
    }

    pub(crate) fn format_version(&self) -> u32 {
        self.format_version
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.splits
    }

    /// The checkpoint as JSON text.
    ///
    /// # Errors
    /// `Unexpected` when it does not serialize.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot serialize the checkpoint").with_source(e))
    }

    /// Reads a checkpoint from JSON text.
    ///
    /// # Errors
    /// `CheckpointInvalid` when the text is not one, or of an unknown envelope version.
    pub fn from_json(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let damaged = |e| {
            Error::new(ErrorKind::CheckpointInvalid, "this is not a checkpoint, or a damaged one")
                .with_source(e)
        };
        let Version { version } = serde_json::from_str(text).map_err(damaged)?;
        if version != ENVELOPE_VERSION {
            return Err(Error::new(
                ErrorKind::CheckpointInvalid,
                format!(
                    "the checkpoint has version {version}, this program reads version {ENVELOPE_VERSION}"
                ),
            ));
        }
        serde_json::from_str(text).map_err(damaged)
    }
}

/// Splits as JSON values.
pub(crate) fn splits_to_values<S: Split>(splits: &[S]) -> Result<Vec<Value>> {
    splits
        .iter()
        .map(|split| {
            serde_json::to_value(split).map_err(|e| {
                Error::new(ErrorKind::Unexpected, "cannot serialize a split")
                    .with_context("split", split.id())
                    .with_source(e)
            })
        })
        .collect()
}

/// Splits from JSON values of `format_version`.
pub(crate) fn splits_from_values<S: Split>(format_version: u32, values: &[Value]) -> Result<Vec<S>> {
    if format_version != S::FORMAT_VERSION {
        return Err(Error::new(
            ErrorKind::CheckpointInvalid,
            format!(
                "the checkpoint holds splits of format version {format_version}, this program reads version {}; \
                 use the program that wrote it, or start anew with an empty store",
                S::FORMAT_VERSION
            ),
        ));
    }
    values
        .iter()
        .map(|value| {
            S::deserialize(value).map_err(|e| {
                Error::new(ErrorKind::CheckpointInvalid, "a split in the checkpoint does not parse")
                    .with_source(e)
            })
        })
        .collect()
}

/// Where a host keeps the checkpoint of one pipeline.
#[async_trait]
pub trait CheckpointStore: Send + Sync + 'static {
    /// The newest checkpoint, or `None` at the very first start.
    ///
    /// # Errors
    /// `CheckpointInvalid` when there is one that cannot be read: never taken for "none". Others as the
    /// storage has them. Cancel-safe.
    async fn load(&self) -> Result<Option<Checkpoint>>;

    /// Stores a checkpoint. Durable on return: a crash afterwards finds it, a crash before finds the one
    /// before it.
    ///
    /// # Errors
    /// As the storage has them. The caller treats a failure as fatal for the pipeline, so a store that
    /// can try again does so itself. After a dropped future either checkpoint may be found.
    async fn store(&self, checkpoint: &Checkpoint) -> Result<()>;
}

/// Keeps the checkpoint in memory: for tests, and for hosts that keep no state.
#[derive(Debug, Default)]
pub struct MemoryCheckpointStore(Mutex<Option<Checkpoint>>);

impl MemoryCheckpointStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is stored now.
    pub fn latest(&self) -> Option<Checkpoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl CheckpointStore for MemoryCheckpointStore {
    async fn load(&self) -> Result<Option<Checkpoint>> {
        Ok(self.latest())
    }

    async fn store(&self, checkpoint: &Checkpoint) -> Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(checkpoint.clone());
        Ok(())
    }
}

#[async_trait]
impl<T: CheckpointStore + ?Sized> CheckpointStore for Arc<T> {
    async fn load(&self) -> Result<Option<Checkpoint>> {
        (**self).load().await
    }

    async fn store(&self, checkpoint: &Checkpoint) -> Result<()> {
        (**self).store(checkpoint).await
    }
}

/// Keeps the checkpoint in a folder of files `checkpoint-<number>.json`, the last few of them.
///
/// A checkpoint is written to a temporary file, flushed to disk, renamed, and the folder flushed: after
/// a crash at any moment the newest complete one is found. One store at a time may use a folder: a
/// lock file guards it while the store lives.
#[derive(Debug, Clone)]
pub struct FileCheckpointStore(Arc<Folder>);

impl FileCheckpointStore {
    /// Opens a folder, creates it where needed, and keeps the last three checkpoints in it.
    ///
    /// # Errors
    /// `Conflict` when the folder is open already; `PermissionDenied`, `NotFound` or `Unavailable` when
    /// the file system refuses.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        Self::open_keeping(folder, 3)
    }

    /// As [`Self::open`], with the number of checkpoints that stay in the folder, at least one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_keeping(folder: impl Into<PathBuf>, keep: usize) -> Result<Self> {
        Folder::open(folder.into(), keep.max(1)).map(|folder| Self(Arc::new(folder)))
    }

    /// Runs file work on a thread where waiting for the disk disturbs nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let folder = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || work(&folder)).await.unwrap_or_else(|e| {
            Err(Error::new(ErrorKind::Unexpected, "the checkpoint's file work was broken off").with_source(e))
        })
    }
}

#[async_trait]
impl CheckpointStore for FileCheckpointStore {
    async fn load(&self) -> Result<Option<Checkpoint>> {
        self.blocking(Folder::load).await
    }

    async fn store(&self, checkpoint: &Checkpoint) -> Result<()> {
        let text = checkpoint.to_json()?;
        self.blocking(move |folder| folder.store(&text)).await
    }
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    keep: usize,
    _lock: File,
}

impl Folder {
    fn open(path: PathBuf, keep: usize) -> Result<Self> {
        fs::create_dir_all(&path).map_err(|e| io_error("cannot create the checkpoint folder", &path, e))?;
        let lock_path = path.join("lock");
        let lock =
            File::create(&lock_path).map_err(|e| io_error("cannot create the lock file", &lock_path, e))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, keep, _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(Error::new(
                ErrorKind::Conflict,
                "another pipeline has this checkpoint folder open; stop it, or give each pipeline a folder of its own",
            )
            .with_context("folder", path.display())),
            Err(fs::TryLockError::Error(e)) => Err(io_error("cannot lock the checkpoint folder", &lock_path, e)),
        }
    }

    /// Numbers of the complete checkpoints, oldest first.
    fn numbers(&self) -> Result<Vec<u64>> {
        let failed = |e| io_error("cannot list the checkpoint folder", &self.path, e);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_prefix("checkpoint-")?.strip_suffix(".json"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("checkpoint-{number:012}.json"))
    }

    fn store(&self, text: &str) -> Result<()> {
        let numbers = self.numbers()?;
        let temporary = self.path.join("checkpoint.tmp");
        let failed = |e| io_error("cannot write the checkpoint", &temporary, e);
        let mut file = File::create(&temporary).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let path = self.file(numbers.last().map_or(1, |last| last + 1));
        fs::rename(&temporary, &path).map_err(|e| io_error("cannot rename the checkpoint", &path, e))?;
        File::open(&self.path)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| io_error("cannot flush the checkpoint folder", &self.path, e))?;
        for old in numbers.iter().rev().skip(self.keep - 1) {
            let path = self.file(*old);
            // A file that stays behind costs a few bytes; the new checkpoint is safe already.
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove an old checkpoint");
            }
        }
        Ok(())
    }

    fn load(&self) -> Result<Option<Checkpoint>> {
        let Some(newest) = self.numbers()?.pop() else { return Ok(None) };
        let path = self.file(newest);
        let text = fs::read_to_string(&path).map_err(|e| io_error("cannot read the checkpoint", &path, e))?;
        Checkpoint::from_json(&text).map(Some).map_err(|e| e.with_context("file", path.display()))
    }
}

fn io_error(what: &'static str, path: &Path, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        IoErrorKind::PermissionDenied | IoErrorKind::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        IoErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{what}: {error}"))
        .with_operation("checkpoint.file")
        .with_context("path", path.display())
        .with_source(error)
}
