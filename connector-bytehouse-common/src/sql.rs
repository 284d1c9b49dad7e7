//! SQL quoting.
