use std::time::Duration;

use connector_bytehouse_common::{
    error::{outcome_unknown, server_code},
    wire::{
        Client, ClientOptions, Compression, InsertSummary, Settings,
        io::ByteSource,
        protocol::{self, ClientPacket, Progress, ServerPacket, TableColumns},
    },
};
use connector_core::{
    Error, ErrorKind, Result,
    arrow::{array::AsArray, datatypes::UInt64Type},
};
use tokio::{sync::Notify, time::timeout};

use crate::peer::{Peer, block_packet, end_of_stream, exception, numbers, pair};

const SQL: &str = "INSERT INTO t (n) VALUES";

/// Login, query, header.
async fn open(peer: &mut Peer) {
    peer.hello(54448).await;
    assert_eq!(peer.query().await.sql, SQL);
    let mut out = Vec::new();
    let columns = TableColumns { table: String::new(), description: "columns format version: 1".into() };
    protocol::put_table_columns(&mut out, &columns);
    out.extend(block_packet(ServerPacket::Data, &numbers(&[]), peer.compression));
    peer.send(&out).await;
}

/// Takes blocks up to the empty one.
async fn take_all(peer: &mut Peer) -> Result<Vec<u64>> {
    let mut taken = Vec::new();
    loop {
        let block = peer.data().await?;
        if block.columns.is_empty() {
            return Ok(taken);
        }
        taken.extend_from_slice(block.rows.column(0).as_primitive::<UInt64Type>().values());
    }
}

async fn insert(options: ClientOptions, blocks: &[Vec<u8>]) -> Result<InsertSummary> {
    let mut client = Client::connect(options).await?;
    let mut insert = client.begin_insert(SQL, &Settings::new(), Some("q-1")).await?;
    for block in blocks {
        insert.send(block).await?;
    }
    insert.finish().await
}

#[tokio::test]
async fn blocks_arrive_and_the_end_of_stream_confirms_them() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let many: Vec<u64> = (0..400_000).collect();
        pair(
            async |peer| {
                peer.compression = compression;
                open(peer).await;
                let taken = take_all(peer).await.unwrap();
                assert_eq!(taken[..2], [7, 8]);
                assert_eq!(taken[2..], (0..400_000).collect::<Vec<u64>>());
                let mut out = Vec::new();
                protocol::put_progress(
                    &mut out,
                    &Progress { written_rows: 400_002, ..Progress::default() },
                    54448,
                );
                out.extend(end_of_stream());
                peer.send(&out).await;
                assert_eq!(peer.packet().await.unwrap(), ClientPacket::Ping);
                peer.send(&[4]).await;
            },
            async |mut options| {
                options.compression = compression;
                let client = Client::connect(options).await.unwrap();
                let mut insert = client.into_insert(SQL, &Settings::new(), None).await.unwrap();
                assert_eq!(insert.columns()[0].type_text(), "UInt64");
                assert!(insert.table_columns().unwrap().description.starts_with("columns"));
                assert_eq!(insert.query_id().len(), 36);
                insert.send(&numbers(&[7, 8])).await.unwrap();
                insert.send(&numbers(&many)).await.unwrap();
                let (summary, mut client) = insert.finish_into().await.unwrap();
                assert_eq!((summary.blocks, summary.progress.written_rows), (2, 400_002));
                assert!(summary.bytes > 3_200_000);
                assert_eq!(summary.bytes_on_wire > summary.bytes, compression == Compression::None);
                client.ping().await.unwrap();
            },
        )
        .await;
    }
}

