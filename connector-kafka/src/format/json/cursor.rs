//! The scanner: JSON tokens of one record, in place.
//!
//! Nothing is built and nothing is copied here but texts with escapes. All positions are bytes from
//! the start of the record.

use super::error::{Fault, JsonErrorKind};

/// How deep objects and arrays may be nested, the record itself included.
pub(in crate::format) const MAX_DEPTH: u32 = 128;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A place in one record.
#[derive(Debug, Clone)]
pub(in crate::format) struct Cursor<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    depth: u32,
}

impl<'a> Cursor<'a> {
    pub(in crate::format) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), pos: 0, depth: 0 }
    }

    #[inline]
    pub(in crate::format) fn pos(&self) -> usize {
        self.pos
    }

    /// Moves to a place that the caller has read up to; always between two characters.
    #[inline]
    pub(in crate::format) fn set_pos(&mut self, pos: usize) {
        self.pos = pos;
    }

    #[inline]
    pub(in crate::format) fn advance(&mut self, bytes: usize) {
        self.pos += bytes;
    }

    /// The next byte, or 0 at the end: neither starts a value, so callers need not tell them apart.
    #[inline]
    pub(in crate::format) fn peek(&self) -> u8 {
        self.bytes.get(self.pos).copied().unwrap_or(0)
    }

    /// What is left.
    #[inline]
    pub(in crate::format) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    /// The text between two places that were found by scanning.
    #[inline]
    pub(in crate::format) fn slice(&self, start: usize, end: usize) -> &'a str {
        // Scanned tokens start and end at ASCII bytes, so the default never happens.
        self.text.get(start..end).unwrap_or_default()
    }

    #[inline]
    pub(in crate::format) fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.pos), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.pos += 1;
        }
    }

    /// Steps into an object or array, over its bracket.
    #[inline]
    pub(in crate::format) fn enter(&mut self) -> Result<(), Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::syntax(self.pos, "objects and arrays nested at most 128 deep"));
        }
        self.depth += 1;
        self.pos += 1;
        Ok(())
    }

    /// Steps out of an object or array, over its bracket.
    #[inline]
    pub(in crate::format) fn leave(&mut self) {
        self.depth -= 1;
        self.pos += 1;
    }

    /// Forgets about an array that is read again from its start.
    pub(super) fn leave_depth(&mut self) {
        self.depth -= 1;
    }

    /// `expected` was not found: a wrong type where another value stands, else a syntax error.
    #[cold]
    pub(in crate::format) fn mismatch(&self, expected: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
        let kind = match self.peek() {
            b'"' | b'{' | b'[' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9' => JsonErrorKind::WrongType,
            _ => JsonErrorKind::Syntax,
        };
        Fault::new(kind, self.pos, expected)
    }

    #[cold]
    pub(in crate::format) fn malformed(&self, expected: &'static str) -> Fault {
        Fault::syntax(self.pos, expected)
    }

    /// Reads `true`, `false` or `null`, whose first byte the caller has seen.
    #[inline]
    pub(in crate::format) fn literal(&mut self, word: &'static str) -> Result<(), Fault> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(Fault::syntax(self.pos, format!("`{word}`")));
        }
        self.pos += word.len();
        Ok(())
    }

    /// Reads a string from its opening to past its closing quote. One without escapes is borrowed from
    /// the record, any other is written to `scratch`.
    #[inline]
    pub(in crate::format) fn string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str, Fault>
    where
        'a: 's,
    {
        let start = self.pos + 1;
        let end = find_special(self.bytes, start);
        if self.bytes.get(end) == Some(&b'"') {
            self.pos = end + 1;
            return Ok(self.slice(start, end));
        }
        self.escaped_string(start, end, scratch)?;
        Ok(scratch)
    }

    #[inline(never)]
    fn escaped_string(&mut self, start: usize, special: usize, scratch: &mut String) -> Result<(), Fault> {
        scratch.clear();
        let mut piece = start;
        self.pos = special;
        loop {
            scratch.push_str(self.slice(piece, self.pos));
            match self.peek() {
                b'"' => {
                    self.pos += 1;
                    return Ok(());
                }
                b'\\' => scratch.push(self.escape()?),
                _ => return Err(self.unterminated()),
            }
            piece = self.pos;
            self.pos = find_special(self.bytes, piece);
        }
    }

    /// Reads a string without keeping it.
    #[inline]
    pub(in crate::format) fn skip_string(&mut self) -> Result<(), Fault> {
        self.pos = find_special(self.bytes, self.pos + 1);
        loop {
            match self.peek() {
                b'"' => {
                    self.pos += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.escape()?;
                }
                _ => return Err(self.unterminated()),
            }
            self.pos = find_special(self.bytes, self.pos);
        }
    }

    #[cold]
    fn unterminated(&self) -> Fault {
        if self.pos < self.bytes.len() {
            let fault = self.malformed("an escape, as control characters may not stand in a string");
            fault.showing("a control character")
        } else {
            self.malformed("the string's closing quote")
        }
    }

    /// Reads an escape from its backslash on.
    fn escape(&mut self) -> Result<char, Fault> {
        let start = self.pos;
        let simple = match self.bytes.get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            _ => return Err(self.malformed("an escape that JSON knows")),
        };
        self.pos = start + 2;
        Ok(simple)
    }

    fn unicode_escape(&mut self, start: usize) -> Result<char, Fault> {
        const HALF: &str =
            "two `\\u` escapes that make up one character, as half a surrogate pair is no text";
        let first = self.hex4(start + 2)?;
        self.pos = start + 6;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        let is_high = (0xD800..0xDC00).contains(&first);
        if !is_high || !self.rest().starts_with(b"\\u") {
            self.pos = start;
            return Err(self.malformed(HALF));
        }
        let second = self.hex4(start + 8)?;
        self.pos = start + 12;
        let low = second.wrapping_sub(0xDC00);
        let character =
            if low < 0x400 { char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + low) } else { None };
        character.ok_or_else(|| Fault::syntax(start, HALF))
    }

    fn hex4(&self, at: usize) -> Result<u32, Fault> {
        let digits = self.bytes.get(at..at + 4).unwrap_or_default();
        let mut value = 0;
        for digit in digits {
            let digit = char::from(*digit).to_digit(16);
            value =
                value * 16 + digit.ok_or_else(|| self.malformed("four hexadecimal digits after `\\u`"))?;
        }
        if digits.is_empty() {
            return Err(self.malformed("four hexadecimal digits after `\\u`"));
        }
        Ok(value)
    }

    /// Reads the colon between a key and its value.
    #[inline]
    pub(in crate::format) fn colon(&mut self) -> Result<(), Fault> {
        self.skip_space();
        if self.peek() != b':' {
            return Err(self.malformed("`:` after the key"));
        }
        self.pos += 1;
        Ok(())
    }

    /// Reads past the value that starts here, checking its syntax to the last byte.
    pub(in crate::format) fn skip_value(&mut self) -> Result<(), Fault> {
        // One bit per open bracket, the innermost last: 1 for an object. 128 of them fit, as deep as we go.
        let mut objects = 0_u128;
        let outer = self.depth;
        loop {
            self.skip_space();
            match self.peek() {
                b'"' => self.skip_string()?,
                b'{' => {
                    self.enter()?;
                    objects = objects << 1 | 1;
                    self.skip_space();
                    if self.peek() != b'}' {
                        self.skip_key()?;
                        continue;
                    }
                    objects >>= 1;
                    self.leave();
                }
                b'[' => {
                    self.enter()?;
                    objects <<= 1;
                    self.skip_space();
                    if self.peek() != b']' {
                        continue;
                    }
                    objects >>= 1;
                    self.leave();
                }
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                b'-' | b'0'..=b'9' => {
                    self.number()?;
                }
                _ => return Err(self.malformed("a JSON value")),
            }
            // The value is over: close what it closes, up to the next comma.
            loop {
                if self.depth == outer {
                    return Ok(());
                }
                self.skip_space();
                match (self.peek(), objects & 1 == 1) {
                    (b',', in_object) => {
                        self.pos += 1;
                        if in_object {
                            self.skip_space();
                            self.skip_key()?;
                        }
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        objects >>= 1;
                        self.leave();
                    }
                    (_, true) => return Err(self.malformed("`,` or `}`")),
                    (_, false) => return Err(self.malformed("`,` or `]`")),
                }
            }
        }
    }

    fn skip_key(&mut self) -> Result<(), Fault> {
        if self.peek() != b'"' {
            return Err(self.malformed("a key in double quotes"));
        }
        self.skip_string()?;
        self.colon()
    }
}

