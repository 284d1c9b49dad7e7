//! Foreign errors to ours, as a table.
