//! The nearest known name to a mistyped one.

/// The prefixes that DataSail keys may be given without.
pub(crate) const SHORT_PREFIXES: [&str; 3] = ["job.reader.", "job.writer.", "job.common."];

/// The key without its DataSail prefix; `None` when it has none.
pub(crate) fn short_form(key: &str) -> Option<&str> {
    SHORT_PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix))
}

/// From this similarity on a name is worth a hint.
const SIMILAR: f64 = 0.8;

/// The candidate most like `name`, if one is alike enough. Case, DataSail prefixes and the difference
/// between `.`, `-` and `_` do not count.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| short_form(text).unwrap_or(text).to_lowercase().replace(['.', '-'], "_");
    let wanted = plain(name);
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro(&wanted, &plain(candidate)), candidate))
        .filter(|(score, _)| *score >= SIMILAR)
        // The first of equals stays: lists begin with the names that people should use.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known =
            ["job.reader.start_offset", "job.reader.start_timestamp", "sink.buffer-flush.interval", "host"];
        for (typed, near) in [
            ("start_ofset", Some(known[0])),
            ("job.reader.startOffset", Some(known[0])),
            ("job.writer.start_offset", Some(known[0])),
            ("start-timestamp", Some(known[1])),
            ("sink.buffer_flush.intervall", Some(known[2])),
            ("HOST", Some(known[3])),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), near, "{typed}");
        }
    }
}
