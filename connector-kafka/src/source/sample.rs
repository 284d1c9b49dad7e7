//! Columns out of the first records of a topic.

use connector_core::{
    Error, ErrorKind, Result, Source as _, SourceEvent, SourceReader as _, arrow::array::AsArray as _,
};

use super::{KafkaSource, KafkaSourceBuilder};
use crate::{
    format::{Format, Json, Raw},
    options::StartupMode,
};

impl KafkaSourceBuilder {
    /// Takes the columns out of the topics' first records, `records` of them at most, by the rules of
    /// [`Json::infer`]: for when nobody knows them. Reads what is there and commits nothing.
    ///
    /// Keep the columns that came out (`table_schema`), and give them at the next start: another sample may say otherwise.
    ///
    /// **Cancel-safe**: nothing is left behind.
    ///
    /// # Errors
    /// `DataInvalid` when the topics hold no record, or one of the sample is not a JSON object; `OptionInvalid` when
    /// another format or a schema was given, or an option is wrong; else as [`KafkaSource`]'s `discover` and `next`.
    pub async fn infer_schema(self, records: usize) -> Result<Self> {
        let probe = self.probe(records)?;
        let mut reader = probe.open(probe.discover(&[]).await?).await?;
        let mut sample: Vec<Vec<u8>> = Vec::new();
        while sample.len() < records {
            match reader.next().await? {
                Some(SourceEvent::Batch { rows, .. }) => {
                    let values = rows.rows().column(0).as_binary::<i32>().iter().flatten();
                    sample.extend(values.take(records - sample.len()).map(<[u8]>::to_vec));
                }
                Some(_) => {}
                None => break,
            }
        }
        reader.close().await?;
        let json = Json::infer(sample.iter().map(Vec::as_slice))?;
        let columns: Vec<String> = json
            .table_schema()
            .columns
            .fields()
            .iter()
            .map(|f| format!("{} {}", f.name(), f.data_type()))
            .collect();
        tracing::info!(
            records = sample.len(),
            columns = columns.join(", "),
            "took the columns out of a sample"
        );
        Ok(self.format(Format::Json(json)))
    }

    /// A source of the first records as they are.
    fn probe(&self, records: usize) -> Result<KafkaSource> {
        self.expect_no_columns()?;
        let options = self.options()?;
        let mut probe = KafkaSource::builder()
            .bootstrap_servers(options.bootstrap_servers.clone())
            .topics(options.topics.clone())
            .startup_mode(StartupMode::Earliest)
            .bounded()
            .max_batch_rows(u32::try_from(records.clamp(1, 10_000)).unwrap_or(1))
            .request_timeout(options.request_timeout)
            .format(Raw::default());
        probe = probe.same_client(self);
        probe.build()
    }
}

/// The error for columns that are there already.
pub(super) fn columns_are_given() -> Error {
    Error::new(
        ErrorKind::OptionInvalid,
        "a format or schema is given already; leave it out where it is to be inferred",
    )
    .with_operation("kafka.infer_schema")
}
