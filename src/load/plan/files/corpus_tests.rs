use super::*;

fn read(text: &str) -> Vec<(String, Option<u64>)> {
    let corpus = Corpus::read(text).unwrap();
    let prompts = corpus.prompts().iter();
    prompts
        .map(|written| (written.prompt.clone(), written.output))
        .collect()
}

#[test]
fn parses_text_and_json_lines() {
    assert_eq!(
        read("one prompt\r\n\n  two\n"),
        [("one prompt".to_owned(), None), ("  two".to_owned(), None)]
    );
    let json = "{\"prompt\": \"a\\nb\", \"output\": 3}\n{\"prompt\": \"c\", \"max_tokens\": 4, \"x\": 1}\n{\"prompt\": \"d\", \"output\": null}";
    assert_eq!(
        read(json),
        [
            ("a\nb".to_owned(), Some(3)),
            ("c".to_owned(), Some(4)),
            ("d".to_owned(), None)
        ]
    );
}

#[test]
fn invalid_line_is_reported_with_its_number() {
    for (text, part) in [
        (
            "{\"prompt\": \"a\"}\nplain",
            "line 2 of the prompts is not a JSON object",
        ),
        ("{\"text\": \"a\"}", "line 1 of the prompts has no `prompt`"),
        ("{\"prompt\": [1, 2]}", "`prompt` [1,2]"),
        ("{\"prompt\": \"a\", \"output\": 0}", "`output` 0"),
        ("  \n", "has none"),
    ] {
        let fault = Corpus::read(text).unwrap_err();
        assert!(fault.message.contains(part), "{fault}");
    }
}
