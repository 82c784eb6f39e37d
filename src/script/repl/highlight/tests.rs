use proptest::prelude::*;

use super::*;

fn plain(coloured: &str) -> String {
    console::strip_ansi_codes(coloured).into_owned()
}

#[test]
fn keywords_numbers_strings_calls_and_comments_have_colours() {
    let engine = Engine::new();
    let shown = highlight(&engine, "let x = f(1.5, \"a\"); // é");
    assert_eq!(
        shown,
        format!("{KEYWORD}let{END} x = {CALL}f{END}({NUMBER}1.5{END}, {TEXT}\"a\"{END}); {COMMENT}// é{END}")
    );
}

#[test]
fn code_inside_a_long_string_has_colours() {
    let engine = Engine::new();
    let shown = highlight(&engine, "`é ${ if a { 1 } } let` + 2");
    assert!(shown.contains(&format!("{KEYWORD}if{END}")), "{shown:?}");
    assert!(shown.contains(&format!("let`{END}")), "{shown:?}");
    assert!(shown.ends_with(&format!("{NUMBER}2{END}")), "{shown:?}");
}

proptest! {
    #[test]
    fn colours_change_no_character(text in "[a-z0-9 \n`\"'#{}()$/*\\\\é.+]{0,40}") {
        prop_assert_eq!(plain(&highlight(&Engine::new(), &text)), text);
    }
}
