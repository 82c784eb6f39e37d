//! Small tokenizers of every common family, built here so that no model files are needed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// About two hundred words of three syllables.
pub fn words() -> Vec<String> {
    let syllables = ["ba", "ko", "ri", "tu", "se", "mo"];
    let mut words = Vec::new();
    for one in syllables {
        for two in syllables {
            for three in syllables {
                words.push(format!("{one}{two}{three}"));
            }
        }
    }
    words
}

/// Every family with its name.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("byte-level BPE", byte_level()),
        ("byte-level BPE by regular expression", split_by_regex()),
        ("BPE without a pre-tokenizer", sentencepiece_bpe()),
        ("unigram", unigram()),
        ("word piece", word_piece()),
        ("bytes alone", bytes_alone()),
        ("characters", characters()),
    ]
}

/// As in GPT-2 and Llama 3: the pre-tokenizer cuts before spaces, and `<s>` is prepended.
pub fn byte_level() -> Value {
    let mut vocabulary = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    vocabulary.extend(byte_alphabet());
    let mut merges = Vec::new();
    for start in ["Ġ", ""] {
        for word in words() {
            let letters: Vec<String> = start.chars().chain(word.chars()).map(String::from).collect();
            for end in 1..letters.len() {
                let pair = (letters[..end].concat(), letters[end].clone());
                if !merges.contains(&pair) {
                    vocabulary.push(format!("{}{}", pair.0, pair.1));
                    merges.push(pair);
                }
            }
        }
    }
    tokenizer(
        json!({ "type": "BPE", "vocab": numbered(&vocabulary), "merges": merges, "byte_fallback": false, "ignore_merges": false }),
        Value::Null,
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true }),
        &[(0, "<unk>"), (1, "<s>"), (2, "</s>")],
        framed(Some(("<s>", 1)), None),
    )
}

/// As in Llama 3 and Qwen: the file contains the regular expression.
fn split_by_regex() -> Value {
    let mut tokenizer = byte_level();
    tokenizer["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": [
        { "type": "Split", "pattern": { "Regex": r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+" }, "behavior": "Isolated", "invert": false },
        { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
    ]});
    tokenizer
}

/// As in Llama 2: the model receives the whole text as one piece.
fn sentencepiece_bpe() -> Value {
    let mut vocabulary = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    vocabulary.extend((0..=255).map(|byte: u8| format!("<0x{byte:02X}>")));
    vocabulary.push("▁".to_owned());
    vocabulary.extend(('a'..='z').map(String::from));
    let mut merges = Vec::new();
    for word in words() {
        let letters: Vec<String> = "▁".chars().chain(word.chars()).map(String::from).collect();
        for end in 1..letters.len() {
            let pair = (letters[..end].concat(), letters[end].clone());
            if !merges.contains(&pair) {
                vocabulary.push(format!("{}{}", pair.0, pair.1));
                merges.push(pair);
            }
        }
    }
    tokenizer(
        json!({ "type": "BPE", "vocab": numbered(&vocabulary), "merges": merges, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "ignore_merges": false }),
        json!({ "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
        ]}),
        Value::Null,
        &[(0, "<unk>"), (1, "<s>"), (2, "</s>")],
        framed(Some(("<s>", 1)), None),
    )
}

/// As in T5: the unigram model of SentencePiece, with `</s>` at the end.
fn unigram() -> Value {
    let mut vocabulary = vec![
        json!(["<pad>", 0.0]),
        json!(["</s>", 0.0]),
        json!(["<unk>", 0.0]),
        json!(["▁", -4.0]),
    ];
    vocabulary.extend(words().iter().map(|word| json!([format!("▁{word}"), -6.0])));
    vocabulary.extend(('a'..='z').map(|letter| json!([letter.to_string(), -9.0])));
    tokenizer(
        json!({ "type": "Unigram", "unk_id": 2, "vocab": vocabulary, "byte_fallback": false }),
        Value::Null,
        json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true }),
        &[(0, "<pad>"), (1, "</s>"), (2, "<unk>")],
        framed(None, Some(("</s>", 1))),
    )
}

/// As in BERT: pieces within words are marked, not spaces.
fn word_piece() -> Value {
    let mut vocabulary: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[unused0]"]
        .map(str::to_owned)
        .into();
    vocabulary.extend(words());
    vocabulary.extend(('a'..='z').map(|letter| format!("##{letter}")));
    tokenizer(
        json!({ "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": numbered(&vocabulary) }),
        json!({ "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true }),
        json!({ "type": "BertPreTokenizer" }),
        &[(0, "[PAD]"), (1, "[UNK]"), (2, "[CLS]"), (3, "[SEP]")],
        framed(Some(("[CLS]", 2)), Some(("[SEP]", 3))),
    )
}

/// Every byte is a token, spaces included.
fn bytes_alone() -> Value {
    tokenizer(
        json!({ "type": "BPE", "vocab": numbered(&byte_alphabet()), "merges": [] }),
        Value::Null,
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true }),
        &[],
        Value::Null,
    )
}

/// Every letter is a token, and nothing splits the text.
fn characters() -> Value {
    let vocabulary: Vec<String> = " abcdefghijklmnopqrstuvwxyz".chars().map(String::from).collect();
    tokenizer(
        json!({ "type": "BPE", "vocab": numbered(&vocabulary), "merges": [] }),
        Value::Null,
        Value::Null,
        &[],
        Value::Null,
    )
}

/// A vocabulary without letters, so no text can be built from it.
pub fn digits() -> Value {
    let vocabulary: Vec<String> = ('0'..='9').map(String::from).collect();
    tokenizer(
        json!({ "type": "BPE", "vocab": numbered(&vocabulary), "merges": [] }),
        Value::Null,
        Value::Null,
        &[],
        Value::Null,
    )
}

fn tokenizer(
    model: Value,
    normalizer: Value,
    pre_tokenizer: Value,
    added: &[(u32, &str)],
    post_processor: Value,
) -> Value {
    let added: Vec<Value> = added
        .iter()
        .map(|(id, content)| json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true }))
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": null, "model": model,
    })
}

fn framed(before: Option<(&str, u32)>, after: Option<(&str, u32)>) -> Value {
    let special = |(token, _): (&str, u32)| json!({ "SpecialToken": { "id": token, "type_id": 0 } });
    let text = json!({ "Sequence": { "id": "A", "type_id": 0 } });
    let single: Vec<Value> = before
        .map(special)
        .into_iter()
        .chain([text])
        .chain(after.map(special))
        .collect();
    let known: BTreeMap<&str, Value> = before
        .into_iter()
        .chain(after)
        .map(|(token, id)| (token, json!({ "id": token, "ids": [id], "tokens": [token] })))
        .collect();
    json!({ "type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": known })
}

fn numbered(vocabulary: &[String]) -> BTreeMap<&String, usize> {
    vocabulary.iter().zip(0..).collect()
}

/// The 256 characters that stand for bytes.
fn byte_alphabet() -> Vec<String> {
    tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
        .into_iter()
        .collect::<std::collections::BTreeSet<char>>()
        .into_iter()
        .map(String::from)
        .collect()
}
