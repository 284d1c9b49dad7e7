//! Canal: flat messages as its MQ producer writes them.

use super::*;

fn message(kind: &str, data: &str, old: &str) -> String {
    format!(
        r#"{{"data":{data},"database":"shop","es":1589373515000,"id":3,"isDdl":false,"mysqlType":{{"id":"int(11)","name":"varchar(255)","weight":"decimal(10,3)","at":"datetime(6)","ok":"bit(1)","raw":"blob"}},"old":{old},"pkNames":["id"],"sql":"","sqlType":{{"id":4,"name":12,"weight":3,"at":93,"ok":-7,"raw":2004}},"table":"products","ts":1589373515477,"type":"{kind}"}}"#
    )
}

const CREATE: &str = "create topic (id Int32!, name Utf8, weight Decimal128(10, 3), at Timestamp(µs), ok Boolean, raw Binary) key (id)";

fn row(id: u32, name: &str) -> String {
    format!(
        r#"{{"id":"{id}","name":"{name}","weight":"3.14","at":"2020-05-13 12:38:35.000001","ok":"1","raw":"\u0000ÿ"}}"#
    )
}

#[test]
fn rows_come_many_at_a_time_and_as_texts() {
    let mut split = Split::new(&Changes::canal());
    split.give(&message("INSERT", &format!("[{},{}]", row(1, "a"), row(2, "b")), "null"));
    split.give(&message(
        "UPDATE",
        &format!("[{},{}]", row(1, "c"), row(2, "d")),
        r#"[{"name":"a","weight":"5.17"},{"name":null}]"#,
    ));
    split.give(&message("DELETE", &format!("[{}]", row(2, "d")), "null"));
    let rest = |name: &str, weight: &str| {
        format!("name={name} weight={weight} at=2020-05-13T12:38:35.000001 ok=true raw=00ff")
    };
    assert_eq!(
        split.lines(),
        [
            CREATE.to_owned(),
            format!("+I topic id=1 {}", rest("a", "3.140")),
            format!("+I topic id=2 {}", rest("b", "3.140")),
            format!("-U topic id=1 {}", rest("a", "5.170")),
            format!("+U topic id=1 {}", rest("c", "3.140")),
            format!("-U topic id=2 {}", rest("null", "3.140")),
            format!("+U topic id=2 {}", rest("d", "3.140")),
            format!("-D topic id=2 {}", rest("d", "3.140")),
        ]
    );
}

#[test]
fn a_change_of_the_key_deletes_the_old_row() {
    let mut split = Split::new(&Changes::canal().table(id_and_v()));
    let event = r#"{"data":[{"id":"2","v":"a"}],"old":[{"id":"1"}],"type":"UPDATE","isDdl":false}"#;
    assert_eq!(split.give(event).rows(), ["-D topic id=1 v=a", "+I topic id=2 v=a"]);
    // Also where rows of before are not asked for, and where the key is told by the message alone.
    let keyless = table(&[("id!", DataType::Int64), ("v", DataType::Utf8)], &[]);
    let mut split = Split::new(&Changes::canal().table(keyless).before_images(false));
    let event = event.replace(r#""isDdl""#, r#""pkNames":["ID"],"isDdl""#);
    assert_eq!(split.give(&event).rows(), ["-D topic id=1 v=a", "+I topic id=2 v=a"]);
    let update = r#"{"data":[{"id":"2","v":"b"}],"old":[{"v":"a"}],"type":"UPDATE","isDdl":false}"#;
    assert_eq!(split.give(update).rows(), ["+U topic id=2 v=b"]);
}

#[test]
fn one_bad_row_refuses_its_message_and_no_other() {
    let mut split = Split::new(&Changes::canal().table(id_and_v()));
    split.give(r#"{"data":[{"id":"1","v":"a"}],"type":"INSERT"}"#);
    let refused = split.refused(r#"{"data":[{"id":"2","v":"b"},{"id":"x","v":"c"}],"type":"INSERT"}"#);
    assert_eq!(refused, (JsonErrorKind::InvalidText, "data[1].id".to_owned()));
    split.give(r#"{"data":[{"id":"3","v":"d"}],"type":"INSERT"}"#);
    assert_eq!(split.rows(), ["+I topic id=1 v=a", "+I topic id=3 v=d"]);
    assert_eq!(
        split.refused(r#"{"data":null,"type":"INSERT"}"#),
        (JsonErrorKind::Unexpected, "data".to_owned())
    );
    assert_eq!(split.refused(r#"{"data":[]}"#).0, JsonErrorKind::Unexpected);
    assert_eq!(split.try_give(None, r#"{"type":"QUERY","isDdl":false}"#).unwrap(), Taken::Nothing);
}
