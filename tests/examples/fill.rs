//! temp
#![allow(clippy::all)]
use connector_tests::{services, orders::Aggregates};
#[tokio::main]
async fn main() {
    let kafka = services::kafka().unwrap();
    let t = std::time::Instant::now();
    let topic = connector_tests::unique_name("fill");
    kafka.create_topic(&topic, 4, &[]).await;
    kafka.produce_orders(&topic, 0..1_000_000, 4).await;
    println!("produced {:?}", t.elapsed());
    let t = std::time::Instant::now();
    let a = Aggregates::of(0..1_000_000);
    println!("expected {:?} {a:?}", t.elapsed());
    for p in 0..4 { println!("{:?}", kafka.watermarks(&topic, p).await); }
}
