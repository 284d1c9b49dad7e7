//! CSV as RFC 4180 has it: one row a record, or several.

use connector_core::{
    Error, ErrorKind, Result, TableSchema,
    arrow::{
        array::{RecordBatch, RecordBatchOptions},
        datatypes::SchemaRef,
    },
};
use hashbrown::HashMap;
use jiff::tz::TimeZone;

use super::json::{
    JsonError, JsonErrorKind, JsonOptions, UnknownFields,
    column::{Build, Context},
    decoder::{BATCH_BYTES, not_utf8},
    error::Fault,
    fold_case,
    object::ObjectColumn,
};

/// A column that a record's field has none of.
const NO_COLUMN: usize = usize::MAX;

/// Records of CSV in UTF-8, with the columns that they are read into.
///
/// A record holds one row or several; a byte order mark at its start is dropped. Fields may be quoted, and hold
/// delimiters, line ends and doubled quotes then. A value is read from its text as the JSON format reads texts; a
/// boolean is `true`, `false`, `1` or `0`, binary columns are base64, and nested ones JSON.
///
/// A field that is not quoted and is the null text (by default: empty) is a null; in a text column that may not be null
/// an empty one is an empty text. A quoted field is never a null. A row with another number of fields than there are
/// columns is refused, and with it its record.
///
/// ```
/// use connector_core::arrow::datatypes::{DataType, Field, Schema};
/// use connector_kafka::format::Csv;
///
/// let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("note", DataType::Utf8, true)]);
/// let csv = Csv::with_schema(schema).delimiter(';').null_text("\\N");
/// ```
#[derive(Debug, Clone)]
pub struct Csv {
    table: TableSchema,
    options: JsonOptions,
    delimiter: char,
    quote: Option<char>,
    null_text: String,
    header: bool,
}

impl Csv {
    /// Records with these columns, in this order, and no primary key.
    pub fn with_schema(schema: impl Into<SchemaRef>) -> Self {
        Self::with_table_schema(TableSchema::new(schema.into()))
    }

    /// Records of this table.
    pub fn with_table_schema(table: TableSchema) -> Self {
        let options = JsonOptions::default();
        Self { table, options, delimiter: ',', quote: Some('"'), null_text: String::new(), header: false }
    }

    /// What stands between fields: a comma by default.
    #[must_use]
    pub fn delimiter(mut self, delimiter: char) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// What stands around fields: a double quote by default; `None` when quotes mean nothing.
    #[must_use]
    pub fn quote(mut self, quote: Option<char>) -> Self {
        self.quote = quote;
        self
    }

    /// The text that stands for a null where it is not quoted: empty by default.
    #[must_use]
    pub fn null_text(mut self, text: impl Into<String>) -> Self {
        self.null_text = text.into();
        self
    }

    /// Whether the first line of each record names its columns.
    #[must_use]
    pub fn header(mut self, on: bool) -> Self {
        self.header = on;
        self
    }

    /// Changes how values are read. Also what happens to names in a header that have no column, and whether names
    /// are compared without regard to case.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut JsonOptions)) -> Self {
        change(&mut self.options);
        self
    }

    pub(crate) fn time_zone(mut self, zone: TimeZone) -> Self {
        self.options.time_zone = zone;
        self
    }

    /// The columns and the primary key.
    pub fn table_schema(&self) -> &TableSchema {
        &self.table
    }

    /// Looks whether records can be read so.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid =
            |text: String| Err(Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options"));
        let special = |c: char| matches!(c, '\r' | '\n' | '\u{feff}');
        if special(self.delimiter) || self.quote.is_some_and(special) {
            return invalid("csv: a line end is neither a delimiter nor a quote".to_owned());
        }
        if self.quote == Some(self.delimiter) {
            return invalid(format!("csv: `{}` cannot be delimiter and quote", self.delimiter));
        }
        CsvDecoder::new(self).map(drop)
    }
}

