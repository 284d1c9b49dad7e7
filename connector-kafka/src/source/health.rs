//! Which errors a running reader waits out, and which end it.

use std::time::{Duration, Instant};

use connector_core::{Error, ErrorKind, Result};
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::error::{from_code, is_passing};

/// Without an error for so long, an outage is over even if no record came.
const CALM: Duration = Duration::from_secs(30);
/// Pause between two looks at a topic that may be gone.
const TOPIC_PAUSE: Duration = Duration::from_secs(2);
/// That many looks have to agree that it is gone.
const TOPIC_LOOKS: u32 = 3;

/// A run of errors of one kind.
#[derive(Debug, Default)]
struct Trouble {
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Trouble {
    /// Notes one more; how long the run has lasted.
    fn note(&mut self, now: Instant) -> Duration {
        if self.last.is_none_or(|last| now.saturating_duration_since(last) > CALM) {
            self.first = Some(now);
        }
        self.last = Some(now);
        self.first.map_or(Duration::ZERO, |first| now.saturating_duration_since(first))
    }

    fn is_on(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) <= CALM)
    }
}

#[derive(Debug)]
struct DoubtedTopic {
    name: String,
    check_at: Instant,
    missing: u32,
}

/// What a reader knows about the state of its connection.
#[derive(Debug)]
pub(crate) struct Health {
    patience: Duration,
    outage: Trouble,
    refusal: Trouble,
    warned_commits: bool,
    doubted: Vec<DoubtedTopic>,
}

impl Health {
    /// `patience`: how long a refusal (wrong credentials, TLS) has to last until it counts.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            patience,
            outage: Trouble::default(),
            refusal: Trouble::default(),
            warned_commits: false,
            doubted: Vec::new(),
        }
    }

    /// Records came.
    pub(crate) fn works(&mut self) {
        if self.outage.first.take().is_some() {
            self.outage.last = None;
            tracing::info!("records arrive again");
        }
        self.refusal = Trouble::default();
    }

    /// Decides about an error that is about the connection or about one partition.
    ///
    /// # Errors
    /// Where waiting does not help.
    pub(crate) fn judge(&mut self, code: Code, text: &str, place: Option<&(String, i32)>) -> Result<()> {
        self.judge_at(code, text, place, Instant::now())
    }

    fn judge_at(
        &mut self,
        code: Code,
        text: &str,
        place: Option<&(String, i32)>,
        now: Instant,
    ) -> Result<()> {
        let error = match code {
            Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL => {
                // A broker that is just starting refuses what it accepts a little later.
                if self.refusal.note(now) < self.patience {
                    tracing::debug!("a broker refused the connection: {text}");
                    return Ok(());
                }
                from_code(code, text)
            }
            code if is_passing(code) => {
                if !self.outage.is_on(now) {
                    tracing::warn!("the brokers do not serve at the moment; waiting for them: {text}");
                }
                self.outage.note(now);
                return Ok(());
            }
            code => from_code(code, text),
        };
        Err(match place {
            Some((topic, partition)) => {
                error.with_context("topic", topic).with_context("partition", partition)
            }
            None => error,
        })
    }

    /// Offsets could not be committed to the group. Told once, counted elsewhere.
    pub(crate) fn commit_failed(&mut self, text: &str) {
        if !std::mem::replace(&mut self.warned_commits, true) {
            tracing::warn!(
                "offsets cannot be committed to the group; the checkpoint is not touched by that: {text}"
            );
        }
    }

    /// librdkafka does not find a topic. It may be that a broker does not know it yet.
    pub(crate) fn doubt_topic(&mut self, name: &str) {
        if !self.doubted.iter().any(|doubted| doubted.name == name) {
            let doubted = DoubtedTopic { name: name.to_owned(), check_at: Instant::now(), missing: 0 };
            self.doubted.push(doubted);
        }
    }

    /// A topic to look for now.
    pub(crate) fn topic_to_check(&self) -> Option<String> {
        let now = Instant::now();
        self.doubted.iter().find(|doubted| doubted.check_at <= now).map(|doubted| doubted.name.clone())
    }

    /// What looking for it showed; `None` when nobody could say.
    ///
    /// # Errors
    /// `NotFound` when several looks did not find it.
    pub(crate) fn topic_checked(&mut self, name: &str, exists: Option<bool>) -> Result<()> {
        let Some(at) = self.doubted.iter().position(|doubted| doubted.name == name) else { return Ok(()) };
        let doubted = &mut self.doubted[at];
        doubted.check_at = Instant::now() + TOPIC_PAUSE;
        match exists {
            Some(true) => {
                self.doubted.remove(at);
            }
            Some(false) => doubted.missing += 1,
            None => {}
        }
        if self.doubted.get(at).is_some_and(|doubted| doubted.missing >= TOPIC_LOOKS) {
            let text = "the topic does not exist any more; remove its splits or make it anew";
            return Err(Error::new(ErrorKind::NotFound, text).with_context("topic", name));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health::new(Duration::from_secs(10))
    }

    #[test]
    fn an_outage_is_waited_out_however_long() {
        let (mut health, start) = (health(), Instant::now());
        for second in 0..600 {
            let now = start + Duration::from_secs(second);
            health.judge_at(Code::AllBrokersDown, "all down", None, now).unwrap();
            health.judge_at(Code::Resolve, "no such host", None, now).unwrap();
        }
    }

    #[test]
    fn a_refusal_counts_only_when_it_lasts() {
        let (mut health, start) = (health(), Instant::now());
        for second in [0, 5, 9] {
            health.judge_at(Code::Authentication, "no", None, start + Duration::from_secs(second)).unwrap();
        }
        let error =
            health.judge_at(Code::Authentication, "no", None, start + Duration::from_secs(10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    }

    #[test]
    fn refusals_far_apart_or_with_records_between_do_not_add_up() {
        let (mut health, start) = (health(), Instant::now());
        for minute in 0..10 {
            health.judge_at(Code::SSL, "no", None, start + Duration::from_secs(60 * minute)).unwrap();
        }
        let mut health = self::health();
        for second in 0..30 {
            health.judge_at(Code::SSL, "no", None, start + Duration::from_secs(second)).unwrap();
            health.works();
        }
    }

    #[test]
    fn what_waiting_does_not_cure_names_its_place() {
        let place = ("orders".to_owned(), 3);
        let error = health().judge(Code::TopicAuthorizationFailed, "no", Some(&place)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(error.context_value("topic"), Some("orders"));
        assert_eq!(error.context_value("partition"), Some("3"));
    }

    #[test]
    fn a_topic_is_gone_only_after_several_looks() {
        let mut health = health();
        health.doubt_topic("orders");
        health.doubt_topic("orders");
        assert_eq!(health.topic_to_check().as_deref(), Some("orders"));
        health.topic_checked("orders", Some(false)).unwrap();
        assert_eq!(health.topic_to_check(), None, "the next look comes later");
        health.topic_checked("orders", None).unwrap();
        health.topic_checked("orders", Some(false)).unwrap();
        let error = health.topic_checked("orders", Some(false)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_topic_that_is_there_is_not_doubted_any_more() {
        let mut health = health();
        health.doubt_topic("orders");
        health.topic_checked("orders", Some(false)).unwrap();
        health.topic_checked("orders", Some(true)).unwrap();
        health.topic_checked("orders", Some(false)).unwrap();
        assert!(health.doubted.is_empty());
    }
}
