//! The servers' error codes to ours, as a table.
//!
//! The numbers are ClickHouse's; those from 2000 on are ByteHouse's. A code decides what a program
//! does next ([`Retry`]); three codes (117, 164 and 252) have two meanings that only their text tells apart.

use connector_core::{Error, ErrorKind};

/// What may help after an error of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Nothing, until someone changes something.
    Final,
    /// Waiting, and the same again.
    SameConnection,
    /// The same on a new connection.
    NewConnection,
    /// The same at another replica of the shard.
    AnotherReplica,
    /// Once more, with the rows in two halves.
    HalveBatch,
}

/// What an error code means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRule {
    /// The code.
    pub code: i32,
    /// The servers' name for it; `UNKNOWN` when the table does not hold it.
    pub name: &'static str,
    /// The kind of the error.
    pub kind: ErrorKind,
    /// What may help.
    pub retry: Retry,
    /// True when an insert that fails so has its rows at the server: a repetition that the server
    /// recognised. With 5035 only when the label was this insert's own.
    pub success_on_insert: bool,
    /// True when a statement that changes tables and fails so may have been done before, by an earlier
    /// try or by someone else: read the table again, and go on if it is as wanted.
    pub ddl_race: bool,
    hint: &'static str,
}

const fn rule(code: i32, name: &'static str, kind: ErrorKind, retry: Retry) -> CodeRule {
    CodeRule { code, name, kind, retry, success_on_insert: false, ddl_race: false, hint: "" }
}

impl CodeRule {
    const fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }

    const fn success_on_insert(mut self) -> Self {
        self.success_on_insert = true;
        self
    }

    const fn ddl_race(mut self) -> Self {
        self.ddl_race = true;
        self
    }
}

use ErrorKind::{
    AlreadyExists, Closed, Conflict, DataInvalid, NotFound, OptionInvalid, PermissionDenied, RateLimited,
    SchemaMismatch, Timeout, Unauthenticated, Unavailable, Unexpected, Unsupported,
};
use Retry::{AnotherReplica, Final, HalveBatch, NewConnection, SameConnection};

