//! A user sends prompts of exactly N tokens, as counted by the tokenizers library itself.

pub mod families;

use std::collections::HashSet;

use profiler::fault::Kind;
use profiler::prompt::{Content, Files, MAX_TOKENS, PromptForm, PromptSpec, Prompts, Tokenizer};
use serde_json::{Value, json};

use super::script::bench::Bench;
use super::support::temp;

const CHAT: &str =
    "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'] | trim }}\n{% endfor %}assistant:";

fn files(tokenizer: &Value) -> Files {
    Files {
        tokenizer: tokenizer.to_string().into_bytes(),
        ..Files::default()
    }
}

fn prompts(tokenizer: &Value, seed: u64) -> Prompts {
    Prompts::new(Tokenizer::new(&files(tokenizer)).unwrap(), seed).unwrap()
}

/// The library alone, without our code.
fn library(tokenizer: &Value) -> tokenizers::Tokenizer {
    tokenizers::Tokenizer::from_bytes(tokenizer.to_string()).unwrap()
}

fn encoded(library: &tokenizers::Tokenizer, text: &str, special: bool) -> Vec<u32> {
    library.encode(text, special).unwrap().get_ids().to_vec()
}

#[track_caller]
fn text(prompts: &Prompts, ask: PromptSpec) -> String {
    match prompts.make(&ask).unwrap() {
        Content::Text(text) => text,
        Content::Tokens(_) => panic!("ids instead of text"),
    }
}

#[track_caller]
fn ids(prompts: &Prompts, ask: PromptSpec) -> Vec<u32> {
    match prompts.make(&ask).unwrap() {
        Content::Tokens(ids) => ids,
        Content::Text(_) => panic!("text instead of ids"),
    }
}

#[test]
fn text_re_encodes_to_exactly_n_with_every_family() {
    for (family, tokenizer) in families::all() {
        let library = library(&tokenizer);
        for seed in 0..3 {
            let prompts = prompts(&tokenizer, seed);
            for n in (10..60).chain([127, 500, 1001, 2048]) {
                let text = text(&prompts, PromptSpec::text(n));
                assert_eq!(encoded(&library, &text, true).len(), n, "{family}, seed {seed}: {text}");
            }
        }
    }
}

#[test]
fn no_two_texts_begin_alike() {
    for (family, tokenizer) in families::all() {
        let library = library(&tokenizer);
        let prompts = prompts(&tokenizer, 7);
        let specials = encoded(&library, "", true);
        let mut firsts = HashSet::new();
        // One for each letter: families without words begin with single letters.
        for _ in 0..26 {
            let ids = encoded(&library, &text(&prompts, PromptSpec::text(40)), true);
            let first = ids.iter().find(|id| !specials.contains(id)).copied();
            assert!(firsts.insert(first), "{family}: {first:?} twice");
        }
    }
}

#[test]
fn texts_share_what_was_asked_and_no_more() {
    let tokenizer = families::byte_level();
    let library = library(&tokenizer);
    let prompts = prompts(&tokenizer, 1);
    for shared in [1, 2, 3, 17, 90] {
        let ask = PromptSpec {
            shared_prefix: shared,
            ..PromptSpec::text(100)
        };
        let one = encoded(&library, &text(&prompts, ask), true);
        let two = encoded(&library, &text(&prompts, ask), true);
        let common = one.iter().zip(&two).take_while(|(one, two)| one == two).count();
        assert_eq!((one.len(), two.len(), common), (100, 100, shared));
    }
}

#[test]
fn a_chat_message_counts_with_its_template() {
    for (family, tokenizer) in families::all() {
        let special = family.contains("byte-level");
        let files = Files {
            tokenizer_config: json!({ "bos_token": if special { "<s>" } else { "" }, "chat_template": CHAT }),
            ..files(&tokenizer)
        };
        let prompts = Prompts::new(Tokenizer::new(&files).unwrap(), 3).unwrap();
        assert_eq!(prompts.chat_unknown(), None);
        let library = library(&tokenizer);
        for n in [60, 100, 777] {
            let ask = PromptSpec {
                chat: true,
                ..PromptSpec::text(n)
            };
            let message = text(&prompts, ask);
            let bos = if special { "<s>" } else { "" };
            let rendered = format!("{bos}user: {message}\nassistant:");
            assert_eq!(encoded(&library, &rendered, false).len(), n, "{family}: {rendered}");
        }
    }
}

