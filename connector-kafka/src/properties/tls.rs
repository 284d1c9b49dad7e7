//! Certificates and keys: Java's stores, and texts in place of files, as librdkafka takes them.

use std::fs;

use base64::Engine as _;
use connector_core::options::PropertyMap;
use openssl::{pkcs12::Pkcs12, x509::X509};

use super::Translation;

const TRUST_FILE: &str = "ssl.truststore.location";
const TRUST_PASSWORD: &str = "ssl.truststore.password";
const TRUST_TEXT: &str = "ssl.truststore.certificates";
const KEY_FILE: &str = "ssl.keystore.location";
const KEY_PASSWORD: &str = "ssl.keystore.password";
const KEY_TEXT: &str = "ssl.keystore.key";
const CHAIN_TEXT: &str = "ssl.keystore.certificate.chain";

/// The first bytes of a JKS store; a JCEKS store has others.
const JKS: &[u8] = &[0xfe, 0xed, 0xfe, 0xed];
const JCEKS: &[u8] = &[0xce, 0xce, 0xce, 0xce];
const PEM: &str = "-----BEGIN ";

pub(super) fn apply(map: &PropertyMap, out: &mut Translation) {
    both_given(map, [TRUST_FILE, TRUST_TEXT], out);
    both_given(map, [KEY_FILE, KEY_TEXT], out);
    if let Some(path) = map.get(TRUST_FILE) {
        match trusted(path, map.get(TRUST_PASSWORD)) {
            Ok(pem) => out.set("ssl.ca.pem", pem),
            Err(sentence) => {
                out.refuse(TRUST_FILE, format!("the property `{TRUST_FILE}`: `{path}` {sentence}"))
            }
        }
    }
    for (name, for_client, tag) in [
        (TRUST_TEXT, "ssl.ca.pem", "CERTIFICATE"),
        (CHAIN_TEXT, "ssl.certificate.pem", "CERTIFICATE"),
        (KEY_TEXT, "ssl.key.pem", "PRIVATE KEY"),
    ] {
        let Some(text) = map.get(name) else { continue };
        match pem(text, tag) {
            Some(pem) => out.set(for_client, pem),
            None => {
                out.refuse(name, format!("the property `{name}` is neither PEM nor base64 of PEM or DER"))
            }
        }
    }
    if let Some(path) = map.get(KEY_FILE) {
        key_store(path, map, out);
    }
}

fn both_given(map: &PropertyMap, [file, text]: [&str; 2], out: &mut Translation) {
    if map.get(file).is_some() && map.get(text).is_some() {
        out.refuse(
            text,
            format!("the properties `{file}` and `{text}` say the same in two ways; give one of them"),
        );
    }
}

/// The client's own certificate and key, out of a file.
fn key_store(path: &str, map: &PropertyMap, out: &mut Translation) {
    let refuse = |out: &mut Translation, sentence: &str| {
        out.refuse(KEY_FILE, format!("the property `{KEY_FILE}`: `{path}` {sentence}"));
    };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return refuse(out, &format!("cannot be read: {error}")),
    };
    if bytes.starts_with(JKS) || bytes.starts_with(JCEKS) {
        return refuse(
            out,
            "is a store that only Java reads the key of; turn it into PKCS12 with `keytool -importkeystore \
             -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12`",
        );
    }
    if String::from_utf8_lossy(&bytes).contains(PEM) {
        out.set("ssl.certificate.location", path);
        out.set("ssl.key.location", path);
        return;
    }
    let Some(password) = map.get(KEY_PASSWORD) else {
        return refuse(out, &format!("is a PKCS12 store, which needs `{KEY_PASSWORD}` beside it"));
    };
    // librdkafka would only say so once it connects.
    match Pkcs12::from_der(&bytes).map(|store| store.parse2(password)) {
        Err(_) => return refuse(out, "is neither PEM nor a PKCS12 store"),
        Ok(Err(_)) => {
            return refuse(
                out,
                "does not open with its password, or is encrypted in a way that OpenSSL has given up",
            );
        }
        Ok(Ok(store)) if store.pkey.is_none() => return refuse(out, "has no private key"),
        Ok(Ok(_)) => {}
    }
    out.set(KEY_FILE, path);
    out.set(KEY_PASSWORD, password);
}

