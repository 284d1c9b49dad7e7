//! Tokens for logins by SASL/OAUTHBEARER.

use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use connector_core::{Error, ErrorKind, Result, Secret};
use rdkafka::client::OAuthToken;

/// A token for SASL/OAUTHBEARER.
#[derive(Debug, Clone)]
pub struct OauthToken {
    /// What the broker checks.
    pub value: Secret,
    /// Whom the token is for.
    pub principal: String,
    /// When the broker takes it no longer. A new one is asked for after four fifths of the time until then.
    pub expires: SystemTime,
}

/// Gives tokens for SASL/OAUTHBEARER: from an identity provider, a cloud's metadata service, or a file that somebody
/// keeps fresh.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use connector_core::Secret;
/// use connector_kafka::{KafkaSource, OauthToken};
///
/// let builder = KafkaSource::builder()
///     .property("security.protocol", "SASL_SSL")
///     .property("sasl.mechanism", "OAUTHBEARER")
///     .oauth_tokens(|| {
///         Ok(OauthToken {
///             value: Secret::new("what the identity provider gave"),
///             principal: "orders-service".to_owned(),
///             expires: SystemTime::now() + Duration::from_secs(900),
///         })
///     });
/// ```
pub trait OauthTokenProvider: Send + Sync + 'static {
    /// A token that is good from now on. Called on a thread that serves the client, once when it connects and again
    /// before a token expires; it may take a few seconds, in which no record arrives.
    ///
    /// # Errors
    /// Ends up in the error of what the client was doing; asked again after ten seconds.
    fn token(&self) -> Result<OauthToken>;
}

impl<F: Fn() -> Result<OauthToken> + Send + Sync + 'static> OauthTokenProvider for F {
    fn token(&self) -> Result<OauthToken> {
        self()
    }
}

/// A provider, shared by all clients of a source or sink.
#[derive(Clone)]
pub(crate) struct Tokens(Arc<dyn OauthTokenProvider>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(..)")
    }
}

impl Tokens {
    pub(crate) fn new(provider: impl OauthTokenProvider) -> Self {
        Self(Arc::new(provider))
    }

    /// A token as the client wants it.
    pub(crate) fn take(&self) -> Result<OAuthToken> {
        let token = self.0.token()?;
        let millis =
            token.expires.duration_since(UNIX_EPOCH).ok().and_then(|d| i64::try_from(d.as_millis()).ok());
        Ok(OAuthToken {
            token: token.value.expose().to_owned(),
            principal_name: token.principal,
            lifetime_ms: millis
                .ok_or_else(|| Error::new(ErrorKind::Unauthenticated, "the token expired before 1970"))?,
        })
    }
}

/// The login wants tokens exactly when there is somebody who gives them.
///
/// # Errors
/// `OptionInvalid` with what to add or leave out.
pub(crate) fn expect_tokens(properties: &[(String, String)], tokens: Option<&Tokens>) -> Result<()> {
    let mechanism = properties
        .iter()
        .rev()
        .find(|(name, _)| matches!(name.as_str(), "sasl.mechanism" | "sasl.mechanisms"));
    let wanted = mechanism.is_some_and(|(_, value)| value.trim().eq_ignore_ascii_case("OAUTHBEARER"));
    let text = match (wanted, tokens) {
        (true, None) => {
            "the property `sasl.mechanism` is OAUTHBEARER, and nobody gives tokens: set a provider on the builder with `oauth_tokens`"
        }
        (false, Some(_)) => {
            "a provider of tokens is set, and the property `sasl.mechanism` is not OAUTHBEARER: set it, or leave the provider out"
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options"))
}
