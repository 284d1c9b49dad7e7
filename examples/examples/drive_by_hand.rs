//! A host that drives source and sink itself: no runner, offsets in a place of its own.
//!
//! Uses the in-memory source and sink; any other pair has the same methods.

use connector_core::{
    ChangeBatch, Checkpoint, Result, Sink, SinkWriter, Source, SourceEvent, SourceReader, TableId,
    WriterContext,
    arrow::{
        array::{RecordBatch, UInt64Array},
        datatypes::{DataType, Field, Schema},
    },
    memory::{MemorySink, MemorySource},
};

#[tokio::main]
async fn main() -> Result<()> {
    let (source, sink) = (filled_source(), MemorySink::new());
    // What the host stored last time; this one starts with nothing.
    let mut stored: Option<Checkpoint> = None;

    for run in 1..=2 {
        let splits = match &stored {
            Some(checkpoint) => checkpoint.splits(source.connector())?,
            None => source.discover(&[]).await?,
        };
        let mut reader = source.open(splits).await?;
        let mut writer = sink.open(WriterContext::default()).await?;
        let mut batches = 0;
        while let Some(event) = reader.next().await? {
            match event {
                SourceEvent::Batch { table, rows, .. } => {
                    writer.write(&table, rows).await?;
                    batches += 1;
                }
                SourceEvent::Schema { change, .. } => writer.apply(&change).await?,
                _ => {}
            }
            if batches == 3 {
                break;
            }
        }
        // Flush, store, acknowledge: in this order nothing can be lost.
        let flushed = writer.flush(None).await?;
        let splits = reader.splits();
        stored = Some(Checkpoint::new(source.connector(), &splits)?);
        reader.acknowledge(&splits).await?;
        reader.close().await?;
        writer.close().await?;
        println!("run {run}: {} rows durable", flushed.rows);
    }
    Ok(())
}

fn filled_source() -> MemorySource {
    let source = MemorySource::bounded();
    let schema = std::sync::Arc::new(Schema::new(vec![Field::new("id", DataType::UInt64, false)]));
    for start in [0u64, 10, 20, 30, 40] {
        let ids = UInt64Array::from_iter_values(start..start + 10);
        if let Ok(rows) = RecordBatch::try_new(std::sync::Arc::clone(&schema), vec![std::sync::Arc::new(ids)])
        {
            source.push("split-0", TableId::new("app", "orders"), ChangeBatch::append(rows));
        }
    }
    source
}
