//! A small random Llama for llama.cpp: a GGUF file and a tokenizer.json that counts the same tokens.
//!
//! Format: GGUF specification, version 3 (ggml, docs/gguf.md). The shape serves one purpose. The KV cache is large (64
//! KiB per token: 16 layers × K and V × 4 heads × 256 × 2 bytes), while weights and computation are small. So the
//! context length alone decides whether the kernel kills the server, and a probe takes a second on two cores.

use std::fs;
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const LAYERS: u32 = 16;
const EMBEDDING: u32 = 64;
const HEADS: u32 = 4;
const HEAD: u32 = 256;
const FEED_FORWARD: u32 = 128;
const CONTEXT: u32 = 65_536;

/// Bytes of KV cache per token, at two bytes per element.
pub const KV_BYTES_PER_TOKEN: u64 = 2 * LAYERS as u64 * (HEADS * HEAD) as u64 * 2;

/// Writes `tiny.gguf` and `tokenizer.json` into `folder`. Returns the path of the former.
pub fn write(folder: &Path) -> PathBuf {
    let vocabulary = Vocabulary::new();
    let path = folder.join("tiny.gguf");
    fs::write(&path, gguf(&vocabulary)).unwrap();
    fs::write(folder.join("tokenizer.json"), vocabulary.tokenizer_json()).unwrap();
    path
}

/// Its `tokenizer.json` alone.
pub fn tokenizer() -> String {
    Vocabulary::new().tokenizer_json()
}

/// Byte-level BPE: two special tokens, the 256 bytes, and each lowercase letter with a leading space.
struct Vocabulary {
    tokens: Vec<String>,
    merges: Vec<String>,
}

impl Vocabulary {
    fn new() -> Self {
        let mut tokens: Vec<String> = vec!["<s>".into(), "</s>".into()];
        tokens.extend((0..=255).map(|byte| byte_symbol(byte).to_string()));
        let mut merges = Vec::new();
        for letter in 'a'..='z' {
            merges.push(format!("Ġ {letter}"));
            tokens.push(format!("Ġ{letter}"));
        }
        Self { tokens, merges }
    }

    fn tokenizer_json(&self) -> String {
        let vocab: serde_json::Map<_, _> = self
            .tokens
            .iter()
            .enumerate()
            .map(|(id, token)| (token.clone(), id.into()))
            .collect();
        let special = |id: usize| {
            serde_json::json!({"id": id, "content": self.tokens[id], "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true})
        };
        let byte_level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special(0), special(1)],
            "normalizer": null, "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": self.merges},
        })
        .to_string()
    }
}

/// The printable character for a byte in byte-level BPE vocabularies, as GPT-2 defined it.
fn byte_symbol(byte: u8) -> char {
    let plain = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    if plain(byte) {
        char::from(byte)
    } else {
        let rank = (0..byte).filter(|&other| !plain(other)).count();
        char::from_u32(256 + u32::try_from(rank).unwrap()).unwrap()
    }
}

