//! A TCP proxy that breaks connections on purpose, between a client under test and a real server.
//!
//! It delays, drips, stalls, cuts, half-closes and resets, at chosen bytes of either direction, and it refuses
//! connections. What it does can change while connections are open.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both sides get a reset (RST); bytes that were still on their way may be lost.
    Reset,
    /// The client gets a reset (RST), the server an orderly end: the current ClickHouse of these tests ends itself when
    /// it is reset between two queries.
    ResetClient,
    /// Both sides get an orderly end (FIN).
    Close,
    /// The receiver of this direction gets an end (FIN); the sender notices nothing, what it still sends is dropped,
    /// and the other direction goes on.
    HalfClose,
    /// Nothing more passes in this direction, and nobody is told.
    Stall,
    /// What the server sees when the client is gone without an end, as a killed process is: an orderly end, and what it
    /// still says is read. The current ClickHouse does not bear a reset between two queries.
    ClientLost,
}

/// What happens to the bytes of one direction. The default lets them pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    delay: Duration,
    drip: Option<(usize, Duration)>,
    cut: Option<(u64, Cut)>,
    stalled: bool,
}

impl Flow {
    /// Lets all bytes pass.
    #[must_use]
    pub fn pass() -> Self {
        Self::default()
    }

    /// Holds every piece that arrives for this long before it goes on.
    #[must_use]
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Passes at most `bytes` at a time, and then waits for `every`.
    #[must_use]
    pub const fn drip(mut self, bytes: usize, every: Duration) -> Self {
        self.drip = Some((bytes, every));
        self
    }

    /// Passes exactly this many bytes, counted from the start of a connection, and then cuts it.
    #[must_use]
    pub const fn cut_after(mut self, bytes: u64, cut: Cut) -> Self {
        self.cut = Some((bytes, cut));
        self
    }

    /// Passes nothing until the rules change.
    #[must_use]
    pub const fn stall(mut self) -> Self {
        self.stalled = true;
        self
    }
}

/// What happens on a connection. The default lets everything pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// From the client to the server.
    pub to_server: Flow,
    /// From the server to the client.
    pub to_client: Flow,
}

impl Rules {
    /// Lets everything pass.
    #[must_use]
    pub fn pass() -> Self {
        Self::default()
    }

    /// Sets what happens from the client to the server.
    #[must_use]
    pub const fn to_server(mut self, flow: Flow) -> Self {
        self.to_server = flow;
        self
    }

    /// Sets what happens from the server to the client.
    #[must_use]
    pub const fn to_client(mut self, flow: Flow) -> Self {
        self.to_client = flow;
        self
    }
}

/// The proxy. Its tasks end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    /// Bound but never listening: keeps the port while connections are refused.
    _port: Socket,
    acceptor: tokio::sync::Mutex<JoinSet<()>>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<String>,
    rules: watch::Sender<Rules>,
    next: Mutex<VecDeque<Rules>>,
    break_all: watch::Sender<Cut>,
    connections: Mutex<JoinSet<()>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Of each connection that was accepted, in their order.
    to_server: Mutex<Vec<u64>>,
    to_client: AtomicU64,
}

impl Proxy {
    /// Starts a proxy on a free loopback port in front of `target` (`host:port`).
    ///
    /// # Panics
    /// When no port is to be had.
    pub async fn start(target: &str) -> Self {
        let proxy = Self::reserve();
        proxy.forward_to(target).await;
        proxy
    }

    /// Reserves a port whose connections are refused until [`Proxy::forward_to`] is called: for a server that has to
    /// know the proxy's address before it starts.
    ///
    /// # Panics
    /// When no port is to be had.
    #[must_use]
    pub fn reserve() -> Self {
        let port = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address =
            port.local_addr().ok().and_then(|address| address.as_socket()).expect("an IPv4 address");
        let shared = Shared {
            target: Mutex::default(),
            rules: watch::Sender::new(Rules::pass()),
            next: Mutex::default(),
            break_all: watch::Sender::new(Cut::Close),
            connections: Mutex::default(),
            counts: Arc::default(),
        };
        Self { address, _port: port, acceptor: tokio::sync::Mutex::default(), shared: Arc::new(shared) }
    }

