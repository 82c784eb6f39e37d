use std::collections::HashSet;

use super::*;

#[test]
fn texts_have_one_word_less_than_tokens_and_start_differently() {
    for (tokens, words) in [(1, 1), (2, 1), (3, 2), (500, 499)] {
        assert_eq!(text(7, 9, &PromptSpec::text(tokens)).split(' ').count(), words);
    }
    let begins: HashSet<String> = (0..4096).map(|serial| text(7, serial, &PromptSpec::text(3))).collect();
    assert_eq!(begins.len(), 4096);
    let sharing = PromptSpec {
        shared_prefix: 10,
        ..PromptSpec::text(20)
    };
    let prefix = |serial| {
        text(7, serial, &sharing)
            .split(' ')
            .take(10)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(prefix(1), prefix(2));
}

#[test]
fn no_word_comes_twice() {
    assert_eq!(WORDS.iter().collect::<HashSet<_>>().len(), WORDS.len());
}
