//! Numbers by their digits: exact, and never through a float.

use connector_core::arrow::datatypes::i256;

use super::{cursor::Cursor, error::Fault};

/// Powers of ten that fit a u64.
pub(super) const POW10: [u64; 20] = {
    let mut powers = [1_u64; 20];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// Decimal digits that always fit a u64.
const U64_DIGITS: usize = 19;

/// Decimal digits that always fit an i256.
const I256_DIGITS: i64 = 76;

/// An exponent beyond this one changes nothing: no type holds such a number.
const EXPONENT_LIMIT: i64 = 1_000_000_000_000;

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    /// All of it.
    pub(super) raw: &'a str,
    negative: bool,
    integer: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// A number times a power of ten, cut toward zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scaled {
    pub(super) value: i256,
    /// Significant digits; 0 for zero.
    pub(super) digits: usize,
    /// Whether digits other than zero were cut off.
    pub(super) cut: bool,
}

impl<'a> Number<'a> {
    /// Reads a text number. Its value is plain, so what JSON forbids in a bare number is allowed here: a
    /// plus sign, leading zeros, and a point without digits on one side.
    pub(super) fn from_text(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (negative, unsigned) = match bytes.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, bytes),
        };
        let (integer, rest) = split_digits(unsigned);
        let (fraction, rest) = match rest.split_first() {
            Some((b'.', after)) => split_digits(after),
            _ => (rest.get(..0)?, rest),
        };
        let (exponent, rest) = match rest.split_first() {
            Some((b'e' | b'E', after)) => split_exponent(after)?,
            _ => (0, rest),
        };
        let is_number = rest.is_empty() && !(integer.is_empty() && fraction.is_empty());
        is_number.then_some(Self { raw: text, negative, integer, fraction, exponent })
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    /// The number times 10 to the `power`; `None` when it has more digits than any type holds.
    pub(super) fn scaled(&self, power: i64) -> Option<Scaled> {
        let digits = || self.integer.iter().chain(self.fraction).copied();
        let (int_len, frac_len) = (length(self.integer), length(self.fraction));
        // Behind how many digits the point of the result stands.
        let point = int_len.saturating_add(self.exponent).saturating_add(power);
        let leading = i64::try_from(digits().take_while(|digit| *digit == b'0').count()).ok()?;
        if leading == int_len + frac_len {
            return Some(Scaled { value: i256::ZERO, digits: 0, cut: false });
        }
        let significant = point.saturating_sub(leading);
        if significant > I256_DIGITS {
            return None;
        }
        let kept = usize::try_from(point.clamp(leading, int_len + frac_len) - leading).ok()?;
        let skipped = usize::try_from(leading).ok()?;
        let mut value = i256::ZERO;
        let (mut chunk, mut chunk_len) = (0_u64, 0);
        let padding = usize::try_from(significant.max(0)).ok()?.saturating_sub(kept);
        for digit in digits().skip(skipped).take(kept).chain(std::iter::repeat_n(b'0', padding)) {
            chunk = chunk * 10 + u64::from(digit - b'0');
            chunk_len += 1;
            if chunk_len == U64_DIGITS - 1 {
                value = append_digits(value, chunk, chunk_len);
                (chunk, chunk_len) = (0, 0);
            }
        }
        value = append_digits(value, chunk, chunk_len);
        let cut = digits().skip(skipped + kept).any(|digit| digit != b'0');
        let value = if self.negative { value.wrapping_neg() } else { value };
        Some(Scaled { value, digits: kept + padding, cut })
    }
}

/// `value` with `len` digits more; the caller keeps the sum of digits within what an i256 holds.
fn append_digits(value: i256, digits: u64, len: usize) -> i256 {
    let power = POW10.get(len).copied().unwrap_or(1);
    value.wrapping_mul(i256::from_i128(i128::from(power))).wrapping_add(i256::from_i128(i128::from(digits)))
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX / 4)
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let len = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.split_at(len)
}

/// The exponent behind its `e`, held to [`EXPONENT_LIMIT`].
fn split_exponent(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (negative, unsigned) = match bytes.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, bytes),
    };
    let (digits, rest) = split_digits(unsigned);
    if digits.is_empty() {
        return None;
    }
    let magnitude =
        digits.iter().fold(0, |sum: i64, digit| (sum * 10 + i64::from(digit - b'0')).min(EXPONENT_LIMIT));
    Some((if negative { -magnitude } else { magnitude }, rest))
}

