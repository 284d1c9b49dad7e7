//! What a double is like.

use connector_core::Secret;

/// What a [`BytehouseDouble`](crate::BytehouseDouble) is like. Start from [`Default`] and change fields.
///
/// ```
/// use bytehouse_testkit::{DoubleOptions, Tls};
///
/// let options = DoubleOptions {
///     warehouses: vec!["vw_load".into()],
///     require_warehouse: true,
///     tls: Tls::SelfSigned,
///     ..DoubleOptions::default()
/// }
/// .with_user("2100::loader", "secret");
/// assert_eq!(options.users.len(), 3);
/// ```
#[derive(Debug, Clone)]
pub struct DoubleOptions {
    /// Who may log in. By default the user `bytehouse` with [`TOKEN`](Self::TOKEN) as password, and
    /// `default` without a password.
    pub users: Vec<User>,
    /// The exception code of a refused login; 516 by default, 193 as older servers have it.
    pub login_error_code: i32,
    /// The protocol revision that the server announces. 54451 by default, as ByConity; 54406 to 54428
    /// for gateways that want settings in the typed form.
    pub revision: u64,
    /// The version that the server announces and `version()` tells.
    pub version: [u64; 4],
    /// The server's time zone, an IANA name: zone-less times in texts are read in it. UTC by default.
    pub timezone: String,
    /// Databases that are there at the start: `default` by default.
    pub databases: Vec<String>,
    /// The virtual warehouses that there are. Empty by default: every name is accepted.
    pub warehouses: Vec<String>,
    /// Refuses reads and writes of tables without the setting `virtual_warehouse`.
    pub require_warehouse: bool,
    /// Refuses queries with settings that no ByteHouse or ClickHouse server knows (code 115). Off by
    /// default: the double's list of settings is long, but not complete. Typed settings that it does
    /// not know are always refused, as nobody can read them.
    pub strict_settings: bool,
    /// Stores the blocks of an insert that ends by `Cancel` or by a connection that closes between
    /// two blocks, as ByConity and ClickHouse before 2023 do. Off by default: nothing is stored.
    pub store_broken_inserts: bool,
    /// Sends clients that announced revision 54450 packet 14 (query metrics) and those that announced
    /// 54451 packet 15 (time zone) before results, as servers of the ByteHouse family may. Clients of
    /// ClickHouse's own line do not understand them. Off by default.
    pub vendor_packets: bool,
    /// Rows of one block of a result at most.
    pub max_block_rows: usize,
    /// Whether clients must speak TLS.
    pub tls: Tls,
}

impl DoubleOptions {
    /// The password of the user `bytehouse`, unless [`users`](Self::users) says otherwise.
    pub const TOKEN: &'static str = "double-token";

    /// Adds a user; one that is known gets this password.
    #[must_use]
    pub fn with_user(self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.put_user(User { name: name.into(), password: Secret::new(password), read_only: false })
    }

    /// Adds a user whose writes are refused with code 164.
    #[must_use]
    pub fn with_reader(self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.put_user(User { name: name.into(), password: Secret::new(password), read_only: true })
    }

    fn put_user(mut self, user: User) -> Self {
        self.users.retain(|known| known.name != user.name);
        self.users.push(user);
        self
    }
}

impl Default for DoubleOptions {
    fn default() -> Self {
        let user = |name: &str, password: &str| User {
            name: name.to_owned(),
            password: Secret::new(password),
            read_only: false,
        };
        Self {
            users: vec![user("bytehouse", Self::TOKEN), user("default", "")],
            login_error_code: crate::exception::code::AUTHENTICATION_FAILED,
            revision: 54451,
            version: [21, 8, 7, 1],
            timezone: "UTC".to_owned(),
            databases: vec!["default".to_owned()],
            warehouses: Vec::new(),
            require_warehouse: false,
            strict_settings: false,
            store_broken_inserts: false,
            vendor_packets: false,
            max_block_rows: 65_505,
            tls: Tls::Off,
        }
    }
}

/// Who may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name as it stands in the hello packet: `bytehouse` for a token, `account::user` for a password.
    pub name: String,
    /// Password or token.
    pub password: Secret,
    /// Writes are refused with code 164.
    pub read_only: bool,
}

/// Whether clients must speak TLS.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Tls {
    /// Plain TCP.
    #[default]
    Off,
    /// TLS with a certificate for `localhost` and `127.0.0.1` that is made at start;
    /// [`ca_pem`](crate::BytehouseDouble::ca_pem) is what clients must trust.
    #[cfg(feature = "tls")]
    SelfSigned,
    /// TLS with a configuration of your own.
    #[cfg(feature = "tls")]
    Config(std::sync::Arc<tokio_rustls::rustls::ServerConfig>),
}
