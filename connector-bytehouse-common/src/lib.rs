#![doc = include_str!("../README.md")]

pub mod error;
pub mod native;
pub mod sql;
pub mod wire;
