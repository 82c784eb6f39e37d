use std::collections::HashSet;

use super::*;

#[test]
fn there_is_a_word_for_each_token_but_the_first_and_no_two_texts_begin_alike() {
    for (tokens, words) in [(1, 1), (2, 1), (3, 2), (500, 499)] {
        assert_eq!(text(7, 9, &Ask::text(tokens)).split(' ').count(), words);
    }
    let begins: HashSet<String> = (0..4096).map(|serial| text(7, serial, &Ask::text(3))).collect();
    assert_eq!(begins.len(), 4096);
    let sharing = Ask {
        shared_prefix: 10,
        ..Ask::text(20)
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