/// Sorted by code.
#[rustfmt::skip]
const RULES: &[CodeRule] = &[
    rule(3, "UNEXPECTED_END_OF_FILE", Unavailable, NewConnection),
    rule(6, "CANNOT_PARSE_TEXT", DataInvalid, Final),
    rule(10, "NOT_FOUND_COLUMN_IN_BLOCK", NotFound, Final).ddl_race(),
    rule(15, "DUPLICATE_COLUMN", AlreadyExists, Final).ddl_race(),
    rule(16, "NO_SUCH_COLUMN_IN_TABLE", NotFound, Final).ddl_race(),
    rule(27, "CANNOT_PARSE_INPUT_ASSERTION_FAILED", DataInvalid, Final),
    rule(32, "ATTEMPT_TO_READ_AFTER_EOF", Unavailable, NewConnection),
    rule(33, "CANNOT_READ_ALL_DATA", Unavailable, NewConnection),
    rule(36, "BAD_ARGUMENTS", OptionInvalid, Final),
    rule(38, "CANNOT_PARSE_DATE", DataInvalid, Final),
    rule(41, "CANNOT_PARSE_DATETIME", DataInvalid, Final),
    rule(43, "ILLEGAL_TYPE_OF_ARGUMENT", SchemaMismatch, Final),
    rule(44, "ILLEGAL_COLUMN", SchemaMismatch, Final).ddl_race(),
    rule(47, "UNKNOWN_IDENTIFIER", SchemaMismatch, Final),
    rule(48, "NOT_IMPLEMENTED", Unsupported, Final),
    rule(49, "LOGICAL_ERROR", Unexpected, Final),
    rule(50, "UNKNOWN_TYPE", Unsupported, Final),
    rule(53, "TYPE_MISMATCH", SchemaMismatch, Final),
    rule(57, "TABLE_ALREADY_EXISTS", AlreadyExists, Final).ddl_race(),
    rule(60, "UNKNOWN_TABLE", NotFound, Final),
    rule(62, "SYNTAX_ERROR", Unexpected, Final),
    rule(69, "ARGUMENT_OUT_OF_BOUND", DataInvalid, Final),
    rule(70, "CANNOT_CONVERT_TYPE", DataInvalid, Final),
    rule(81, "UNKNOWN_DATABASE", NotFound, Final),
    rule(82, "DATABASE_ALREADY_EXISTS", AlreadyExists, Final).ddl_race(),
    rule(95, "CANNOT_READ_FROM_SOCKET", Unavailable, NewConnection),
    rule(96, "CANNOT_WRITE_TO_SOCKET", Unavailable, NewConnection),
    rule(115, "UNKNOWN_SETTING", OptionInvalid, Final).hint("take the setting out or correct its name"),
    rule(117, "INCORRECT_DATA", DataInvalid, Final),
    rule(122, "INCOMPATIBLE_COLUMNS", SchemaMismatch, Final),
    rule(131, "TOO_LARGE_STRING_SIZE", DataInvalid, Final),
    rule(159, "TIMEOUT_EXCEEDED", Timeout, SameConnection),
    rule(160, "TOO_SLOW", Timeout, SameConnection),
    rule(164, "READONLY", PermissionDenied, Final).hint("the user or its profile is read-only"),
    rule(173, "CANNOT_ALLOCATE_MEMORY", Unavailable, HalveBatch),
    rule(192, "UNKNOWN_USER", Unauthenticated, Final).hint(LOGIN),
    rule(193, "WRONG_PASSWORD", Unauthenticated, Final).hint(LOGIN),
    rule(194, "REQUIRED_PASSWORD", Unauthenticated, Final).hint(LOGIN),
    rule(198, "DNS_ERROR", Unavailable, NewConnection),
    rule(201, "QUOTA_EXPIRED", RateLimited, Final),
    rule(202, "TOO_MANY_SIMULTANEOUS_QUERIES", RateLimited, SameConnection),
    rule(203, "NO_FREE_CONNECTION", Unavailable, SameConnection),
    rule(209, "SOCKET_TIMEOUT", Unavailable, NewConnection),
    rule(210, "NETWORK_ERROR", Unavailable, NewConnection),
    rule(216, "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", Conflict, SameConnection)
        .hint("an earlier try still runs: wait, then take another query id"),
    rule(217, "CLIENT_HAS_CONNECTED_TO_WRONG_PORT", OptionInvalid, Final).hint("take the native protocol's port"),
    rule(218, "TABLE_IS_DROPPED", NotFound, Final),
    rule(225, "NO_ZOOKEEPER", Unavailable, SameConnection),
    rule(236, "ABORTED", Unavailable, NewConnection),
    rule(241, "MEMORY_LIMIT_EXCEEDED", Unavailable, HalveBatch)
        .hint("send fewer rows at once or raise the server's limit"),
    rule(242, "TABLE_IS_READ_ONLY", Unavailable, SameConnection),
    rule(244, "UNEXPECTED_ZOOKEEPER_ERROR", Unavailable, SameConnection),
    rule(248, "INVALID_PARTITION_VALUE", DataInvalid, Final),
    rule(252, "TOO_MANY_PARTS", RateLimited, SameConnection)
        .hint("the server merges slower than rows arrive: flush more rows, less often"),
    rule(254, "NO_ACTIVE_REPLICAS", Unavailable, AnotherReplica),
    rule(279, "ALL_CONNECTION_TRIES_FAILED", Unavailable, NewConnection),
    rule(285, "TOO_FEW_LIVE_REPLICAS", Unavailable, SameConnection),
    rule(286, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE", Unavailable, SameConnection),
    rule(289, "REPLICA_IS_NOT_IN_QUORUM", Unavailable, SameConnection),
    rule(319, "UNKNOWN_STATUS_OF_INSERT", Unavailable, SameConnection),
    rule(321, "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE", DataInvalid, Final),
    rule(335, "BARRIER_TIMEOUT", Timeout, SameConnection),
    rule(341, "UNFINISHED", Unavailable, SameConnection),
    rule(344, "SUPPORT_IS_DISABLED", Unsupported, Final),
    rule(349, "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN", DataInvalid, Final),
    rule(359, "TABLE_SIZE_EXCEEDS_MAX_DROP_SIZE_LIMIT", PermissionDenied, Final),
    rule(364, "RECEIVED_ERROR_TOO_MANY_REQUESTS", RateLimited, SameConnection),
    rule(369, "ALL_REPLICAS_ARE_STALE", Unavailable, SameConnection),
    rule(373, "SESSION_IS_LOCKED", Unavailable, SameConnection),
    rule(384, "PART_IS_TEMPORARILY_LOCKED", Unavailable, SameConnection),
    rule(389, "INSERT_WAS_DEDUPLICATED", AlreadyExists, Final).success_on_insert(),
    rule(390, "CANNOT_GET_CREATE_TABLE_QUERY", NotFound, Final),
    rule(394, "QUERY_WAS_CANCELLED", Closed, Final),
    rule(407, "DECIMAL_OVERFLOW", DataInvalid, Final),
    rule(410, "EXTERNAL_SERVER_IS_NOT_RESPONDING", Unavailable, NewConnection),
    rule(425, "SYSTEM_ERROR", Unavailable, SameConnection),
    rule(439, "CANNOT_SCHEDULE_TASK", Unavailable, SameConnection),
    rule(452, "SETTING_CONSTRAINT_VIOLATION", OptionInvalid, Final),
    rule(469, "VIOLATED_CONSTRAINT", DataInvalid, Final),
    rule(473, "DEADLOCK_AVOIDED", Unavailable, SameConnection),
    rule(497, "ACCESS_DENIED", PermissionDenied, Final).hint("the user needs a grant for this"),
    rule(499, "S3_ERROR", Unavailable, SameConnection),
    rule(516, "AUTHENTICATION_FAILED", Unauthenticated, Final).hint(LOGIN),
    rule(517, "CANNOT_ASSIGN_ALTER", Unavailable, SameConnection),
    rule(519, "NO_REMOTE_SHARD_AVAILABLE", Unavailable, SameConnection),
    rule(524, "ALTER_OF_COLUMN_IS_FORBIDDEN", Unsupported, Final),
    rule(529, "NOT_A_LEADER", Unavailable, AnotherReplica),
    rule(549, "DATA_TYPE_CANNOT_BE_USED_IN_KEY", SchemaMismatch, Final),
    rule(565, "TOO_MANY_PARTITIONS", DataInvalid, Final),
    rule(574, "DISTRIBUTED_TOO_MANY_PENDING_BYTES", RateLimited, SameConnection),
    rule(999, "KEEPER_EXCEPTION", Unavailable, SameConnection),
    rule(2005, "BRPC_TIMEOUT", Timeout, SameConnection),
    rule(2006, "BRPC_CANNOT_INIT_CHANNEL", Unavailable, SameConnection),
    rule(2007, "BRPC_EXCEPTION", Unavailable, SameConnection),
    rule(2008, "BRPC_HOST_DOWN", Unavailable, SameConnection),
    rule(2009, "BRPC_CONNECT_ERROR", Unavailable, SameConnection),
    rule(4002, "RESOURCE_NOT_ENOUGH", Unavailable, SameConnection),
    rule(4003, "WAIT_FOR_RESOURCE_TIMEOUT", Timeout, SameConnection),
    rule(5022, "VIRTUAL_WAREHOUSE_NOT_INITIALIZED", Unavailable, SameConnection).hint("resume the virtual warehouse"),
    rule(5023, "CONCURRENCY_NOT_ALLOWED_FOR_DDL", Conflict, SameConnection),
    rule(5025, "VIRTUAL_WAREHOUSE_NOT_FOUND", NotFound, Final).hint("check the option for the virtual warehouse"),
    rule(5027, "CNCH_SERVER_NOT_FOUND", Unavailable, SameConnection),
    rule(5035, "INSERTION_LABEL_ALREADY_EXISTS", AlreadyExists, Final).success_on_insert(),
    rule(5047, "WORKER_RESTARTED", Unavailable, SameConnection),
    rule(5048, "WORKER_NODE_NOT_FOUND", Unavailable, SameConnection),
    rule(6015, "TOO_MANY_SIMULTANEOUS_TASKS", RateLimited, SameConnection),
    rule(7001, "TSO_INTERNAL_ERROR", Unavailable, SameConnection),
    rule(7002, "TSO_OPERATION_ERROR", Unavailable, SameConnection),
    rule(7105, "RESOURCE_MANAGER_NO_LEADER_ELECTED", Unavailable, SameConnection),
    rule(7106, "RESOURCE_MANAGER_ILLEGAL_CONFIG", Unavailable, SameConnection),
    rule(7107, "RESOURCE_MANAGER_NO_AVAILABLE_WORKER", Unavailable, SameConnection),
    rule(7108, "RESOURCE_MANAGER_NO_AVAILABLE_WORKER_GROUP", Unavailable, SameConnection),
    rule(7200, "UNIQUE_KEY_STRING_SIZE_LIMIT_EXCEEDED", DataInvalid, Final),
    rule(7201, "UNIQUE_TABLE_DUPLICATE_KEY_FOUND", Conflict, Final),
    rule(8051, "CNCH_NO_AVAILABLE_TOPOLOGY", Unavailable, SameConnection),
    rule(8053, "CATALOG_SERVICE_INTERNAL_ERROR", Unavailable, SameConnection),
    rule(8055, "CATALOG_LOCK_PARTS_FAILURE", Unavailable, SameConnection),
    rule(8070, "CANNOT_GET_TABLE_LOCK", Unavailable, SameConnection),
    rule(8071, "METASTORE_COMMIT_CAS_FAILURE", Conflict, SameConnection),
    rule(8072, "CNCH_QUEUE_QUERY_FAILURE", RateLimited, SameConnection),
    rule(11001, "CNCH_TRANSACTION_EXECUTION_ERROR", Unavailable, SameConnection),
    rule(11002, "CNCH_TRANSACTION_ABORTED", Conflict, SameConnection),
    rule(11003, "CNCH_TRANSACTION_COMMIT_ERROR", Conflict, SameConnection),
    rule(11004, "CNCH_TRANSACTION_ERROR", Unavailable, SameConnection),
    rule(11005, "CNCH_TRANSACTION_COMMIT_TIMEOUT", Timeout, SameConnection),
    rule(11007, "CNCH_TRANSACTION_PRECOMMIT_ERROR", Unavailable, SameConnection),
    rule(11008, "CNCH_LOCK_ACQUIRE_FAILED", Conflict, SameConnection),
    rule(11012, "CNCH_TRANSACTION_NOT_ACTIVE", Conflict, SameConnection),
];

const LOGIN: &str =
    "check user and password; with an API token the user is `bytehouse`, else `account::user`";
const ONE_INSERT_TOUCHES_TOO_MUCH: CodeRule = rule(252, "TOO_MANY_PARTS", DataInvalid, Final)
    .hint("raise `max_partitions_per_insert_block`, or let one insert touch fewer partitions");
/// A connection that ended within a block: the server tells a column's parts apart from each other, not from its end.
const BLOCK_CUT_OFF: CodeRule = rule(117, "INCORRECT_DATA", Unavailable, NewConnection);
const REPLICA_READ_ONLY: CodeRule = rule(164, "READONLY", Unavailable, SameConnection);

/// Longest text of a server that goes into an error, in characters.
const MAX_MESSAGE: usize = 1000;

/// All codes that the table holds, each by its first meaning.
pub fn code_rules() -> &'static [CodeRule] {
    RULES
}

