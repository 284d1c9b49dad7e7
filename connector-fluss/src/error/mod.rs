//! Fluss's error codes as [`ErrorKind`]s: one table, one test per row. No stack trace of a server gets through.

use connector_core::{Error, ErrorKind};
use fluss::error::FlussError as Code;

mod client;

pub(crate) use self::client::{from_client, is_out_of_range};

/// Whether the call may succeed when tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    Yes,
}

/// What each code means, with the Java exception that stands for it where a server forgets the code. A code that is not
/// listed is `Unexpected` and permanent.
const TABLE: &[(Code, &str, ErrorKind, Again, &str)] = {
    use Again::{No, Yes};
    use ErrorKind::*;
    &[
        // Nobody answers, or not now.
        (Code::NetworkException, "NetworkException", Unavailable, Yes, "the server closed the connection"),
        (
            Code::NotLeaderOrFollower,
            "NotLeaderOrFollowerException",
            Unavailable,
            Yes,
            "the bucket's leader has moved",
        ),
        (
            Code::LeaderNotAvailableException,
            "LeaderNotAvailableException",
            Unavailable,
            Yes,
            "the bucket has no leader at the moment",
        ),
        (
            Code::FencedLeaderEpochException,
            "FencedLeaderEpochException",
            Unavailable,
            Yes,
            "the bucket's leader has moved",
        ),
        (
            Code::InvalidCoordinatorException,
            "InvalidCoordinatorException",
            Unavailable,
            Yes,
            "the coordinator has moved",
        ),
        (Code::StorageException, "StorageException", Unavailable, Yes, "a server's storage failed"),
        (Code::LogStorageException, "LogStorageException", Unavailable, Yes, "a server's log storage failed"),
        (
            Code::KvStorageException,
            "KvStorageException",
            Unavailable,
            Yes,
            "a server's key-value storage failed",
        ),
        (
            Code::NotEnoughReplicasException,
            "NotEnoughReplicasException",
            Unavailable,
            Yes,
            "too few replicas are in sync",
        ),
        (
            Code::NotEnoughReplicasAfterAppendException,
            "NotEnoughReplicasAfterAppendException",
            Unavailable,
            Yes,
            "too few replicas have confirmed",
        ),
        (
            Code::OperationNotAttemptedException,
            "OperationNotAttemptedException",
            Unavailable,
            Yes,
            "the server did not try",
        ),
        (
            Code::UnknownTableOrBucketException,
            "UnknownTableOrBucketException",
            Unavailable,
            Yes,
            "the server does not know the bucket, or not yet",
        ),
        (Code::RequestTimeOut, "TimeoutException", Timeout, Yes, "the server did not answer in time"),
        (
            Code::StorageBackpressureException,
            "StorageBackpressureException",
            RateLimited,
            Yes,
            "the server's storage is behind",
        ),
        // Who we are and what we may do.
        (
            Code::AuthenticateException,
            "AuthenticationException",
            Unauthenticated,
            No,
            "the server did not accept the credentials; check client.security.protocol, username and password",
        ),
        (
            Code::RetriableAuthenticateException,
            "RetriableAuthenticationException",
            Unauthenticated,
            Yes,
            "the server could not check the credentials",
        ),
        (
            Code::SecurityDisabledException,
            "SecurityDisabledException",
            Unsupported,
            No,
            "the cluster runs without security",
        ),
        (
            Code::SecurityTokenException,
            "SecurityTokenException",
            Unauthenticated,
            Yes,
            "the server gave no token for its file system",
        ),
        (
            Code::AuthorizationException,
            "AuthorizationException",
            PermissionDenied,
            No,
            "this user may not do that",
        ),
        // What is asked for.
        (Code::DatabaseNotExist, "DatabaseNotExistException", NotFound, No, "the database does not exist"),
        (Code::TableNotExist, "TableNotExistException", NotFound, No, "the table does not exist"),
        (
            Code::PartitionNotExists,
            "PartitionNotExistException",
            NotFound,
            No,
            "the partition does not exist",
        ),
        (
            Code::SchemaNotExist,
            "SchemaNotExistException",
            Unavailable,
            Yes,
            "the server does not know the table's schema yet",
        ),
        (
            Code::KvSnapshotNotExist,
            "KvSnapshotNotExistException",
            NotFound,
            No,
            "the snapshot does not exist",
        ),
        (
            Code::LakeSnapshotNotExist,
            "LakeTableSnapshotNotExistException",
            NotFound,
            No,
            "the lake snapshot does not exist",
        ),
        (
            Code::DatabaseAlreadyExist,
            "DatabaseAlreadyExistException",
            AlreadyExists,
            No,
            "the database exists already",
        ),
        (
            Code::TableAlreadyExist,
            "TableAlreadyExistException",
            AlreadyExists,
            No,
            "the table exists already",
        ),
        (
            Code::PartitionAlreadyExists,
            "PartitionAlreadyExistsException",
            AlreadyExists,
            No,
            "the partition exists already",
        ),
        (
            Code::LakeTableAlreadyExist,
            "LakeTableAlreadyExistException",
            AlreadyExists,
            No,
            "the lake has such a table already",
        ),
        (Code::DatabaseNotEmpty, "DatabaseNotEmptyException", Conflict, No, "the database still has tables"),
        (
            Code::InvalidTableException,
            "InvalidTableException",
            OptionInvalid,
            No,
            "the table is not possible as it was asked for",
        ),
        (
            Code::InvalidDatabaseException,
            "InvalidDatabaseException",
            OptionInvalid,
            No,
            "this is not a possible database",
        ),
        (
            Code::InvalidReplicationFactor,
            "InvalidReplicationFactorException",
            OptionInvalid,
            No,
            "table.replication.factor is above the number of tablet servers",
        ),
        (
            Code::InvalidRequiredAcks,
            "InvalidRequiredAcksException",
            OptionInvalid,
            No,
            "the server does not know these client.writer.acks",
        ),
        (
            Code::InvalidConfigException,
            "InvalidConfigException",
            OptionInvalid,
            No,
            "the cluster does not know an option, or not this value; it may be older or newer than the option",
        ),
        (
            Code::InvalidTimestampException,
            "InvalidTimestampException",
            OptionInvalid,
            No,
            "the time lies in the future",
        ),
        (
            Code::InvalidColumnProjection,
            "InvalidColumnProjectionException",
            SchemaMismatch,
            No,
            "these columns cannot be read",
        ),
        (
            Code::InvalidTargetColumn,
            "InvalidTargetColumnException",
            SchemaMismatch,
            No,
            "these columns cannot be written",
        ),
        (
            Code::InvalidAlterTableException,
            "InvalidAlterTableException",
            Unsupported,
            No,
            "the server cannot change the table so",
        ),
        (
            Code::NonPrimaryKeyTableException,
            "NonPrimaryKeyTableException",
            SchemaMismatch,
            No,
            "the table has no primary key",
        ),
        (
            Code::TableNotPartitionedException,
            "TableNotPartitionedException",
            SchemaMismatch,
            No,
            "the table has no partitions",
        ),
        (
            Code::PartitionSpecInvalidException,
            "InvalidPartitionException",
            DataInvalid,
            No,
            "this is not a possible partition",
        ),
        (
            Code::PartitionMaxNumException,
            "TooManyPartitionsException",
            Conflict,
            No,
            "the table has as many partitions as it may have",
        ),
        (
            Code::BucketMaxNumException,
            "TooManyBucketsException",
            Conflict,
            No,
            "the table has as many buckets as it may have",
        ),
        (
            Code::LakeStorageNotConfiguredException,
            "LakeStorageNotConfiguredException",
            Unsupported,
            No,
            "the cluster has no lake",
        ),
        (
            Code::DeletionDisabledException,
            "DeletionDisabledException",
            Unsupported,
            No,
            "the table forbids deletes (table.delete.behavior is DISABLE); sink.ignore-delete leaves them out",
        ),
        (
            Code::LogOffsetOutOfRangeException,
            "LogOffsetOutOfRangeException",
            CheckpointInvalid,
            No,
            "the offset is not in the log any more",
        ),
        // What goes over and comes back.
        (
            Code::CorruptMessage,
            "CorruptMessageException",
            DataInvalid,
            Yes,
            "a message was damaged on its way",
        ),
        (
            Code::CorruptRecordException,
            "CorruptRecordException",
            DataInvalid,
            Yes,
            "a batch was damaged on its way",
        ),
        (
            Code::RecordTooLargeException,
            "RecordTooLargeException",
            DataInvalid,
            No,
            "a row is larger than the server accepts",
        ),
        (
            Code::UnsupportedVersion,
            "UnsupportedVersionException",
            Unsupported,
            No,
            "the server is too old or too new for this request",
        ),
        // Somebody else, or another writer of ours.
        (
            Code::OutOfOrderSequenceException,
            "OutOfOrderSequenceException",
            Conflict,
            No,
            "the server misses a batch of this writer",
        ),
        (
            Code::DuplicateSequenceException,
            "DuplicateSequenceException",
            Conflict,
            No,
            "the server has this batch already",
        ),
        (
            Code::UnknownWriterIdException,
            "UnknownWriterIdException",
            Conflict,
            No,
            "the server does not know this writer any more",
        ),
        (
            Code::InvalidUpdateVersionException,
            "InvalidUpdateVersionException",
            Conflict,
            No,
            "somebody else has changed it",
        ),
        (
            Code::FencedTieringEpochException,
            "FencedTieringEpochException",
            Conflict,
            No,
            "the tiering has moved on",
        ),
        (
            Code::IneligibleReplicaException,
            "IneligibleReplicaException",
            Unavailable,
            Yes,
            "a replica is not ready",
        ),
        (
            Code::InvalidServerRackInfoException,
            "InvalidServerRackInfoException",
            Unexpected,
            No,
            "the servers' racks are set wrong",
        ),
    ]
};