/// The sign and magnitude of a text that is digits alone, at most 19 of them.
#[inline]
pub(super) fn plain_integer(text: &[u8]) -> Option<(bool, u64)> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > U64_DIGITS {
        return None;
    }
    let mut magnitude = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    Some((negative, magnitude))
}

/// A short decimal: sign, digits without the point, how many stand behind the point, and its length.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShortDecimal {
    pub(super) negative: bool,
    pub(super) digits: u64,
    pub(super) fraction: u32,
    pub(super) len: usize,
}

/// Reads a decimal of at most 18 digits without exponent, as JSON writes it. `None` for anything else:
/// the slow path then reads it, or says what is wrong with it.
#[inline]
pub(super) fn short_decimal(bytes: &[u8]) -> Option<ShortDecimal> {
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative);
    let (digits, int_len) = leading_digits(bytes.get(start..)?, 0);
    let mut at = start + int_len;
    if int_len == 0 || (int_len > 1 && bytes.get(start) == Some(&b'0')) {
        return None;
    }
    let (mut all, mut fraction) = (digits, 0);
    if bytes.get(at) == Some(&b'.') {
        (all, fraction) = leading_digits(bytes.get(at + 1..)?, digits);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    }
    if int_len + fraction >= U64_DIGITS || matches!(bytes.get(at), Some(b'e' | b'E')) {
        return None;
    }
    Some(ShortDecimal { negative, digits: all, fraction: u32::try_from(fraction).ok()?, len: at })
}

/// Appends the digits that `bytes` begins with to `value`, and counts them. The sum is meaningless when
/// there are more than 19 in all.
#[inline]
fn leading_digits(bytes: &[u8], value: u64) -> (u64, usize) {
    let (mut value, mut len) = (value, 0);
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        len += 1;
    }
    (value, len)
}