fn gguf(vocabulary: &Vocabulary) -> Vec<u8> {
    let count = u32::try_from(vocabulary.tokens.len()).unwrap();
    let mut meta = Meta::default();
    meta.text("general.architecture", "llama");
    meta.text("general.name", "random");
    for (key, value) in [
        ("llama.block_count", LAYERS),
        ("llama.context_length", CONTEXT),
        ("llama.embedding_length", EMBEDDING),
        ("llama.feed_forward_length", FEED_FORWARD),
        ("llama.attention.head_count", HEADS),
        ("llama.attention.head_count_kv", HEADS),
        ("llama.attention.key_length", HEAD),
        ("llama.attention.value_length", HEAD),
        ("llama.rope.dimension_count", HEAD),
        ("llama.vocab_size", count),
        ("tokenizer.ggml.bos_token_id", 0),
        ("tokenizer.ggml.eos_token_id", 1),
    ] {
        meta.number(key, value);
    }
    meta.float("llama.attention.layer_norm_rms_epsilon", 1e-5);
    meta.text("tokenizer.ggml.model", "gpt2");
    meta.text("tokenizer.ggml.pre", "default");
    meta.texts("tokenizer.ggml.tokens", &vocabulary.tokens);
    meta.texts("tokenizer.ggml.merges", &vocabulary.merges);
    // 3: a control token; 1: a normal one.
    meta.numbers(
        "tokenizer.ggml.token_type",
        (0..count).map(|id| if id < 2 { 3 } else { 1 }),
    );
    meta.flag("tokenizer.ggml.add_bos_token", false);

    let tensors = tensors(count);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut infos, mut data) = (Vec::new(), Vec::new());
    for (name, shape) in &tensors {
        put_text(&mut infos, name);
        infos.extend(u32::try_from(shape.len()).unwrap().to_le_bytes());
        shape
            .iter()
            .for_each(|&size| infos.extend(u64::from(size).to_le_bytes()));
        infos.extend(0_u32.to_le_bytes()); // F32
        infos.extend((data.len() as u64).to_le_bytes());
        for _ in 0..shape.iter().product::<u32>() {
            let value: f32 = if name.contains("norm") {
                1.0
            } else {
                random.random_range(-0.1..0.1)
            };
            data.extend(value.to_le_bytes());
        }
        pad(&mut data);
    }

    let mut file = b"GGUF".to_vec();
    file.extend(3_u32.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend(meta.count.to_le_bytes());
    file.extend(meta.bytes);
    file.extend(infos);
    pad(&mut file);
    file.extend(data);
    file
}

fn tensors(vocabulary: u32) -> Vec<(String, Vec<u32>)> {
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), vec![EMBEDDING, vocabulary]),
        ("output_norm.weight".to_owned(), vec![EMBEDDING]),
        ("output.weight".to_owned(), vec![EMBEDDING, vocabulary]),
    ];
    for layer in 0..LAYERS {
        for (part, shape) in [
            ("attn_norm", vec![EMBEDDING]),
            ("ffn_norm", vec![EMBEDDING]),
            ("attn_q", vec![EMBEDDING, HEADS * HEAD]),
            ("attn_k", vec![EMBEDDING, HEADS * HEAD]),
            ("attn_v", vec![EMBEDDING, HEADS * HEAD]),
            ("attn_output", vec![HEADS * HEAD, EMBEDDING]),
            ("ffn_gate", vec![EMBEDDING, FEED_FORWARD]),
            ("ffn_up", vec![EMBEDDING, FEED_FORWARD]),
            ("ffn_down", vec![FEED_FORWARD, EMBEDDING]),
        ] {
            tensors.push((format!("blk.{layer}.{part}.weight"), shape));
        }
    }
    tensors
}

/// The metadata section: keys and values.
#[derive(Default)]
struct Meta {
    count: u64,
    bytes: Vec<u8>,
}

impl Meta {
    fn key(&mut self, key: &str, kind: u32) {
        self.count += 1;
        put_text(&mut self.bytes, key);
        self.bytes.extend(kind.to_le_bytes());
    }

    fn number(&mut self, key: &str, value: u32) {
        self.key(key, 4);
        self.bytes.extend(value.to_le_bytes());
    }

    fn float(&mut self, key: &str, value: f32) {
        self.key(key, 6);
        self.bytes.extend(value.to_le_bytes());
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.key(key, 7);
        self.bytes.push(value.into());
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        put_text(&mut self.bytes, value);
    }

    fn array(&mut self, key: &str, kind: u32, length: usize) {
        self.key(key, 9);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((length as u64).to_le_bytes());
    }

    fn texts(&mut self, key: &str, values: &[String]) {
        self.array(key, 8, values.len());
        values.iter().for_each(|value| put_text(&mut self.bytes, value));
    }

    fn numbers(&mut self, key: &str, values: impl ExactSizeIterator<Item = i32>) {
        self.array(key, 5, values.len());
        values.for_each(|value| self.bytes.extend(value.to_le_bytes()));
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Pads to 32 bytes, the alignment of sections and tensors.
fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(32), 0);
}
