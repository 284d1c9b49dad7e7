//! Exactly once: the source's offsets in the transaction of the records before them.
//!
//! Each chain has a transactional id. Its transactions commit, beside the records, an offset to a group of the same name,
//! whose metadata hold how far the source was read. A new run takes the ids over, which ends what was open under them, and reads
//! the metadata: what they say is what the records say.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use connector_core::{Error, ErrorKind, Result, SourceOffsets, SplitId};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _, ConsumerGroupMetadata},
    error::{KafkaError, KafkaResult},
    producer::{Producer as _, ThreadedProducer},
    types::RDKafkaErrorCode as Code,
};
use serde::{Deserialize, Serialize};

use super::{Inner, partitions_of, producer::Listener, source_group::SourceGroup};
use crate::{
    client::{Admin, Cancelled, ClientSettings, Context},
    error,
};

/// What brokers take as metadata of an offset is 4096 bytes by default.
const PIECE: usize = 4000;
/// How long one call may last before we look whether anybody still waits.
const SLICE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// The id of a chain's transactions, and of the group that keeps their offsets: the same in every run.
pub(super) fn chain_id(pipeline: &str, chain: usize) -> String {
    format!("{pipeline}-sink-{chain}")
}

/// What a transaction says about itself.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    /// How many chains the run has: the next one has to end them all.
    chains: usize,
    offsets: SourceOffsets,
}

/// The offsets of a token, in pieces that brokers take.
///
/// # Errors
/// `Unsupported` when there are more splits than the topic's partitions can keep.
fn pieces(token: &Token, topic: &str, partitions: u32, sequence: i64) -> Result<TopicPartitionList> {
    let text = serde_json::to_string(token)
        .map_err(|e| Error::new(ErrorKind::Unexpected, "offsets do not serialize").with_source(e))?;
    let mut list = TopicPartitionList::new();
    let mut rest = text.as_str();
    for partition in 0..i32::try_from(partitions).unwrap_or(i32::MAX) {
        let (piece, behind) = rest.split_at(cut(rest));
        list.add_partition(topic, partition).set_metadata(piece);
        list.set_partition_offset(topic, partition, Offset::Offset(sequence))
            .map_err(|e| error::from_kafka(&e, ""))?;
        rest = behind;
        if rest.is_empty() {
            return Ok(list);
        }
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "the offsets of a chain's splits are {} bytes, and {PIECE} bytes a partition of the topic can be stored: run more chains",
            text.len()
        ),
    )
    .with_context("topic", topic)
    .with_context("partitions", partitions))
}

/// Where a piece of a text ends.
fn cut(text: &str) -> usize {
    (0..=text.len().min(PIECE)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default()
}

/// The token that a group keeps, and its number.
fn read_token(list: &TopicPartitionList, group: &str) -> Result<Option<(i64, Token)>> {
    let found: Vec<(i64, String)> = list
        .elements()
        .iter()
        .filter_map(|element| match element.offset() {
            Offset::Offset(sequence) => Some((sequence, element.metadata().to_owned())),
            _ => None,
        })
        .collect();
    let Some(latest) = found.iter().map(|(sequence, _)| *sequence).max() else { return Ok(None) };
    // Pieces with a lower number are left from a longer token.
    let text: String =
        found.iter().filter(|(sequence, _)| *sequence == latest).map(|(_, piece)| piece.as_str()).collect();
    match serde_json::from_str(&text) {
        Ok(token) => Ok(Some((latest, token))),
        Err(e) => Err(Error::new(
            ErrorKind::CheckpointInvalid,
            "the group that keeps the offsets of this pipeline's chain has something else: commit nothing to it, and give the pipeline another name",
        )
        .with_context("group", group)
        .with_source(e)),
    }
}

/// Calls until it succeeds, fails for good, or the time is up.
fn insist(
    context: &Context,
    limit: Duration,
    cancelled: &Cancelled,
    mut call: impl FnMut(Duration) -> KafkaResult<()>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let failure = match call(left.clamp(Duration::from_millis(1), SLICE)) {
            Ok(()) => return Ok(()),
            Err(e) => e,
        };
        if let Some((code, text)) = context.take_definite() {
            return Err(error::from_code(code, &text));
        }
        if !is_retriable(&failure) || Instant::now() >= deadline {
            return Err(explain(&failure, context));
        }
        if cancelled.get() {
            return Err(Error::new(ErrorKind::Closed, "the call was cancelled"));
        }
        #[allow(clippy::disallowed_methods, reason = "on a thread for blocking calls")]
        std::thread::sleep(PAUSE);
    }
}

