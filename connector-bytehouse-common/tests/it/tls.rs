use std::{sync::Arc, time::Duration};

use connector_bytehouse_common::wire::{
    Client, ClientCertificate, ClientOptions, Pem, TlsOptions, Verify,
    io::{ByteSource, StreamSource},
    protocol,
};
use connector_core::{Error, ErrorKind, Result, Secret};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};

use crate::peer::options;

struct Certificates {
    authority: CertifiedIssuer<'static, KeyPair>,
    server: (String, String),
    client: (String, String),
}

/// An authority, a server's certificate for `localhost`, and a client's.
fn certificates() -> Certificates {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let signed = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let (server, client) = (signed("localhost"), signed("client"));
    Certificates { authority, server, client }
}

/// A server's own certificate that says it is an authority, as openssl makes them.
fn self_signed() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn acceptor((certificate, key): &(String, String), clients: Option<&str>) -> TlsAcceptor {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(der(authority)).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
                    .build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![der(certificate)], key).unwrap()))
}

fn tls(verify: Verify, root: Option<&str>) -> TlsOptions {
    let mut options = TlsOptions::default();
    options.verify = verify;
    options.root_certificate = root.map(|pem| Pem::Text(Secret::new(pem)));
    options.system_roots = false;
    options
}

/// Logs in and pings over TLS.
async fn connect(acceptor: TlsAcceptor, host: &str, tls: TlsOptions) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = options(listener.local_addr().unwrap().port());
    options.host = host.into();
    options.tls = Some(tls);
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(stream) = acceptor.accept(stream).await else { return };
        let mut source = StreamSource::new(stream);
        // A client that trusts us not goes now.
        if protocol::read_client_packet(&mut source).await.is_err() {
            return;
        }
        let hello = protocol::read_client_hello(&mut source).await.unwrap();
        let mut out = Vec::new();
        protocol::put_server_hello(&mut out, &crate::peer::server(54448), hello.revision);
        source.get_mut().write_all(&out).await.unwrap();
        source.get_mut().flush().await.unwrap();
        assert_eq!(protocol::read_client_packet(&mut source).await.unwrap().id(), 4);
        source.get_mut().write_all(&[4]).await.unwrap();
        source.get_mut().flush().await.unwrap();
        while source.fill().await.is_ok() {}
    };
    let client = async {
        let mut client = Client::connect(options).await?;
        assert!(client.is_usable());
        client.ping().await
    };
    tokio::join!(serve, client).1
}

#[track_caller]
fn refused(outcome: Result<()>, kind: ErrorKind, words: &str) {
    let error: Error = outcome.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.message().contains(words), "{error:?}");
    assert_eq!(error.operation(), "bytehouse.connect");
}

