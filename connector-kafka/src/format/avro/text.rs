//! Avro's binary values as JSON text.
//!
//! A value becomes the JSON that Kafka Connect writes of the same value: bytes and decimals in base64, enums as
//! their symbols, unions without a word about their branch. From there on it is read by the rules of every other JSON value,
//! so that a column means the same whichever way its values came.

use super::schema::{AvroSchema, NodeId, RecordField, Shape};
use crate::format::json::{JsonErrorKind, cursor::MAX_DEPTH, error::Fault, put_base64};

/// A record of `n` bytes gives at most `LEAST_ROOM + n * MOST_GROWTH` bytes of text. No record does that wants to be read: names
/// and nulls take most.
const LEAST_ROOM: usize = 64 << 10;
const MOST_GROWTH: usize = 256;

const NESTED: &str = "records, arrays and maps nested at most 128 deep";

/// Bytes of a record that are left to read.
#[derive(Debug, Clone)]
pub(in crate::format) struct Bytes<'a> {
    whole: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    /// The bytes of `whole` from `at` on.
    pub(in crate::format) fn new(whole: &'a [u8], at: usize) -> Self {
        Self { whole, at }
    }

    /// How many bytes were read.
    pub(in crate::format) fn at(&self) -> usize {
        self.at
    }

    /// How many there are in all.
    pub(in crate::format) fn len(&self) -> usize {
        self.whole.len()
    }

    #[cold]
    fn fault(&self, expected: &'static str) -> Fault {
        let found = if self.at < self.whole.len() { "other bytes" } else { "the end of the record" };
        Fault::syntax(self.at, expected).showing(found)
    }

    /// Refuses bytes behind the value.
    pub(in crate::format) fn end(&self) -> Result<(), Fault> {
        if self.at == self.whole.len() { Ok(()) } else { Err(self.fault("the end of the record")) }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let rest = self.whole.get(self.at..).unwrap_or_default();
        let taken = rest
            .get(..count)
            .ok_or_else(|| Fault::syntax(self.at, "more bytes").showing("the end of the record"))?;
        self.at += count;
        Ok(taken)
    }

    /// A number in groups of seven bits, the lowest first, with its sign in the lowest bit.
    #[inline]
    pub(super) fn long(&mut self) -> Result<i64, Fault> {
        let mut value = 0_u64;
        let start = self.at;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.whole.get(self.at) else { break };
            self.at += 1;
            // The tenth byte has room for one bit.
            if shift == 63 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        self.at = start;
        Err(self.fault("a number"))
    }

    pub(super) fn int(&mut self) -> Result<i32, Fault> {
        let start = self.at;
        i32::try_from(self.long()?).map_err(|_| Self { at: start, ..*self }.fault("a number of 32 bits"))
    }

    pub(super) fn boolean(&mut self) -> Result<bool, Fault> {
        match self.take(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Self { at: self.at - 1, ..*self }.fault("0 or 1, as it is a boolean")),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let start = self.at;
        let count = usize::try_from(self.long()?);
        let count = count.map_err(|_| Self { at: start, ..*self }.fault("a length"))?;
        self.take(count)
    }

    pub(in crate::format) fn string(&mut self) -> Result<&'a str, Fault> {
        let start = self.at;
        let bytes = self.bytes()?;
        simdutf8::basic::from_utf8(bytes).map_err(|_| Self { at: start, ..*self }.fault("a text in UTF-8"))
    }

    pub(super) fn float(&mut self) -> Result<f32, Fault> {
        Ok(f32::from_le_bytes(self.take(4)?.try_into().unwrap_or_default()))
    }

    pub(super) fn double(&mut self) -> Result<f64, Fault> {
        Ok(f64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default()))
    }

    /// The type of a union's value; any other type is that itself.
    pub(in crate::format) fn branch(&mut self, schema: &AvroSchema, id: NodeId) -> Result<NodeId, Fault> {
        let Shape::Union(branches) = &schema.node(id).shape else { return Ok(id) };
        Ok(branches[self.choice(branches.len(), "the number of one of the union's types")?])
    }

    pub(super) fn symbol<'s>(&mut self, symbols: &'s [String]) -> Result<&'s str, Fault> {
        Ok(&symbols[self.choice(symbols.len(), "the number of one of the enum's symbols")?])
    }

    /// A number that chooses among `count`.
    fn choice(&mut self, count: usize, expected: &'static str) -> Result<usize, Fault> {
        let start = self.at;
        let choice = usize::try_from(self.long()?).ok().filter(|choice| *choice < count);
        choice.ok_or_else(|| Self { at: start, ..*self }.fault(expected))
    }

    /// How many items the next block of an array or map has; none behind the last.
    fn block(&mut self) -> Result<usize, Fault> {
        let start = self.at;
        let count = self.long()?;
        if count < 0 {
            // The block's length in bytes follows, for readers that skip it.
            self.long()?;
        }
        usize::try_from(count.unsigned_abs())
            .map_err(|_| Self { at: start, ..*self }.fault("a number of items"))
    }
}