/// The certificates of a trust store, as PEM.
fn trusted(path: &str, password: Option<&str>) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.starts_with(JCEKS) {
        return Err("is a JCEKS store; turn it into PKCS12 with `keytool -importkeystore`".to_owned());
    }
    let certificates = if bytes.starts_with(JKS) {
        jks(&bytes, password)?
    } else if String::from_utf8_lossy(&bytes).contains(PEM) {
        X509::stack_from_pem(&bytes).map_err(|_| "holds PEM that is not certificates".to_owned())?
    } else {
        let store = Pkcs12::from_der(&bytes).map_err(|_| "is neither JKS, PKCS12 nor PEM".to_owned())?;
        let store = store.parse2(password.unwrap_or_default()).map_err(|_| {
            format!(
                "does not open with `{TRUST_PASSWORD}`, or is encrypted in a way that OpenSSL has given up"
            )
        })?;
        store.ca.into_iter().flatten().chain(store.cert).collect()
    };
    if certificates.is_empty() {
        return Err("holds no certificate".to_owned());
    }
    let pems: Result<Vec<Vec<u8>>, _> = certificates.iter().map(|certificate| certificate.to_pem()).collect();
    pems.ok()
        .and_then(|pems| String::from_utf8(pems.concat()).ok())
        .ok_or_else(|| "holds a certificate that cannot be written as PEM".to_owned())
}

/// The trusted certificates of a JKS store, which are in clear in it. As in Java, those of its keys are not trusted.
/// The format is that of `sun.security.provider.JavaKeyStore`: big-endian numbers, texts with their length.
fn jks(bytes: &[u8], password: Option<&str>) -> Result<Vec<X509>, String> {
    const KEY: u32 = 1;
    const TRUSTED: u32 = 2;
    const DIGEST: usize = 20;
    let broken = || "is a JKS store that breaks off".to_owned();
    let content = bytes.get(..bytes.len().saturating_sub(DIGEST)).ok_or_else(broken)?;
    if let Some(password) = password {
        let mut hash = openssl::sha::Sha1::new();
        password.encode_utf16().for_each(|unit| hash.update(&unit.to_be_bytes()));
        hash.update(b"Mighty Aphrodite");
        hash.update(content);
        if hash.finish() != bytes[content.len()..] {
            return Err(format!("does not open with `{TRUST_PASSWORD}`"));
        }
    }
    let mut rest = Reader(content.get(JKS.len()..).ok_or_else(broken)?);
    let version = rest.number().ok_or_else(broken)?;
    let entries = rest.number().ok_or_else(broken)?;
    let mut found = Vec::new();
    for _ in 0..entries {
        let kind = rest.number().ok_or_else(broken)?;
        let _alias = rest.text().ok_or_else(broken)?;
        let _made = rest.take(8).ok_or_else(broken)?;
        let count = match kind {
            TRUSTED => 1,
            KEY => {
                let _key = rest.bytes().ok_or_else(broken)?;
                rest.number().ok_or_else(broken)?
            }
            _ => return Err(format!("is a JKS store with an entry of the unknown kind {kind}")),
        };
        for _ in 0..count {
            if version > 1 {
                let _type = rest.text().ok_or_else(broken)?;
            }
            let der = rest.bytes().ok_or_else(broken)?;
            if kind == TRUSTED {
                let certificate = X509::from_der(der);
                found.push(
                    certificate.map_err(|_| "is a JKS store with a certificate that is none".to_owned())?,
                );
            }
        }
    }
    Ok(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.take(2)?.try_into().ok().map(u16::from_be_bytes)?;
        self.take(length.into())
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }
}

/// PEM as it is, out of base64, or made of DER that was in base64. A PEM text in one line may have `\n` for its line ends.
fn pem(text: &str, tag: &str) -> Option<String> {
    if text.contains(PEM) {
        return Some(text.replace("\\n", "\n"));
    }
    let plain: String = text.split_whitespace().collect();
    let engine = base64::engine::general_purpose::STANDARD;
    let bytes = engine.decode(plain).ok().filter(|bytes| !bytes.is_empty())?;
    if let Ok(text) = std::str::from_utf8(&bytes)
        && text.contains(PEM)
    {
        return Some(text.to_owned());
    }
    // DER begins with a sequence.
    (bytes[0] == 0x30).then(|| {
        let lines = engine.encode(&bytes);
        let lines: Vec<&str> =
            lines.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("-----BEGIN {tag}-----\n{}\n-----END {tag}-----\n", lines.join("\n"))
    })
}

#[cfg(test)]
mod tests;
