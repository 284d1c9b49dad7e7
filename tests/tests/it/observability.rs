//! The documents name every metric, and no other.

use std::collections::BTreeSet;

/// Where the names are declared.
const DECLARATIONS: [&str; 7] = [
    include_str!("../../../connector-core/src/pipeline/metrics.rs"),
    include_str!("../../../connector-kafka/src/source/metrics.rs"),
    include_str!("../../../connector-kafka/src/sink/metrics.rs"),
    include_str!("../../../connector-fluss/src/source/metrics.rs"),
    include_str!("../../../connector-fluss/src/sink/metrics.rs"),
    include_str!("../../../connector-fluss/src/lookup/metrics.rs"),
    include_str!("../../../connector-bytehouse-cdw/src/metrics.rs"),
];

/// The words of `text` between two `quote`s that are a metric's name.
fn names(text: &str, quote: char) -> BTreeSet<&str> {
    text.split(quote)
        .filter(|word| {
            word.starts_with("connector_") && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        })
        .filter(|word| !["connector_core", "connector_kafka"].contains(word))
        .collect()
}

#[test]
fn the_table_of_metrics_is_what_the_code_declares() {
    let declared: BTreeSet<&str> = DECLARATIONS.into_iter().flat_map(|text| names(text, '"')).collect();
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(names(include_str!("../../../docs/observability.md"), '`'), declared);
}