/// Decodes records of CSV.
pub(super) struct CsvDecoder {
    csv: Csv,
    root: ObjectColumn,
    context: Context,
    rows: usize,
    bytes: usize,
    /// A field with doubled quotes, without them.
    scratch: String,
    /// The column of each field.
    columns: Vec<usize>,
    /// The header that these columns are of.
    header: Option<String>,
    /// Columns that have no field.
    absent: Vec<usize>,
}

/// A field, and whether it was quoted.
struct FieldText<'t> {
    text: &'t str,
    quoted: bool,
    /// Where it starts.
    at: usize,
}

/// What follows a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Field,
    Line,
    End,
}

/// A place in one record.
struct Scanner<'t> {
    text: &'t str,
    pos: usize,
    delimiter: char,
    quote: Option<char>,
}

impl<'t> Scanner<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// Reads a field and what follows it.
    fn field<'s>(&mut self, scratch: &'s mut String) -> Result<(FieldText<'s>, After), Fault>
    where
        't: 's,
    {
        let at = self.pos;
        let Some(quote) = self.quote.filter(|quote| self.rest().starts_with(*quote)) else {
            return self.bare_field(at);
        };
        self.pos += quote.len_utf8();
        let start = self.pos;
        scratch.clear();
        let mut piece = start;
        loop {
            let Some(found) = self.rest().find(quote) else {
                return Err(Fault::syntax(at, "the field's closing quote").showing("the end of the record"));
            };
            let close = self.pos + found;
            self.pos = close + quote.len_utf8();
            if !self.rest().starts_with(quote) {
                let after = self.after()?;
                let last = self.text.get(piece..close).unwrap_or_default();
                let text = if piece == start {
                    last
                } else {
                    scratch.push_str(last);
                    scratch.as_str()
                };
                return Ok((FieldText { text, quoted: true, at }, after));
            }
            // A doubled quote stands for one.
            scratch.push_str(self.text.get(piece..self.pos).unwrap_or_default());
            self.pos += quote.len_utf8();
            piece = self.pos;
        }
    }

    fn bare_field<'s>(&mut self, at: usize) -> Result<(FieldText<'s>, After), Fault>
    where
        't: 's,
    {
        let (delimiter, quote) = (self.delimiter, self.quote);
        let rest = self.rest();
        let end = rest.find(|c| c == delimiter || c == '\n' || Some(c) == quote).unwrap_or(rest.len());
        if let Some(quote) = quote.filter(|quote| rest[end..].starts_with(*quote)) {
            let expected = format!("no `{quote}` in a field that does not begin with one");
            return Err(Fault::syntax(at + end, expected));
        }
        let mut text = &rest[..end];
        if !rest[end..].starts_with(delimiter) {
            text = text.strip_suffix('\r').unwrap_or(text);
        }
        self.pos = at + text.len();
        let after = self.after()?;
        Ok((FieldText { text, quoted: false, at }, after))
    }

    /// Steps over a delimiter or a line end.
    fn after(&mut self) -> Result<After, Fault> {
        let rest = self.rest();
        let (after, len) = if rest.is_empty() {
            (After::End, 0)
        } else if rest.starts_with(self.delimiter) {
            (After::Field, self.delimiter.len_utf8())
        } else if rest.starts_with("\r\n") {
            (After::Line, 2)
        } else if rest.starts_with('\n') {
            (After::Line, 1)
        } else if rest == "\r" {
            (After::End, 1)
        } else {
            return Err(Fault::syntax(self.pos, "a delimiter or a line end after the field's closing quote"));
        };
        self.pos += len;
        // The last line may have its end or not.
        Ok(if after == After::Line && self.rest().is_empty() { After::End } else { after })
    }
}