#[test]
fn a_template_in_its_own_file_goes_first_and_one_that_fails_is_told() {
    let config = json!({ "chat_template": CHAT });
    let own = |template: &str| Files {
        tokenizer_config: config.clone(),
        chat_template: Some(template.to_owned()),
        ..files(&families::byte_level())
    };
    let unknown = |files: &Files| {
        let prompts = Prompts::new(Tokenizer::new(files).unwrap(), 0).unwrap();
        prompts.chat_unknown().map(str::to_owned)
    };
    assert_eq!(unknown(&own("{{ messages[0].content }}")), None);
    assert!(unknown(&own("{{ raise_exception('no') }}")).unwrap().contains("no"));
    assert!(
        unknown(&files(&families::byte_level()))
            .unwrap()
            .contains("no chat template")
    );
}

#[test]
fn ids_are_ordinary_and_differ_from_the_first_on() {
    let tokenizer = families::byte_level();
    let library = library(&tokenizer);
    let files = Files {
        config: json!({ "vocab_size": 400, "eos_token_id": [2, 300] }),
        ..files(&tokenizer)
    };
    let prompts = Prompts::new(Tokenizer::new(&files).unwrap(), 5).unwrap();
    let mut firsts = HashSet::new();
    for _ in 0..200 {
        let ids = ids(&prompts, PromptSpec::ids(64));
        assert_eq!(ids.len(), 64);
        assert!(firsts.insert(ids[0]));
        for id in ids {
            assert!((3..400).contains(&id) && id != 300, "{id}");
            assert!(library.id_to_token(id).is_some());
        }
    }
}

#[test]
fn ids_share_what_was_asked_and_repeat_by_seed() {
    let ask = PromptSpec {
        shared_prefix: 30,
        ..PromptSpec::ids(100)
    };
    let make = |seed| {
        let prompts = Prompts::from_vocabulary_size(32_000, seed).unwrap();
        [ids(&prompts, ask), ids(&prompts, ask)]
    };
    let [one, two] = make(1);
    assert_eq!(one[..30], two[..30]);
    assert_ne!(one[30], two[30]);
    assert_eq!(make(1), [one.clone(), two]);
    assert_ne!(make(2)[0][..30], one[..30]);
}

#[test]
fn too_few_tokens_are_refused_with_the_smallest_number() {
    let tokenizer = families::all()
        .into_iter()
        .find(|(family, _)| *family == "word piece")
        .unwrap()
        .1;
    let prompts = prompts(&tokenizer, 0);
    for n in [1, 2] {
        let fault = prompts.make(&PromptSpec::text(n)).unwrap_err();
        assert_eq!(fault.kind, Kind::Usage);
        assert_eq!(fault.hint.as_deref(), Some("ask for at least 3"), "{fault}");
    }
    assert_eq!(
        encoded(&library(&tokenizer), &text(&prompts, PromptSpec::text(3)), true).len(),
        3
    );
    assert!(prompts.make(&PromptSpec::text(0)).is_err());
    assert!(prompts.make(&PromptSpec::ids(0)).is_err());
}

#[test]
fn what_nobody_can_make_is_refused() {
    let prompts = Prompts::from_vocabulary_size(1000, 0).unwrap();
    let refused = |ask: PromptSpec| prompts.make(&ask).unwrap_err().kind;
    assert_eq!(refused(PromptSpec::ids(MAX_TOKENS + 1)), Kind::Usage);
    assert_eq!(refused(PromptSpec::ids(usize::MAX)), Kind::Usage);
    assert_eq!(refused(PromptSpec::text(10)), Kind::Usage, "no tokenizer");
    let shared = PromptSpec {
        shared_prefix: 10,
        ..PromptSpec::ids(10)
    };
    assert_eq!(refused(shared), Kind::Usage, "nothing is left to differ");
    let chat = PromptSpec {
        chat: true,
        form: PromptForm::Tokens,
        ..PromptSpec::ids(10)
    };
    assert_eq!(refused(chat), Kind::Usage);
}