fn is_retriable(failure: &KafkaError) -> bool {
    match failure {
        KafkaError::Transaction(error) => error.is_retriable(),
        _ => failure.rdkafka_error_code().is_some_and(error::is_passing),
    }
}

fn explain(failure: &KafkaError, context: &Context) -> Error {
    match failure {
        KafkaError::Transaction(error) => error::from_code(error.code(), &context.mask(&error.string())),
        _ => error::from_kafka(failure, &context.last_text()),
    }
}

/// Takes an id over: ends what is open under it, and whoever has it can commit no more.
pub(super) fn take_over(
    client: &ThreadedProducer<Listener>,
    context: &Context,
    limit: Duration,
    cancelled: &Cancelled,
) -> Result<()> {
    insist(context, limit, cancelled, |slice| client.init_transactions(slice))
}

/// Opens a transaction. Asks nobody.
pub(super) fn begin(client: &ThreadedProducer<Listener>, context: &Context) -> Result<()> {
    // One that another run has fenced only says that it is in the wrong state.
    client.begin_transaction().map_err(|e| fatal(client).unwrap_or_else(|| explain(&e, context)))
}

/// What a writer commits its transactions with.
#[derive(Clone)]
pub(super) struct Ledger {
    topic: String,
    partitions: u32,
    group: Arc<ConsumerGroupMetadata>,
    source: Option<SourceGroup>,
    chains: usize,
    limit: Duration,
}

impl Ledger {
    /// # Errors
    /// `NotFound` when the topic does not exist, `OptionInvalid` when `source_group` is the chain's own.
    pub(super) fn new(inner: &Inner, group: &str, chains: usize, cancelled: &Cancelled) -> Result<Self> {
        let topic = inner.token_topic()?;
        let partitions = partitions_of(&Admin::new(&inner.admin, cancelled)?, &topic)?;
        let source = match &inner.source_group {
            Some(name) if name == group => {
                let text = "`source_group` is the group that keeps the offsets of the pipeline's own chain";
                return Err(Error::new(ErrorKind::OptionInvalid, text).with_context("source_group", name));
            }
            Some(name) => Some(SourceGroup::new(name, group_metadata(&inner.admin, name)?)),
            None => None,
        };
        let group = Arc::new(group_metadata(&inner.admin, group)?);
        Ok(Self { topic, partitions, group, source, chains, limit: inner.admin.request_timeout })
    }

    /// Sends the offsets and commits. Every record has to be delivered.
    pub(super) fn commit(
        &self,
        inner: &Inner,
        client: &ThreadedProducer<Listener>,
        context: &Context,
        offsets: SourceOffsets,
        cancelled: &Cancelled,
    ) -> Result<()> {
        let of_source = match &self.source {
            Some(source) => Some((source, source.offsets(inner, &offsets, cancelled)?)),
            None => None,
        };
        let token = Token { chains: self.chains, offsets };
        let sequence = inner.sequence.fetch_add(1, Ordering::Relaxed);
        let list = pieces(&token, &self.topic, self.partitions, sequence)?;
        insist(context, self.limit, cancelled, |slice| {
            client.send_offsets_to_transaction(&list, &self.group, slice)
        })?;
        if let Some((source, positions)) = of_source.filter(|(_, positions)| positions.count() > 0) {
            insist(context, self.limit, cancelled, |slice| {
                client.send_offsets_to_transaction(&positions, &source.metadata, slice)
            })
            .map_err(|e| e.with_context("source_group", &source.name))?;
        }
        insist(context, self.limit, cancelled, |slice| client.commit_transaction(slice))
    }
}

/// Aborts the open transaction, where that is still possible. The broker does so in the end.
pub(super) fn abort(client: &ThreadedProducer<Listener>) {
    if let Err(error) = client.abort_transaction(SLICE) {
        tracing::debug!(%error, "the transaction could not be aborted; its time-out ends it");
    }
}

/// A member of a group that nobody joins.
fn group_metadata(settings: &ClientSettings, group: &str) -> Result<ConsumerGroupMetadata> {
    let consumer = settings.consumer(&[("group.id", group.to_owned())])?;
    consumer
        .group_metadata()
        .ok_or_else(|| Error::new(ErrorKind::Unexpected, "the client has no group to commit offsets to"))
}

