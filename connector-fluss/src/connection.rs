//! A connection of the client, and the thread on which its writers send.
//!
//! The client's sender, told to end while a batch waits for one that is on its way, asks for ever whether it may go, without
//! ever giving its thread back. A runtime of the host would lose a worker to it, or stand still. So the sender has a
//! thread of its own, and is never told to end: it is dropped between two steps.

use std::{
    io,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use connector_core::{Error, ErrorKind, Result};
use fluss::client::FlussConnection;
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

use crate::error::from_client;

/// A connection to a cluster. Whoever drops the last one ends its writers: what they have not sent is not sent any more.
pub(crate) struct Connection {
    client: Arc<FlussConnection>,
    sending: OnceLock<Sending>,
}

impl Connection {
    pub(crate) fn new(client: FlussConnection) -> Self {
        Self { client: Arc::new(client), sending: OnceLock::new() }
    }

    /// Starts the client's sender. To be called before the client makes writers of a table, which would start it on the
    /// thread that asks.
    pub(crate) fn start_writers(&self) -> Result<()> {
        if self.sending.get().is_none() {
            let new = Sending::start().map_err(|e| {
                Error::new(ErrorKind::Unexpected, "the thread of a writer cannot be started").with_source(e)
            })?;
            // Of two that are made at once, one ends unused.
            drop(self.sending.set(new));
        }
        let _entered = self.sending.get().map(|sending| sending.runtime.enter());
        self.client.get_or_create_writer_client().map(drop).map_err(|e| from_client(&e))
    }

    /// Sends what writers hold back. What became of it, the writes themselves say.
    pub(crate) async fn flush(&self) -> Result<()> {
        self.start_writers()?;
        let writers = self.client.get_or_create_writer_client().map_err(|e| from_client(&e))?;
        writers.flush().await.map_err(|e| from_client(&e))
    }

    /// Ends the writers, and waits until nothing of theirs can go out any more.
    pub(crate) async fn end(mut self) {
        if let Some(sending) = self.sending.take() {
            let ended = sending.stop(&self.client);
            // It ends without a word.
            drop(ended.await);
        }
    }
}

impl Deref for Connection {
    type Target = FlussConnection;

    fn deref(&self) -> &FlussConnection {
        &self.client
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.take() {
            drop(sending.stop(&self.client));
        }
    }
}

/// A thread with a runtime.
struct Sending {
    runtime: Handle,
    stop: oneshot::Sender<Arc<FlussConnection>>,
    ended: oneshot::Receiver<()>,
}

impl Sending {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (over, ended) = oneshot::channel();
        std::thread::Builder::new().name("fluss-writer".to_owned()).spawn(move || {
            let connection = runtime.block_on(stopped);
            runtime.shutdown_background();
            // Only now: the end of the connection tells the sender to end.
            drop(connection);
            drop(over);
        })?;
        Ok(Self { runtime: handle, stop, ended })
    }

    /// Ends the thread. What is given back is ready when it has ended.
    fn stop(self, connection: &Arc<FlussConnection>) -> oneshot::Receiver<()> {
        // The thread is there as long as it was not told to stop.
        drop(self.stop.send(Arc::clone(connection)));
        self.ended
    }
}
