//! A registry of Avro schemas that answers as Confluent's does.

use std::{
    collections::HashMap,
    fmt, fs,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use connector_core::{Error, ErrorKind, Result, Secret};
use serde::{Deserialize, de::DeserializeOwned};
use ureq::{
    Agent,
    http::{StatusCode, header},
    tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem},
};

use crate::format::avro::AvroSchema;

/// Longest wait for one answer: a reader that is being closed waits no longer.
const ATTEMPT: Duration = Duration::from_secs(4);
/// How long a schema that the registry does not know is not asked for again.
const FORGET: Duration = Duration::from_secs(10);
/// How many schemas one may refer to, itself included.
const MOST_REFERENCES: usize = 1000;
/// The registry's word for a schema that it does not have.
const NO_SCHEMA: u32 = 40403;

/// Where the schemas of Avro records are.
///
/// Clones are cheap and share what was fetched; nothing is ever fetched twice. Whoever has no schema yet waits for it, on a thread of
/// the reader, and asks again for as long as the source's `request_timeout` where the registry does not serve.
#[derive(Clone)]
pub struct SchemaRegistry(Arc<Inner>);

struct Inner {
    urls: Vec<String>,
    agent: Agent,
    /// The whole value of the header `Authorization`.
    login: Option<Secret>,
    known: Mutex<HashMap<u32, Known>>,
}

impl fmt::Debug for SchemaRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemaRegistry").field("urls", &self.0.urls).finish_non_exhaustive()
    }
}

/// What is known of a schema's number.
#[derive(Debug, Clone)]
enum Known {
    Schema(Arc<AvroSchema>),
    /// It is of something that cannot be read, with the reason.
    Unreadable(String),
    /// Nobody had it then.
    Missing(Instant),
}

/// Why there is no schema.
#[derive(Debug)]
pub(crate) enum NoSchema {
    /// The record is at fault.
    Record(String),
    /// The registry does not serve at the moment.
    Later(Error),
    /// It will not answer.
    Never(Error),
}

/// Makes a [`SchemaRegistry`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct SchemaRegistryBuilder {
    urls: String,
    login: Option<Login>,
    authorities: Option<String>,
}

#[derive(Debug, Clone)]
enum Login {
    Basic(Secret),
    Bearer(Secret),
    /// Two were given.
    Both,
}

impl SchemaRegistryBuilder {
    /// A name and password, as `name:password`.
    pub fn basic_auth(self, user_info: impl Into<Secret>) -> Self {
        self.login(Login::Basic(user_info.into()))
    }

    /// A token.
    pub fn bearer_token(self, token: impl Into<Secret>) -> Self {
        self.login(Login::Bearer(token.into()))
    }

    fn login(mut self, login: Login) -> Self {
        self.login = Some(if self.login.is_some() { Login::Both } else { login });
        self
    }

    /// The certificates of the authorities that are trusted, as PEM or the path of a file of it. By default those of the system are.
    pub fn certificate_authorities(mut self, pem: impl Into<String>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Checks what was given. Asks nobody yet.
    ///
    /// # Errors
    /// `OptionInvalid` when an address is no URL of HTTP, certificates cannot be read, or two ways to log in were given.
    pub fn build(self) -> Result<SchemaRegistry> {
        let urls = self.urls.split(',').map(|url| address(url.trim())).collect::<Result<Vec<String>>>()?;
        let login = match self.login {
            None => None,
            Some(Login::Basic(user)) if user.expose().contains(':') => {
                Some(Secret::new(format!("Basic {}", BASE64.encode(user.expose()))))
            }
            Some(Login::Basic(_)) => {
                return Err(invalid("schema_registry_basic_auth is not of the form name:password"));
            }
            Some(Login::Bearer(token)) => Some(Secret::new(format!("Bearer {}", token.expose()))),
            Some(Login::Both) => {
                return Err(invalid(
                    "schema_registry_basic_auth and schema_registry_bearer_token are given; one is enough",
                ));
            }
        };
        let roots = match &self.authorities {
            None => RootCerts::PlatformVerifier,
            Some(pem) => authorities(pem)?,
        };
        let tls = TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(roots).build();
        let agent = Agent::config_builder()
            .timeout_global(Some(ATTEMPT))
            .http_status_as_error(false)
            .tls_config(tls)
            .user_agent(concat!("connector-kafka/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(SchemaRegistry(Arc::new(Inner { urls, agent, login, known: Mutex::default() })))
    }
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::OptionInvalid, text.into()).with_operation("kafka.options")
}

/// An address without a slash at its end.
fn address(url: &str) -> Result<String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next()).filter(|host| !host.is_empty());
    match host {
        // The address stands in logs and errors.
        Some(host) if host.contains('@') => Err(invalid(
            "schema_registry_url holds a name or password; give them as schema_registry_basic_auth",
        )),
        Some(_) if url.parse::<ureq::http::Uri>().is_ok() => Ok(url.trim_end_matches('/').to_owned()),
        _ => Err(invalid(format!("schema_registry_url: `{url}` is no address such as http://registry:8081"))),
    }
}

