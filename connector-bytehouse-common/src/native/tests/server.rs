//! scratch: random blocks through a real server's HTTP interface
use std::{io::{Read, Write}, net::TcpStream, sync::Arc};
use proptest::{prelude::*, strategy::ValueTree, test_runner::{TestRunner, Config, RngSeed}};
use super::{super::*, generate::*, *};

fn post(addr: &str, sql: &str, body: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let q: String = sql.bytes().map(|b| format!("%{b:02X}")).collect();
    let extra = if addr.ends_with("26") { "&allow_suspicious_low_cardinality_types=1&enable_time_time64_type=1&allow_experimental_nullable_tuple_type=1&async_insert=0&output_format_native_write_json_as_string=1" } else { "" };
    let port = if addr.ends_with("26") { 38226 } else { 18218 };
    let mut s = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(s, "POST /?query={q}{extra} HTTP/1.0\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    s.write_all(body).unwrap();
    let mut all = Vec::new(); s.read_to_end(&mut all).unwrap();
    let at = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&all[..at]).to_string();
    let mut rest = all[at+4..].to_vec();
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") { let mut out = vec![]; let mut r = &rest[..]; loop { let e = r.windows(2).position(|w| w == b"\r\n").unwrap(); let n = usize::from_str_radix(std::str::from_utf8(&r[..e]).unwrap(), 16).unwrap(); if n == 0 { break } out.extend_from_slice(&r[e+2..e+2+n]); r = &r[e+4+n..]; } rest = out; }
    if head.contains(" 200 ") { Ok(rest) } else { Err(String::from_utf8_lossy(&rest).chars().take(300).collect()) }
}

