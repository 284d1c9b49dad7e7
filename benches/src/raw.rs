//! The least that it takes to insert blocks over ClickHouse's native protocol: a blocking socket and an encoder for
//! the few types of the benches. It asks for nothing, resends nothing and guarantees nothing; it is what ours is
//! measured against, and shares no code with it.

use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
};

use anyhow::{Result, bail};
use connector_core::arrow::{
    array::{Array, AsArray, RecordBatch, StringArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Decimal128Type, Float64Type, Int32Type, Int64Type, TimeUnit,
        TimestampMillisecondType, TimestampSecondType, UInt64Type,
    },
};

/// Between the revisions that both servers know: old settings, no fields of newer dialects.
const REVISION: u64 = 54_412;
/// Block info: no overflow, no bucket.
const BLOCK_INFO: [u8; 8] = [1, 0, 2, 255, 255, 255, 255, 0];
/// What is given to the socket in one call.
const CHUNK: usize = 1 << 20;

/// A connection of the user `default`.
#[derive(Debug)]
pub(crate) struct RawClient {
    output: TcpStream,
    input: BufReader<TcpStream>,
}

impl RawClient {
    /// Connects and says hello. `address` is `host:port`.
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let output = TcpStream::connect(address)?;
        output.set_nodelay(true)?;
        let input = BufReader::with_capacity(64 << 10, output.try_clone()?);
        let mut client = Self { output, input };
        let mut hello = Vec::new();
        put_number(&mut hello, 0);
        put_text(&mut hello, b"bench");
        for number in [1, 1, REVISION] {
            put_number(&mut hello, number);
        }
        for text in ["", "default", ""] {
            put_text(&mut hello, text.as_bytes());
        }
        client.output.write_all(&hello)?;
        match client.number()? {
            0 => {}
            2 => return client.exception(),
            packet => bail!("packet {packet} instead of a hello"),
        }
        client.text()?;
        client.numbers(3)?;
        client.text()?;
        client.text()?;
        client.number()?;
        Ok(client)
    }

    /// Starts an INSERT and waits for the server's column header.
    pub(crate) fn begin(&mut self, sql: &str) -> Result<()> {
        let mut query = Vec::new();
        put_number(&mut query, 1);
        put_text(&mut query, b"");
        query.push(1);
        for text in ["", "", "0.0.0.0:0"] {
            put_text(&mut query, text.as_bytes());
        }
        query.push(1);
        for text in ["", "", "bench"] {
            put_text(&mut query, text.as_bytes());
        }
        for number in [1, 1, REVISION] {
            put_number(&mut query, number);
        }
        put_text(&mut query, b"");
        put_number(&mut query, 0);
        // No settings; to the end of the query; no compression.
        put_text(&mut query, b"");
        put_number(&mut query, 2);
        put_number(&mut query, 0);
        put_text(&mut query, sql.as_bytes());
        put_end(&mut query);
        self.output.write_all(&query)?;
        loop {
            match self.number()? {
                1 => return self.header(),
                packet => self.aside(packet)?,
            }
        }
    }

    /// Sends what [`put_block`] wrote.
    pub(crate) fn send(&mut self, blocks: &[u8]) -> Result<()> {
        for chunk in blocks.chunks(CHUNK) {
            self.output.write_all(chunk)?;
        }
        Ok(())
    }

    /// Ends the INSERT and waits for the server's confirmation.
    pub(crate) fn end(&mut self) -> Result<()> {
        let mut end = Vec::new();
        put_end(&mut end);
        self.output.write_all(&end)?;
        loop {
            match self.number()? {
                5 => return Ok(()),
                packet => self.aside(packet)?,
            }
        }
    }

    /// A block of no rows that tells the columns.
    fn header(&mut self) -> Result<()> {
        self.text()?;
        self.skip(BLOCK_INFO.len())?;
        let columns = self.number()?;
        self.number()?;
        for _ in 0..columns {
            self.text()?;
            self.text()?;
        }
        Ok(())
    }

    /// A packet that is of no use here.
    fn aside(&mut self, packet: u64) -> Result<()> {
        match packet {
            2 => self.exception(),
            // Progress.
            3 => self.numbers(3),
            // Facts about the blocks.
            6 => {
                self.numbers(3)?;
                self.skip(1)?;
                self.number()?;
                self.skip(1)
            }
            // The table's columns.
            11 => self.text().and_then(|_| self.text()).map(drop),
            _ => bail!("unexpected packet {packet}"),
        }
    }

    fn exception<T>(&mut self) -> Result<T> {
        self.skip(4)?;
        let (name, message) = (self.text()?, self.text()?);
        bail!("{name}: {message}")
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn skip(&mut self, bytes: usize) -> Result<()> {
        (0..bytes).try_for_each(|_| self.byte().map(drop))
    }

    fn number(&mut self) -> Result<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(number);
            }
            shift += 7;
            if shift > 63 {
                bail!("a number longer than 64 bits");
            }
        }
    }

    fn numbers(&mut self, count: usize) -> Result<()> {
        (0..count).try_for_each(|_| self.number().map(drop))
    }

    fn text(&mut self) -> Result<String> {
        let mut bytes = vec![0; usize::try_from(self.number()?)?];
        self.input.read_exact(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[inline]
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(number.to_le_bytes()[0] | 128);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

#[inline]
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// An empty block, which ends what is sent.
fn put_end(out: &mut Vec<u8>) {
    put_number(out, 2);
    put_text(out, b"");
    out.extend_from_slice(&BLOCK_INFO);
    out.extend_from_slice(&[0, 0]);
}

/// Appends a data packet with one block. `types` are those of the table's columns.
pub(crate) fn put_block(out: &mut Vec<u8>, batch: &RecordBatch, types: &[&str]) -> Result<()> {
    put_number(out, 2);
    put_text(out, b"");
    out.extend_from_slice(&BLOCK_INFO);
    put_native(out, batch, types)
}

/// Appends one block as in a file of the format Native.
pub(crate) fn put_native(out: &mut Vec<u8>, batch: &RecordBatch, types: &[&str]) -> Result<()> {
    put_number(out, batch.num_columns() as u64);
    put_number(out, batch.num_rows() as u64);
    for ((field, column), type_text) in batch.schema().fields().iter().zip(batch.columns()).zip(types) {
        put_text(out, field.name().as_bytes());
        put_text(out, type_text.as_bytes());
        put_column(out, column, field.is_nullable())?;
    }
    Ok(())
}

fn put_column(out: &mut Vec<u8>, column: &dyn Array, nullable: bool) -> Result<()> {
    if nullable {
        match column.nulls() {
            Some(nulls) => out.extend(nulls.iter().map(|valid| u8::from(!valid))),
            None => out.resize(out.len() + column.len(), 0),
        }
    }
    match column.data_type() {
        DataType::UInt64 => put_values::<UInt64Type>(out, column),
        DataType::Int32 => put_values::<Int32Type>(out, column),
        DataType::Int64 => put_values::<Int64Type>(out, column),
        DataType::Float64 => put_values::<Float64Type>(out, column),
        DataType::Timestamp(TimeUnit::Millisecond, _) => put_values::<TimestampMillisecondType>(out, column),
        DataType::Timestamp(TimeUnit::Second, _) => {
            let values = column.as_primitive::<TimestampSecondType>().values();
            out.reserve(values.len() * 4);
            // The lower half of a time that fits is the time.
            out.extend(values.iter().flat_map(|seconds| lower::<8, 4>(seconds.to_le_bytes())));
        }
        DataType::Decimal128(..) => {
            let values = column.as_primitive::<Decimal128Type>().values();
            out.reserve(values.len() * 8);
            out.extend(values.iter().flat_map(|units| lower::<16, 8>(units.to_le_bytes())));
        }
        DataType::Utf8 => put_texts(out, column.as_string()),
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            for end in &lists.value_offsets()[1..] {
                out.extend_from_slice(&u64::try_from(*end)?.to_le_bytes());
            }
            put_column(out, lists.values(), false)?;
        }
        other => bail!("the benches have no column of type {other}"),
    }
    Ok(())
}

fn put_values<T: ArrowPrimitiveType>(out: &mut Vec<u8>, column: &dyn Array) {
    out.extend_from_slice(column.as_primitive::<T>().values().inner().as_slice());
}

fn put_texts(out: &mut Vec<u8>, texts: &StringArray) {
    let data = texts.value_data();
    out.reserve(data.len() + 2 * texts.len());
    let mut ends = texts.value_offsets().iter().filter_map(|end| usize::try_from(*end).ok());
    let mut begin = ends.next().unwrap_or(0);
    for end in ends {
        put_text(out, &data[begin..end]);
        begin = end;
    }
}

fn lower<const WIDE: usize, const NARROW: usize>(bytes: [u8; WIDE]) -> [u8; NARROW] {
    let mut lower = [0; NARROW];
    lower.copy_from_slice(&bytes[..NARROW]);
    lower
}
