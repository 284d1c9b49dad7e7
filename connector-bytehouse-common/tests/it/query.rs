use std::time::Duration;

use connector_bytehouse_common::{
    error::{Retry, retry_rule, server_code},
    wire::{
        Client, ClientOptions, Compression, Settings,
        protocol::{self, ClientPacket, ProfileInfo, Progress, ServerPacket, TableColumns},
    },
};
use connector_core::{
    ErrorKind, Result, Secret,
    arrow::{array::AsArray, datatypes::UInt64Type},
};
use tokio::time::{sleep, timeout};

use crate::peer::{Peer, block_packet, end_of_stream, exception, numbers, pair};

const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

/// Runs a query and collects its numbers.
async fn select(client: &mut Client, sql: &str) -> Result<Vec<u64>> {
    let mut stream = client.query(sql, &Settings::new()).await?;
    let mut out = Vec::new();
    while let Some(block) = stream.next_block().await? {
        out.extend_from_slice(block.rows.column(0).as_primitive::<UInt64Type>().values());
    }
    Ok(out)
}

/// All that a server of this revision may send for a query, in a likely order.
fn answer(revision: u64, compression: Compression) -> Vec<u8> {
    let mut out = Vec::new();
    if revision >= 54451 {
        protocol::put_timezone_update(&mut out, "Asia/Shanghai");
    }
    let block = |out: &mut Vec<u8>, packet, block: &[u8]| {
        out.extend(block_packet(packet, block, compression));
    };
    block(&mut out, ServerPacket::Data, &numbers(&[]));
    protocol::put_progress(
        &mut out,
        &Progress { read_rows: 5, written_rows: 2, ..Progress::default() },
        revision,
    );
    block(&mut out, ServerPacket::Data, &numbers(&[1, 2, 3]));
    if revision >= 54406 {
        out.extend(block_packet(ServerPacket::Log, &numbers(&[9]), Compression::None));
    }
    if revision >= 54410 {
        let columns = TableColumns { table: String::new(), description: "columns format version: 1".into() };
        protocol::put_table_columns(&mut out, &columns);
    }
    if revision >= 54450 {
        out.extend([14, 2, b'{', b'}']);
    }
    block(&mut out, ServerPacket::Data, &numbers(&[4]));
    protocol::put_progress(&mut out, &Progress { read_rows: 6, ..Progress::default() }, revision);
    block(&mut out, ServerPacket::Totals, &numbers(&[10]));
    block(&mut out, ServerPacket::Extremes, &numbers(&[1, 4]));
    protocol::put_profile_info(&mut out, &ProfileInfo { rows: 4, blocks: 2, ..ProfileInfo::default() });
    block(&mut out, ServerPacket::Data, &[0, 0]);
    out.extend(end_of_stream());
    out
}

#[tokio::test]
async fn every_packet_at_every_revision_and_compression() {
    for compression in ALL {
        for revision in
            [54058, 54060, 54406, 54410, 54419, 54420, 54428, 54429, 54441, 54442, 54448, 54449, 54450, 54451]
        {
            pair(
                async |peer| {
                    peer.compression = compression;
                    peer.hello(revision).await;
                    let query = peer.query().await;
                    assert_eq!((query.sql.as_str(), query.stage), ("SELECT n", 2));
                    assert_eq!(query.compression, compression != Compression::None);
                    assert_eq!(query.settings.get("virtual_warehouse"), Some("vw-7"));
                    assert_eq!(query.settings.get("max_threads"), Some("2"));
                    let zstd = (compression == Compression::Zstd).then_some("zstd");
                    assert_eq!(query.settings.get("network_compression_method"), zstd);
                    assert_eq!((query.info.kind, query.info.client_name.as_str()), (1, "connectors-rs"));
                    assert_eq!(query.query_id.len(), 36);
                    peer.send(&answer(revision, compression)).await;
                    assert!(peer.closed_between_packets().await);
                },
                async |mut options| {
                    options.revision = 54451;
                    options.compression = compression;
                    options.settings.set("virtual_warehouse", "vw-7").set("max_threads", 8);
                    let mut client = Client::connect(options).await.unwrap();
                    let mut stream =
                        client.query("SELECT n", &Settings::new().with("max_threads", 2)).await.unwrap();
                    let mut seen = Vec::new();
                    while let Some(block) = stream.next_block().await.unwrap() {
                        seen.push(block.rows.num_rows());
                    }
                    assert_eq!(seen, [3, 1]);
                    assert_eq!(stream.next_block().await.unwrap(), None);
                    assert_eq!(stream.header().len(), 1);
                    assert_eq!(stream.totals().unwrap().rows.num_rows(), 1);
                    assert_eq!(stream.extremes().unwrap().rows.num_rows(), 2);
                    let summary = stream.summary();
                    assert_eq!(summary.progress.read_rows, 11);
                    assert_eq!(summary.progress.written_rows, if revision >= 54420 { 2 } else { 0 });
                    assert_eq!(summary.profile.unwrap().rows, 4);
                    drop(stream);
                    assert!(client.is_usable());
                },
            )
            .await;
        }
    }
}