/// The server goes away at each point of an insert, and in each byte of its answers.
#[tokio::test]
async fn an_insert_that_is_cut_anywhere_is_never_ok() {
    let header = block_packet(ServerPacket::Data, &numbers(&[]), Compression::None);
    for length in 0..header.len() {
        let error = pair(
            async |peer| {
                peer.hello(54448).await;
                peer.query().await;
                peer.send(&header[..length]).await;
            },
            async |options| insert(options, &[numbers(&[1])]).await.unwrap_err(),
        )
        .await;
        assert_eq!(
            (error.kind(), outcome_unknown(&error)),
            (ErrorKind::Unavailable, false),
            "{length}: {error}"
        );
    }
    let mut confirmed = Vec::new();
    protocol::put_progress(&mut confirmed, &Progress { written_rows: 1 << 40, ..Progress::default() }, 54448);
    confirmed.extend(end_of_stream());
    for length in 0..confirmed.len() {
        let error = pair(
            async |peer| {
                open(peer).await;
                take_all(peer).await.unwrap();
                peer.send(&confirmed[..length]).await;
            },
            async |options| insert(options, &[numbers(&[1])]).await.unwrap_err(),
        )
        .await;
        assert_eq!(
            (error.kind(), outcome_unknown(&error)),
            (ErrorKind::Unavailable, true),
            "{length}: {error}"
        );
        assert!(error.is_transient());
        assert_eq!((error.operation(), error.context_value("query_id")), ("bytehouse.insert", Some("q-1")));
    }
}

/// The server reads some of the blocks' bytes and closes.
#[tokio::test]
async fn an_insert_that_is_cut_while_it_sends_is_never_ok() {
    let blocks: Vec<_> = (0..40).map(|i| numbers(&vec![i; 50_000])).collect();
    for taken in [0, 1, 9, 10, 11, 100, 400_019, 400_020, 400_021, 3_000_000, 15_999_999] {
        let error = pair(
            async |peer| {
                open(peer).await;
                crate::peer::swallow(peer, taken).await;
            },
            async |options| insert(options, &blocks).await.unwrap_err(),
        )
        .await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{taken}: {error}");
    }
}

fn many_blocks() -> Vec<Vec<u8>> {
    (0..40).map(|i| numbers(&vec![i; 200_000])).collect()
}

async fn refused(server: impl AsyncFnOnce(&mut Peer)) -> Error {
    pair(server, async |options| insert(options, &many_blocks()).await.unwrap_err()).await
}

#[tokio::test]
async fn an_exception_is_seen_while_the_server_no_longer_reads() {
    let seen = Notify::new();
    let error = pair(
        async |peer| {
            open(peer).await;
            peer.data().await.unwrap();
            peer.send(&exception(252, "Too many parts (600)")).await;
            seen.notified().await;
        },
        async |options| {
            let error = insert(options, &many_blocks()).await.unwrap_err();
            seen.notify_one();
            error
        },
    )
    .await;
    assert_eq!(server_code(&error), Some(252), "{error}");
    assert!(error.is_transient() && !outcome_unknown(&error));
}

#[tokio::test]
async fn an_exception_before_a_reset_is_told() {
    let error = refused(async |peer| {
        open(peer).await;
        peer.data().await.unwrap();
        // Closing with bytes unread resets the connection.
        peer.send(&exception(60, "Table t was dropped")).await;
    })
    .await;
    assert_eq!(server_code(&error), Some(60), "{error}");
}

#[tokio::test]
async fn an_exception_at_the_end_is_told_and_ends_the_connection() {
    pair(
        async |peer| {
            open(peer).await;
            take_all(peer).await.unwrap();
            peer.send(&exception(117, "bad data")).await;
            assert!(peer.closed_between_packets().await);
        },
        async |options| {
            let mut client = Client::connect(options).await.unwrap();
            let mut insert = client.begin_insert(SQL, &Settings::new(), None).await.unwrap();
            insert.send(&numbers(&[1])).await.unwrap();
            let error = insert.finish().await.unwrap_err();
            assert_eq!((server_code(&error), outcome_unknown(&error)), (Some(117), false));
            assert!(!client.is_usable());
        },
    )
    .await;
}

