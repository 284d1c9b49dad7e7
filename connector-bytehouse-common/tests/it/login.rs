use std::time::Duration;

use connector_bytehouse_common::{
    error::server_code,
    wire::{Client, io::read_u8},
};
use connector_core::{Error, ErrorKind, Secret};
use tokio::net::TcpListener;

use crate::peer::{Peer, exception, options, pair};

async fn login_error(server: impl AsyncFnOnce(&mut Peer)) -> Error {
    pair(server, async |mut options| {
        options.password = Secret::new("hunter2");
        options.connect_timeout = Duration::from_millis(300);
        Client::connect(options).await.unwrap_err()
    })
    .await
}

#[tokio::test]
async fn hello_as_bytes() {
    pair(
        async |peer| {
            let mut bytes = Vec::new();
            let expected = b"\0\x0dconnectors-rs\0\x01\xb0\xa9\x03\x02db\x0aacc::alice\x07hunter2";
            while bytes.len() < expected.len() {
                bytes.push(read_u8(&mut peer.source).await.unwrap());
            }
            assert_eq!(bytes, expected);
        },
        async |mut options| {
            options.database = "db".into();
            options.user = "acc::alice".into();
            options.password = Secret::new("hunter2");
            let error = Client::connect(options).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        },
    )
    .await;
}

#[tokio::test]
async fn the_smaller_revision_counts_and_decides_about_fields() {
    for (server, announced) in [
        (54058, 54448),
        (54371, 54406),
        (54372, 54406),
        (54400, 54448),
        (54412, 54448),
        (54451, 54406),
        (54488, 54451),
        (54488, 54058),
    ] {
        pair(
            async |peer| {
                let hello = peer.hello(server).await;
                assert_eq!(hello.revision, announced);
                assert_eq!(peer.revision, server.min(announced));
                // Whatever was left out or too much would show here.
                assert_eq!(read_u8(&mut peer.source).await.unwrap(), 4);
                peer.send(&[4]).await;
            },
            async |mut options| {
                options.revision = announced;
                let mut client = Client::connect(options).await.unwrap();
                assert_eq!(client.revision(), server.min(announced));
                let info = client.server_info();
                assert_eq!((info.revision, info.timezone.as_str()), (server, "Asia/Shanghai"));
                let named = server.min(announced) >= 54372;
                assert_eq!(info.display_name, if named { "stage" } else { "" });
                let patched = server.min(announced) >= 54401;
                assert_eq!(info.version(), if patched { "3.2.1" } else { "3.2.0" });
                client.ping().await.unwrap();
            },
        )
        .await;
    }
}

#[tokio::test]
async fn a_refused_login_tells_code_and_text_but_no_secret() {
    let error = login_error(async |peer| {
        peer.read_hello().await;
        peer.send(&exception(516, "DB::Exception: alice: no login with hunter2\nmore")).await;
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(!error.is_transient());
    assert_eq!(server_code(&error), Some(516));
    assert!(error.message().contains("alice: no login with ***;"), "{error}");
    assert_eq!(error.operation(), "bytehouse.connect");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");

    for (code, kind) in [
        (193, ErrorKind::Unauthenticated),
        (81, ErrorKind::NotFound),
        (202, ErrorKind::RateLimited),
        (77_777, ErrorKind::Unauthenticated),
    ] {
        let error = login_error(async |peer| {
            peer.read_hello().await;
            peer.send(&exception(code, "please write accountID::fullUsername")).await;
        })
        .await;
        assert_eq!((error.kind(), server_code(&error)), (kind, Some(code)));
        assert!(error.message().contains("accountID::fullUsername"), "{error}");
    }
}

#[tokio::test]
async fn wrong_ports_are_told_apart() {
    for (answer, kind, words) in [
        (&b"HTTP/1.0 400 Bad Request\r\n\r\n"[..], ErrorKind::OptionInvalid, "HTTP port"),
        (&[21, 3, 1, 0, 2, 2, 70], ErrorKind::OptionInvalid, "takes TLS"),
        (b"SSH-2.0", ErrorKind::OptionInvalid, "first byte is 83"),
        (b"", ErrorKind::Unavailable, "switch TLS on"),
        (b"\x00\x06Script", ErrorKind::Unavailable, "ended"),
        (b"\x02\x01", ErrorKind::Unavailable, "ended"),
    ] {
        let error = login_error(async |peer| {
            peer.read_hello().await;
            peer.send(answer).await;
        })
        .await;
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error}");
        assert_eq!(error.is_transient(), kind == ErrorKind::Unavailable);
        assert!(error.context_value("server").is_some());
    }
}

#[tokio::test]
async fn too_old_a_server_is_refused() {
    let error = login_error(async |peer| {
        peer.hello(54057).await;
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("54057"), "{error}");
}

#[tokio::test]
async fn silence_ends_at_the_time_out() {
    let error = login_error(async |peer| {
        peer.read_hello().await;
        // Ends when the client gives up.
        assert!(read_u8(&mut peer.source).await.is_err());
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.is_transient() && error.message().contains("connect_timeout"), "{error}");
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = Client::connect(options(port)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_transient());
    let mut nowhere = options(port);
    nowhere.host = "no-such-host.invalid".into();
    assert_eq!(Client::connect(nowhere).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let mut wrong = options(port);
    wrong.revision = 1;
    assert_eq!(Client::connect(wrong).await.unwrap_err().kind(), ErrorKind::OptionInvalid);
}

#[tokio::test]
async fn logs_in_over_any_stream() {
    let (ours, theirs) = tokio::io::duplex(64);
    let serve = async {
        let mut source = connector_bytehouse_common::wire::io::StreamSource::new(theirs);
        use connector_bytehouse_common::wire::protocol;
        protocol::read_client_packet(&mut source).await.unwrap();
        let hello = protocol::read_client_hello(&mut source).await.unwrap();
        let mut out = Vec::new();
        protocol::put_server_hello(&mut out, &crate::peer::server(54448), hello.revision);
        tokio::io::AsyncWriteExt::write_all(source.get_mut(), &out).await.unwrap();
    };
    let (client, ()) = tokio::join!(Client::over(ours, options(1)), serve);
    let mut client = client.unwrap();
    assert_eq!(client.server_info().name, "Script");
    assert!(!client.is_usable(), "the script has ended");
}