fn through(addr: &str, cases: u32) {
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(77), ..Config::default() });
    let (mut sent, mut refused) = (0, std::collections::BTreeMap::<String, (usize, String)>::new());
    let mut leaf_ok = std::collections::BTreeSet::new();
    for case in 0..cases {
        let ty = any_type().new_tree(&mut runner).unwrap().current();
        let text = ty.to_string();
        if text.contains("JSON") || text.contains("Object(") { continue }
        let ty: ChType = text.replace(" Time(", " Time64(").replace("(Time(", "(Time64(").parse().unwrap();
        let mut text = if text.starts_with("Time(") { text.replacen("Time(", "Time64(", 1) } else { ty.to_string() };
        for z in ["UTC", "Asia/Shanghai", "America/New_York"] { text = text.replace(&format!("('{z}')"), "").replace(&format!(", '{z}'"), ""); }
        let ty: ChType = text.parse().unwrap();
        post(addr, "DROP TABLE IF EXISTS t_codec", b"").unwrap();
        if let Err(e) = post(addr, &format!("CREATE TABLE t_codec (i UInt32, c {text}) ENGINE = Memory"), b"") {
            let code: String = e.chars().take(11).collect(); let r = refused.entry(code).or_default(); r.0 += 1; r.1 = format!("{text}: {e}"); continue;
        }
        let rows = 1 + (case as usize * 7) % 150;
        let array = values(&ty, rows + 2, false, &mut Dice::new(case.into())).slice(1, rows);
        let order: ArrayRef = Arc::new(connector_core::arrow::array::UInt32Array::from_iter_values(0..rows as u32));
        let batch = batch(&[("i", order), ("c", Arc::clone(&array))]);
        let columns = [ColumnDef::parse("i", "UInt32").unwrap(), ColumnDef::parse("c", text.clone()).unwrap()];
        let mut bytes = vec![];
        BlockEncoder::new(&batch.schema(), &columns, &EncodeRules::default()).unwrap().encode(&batch, &mut bytes).unwrap();
        if let Err(e) = post(addr, "INSERT INTO t_codec FORMAT Native", &bytes) { let code: String = format!("insert {e}").chars().take(18).collect(); let r = refused.entry(code).or_default(); r.0 += 1; r.1 = format!("{text}: {e}"); continue; }
        let back = post(addr, "SELECT * FROM t_codec ORDER BY i FORMAT Native", b"").unwrap();
        let block = read(&back, &ReadOptions::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(block.columns[1].ty, ty, "{text} came back as {}", block.columns[1].type_text());
        if &array != block.rows.column(1) { for r in 0..rows { if array.slice(r,1) != block.rows.column(1).slice(r,1) { panic!("{text} row {r} of {rows}: sent {:?} got {:?}", array.slice(r,1), block.rows.column(1).slice(r,1)); } } }
        sent += 1; leaf_ok.insert(text.split(['(', ',', ' ']).next().unwrap().to_owned());
    }
    println!("{addr}: {sent} types went through, kinds {leaf_ok:?}; refused:"); for (c, (n, e)) in refused { println!("  {n} x {c}: {e}"); }
}
fn words(addr: &str) {
    let show = |sql: &str| println!("{addr} {sql} -> {}", post(addr, sql, b"").map(|b| String::from_utf8_lossy(&b).to_string()).unwrap_or_else(|e| e).trim());
    let ins = |ty: &str, array: ArrayRef| { post(addr, "DROP TABLE IF EXISTS t_codec", b"").unwrap(); if let Err(e) = post(addr, &format!("CREATE TABLE t_codec (c {ty}) ENGINE = Memory"), b"") { println!("{addr} {ty}: {e}"); return }
        let bytes = encode_one(array, ty, &EncodeRules::default()).unwrap(); if let Err(e) = post(addr, "INSERT INTO t_codec FORMAT Native", &bytes) { println!("{addr} {ty} insert: {e}"); return }
        show(&format!("SELECT c, '{}' FROM t_codec FORMAT TSV", ty.replace('\'', "")));
        match read(&post(addr, "SELECT c FROM t_codec FORMAT Native", b"").unwrap(), &ReadOptions::default()) { Ok(b) => println!("   back: {} {:?}", b.columns[0].type_text(), b.rows.column(0)), Err(e) => println!("   back: {e}") } };
    use connector_core::arrow::array::*;
    ins("UUID", Arc::new(StringArray::from(vec!["00010203-0405-0607-0809-0a0b0c0d0e0f"])));
    ins("IPv4", Arc::new(StringArray::from(vec!["1.2.3.4"])));
    ins("IPv6", Arc::new(StringArray::from(vec!["2001:db8::1"])));
    ins("JSON", Arc::new(StringArray::from(vec!["{\"a\":1,\"b\":{\"c\":\"x\"}}", "{}"])));
    ins("Nullable(JSON)", Arc::new(StringArray::from(vec![Some("{\"a\":1}"), None])));
    ins("Array(JSON)", { let mut l = builder::ListBuilder::new(builder::StringBuilder::new()); l.append_value([Some("{\"a\":1}")]); Arc::new(l.finish()) });
    ins("Date", Arc::new(Date32Array::from(vec![0, 65535])));
    ins("Date32", Arc::new(Date32Array::from(vec![-25567, 120529])));
    ins("DateTime", Arc::new(TimestampSecondArray::from(vec![0, u32::MAX as i64])));
    ins("DateTime64(3)", Arc::new(TimestampMillisecondArray::from(vec![-2_208_988_800_000, 10_413_791_999_999])));
    ins("DateTime64(9)", Arc::new(TimestampNanosecondArray::from(vec![i64::MAX])));
    ins("Decimal(38, 3)", Arc::new(Decimal128Array::from(vec![-12345]).with_precision_and_scale(38, 3).unwrap()));
    ins("Int256", Arc::new(Int64Array::from(vec![-5])));
    ins("UInt128", Arc::new(UInt64Array::from(vec![u64::MAX])));
    ins("BFloat16", Arc::new(Float32Array::from(vec![1.5])));
    ins("Time64(3)", Arc::new(Time32MillisecondArray::from(vec![3_600_001])));
    ins("Time", Arc::new(Time32SecondArray::from(vec![3_601])));
    ins("Enum8('a' = -3, 'b' = 2)", Arc::new(StringArray::from(vec!["b", "a"])));
    ins("LowCardinality(Nullable(String))", Arc::new(StringArray::from(vec![None, Some("x"), Some("")])));
    ins("Map(String, Array(UInt8))", { let mut m = builder::MapBuilder::new(None, builder::StringBuilder::new(), builder::ListBuilder::new(builder::UInt8Builder::new())); m.keys().append_value("k"); m.values().append_value([Some(1), Some(2)]); m.append(true).unwrap(); Arc::new(m.finish()) });
    for sql in ["SELECT [] AS e, NULL AS n, toIntervalDay(3) AS i FORMAT Native", "SELECT (1, 'a') AS t, [(1,2)] AS l, map('a', 1) AS m FORMAT Native", "DESCRIBE TABLE system.tables FORMAT Native", "SELECT * FROM system.tables LIMIT 50 FORMAT Native", "SELECT * FROM system.columns LIMIT 3000 FORMAT Native", "SELECT number, toString(number) s, toLowCardinality(toString(number % 300)) l, number % 3 = 0 ? NULL : number n FROM numbers(200000) FORMAT Native", "SELECT sumState(1) FORMAT Native", "SELECT number::Dynamic FROM numbers(1) FORMAT Native"] {
        match post(addr, sql, b"") { Err(e) => println!("{sql}: {e}"), Ok(bytes) => { let mut src = SliceSource(&bytes); let mut rows = 0; while !src.0.is_empty() { match run(read_block(&mut src, &ReadOptions::default())) { Ok(b) => { rows += b.rows.num_rows(); if rows < 3 { println!("   {:?}", b.columns.iter().map(|c| c.type_text().to_owned()).collect::<Vec<_>>()) } } Err(e) => { println!("   {e}"); break } } } println!("{sql}: {rows} rows"); } }
    }
}
#[test] fn scratch_26() { words("26"); through("26", 1500); }
#[test] fn scratch_18() { words("18"); through("18", 1500); }
