//! Errors that the client itself makes, which have no code.

use connector_core::{Error, ErrorKind};
use fluss::error::{Error as ClientError, FlussError as Code};

use super::{first_line, from_code};

/// An error for what the client returned.
pub(crate) fn from_client(error: &ClientError) -> Error {
    match error {
        // The client's own word, and no server's: a connection that has not loaded the table, as after an outage.
        ClientError::FlussAPIError { api_error } if api_error.message.starts_with("Table info not found") => {
            Error::new(ErrorKind::Unavailable, "the connection does not know the table yet").transient()
        }
        ClientError::FlussAPIError { api_error } => from_code(Code::for_code(api_error.code), &api_error.message),
        ClientError::RpcError { source, .. } => {
            Error::new(ErrorKind::Unavailable, format!("the connection to a server failed: {}", first_line(&source.to_string()).1))
                .transient()
        }
        ClientError::IoUnexpectedError { source, .. } => {
            Error::new(ErrorKind::Unavailable, format!("the connection to a server failed: {source}")).transient()
        }
        ClientError::RemoteStorageUnexpectedError { source, .. } => Error::new(
            ErrorKind::Unavailable,
            format!("the remote storage of the log cannot be read: {}", first_line(&source.to_string()).1),
        )
        .transient(),
        ClientError::IoUnsupported { message } => Error::new(
            ErrorKind::Unsupported,
            format!("this build cannot read the remote storage of the log; see the features storage-…: {message}"),
        ),
        ClientError::UnsupportedVersion { message } => Error::new(
            ErrorKind::Unsupported,
            format!("the server is too old or too new for this request: {}", first_line(message).1),
        ),
        ClientError::InvalidServerType { message } => Error::new(
            ErrorKind::OptionInvalid,
            format!("bootstrap.servers names a server of another kind: {}", first_line(message).1),
        ),
        ClientError::UnsupportedOperation { message } => Error::new(ErrorKind::Unsupported, first_line(message).1),
        ClientError::WriterClosed { .. } => Error::new(ErrorKind::Closed, "the writer is closed"),
        ClientError::BufferExhausted { .. } => Error::new(
            ErrorKind::Timeout,
            "no memory for rows became free in time; raise client.writer.buffer.memory-size or sink.flush-timeout",
        )
        .transient(),
        ClientError::UnexpectedError { message, source } => from_unexpected(message, source.as_deref()),
        ClientError::RowConvertError { message } => {
            Error::new(ErrorKind::DataInvalid, format!("a row cannot be read or written: {}", first_line(message).1))
        }
        ClientError::IllegalArgument { message } => {
            Error::new(ErrorKind::OptionInvalid, format!("the client does not accept that: {}", first_line(message).1))
        }
        ClientError::ArrowError { source, .. } => {
            Error::new(ErrorKind::DataInvalid, format!("rows cannot be read or written: {}", first_line(&source.to_string()).1))
        }
        ClientError::JsonSerdeError { message } => {
            Error::new(ErrorKind::Unexpected, format!("the server's answer cannot be read: {}", first_line(message).1))
        }
        ClientError::WakeupError { .. } => Error::new(ErrorKind::Unavailable, "the client was woken up").transient(),
    }
}

/// What the client says, in words alone, of servers that are away for a while.
const PASSING: &[(&str, &str)] = &[
    ("No leader found", "a bucket has no leader at the moment"),
    ("Coordinator server not found", "the coordinator is away"),
    ("No available server", "no server is known at the moment"),
    ("No tablet server available", "no tablet server is known at the moment"),
    ("response channel closed", "the connection to a server was closed"),
    ("Fail to wait write result", "the client gave up a write"),
    ("broadcast was dropped", "the client gave up a write"),
];

/// The client wraps other errors, and makes texts of some.
fn from_unexpected(message: &str, source: Option<&(dyn std::error::Error + Send + Sync + 'static)>) -> Error {
    if let Some(inner) = source.and_then(|source| source.downcast_ref::<ClientError>()) {
        return from_client(inner);
    }
    let line = first_line(message).1;
    if let Some((_, text)) = PASSING.iter().find(|(part, _)| message.contains(part)) {
        return Error::new(ErrorKind::Unavailable, format!("{text}: {line}")).transient();
    }
    let (kind, text) = if message.contains("is out of range") {
        (ErrorKind::CheckpointInvalid, "the offset is not in the log any more")
    } else {
        (ErrorKind::Unexpected, "the client met an error that is not foreseen here")
    };
    Error::new(kind, format!("{text}: {line}"))
}

/// True for what the client says of an offset that the log does not have.
pub(crate) fn is_out_of_range(error: &Error) -> bool {
    error.kind() == ErrorKind::CheckpointInvalid
}

#[cfg(test)]
mod tests {
    use fluss::error::ApiError;

    use super::*;

    #[test]
    fn errors_of_the_client_itself() {
        let unexpected = |text: &str| {
            from_client(&ClientError::UnexpectedError { message: text.to_owned(), source: None })
        };
        let gone = unexpected("The fetching offset 3 is out of range: …");
        assert_eq!(gone.kind(), ErrorKind::CheckpointInvalid);
        assert!(is_out_of_range(&gone));
        for (text, _) in PASSING {
            let error = unexpected(&format!("{text}: somewhere."));
            assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unavailable, true), "{text}");
        }
        assert!(!unexpected("anything").is_transient());
        let wrapped = ClientError::UnexpectedError {
            message: "outer".to_owned(),
            source: Some(Box::new(ClientError::FlussAPIError {
                api_error: ApiError { code: 7, message: String::new() },
            })),
        };
        assert_eq!(from_client(&wrapped).kind(), ErrorKind::NotFound);
        let kind = |error: ClientError| (from_client(&error).kind(), from_client(&error).is_transient());
        let message = String::new;
        assert_eq!(kind(ClientError::BufferExhausted { message: message() }), (ErrorKind::Timeout, true));
        assert_eq!(kind(ClientError::WriterClosed { message: message() }), (ErrorKind::Closed, false));
        assert_eq!(
            kind(ClientError::UnsupportedVersion { message: message() }),
            (ErrorKind::Unsupported, false)
        );
        assert_eq!(
            kind(ClientError::UnsupportedOperation { message: message() }),
            (ErrorKind::Unsupported, false)
        );
        assert_eq!(
            kind(ClientError::InvalidServerType { message: message() }),
            (ErrorKind::OptionInvalid, false)
        );
        assert_eq!(
            kind(ClientError::IllegalArgument { message: message() }),
            (ErrorKind::OptionInvalid, false)
        );
        assert_eq!(
            kind(ClientError::RowConvertError { message: message() }),
            (ErrorKind::DataInvalid, false)
        );
        assert_eq!(kind(ClientError::IoUnsupported { message: message() }), (ErrorKind::Unsupported, false));
        assert_eq!(kind(ClientError::WakeupError { message: message() }), (ErrorKind::Unavailable, true));
        let io = std::io::Error::other("reset");
        assert_eq!(
            kind(ClientError::IoUnexpectedError { message: message(), source: io }),
            (ErrorKind::Unavailable, true)
        );
    }
}
