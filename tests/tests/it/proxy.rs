//! The proxy breaks connections exactly as told. The server here sends back what it gets.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use connector_tests::proxy::{Cut, Flow, Proxy, Rules};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

/// An echo server; it ends with the returned set.
async fn echo_server() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await.ok();
            });
        }
    });
    (address, tasks)
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn echo(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    let mut back = vec![0; bytes.len()];
    timeout(LONG, stream.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(back, bytes);
}

/// Reads until the end or an error.
async fn read_rest(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut all = Vec::new();
    let end = timeout(LONG, stream.read_to_end(&mut all)).await.expect("the connection ends");
    (all, end.err().map(|error| error.kind()))
}

#[tokio::test]
async fn without_rules_everything_passes_and_is_counted() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::start(&target).await;
    let mut stream = connect(&proxy).await;
    echo(&mut stream, &vec![7; 300_000]).await;
    echo(&mut connect(&proxy).await, b"second").await;
    assert_eq!(proxy.accepted(), 2);
    assert_eq!((proxy.bytes_to_server(), proxy.bytes_to_client()), (300_006, 300_006));

    // An orderly end passes too: the client closes its side, and the echo of it comes back.
    stream.write_all(b"last").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(read_rest(&mut stream).await, (b"last".to_vec(), None));
}

#[tokio::test]
async fn a_cut_comes_after_exactly_the_bytes_it_names() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::start(&target).await;
    for (cut, error) in [(Cut::Reset, Some(ErrorKind::ConnectionReset)), (Cut::Close, None)] {
        proxy.set_rules(Rules::pass().to_client(Flow::pass().cut_after(1000, cut)));
        let before = proxy.bytes_to_client();
        let mut stream = connect(&proxy).await;
        stream.write_all(&[7; 5000]).await.unwrap();
        assert_eq!(read_rest(&mut stream).await, (vec![7; 1000], error), "{cut:?}");
        assert_eq!(proxy.bytes_to_client() - before, 1000);
    }

    proxy.set_rules(Rules::pass().to_server(Flow::pass().cut_after(10, Cut::Reset)));
    let before = proxy.bytes_to_server();
    let mut stream = connect(&proxy).await;
    stream.write_all(&[7; 50]).await.unwrap();
    assert_eq!(read_rest(&mut stream).await.1, Some(ErrorKind::ConnectionReset));
    assert_eq!(proxy.bytes_to_server() - before, 10);
}

#[tokio::test]
async fn a_half_close_ends_one_direction_only() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::start(&target).await;
    proxy.set_rules(Rules::pass().to_client(Flow::pass().cut_after(3, Cut::HalfClose)));
    let mut stream = connect(&proxy).await;
    stream.write_all(b"abcdef").await.unwrap();
    assert_eq!(read_rest(&mut stream).await, (b"abc".to_vec(), None));
    // The client can still send, and the bytes still reach the server.
    stream.write_all(b"ghi").await.unwrap();
    let deadline = Instant::now() + LONG;
    while proxy.bytes_to_server() < 9 {
        assert!(Instant::now() < deadline, "{} bytes", proxy.bytes_to_server());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stalled_connection_goes_on_when_the_rules_change() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::start(&target).await;
    let mut stream = connect(&proxy).await;
    echo(&mut stream, b"before").await;

    for stalled in [Flow::pass().stall(), Flow::pass().cut_after(6, Cut::Stall)] {
        let before = proxy.bytes_to_client();
        proxy.set_rules(Rules::pass().to_client(stalled));
        stream.write_all(b"held").await.unwrap();
        let mut back = [0; 4];
        assert!(timeout(SHORT, stream.read_exact(&mut back)).await.is_err(), "{stalled:?} let bytes pass");
        assert_eq!(proxy.bytes_to_client(), before);
        proxy.set_rules(Rules::pass());
        timeout(LONG, stream.read_exact(&mut back)).await.unwrap().unwrap();
        assert_eq!(&back, b"held");
    }
}

#[tokio::test]
async fn bytes_are_delayed_and_dripped() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::start(&target).await;
    proxy.set_rules(Rules::pass().to_server(Flow::pass().delay(SHORT)));
    let mut stream = connect(&proxy).await;
    let began = Instant::now();
    echo(&mut stream, b"late").await;
    assert!(began.elapsed() >= SHORT);

    proxy.set_rules(Rules::pass().to_client(Flow::pass().drip(1, Duration::from_millis(20))));
    let began = Instant::now();
    echo(&mut stream, b"eleven byte").await;
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
}

#[tokio::test]
async fn one_connection_can_have_rules_of_its_own() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::start(&target).await;
    proxy.set_next_rules(Rules::pass().to_client(Flow::pass().cut_after(0, Cut::Reset)));
    proxy.set_next_rules(Rules::pass().to_client(Flow::pass().cut_after(2, Cut::Close)));
    let mut first = connect(&proxy).await;
    first.write_all(b"abc").await.ok();
    assert_eq!(read_rest(&mut first).await, (Vec::new(), Some(ErrorKind::ConnectionReset)));
    let mut second = connect(&proxy).await;
    second.write_all(b"abc").await.unwrap();
    assert_eq!(read_rest(&mut second).await, (b"ab".to_vec(), None));
    echo(&mut connect(&proxy).await, b"third").await;
}

#[tokio::test]
async fn connections_are_refused_and_accepted_again() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::start(&target).await;
    let mut open = connect(&proxy).await;
    echo(&mut open, b"before").await;

    proxy.refuse().await;
    for _ in 0..3 {
        let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
    echo(&mut open, b"open ones go on").await;

    proxy.accept().await;
    echo(&mut connect(&proxy).await, b"after").await;
    proxy.reset_all();
    assert_eq!(read_rest(&mut open).await.1, Some(ErrorKind::ConnectionReset));
    let mut last = connect(&proxy).await;
    echo(&mut last, b"new").await;
    proxy.close_all();
    assert_eq!(read_rest(&mut last).await, (Vec::new(), None));
}

#[tokio::test]
async fn a_reserved_port_refuses_until_it_has_a_target() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::reserve();
    assert!(TcpStream::connect(proxy.address()).await.is_err());
    proxy.forward_to(&target).await;
    echo(&mut connect(&proxy).await, b"now").await;
}

#[tokio::test]
async fn an_absent_server_shows_as_a_reset() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let proxy = Proxy::start(&gone).await;
    let mut stream = connect(&proxy).await;
    assert_eq!(read_rest(&mut stream).await.1, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn nothing_is_left_when_the_proxy_is_dropped() {
    let (target, _server) = echo_server().await;
    let proxy = Proxy::start(&target).await;
    let address = proxy.address();
    let mut stream = connect(&proxy).await;
    echo(&mut stream, b"before").await;
    drop(proxy);
    assert!(read_rest(&mut stream).await.0.is_empty());
    assert!(TcpStream::connect(address).await.is_err());
}
