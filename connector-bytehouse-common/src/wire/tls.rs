//! TLS by rustls: roots, checks, our certificate, and what its errors mean.

use std::{io, sync::Arc};

use connector_core::{Error, ErrorKind, Result};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
        client::{
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
            verify_server_name,
        },
        crypto::CryptoProvider,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
        server::ParsedCertificate,
    },
};

use super::options::{ClientCertificate, Pem, TlsOptions, Verify};

/// Speaks TLS over a fresh TCP connection. Cancelling leaves the connection unusable.
pub(super) async fn connect(
    stream: TcpStream,
    host: &str,
    options: &TlsOptions,
) -> Result<TlsStream<TcpStream>> {
    let name = options.server_name.as_deref().unwrap_or(host);
    let name = ServerName::try_from(name.to_owned()).map_err(|e| {
        invalid(format!("`{name}` is no name that a certificate can be made out to; set the server's name"))
            .with_source(e)
    })?;
    let config = config(options).await?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|e| handshake_error(e, options))
}

async fn config(options: &TlsOptions) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Verifier::new(options, Arc::clone(&provider)).await?);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid("TLS cannot be set up").with_source(e))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match &options.client_certificate {
        None => Ok(builder.with_no_client_auth()),
        Some(ClientCertificate { chain, key }) => {
            let chain = certificates(chain, "client certificate").await?;
            let key = PrivateKeyDer::from_pem_slice(&read(key, "client key").await?)
                .map_err(|e| invalid("the client key is no private key in PEM").with_source(e))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| invalid("client certificate and client key do not go together").with_source(e))
        }
    }
}

/// Checks the server's certificate as far as [`Verify`] asks. Signatures of the handshake are always checked.
#[derive(Debug)]
struct Verifier {
    verify: Verify,
    /// Absent only for [`Verify::None`].
    authorities: Option<Arc<WebPkiServerVerifier>>,
    /// The user's own certificates. A server may present one of them itself; authorities' rules (which
    /// refuse an authority's certificate as a server's) do not apply to it.
    pinned: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    async fn new(options: &TlsOptions, provider: Arc<CryptoProvider>) -> Result<Self> {
        let verify = options.verify;
        if verify == Verify::None {
            return Ok(Self { verify, authorities: None, pinned: Vec::new(), provider });
        }
        let pinned = match &options.root_certificate {
            Some(pem) => certificates(pem, "root certificate").await?,
            None => Vec::new(),
        };
        let mut roots = RootCertStore::empty();
        for certificate in &pinned {
            roots
                .add(certificate.clone())
                .map_err(|e| invalid("the root certificate cannot be used as one").with_source(e))?;
        }
        if options.system_roots {
            let system =
                tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await.map_err(|e| {
                    Error::new(ErrorKind::Unexpected, "reading the system's certificates failed")
                        .with_source(e)
                })?;
            // Systems hold certificates that rustls does not take; the others still count.
            let _counts = roots.add_parsable_certificates(system.certs);
        }
        if roots.is_empty() {
            return Err(invalid(
                "there is no authority to trust: the system has none, so give a root certificate (`sslrootcert`)",
            ));
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|e| invalid("the trusted certificates cannot be used").with_source(e))?;
        Ok(Self { verify, authorities: Some(authorities), pinned, provider })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        if self.pinned.iter().any(|pinned| pinned == end_entity) {
            if self.verify == Verify::Full {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is the last thing that is checked: all else was right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.verify == Verify::Ca => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

async fn certificates(pem: &Pem, what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let text = read(pem, what).await?;
    let found = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| invalid(format!("the {what} is not PEM")).with_source(e))?;
    if found.is_empty() {
        return Err(invalid(format!("the {what} holds no `BEGIN CERTIFICATE`")));
    }
    Ok(found)
}

async fn read(pem: &Pem, what: &str) -> Result<zeroize::Zeroizing<Vec<u8>>> {
    match pem {
        Pem::Text(text) => Ok(text.expose().as_bytes().to_vec().into()),
        Pem::File(path) => {
            let file = path.clone();
            let read = tokio::task::spawn_blocking(move || std::fs::read(file)).await;
            read.map_err(io::Error::other).and_then(|read| read).map(Into::into).map_err(|e| {
                invalid(format!("the {what} `{}` cannot be read", path.display())).with_source(e)
            })
        }
    }
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::OptionInvalid, message)
}

/// What a failed handshake means, and what to do.
fn handshake_error(error: io::Error, options: &TlsOptions) -> Error {
    let error = match error.downcast::<rustls::Error>() {
        Ok(error) => error,
        Err(error) => {
            return Error::new(
                ErrorKind::Unavailable,
                "the connection ended during the TLS handshake; if this port takes plain TCP, switch TLS off or take the TLS port",
            )
            .transient()
            .with_source(error);
        }
    };
    match &error {
        rustls::Error::InvalidMessage(_) => invalid(
            "this port does not speak TLS; switch TLS off (`secure`) or take the port that does \
             (ByteHouse 19000, ClickHouse 9440)",
        ),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => invalid(
            "the server's certificate is made out to another name; connect by that name, set the server's name, \
             or take `sslmode=verify-ca`",
        ),
        rustls::Error::InvalidCertificate(_) if options.root_certificate.is_some() => invalid(
            "the server's certificate is not trusted: neither the root certificate given nor the system vouches for it",
        ),
        rustls::Error::InvalidCertificate(_) => invalid(
            "the server's certificate is not trusted; give the certificate of its authority as root certificate (`sslrootcert`)",
        ),
        rustls::Error::AlertReceived(_) => refused(),
        _ => Error::new(ErrorKind::Unavailable, "the TLS handshake failed"),
    }
    .with_source(error)
}

fn refused() -> Error {
    Error::new(
        ErrorKind::Unauthenticated,
        "the server refused our TLS handshake; it may ask for a client certificate",
    )
}

/// The error when a connection ended with an alert: in TLS 1.3 a server refuses our certificate only after
/// the handshake.
pub(super) fn refused_late(error: Error) -> Result<Error, Error> {
    let alert = std::error::Error::source(&error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(|error| error.get_ref())
        .is_some_and(|inner| matches!(inner.downcast_ref(), Some(rustls::Error::AlertReceived(_))));
    if alert { Ok(refused().with_source(error)) } else { Err(error) }
}
