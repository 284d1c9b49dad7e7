//! The hand-over between reader and writer: a channel bounded in bytes.

use std::sync::Arc;

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// A channel whose content is at most `capacity` bytes, or one value where a single one is larger. `in_flight` shows
/// how many bytes it holds.
pub(super) fn channel<T>(capacity: usize, in_flight: Gauge) -> (Sender<T>, Receiver<T>) {
    let capacity = u32::try_from(capacity.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
    let (sender, receiver) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(capacity as usize));
    (Sender { sender, room, capacity, in_flight: in_flight.clone() }, Receiver { receiver, in_flight })
}

pub(super) struct Sender<T> {
    sender: mpsc::UnboundedSender<(T, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    capacity: u32,
    in_flight: Gauge,
}

impl<T> Sender<T> {
    /// Waits for room, then hands `value` over. `Err` when the receiver is gone.
    pub(super) async fn send(&self, value: T, bytes: usize) -> Result<(), Gone> {
        // A value larger than the whole queue waits until the queue is empty.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.capacity);
        let permit = tokio::select! {
            permit = Arc::clone(&self.room).acquire_many_owned(bytes) => permit.map_err(|_| Gone)?,
            () = self.sender.closed() => return Err(Gone),
        };
        self.in_flight.increment(f64::from(bytes));
        self.sender.send((value, permit)).map_err(|_| Gone)
    }
}

/// The receiver is gone.
#[derive(Debug)]
pub(super) struct Gone;

pub(super) struct Receiver<T> {
    receiver: mpsc::UnboundedReceiver<(T, OwnedSemaphorePermit)>,
    in_flight: Gauge,
}

impl<T> Receiver<T> {
    /// The next value, whose room is free again; `None` when the sender is gone and nothing is left.
    /// Cancel-safe.
    pub(super) async fn recv(&mut self) -> Option<T> {
        let (value, room) = self.receiver.recv().await?;
        self.in_flight.decrement(bytes_of(&room));
        Some(value)
    }
}

/// What is left in the queue of a failed run is no longer in flight.
impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.receiver.close();
        while let Ok((_, room)) = self.receiver.try_recv() {
            self.in_flight.decrement(bytes_of(&room));
        }
    }
}

fn bytes_of(room: &OwnedSemaphorePermit) -> f64 {
    u32::try_from(room.num_permits()).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn bytes_bound_what_waits() {
        let (sender, mut receiver) = channel(100, Gauge::noop());
        sender.send(1, 60).await.unwrap();
        sender.send(2, 40).await.unwrap();
        assert!(timeout(Duration::from_millis(20), sender.send(3, 1)).await.is_err());
        assert_eq!(receiver.recv().await, Some(1));
        sender.send(3, 60).await.unwrap();
        assert_eq!((receiver.recv().await, receiver.recv().await), (Some(2), Some(3)));
        sender.send(4, 1_000_000).await.unwrap();
        assert!(timeout(Duration::from_millis(20), sender.send(5, 1)).await.is_err());
        drop(receiver);
        assert!(sender.send(6, 1).await.is_err());
    }

    #[tokio::test]
    async fn the_gauge_shows_what_waits_and_forgets_what_is_dropped() {
        let value = Arc::new(AtomicU64::new(0));
        let held = || f64::from_bits(value.load(Ordering::SeqCst));
        let (sender, mut receiver) = channel(100, Gauge::from_arc(Arc::clone(&value)));
        sender.send(1, 60).await.unwrap();
        sender.send(2, 40).await.unwrap();
        assert!((held() - 100.0).abs() < 0.5, "{}", held());
        receiver.recv().await.unwrap();
        assert!((held() - 40.0).abs() < 0.5, "{}", held());
        drop(receiver);
        assert!(held().abs() < 0.5, "{}", held());
    }
}
