//! Conversations with the double, by our own wire client and by others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod ddl;
mod faults;
mod inserts;
mod klick;
mod login;
mod partial;
mod protocol;
mod replacing;
mod select;
mod support;
mod tls;
mod unique;
