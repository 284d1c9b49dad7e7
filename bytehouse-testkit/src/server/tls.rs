//! A certificate for the double, made at start.

use std::sync::Arc;

use connector_core::{Error, ErrorKind, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tokio_rustls::rustls::{
    self, ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unexpected, "cannot make a certificate for the double").with_source(error)
}

/// A configuration with a fresh certificate for `localhost` and `127.0.0.1`, and the PEM text of the
/// authority that signed it.
pub(super) fn self_signed() -> Result<(Arc<ServerConfig>, String)> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "ByteHouse double authority");
    let authority =
        CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(failed)?).map_err(failed)?;
    let mut params =
        CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, &authority).map_err(failed)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone(), authority.der().clone()], key)
        .map_err(failed)?;
    Ok((Arc::new(config), authority.pem()))
}
