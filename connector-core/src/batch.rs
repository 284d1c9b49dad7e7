//! When a buffer is full: [`BatchPolicy`] and [`BatchMeter`].

use std::time::{Duration, Instant};

/// Bounds of a buffer; whichever comes first closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPolicy {
    /// Rows.
    pub max_rows: usize,
    /// Bytes.
    pub max_bytes: usize,
    /// Time since the first row.
    pub max_interval: Duration,
}

/// Counts what is in a buffer against its [`BatchPolicy`].
#[derive(Debug, Clone)]
pub struct BatchMeter {
    policy: BatchPolicy,
    rows: usize,
    bytes: usize,
    first: Option<Instant>,
}

impl BatchMeter {
    /// An empty buffer.
    pub fn new(policy: BatchPolicy) -> Self {
        Self { policy, rows: 0, bytes: 0, first: None }
    }

    /// Adds rows that came in at `now`.
    pub fn add(&mut self, rows: usize, bytes: usize, now: Instant) {
        if rows > 0 {
            self.rows += rows;
            self.bytes += bytes;
            self.first.get_or_insert(now);
        }
    }

    /// Rows in the buffer.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes in the buffer.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True when rows or bytes have reached their bound.
    pub fn is_full(&self) -> bool {
        self.rows > 0 && (self.rows >= self.policy.max_rows || self.bytes >= self.policy.max_bytes)
    }

    /// When the buffer is to be closed: at once when it is full (the time of its first row, which is
    /// in the past), else when its interval ends; `None` while it is empty.
    pub fn due(&self) -> Option<Instant> {
        let first = self.first?;
        if self.is_full() { Some(first) } else { first.checked_add(self.policy.max_interval) }
    }

    /// Empties the buffer.
    pub fn clear(&mut self) {
        (self.rows, self.bytes, self.first) = (0, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_bytes_and_time_each_close_the_buffer() {
        let policy = BatchPolicy { max_rows: 10, max_bytes: 100, max_interval: Duration::from_secs(1) };
        let start = Instant::now();
        let mut meter = BatchMeter::new(policy);
        meter.add(0, 0, start);
        assert_eq!((meter.due(), meter.is_full()), (None, false));
        meter.add(9, 10, start);
        meter.add(0, 500, start + Duration::from_millis(5));
        assert_eq!((meter.due(), meter.is_full()), (Some(start + Duration::from_secs(1)), false));
        meter.add(1, 10, start + Duration::from_millis(10));
        assert_eq!((meter.due(), meter.is_full(), meter.rows(), meter.bytes()), (Some(start), true, 10, 20));
        meter.clear();
        meter.add(1, 100, start);
        assert!(meter.is_full());
    }
}
