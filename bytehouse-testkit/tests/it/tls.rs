#![cfg(feature = "tls")]

use bytehouse_testkit::{BytehouseDouble, DoubleOptions, Tls};
use connector_bytehouse_common::wire::{Client, Pem, TlsOptions};

use crate::support::{fetch, options, start};

#[tokio::test]
async fn a_certificate_made_at_start() {
    let double = BytehouseDouble::start(DoubleOptions { tls: Tls::SelfSigned, ..DoubleOptions::default() })
        .await
        .unwrap();
    let mut trusting = options(&double);
    let mut tls = TlsOptions::default();
    tls.root_certificate = Some(Pem::Text(double.ca_pem().unwrap().into()));
    trusting.tls = Some(tls);
    for host in ["127.0.0.1", "localhost"] {
        trusting.host = host.into();
        let mut client = Client::connect(trusting.clone()).await.unwrap();
        assert_eq!(fetch(&mut client, "SELECT 1").await.unwrap(), [["1"]]);
    }
    let mut distrusting = options(&double);
    distrusting.tls = Some(TlsOptions::default());
    assert!(Client::connect(distrusting).await.is_err());
    assert!(Client::connect(options(&double)).await.is_err(), "plain TCP to a port with TLS");
    let plain = start().await;
    assert_eq!(plain.ca_pem(), None);
    trusting.port = plain.addr().port();
    assert!(Client::connect(trusting).await.is_err(), "TLS to a plain port");
}
