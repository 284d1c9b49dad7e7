//! A tablet server that is killed and started again while rows flow both ways.

use std::{collections::HashMap, sync::Arc, time::Duration};

use connector_core::{
    ChangeBatch, SinkWriter, Source, SourceEvent, SourceReader,
    arrow::{array::AsArray, datatypes::Int64Type},
};
use connector_tests::OwnedService;

use crate::fluss::{Site, log_table, next, rows};

/// With 1,000,000 it takes two minutes on two processors, and shows no more.
const ROWS: i64 = 300_000;
const BATCH: i64 = 10_000;

/// Writes all rows, beginning anew behind the last flush when one fails. Returns how many rows went out again.
async fn write_all(site: Arc<Site>) -> i64 {
    let options = [("sink.flush-timeout", "15s"), ("client.request-timeout", "5s")];
    let (mut flushed, mut repeated) = (0, 0);
    while flushed < ROWS {
        let Ok(mut writer) =
            connector_core::Sink::open(&site.sink("t", &options), connector_core::WriterContext::default())
                .await
        else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let mut written = flushed;
        let failed = loop {
            if written == ROWS {
                break false;
            }
            let batch = ChangeBatch::append(rows(written..written + BATCH, 0));
            let wrote = writer.write(&site.id("t"), batch).await;
            written += BATCH;
            if wrote.is_err() {
                break true;
            }
            if written % (5 * BATCH) == 0 {
                if writer.flush(None).await.is_err() {
                    break true;
                }
                flushed = written;
            }
        };
        if failed {
            repeated += written - flushed;
        }
        writer.close().await.ok();
    }
    repeated
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_is_lost_when_a_tablet_server_is_killed_while_rows_flow_both_ways() {
    let Some(cluster) = OwnedService::start_fluss(3).await else { return };
    let fluss = cluster.fluss();
    let site = Arc::new(Site::on(fluss.clone(), fluss.create_database().await));
    site.create("t", log_table(), &[("bucket.num", "3")]).await;
    let source = site.source("t", &[("scan.startup.mode", "earliest"), ("client.request-timeout", "5s")]);
    let splits = source.discover(&[]).await.unwrap();
    let mut reader = source.open(splits).await.unwrap();
    let mut writing = tokio::spawn(write_all(Arc::clone(&site)));
    let mut times: HashMap<i64, u32> = HashMap::with_capacity(usize::try_from(ROWS).unwrap());
    let (mut killed, mut repeated) = (false, None);
    while times.len() < usize::try_from(ROWS).unwrap() || repeated.is_none() {
        tokio::select! {
            event = next(&mut reader), if times.len() < usize::try_from(ROWS).unwrap() => {
                if let Some(SourceEvent::Batch { rows, .. }) = event {
                    for id in rows.rows().column(0).as_primitive::<Int64Type>().values() {
                        *times.entry(*id).or_default() += 1;
                    }
                }
            }
            done = &mut writing, if repeated.is_none() => repeated = Some(done.unwrap()),
        }
        if !killed && times.len() > 40_000 {
            killed = true;
            cluster.kill_tablet(0).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            cluster.start_missing().await;
        }
    }
    assert!(killed, "the tablet server was killed in the middle");
    let twice: i64 = times.values().map(|count| i64::from(*count) - 1).sum();
    let repeated = repeated.unwrap();
    assert!(twice <= repeated, "{twice} rows came again, of {repeated} that went out again");
    assert!(times.keys().all(|id| (0..ROWS).contains(id)));
    reader.close().await.unwrap();
}
