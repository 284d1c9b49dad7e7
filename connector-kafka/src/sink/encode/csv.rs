//! Rows as lines of CSV.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{Array, ArrayRef, RecordBatch},
        compute::cast,
        datatypes::DataType,
    },
};

use super::{Encoded, Style, bytes_at, column};

/// What stands between rows, and behind a header.
const LINE_END: &str = "\r\n";

/// Rows as RFC 4180 has them, one a record.
///
/// Values are the texts of the JSON format, nested ones its JSON. Fields are quoted where they have to be: around
/// delimiters, quotes and line ends, and to tell a text from a null.
#[derive(Debug, Clone)]
pub(crate) struct CsvEncoder {
    delimiter: String,
    quote: Option<char>,
    null_text: String,
    header: bool,
}

impl CsvEncoder {
    /// # Errors
    /// A sentence about what cannot be told apart.
    pub(crate) fn new(
        delimiter: &str,
        quote: &str,
        null_text: &str,
        header: bool,
    ) -> std::result::Result<Self, String> {
        let one = |name: &str, text: &str| {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) if !matches!(c, '\r' | '\n' | '\u{feff}') => Ok(c),
                _ => Err(format!("`{name}` is one character, and no line end")),
            }
        };
        let delimiter = one("csv_delimiter", delimiter)?;
        let quote = if quote.is_empty() { None } else { Some(one("csv_quote", quote)?) };
        if quote == Some(delimiter) {
            return Err(format!("`csv_delimiter` and `csv_quote` are both `{delimiter}`"));
        }
        let encoder =
            Self { delimiter: delimiter.to_string(), quote, null_text: null_text.to_owned(), header };
        if encoder.is_special(null_text) {
            return Err("`csv_null_text` holds a delimiter, a quote or a line end".to_owned());
        }
        Ok(encoder)
    }

    /// Appends a record for each row.
    ///
    /// # Errors
    /// `Unsupported` for a column without a text; `DataInvalid` where a value needs a quote and there is none.
    pub(crate) fn encode(&self, rows: &RecordBatch, out: &mut Encoded) -> Result<()> {
        let columns = rows.columns().iter().enumerate();
        let before = out.before;
        let columns =
            columns.map(|(at, array)| Column::new(rows, at, array, before)).collect::<Result<Vec<_>>>()?;
        let schema = rows.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let mut head = Vec::new();
        if self.header {
            for (at, name) in names.iter().enumerate() {
                self.field(at, Some(name.as_bytes()), &mut head)
                    .map_err(|e| e.with_context("column", name))?;
            }
            head.extend_from_slice(LINE_END.as_bytes());
        }
        for row in 0..rows.num_rows() {
            out.try_push(|bytes| {
                bytes.extend_from_slice(&head);
                let start = bytes.len();
                for (at, column) in columns.iter().enumerate() {
                    self.field(at, column.get(row), bytes)
                        .map_err(|e| e.with_context("column", names[at]).with_context("row", before + row))?;
                }
                // A row of one empty field is no row without its end.
                if bytes.len() == start {
                    bytes.extend_from_slice(LINE_END.as_bytes());
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn field(&self, at: usize, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<()> {
        if at > 0 {
            out.extend_from_slice(self.delimiter.as_bytes());
        }
        let Some(value) = value else {
            out.extend_from_slice(self.null_text.as_bytes());
            return Ok(());
        };
        // Everything that is written is text.
        let text = std::str::from_utf8(value).unwrap_or_default();
        // A byte order mark at the start of a record is dropped by readers.
        if text != self.null_text && !self.is_special(text) && !(at == 0 && text.starts_with('\u{feff}')) {
            out.extend_from_slice(value);
            return Ok(());
        }
        let Some(quote) = self.quote else {
            let text =
                "a value holds a delimiter, a line end or the text for nulls, and `csv_quote` is empty";
            return Err(Error::new(ErrorKind::DataInvalid, text));
        };
        let mut mark = [0; 4];
        let mark = quote.encode_utf8(&mut mark).as_bytes();
        out.extend_from_slice(mark);
        let mut pieces = text.split(quote);
        out.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
        for piece in pieces {
            out.extend_from_slice(mark);
            out.extend_from_slice(mark);
            out.extend_from_slice(piece.as_bytes());
        }
        out.extend_from_slice(mark);
        Ok(())
    }

    fn is_special(&self, text: &str) -> bool {
        text.contains(['\r', '\n'])
            || text.contains(self.delimiter.as_str())
            || self.quote.is_some_and(|quote| text.contains(quote))
    }
}

/// The texts of a column.
enum Column {
    /// Texts that the rows hold.
    Texts(ArrayRef),
    /// JSON, of which quotes around it are no part.
    Json(ArrayRef, Encoded),
}

impl Column {
    fn new(rows: &RecordBatch, at: usize, array: &ArrayRef, before: usize) -> Result<Self> {
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => cast(array, values).map_err(|e| {
                Error::new(ErrorKind::Unsupported, "a dictionary cannot be unpacked").with_source(e)
            })?,
            _ => Arc::clone(array),
        };
        if matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return Ok(Self::Texts(array));
        }
        let mut texts = Encoded::default();
        texts.clear(before);
        column(&rows.schema().fields()[at], array.as_ref(), Style::Csv, &mut texts)?;
        Ok(Self::Json(array, texts))
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Texts(array) => (!array.is_null(row)).then(|| bytes_at(array.as_ref(), row)).flatten(),
            Self::Json(array, texts) => (!array.is_null(row)).then(|| {
                let text = texts.get(row);
                match text {
                    // Numbers' names, times and base64: nothing in them is escaped.
                    [b'"', inner @ .., b'"'] => inner,
                    _ => text,
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn records(encoder: &CsvEncoder, columns: Vec<(&str, ArrayRef)>) -> Result<Vec<String>> {
        let rows = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap();
        let mut out = Encoded::default();
        encoder.encode(&rows, &mut out)?;
        Ok((0..rows.num_rows()).map(|row| String::from_utf8(out.get(row).to_vec()).unwrap()).collect())
    }

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    #[test]
    fn fields_are_quoted_where_they_have_to_be() {
        let encoder = CsvEncoder::new(",", "\"", "", false).unwrap();
        let values = [Some("a"), Some("b,c"), Some("say \"hi\""), Some("x\r\ny"), Some(""), None];
        let found = records(&encoder, vec![("t", texts(&values)), ("u", texts(&values))]).unwrap();
        assert_eq!(
            found,
            [
                "a,a",
                "\"b,c\",\"b,c\"",
                "\"say \"\"hi\"\"\",\"say \"\"hi\"\"\"",
                "\"x\r\ny\",\"x\r\ny\"",
                "\"\",\"\"",
                ","
            ]
        );
        let alone = records(&encoder, vec![("t", texts(&[None, Some("\u{feff}a")]))]).unwrap();
        assert_eq!(alone, ["\r\n", "\"\u{feff}a\""]);
    }

    #[test]
    fn its_options_change_it() {
        let encoder = CsvEncoder::new(";", "'", "\\N", true).unwrap();
        let numbers = Arc::new(Float64Array::from(vec![Some(1.5), Some(f64::NAN), None]));
        let found =
            records(&encoder, vec![("a;b", texts(&[Some("\\N"), None, Some("it's")])), ("n", numbers)]);
        assert_eq!(found.unwrap(), ["'a;b';n\r\n'\\N';1.5", "'a;b';n\r\n\\N;NaN", "'a;b';n\r\n'it''s';\\N"]);
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        for (delimiter, quote, null) in [
            ("", "\"", ""),
            (",,", "\"", ""),
            ("\n", "\"", ""),
            (",", ",", ""),
            (",", "ab", ""),
            (",", "\"", "a,b"),
        ] {
            CsvEncoder::new(delimiter, quote, null, false).unwrap_err();
        }
        let bare = CsvEncoder::new("\t", "", "-", false).unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert_eq!(records(&bare, vec![("t", texts(&[Some("\"")])), ("n", numbers)]).unwrap(), ["\"\t1"]);
        for value in ["a\tb", "-", "a\n"] {
            let error = records(&bare, vec![("t", texts(&[Some(value)]))]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataInvalid);
        }
    }
}
