#![doc = include_str!("../README.md")]

pub mod catalog;
pub mod definition;
pub mod error;
pub mod native;
pub mod sql;
pub mod wire;
