use super::*;

#[test]
fn an_open_construct_is_incomplete() {
    let validator = Validator::new();
    for text in [
        "fn f(x) {",
        "fn f(x) {\n  x + 1 // more",
        "f(1,",
        "[1, 2",
        "#{ a: 1,",
        "if a",
        "let t = `one",
        "let t = `one ${ f(`two",
        "/* open",
        "let x = #\"raw",
        "a +",
        "for p in [1, 2] {",
        "while true {\n",
        "switch x { 1 =>",
        "|p| {",
        "try { 1 }",
        "/// Doubles.",
        "/// Doubles.\nfn twice(n) {",
    ] {
        assert!(!validator.is_complete(text), "{text}");
    }
}

#[test]
fn valid_and_erroneous_inputs_are_complete() {
    let validator = Validator::new();
    for text in [
        "",
        "1 + 1",
        "let x = 5;",
        "let x = 5",
        "fn f(x) {\n x\n}",
        "// note",
        "let t = `a { b`",
        "let s = \"{[(\";",
        "x.unknown(undefined::y)",
        "f(1))",
        "let s = \"open",
        "fn f(x { }",
        ":help f(",
        "let = 4;",
        "if x { 1 }",
        "/// Doubles.\nfn twice(n) { 2 * n }",
    ] {
        assert!(validator.is_complete(text), "{text}");
    }
}