impl<'a> Cursor<'a> {
    /// Reads an integer of at most 19 digits: its sign and magnitude. `None`, and nothing read, for any
    /// other number.
    #[inline]
    pub(super) fn short_integer(&mut self) -> Option<(bool, u64)> {
        let bytes = self.rest();
        let negative = bytes.first() == Some(&b'-');
        let unsigned = bytes.get(usize::from(negative)..)?;
        let (magnitude, len) = leading_digits(unsigned, 0);
        let leads_with_zero = len > 1 && unsigned.first() == Some(&b'0');
        if len == 0 || len > U64_DIGITS || leads_with_zero {
            return None;
        }
        if matches!(unsigned.get(len), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.advance(usize::from(negative) + len);
        Some((negative, magnitude))
    }

    /// Reads a number as JSON's grammar has it.
    pub(super) fn number(&mut self) -> Result<Number<'a>, Fault> {
        let bytes = self.rest();
        let negative = bytes.first() == Some(&b'-');
        let (integer, rest) = split_digits(bytes.get(usize::from(negative)..).unwrap_or_default());
        if integer.is_empty() || (integer.len() > 1 && integer.first() == Some(&b'0')) {
            return Err(self.malformed("a number without leading zeros"));
        }
        let (fraction, rest) = match rest.split_first() {
            Some((b'.', after)) => split_digits(after),
            _ => (rest.get(..0).unwrap_or_default(), rest),
        };
        let has_point = bytes.len() - rest.len() > usize::from(negative) + integer.len();
        if has_point && fraction.is_empty() {
            return Err(self.malformed("a number with digits after its point"));
        }
        let (exponent, rest) = match rest.split_first() {
            Some((b'e' | b'E', after)) => {
                split_exponent(after).ok_or_else(|| self.malformed("a number with digits in its exponent"))?
            }
            _ => (0, rest),
        };
        let start = self.pos();
        self.advance(bytes.len() - rest.len());
        Ok(Number { raw: self.slice(start, self.pos()), negative, integer, fraction, exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(text: &str, power: i64) -> Option<(String, usize, bool)> {
        let number = Number::from_text(text).expect("a number");
        number.scaled(power).map(|s| (s.value.to_string(), s.digits, s.cut))
    }

    #[test]
    fn scaling_is_exact_and_says_what_it_cut() {
        let some = |value: &str, digits, cut| Some((value.to_owned(), digits, cut));
        assert_eq!(scaled("12.345", 3), some("12345", 5, false));
        assert_eq!(scaled("12.345", 5), some("1234500", 7, false));
        assert_eq!(scaled("12.345", 2), some("1234", 4, true));
        assert_eq!(scaled("-12.999", 0), some("-12", 2, true));
        assert_eq!(scaled("1e3", 0), some("1000", 4, false));
        assert_eq!(scaled("1200e-2", 0), some("12", 2, false));
        assert_eq!(scaled("1200e-3", 0), some("1", 1, true));
        assert_eq!(scaled("0.0001e4", 0), some("1", 1, false));
        assert_eq!(scaled("0.00012e3", 0), some("0", 0, true));
        assert_eq!(scaled("0.5", 0), some("0", 0, true));
        assert_eq!(scaled("123", -2), some("1", 1, true));
        assert_eq!(scaled("100", -2), some("1", 1, false));
        assert_eq!(scaled("0e99999999999999999999999", 0), some("0", 0, false));
        assert_eq!(scaled("0.000", 2), some("0", 0, false));
        assert_eq!(scaled("1e-99999999999999999999999", 0), some("0", 0, true));
        assert_eq!(scaled("1e99999999999999999999999", 0), None);
        assert_eq!(scaled("+007.", 1), some("70", 2, false));
        assert_eq!(scaled(".5", 1), some("5", 1, false));
        let long = "9".repeat(76);
        assert_eq!(scaled(&long, 0), some(&long, 76, false));
        assert_eq!(scaled(&format!("-{long}"), 0), some(&format!("-{long}"), 76, false));
        assert_eq!(scaled(&format!("1{long}"), 0), None);
        assert_eq!(scaled(&format!("0.{long}"), 76), some(&long, 76, false));
    }

    #[test]
    fn text_that_is_no_number_is_refused() {
        for text in
            ["", "-", "+", ".", "1e", "1e+", "e5", "1.2.3", "0x10", "1_000", " 1", "1 ", "NaN", "inf", "--1"]
        {
            assert!(Number::from_text(text).is_none(), "{text}");
        }
    }

    #[test]
    fn bare_numbers_keep_to_the_grammar_of_json() {
        for text in ["0", "-0", "10", "1.5", "-1.5e10", "1E+2", "1e-2", "0.0"] {
            let mut cursor = Cursor::new(text);
            assert_eq!(cursor.number().expect("a number").raw, text);
        }
        for text in ["", "-", "01", "-01", "00", "1.", ".5", "1e", "1e+", "+1", "1.e5", "NaN", "Infinity"] {
            assert!(Cursor::new(text).number().is_err(), "{text}");
        }
    }

    #[test]
    fn short_forms_read_what_they_can_and_nothing_else() {
        let short =
            |text: &str| short_decimal(text.as_bytes()).map(|d| (d.negative, d.digits, d.fraction, d.len));
        assert_eq!(short("12.50,"), Some((false, 1250, 2, 5)));
        assert_eq!(short("-7"), Some((true, 7, 0, 2)));
        assert_eq!(short("0.001\""), Some((false, 1, 3, 5)));
        assert_eq!(short("999999999999999999"), Some((false, 999_999_999_999_999_999, 0, 18)));
        for text in ["", "-", "1.", ".5", "01", "1e2", "1.5E2", "1234567890123456789", "x"] {
            assert_eq!(short(text), None, "{text}");
        }
        assert_eq!(
            Cursor::new("9999999999999999999 ").short_integer(),
            Some((false, 9_999_999_999_999_999_999))
        );
        for text in ["18446744073709551615", "1.0", "1e2", "007", "-", ""] {
            assert_eq!(Cursor::new(text).short_integer(), None, "{text}");
        }
        assert_eq!(plain_integer(b"-0012"), Some((true, 12)));
        for text in ["", "-", "+1", "1 ", "12345678901234567890"] {
            assert_eq!(plain_integer(text.as_bytes()), None, "{text}");
        }
    }
}
