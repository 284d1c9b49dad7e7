//! Checkpoints: golden form, refusals, and the file store.

use std::fs;

use connector_core::{
    Checkpoint, CheckpointStore, ErrorKind, FileCheckpointStore, FlushToken, Split,
    checkpoint::PendingFlush,
    memory::{MemoryOffset, MemorySplit},
};
use proptest::prelude::*;

fn split(name: &str, offset: u64) -> MemorySplit {
    serde_json::from_value(serde_json::json!({"name": name, "offset": offset})).unwrap()
}

fn checkpoint(offset: u64) -> Checkpoint {
    Checkpoint::new("memory", &[split("a", offset), split("b", 0)]).unwrap()
}

#[test]
fn the_golden_file_of_version_1_still_reads_and_is_still_written() {
    let golden = include_str!("../golden/checkpoint-v1.json");
    let pending = PendingFlush {
        token: FlushToken::new("0123abcd").unwrap(),
        until: vec![serde_json::json!({"name": "a", "offset": 9})],
    };
    let checkpoint = checkpoint(7).with_pending(vec![pending]);
    assert_eq!(checkpoint.to_json().unwrap(), golden.trim_end());
    assert_eq!(Checkpoint::from_json(golden).unwrap(), checkpoint);
    let splits: Vec<MemorySplit> = checkpoint.splits("memory").unwrap();
    assert_eq!(splits[0].offset(), Some(&MemoryOffset(7)));
}

#[test]
fn what_cannot_be_used_is_refused_with_its_own_kind() {
    let other = checkpoint(1).splits::<MemorySplit>("kafka").unwrap_err();
    assert_eq!(other.kind(), ErrorKind::CheckpointInvalid);
    assert!(other.message().contains("written by `memory`"), "{other}");
    let newer = r#"{"version": 2, "anything": []}"#;
    let newer = Checkpoint::from_json(newer).unwrap_err();
    assert!(newer.message().contains("version 2"), "{newer}");
    let format = r#"{"version": 1, "connector": "memory", "format_version": 9, "splits": []}"#;
    let format = Checkpoint::from_json(format).unwrap().splits::<MemorySplit>("memory").unwrap_err();
    assert!(format.message().contains("format version 9"), "{format}");
    for damaged in ["", "{", "[]", r#"{"version": 1}"#, r#"{"version": 1, "connector": 3}"#] {
        assert_eq!(
            Checkpoint::from_json(damaged).unwrap_err().kind(),
            ErrorKind::CheckpointInvalid,
            "{damaged}"
        );
    }
}

proptest! {
    #[test]
    fn checkpoints_go_there_and_back(offsets in prop::collection::vec((".{0,12}", any::<u64>()), 0..8)) {
        let splits: Vec<MemorySplit> = offsets.iter().map(|(name, offset)| split(name, *offset)).collect();
        let checkpoint = Checkpoint::new("memory", &splits).unwrap();
        let back = Checkpoint::from_json(&checkpoint.to_json().unwrap()).unwrap();
        prop_assert_eq!(back.splits::<MemorySplit>("memory").unwrap(), splits);
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        if let Err(error) = Checkpoint::from_json(&text) {
            prop_assert_eq!(error.kind(), ErrorKind::CheckpointInvalid);
        }
    }
}

#[tokio::test]
async fn the_file_store_keeps_the_newest_few() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    {
        let store = FileCheckpointStore::open(&path).unwrap();
        assert_eq!(store.load().await.unwrap(), None);
        for offset in 0..10 {
            store.store(&checkpoint(offset)).await.unwrap();
            assert_eq!(store.load().await.unwrap(), Some(checkpoint(offset)));
        }
        let busy = FileCheckpointStore::open(&path).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Conflict);
    }
    let files = fs::read_dir(&path)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("checkpoint-"));
    assert_eq!(files.count(), 3);
    let store = FileCheckpointStore::open(&path).unwrap();
    assert_eq!(store.load().await.unwrap(), Some(checkpoint(9)));
}

#[tokio::test]
async fn a_crash_while_writing_leaves_the_one_before_and_damage_is_never_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileCheckpointStore::open(folder.path()).unwrap();
    store.store(&checkpoint(5)).await.unwrap();
    // What a crash before the rename leaves behind.
    fs::write(folder.path().join("checkpoint.tmp"), "{\"version\": 1, \"conn").unwrap();
    assert_eq!(store.load().await.unwrap(), Some(checkpoint(5)));
    store.store(&checkpoint(6)).await.unwrap();
    assert_eq!(store.load().await.unwrap(), Some(checkpoint(6)));
    fs::write(folder.path().join("checkpoint-000000000099.json"), "half").unwrap();
    let damaged = store.load().await.unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::CheckpointInvalid);
    assert!(damaged.context_value("file").is_some(), "{damaged}");
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_its_path() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = FileCheckpointStore::open(file.path().join("below")).unwrap_err();
    assert!(error.context_value("path").is_some(), "{error}");
}
