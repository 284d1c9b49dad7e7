//! Text to tokens.

use crate::exception::{Result, exception};

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name; `quoted` ones are never keywords.
    Ident {
        text: String,
        quoted: bool,
    },
    Number(String),
    Text(Vec<u8>),
    Symbol(&'static str),
    End,
}

/// A token and where it stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Longer symbols first, so that `<=` is not read as `<` and `=`.
const SYMBOLS: [&str; 29] = [
    "->", "::", "||", "!=", "<>", "<=", ">=", "==", "(", ")", "[", "]", "{", "}", ",", ".", ";", "+", "-",
    "*", "/", "%", "=", "<", ">", ":", "?", "@", "^",
];

/// Splits `sql` into tokens; the last one is always [`TokenKind::End`].
pub(crate) fn tokenize(sql: &str) -> Result<Vec<Token>> {
    let mut lexer = Lexer { text: sql, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = token.kind == TokenKind::End;
        tokens.push(token);
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn next(&mut self) -> Result<Token> {
        self.skip_space()?;
        let start = self.at;
        let kind = self.kind()?;
        Ok(Token { kind, start, end: self.at })
    }

    fn skip_space(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            let rest = self.rest();
            if rest.starts_with("--") || rest.starts_with("#!") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end =
                    rest.find("*/").ok_or_else(|| exception!(SYNTAX_ERROR, "a comment does not end"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn kind(&mut self) -> Result<TokenKind> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(TokenKind::End);
        };
        match first {
            '\'' => Ok(TokenKind::Text(self.quoted('\'')?)),
            '`' | '"' => {
                let bytes = self.quoted(first)?;
                let text = String::from_utf8(bytes)
                    .map_err(|_| exception!(SYNTAX_ERROR, "a quoted name is not valid UTF-8"))?;
                Ok(TokenKind::Ident { text, quoted: true })
            }
            '0'..='9' => Ok(TokenKind::Number(self.number())),
            '.' if self.starts_number() => Ok(TokenKind::Number(self.number())),
            c if c == '_' || c.is_alphabetic() => {
                let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                let text = rest[..length].to_owned();
                self.at += length;
                Ok(TokenKind::Ident { text, quoted: false })
            }
            other => {
                let symbol = SYMBOLS.iter().find(|s| rest.starts_with(**s)).ok_or_else(|| {
                    exception!(SYNTAX_ERROR, "Syntax error: failed at position {} ('{other}')", self.at + 1)
                })?;
                self.at += symbol.len();
                Ok(TokenKind::Symbol(symbol))
            }
        }
    }

    /// `.5` is a number, but the dot of `t.1` and `f(x).1` is not part of one.
    fn starts_number(&self) -> bool {
        let digit = self.rest()[1..].starts_with(|c: char| c.is_ascii_digit());
        let before = self.text.get(..self.at).and_then(|text| text.chars().next_back());
        digit && !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '`' | '"'))
    }

    fn number(&mut self) -> String {
        let bytes = self.rest().as_bytes();
        let mut length = 0;
        if bytes.starts_with(b"0x") || bytes.starts_with(b"0X") {
            length = 2 + bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        } else {
            while let Some(&byte) = bytes.get(length) {
                let sign = matches!(byte, b'+' | b'-') && matches!(bytes[length - 1], b'e' | b'E');
                // A dot that is not followed by a digit belongs to what comes next.
                let dot = byte == b'.' && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
                let exponent = matches!(byte, b'e' | b'E')
                    && bytes.get(length + 1).is_some_and(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-'));
                if !(byte.is_ascii_digit() || dot || exponent || (sign && length > 0)) {
                    break;
                }
                length += 1;
            }
        }
        let text = self.rest()[..length].to_owned();
        self.at += length;
        text
    }

    fn quoted(&mut self, quote: char) -> Result<Vec<u8>> {
        let unfinished = || exception!(SYNTAX_ERROR, "Syntax error: a quoted string does not end");
        let bytes = self.text.as_bytes();
        let quote = quote as u8;
        let mut out = Vec::new();
        let mut at = self.at + 1;
        loop {
            let byte = *bytes.get(at).ok_or_else(unfinished)?;
            at += 1;
            if byte == quote {
                if bytes.get(at) != Some(&quote) {
                    self.at = at;
                    return Ok(out);
                }
                at += 1;
                out.push(quote);
            } else if byte == b'\\' {
                let escaped = *bytes.get(at).ok_or_else(unfinished)?;
                at += 1;
                match escaped {
                    b'n' => out.push(b'\n'),
                    b't' => out.push(b'\t'),
                    b'r' => out.push(b'\r'),
                    b'0' => out.push(0),
                    b'b' => out.push(8),
                    b'f' => out.push(12),
                    b'a' => out.push(7),
                    b'v' => out.push(11),
                    b'x' => {
                        let digits = self.text.get(at..at + 2).ok_or_else(unfinished)?;
                        let value = u8::from_str_radix(digits, 16)
                            .map_err(|_| exception!(SYNTAX_ERROR, "\\x{digits} is not a byte"))?;
                        out.push(value);
                        at += 2;
                    }
                    other => out.push(other),
                }
            } else {
                out.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(sql: &str) -> Vec<TokenKind> {
        tokenize(sql).unwrap().into_iter().map(|t| t.kind).collect()
    }

    #[test]
    fn names_numbers_and_texts() {
        let ident = |text: &str, quoted| TokenKind::Ident { text: text.into(), quoted };
        assert_eq!(
            kinds("a.`b``c` -- note\n /* x */ >= 1.5e-3 'it''s \\'\\x00\\n' 订单"),
            [
                ident("a", false),
                TokenKind::Symbol("."),
                ident("b`c", true),
                TokenKind::Symbol(">="),
                TokenKind::Number("1.5e-3".into()),
                TokenKind::Text(b"it's '\0\n".to_vec()),
                ident("订单", false),
                TokenKind::End
            ]
        );
        assert_eq!(kinds("1.x")[0], TokenKind::Number("1".into()));
        assert_eq!(kinds("0xFFu")[0], TokenKind::Number("0xFF".into()));
    }

    #[test]
    fn unfinished_input_is_an_error() {
        for sql in ["'abc", "`x", "'a\\", "'\\x4", "/* x", "a $ b", "'\\xé'"] {
            assert_eq!(tokenize(sql).unwrap_err().code(), 62, "{sql}");
        }
    }
}
