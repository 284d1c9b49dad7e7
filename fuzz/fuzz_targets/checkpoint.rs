#![no_main]

use connector_core::Checkpoint;
use connector_kafka::KafkaSplit;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(checkpoint) = Checkpoint::from_json(text) else { return };
    // What was read can be stored, and is then read as the same.
    let stored = checkpoint.to_json().expect("a checkpoint that was read can be written");
    let again = Checkpoint::from_json(&stored).expect("a checkpoint that was written can be read");
    assert_eq!(again.to_json().expect("it can be written again"), stored);
    if let Ok(splits) = checkpoint.splits::<KafkaSplit>("kafka") {
        assert_eq!(splits.len(), checkpoint.num_splits());
        Checkpoint::new("kafka", &splits).expect("splits can be stored");
    }
});