/// Writes values as text.
#[derive(Debug)]
pub(in crate::format) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    most: usize,
    depth: u32,
}

impl<'o> Writer<'o> {
    /// A writer of a record of so many bytes.
    pub(in crate::format) fn new(out: &'o mut Vec<u8>, bytes: usize) -> Self {
        let most = bytes.saturating_mul(MOST_GROWTH).saturating_add(LEAST_ROOM);
        Self { out, most, depth: 0 }
    }

    /// Appends the value that stands next.
    pub(in crate::format) fn value(
        &mut self,
        schema: &AvroSchema,
        id: NodeId,
        bytes: &mut Bytes<'_>,
    ) -> Result<(), Fault> {
        let node = schema.node(id);
        match &node.shape {
            Shape::Null => self.out.extend_from_slice(b"null"),
            Shape::Boolean => self.put(bytes.boolean()?),
            Shape::Int => self.put(bytes.int()?),
            Shape::Long => self.put(bytes.long()?),
            // Widened, as Avro does where a double is expected; a column of 32 bits gets the same number back.
            Shape::Float => self.float(bytes.float()?.into()),
            Shape::Double => self.float(bytes.double()?),
            Shape::Bytes => put_base64(self.out, bytes.bytes()?),
            Shape::Fixed(_) if node.is_uuid() => {
                let value = bytes.take(16)?.try_into().unwrap_or_default();
                self.put(&*uuid::Uuid::from_bytes(value).hyphenated().encode_lower(&mut [0; 36]));
            }
            Shape::Fixed(size) => put_base64(self.out, bytes.take(*size)?),
            Shape::String => {
                let value = bytes.string()?;
                self.put(value);
            }
            Shape::Enum(symbols) => self.put(bytes.symbol(symbols)?),
            Shape::Union(_) => {
                let branch = bytes.branch(schema, id)?;
                self.value(schema, branch, bytes)?;
            }
            Shape::Array(items) => self.array(schema, *items, bytes)?,
            Shape::Map(values) => self.map(schema, *values, bytes)?,
            Shape::Record(fields) => self.record(schema, fields, bytes)?,
        }
        Ok(())
    }

    fn enter(&mut self, bracket: u8, bytes: &Bytes<'_>) -> Result<(), Fault> {
        if self.depth == MAX_DEPTH {
            return Err(bytes.fault(NESTED));
        }
        self.depth += 1;
        self.out.push(bracket);
        Ok(())
    }

    fn leave(&mut self, bracket: u8) {
        self.depth -= 1;
        self.out.push(bracket);
    }