/// What `code` with the server's `text` means. A code that the table does not hold is final.
pub fn classify(code: i32, text: &str) -> CodeRule {
    match code {
        252 if text.contains("partitions for single INSERT block") => ONE_INSERT_TOUCHES_TOO_MUCH,
        117 if text.contains("after deserialization") => BLOCK_CUT_OFF,
        164 if text.to_ascii_lowercase().contains("replica") => REPLICA_READ_ONLY,
        _ => match RULES.binary_search_by_key(&code, |rule| rule.code) {
            Ok(at) => RULES[at],
            Err(_) => rule(code, "UNKNOWN", Unexpected, Final),
        },
    }
}

/// The error for an exception of the server: kind and retry state by [`classify`], the first line of
/// the text, the code as context. No stack trace. The caller takes secrets out of `text`.
pub fn server_error(code: i32, name: &str, text: &str, operation: &'static str) -> Error {
    let rule = classify(code, text);
    let line = first_line(text);
    let mut message = String::with_capacity(line.len() + rule.hint.len() + 20);
    message.push_str("the server refused: ");
    message.push_str(if line.is_empty() { rule.name } else { &line });
    if !rule.hint.is_empty() {
        message.push_str("; ");
        message.push_str(rule.hint);
    }
    let mut error = Error::new(rule.kind, message)
        .with_operation(operation)
        .with_context("code", code)
        .with_context("code_name", rule.name);
    if !matches!(name, "" | "DB::Exception") {
        error = error.with_context("exception", first_line(name));
    }
    if rule.retry == Final { error } else { error.transient() }
}

