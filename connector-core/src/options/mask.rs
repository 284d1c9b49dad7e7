//! Values that look like secrets, in maps whose keys are the system's own and not ours.

use std::fmt;

use zeroize::Zeroizing;

use super::secret::MASK;

/// Parts of a key that mark its value as a secret. Keys are compared in lower case with `_` and `-` as dots.
const SECRET_PARTS: [&str; 19] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "private",
    "jaas",
    "apikey",
    "api.key",
    "accesskey",
    "access.key",
    "auth.user.info",
    "authorization",
    "oauthbearer.config",
    "key.pem",
    "keystore.key",
    "keystore.pem",
];

/// Parts of a value that mark it as a secret whatever its key is.
const SECRET_VALUES: [&str; 5] = ["private key-----", "password=", "passwd=", "secret=", "token="];

/// True when a value under `key` should not be shown, such as `sasl.password`, `ssl.key.pem` or
/// `sasl.jaas.config`. When in doubt the answer is true.
pub fn is_secret_key(key: &str) -> bool {
    let key: String =
        key.chars().map(|c| if matches!(c, '_' | '-') { '.' } else { c.to_ascii_lowercase() }).collect();
    key == "pass" || key.ends_with(".pass") || SECRET_PARTS.iter().any(|part| key.contains(part))
}

/// True when the value itself gives a secret away: a private key, `password=…`, `user:password@host`.
fn is_secret_value(value: &str) -> bool {
    let value = Zeroizing::new(value.to_ascii_lowercase());
    if SECRET_VALUES.iter().any(|part| value.contains(part)) {
        return true;
    }
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.split_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// The value, or [`MASK`] when its key or the value itself looks like a secret.
pub fn mask<'a>(key: &str, value: &'a str) -> &'a str {
    if is_secret_key(key) || is_secret_value(value) { MASK } else { value }
}

/// A map for `tracing` fields and `Debug`: values that look like secrets are masked.
///
/// ```
/// use connector_core::options::mask_map;
///
/// let properties = [("acks", "all"), ("sasl.password", "hunter2")];
/// assert_eq!(format!("{:?}", mask_map(properties)), r#"{"acks": "all", "sasl.password": "***"}"#);
/// ```
pub fn mask_map<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> impl fmt::Debug {
    struct Masked(Vec<(String, String)>);

    impl fmt::Debug for Masked {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_map().entries(self.0.iter().map(|(key, value)| (key, value))).finish()
        }
    }

    Masked(entries.into_iter().map(|(key, value)| (key.to_owned(), mask(key, value).to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_looking_keys() {
        for key in [
            "password",
            "sasl.password",
            "SASL_PASSWORD",
            "ssl.key.password",
            "ssl.key.pem",
            "ssl_key_pem",
            "ssl.keystore.key",
            "ssl.truststore.password",
            "sasl.jaas.config",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "api-token",
            "api_key",
            "access-key-id",
            "basic.auth.user.info",
            "my.credentials",
            "db.pass",
        ] {
            assert!(is_secret_key(key), "{key}");
            assert_eq!(mask(key, "hunter2"), "***");
        }
        for key in
            ["acks", "bootstrap.servers", "sslmode", "sslrootcert", "key.serializer", "bypass", "group.id"]
        {
            assert!(!is_secret_key(key), "{key}");
            assert_eq!(mask(key, "value"), "value");
        }
    }

    #[test]
    fn secret_looking_values() {
        for value in [
            "-----BEGIN RSA PRIVATE KEY-----\nMII",
            "org.apache.X required username=\"u\" Password=\"hunter2\";",
            "https://user:hunter2@proxy:3128/path",
            "client_id=a client_secret=hunter2",
        ] {
            assert_eq!(mask("plugin", value), "***", "{value}");
        }
        for value in ["https://proxy:3128/path@x:1", "a@b:c", "-----BEGIN CERTIFICATE-----"] {
            assert_eq!(mask("plugin", value), value);
        }
    }
}