impl CsvDecoder {
    pub(super) fn new(csv: &Csv) -> Result<Self> {
        let fields = csv.table.columns.fields();
        let root = ObjectColumn::new(fields, "", &csv.options)?;
        let columns = if csv.header { Vec::new() } else { (0..fields.len()).collect() };
        Ok(Self {
            csv: csv.clone(),
            root,
            context: Context::new(csv.options.clone()),
            rows: 0,
            bytes: 0,
            scratch: String::new(),
            columns,
            header: None,
            absent: Vec::new(),
        })
    }

    /// Takes the rows of a record, and tells how many there were.
    pub(super) fn decode(&mut self, record: &[u8]) -> Result<usize, JsonError> {
        match self.append(record) {
            Ok(rows) => {
                self.rows += rows;
                self.bytes += record.len();
                Ok(rows)
            }
            Err(fault) => {
                self.root.truncate(self.rows);
                Err(fault.into_error(record))
            }
        }
    }

    fn append(&mut self, record: &[u8]) -> Result<usize, Fault> {
        if record.len() > BATCH_BYTES - self.bytes {
            let fault = Fault::new(JsonErrorKind::BatchFull, 0, "at most 2 GiB of records in one batch");
            return Err(fault.showing("more"));
        }
        if self.rows == 0 {
            self.root.reserve();
        }
        let text = simdutf8::basic::from_utf8(record).map_err(|_| not_utf8(record))?;
        let pos = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let mut scanner = Scanner { text, pos, delimiter: self.csv.delimiter, quote: self.csv.quote };
        if scanner.rest().is_empty() {
            return Err(Fault::syntax(0, "a row"));
        }
        if self.csv.header && !self.read_header(&mut scanner)? {
            return Ok(0);
        }
        let mut rows = 0;
        loop {
            let after = self.read_row(&mut scanner)?;
            rows += 1;
            if after == After::End {
                return Ok(rows);
            }
        }
    }

    fn read_row(&mut self, scanner: &mut Scanner<'_>) -> Result<After, Fault> {
        let start = scanner.pos;
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut at = 0;
        let result = loop {
            let (field, after) = match scanner.field(&mut scratch) {
                Ok(found) => found,
                Err(fault) => break Err(fault),
            };
            let Some(column) = self.columns.get(at).copied() else {
                break Err(self.wrong_count(start, "more"));
            };
            if column != NO_COLUMN
                && let Err(fault) = self.read_value(column, &field)
            {
                break Err(fault);
            }
            at += 1;
            if after != After::Field {
                break if at == self.columns.len() {
                    Ok(after)
                } else {
                    Err(self.wrong_count(start, "fewer"))
                };
            }
        };
        self.scratch = scratch;
        let after = result?;
        for column in &self.absent {
            let field = self.csv.table.columns.field(*column).name();
            if let Some(column) = self.root.columns_mut().get_mut(*column) {
                column.append_absent().map_err(|()| Fault::absent(start).in_field(field))?;
            }
        }
        self.root.end_row_of_columns();
        Ok(after)
    }

    fn read_value(&mut self, index: usize, field: &FieldText<'_>) -> Result<(), Fault> {
        let Some(column) = self.root.columns_mut().get_mut(index) else { return Ok(()) };
        let is_null = !field.quoted && field.text == self.csv.null_text;
        let result = if !is_null {
            column.decode_text(field.text, &mut self.context)
        } else if column.append_absent().is_ok() {
            Ok(())
        } else if field.text.is_empty() && column.is_text() {
            column.decode_text("", &mut self.context)
        } else {
            let expected = "a value, as the column is not nullable";
            Err(Fault::new(JsonErrorKind::MissingValue, 0, expected).showing("the text for a null"))
        };
        result.map_err(|fault| fault.at(field.at).in_field(self.csv.table.columns.field(index).name()))
    }

    #[cold]
    fn wrong_count(&self, start: usize, what: &'static str) -> Fault {
        let expected = format!("a row of {} fields", self.columns.len());
        Fault::syntax(start, expected).showing(what)
    }

