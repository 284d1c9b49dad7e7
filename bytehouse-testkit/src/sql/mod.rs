//! The SQL that the double understands: tokens, statements, and their text form.
//!
//! A small dialect on purpose. What is not understood is refused with code 62 (not the grammar) or
//! 48 (the grammar of a real server, but nothing that the double can do), never ignored.

pub(crate) mod ast;
mod ddl;
mod expression;
mod format;
mod lexer;
mod parser;
mod query;

pub(crate) use format::{backquote, quote_identifier, quote_text};
#[cfg(test)]
pub(crate) use parser::parse_expression;
pub(crate) use parser::{parse_statement, parse_table_name};
