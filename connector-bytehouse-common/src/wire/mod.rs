//! The native TCP protocol.

pub mod io;