    fn record(
        &mut self,
        schema: &AvroSchema,
        fields: &[RecordField],
        bytes: &mut Bytes<'_>,
    ) -> Result<(), Fault> {
        self.enter(b'{', bytes)?;
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(field.key.as_bytes());
            self.value(schema, field.node, bytes).map_err(|fault| fault.in_field(&field.name))?;
        }
        self.leave(b'}');
        Ok(())
    }

    /// Items of blocks, until one has none.
    fn blocks(
        &mut self,
        bytes: &mut Bytes<'_>,
        mut item: impl FnMut(&mut Self, &mut Bytes<'_>, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut index = 0;
        loop {
            let count = bytes.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                if index > 0 {
                    self.out.push(b',');
                }
                item(self, bytes, index)?;
                index += 1;
                // Items may take no bytes, and a few bytes can say that there are billions of them.
                if self.out.len() > self.most {
                    let expected =
                        "a record whose text is at most 256 times as long as its bytes, and 64 KiB";
                    return Err(Fault::new(JsonErrorKind::OutOfRange, bytes.at, expected).showing("more"));
                }
            }
        }
    }

    fn array(&mut self, schema: &AvroSchema, items: NodeId, bytes: &mut Bytes<'_>) -> Result<(), Fault> {
        self.enter(b'[', bytes)?;
        self.blocks(bytes, |writer, bytes, index| {
            writer.value(schema, items, bytes).map_err(|fault| fault.in_item(index))
        })?;
        self.leave(b']');
        Ok(())
    }

    fn map(&mut self, schema: &AvroSchema, values: NodeId, bytes: &mut Bytes<'_>) -> Result<(), Fault> {
        self.enter(b'{', bytes)?;
        self.blocks(bytes, |writer, bytes, _| {
            let key = bytes.string()?;
            writer.put(key);
            writer.out.push(b':');
            writer.value(schema, values, bytes).map_err(|fault| fault.in_entry(key))
        })?;
        self.leave(b'}');
        Ok(())
    }

    fn float(&mut self, value: f64) {
        if value.is_finite() {
            self.put(value);
        } else if value.is_nan() {
            self.put("NaN");
        } else {
            self.put(if value > 0.0 { "Infinity" } else { "-Infinity" });
        }
    }

    /// Appends a text or number.
    #[inline]
    fn put(&mut self, value: impl serde::Serialize) {
        // A vector takes everything, and texts and numbers can always be written.
        let written = serde_json::to_writer(&mut *self.out, &value);
        debug_assert!(written.is_ok());
    }
}

/// Steps over the value that stands next, in so many records, arrays and maps.
pub(in crate::format) fn skip(
    schema: &AvroSchema,
    id: NodeId,
    bytes: &mut Bytes<'_>,
    depth: u32,
) -> Result<(), Fault> {
    if depth > MAX_DEPTH {
        return Err(bytes.fault(NESTED));
    }
    match &schema.node(id).shape {
        Shape::Null => {}
        Shape::Boolean => bytes.take(1).map(drop)?,
        Shape::Int | Shape::Long | Shape::Enum(_) => bytes.long().map(drop)?,
        Shape::Float => bytes.take(4).map(drop)?,
        Shape::Double => bytes.take(8).map(drop)?,
        Shape::Bytes | Shape::String => bytes.bytes().map(drop)?,
        Shape::Fixed(size) => bytes.take(*size).map(drop)?,
        Shape::Union(_) => {
            let branch = bytes.branch(schema, id)?;
            skip(schema, branch, bytes, depth)?;
        }
        Shape::Record(fields) => {
            for field in fields {
                skip(schema, field.node, bytes, depth + 1).map_err(|fault| fault.in_field(&field.name))?;
            }
        }
        Shape::Array(items) => skip_blocks(bytes, |bytes| skip(schema, *items, bytes, depth + 1))?,
        Shape::Map(values) => skip_blocks(bytes, |bytes| {
            bytes.bytes()?;
            skip(schema, *values, bytes, depth + 1)
        })?,
    }
    Ok(())
}

fn skip_blocks(
    bytes: &mut Bytes<'_>,
    mut item: impl FnMut(&mut Bytes<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    loop {
        let count = bytes.block()?;
        if count == 0 {
            return Ok(());
        }
        for _ in 0..count {
            let before = bytes.at;
            item(bytes)?;
            // Where one item takes no bytes none does, and there may be billions of them.
            if bytes.at == before {
                break;
            }
        }
    }
}
