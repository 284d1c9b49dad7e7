//! What the server refuses, as its clients see it.

use std::fmt;

/// An error of the double, with the code that a real server gives for it.
///
/// Travels to clients as an exception packet, and comes out of
/// [`BytehouseDouble::execute`](crate::BytehouseDouble::execute) as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    code: i32,
    message: String,
}

impl Exception {
    /// An exception with one of the codes of ClickHouse or ByteHouse, such as 60 for a table that is not there.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The code.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// The message without code and name.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The exception's name on the wire.
    pub fn name(&self) -> &'static str {
        if self.code == code::NETWORK { "DB::NetException" } else { "DB::Exception" }
    }

    /// The text on the wire: the name and the message.
    pub fn display_text(&self) -> String {
        format!("{}: {}", self.name(), self.message)
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code: {}. {}: {}", self.code, self.name(), self.message)
    }
}

impl std::error::Error for Exception {}

/// The codes that the double itself gives. Faults may use any other number.
pub(crate) mod code {
    pub(crate) const CANNOT_PARSE_TEXT: i32 = 6;
    pub(crate) const NOT_FOUND_COLUMN_IN_BLOCK: i32 = 10;
    pub(crate) const DUPLICATE_COLUMN: i32 = 15;
    pub(crate) const NO_SUCH_COLUMN: i32 = 16;
    pub(crate) const CANNOT_PARSE_INPUT: i32 = 27;
    pub(crate) const BAD_ARGUMENTS: i32 = 36;
    pub(crate) const WRONG_ARGUMENT_COUNT: i32 = 42;
    pub(crate) const ILLEGAL_TYPE_OF_ARGUMENT: i32 = 43;
    pub(crate) const ILLEGAL_COLUMN: i32 = 44;
    pub(crate) const UNKNOWN_FUNCTION: i32 = 46;
    pub(crate) const UNKNOWN_IDENTIFIER: i32 = 47;
    pub(crate) const NOT_IMPLEMENTED: i32 = 48;
    pub(crate) const LOGICAL_ERROR: i32 = 49;
    pub(crate) const UNKNOWN_TYPE: i32 = 50;
    pub(crate) const EMPTY_LIST_OF_COLUMNS: i32 = 51;
    pub(crate) const TYPE_MISMATCH: i32 = 53;
    pub(crate) const UNKNOWN_STORAGE: i32 = 56;
    pub(crate) const TABLE_ALREADY_EXISTS: i32 = 57;
    pub(crate) const UNKNOWN_TABLE: i32 = 60;
    pub(crate) const SYNTAX_ERROR: i32 = 62;
    pub(crate) const ARGUMENT_OUT_OF_BOUND: i32 = 69;
    pub(crate) const UNKNOWN_DATABASE: i32 = 81;
    pub(crate) const DATABASE_ALREADY_EXISTS: i32 = 82;
    pub(crate) const UNKNOWN_PACKET: i32 = 99;
    pub(crate) const UNEXPECTED_PACKET: i32 = 101;
    pub(crate) const UNKNOWN_SETTING: i32 = 115;
    pub(crate) const INCORRECT_DATA: i32 = 117;
    pub(crate) const ENGINE_REQUIRED: i32 = 119;
    pub(crate) const TOO_LARGE_STRING_SIZE: i32 = 131;
    pub(crate) const ILLEGAL_DIVISION: i32 = 153;
    pub(crate) const READONLY: i32 = 164;
    pub(crate) const ILLEGAL_FINAL: i32 = 181;
    pub(crate) const ILLEGAL_AGGREGATION: i32 = 184;
    pub(crate) const NETWORK: i32 = 210;
    pub(crate) const NOT_AN_AGGREGATE: i32 = 215;
    pub(crate) const QUERY_ALREADY_RUNNING: i32 = 216;
    pub(crate) const TOO_MANY_PARTS: i32 = 252;
    pub(crate) const TOO_DEEP_RECURSION: i32 = 306;
    pub(crate) const NULL_IN_ORDINARY_COLUMN: i32 = 349;
    pub(crate) const INCOMPATIBLE_COLUMNS: i32 = 122;
    pub(crate) const QUERY_WAS_CANCELLED: i32 = 394;
    pub(crate) const DECIMAL_OVERFLOW: i32 = 407;
    pub(crate) const AUTHENTICATION_FAILED: i32 = 516;
    pub(crate) const ALTER_OF_COLUMN_IS_FORBIDDEN: i32 = 524;
    pub(crate) const VIRTUAL_WAREHOUSE_NOT_FOUND: i32 = 5025;
    pub(crate) const INSERTION_LABEL_ALREADY_EXISTS: i32 = 5035;
    pub(crate) const UNIQUE_KEY_STRING_SIZE_LIMIT_EXCEEDED: i32 = 7200;
}

/// The result of everything the double does inside.
pub(crate) type Result<T, E = Exception> = std::result::Result<T, E>;

/// Shorthand for an exception with a formatted message.
macro_rules! exception {
    ($code:ident, $($arg:tt)*) => {
        $crate::exception::Exception::new($crate::exception::code::$code, format!($($arg)*))
    };
}
pub(crate) use exception;