#[tokio::test]
async fn an_exception_instead_of_the_header_leaves_the_connection() {
    pair(
        async |peer| {
            peer.hello(54448).await;
            peer.query().await;
            peer.send(&exception(60, "Table t doesn't exist")).await;
            assert_eq!(peer.packet().await.unwrap(), ClientPacket::Ping);
            peer.send(&[4]).await;
        },
        async |options| {
            let mut client = Client::connect(options).await.unwrap();
            let error = client.begin_insert(SQL, &Settings::new(), None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            client.ping().await.unwrap();
        },
    )
    .await;
}

#[tokio::test]
async fn an_end_of_stream_before_the_end_is_no_success() {
    let error = refused(async |peer| {
        open(peer).await;
        peer.data().await.unwrap();
        peer.send(&end_of_stream()).await;
        crate::peer::swallow(peer, usize::MAX).await;
    })
    .await;
    assert_eq!((error.kind(), outcome_unknown(&error)), (ErrorKind::Unexpected, true), "{error}");
}

/// Every way to leave an insert breaks off inside a block, never between two.
#[tokio::test]
async fn leaving_an_insert_breaks_off_inside_a_block() {
    for compression in [Compression::None, Compression::Lz4] {
        for way in 0..5 {
            pair(
                async |peer| {
                    peer.compression = compression;
                    open(peer).await;
                    if way > 0 {
                        peer.data().await.unwrap();
                    }
                    // The next packet begins and its block does not end.
                    assert_eq!(peer.packet().await.unwrap(), ClientPacket::Data);
                    connector_bytehouse_common::wire::io::read_string(&mut peer.source, 10).await.unwrap();
                    while peer.source.fill().await.is_ok() {}
                    assert!(!peer.source.buffered().is_empty(), "way {way}: the block has begun");
                },
                async |mut options| {
                    options.compression = compression;
                    let mut client = Client::connect(options).await.unwrap();
                    let mut insert = client.begin_insert(SQL, &Settings::new(), None).await.unwrap();
                    if way > 0 {
                        insert.send(&numbers(&[1])).await.unwrap();
                    }
                    match way {
                        0 | 1 => insert.abort().await,
                        2 => drop(insert),
                        3 => {
                            drop(insert);
                            drop(client);
                            return;
                        }
                        _ => {
                            // A send that is dropped half way.
                            let big: Vec<u64> =
                                (0..4_000_000).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
                            let sent = timeout(Duration::ZERO, insert.send(&numbers(&big))).await;
                            assert!(sent.is_err());
                            assert_eq!(
                                insert.send(&numbers(&[2])).await.unwrap_err().kind(),
                                ErrorKind::Closed
                            );
                            drop(insert);
                        }
                    }
                    assert!(!client.is_usable());
                },
            )
            .await;
        }
    }
}

#[tokio::test]
async fn a_block_that_would_end_the_insert_is_refused() {
    pair(
        async |peer| {
            open(peer).await;
            assert_eq!(take_all(peer).await.unwrap(), [3]);
            peer.send(&end_of_stream()).await;
            assert!(peer.closed_between_packets().await);
        },
        async |options| {
            let mut client = Client::connect(options).await.unwrap();
            let mut insert = client.begin_insert(SQL, &Settings::new(), None).await.unwrap();
            for empty in [&[][..], &[0, 0]] {
                assert_eq!(insert.send(empty).await.unwrap_err().kind(), ErrorKind::Unexpected);
            }
            insert.send(&numbers(&[3])).await.unwrap();
            assert_eq!(insert.finish().await.unwrap().blocks, 1);
            assert!(client.is_usable());
        },
    )
    .await;
}

#[tokio::test]
async fn a_server_that_takes_nothing_or_says_nothing_is_given_up() {
    let error = pair(
        async |peer| {
            open(peer).await;
            take_all(peer).await.unwrap();
            assert!(peer.packet().await.is_err());
        },
        async |mut options| {
            options.query_timeout = Some(Duration::from_millis(300));
            insert(options, &[numbers(&[1])]).await.unwrap_err()
        },
    )
    .await;
    assert_eq!((error.kind(), outcome_unknown(&error)), (ErrorKind::Timeout, true), "{error}");
    assert!(error.message().contains("query_timeout"), "{error}");
    let seen = Notify::new();
    let error = pair(
        async |peer| {
            open(peer).await;
            seen.notified().await;
        },
        async |mut options| {
            options.read_timeout = Duration::from_millis(300);
            let error = insert(options, &many_blocks()).await.unwrap_err();
            seen.notify_one();
            error
        },
    )
    .await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.message().contains("read_timeout"), "{error}");
}