#[test]
fn a_vocabulary_without_words_gives_ids_but_no_text() {
    let prompts = prompts(&families::digits(), 0);
    assert_eq!(ids(&prompts, PromptSpec::ids(20)).len(), 20);
    let fault = prompts.make(&PromptSpec::text(20)).unwrap_err();
    assert_eq!(fault.kind, Kind::Usage);
    assert!(fault.hint.unwrap().contains("tokens"));
}

#[test]
fn truncation_and_padding_of_the_file_are_not_the_engines() {
    let mut tokenizer = families::byte_level();
    tokenizer["truncation"] = json!({ "direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0 });
    tokenizer["padding"] = json!({ "strategy": { "Fixed": 64 }, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>" });
    let text = text(&prompts(&tokenizer, 0), PromptSpec::text(300));
    assert_eq!(encoded(&library(&families::byte_level()), &text, true).len(), 300);
}

#[test]
fn files_that_are_no_tokenizer_are_named() {
    let folder = temp();
    let open = |name: &str| Tokenizer::open(&folder.path().join(name)).err().unwrap();
    assert_eq!(open("nowhere").kind, Kind::Missing);
    std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    let fault = open("");
    assert_eq!(fault.kind, Kind::Usage);
    assert!(fault.message.contains("tokenizer.json"), "{fault}");
    std::fs::write(folder.path().join("tokenizer.json"), families::byte_level().to_string()).unwrap();
    std::fs::write(folder.path().join("config.json"), "not json").unwrap();
    assert!(open("").message.contains("config.json"));
}

#[test]
fn a_script_makes_prompts_of_a_model_folder() {
    let script = r#"
        let model = params(#{ model: param("", "folder") }).model;
        let wishes = #{ model: model, form: "text", seed: 4 };
        let one = prompt::tokens(64, wishes);
        let two = prompt::tokens(64, wishes);
        let refused = ();
        try { prompt::tokens(1, wishes); } catch (error) { refused = error.hint; }
        let ids = prompt::tokens(5, #{ tokenizer: model + "/tokenizer.json" }).ids;
        #{ one: one, two: two, refused: refused, ids: ids.len() }
    "#;
    let tokenizer = families::byte_level();
    let bench = Bench::new(&[("main.rhai", script), ("model/tokenizer.json", &tokenizer.to_string())]);
    let model = bench.path("model");
    let result = bench.set(json!({ "model": model })).value();
    let text = result["one"]["text"].as_str().unwrap();
    assert_eq!(encoded(&library(&tokenizer), text, true).len(), 64);
    assert_ne!(result["one"]["text"], result["two"]["text"]);
    assert_eq!(
        (&result["one"]["count"], &result["one"]["ids"]),
        (&json!(64), &Value::Null)
    );
    assert_eq!(result["refused"], "ask for at least 2");
    assert_eq!(result["ids"], 5);
}

#[test]
fn a_script_is_told_what_it_asked_wrongly() {
    let error = |call: &str| Bench::script(call).error();
    for (call, expected) in [
        ("prompt::tokens(64, #{})", "`vocabulary`"),
        (
            "prompt::tokens(64, #{ vocabulary: 9000, model: \"x\" })",
            "without a tokenizer",
        ),
        ("prompt::tokens(64, #{ model: \"./nowhere\" })", "`./nowhere`"),
        (
            "prompt::tokens(64, #{ vocabulary: 9000, shared_prefx: 3 })",
            "`shared_prefix`",
        ),
        ("prompt::tokens(0, #{ vocabulary: 9000 })", "at least 1"),
        ("prompt::tokens(-5, #{ vocabulary: 9000 })", "at least 1"),
        ("prompt::tokens(2000000, #{ vocabulary: 9000 })", "1000000"),
        ("prompt::tokens(9, #{ vocabulary: 9000, form: \"text\" })", "tokenizer"),
        (
            "for seed in 0..99 { prompt::tokens(9, #{ vocabulary: 9000, seed: seed }); }",
            "at most 32",
        ),
    ] {
        let shown = error(call);
        assert!(shown.contains(expected), "{call}: {shown}");
    }
}
