//! librdkafka's error codes as [`ErrorKind`]s: one table, one test per row.

use connector_core::{Error, ErrorKind};
use rdkafka::{error::KafkaError, types::RDKafkaErrorCode as Code};

/// Whether the call may succeed when tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    Yes,
}

const FENCED: &str =
    "another run of the same name took this one's place, or a transaction outlived transaction_timeout";

/// What each code means to a reader. A code that is not listed is `Unexpected` and permanent.
///
/// `Again::Yes` also says that librdkafka goes on trying by itself: a running reader waits then.
const TABLE: &[(Code, ErrorKind, Again, &str)] = {
    use Again::{No, Yes};
    use ErrorKind::*;
    &[
        // Nobody answers.
        (
            Code::BrokerTransportFailure,
            Unavailable,
            Yes,
            "no broker can be reached; check bootstrap_servers and that the brokers run",
        ),
        (
            Code::AllBrokersDown,
            Unavailable,
            Yes,
            "no broker can be reached; check bootstrap_servers and that the brokers run",
        ),
        (Code::Resolve, Unavailable, Yes, "the name of a broker cannot be resolved; check bootstrap_servers"),
        (Code::DestroyBroker, Unavailable, Yes, "the connection to a broker ended"),
        (Code::BrokerDestroy, Closed, No, "the client is being closed"),
        (Code::NodeUpdate, Unavailable, Yes, "a broker has a new address"),
        (Code::UnknownBroker, Unavailable, Yes, "a broker is not known yet"),
        (Code::NetworkException, Unavailable, Yes, "the broker lost the connection"),
        (Code::RebootstrapRequired, Unavailable, Yes, "the broker asks the client to connect anew"),
        (
            Code::SSL,
            Unavailable,
            No,
            "TLS could not be set up; check security.protocol, the port and the certificates",
        ),
        // The cluster is busy with itself.
        (Code::LeaderNotAvailable, Unavailable, Yes, "the partition has no leader at the moment"),
        (Code::NotLeaderForPartition, Unavailable, Yes, "the partition's leader has moved"),
        (Code::BrokerNotAvailable, Unavailable, Yes, "the broker is not available"),
        (Code::ReplicaNotAvailable, Unavailable, Yes, "the replica is not available"),
        (Code::FencedLeaderEpoch, Unavailable, Yes, "the partition's leader has moved"),
        (Code::UnknownLeaderEpoch, Unavailable, Yes, "the partition's leader has moved"),
        (Code::OffsetNotAvailable, Unavailable, Yes, "the partition's new leader does not know its end yet"),
        (Code::KafkaStorageError, Unavailable, Yes, "the broker's disk failed"),
        (Code::Unknown, Unavailable, Yes, "the broker met an error of its own"),
        (Code::ListenerNotFound, Unavailable, Yes, "the broker has no listener of that name"),
        (Code::CoordinatorLoadInProgress, Unavailable, Yes, "the group's coordinator is loading"),
        (Code::CoordinatorNotAvailable, Unavailable, Yes, "the group's coordinator is not available"),
        (Code::NotCoordinator, Unavailable, Yes, "the group's coordinator has moved"),
        (Code::WaitingForCoordinator, Unavailable, Yes, "the group's coordinator is not known yet"),
        (Code::UnstableOffsetCommit, Unavailable, Yes, "a transaction holds the group's offsets"),
        (Code::FetchSessionIdNotFound, Unavailable, Yes, "the broker forgot the fetch session"),
        (Code::InvalidFetchSessionEpoch, Unavailable, Yes, "the broker forgot the fetch session"),
        (Code::ThrottlingQuotaExceeded, RateLimited, Yes, "the broker slows this client down"),
        // Time.
        (Code::OperationTimedOut, Timeout, Yes, "no answer within the time allowed"),
        (Code::RequestTimedOut, Timeout, Yes, "the broker did not answer in time"),
        (Code::TimedOutQueue, Timeout, Yes, "the request waited too long to be sent"),
        (Code::MessageTimedOut, Timeout, No, "the brokers did not take a record within delivery.timeout.ms"),
        // Who we are and what we may do.
        (Code::Authentication, Unauthenticated, No, "the broker did not accept the credentials"),
        (Code::SaslAuthenticationFailed, Unauthenticated, No, "the broker did not accept the credentials"),
        (
            Code::UnsupportedSASLMechanism,
            Unauthenticated,
            No,
            "the broker does not offer this sasl.mechanism",
        ),
        (
            Code::IllegalSASLState,
            Unauthenticated,
            No,
            "the broker expects no SASL here; check security.protocol",
        ),
        (Code::DelegationTokenExpired, Unauthenticated, No, "the delegation token has expired"),
        (Code::TopicAuthorizationFailed, PermissionDenied, No, "this user may not read the topic"),
        (Code::GroupAuthorizationFailed, PermissionDenied, No, "this user may not use the consumer group"),
        (Code::ClusterAuthorizationFailed, PermissionDenied, No, "this user may not do that on the cluster"),
        // What is asked for.
        (Code::UnknownTopicOrPartition, NotFound, No, "the topic or partition does not exist"),
        (Code::UnknownTopic, NotFound, No, "the topic does not exist"),
        (Code::UnknownPartition, NotFound, No, "the partition does not exist"),
        (Code::UnknownTopicId, NotFound, No, "the topic was deleted"),
        (Code::InvalidTopic, OptionInvalid, No, "this is not a possible name of a topic"),
        (Code::InvalidGroupId, OptionInvalid, No, "this is not a possible group_id"),
        (Code::UnknownGroup, OptionInvalid, No, "group_id is not set"),
        (Code::InvalidArgument, OptionInvalid, No, "the client does not accept an argument"),
        (Code::InvalidConfig, OptionInvalid, No, "the broker does not accept an option"),
        (
            Code::MessageSizeTooLarge,
            OptionInvalid,
            No,
            "a record is larger than the client accepts; raise receive.message.max.bytes in properties",
        ),
        (Code::InvalidMessageSize, DataInvalid, No, "a record has an impossible size"),
        (Code::OffsetOutOfRange, CheckpointInvalid, No, "the offset is not in the log any more"),
        (Code::AutoOffsetReset, CheckpointInvalid, No, "the offset is not in the log any more"),
        (Code::LogTruncation, CheckpointInvalid, No, "the log was cut off before this offset"),
        (Code::NoOffset, CheckpointInvalid, No, "there is no offset to start from"),
        // What comes back.
        (Code::BadMessage, DataInvalid, No, "a record is damaged"),
        (Code::InvalidMessage, DataInvalid, No, "a record is damaged (its checksum is wrong)"),
        (Code::BadCompression, DataInvalid, No, "a batch of records cannot be decompressed"),
        (Code::UnsupportedCompressionType, Unsupported, No, "this build cannot decompress the records"),
        (Code::UnsupportedVersion, Unsupported, No, "the broker is too old or too new for this request"),
        (Code::UnsupportedFeature, Unsupported, No, "the broker cannot do this"),
        (Code::NotImplemented, Unsupported, No, "this build of librdkafka cannot do this"),
        // Somebody else.
        (Code::Fenced, Conflict, No, FENCED),
        (Code::ProducerFenced, Conflict, No, FENCED),
        (Code::InvalidProducerEpoch, Conflict, No, FENCED),
        (Code::TransactionCoordinatorFenced, Conflict, No, FENCED),
        (
            Code::InvalidProducerIdMapping,
            Conflict,
            No,
            "the broker does not know the transactions of this id any more",
        ),
        (Code::UnknownProducerId, Conflict, No, "the broker does not know this producer any more"),
        (Code::InvalidTransactionalState, Conflict, No, "the transaction is in no state for this"),
        (Code::ConcurrentTransactions, Unavailable, Yes, "an earlier transaction of the id is still ending"),
        (
            Code::InvalidTransactionTimeout,
            OptionInvalid,
            No,
            "the broker allows no transaction_timeout as long as this (its transaction.max.timeout.ms)",
        ),
        (
            Code::TransactionalIdAuthorizationFailed,
            PermissionDenied,
            No,
            "this user may not use the transactional id, which is the pipeline's name, `-sink-` and the chain",
        ),
        (
            Code::OffsetMetadataTooLarge,
            OptionInvalid,
            No,
            "the broker takes less than 4000 bytes with an offset (its offset.metadata.max.bytes)",
        ),
        (Code::PurgeQueue, Closed, No, "the record was given up before it was sent"),
        (Code::PurgeInflight, Closed, No, "the record was given up while it was sent"),
        // Topics that are created.
        (Code::TopicAlreadyExists, AlreadyExists, No, "the topic exists already"),
        (Code::InvalidPartitions, OptionInvalid, No, "the broker does not accept create_topic_partitions"),
        (
            Code::InvalidReplicationFactor,
            OptionInvalid,
            No,
            "the broker does not accept create_topic_replication_factor",
        ),
        (Code::PolicyViolation, PermissionDenied, No, "a policy of the cluster forbids it"),
        (Code::FencedInstanceId, Conflict, No, "another member took this one's group.instance.id"),
        (Code::UnknownMemberId, Conflict, No, "the group has active members of its own"),
        (Code::IllegalGeneration, Conflict, No, "the group has moved on"),
        (Code::RebalanceInProgress, Conflict, Yes, "the group is being rebalanced"),
    ]
};