    /// Where clients connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards new connections to `target` (`host:port`), and accepts them if they were refused.
    ///
    /// # Panics
    /// When the port cannot be listened on.
    pub async fn forward_to(&self, target: &str) {
        target.clone_into(&mut lock(&self.shared.target));
        self.accept().await;
    }

    /// Refuses new connections until [`Proxy::accept`]; open ones go on.
    pub async fn refuse(&self) {
        self.acceptor.lock().await.shutdown().await;
    }

    /// Accepts new connections again.
    ///
    /// # Panics
    /// When the port cannot be listened on.
    pub async fn accept(&self) {
        let mut acceptor = self.acceptor.lock().await;
        if acceptor.is_empty() {
            let listener = listen(self.address).expect("the reserved port can be listened on");
            acceptor.spawn(accept_connections(listener, Arc::clone(&self.shared)));
        }
    }

    /// Sets what happens on all connections, the open ones too, but for those with rules of their own.
    pub fn set_rules(&self, rules: Rules) {
        self.shared.rules.send_replace(rules);
    }

    /// Gives the next connection rules of its own, which stay. Called again before that connection came, it sets the
    /// rules of the one after it, and so on.
    pub fn set_next_rules(&self, rules: Rules) {
        lock(&self.shared.next).push_back(rules);
    }

    /// Takes back what [`Proxy::set_next_rules`] said and no connection has used.
    pub fn forget_next_rules(&self) {
        lock(&self.shared.next).clear();
    }

    /// Resets all open connections.
    pub fn reset_all(&self) {
        self.cut_all(Cut::Reset);
    }

    /// Closes all open connections in good order.
    pub fn close_all(&self) {
        self.cut_all(Cut::Close);
    }

    /// Ends all open connections in this way.
    pub fn cut_all(&self, cut: Cut) {
        self.shared.break_all.send_replace(cut);
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        u64::try_from(lock(&self.shared.counts.to_server).len()).unwrap_or(u64::MAX)
    }

    /// How many bytes were passed to the server so far, over all connections.
    #[must_use]
    pub fn bytes_to_server(&self) -> u64 {
        lock(&self.shared.counts.to_server).iter().sum()
    }

    /// How many bytes were passed to the server so far on each connection, in the order in which they were accepted.
    #[must_use]
    pub fn bytes_to_server_of_each(&self) -> Vec<u64> {
        lock(&self.shared.counts.to_server).clone()
    }