#[tokio::test]
async fn the_certificate_is_checked_as_far_as_asked() {
    let ours = certificates();
    let root = ours.authority.pem();
    let server = || acceptor(&ours.server, None);
    connect(server(), "localhost", tls(Verify::Full, Some(&root))).await.unwrap();
    let other_name = connect(server(), "127.0.0.1", tls(Verify::Full, Some(&root))).await;
    refused(other_name, ErrorKind::OptionInvalid, "another name");
    connect(server(), "127.0.0.1", tls(Verify::Ca, Some(&root))).await.unwrap();
    let mut named = tls(Verify::Full, Some(&root));
    named.server_name = Some("localhost".into());
    connect(server(), "127.0.0.1", named).await.unwrap();

    let foreign = certificates().authority.pem();
    for verify in [Verify::Full, Verify::Ca] {
        let untrusted = connect(server(), "localhost", tls(verify, Some(&foreign))).await;
        refused(untrusted, ErrorKind::OptionInvalid, "not trusted");
    }
    connect(server(), "127.0.0.1", tls(Verify::None, None)).await.unwrap();
    let none = connect(server(), "localhost", tls(Verify::Full, None)).await;
    refused(none, ErrorKind::OptionInvalid, "no authority to trust");
    let mut system = tls(Verify::Full, None);
    system.system_roots = true;
    let outcome = connect(server(), "localhost", system).await;
    refused(outcome, ErrorKind::OptionInvalid, "trust");
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_when_it_is_given() {
    let own = self_signed();
    let server = || acceptor(&own, None);
    connect(server(), "localhost", tls(Verify::Full, Some(&own.0))).await.unwrap();
    connect(server(), "127.0.0.1", tls(Verify::Ca, Some(&own.0))).await.unwrap();
    let outcome = connect(server(), "127.0.0.1", tls(Verify::Full, Some(&own.0))).await;
    refused(outcome, ErrorKind::OptionInvalid, "another name");
    let outcome = connect(server(), "localhost", tls(Verify::Full, Some(&self_signed().0))).await;
    refused(outcome, ErrorKind::OptionInvalid, "not trusted");
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let ours = certificates();
    let root = ours.authority.pem();
    let server = || acceptor(&ours.server, Some(&root));
    let mut with = tls(Verify::Full, Some(&root));
    with.client_certificate = Some(ClientCertificate {
        chain: Pem::Text(Secret::new(ours.client.0.as_str())),
        key: Pem::Text(Secret::new(ours.client.1.as_str())),
    });
    connect(server(), "localhost", with.clone()).await.unwrap();
    let without = connect(server(), "localhost", tls(Verify::Full, Some(&root))).await.unwrap_err();
    assert_eq!(without.kind(), ErrorKind::Unauthenticated, "{without:?}");
    with.client_certificate = Some(ClientCertificate {
        chain: Pem::Text(Secret::new(ours.client.0.as_str())),
        key: Pem::Text(Secret::new(ours.server.1.as_str())),
    });
    refused(connect(server(), "localhost", with).await, ErrorKind::OptionInvalid, "do not go together");
}

#[tokio::test]
async fn files_are_read_and_bad_ones_named() {
    let ours = certificates();
    let folder = std::env::temp_dir().join(format!("connector-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("root.pem");
    std::fs::write(&file, ours.authority.pem()).unwrap();
    let mut options = tls(Verify::Full, None);
    options.root_certificate = Some(Pem::File(file.clone()));
    connect(acceptor(&ours.server, None), "localhost", options.clone()).await.unwrap();
    std::fs::write(&file, "no certificate").unwrap();
    let outcome = connect(acceptor(&ours.server, None), "localhost", options.clone()).await;
    refused(outcome, ErrorKind::OptionInvalid, "BEGIN CERTIFICATE");
    std::fs::remove_dir_all(&folder).unwrap();
    let outcome = connect(acceptor(&ours.server, None), "localhost", options).await;
    refused(outcome, ErrorKind::OptionInvalid, "cannot be read");
}

/// What a port says that speaks something else.
async fn wrong_port(answer: &'static [u8], tls: Option<TlsOptions>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options: ClientOptions = options(listener.local_addr().unwrap().port());
    options.tls = tls;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _hello = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(answer).await.unwrap();
    };
    tokio::join!(serve, async { Client::connect(options).await.map(|_| ()) }).1
}

#[tokio::test]
async fn tls_against_ports_without_it_and_the_reverse() {
    let some = || Some(tls(Verify::None, None));
    refused(wrong_port(b"\x02\x65\0\0\0", some()).await, ErrorKind::OptionInvalid, "does not speak TLS");
    refused(
        wrong_port(b"HTTP/1.0 400 Bad Request\r\n", some()).await,
        ErrorKind::OptionInvalid,
        "does not speak TLS",
    );
    refused(wrong_port(b"", some()).await, ErrorKind::Unavailable, "TLS handshake");

    let ours = certificates();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut plain = options(listener.local_addr().unwrap().port());
    plain.connect_timeout = Duration::from_secs(5);
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        assert!(acceptor(&ours.server, None).accept(stream).await.is_err());
    };
    let (outcome, ()) = tokio::join!(Client::connect(plain), serve);
    refused(outcome.map(|_| ()), ErrorKind::OptionInvalid, "takes TLS");
}
