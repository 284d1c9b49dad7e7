use openssl::{
    asn1::Asn1Time,
    hash::MessageDigest,
    pkey::{PKey, Private},
    rsa::Rsa,
    stack::Stack,
    x509::X509NameBuilder,
};
use tempfile::TempDir;

use super::*;

fn key() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()
}

fn certificate(name: &str, key: &PKey<Private>) -> X509 {
    let mut subject = X509NameBuilder::new().unwrap();
    subject.append_entry_by_text("CN", name).unwrap();
    let subject = subject.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&subject).unwrap();
    builder.set_issuer_name(&subject).unwrap();
    builder.set_pubkey(key).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    builder.sign(key, MessageDigest::sha256()).unwrap();
    builder.build()
}

/// A JKS store as `keytool` writes it.
fn jks_store(password: &str, entries: &[(u32, &X509)]) -> Vec<u8> {
    let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    let bytes = |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    let mut out = JKS.to_vec();
    out.extend(2_u32.to_be_bytes());
    out.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
    for (kind, certificate) in entries {
        out.extend(kind.to_be_bytes());
        out.extend(text("an alias"));
        out.extend(0_u64.to_be_bytes());
        if *kind == 1 {
            out.extend(bytes(b"an encrypted key"));
            out.extend(1_u32.to_be_bytes());
        }
        out.extend(text("X.509"));
        out.extend(bytes(&certificate.to_der().unwrap()));
    }
    let mut hash = openssl::sha::Sha1::new();
    password.encode_utf16().for_each(|unit| hash.update(&unit.to_be_bytes()));
    hash.update(b"Mighty Aphrodite");
    hash.update(&out);
    out.extend(hash.finish());
    out
}

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn run(pairs: &[(&str, &str)]) -> (Vec<(String, String)>, Vec<String>) {
    let map: PropertyMap = pairs.iter().copied().collect();
    let mut out = Translation::default();
    apply(&map, &mut out);
    (out.pairs, out.problems.into_iter().map(|(_, sentence)| sentence).collect())
}

fn pem_of(certificates: &[&X509]) -> String {
    certificates.iter().map(|c| String::from_utf8(c.to_pem().unwrap()).unwrap()).collect()
}

#[test]
fn every_kind_of_trust_store_gives_its_certificates() {
    let (files, key) = (Files::new(), key());
    let (one, two) = (certificate("one", &key), certificate("two", &key));
    let mut both = Stack::new().unwrap();
    both.push(one.clone()).unwrap();
    both.push(two.clone()).unwrap();
    let pkcs12 = Pkcs12::builder().ca(both).build2("hunter2").unwrap().to_der().unwrap();
    for (name, bytes) in [
        ("store.jks", jks_store("hunter2", &[(2, &one), (1, &certificate("own", &key)), (2, &two)])),
        ("store.p12", pkcs12),
        ("store.pem", pem_of(&[&one, &two]).into_bytes()),
    ] {
        let path = files.put(name, bytes);
        let (pairs, problems) =
            run(&[(TRUST_FILE, &path), (TRUST_PASSWORD, "hunter2"), ("ssl.truststore.type", "X")]);
        assert_eq!(problems, [""; 0], "{name}");
        assert_eq!(pairs.len(), 1, "{name}");
        assert_eq!(pairs[0].0, "ssl.ca.pem");
        let found = X509::stack_from_pem(pairs[0].1.as_bytes()).unwrap();
        let mut names: Vec<String> = found.iter().map(|c| format!("{:?}", c.subject_name())).collect();
        names.sort();
        assert_eq!(names.len(), 2, "{name}: {names:?}");
        assert!(names[0].contains("one") && names[1].contains("two"), "{name}: {names:?}");
        if name == "store.pem" {
            continue;
        }
        let (pairs, problems) = run(&[(TRUST_FILE, &path), (TRUST_PASSWORD, "hunter3")]);
        assert_eq!((pairs.len(), problems.len()), (0, 1), "{name}");
        assert!(problems[0].contains(&path) && problems[0].contains("does not open"), "{problems:?}");
        assert!(!problems[0].contains("hunter3"), "{problems:?}");
    }
    // The certificates of a JKS store can be read without its password, as Java does.
    let path = files.put("open.jks", jks_store("hunter2", &[(2, &one)]));
    assert_eq!(run(&[(TRUST_FILE, &path)]).0, [("ssl.ca.pem".to_owned(), pem_of(&[&one]))]);
}