fn authorities(pem: &str) -> Result<RootCerts> {
    let read;
    let text = if pem.contains("-----BEGIN ") {
        pem.replace("\\n", "\n")
    } else {
        read = fs::read_to_string(pem);
        read.map_err(|e| invalid(format!("schema_registry_ca: `{pem}` cannot be read: {e}")))?
    };
    let certificates: Vec<_> = parse_pem(text.as_bytes())
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(invalid("schema_registry_ca holds no certificate in PEM"));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

/// A schema as the registry tells it.
#[derive(Deserialize)]
struct Registered {
    schema: String,
    /// Left out for Avro.
    #[serde(rename = "schemaType", default)]
    schema_type: Option<String>,
    #[serde(default)]
    references: Vec<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    subject: String,
    version: i64,
}

/// What the registry says where it does not do what it was asked for.
#[derive(Deserialize)]
struct Complaint {
    error_code: u32,
    #[serde(default)]
    message: String,
}

enum Failure {
    /// There is nothing of that kind.
    Missing(String),
    Later(Error),
    Never(Error),
}

impl SchemaRegistry {
    /// A registry at an address, such as `http://registry:8081`, or at one of several with commas between them.
    pub fn builder(urls: impl Into<String>) -> SchemaRegistryBuilder {
        SchemaRegistryBuilder { urls: urls.into(), login: None, authorities: None }
    }

    /// One that has these schemas and asks nobody who answers.
    #[cfg(test)]
    pub(crate) fn holding(schemas: &[(u32, &str)]) -> Self {
        let registry = Self::builder("http://127.0.0.1:1").build().unwrap();
        let parsed = |text| Known::Schema(Arc::new(AvroSchema::parse(text, []).unwrap()));
        registry.0.known.lock().unwrap().extend(schemas.iter().map(|(number, text)| (*number, parsed(text))));
        registry
    }

    /// Looks whether the registry answers. Blocks.
    pub(crate) fn check(&self) -> Result<()> {
        match self.get::<serde_json::Value>("/schemas/types") {
            // Older ones do not know the question.
            Ok(_) | Err(Failure::Missing(_)) => Ok(()),
            Err(Failure::Later(error) | Failure::Never(error)) => Err(error),
        }
    }

    /// The schema of a number. Blocks where it was not fetched before.
    pub(crate) fn schema(&self, number: u32) -> Result<Arc<AvroSchema>, NoSchema> {
        match self.known(number) {
            Some(Known::Schema(schema)) => return Ok(schema),
            Some(Known::Unreadable(reason)) => return Err(NoSchema::Record(reason)),
            Some(Known::Missing(_)) => return Err(NoSchema::Record(missing(number))),
            None => {}
        }
        let known = match self.fetch(number) {
            Ok(schema) => Known::Schema(Arc::new(schema)),
            Err(Failure::Missing(reason)) if reason.is_empty() => Known::Missing(Instant::now()),
            Err(Failure::Missing(reason)) => Known::Unreadable(reason),
            Err(Failure::Later(error)) => return Err(NoSchema::Later(error.with_context("schema", number))),
            Err(Failure::Never(error)) => return Err(NoSchema::Never(error.with_context("schema", number))),
        };
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).insert(number, known.clone());
        match known {
            Known::Schema(schema) => Ok(schema),
            Known::Unreadable(reason) => Err(NoSchema::Record(reason)),
            Known::Missing(_) => Err(NoSchema::Record(missing(number))),
        }
    }

    fn known(&self, number: u32) -> Option<Known> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&number)
            .filter(|known| !matches!(known, Known::Missing(when) if when.elapsed() > FORGET))
            .cloned()
    }

    /// `Missing` without a text where the registry does not have it.
    fn fetch(&self, number: u32) -> Result<AvroSchema, Failure> {
        let found: Registered =
            self.get(&format!("/schemas/ids/{number}")).map_err(|failure| match failure {
                Failure::Missing(_) => Failure::Missing(String::new()),
                other => other,
            })?;
        let unreadable = |what: String| Failure::Missing(format!("the schema {number} {what}"));
        if let Some(other) = found.schema_type.filter(|name| !name.eq_ignore_ascii_case("AVRO")) {
            return Err(unreadable(format!("is of {other} and not of Avro")));
        }
        let mut references = Vec::new();
        self.collect(found.references, &mut Vec::new(), &mut references)?;
        AvroSchema::parse(&found.schema, references.iter().map(String::as_str)).map_err(unreadable)
    }

    /// Fetches schemas that are referred to, those first that others refer to.
    fn collect(
        &self,
        references: Vec<Reference>,
        met: &mut Vec<(String, i64)>,
        into: &mut Vec<String>,
    ) -> Result<(), Failure> {
        for Reference { subject, version } in references {
            if met.iter().any(|(known, at)| *known == subject && *at == version) {
                continue;
            }
            if met.len() == MOST_REFERENCES {
                return Err(Failure::Missing(format!("it refers to more than {MOST_REFERENCES} schemas")));
            }
            let name: String = subject.bytes().map(in_path).collect();
            met.push((subject, version));
            let found: Registered = self.get(&format!("/subjects/{name}/versions/{version}"))?;
            self.collect(found.references, met, into)?;
            into.push(found.schema);
        }
        Ok(())
    }

    /// Asks the addresses in turn, until one serves.
    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let mut last = None;
        for url in &self.0.urls {
            match self.ask(url, path) {
                Err(Failure::Later(error)) => last = Some(error),
                answered => return answered,
            }
        }
        Err(Failure::Later(last.unwrap_or_else(|| invalid("schema_registry_url is empty"))))
    }

    fn ask<T: DeserializeOwned>(&self, url: &str, path: &str) -> Result<T, Failure> {
        let failed = |kind, what: String| {
            Error::new(kind, format!("the schema registry {what}"))
                .with_operation("kafka.schema_registry")
                .with_context("schema_registry_url", url)
                .with_context("path", path)
        };
        let later = |what| Failure::Later(failed(ErrorKind::Unavailable, what).transient());
        let mut request = self
            .0
            .agent
            .get(format!("{url}{path}"))
            .header(header::ACCEPT, "application/vnd.schemaregistry.v1+json, application/json");
        if let Some(login) = &self.0.login {
            request = request.header(header::AUTHORIZATION, login.expose());
        }
        let mut answer = match request.call() {
            Ok(answer) => answer,
            Err(ureq::Error::Tls(_) | ureq::Error::NativeTls(_)) => {
                let what = "does not speak TLS that can be trusted; check schema_registry_url and schema_registry_ca";
                return Err(Failure::Never(failed(ErrorKind::Unavailable, what.to_owned())));
            }
            Err(error) => return Err(later(format!("cannot be reached: {error}"))),
        };
        let status = answer.status();
        let body =
            answer.body_mut().read_to_string().map_err(|e| later(format!("broke off its answer: {e}")))?;
        if status.is_success() {
            return serde_json::from_str(&body).map_err(|e| {
                Failure::Never(failed(
                    ErrorKind::Unexpected,
                    format!("gave an answer that makes no sense: {e}"),
                ))
            });
        }
        let complaint = serde_json::from_str::<Complaint>(&body).ok();
        let said = complaint.as_ref().map_or(String::new(), |complaint| format!(": {}", complaint.message));
        Err(match status {
            StatusCode::UNAUTHORIZED => Failure::Never(failed(
                ErrorKind::Unauthenticated,
                format!("does not accept the credentials{said}"),
            )),
            StatusCode::FORBIDDEN => {
                Failure::Never(failed(ErrorKind::PermissionDenied, format!("forbids it{said}")))
            }
            StatusCode::NOT_FOUND
                if complaint.is_some_and(|complaint| complaint.error_code / 100 == NO_SCHEMA / 100) =>
            {
                Failure::Missing(format!("the schema registry does not have {path}{said}"))
            }
            StatusCode::NOT_FOUND => Failure::Never(failed(
                ErrorKind::NotFound,
                "is none: the address has no such path; check schema_registry_url".to_owned(),
            )),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                later(format!("answers {status}{said}"))
            }
            _ if status.is_server_error() => later(format!("answers {status}{said}")),
            _ => Failure::Never(failed(ErrorKind::Unexpected, format!("answers {status}{said}"))),
        })
    }
}

fn missing(number: u32) -> String {
    format!("the schema {number}, which the registry does not have")
}

/// A byte as it may stand in a path.
fn in_path(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