/// Reads an object from its opening to past its closing brace. `each` is given a key, and the cursor at the value
/// that belongs to it, which it reads to its end.
pub(in crate::format) fn each_entry<'a>(
    cursor: &mut Cursor<'a>,
    scratch: &mut String,
    mut each: impl FnMut(&str, &mut Cursor<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if cursor.peek() != b'{' {
        return Err(cursor.mismatch("an object"));
    }
    cursor.enter()?;
    cursor.skip_space();
    if cursor.peek() != b'}' {
        loop {
            if cursor.peek() != b'"' {
                return Err(cursor.malformed("a key in double quotes"));
            }
            let key = cursor.string(scratch)?;
            cursor.colon()?;
            cursor.skip_space();
            each(key, cursor)?;
            cursor.skip_space();
            match cursor.peek() {
                b',' => cursor.advance(1),
                b'}' => break,
                _ => return Err(cursor.malformed("`,` or `}`")),
            }
            cursor.skip_space();
        }
    }
    cursor.leave();
    Ok(())
}

/// The same for an array.
pub(in crate::format) fn each_item<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(usize, &mut Cursor<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if cursor.peek() != b'[' {
        return Err(cursor.mismatch("an array"));
    }
    cursor.enter()?;
    cursor.skip_space();
    let mut index = 0;
    if cursor.peek() != b']' {
        loop {
            each(index, cursor)?;
            index += 1;
            cursor.skip_space();
            match cursor.peek() {
                b',' => cursor.advance(1),
                b']' => break,
                _ => return Err(cursor.malformed("`,` or `]`")),
            }
            cursor.skip_space();
        }
    }
    cursor.leave();
    Ok(())
}

/// Decodes a text that is one value and nothing else.
pub(super) fn whole(
    text: &str,
    decode: impl FnOnce(&mut Cursor<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut cursor = Cursor::new(text);
    cursor.skip_space();
    decode(&mut cursor)?;
    cursor.skip_space();
    if cursor.rest().is_empty() {
        Ok(())
    } else {
        Err(cursor.malformed("one JSON value and nothing after it"))
    }
}

/// The place of the first quote, backslash or control character at or after `from`; the end if none.
#[inline]
fn find_special(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let found = special_bytes(u64::from_le_bytes(*chunk));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, b'"' | b'\\' | 0..=0x1F) {
            return at;
        }
        at += 1;
    }
    at
}

/// The high bit of each byte that ends a piece of string. Borrows may flag bytes above the first such
/// byte wrongly, never below it.
#[inline]
fn special_bytes(chunk: u64) -> u64 {
    let is_zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let quote = is_zero(chunk ^ (ONES * b'"' as u64));
    let backslash = is_zero(chunk ^ (ONES * b'\\' as u64));
    let control = chunk.wrapping_sub(ONES * 0x20) & !chunk;
    (quote | backslash | control) & HIGH_BITS
}