/// An error for `code`, with the server's own first line behind our words.
fn from_code(code: Code, message: &str) -> Error {
    let (class, line) = first_line(message);
    // Servers answer "unknown" where an exception has no code of its own, and name it in the text only.
    let row = TABLE.iter().find(|(known, name, ..)| {
        *known == code || (code == Code::UnknownServerError && class == Some(*name))
    });
    let Some((_, _, kind, again, text)) = row else {
        return Error::new(
            ErrorKind::Unexpected,
            format!("the server met an error that is not foreseen here: {line}"),
        );
    };
    let error =
        Error::new(*kind, if line.is_empty() { (*text).to_owned() } else { format!("{text}: {line}") });
    if *again == Again::Yes { error.transient() } else { error }
}

/// The exception's name and the first line of a server's text. What follows is a stack trace.
pub(super) fn first_line(message: &str) -> (Option<&str>, String) {
    const LONGEST: usize = 300;
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    let named = line
        .split_once(": ")
        .filter(|(class, _)| class.ends_with("Exception") && class.contains('.') && !class.contains(' '));
    let (class, line) = match named {
        Some((class, rest)) => (class.rsplit('.').next(), rest),
        None if line.ends_with("Exception") && !line.contains(' ') => (line.rsplit('.').next(), ""),
        None => (None, line),
    };
    // An exception around another one repeats its name.
    if class.is_some_and(|class| !TABLE.iter().any(|(_, name, ..)| *name == class))
        && line.contains("Exception: ")
    {
        let (inner, rest) = first_line(line);
        if inner.is_some() {
            return (inner, rest);
        }
    }
    let short =
        line.char_indices().nth(LONGEST).map_or(line.to_owned(), |(end, _)| format!("{}…", &line[..end]));
    (class, short)
}

