//! temporary
use connector_bytehouse_common::{error::*, wire::*, wire::io::*};
use std::time::Duration;
fn numbers(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varuint(&mut out, 1); put_varuint(&mut out, values.len() as u64);
    put_string(&mut out, b"n"); put_string(&mut out, b"UInt64");
    out.extend(values.iter().flat_map(|v| v.to_le_bytes())); out
}
async fn count(o: &ClientOptions) -> String {
    use connector_core::arrow::{array::AsArray, datatypes::UInt64Type};
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut c = Client::connect(o.clone()).await.unwrap();
    let mut s = c.query("select count() from default.wc_f", &Settings::new()).await.unwrap();
    let mut n = 0;
    while let Some(b) = s.next_block().await.unwrap() { n = b.rows.column(0).as_primitive::<UInt64Type>().value(0); }
    n.to_string()
}
#[tokio::main]
async fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let mut o = ClientOptions::new("127.0.0.1", port); o.compression = compression;
        if std::env::args().nth(2).is_some() { let mut t = TlsOptions::default(); t.verify = Verify::None; o.tls = Some(t); }
        let none = Settings::new();
        let mut c = Client::connect(o.clone()).await.unwrap();
        c.execute("drop table if exists default.wc_f", &none).await.unwrap();
        c.execute("create table default.wc_f (n UInt64) engine=MergeTree order by n", &none).await.unwrap();
        let sql = "INSERT INTO default.wc_f (n) VALUES";
        let big: Vec<u64> = (0..3_000_000u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        for way in 0..5 {
            let mut c = Client::connect(o.clone()).await.unwrap();
            let mut i = c.begin_insert(sql, &none, None).await.unwrap();
            i.send(&numbers(&[1, 2, 3])).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            match way { 0 => i.abort().await, 1 => drop(i), 2 => { std::mem::forget(i); drop(c); }
                3 => { let r = tokio::time::timeout(Duration::from_micros(200), i.send(&numbers(&big))).await; println!("cut send: {}", r.is_err()); drop(i) }
                _ => { i.send(&numbers(&big)).await.unwrap(); drop(i) } }
            println!("{compression:?} way {way}: stored {}", count(&o).await);
        }
        let mut c = Client::connect(o.clone()).await.unwrap();
        let i = c.begin_insert(sql, &none, None).await.unwrap();
        println!("empty insert {:?}", i.finish().await.map(|s| s.blocks)); println!("usable {}", c.is_usable());
        let mut i = c.begin_insert(sql, &none, Some("my-query-id")).await.unwrap();
        i.send(&numbers(&[1, 2, 3])).await.unwrap(); i.send(&numbers(&big)).await.unwrap();
        println!("{:?}", i.finish().await); println!("stored {}", count(&o).await); c.ping().await.unwrap();
        // exceptions
        let e = c.begin_insert("INSERT INTO default.nope (n) VALUES", &none, None).await.unwrap_err(); println!("{e}"); c.ping().await.unwrap();
        let e = c.begin_insert("INSERT INTO default.wc_f (nope) VALUES", &none, None).await.unwrap_err(); println!("{e}"); c.ping().await.unwrap();
        let e = c.begin_insert("create table default.wc_g (n UInt64) engine=Memory", &none, None).await.map(|_| ()); println!("{e:?} {}", c.is_usable());
        let mut c = Client::connect(o.clone()).await.unwrap();
        c.execute("drop table if exists default.wc_g", &none).await.unwrap();
        c.execute("drop table if exists default.wc_p", &none).await.unwrap();
        c.execute("create table default.wc_p (n UInt64) engine=MergeTree partition by n order by n", &none).await.unwrap();
        let t = std::time::Instant::now();
        let mut i = c.begin_insert("INSERT INTO default.wc_p (n) VALUES", &none, None).await.unwrap();
        let mut r = Ok(()); let mut sent = 0;
        for k in 0..400u64 { r = i.send(&numbers(&(k * 1000..k * 1000 + 100_000).collect::<Vec<_>>())).await; if r.is_err() { break } sent += 1; }
        println!("mid insert after {sent} blocks, {:?}: {:?}", t.elapsed(), r);
        let e = match r { Ok(()) => i.finish().await.unwrap_err(), Err(e) => { drop(i); e } };
        println!("{e} rule {:?} unknown {}", retry_rule(&e), outcome_unknown(&e));
        let mut c = Client::connect(o.clone()).await.unwrap();
        let e = c.execute("select 1", &Settings::new().with("no_such_setting", 1)).await; println!("unknown setting: {e:?} {}", c.is_usable());
        let mut c = Client::connect(o.clone()).await.unwrap();
        let mut all = Settings::new(); all.set("max_threads", 3).set("totals_auto_threshold", "0.25").set("load_balancing", "in_order").set("extremes", true).set("max_execution_time", 77).set("distributed_product_mode", "allow").set("network_zstd_compression_level", 2);
        let mut s = c.query("select name, value from system.settings where changed order by name", &all).await.unwrap();
        while let Some(b) = s.next_block().await.unwrap() { use connector_core::arrow::array::AsArray;
            for r in 0..b.rows.num_rows() { print!("{}={} ", b.rows.column(0).as_string::<i32>().value(r), b.rows.column(1).as_string::<i32>().value(r)); } }
        println!("extremes {} totals {}", s.extremes().is_some(), s.totals().is_some());
        drop(s); let mut s = c.query("select 1 as a, sum(number) from (select * from system.numbers limit 10) group by a with totals", &Settings::new().with("send_logs_level", "trace")).await.unwrap();
        while let Some(_) = s.next_block().await.unwrap() {}
        println!("totals {} {:?}", s.totals().is_some(), s.summary()); drop(s);
        let mut o2 = o.clone(); o2.query_timeout = Some(Duration::from_millis(300));
        let mut c = Client::connect(o2).await.unwrap();
        let t = std::time::Instant::now(); let e = c.execute("select sum(number) from (select number, sleep(0.01) from system.numbers)", &Settings::new().with("max_block_size", 1)).await; println!("{e:?} {:?}", t.elapsed());
    }
}
