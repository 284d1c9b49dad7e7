//! What the server writes.

use std::sync::Arc;

use connector_bytehouse_common::{
    native::{BlockEncoder, ColumnDef, EncodeRules},
    wire::{
        Compression,
        frame::FrameWriter,
        io::put_varuint,
        protocol::{
            BlockInfo, ServerException, ServerPacket, put_block_info, put_data_prefix, put_exception,
        },
    },
};
use connector_core::arrow::{array::RecordBatch, datatypes::Schema};

use crate::exception::{Exception, Result, exception};

/// Writes blocks of results and headers.
#[derive(Debug)]
pub(super) struct BlockWriter {
    frames: Option<FrameWriter>,
    content: Vec<u8>,
}

impl BlockWriter {
    /// `method` is the setting `network_compression_method`; blocks are compressed where the query says so.
    pub(super) fn new(compressed: bool, method: Option<&str>) -> Result<Self> {
        let frames = match compressed {
            false => None,
            true => {
                let method = method.unwrap_or("LZ4").to_ascii_uppercase();
                let compression = match method.as_str() {
                    "LZ4" | "LZ4HC" | "" => Compression::Lz4,
                    "ZSTD" => Compression::Zstd,
                    "NONE" => Compression::None,
                    _ => return Err(exception!(BAD_ARGUMENTS, "Unknown codec family code: {method}")),
                };
                Some(
                    FrameWriter::new(compression)
                        .map_err(|e| exception!(BAD_ARGUMENTS, "{}", e.message()))?,
                )
            }
        };
        Ok(Self { frames, content: Vec::new() })
    }

    /// Appends a data packet with a block.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, columns: &[ColumnDef], rows: &RecordBatch) -> Result<()> {
        put_data_prefix(out, ServerPacket::Data.id(), "");
        self.content.clear();
        put_block_info(&mut self.content, BlockInfo::default());
        encode(&mut self.content, columns, rows)?;
        match &mut self.frames {
            None => out.extend_from_slice(&self.content),
            Some(frames) => frames.put(out, &self.content).map_err(|e| exception!(LOGICAL_ERROR, "{e}"))?,
        }
        Ok(())
    }
}

/// Appends a block, column by column: results may have two columns of one name, which an encoder refuses.
fn encode(out: &mut Vec<u8>, columns: &[ColumnDef], rows: &RecordBatch) -> Result<()> {
    put_varuint(out, columns.len() as u64);
    put_varuint(out, rows.num_rows() as u64);
    let mut head = Vec::new();
    put_varuint(&mut head, 1);
    put_varuint(&mut head, rows.num_rows() as u64);
    let mut block = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let one = rows.project(&[i]).map_err(|e| exception!(LOGICAL_ERROR, "{e}"))?;
        let field = one.schema().field(0).clone().with_name(&column.name);
        let schema = Arc::new(Schema::new(vec![field]));
        let one = RecordBatch::try_new(Arc::clone(&schema), one.columns().to_vec())
            .map_err(|e| exception!(LOGICAL_ERROR, "{e}"))?;
        let encoder = BlockEncoder::new(&schema, std::slice::from_ref(column), &EncodeRules::default())
            .map_err(|e| exception!(NOT_IMPLEMENTED, "the double cannot send column {}: {e}", column.name))?;
        block.clear();
        encoder
            .encode(&one, &mut block)
            .map_err(|e| exception!(LOGICAL_ERROR, "the double cannot send column {}: {e}", column.name))?;
        out.extend_from_slice(block.get(head.len()..).unwrap_or(&[]));
    }
    Ok(())
}

/// Appends an exception packet.
pub(super) fn put_error(out: &mut Vec<u8>, error: &Exception) {
    let exception = ServerException {
        code: error.code(),
        name: error.name().to_owned(),
        message: error.display_text(),
        stack_trace: String::new(),
    };
    put_exception(out, &exception);
}
