#![no_main]

use connector_bytehouse_common::{
    native::{BlockEncoder, EncodeRules, ReadOptions, read_block},
    wire::io::{ByteSource, SliceSource},
};
use connector_core::Result;
use libfuzzer_sys::fuzz_target;

/// Hands its bytes out a few at a time.
struct Drip<'a> {
    bytes: &'a [u8],
    here: usize,
}

impl ByteSource for Drip<'_> {
    fn buffered(&self) -> &[u8] {
        &self.bytes[..self.here]
    }

    fn consume(&mut self, count: usize) {
        self.bytes = &self.bytes[count..];
        self.here -= count;
    }

    async fn fill(&mut self) -> Result<()> {
        if self.here == self.bytes.len() {
            return SliceSource(&[]).fill().await;
        }
        self.here = self.bytes.len().min(self.here + 7);
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        for strings_as_binary in [false, true] {
            let mut options = ReadOptions::default();
            options.strings_as_binary = strings_as_binary;
            options.max_bytes = 16 << 20;
            options.max_rows = 1 << 16;
            let whole = read_block(&mut SliceSource(bytes), &options).await;
            let pieces = read_block(&mut Drip { bytes, here: 0 }, &options).await;
            assert_eq!(whole.is_ok(), pieces.is_ok(), "pieces change nothing");
            let Ok(block) = whole else { continue };
            assert_eq!(format!("{block:?}"), format!("{:?}", pieces.expect("as the whole")));
            // What was read can mostly be written; where it can, it reads back as the same.
            let Ok(encoder) =
                BlockEncoder::new(&block.rows.schema(), &block.columns, &EncodeRules::default())
            else {
                continue;
            };
            let mut again = Vec::new();
            if encoder.encode(&block.rows, &mut again).is_ok() {
                let read = read_block(&mut SliceSource(&again), &options).await.expect("our own block");
                assert_eq!(format!("{:?}", read.rows), format!("{:?}", block.rows));
            }
        }
    });
});