#[cfg(test)]
mod tests {
    use connector_core::RetryState;
    use fluss::error::{ApiError, Error as ClientError};

    use super::*;

    fn api(code: i32, message: &str) -> Error {
        from_client(&ClientError::FlussAPIError { api_error: ApiError { code, message: message.to_owned() } })
    }

    #[test]
    fn every_row_gives_its_kind_its_retry_state_and_its_words() {
        for (code, class, kind, again, text) in TABLE {
            let state = if *again == Again::Yes { RetryState::Transient } else { RetryState::Permanent };
            let trace = format!(
                "org.apache.fluss.exception.{class}: orders said no\n\tat org.apache.fluss.Server.run(Server.java:1)"
            );
            for error in [api(code.code(), &trace), api(-1, &trace), api(code.code(), "orders said no")] {
                assert_eq!((error.kind(), error.retry_state()), (*kind, state), "{code:?}");
                assert_eq!(error.message(), format!("{text}: orders said no"), "{code:?}");
            }
        }
    }

    #[test]
    fn no_code_stands_twice_and_texts_end_open() {
        for (i, (code, class, _, _, text)) in TABLE.iter().enumerate() {
            assert!(!TABLE[..i].iter().any(|(c, n, ..)| c == code || n == class), "{code:?} stands twice");
            assert!(!text.ends_with('.'), "{text}");
        }
    }

    #[test]
    fn errors_without_a_code_lose_their_stack_trace() {
        let text = "java.util.concurrent.CompletionException: org.apache.fluss.exception.TableNotExistException: Table a.b not exists.\n\tat x.Y.z(Y.java:3)\nCaused by: …";
        let error = api(-1, text);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(!error.message().contains('\n') && !error.message().contains("java"), "{error}");
        let unknown = api(-1, "java.lang.NullPointerException\n\tat x.Y.z(Y.java:3)");
        assert_eq!((unknown.kind(), unknown.is_transient()), (ErrorKind::Unexpected, false));
        assert!(!unknown.message().contains("Y.java"), "{unknown}");
        let long = api(-1, &"x".repeat(5000));
        assert!(long.message().len() < 500);
    }
}
