//! A double to try other clients against: prints its address, then runs each line of its input as a
//! statement and prints the rows, until the input ends.
//!
//! `cargo run -p bytehouse-testkit --example serve -- [--tls] [--revision N] [--vendor-packets]`

use std::io::{BufRead, Write};

use bytehouse_testkit::{BytehouseDouble, DoubleOptions, Tls};
use connector_core::arrow::util::display::array_value_to_string;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = DoubleOptions { warehouses: vec!["vw-1-default".into()], ..DoubleOptions::default() }
        .with_user("2100::loader", "secret");
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--tls" => options.tls = Tls::SelfSigned,
            "--vendor-packets" => options.vendor_packets = true,
            "--revision" => options.revision = args.next().unwrap_or_default().parse()?,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let double = BytehouseDouble::start(options).await?;
    println!("ADDRESS={}", double.addr());
    if let Some(pem) = double.ca_pem() {
        println!("{pem}");
    }
    let (sender, mut lines) = tokio::sync::mpsc::channel(1);
    // Reading a terminal blocks; the runtime has threads for that.
    let reader = tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        match line.trim() {
            "" => {}
            "log" => double.log().iter().for_each(|entry| println!("{entry:?}")),
            sql => match double.execute(sql) {
                Err(error) => println!("{error}"),
                Ok(rows) => {
                    for row in 0..rows.num_rows() {
                        let cells: Result<Vec<_>, _> =
                            rows.columns().iter().map(|column| array_value_to_string(column, row)).collect();
                        println!("{}", cells?.join("\t"));
                    }
                }
            },
        }
        std::io::stdout().flush()?;
    }
    reader.await?;
    double.stop().await;
    Ok(())
}