#[test]
fn stores_that_cannot_be_read_say_why() {
    let (files, key) = (Files::new(), key());
    let one = certificate("one", &key);
    let whole = jks_store("x", &[(2, &one)]);
    let mut cases = vec![
        (files.put("nothing", ""), "neither JKS"),
        (files.put("text", "hello"), "neither JKS"),
        (files.put("empty.jks", jks_store("x", &[])), "no certificate"),
        (files.put("keys.jks", jks_store("x", &[(1, &one)])), "no certificate"),
        (files.put("odd.jks", jks_store("x", &[(3, &one)])), "unknown kind"),
        (files.put("old.jceks", JCEKS), "JCEKS"),
        ("/no/such/file".to_owned(), "cannot be read"),
    ];
    for length in [4, 12, 30, whole.len() - 21] {
        cases.push((files.put(&format!("short-{length}"), &whole[..length]), "breaks off"));
    }
    for (path, words) in cases {
        let (pairs, problems) = run(&[(TRUST_FILE, &path)]);
        assert_eq!((pairs.len(), problems.len()), (0, 1), "{path}");
        assert!(problems[0].contains(words), "{problems:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_of_a_store_are_too_odd(rest in proptest::collection::vec(proptest::num::u8::ANY, 0..200), cut in 0_usize..1000) {
        let bytes = [JKS, &rest].concat();
        drop(jks(&bytes, None));
        let whole = jks_store("x", &[]);
        drop(jks(&whole[..cut.min(whole.len())], Some("x")));
        drop(pem(&String::from_utf8_lossy(&rest), "CERTIFICATE"));
    }
}

#[test]
fn own_keys_come_in_pkcs12_and_pem_and_are_looked_at_first() {
    let (files, key) = (Files::new(), key());
    let one = certificate("me", &key);
    let store = Pkcs12::builder().pkey(&key).cert(&one).build2("hunter2").unwrap().to_der().unwrap();
    let path = files.put("own.p12", store);
    let (pairs, problems) = run(&[(KEY_FILE, &path), (KEY_PASSWORD, "hunter2")]);
    assert_eq!(problems, [""; 0]);
    assert_eq!(pairs, [(KEY_FILE.to_owned(), path.clone()), (KEY_PASSWORD.to_owned(), "hunter2".to_owned())]);
    let pem = files.put("own.pem", [one.to_pem().unwrap(), key.private_key_to_pem_pkcs8().unwrap()].concat());
    let (pairs, problems) = run(&[(KEY_FILE, &pem), ("ssl.keystore.type", "PEM")]);
    assert_eq!(problems, [""; 0]);
    assert_eq!(
        pairs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["ssl.certificate.location", "ssl.key.location"]
    );
    let mut trust = Stack::new().unwrap();
    trust.push(one.clone()).unwrap();
    let keyless = Pkcs12::builder().ca(trust).build2("hunter2").unwrap().to_der().unwrap();
    for (path, password, words) in [
        (path.clone(), Some("hunter3"), "does not open"),
        (path, None, KEY_PASSWORD),
        (files.put("trust.p12", keyless), Some("hunter2"), "no private key"),
        (
            files.put("own.jks", jks_store("hunter2", &[(1, &one)])),
            Some("hunter2"),
            "keytool -importkeystore",
        ),
        (files.put("text", "hello"), Some("hunter2"), "neither PEM"),
    ] {
        let mut given = vec![(KEY_FILE, path.as_str())];
        given.extend(password.map(|password| (KEY_PASSWORD, password)));
        let (pairs, problems) = run(&given);
        assert_eq!((pairs.len(), problems.len()), (0, 1), "{path}");
        assert!(problems[0].contains(words) && !problems[0].contains("hunter"), "{problems:?}");
    }
}

#[test]
fn texts_in_place_of_files_may_be_pem_or_base64_of_pem_or_der() {
    let key = key();
    let one = certificate("one", &key);
    let text = pem_of(&[&one]);
    let engine = base64::engine::general_purpose::STANDARD;
    for given in [
        text.clone(),
        text.trim().replace('\n', "\\n"),
        engine.encode(&text),
        engine.encode(one.to_der().unwrap()),
    ] {
        for (name, for_client) in [(TRUST_TEXT, "ssl.ca.pem"), (CHAIN_TEXT, "ssl.certificate.pem")] {
            let (pairs, problems) = run(&[(name, &given)]);
            assert_eq!((pairs.len(), problems.len()), (1, 0), "{given}");
            assert_eq!(pairs[0].0, for_client);
            assert_eq!(
                X509::from_pem(pairs[0].1.as_bytes()).unwrap().to_der().unwrap(),
                one.to_der().unwrap()
            );
        }
    }
    let der = key.private_key_to_pkcs8().unwrap();
    let (pairs, _) = run(&[(KEY_TEXT, &engine.encode(der))]);
    assert_eq!(pairs[0].0, "ssl.key.pem");
    assert!(PKey::private_key_from_pem(pairs[0].1.as_bytes()).unwrap().public_eq(&key));
    for wrong in ["", "%%%", "aGVsbG8="] {
        let (pairs, problems) = run(&[(KEY_TEXT, wrong)]);
        assert_eq!((pairs.len(), problems.len()), (0, 1), "{wrong}");
    }
    let (_, problems) = run(&[(TRUST_TEXT, &text), (TRUST_FILE, "/no/such/file")]);
    assert!(problems.iter().any(|sentence| sentence.contains("two ways")), "{problems:?}");
}
