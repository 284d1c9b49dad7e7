//! The native TCP protocol: a [`Client`] for one connection, and the [`protocol`] itself for both ends.

mod client;
mod connection;
pub mod frame;
mod insert;
pub mod io;
mod login;
mod options;
pub mod protocol;
mod query;
mod setting_types;
pub mod settings;
mod tls;

pub use client::Client;
pub use connection::Stream;
pub use frame::Compression;
pub use insert::{InsertStream, InsertSummary};
pub use options::{ClientCertificate, ClientOptions, Pem, TlsOptions, Verify};
pub use query::{QueryStream, QuerySummary};
pub use settings::{SettingType, Settings};