#[tokio::test]
async fn profile_events_of_a_newer_server_are_blocks() {
    pair(
        async |peer| {
            peer.hello(54488).await;
            peer.query().await;
            peer.send(&block_packet(ServerPacket::ProfileEvents, &numbers(&[7]), Compression::None)).await;
            peer.send(&end_of_stream()).await;
        },
        async |mut options| {
            options.revision = 54451;
            let mut client = Client::connect(options).await.unwrap();
            client.execute("SELECT 1", &Settings::new()).await.unwrap();
        },
    )
    .await;
}

/// The query packet, byte by byte, where settings are typed and where they are text.
#[tokio::test]
async fn query_as_bytes() {
    let info = |rest: &str| format!("\u{1}\0\0\u{9}0.0.0.0:0\u{1}\0\0\u{d}connectors-rs\0\u{1}REV{rest}");
    for (revision, rest, settings, secret) in [
        (54059, "", "\u{b}max_threads\u{4}\u{1}l\u{1}x\0", ""),
        (54060, "\0", "\u{b}max_threads\u{4}\u{1}l\u{1}x\0", ""),
        (54401, "\0\0", "\u{b}max_threads\u{4}\u{1}l\u{1}x\0", ""),
        (54428, "\0\0", "\u{b}max_threads\u{4}\u{1}l\u{1}x\0", ""),
        (54429, "\0\0", "\u{b}max_threads\u{1}\u{1}4\u{1}l\u{1}\u{1}x\0", ""),
        (54441, "\0\0", "\u{b}max_threads\u{1}\u{1}4\u{1}l\u{1}\u{1}x\0", "\0"),
        (54442, "\0\0\0", "\u{b}max_threads\u{1}\u{1}4\u{1}l\u{1}\u{1}x\0", "\0"),
        (54448, "\0\0\0\0", "\u{b}max_threads\u{1}\u{1}4\u{1}l\u{1}\u{1}x\0", "\0"),
    ] {
        let text =
            format!("\u{1}\u{2}id{}{settings}{secret}\u{2}\0\u{8}SELECT 1\u{2}\0\u{1}\0\u{2}", info(rest));
        let mut expected = Vec::new();
        let (before, after) = text.split_once("REV").unwrap();
        expected.extend_from_slice(before.as_bytes());
        connector_bytehouse_common::wire::io::put_varuint(&mut expected, revision);
        expected.extend_from_slice(after.as_bytes());
        expected.extend_from_slice(&[255, 255, 255, 255, 0, 0, 0]);
        pair(
            async |peer| {
                peer.hello(60000).await;
                for (at, byte) in expected.iter().enumerate() {
                    let seen = connector_bytehouse_common::wire::io::read_u8(&mut peer.source).await.unwrap();
                    assert_eq!(seen, *byte, "byte {at} at revision {revision}");
                }
                peer.send(&end_of_stream()).await;
                assert!(peer.closed_between_packets().await);
            },
            async |mut options| {
                options.revision = revision;
                let mut client = Client::connect(options).await.unwrap();
                let settings = Settings::new().with("max_threads", 4).with("l", "x");
                let error = client.begin_insert("SELECT 1", &settings, Some("id")).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(client.is_usable());
            },
        )
        .await;
    }
}

async fn cut_answer(compression: Compression, bytes: &[u8]) -> Result<Vec<u64>> {
    pair(
        async |peer| {
            peer.compression = compression;
            peer.hello(54451).await;
            peer.query().await;
            peer.send(bytes).await;
        },
        async |mut options| {
            options.revision = 54451;
            options.compression = compression;
            select(&mut Client::connect(options).await.unwrap(), "SELECT n").await
        },
    )
    .await
}

