//! Trying again: [`RetryPolicy`] and [`retry`].

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::error::{Error, Result, RetryState};

/// How often and how fast something transient is tried again: exponential back-off with a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries after the first one; `None` is without end.
    pub max_retries: Option<usize>,
    /// The first wait; each further one is twice as long.
    pub min_backoff: Duration,
    /// The longest wait.
    pub max_backoff: Duration,
}

impl RetryPolicy {
    /// Never again.
    pub const NEVER: Self = Self {
        max_retries: Some(0),
        min_backoff: Duration::from_secs(1),
        max_backoff: Duration::from_secs(1),
    };

    /// The waits, one for each further try.
    pub fn backoffs(&self) -> impl Iterator<Item = Duration> + Send + 'static {
        let builder = ExponentialBuilder::new()
            .with_min_delay(self.min_backoff)
            .with_max_delay(self.max_backoff)
            .with_factor(2.0);
        match self.max_retries {
            Some(times) => builder.with_max_times(times).build(),
            None => builder.without_max_times().build(),
        }
    }
}

impl Default for RetryPolicy {
    /// 15 retries after 1, 2, 4 … 32 seconds: the defaults of the ByteHouse sinks.
    fn default() -> Self {
        Self {
            max_retries: Some(15),
            min_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(32),
        }
    }
}

/// Calls `operation` until it succeeds, fails for good, or `policy` is used up; `notify` hears of
/// every failure that is followed by a wait.
///
/// # Errors
/// The last error; one that was transient to the end comes back as [`RetryState::Exhausted`] with the
/// number of tries. Cancel-safe as far as `operation` is.
pub async fn retry<T>(
    policy: RetryPolicy,
    mut operation: impl AsyncFnMut() -> Result<T>,
    mut notify: impl FnMut(&Error, Duration),
) -> Result<T> {
    let mut backoffs = policy.backoffs();
    let mut tries = 1usize;
    loop {
        let error = match operation().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if !error.is_transient() {
            return Err(error);
        }
        let Some(wait) = backoffs.next() else {
            return Err(error.with_retry(RetryState::Exhausted).with_context("tries", tries));
        };
        notify(&error, wait);
        tokio::time::sleep(wait).await;
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn unavailable() -> Error {
        Error::new(ErrorKind::Unavailable, "gone").transient()
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        let policy = RetryPolicy { max_retries: Some(7), ..RetryPolicy::default() };
        let seconds: Vec<u64> = policy.backoffs().map(|wait| wait.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 32]);
        assert_eq!(RetryPolicy::NEVER.backoffs().count(), 0);
        let endless = RetryPolicy { max_retries: None, ..RetryPolicy::default() };
        assert_eq!(endless.backoffs().nth(1000), Some(Duration::from_secs(32)));
    }

    #[tokio::test(start_paused = true)]
    async fn transient_errors_are_tried_again_and_then_exhausted() {
        let mut calls = 0;
        let mut heard = 0;
        let policy = RetryPolicy { max_retries: Some(3), ..RetryPolicy::default() };
        let result: Result<()> = retry(
            policy,
            async || {
                calls += 1;
                Err(unavailable())
            },
            |_, _| heard += 1,
        )
        .await;
        let error = result.unwrap_err();
        assert_eq!((calls, heard), (4, 3));
        assert_eq!(error.retry_state(), RetryState::Exhausted);
        assert_eq!(error.context_value("tries"), Some("4"));
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_errors_are_not_tried_again_and_success_ends_it() {
        let mut calls = 0;
        let result: Result<()> = retry(
            RetryPolicy::default(),
            async || {
                calls += 1;
                if calls < 3 { Err(unavailable()) } else { Err(Error::new(ErrorKind::NotFound, "no table")) }
            },
            |_, _| {},
        )
        .await;
        assert_eq!((calls, result.unwrap_err().kind()), (3, ErrorKind::NotFound));
        assert_eq!(retry(RetryPolicy::NEVER, async || Ok(7), |_, _| {}).await.unwrap(), 7);
    }
}
