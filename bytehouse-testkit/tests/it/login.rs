use bytehouse_testkit::{BytehouseDouble, DoubleOptions};
use connector_bytehouse_common::wire::{Client, Settings};
use connector_core::{ErrorKind, Secret};

use crate::support::{client, code, fetch, options, start};

#[tokio::test]
async fn token_and_password_logins() {
    let options_of =
        DoubleOptions::default().with_user("2100::loader", "secret").with_reader("2100::reader", "r");
    let double = BytehouseDouble::start(options_of).await.unwrap();
    for (user, password, works) in [
        ("bytehouse", DoubleOptions::TOKEN, true),
        ("2100::loader", "secret", true),
        ("default", "", true),
        ("bytehouse", "other", false),
        ("2100::loader", "", false),
        ("loader", "secret", false),
    ] {
        let mut options = options(&double);
        options.user = user.into();
        options.password = Secret::new(password);
        match Client::connect(options).await {
            Ok(mut client) => {
                assert!(works, "{user} got in");
                assert_eq!(fetch(&mut client, "SELECT currentUser()").await.unwrap(), [[user]]);
            }
            Err(error) => {
                assert!(!works, "{user}: {error}");
                assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
                assert_eq!(code(&error), Some(516), "{error}");
            }
        }
    }
    assert_eq!(double.connections(), 6);
}

#[tokio::test]
async fn old_servers_give_another_code() {
    let double = BytehouseDouble::start(DoubleOptions { login_error_code: 193, ..DoubleOptions::default() })
        .await
        .unwrap();
    let mut options = options(&double);
    options.password = Secret::new("wrong");
    assert_eq!(code(&Client::connect(options).await.unwrap_err()), Some(193));
}

#[tokio::test]
async fn the_database_of_the_hello() {
    let double = start().await;
    double.execute("CREATE DATABASE app").unwrap();
    let mut with_database = options(&double);
    with_database.database = "app".into();
    let mut client = Client::connect(with_database.clone()).await.unwrap();
    assert_eq!(fetch(&mut client, "SELECT currentDatabase()").await.unwrap(), [["app"]]);
    client.execute("USE default", &Settings::new()).await.unwrap();
    assert_eq!(fetch(&mut client, "SELECT currentDatabase()").await.unwrap(), [["default"]]);
    with_database.database = "2100`app".into();
    let mut client = Client::connect(with_database.clone()).await.unwrap();
    assert_eq!(fetch(&mut client, "SELECT currentDatabase()").await.unwrap(), [["app"]]);
    with_database.database = "nowhere".into();
    assert_eq!(code(&Client::connect(with_database).await.unwrap_err()), Some(81));
}

#[tokio::test]
async fn readers_may_not_write() {
    let double = BytehouseDouble::start(DoubleOptions::default().with_reader("1::r", "x")).await.unwrap();
    double.execute("CREATE TABLE t (a UInt8) ENGINE = CnchMergeTree ORDER BY a").unwrap();
    let mut options = options(&double);
    options.user = "1::r".into();
    options.password = Secret::new("x");
    let mut reader = Client::connect(options).await.unwrap();
    for sql in ["INSERT INTO t (a) VALUES (1)", "DROP TABLE t", "TRUNCATE TABLE t", "CREATE DATABASE d"] {
        assert_eq!(code(&reader.execute(sql, &Settings::new()).await.unwrap_err()), Some(164), "{sql}");
    }
    assert_eq!(fetch(&mut reader, "SELECT count() FROM t").await.unwrap(), [["0"]]);
    let mut writer = client(&double).await;
    let read_only = Settings::new().with("readonly", 1);
    let error = writer.execute("INSERT INTO t (a) VALUES (1)", &read_only).await.unwrap_err();
    assert_eq!(code(&error), Some(164));
}

#[tokio::test]
async fn stopping_closes_connections() {
    let double = start().await;
    let mut client = client(&double).await;
    assert_eq!(double.open_connections(), 1);
    let addr = double.addr();
    double.stop().await;
    assert!(client.ping().await.is_err());
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}
