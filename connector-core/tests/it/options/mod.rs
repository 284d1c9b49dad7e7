//! Option sets from their declaration to errors and documents.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic")]

mod docs;
mod errors;
mod parse;
mod secrets;
mod sets;

/// The message of a failed parse.
fn message<T: std::fmt::Debug>(result: connector_core::Result<T>) -> String {
    let error = result.expect_err("the options are wrong");
    assert_eq!(error.kind(), connector_core::ErrorKind::OptionInvalid);
    assert_eq!(error.operation(), "well.options");
    assert_eq!(error.context_value("connector"), Some("well"));
    error.message().to_owned()
}