fn row(code: Code) -> (ErrorKind, Again, &'static str) {
    TABLE.iter().find(|(c, ..)| *c == code).map_or(
        (
            ErrorKind::Unexpected,
            Again::No,
            "the client or the broker reported an error that is not foreseen here",
        ),
        |(_, kind, again, text)| (*kind, *again, *text),
    )
}

/// True where librdkafka goes on by itself after `code`, so that a running reader only waits.
pub(crate) fn is_passing(code: Code) -> bool {
    row(code).1 == Again::Yes
}

/// An error for `code`, with librdkafka's own words behind ours. `detail` must not hold secrets.
pub(crate) fn from_code(code: Code, detail: &str) -> Error {
    let (kind, again, text) = row(code);
    let detail = if detail.is_empty() { code.to_string() } else { detail.to_owned() };
    let error = Error::new(kind, format!("{text}: {detail}"));
    if again == Again::Yes { error.transient() } else { error }
}

/// An error for what the binding returned. Never shows the value of a client property.
pub(crate) fn from_kafka(error: &KafkaError, detail: &str) -> Error {
    match error {
        KafkaError::ClientConfig(_, _, key, _) => Error::new(
            ErrorKind::OptionInvalid,
            format!("librdkafka does not accept the property `{key}` or its value"),
        ),
        KafkaError::ClientCreation(text) => Error::new(
            ErrorKind::OptionInvalid,
            format!(
                "librdkafka cannot be started with these properties: {}",
                if detail.is_empty() { text } else { detail }
            ),
        ),
        KafkaError::MessageConsumptionFatal(code) => {
            from_code(*code, detail).with_retry(connector_core::RetryState::Permanent)
        }
        other => match other.rdkafka_error_code() {
            Some(code) => from_code(code, detail),
            None => Error::new(ErrorKind::Unexpected, format!("librdkafka refused a call: {other}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use connector_core::RetryState;
    use rdkafka::types::RDKafkaConfRes;

    use super::*;

    #[test]
    fn every_row_gives_its_kind_its_retry_state_and_its_words() {
        for (code, kind, again, text) in TABLE {
            let error = from_kafka(&KafkaError::MetadataFetch(*code), "broker 1 said no");
            assert_eq!(error.kind(), *kind, "{code:?}");
            let state = if *again == Again::Yes { RetryState::Transient } else { RetryState::Permanent };
            assert_eq!(error.retry_state(), state, "{code:?}");
            assert_eq!(error.message(), format!("{text}: broker 1 said no"), "{code:?}");
            assert_eq!(is_passing(*code), *again == Again::Yes, "{code:?}");
        }
    }

    #[test]
    fn no_code_stands_twice_and_texts_end_open() {
        for (i, (code, _, _, text)) in TABLE.iter().enumerate() {
            assert!(!TABLE[..i].iter().any(|(c, ..)| c == code), "{code:?} stands twice");
            assert!(!text.ends_with('.'), "{text}");
        }
    }

    #[test]
    fn what_the_table_means_for_the_cases_users_meet() {
        let cases = [
            (Code::AllBrokersDown, ErrorKind::Unavailable, true),
            (Code::OperationTimedOut, ErrorKind::Timeout, true),
            (Code::Authentication, ErrorKind::Unauthenticated, false),
            (Code::TopicAuthorizationFailed, ErrorKind::PermissionDenied, false),
            (Code::UnknownTopicOrPartition, ErrorKind::NotFound, false),
            (Code::OffsetOutOfRange, ErrorKind::CheckpointInvalid, false),
            (Code::AutoOffsetReset, ErrorKind::CheckpointInvalid, false),
            (Code::BadMessage, ErrorKind::DataInvalid, false),
            (Code::ThrottlingQuotaExceeded, ErrorKind::RateLimited, true),
        ];
        for (code, kind, transient) in cases {
            let error = from_code(code, "");
            assert_eq!((error.kind(), error.is_transient()), (kind, transient), "{code:?}");
        }
        let unknown = from_code(Code::GroupSubscribedToTopic, "");
        assert_eq!((unknown.kind(), unknown.is_transient()), (ErrorKind::Unexpected, false));
    }

    #[test]
    fn a_refused_property_never_shows_its_value() {
        let error = KafkaError::ClientConfig(
            RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "Invalid value \"hunter2\"".to_owned(),
            "sasl.password".to_owned(),
            "hunter2".to_owned(),
        );
        let error = from_kafka(&error, "");
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains("sasl.password") && !format!("{error:?}").contains("hunter2"));
    }
}