/// The code of the server's exception behind `error`, if there was one.
pub fn server_code(error: &Error) -> Option<i32> {
    error.context_value("code")?.parse().ok()
}

/// The rule for the server's exception behind `error`, if there was one.
pub fn code_rule(error: &Error) -> Option<CodeRule> {
    server_code(error).map(|code| classify(code, error.message()))
}

/// What may help after `error`: by the server's code if it has one, else a new connection for what is
/// transient and nothing for what is not.
pub fn retry_rule(error: &Error) -> Retry {
    match code_rule(error) {
        Some(rule) => rule.retry,
        None if error.is_transient() => NewConnection,
        None => Final,
    }
}

/// True when the server says that the table is not as it was described: look at it again, then try once more.
pub fn description_outdated(error: &Error) -> bool {
    // No such column (8, 10, 16, 47), another number of them (20), other types (53), no such table (60), altered (122).
    matches!(server_code(error), Some(8 | 10 | 16 | 20 | 47 | 53 | 60 | 122))
}

const OUTCOME: &str = "outcome";
const UNKNOWN: &str = "unknown";

/// True when an insert may have been stored although it failed: the connection ended, or an answer did
/// not come in time, after rows had been sent. Send the same rows again with the same token.
pub fn outcome_unknown(error: &Error) -> bool {
    error.context_value(OUTCOME) == Some(UNKNOWN) || server_code(error) == Some(319)
}

/// Marks an error of an insert whose rows may have been stored.
pub(crate) fn with_outcome_unknown(error: Error) -> Error {
    error.with_context(OUTCOME, UNKNOWN)
}

/// The first line without the class name, the stack and what exceeds the limit.
fn first_line(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let line = line.split(" Stack trace:").next().unwrap_or_default();
    let line = line.strip_prefix("DB::Exception: ").unwrap_or(line).trim_end();
    let mut out: String =
        line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect();
    if out.len() < line.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
