use serde_json::json;

use super::*;

#[test]
fn the_ends_of_an_unknown_vocabulary_are_left_out() {
    let ids = for_vocabulary_size(32_000).unwrap();
    assert_eq!((ids[0], *ids.last().unwrap()), (8_000, 23_999));
    assert!(for_vocabulary_size(1).is_err());
    assert!(for_vocabulary_size(0).is_err());
    assert_eq!(
        for_vocabulary_size(u32::MAX / 1000).unwrap().len() as u32,
        u32::MAX / 1000 - 2 * (u32::MAX / 4000)
    );
}

#[test]
fn reserved_tokens_are_distinguished_from_words() {
    for token in [
        "<unk>",
        "[PAD]",
        "[unused3]",
        "<0x0A>",
        "<|reserved_special_token_1|>",
        "",
    ] {
        assert!(is_reserved(token), "{token}");
    }
    for token in ["<", ">", "[]", "a", "Ġthe", "▁the", "##ing", "<a"] {
        assert!(!is_reserved(token), "{token}");
    }
}

#[test]
fn vocabulary_size_and_special_ids_are_read_from_either_part() {
    let config = json!({ "text_config": { "vocab_size": 9, "eos_token_id": [1, 106] }, "bos_token_id": 2, "pad_token_id": null });
    assert_eq!(size(&config), Some(9));
    assert_eq!(ends(&config), HashSet::from([1, 2, 106]));
    assert_eq!(size(&Value::Null), None);
    assert!(ends(&Value::Null).is_empty());
}
