//! What the tests against real servers share: where the servers are, servers of a test's own, a proxy that breaks
//! connections, a generator of rows whose every figure is known beforehand, and independent ways to look at the result.
//!
//! The tests are in `tests/it`. `./dev test` starts the servers and runs them; `docs/testing.md` tells more.
//!
//! A harness has one way to fail, which is to fail the test: these functions panic with a message that says what
//! happened, unless the failure itself is what a test may want to look at.
#![allow(clippy::panic, clippy::expect_used, reason = "a harness fails by failing the test")]

pub mod clickhouse;
pub mod fluss;
pub mod kafka;
pub mod orders;
pub mod owned;
pub mod process;
pub mod program;
pub mod proxy;
pub mod services;

pub use owned::OwnedService;
pub use services::Service;

/// A name that no other test uses, also not in an earlier run: for topics, groups, databases and tables.
#[must_use]
pub fn unique_name(prefix: &str) -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("{prefix}_{}", &id[..12])
}

/// Turns a number into one that looks random (SplitMix64): equal input, equal output, on every machine.
#[must_use]
pub const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
