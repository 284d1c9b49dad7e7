//! Secrets do not show, whatever is printed.

use connector_core::{
    Secret,
    options::{MASK, RawOptions},
};

use super::sets::{WellPipelineOptions, WellSourceOptions};

/// Every value that must not show holds this.
const HIDDEN: &str = "hunter2";

fn source() -> WellSourceOptions {
    WellSourceOptions::builder()
        .bootstrap_servers("h:1")
        .topics("t")
        .password(Secret::new(HIDDEN))
        .properties([
            ("acks", "all"),
            ("sasl.password", HIDDEN),
            ("ssl.key.pem", HIDDEN),
            ("sasl.jaas.config", "Module required password=\"hunter2\";"),
            ("sasl.oauthbearer.client.secret", HIDDEN),
            ("proxy", "https://user:hunter2@proxy"),
        ])
        .build()
        .unwrap()
}

#[test]
fn neither_structs_nor_builders_nor_files_show_a_secret() {
    let options = source();
    let raw: RawOptions = [("password", HIDDEN)].into_iter().collect();
    let pipeline = WellPipelineOptions::builder()
        .host("h")
        .api_token(Secret::new(HIDDEN))
        .create_settings("a=1,s3_secret='hunter2'")
        .build()
        .unwrap();
    for shown in [
        format!("{options:?}"),
        format!("{options:#?}"),
        format!("{:?}", options.to_builder()),
        format!("{:?}", options.to_options()),
        serde_json::to_string(&options).unwrap(),
        format!("{raw:?}"),
        format!("{pipeline:?}"),
        format!("{:?}", pipeline.create_settings),
        pipeline.create_settings.as_ref().unwrap().to_string(),
        serde_json::to_string(&pipeline).unwrap(),
        options.properties.as_ref().unwrap().to_string(),
    ] {
        assert!(!shown.contains(HIDDEN), "{shown}");
    }
    let json: serde_json::Value = serde_json::to_value(&options).unwrap();
    assert_eq!(json["job.reader.password"], MASK);
    assert_eq!(json["job.reader.properties"]["sasl.password"], MASK);
    assert_eq!(json["job.reader.properties"]["acks"], "all");
    assert_eq!(options.password.unwrap().expose(), HIDDEN);
    assert_eq!(options.properties.unwrap().get("ssl.key.pem"), Some(HIDDEN));
}

#[test]
fn errors_do_not_show_a_secret() {
    let pairs = |more: &[(&str, &str)]| {
        let all = [("host", "h"), ("api-token", HIDDEN)].iter().chain(more).copied().collect::<Vec<_>>();
        WellPipelineOptions::from_options(all).unwrap_err()
    };
    for error in [
        pairs(&[("sink.ratio", "x")]),
        pairs(&[("api-token", HIDDEN)]),
        pairs(&[("api_token", HIDDEN)]),
        pairs(&[("table.create.settings", "a='hunter2")]),
        pairs(&[("table.create.settings", "a=1,hunter2")]),
        WellSourceOptions::from_options([("properties", "{\"sasl.password\": \"hunter2\", x}")]).unwrap_err(),
        WellSourceOptions::from_options([("properties", HIDDEN)]).unwrap_err(),
    ] {
        for shown in [format!("{error}"), format!("{error:?}")] {
            assert!(!shown.contains(HIDDEN), "{shown}");
        }
    }
    let error =
        serde_json::from_str::<WellSourceOptions>(r#"{"password": ["hunter2"], "properties": ["hunter2"]}"#);
    let shown = error.unwrap_err().to_string();
    assert!(!shown.contains(HIDDEN) && shown.contains("`password`: the value must be text"), "{shown}");
}
