//! The wire client against servers that follow a script.

mod insert;
mod login;
mod peer;
mod query;
mod tls;