    /// How many bytes were passed to the client so far, over all connections.
    #[must_use]
    pub fn bytes_to_client(&self) -> u64 {
        self.shared.counts.to_client.load(Ordering::SeqCst)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bind(address)?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

async fn accept_connections(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of file handles, say: others may free some.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let number = {
            let mut each = lock(&shared.counts.to_server);
            each.push(0);
            each.len() - 1
        };
        // Rules of the connection's own have a sender that nobody else uses.
        let own = lock(&shared.next).pop_front().map(watch::Sender::new);
        let connection = Connection {
            client,
            number,
            target: lock(&shared.target).clone(),
            rules: own.as_ref().map_or_else(|| shared.rules.subscribe(), watch::Sender::subscribe),
            _own_rules: own,
            break_all: shared.break_all.subscribe(),
            counts: Arc::clone(&shared.counts),
        };
        let mut connections = lock(&shared.connections);
        while connections.try_join_next().is_some() {}
        connections.spawn(connection.run());
    }
}

struct Connection {
    number: usize,
    client: TcpStream,
    target: String,
    rules: watch::Receiver<Rules>,
    _own_rules: Option<watch::Sender<Rules>>,
    break_all: watch::Receiver<Cut>,
    counts: Arc<Counts>,
}

impl Connection {
    async fn run(mut self) {
        let Ok(mut server) = TcpStream::connect(&self.target).await else {
            reset(&self.client);
            return;
        };
        self.client.set_nodelay(true).ok();
        server.set_nodelay(true).ok();

        let end = {
            let (from_client, to_client) = self.client.split();
            let (from_server, to_server) = server.split();
            let up = Pump {
                flow: |rules| rules.to_server,
                lost: [CLIENT_LOST, SERVER_LOST],
                rules: self.rules.clone(),
                passed: 0,
                count: |passed: u64| lock(&self.counts.to_server)[self.number] += passed,
            };
            let down = Pump {
                flow: |rules| rules.to_client,
                lost: [SERVER_LOST, CLIENT_LOST],
                rules: self.rules.clone(),
                passed: 0,
                count: |passed: u64| {
                    self.counts.to_client.fetch_add(passed, Ordering::SeqCst);
                },
            };
            tokio::select! {
                end = async { tokio::try_join!(up.run(from_client, to_server), down.run(from_server, to_client)) } => {
                    end.err()
                }
                Ok(()) = self.break_all.changed() => Some(*self.break_all.borrow()),
            }
        };
        if matches!(end, Some(Cut::Reset | Cut::ResetClient)) {
            reset(&self.client);
        } else {
            self.client.shutdown().await.ok();
        }
        if end == Some(Cut::Reset) {
            reset(&server);
        } else {
            server.shutdown().await.ok();
        }
        if end == Some(Cut::ClientLost) {
            // An answer that nobody has read makes the system send a reset instead.
            let mut rest = [0; 4096];
            let read_all = async { while server.read(&mut rest).await.is_ok_and(|length| length > 0) {} };
            tokio::time::timeout(PATIENCE, read_all).await.ok();
        }
    }
}

const CLIENT_LOST: Cut = Cut::ClientLost;
const SERVER_LOST: Cut = Cut::Reset;
/// How long a server may take to close a connection that its client has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the socket send a reset when it is dropped.
fn reset(socket: &TcpStream) {
    SockRef::from(socket).set_linger(Some(Duration::ZERO)).ok();
}

/// Moves the bytes of one direction of one connection.
struct Pump<C> {
    flow: fn(&Rules) -> Flow,
    /// How the connection ends when reading fails, and when writing does.
    lost: [Cut; 2],
    rules: watch::Receiver<Rules>,
    passed: u64,
    /// Told of the bytes that were passed on.
    count: C,
}

impl<C: Fn(u64)> Pump<C> {
    /// Ends with `Ok` when this direction has ended and the other may go on, with the cut when both shall end.
    async fn run(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), Cut> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let flow = (self.flow)(&self.rules.borrow_and_update());
            let mut room = buffer.len();
            if let Some((limit, cut)) = flow.cut {
                let left = limit.saturating_sub(self.passed);
                if left == 0 && cut != Cut::Stall {
                    return end_direction(cut, from, to).await;
                }
                room = room.min(usize::try_from(left).unwrap_or(usize::MAX));
            }
            if let Some((bytes, _)) = flow.drip {
                room = room.min(bytes.max(1));
            }
            if flow.stalled || room == 0 {
                self.rules.changed().await.map_err(|_| Cut::Reset)?;
                continue;
            }
            let length = tokio::select! {
                biased;
                changed = self.rules.changed() => {
                    changed.map_err(|_| Cut::Reset)?;
                    continue;
                }
                read = from.read(&mut buffer[..room]) => read.map_err(|_| self.lost[0])?,
            };
            if length == 0 {
                to.shutdown().await.ok();
                return Ok(());
            }
            if !flow.delay.is_zero() {
                sleep(flow.delay).await;
            }
            to.write_all(&buffer[..length]).await.map_err(|_| self.lost[1])?;
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            self.passed += length;
            (self.count)(length);
            if let Some((_, pause)) = flow.drip {
                sleep(pause).await;
            }
        }
    }
}

async fn end_direction(cut: Cut, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), Cut> {
    if cut != Cut::HalfClose {
        return Err(cut);
    }
    to.shutdown().await.ok();
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await.map_err(|_| Cut::Reset)?;
    Ok(())
}