/// Takes over every id of earlier runs, and reads the offsets that their transactions committed.
pub(super) fn recover(inner: &Inner, pipeline: &str, cancelled: &Cancelled) -> Result<Option<SourceOffsets>> {
    let topic = inner.token_topic()?;
    let partitions = partitions_of(&Admin::new(&inner.admin, cancelled)?, &topic)?;
    let (mut chains, mut chain, mut next) = (1, 0, 1);
    let mut latest: BTreeMap<SplitId, (i64, serde_json::Value)> = BTreeMap::new();
    while chain < chains {
        let id = chain_id(pipeline, chain);
        let (client, context) = super::producer::client(&inner.transactional(&id))?;
        // The offsets are read behind this: nobody moves them any more.
        take_over(&client, &context, inner.admin.request_timeout, cancelled)?;
        drop(client);
        if let Some((sequence, token)) = committed(inner, &id, &topic, partitions, cancelled)? {
            chains = chains.max(token.chains);
            next = next.max(sequence + 1);
            for (split, offset) in token.offsets.iter() {
                // Splits move between chains when their number changes: the later word counts.
                if latest.get(split).is_none_or(|(known, _)| *known < sequence) {
                    latest.insert(split.clone(), (sequence, offset.clone()));
                }
            }
        }
        chain += 1;
    }
    inner.sequence.fetch_max(next, Ordering::Relaxed);
    if latest.is_empty() {
        return Ok(None);
    }
    let mut offsets = SourceOffsets::default();
    for (split, (_, offset)) in latest {
        offsets.insert(split, offset);
    }
    Ok(Some(offsets))
}

fn committed(
    inner: &Inner,
    group: &str,
    topic: &str,
    partitions: u32,
    cancelled: &Cancelled,
) -> Result<Option<(i64, Token)>> {
    let consumer: BaseConsumer<Context> = inner.admin.consumer(&[
        ("group.id", group.to_owned()),
        // Waits for the outcome of transactions.
        ("isolation.level", "read_committed".to_owned()),
    ])?;
    let mut asked = TopicPartitionList::new();
    asked.add_partition_range(topic, 0, i32::try_from(partitions).unwrap_or(i32::MAX) - 1);
    let mut found = TopicPartitionList::new();
    insist(consumer.context(), inner.admin.request_timeout, cancelled, |slice| {
        found = consumer.committed_offsets(asked.clone(), slice)?;
        found.elements().iter().try_for_each(|element| element.error())
    })?;
    read_token(&found, group)
}

/// The error of a client that can go on no more, where it is one.
pub(super) fn fatal(client: &ThreadedProducer<Listener>) -> Option<Error> {
    let (code, text) = client.client().fatal_error()?;
    let code = if code == Code::Fatal { Code::Fenced } else { code };
    Some(error::from_code(code, &text).with_operation("kafka.produce"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(splits: usize) -> Token {
        let mut offsets = SourceOffsets::default();
        for split in 0..splits {
            offsets.insert(SplitId::new(format!("订单-{split}")), (split as u64 * 1_000_000).into());
        }
        Token { chains: 2, offsets }
    }

    #[test]
    fn tokens_come_back_from_their_pieces() {
        let long = token(1000);
        let list = pieces(&long, "t", 10, 7).unwrap();
        let mut all = pieces(&token(2000), "t", 20, 6).unwrap();
        let count = list.count();
        assert!(count > 1 && all.count() > count, "{count}");
        for element in list.elements() {
            assert!(element.metadata().len() <= PIECE);
            all.set_partition_offset("t", element.partition(), Offset::Offset(7)).unwrap();
            all.find_partition("t", element.partition()).unwrap().set_metadata(element.metadata());
        }
        let (sequence, found) = read_token(&all, "g").unwrap().unwrap();
        assert_eq!((sequence, found.chains), (7, 2));
        assert_eq!(found.offsets, long.offsets);
        assert!(read_token(&TopicPartitionList::new(), "g").unwrap().is_none());
        let error = pieces(&long, "t", 1, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }

    #[test]
    fn what_is_no_token_is_said() {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("t", 0, Offset::Offset(3)).unwrap();
        let error = read_token(&list, "copy-sink-0").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CheckpointInvalid);
        assert!(format!("{error}").contains("copy-sink-0"), "{error}");
    }
}