#[tokio::test]
async fn an_answer_cut_at_any_byte_is_never_a_result() {
    for compression in [Compression::None, Compression::Lz4] {
        let bytes = answer(54451, compression);
        for length in 0..bytes.len() {
            let error = cut_answer(compression, &bytes[..length]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{length}: {error}");
            assert!(error.is_transient());
            assert_eq!(retry_rule(&error), Retry::NewConnection);
            assert!(error.context_value("query_id").is_some());
        }
        assert_eq!(cut_answer(compression, &bytes).await.unwrap(), [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn an_answer_byte_by_byte_is_the_same_answer() {
    pair(
        async |peer| {
            peer.compression = Compression::Lz4;
            peer.hello(54448).await;
            peer.query().await;
            for byte in answer(54448, Compression::Lz4) {
                peer.send(&[byte]).await;
                tokio::task::yield_now().await;
            }
        },
        async |mut options| {
            options.compression = Compression::Lz4;
            let mut client = Client::connect(options).await.unwrap();
            assert_eq!(select(&mut client, "SELECT n").await.unwrap(), [1, 2, 3, 4]);
        },
    )
    .await;
}

#[tokio::test]
async fn an_unknown_packet_names_its_id_and_ends_the_connection() {
    for (id, announced) in
        [(16, 54451), (300, 54448), (9, 54448), (12, 54448), (13, 54448), (14, 54448), (15, 54450)]
    {
        pair(
            async |peer| {
                peer.hello(54451).await;
                peer.query().await;
                let mut out = Vec::new();
                connector_bytehouse_common::wire::io::put_varuint(&mut out, id);
                peer.send(&out).await;
                peer.try_send(&end_of_stream()).await;
            },
            async |mut options| {
                options.revision = announced;
                let mut client = Client::connect(options).await.unwrap();
                let error = select(&mut client, "SELECT n").await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unexpected);
                assert!(error.message().contains(&format!("packet {id}")), "{error}");
                assert!(!client.is_usable());
                assert_eq!(select(&mut client, "SELECT n").await.unwrap_err().kind(), ErrorKind::Closed);
            },
        )
        .await;
    }
}

#[tokio::test]
async fn damaged_frames_are_errors() {
    let mut bytes = answer(54448, Compression::Lz4);
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    let error = cut_answer(Compression::Lz4, &bytes).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
}

#[tokio::test]
async fn an_exception_ends_the_query_and_not_the_connection() {
    pair(
        async |peer| {
            peer.hello(54448).await;
            peer.query().await;
            let mut out = block_packet(ServerPacket::Data, &numbers(&[1]), Compression::None);
            out.extend(exception(241, "Memory limit exceeded near hunter2 and s3cr3t"));
            peer.send(&out).await;
            peer.query().await;
            peer.send(&block_packet(ServerPacket::Data, &numbers(&[8]), Compression::None)).await;
            peer.send(&end_of_stream()).await;
        },
        async |mut options| {
            options.password = Secret::new("hunter2");
            options.settings.set("s3_access_key_secret", "s3cr3t");
            let mut client = Client::connect(options).await.unwrap();
            let error = select(&mut client, "SELECT n").await.unwrap_err();
            assert_eq!((server_code(&error), retry_rule(&error)), (Some(241), Retry::HalveBatch));
            assert!(error.message().contains("near *** and ***"), "{error}");
            assert!(client.is_usable());
            assert_eq!(select(&mut client, "SELECT n").await.unwrap(), [8]);
        },
    )
    .await;
}

#[tokio::test]
async fn a_read_that_is_dropped_half_way_closes_the_connection() {
    pair(
        async |peer| {
            peer.hello(54448).await;
            peer.query().await;
            let bytes = answer(54448, Compression::None);
            peer.send(&bytes[..bytes.len() / 2]).await;
            assert!(peer.packet().await.is_err(), "the client went away");
        },
        async |options| {
            let mut client = Client::connect(options).await.unwrap();
            let read = timeout(Duration::from_millis(50), select(&mut client, "SELECT n")).await;
            assert!(read.is_err());
            assert!(!client.is_usable());
            assert_eq!(client.ping().await.unwrap_err().kind(), ErrorKind::Closed);
        },
    )
    .await;
}

#[tokio::test]
async fn a_result_that_is_dropped_closes_the_connection_and_stops_the_query() {
    pair(
        async |peer| {
            peer.hello(54448).await;
            peer.query().await;
            peer.send(&block_packet(ServerPacket::Data, &numbers(&[1]), Compression::None)).await;
            assert_eq!(peer.packet().await.unwrap(), ClientPacket::Cancel);
            assert!(peer.closed_between_packets().await);
        },
        async |options| {
            let mut client = Client::connect(options).await.unwrap();
            let mut stream = client.query("SELECT n", &Settings::new()).await.unwrap();
            assert!(stream.next_block().await.unwrap().is_some());
            drop(stream);
            assert!(!client.is_usable());
        },
    )
    .await;
}

async fn slow(change: fn(&mut ClientOptions), option: &str, expect: ClientPacket) {
    pair(
        async |peer| {
            peer.hello(54448).await;
            peer.query().await;
            loop {
                let mut progress = Vec::new();
                protocol::put_progress(&mut progress, &Progress::default(), 54448);
                if option == "query_timeout" {
                    peer.try_send(&progress).await;
                }
                if let Ok(packet) = timeout(Duration::from_millis(20), peer.packet()).await {
                    assert_eq!(packet.unwrap(), expect);
                    return;
                }
            }
        },
        async |mut options| {
            change(&mut options);
            let mut client = Client::connect(options).await.unwrap();
            let error = select(&mut client, "SELECT n").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            assert!(error.is_transient() && error.message().contains(option), "{error}");
            assert!(!client.is_usable());
        },
    )
    .await;
}

#[tokio::test]
async fn a_query_that_takes_too_long_is_cancelled() {
    slow(
        |options| options.query_timeout = Some(Duration::from_millis(200)),
        "query_timeout",
        ClientPacket::Cancel,
    )
    .await;
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    slow(|options| options.read_timeout = Duration::from_millis(200), "read_timeout", ClientPacket::Cancel)
        .await;
}

async fn cancelled(finish: impl AsyncFnOnce(&mut Peer), usable: bool) {
    pair(
        async |peer| {
            peer.hello(54448).await;
            peer.query().await;
            peer.send(&block_packet(ServerPacket::Data, &numbers(&[1]), Compression::None)).await;
            assert_eq!(peer.packet().await.unwrap(), ClientPacket::Cancel);
            finish(peer).await;
        },
        async |mut options| {
            options.ping_timeout = Duration::from_millis(300);
            let mut client = Client::connect(options).await.unwrap();
            let mut stream = client.query("SELECT n", &Settings::new()).await.unwrap();
            assert!(stream.next_block().await.unwrap().is_some());
            stream.cancel().await.unwrap();
            assert_eq!(client.is_usable(), usable);
            if usable {
                client.ping().await.unwrap();
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_cancelled_query_leaves_the_connection_if_the_server_stops_in_time() {
    let pong = async |peer: &mut Peer| {
        assert_eq!(peer.packet().await.unwrap(), ClientPacket::Ping);
        peer.send(&[4]).await;
    };
    cancelled(
        async |peer| {
            peer.send(&block_packet(ServerPacket::Data, &numbers(&[2]), Compression::None)).await;
            peer.send(&end_of_stream()).await;
            pong(peer).await;
        },
        true,
    )
    .await;
    cancelled(
        async |peer| {
            peer.send(&exception(394, "Query was cancelled")).await;
            pong(peer).await;
        },
        true,
    )
    .await;
    cancelled(async |peer| assert!(peer.packet().await.is_err()), false).await;
}

#[tokio::test]
async fn pings_and_lost_connections() {
    pair(
        async |peer| {
            peer.hello(54448).await;
            assert_eq!(peer.packet().await.unwrap(), ClientPacket::Ping);
            let mut out = Vec::new();
            protocol::put_progress(&mut out, &Progress::default(), 54448);
            protocol::put_pong(&mut out);
            peer.send(&out).await;
        },
        async |options| {
            let mut client = Client::connect(options).await.unwrap();
            client.ping().await.unwrap();
            // The script has ended, so the connection does.
            while client.is_usable() {
                sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(client.ping().await.unwrap_err().kind(), ErrorKind::Closed);
        },
    )
    .await;
    pair(
        async |peer| {
            peer.hello(54448).await;
            assert!(peer.closed_between_packets().await);
        },
        async |mut options| {
            options.idle_timeout = Duration::ZERO;
            let mut client = Client::connect(options).await.unwrap();
            sleep(Duration::from_millis(1)).await;
            assert!(!client.is_usable(), "it lay unused for too long");
        },
    )
    .await;
}

#[tokio::test]
async fn what_a_server_says_before_it_goes_is_told() {
    pair(
        async |peer| {
            peer.hello(54448).await;
            peer.send(&exception(236, "Server shuts down")).await;
        },
        async |options| {
            let mut client = Client::connect(options).await.unwrap();
            // Sooner or later the good-bye is there before our query is.
            sleep(Duration::from_millis(50)).await;
            let error = select(&mut client, "SELECT n").await.unwrap_err();
            assert_eq!(server_code(&error), Some(236), "{error}");
        },
    )
    .await;
}