    /// Reads the line that names the columns. False when nothing follows it.
    fn read_header(&mut self, scanner: &mut Scanner<'_>) -> Result<bool, Fault> {
        let start = scanner.pos;
        if let Some(header) = &self.header
            && scanner.rest().starts_with(header.as_str())
        {
            scanner.pos += header.len();
            return Ok(!scanner.rest().is_empty());
        }
        let fold = self.csv.options.case_insensitive;
        let name = |text: &str| if fold { fold_case(text).into_owned() } else { text.to_owned() };
        let known: HashMap<String, usize> = self
            .csv
            .table
            .columns
            .fields()
            .iter()
            .enumerate()
            .map(|(at, field)| (name(field.name()), at))
            .collect();
        let (mut scratch, mut columns) = (String::new(), Vec::new());
        let after = loop {
            let (field, after) = scanner.field(&mut scratch)?;
            let column = known.get(&name(field.text)).copied();
            if column.is_none() && self.csv.options.unknown_fields == UnknownFields::Fail {
                let fault = Fault::new(JsonErrorKind::UnknownField, field.at, "a name that has a column");
                return Err(fault.in_key(field.text));
            }
            if column.is_some_and(|column| columns.contains(&column)) {
                let fault = Fault::new(JsonErrorKind::DuplicateKey, field.at, "each name once in the header");
                return Err(fault.in_key(field.text));
            }
            columns.push(column.unwrap_or(NO_COLUMN));
            if after != After::Field {
                break after;
            }
        };
        self.absent = (0..known.len()).filter(|column| !columns.contains(column)).collect();
        self.columns = columns;
        let line = scanner.text.get(start..scanner.pos).unwrap_or_default();
        // A line without its end may be the beginning of a longer one.
        self.header = line.ends_with('\n').then(|| line.to_owned());
        Ok(after == After::Line)
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn memory_size(&self) -> usize {
        self.root.memory_size()
    }

    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        let schema = SchemaRef::clone(&self.csv.table.columns);
        self.root
            .finish_columns()
            .and_then(|columns| RecordBatch::try_new_with_options(schema, columns, &options))
            .map_err(|e| {
                Error::new(ErrorKind::Unexpected, "cannot build a batch of decoded records")
                    .with_operation("kafka.decode")
                    .with_source(e)
            })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use connector_core::arrow::{
        array::{Array, AsArray, StringArray},
        datatypes::{DataType, Decimal128Type, Field, Int64Type, Schema, TimeUnit},
    };
    use proptest::prelude::*;

    use super::*;

    fn texts(columns: usize, nullable: bool) -> Csv {
        let fields: Vec<Field> =
            (0..columns).map(|at| Field::new(format!("c{at}"), DataType::Utf8, nullable)).collect();
        Csv::with_schema(Schema::new(fields))
    }

    fn rows(csv: &Csv, record: &str) -> Result<Vec<Vec<Option<String>>>, JsonError> {
        let mut decoder = CsvDecoder::new(csv).unwrap();
        let count = decoder.decode(record.as_bytes())?;
        assert_eq!(decoder.len(), count);
        let batch = decoder.finish().unwrap();
        let columns: Vec<&StringArray> = batch.columns().iter().map(|column| column.as_string()).collect();
        let value =
            |column: &StringArray, row: usize| (!column.is_null(row)).then(|| column.value(row).to_owned());
        Ok((0..count).map(|row| columns.iter().map(|column| value(column, row)).collect()).collect())
    }

    fn row(record: &str) -> Vec<Option<String>> {
        let width = 3;
        rows(&texts(width, true), record).unwrap_or_else(|e| panic!("{record}: {e}")).swap_remove(0)
    }

    fn some(values: [&str; 3]) -> Vec<Option<String>> {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    /// B14: quoted delimiters, quotes and line ends; a byte order mark; nulls and empty texts.
    #[test]
    fn fields_in_quotes_and_without() {
        assert_eq!(row("240002,9506858246848,\"tes,t-dfw\""), some(["240002", "9506858246848", "tes,t-dfw"]));
        assert_eq!(row("a,\"line1\nline2\",\"say \"\"hi\"\"\""), some(["a", "line1\nline2", "say \"hi\""]));
        assert_eq!(row("a,b,c\r\n"), some(["a", "b", "c"]));
        assert_eq!(row("a,b,c\n"), some(["a", "b", "c"]));
        assert_eq!(row("\u{feff}a,b,c"), some(["a", "b", "c"]));
        assert_eq!(row("\u{feff}\"a\",b,c"), some(["a", "b", "c"]));
        assert_eq!(row("\u{feff}\u{feff}a,b,c"), some(["\u{feff}a", "b", "c"]), "it is dropped once");
        assert_eq!(row(",\"\",\\N"), [None, Some(String::new()), Some("\\N".to_owned())]);
        assert_eq!(row("\"a\r\nb\",\"\"\"\",\"\"\"\"\"\"\r\n"), some(["a\r\nb", "\"", "\"\""]));
        let marked = rows(&texts(3, true).null_text("\\N"), ",\"\\N\",\\N").unwrap();
        assert_eq!(marked, [[Some(String::new()), Some("\\N".to_owned()), None]]);
    }

    #[test]
    fn several_rows_in_one_record() {
        let found = rows(&texts(2, true), "a,b\r\nc,\"d\ne\"\nf,\n").unwrap();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found, [[text("a"), text("b")], [text("c"), text("d\ne")], [text("f"), None]]);
    }

    #[test]
    fn what_is_no_csv_is_one_bad_record() {
        let csv = texts(2, true);
        for (record, expected) in [
            ("", "a row"),
            ("a", "a row of 2 fields"),
            ("a,b,c", "a row of 2 fields"),
            ("a,b\n\nc,d", "a row of 2 fields"),
            ("a,\"b", "closing quote"),
            ("a,\"b\"c", "closing quote"),
            ("a,b\"c", "no `\"`"),
        ] {
            let error = rows(&csv, record).unwrap_err();
            assert_eq!(error.kind(), JsonErrorKind::Syntax, "{record}");
            assert!(error.expected().contains(expected), "{record}: {error}");
        }
        let mut decoder = CsvDecoder::new(&csv).unwrap();
        // 你好 in GBK.
        assert_eq!(decoder.decode(b"\xC4\xE3\xBA\xC3,b").unwrap_err().kind(), JsonErrorKind::Syntax);
        decoder.decode(b"a,b").unwrap();
        assert!(decoder.decode(b"c,d\ne").is_err(), "the first row of a bad record goes with it");
        assert_eq!(decoder.decode(b"x,y").unwrap(), 1);
        let batch = decoder.finish().unwrap();
        let first: Vec<_> = batch.column(0).as_string::<i32>().iter().flatten().collect();
        assert_eq!(first, ["a", "x"]);
    }

    #[test]
    fn values_have_the_types_of_their_columns() {
        let csv = Csv::with_schema(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("amount", DataType::Decimal128(18, 4), true),
            Field::new("ok", DataType::Boolean, true),
            Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
            Field::new("tags", DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))), true),
            Field::new("name", DataType::Utf8, false),
        ]));
        let mut decoder = CsvDecoder::new(&csv).unwrap();
        decoder.decode(b"1,12.5,1,2023-05-10 07:12:10,\"[1,2]\",").unwrap();
        for (record, path, kind) in [
            ("x,1,1,,,a", "id", JsonErrorKind::InvalidText),
            (",1,1,,,a", "id", JsonErrorKind::MissingValue),
            ("1,1.00001,1,,,a", "amount", JsonErrorKind::Inexact),
            ("1,1,yes,,,a", "ok", JsonErrorKind::InvalidText),
            ("1,1,true,2023-13-01,,a", "at", JsonErrorKind::InvalidText),
            ("1,1,true,,[1,a", "tags", JsonErrorKind::Syntax),
        ] {
            let error = decoder.decode(record.as_bytes()).unwrap_err();
            assert_eq!((error.path(), error.kind()), (path, kind), "{record}: {error}");
        }
        let batch = decoder.finish().unwrap();
        assert_eq!(batch.num_rows(), 1);
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 1);
        assert_eq!(batch.column(1).as_primitive::<Decimal128Type>().value(0), 125_000);
        assert!(batch.column(2).as_boolean().value(0));
        assert_eq!(batch.column(4).as_list::<i32>().value_length(0), 2);
        assert_eq!(batch.column(5).as_string::<i32>().value(0), "", "a text that may not be null is empty");
    }

    #[test]
    fn a_header_names_the_columns() {
        let csv = texts(2, true).header(true);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(rows(&csv, "c1,c0\na,b\nc,d").unwrap(), [[text("b"), text("a")], [text("d"), text("c")]]);
        assert_eq!(rows(&csv, "other,c1\nx,y").unwrap(), [[None, text("y")]]);
        assert!(rows(&csv, "c0,c1\n").unwrap().is_empty());
        let mut decoder = CsvDecoder::new(&csv).unwrap();
        for record in ["c0,c1\n1,2", "c0,c1\n3,4", "c1,c0\n6,5", "c0\n7"] {
            decoder.decode(record.as_bytes()).unwrap();
        }
        let batch = decoder.finish().unwrap();
        let first: Vec<_> = batch.column(0).as_string::<i32>().iter().flatten().collect();
        assert_eq!(first, ["1", "3", "5", "7"]);
        assert_eq!(rows(&csv, "c0,c0\n1,2").unwrap_err().kind(), JsonErrorKind::DuplicateKey);
        let strict = csv.clone().options(|options| options.unknown_fields = UnknownFields::Fail);
        assert_eq!(rows(&strict, "c0,x\n1,2").unwrap_err().kind(), JsonErrorKind::UnknownField);
        let any_case = csv.options(|options| options.case_insensitive = true);
        assert_eq!(rows(&any_case, "C0,C1\n1,2").unwrap(), [[text("1"), text("2")]]);
    }

    #[test]
    fn other_delimiters_and_quotes() {
        let tabs = texts(2, true).delimiter('\t').quote(None);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(rows(&tabs, "\"a\t,b\"").unwrap(), [[text("\"a"), text(",b\"")]]);
        let wide = texts(2, true).delimiter('，').quote(Some('\''));
        assert_eq!(rows(&wide, "'a，''b'，c").unwrap(), [[text("a，'b"), text("c")]]);
        for wrong in [texts(1, true).delimiter('\n'), texts(1, true).delimiter('"')] {
            assert_eq!(wrong.check().unwrap_err().kind(), ErrorKind::OptionInvalid);
        }
    }

    proptest! {
        #[test]
        fn quoted_fields_survive(values in proptest::collection::vec("[a\",\r\n\\\\é]{0,6}", 6)) {
            let fields: Vec<String> = values.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\""))).collect();
            let record = format!("{}\r\n{}", fields[..3].join(","), fields[3..].join(","));
            let found = rows(&texts(3, true), &record).unwrap();
            let flat: Vec<String> = found.into_iter().flatten().flatten().collect();
            prop_assert_eq!(flat, values);
        }

        #[test]
        fn nothing_panics(record in "[a\",\r\n\u{feff}]{0,20}", header: bool) {
            // Whether it is taken or refused, the decoder goes on.
            let csv = texts(2, true).header(header);
            let mut decoder = CsvDecoder::new(&csv).unwrap();
            let taken = decoder.decode(record.as_bytes()).unwrap_or(0);
            prop_assert_eq!(decoder.finish().unwrap().num_rows(), taken);
        }
    }
}
