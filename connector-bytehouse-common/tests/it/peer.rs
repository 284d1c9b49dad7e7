//! The other end: a server that does what a test tells it to.

use std::time::Duration;

use connector_bytehouse_common::{
    native::{Block, ReadOptions, read_block},
    wire::{
        ClientOptions, Compression,
        frame::{FrameSource, FrameWriter},
        io::{ByteSource, StreamSource, put_string, put_varuint, read_string, read_u8},
        protocol::{
            self, BlockInfo, ClientHello, ClientPacket, Query, ServerException, ServerHello, ServerPacket,
        },
    },
};
use connector_core::Result;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};

pub(crate) struct Peer {
    pub(crate) source: StreamSource<TcpStream>,
    pub(crate) revision: u64,
    pub(crate) compression: Compression,
}

/// Runs a server's script and a client side by side; the connection closes when the script ends.
pub(crate) async fn pair<T>(
    server: impl AsyncFnOnce(&mut Peer),
    client: impl AsyncFnOnce(ClientOptions) -> T,
) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = options(listener.local_addr().unwrap().port());
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut peer =
            Peer { source: StreamSource::new(stream), revision: 54448, compression: Compression::None };
        server(&mut peer).await;
    };
    tokio::join!(serve, client(options)).1
}

/// Options with limits that no test comes to unless it wants to.
pub(crate) fn options(port: u16) -> ClientOptions {
    let mut options = ClientOptions::new("127.0.0.1", port);
    options.read_timeout = Duration::from_secs(60);
    options.connect_timeout = Duration::from_secs(60);
    options
}

impl Peer {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.source.get_mut().write_all(bytes).await.unwrap();
    }

    /// Sends what the client may no longer be there to take.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) {
        let _gone = self.source.get_mut().write_all(bytes).await;
    }

    /// Takes the client's hello and answers as a server of this revision.
    pub(crate) async fn hello(&mut self, revision: u64) -> ClientHello {
        let hello = self.read_hello().await;
        let mut out = Vec::new();
        protocol::put_server_hello(&mut out, &server(revision), hello.revision);
        self.revision = revision.min(hello.revision);
        self.send(&out).await;
        hello
    }

    pub(crate) async fn read_hello(&mut self) -> ClientHello {
        assert_eq!(self.packet().await.unwrap(), ClientPacket::Hello);
        protocol::read_client_hello(&mut self.source).await.unwrap()
    }

    pub(crate) async fn packet(&mut self) -> Result<ClientPacket> {
        protocol::read_client_packet(&mut self.source).await
    }

    /// Takes a query and the empty block behind it.
    pub(crate) async fn query(&mut self) -> Query {
        assert_eq!(self.packet().await.unwrap(), ClientPacket::Query);
        let query = protocol::read_query(&mut self.source, self.revision).await.unwrap();
        let block = self.data().await.unwrap();
        assert!(block.columns.is_empty());
        query
    }

    /// Takes a data packet.
    pub(crate) async fn data(&mut self) -> Result<Block> {
        assert_eq!(self.packet().await?, ClientPacket::Data);
        read_string(&mut self.source, 100).await?;
        let options = ReadOptions::default();
        if self.compression == Compression::None {
            protocol::read_block_info(&mut self.source).await?;
            return read_block(&mut self.source, &options).await;
        }
        let mut frames = FrameSource::new(&mut self.source);
        protocol::read_block_info(&mut frames).await?;
        let block = read_block(&mut frames, &options).await?;
        frames.finish()?;
        Ok(block)
    }

    /// True when the client closed the connection on a packet's boundary.
    pub(crate) async fn closed_between_packets(&mut self) -> bool {
        self.source.buffered().is_empty() && read_u8(&mut self.source).await.is_err()
    }
}

pub(crate) fn server(revision: u64) -> ServerHello {
    ServerHello {
        name: "Script".into(),
        version_major: 3,
        version_minor: 2,
        revision,
        timezone: "Asia/Shanghai".into(),
        display_name: "stage".into(),
        version_patch: 1,
    }
}

/// The columns of a block `n UInt64`, as an encoder writes them.
pub(crate) fn numbers(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varuint(&mut out, 1);
    put_varuint(&mut out, values.len() as u64);
    put_string(&mut out, b"n");
    put_string(&mut out, b"UInt64");
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    out
}

/// A packet with a block.
pub(crate) fn block_packet(packet: ServerPacket, block: &[u8], compression: Compression) -> Vec<u8> {
    let mut out = Vec::new();
    protocol::put_data_prefix(&mut out, packet.id(), "");
    let mut content = Vec::new();
    protocol::put_block_info(&mut content, BlockInfo::default());
    content.extend_from_slice(block);
    match compression {
        Compression::None => out.extend_from_slice(&content),
        _ => FrameWriter::new(compression).unwrap().put(&mut out, &content).unwrap(),
    }
    out
}

pub(crate) fn exception(code: i32, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    protocol::put_exception(
        &mut out,
        &ServerException {
            code,
            name: "DB::Exception".into(),
            message: text.into(),
            stack_trace: "0. main".into(),
        },
    );
    out
}

pub(crate) fn end_of_stream() -> Vec<u8> {
    let mut out = Vec::new();
    protocol::put_end_of_stream(&mut out);
    out
}

/// Takes so many bytes, or as many as come.
pub(crate) async fn swallow(peer: &mut Peer, mut count: usize) {
    while count > 0 {
        let here = peer.source.buffered().len().min(count);
        if here == 0 && peer.source.fill().await.is_err() {
            return;
        }
        peer.source.consume(here);
        count -= here;
    }
}
