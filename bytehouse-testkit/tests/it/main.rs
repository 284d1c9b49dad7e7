//! Conversations with the double, by our own wire client and by others.

mod ddl;
mod faults;
mod inserts;
mod klick;
mod login;
mod protocol;
mod replacing;
mod select;
mod support;
mod tls;
mod unique;
