//! A user reads the error of a script, with the right file, line, caret and message.

use super::bench::Bench;

#[track_caller]
fn shows(script: &str, expected: &str) {
    assert_eq!(Bench::script(script).error().trim(), expected.trim());
}

#[test]
fn a_misspelt_variable() {
    shows(
        "let total = 1;\nprint(totl);",
        "
error: unknown variable `totl`
 --> main.rhai:2:7
  |
2 | print(totl);
  |       ^^^^
  |
  = help: did you mean `total`?",
    );
}

#[test]
fn a_primitive_of_a_module() {
    shows(
        "let a = 1;\nfn ask(name) {\n    host::engine(name, #{})\n}\nask(`none`);",
        "
error: there is no engine adapter `none`
 --> main.rhai:3:11
  |
3 |     host::engine(name, #{})
  |           ^^^^^^
  |
  = note: `ask` called from main.rhai:5:1
  = help: available: `llamacpp`, `ollama`, `openai`, `sglang`, `sim`, `tensorrt_llm`, `tgi`, `transformers`, `vllm`; give your own by its path, such as `./mine.rhai`",
    );
}

#[test]
fn a_misspelt_function() {
    shows(
        "let x = slep(1);",
        "
error: there is no function `slep`
 --> main.rhai:1:9
  |
1 | let x = slep(1);
  |         ^^^^
  |
  = help: did you mean `sleep`?",
    );
}

#[test]
fn arguments_that_do_not_fit() {
    shows(
        "let x = 3;\nsleep(x, \"a\");",
        "
error: `sleep` does not take (int, string)
 --> main.rhai:2:1
  |
2 | sleep(x, \"a\");
  | ^^^^^
  |
  = help: it is `sleep(seconds: float)` or `sleep(seconds: int)`",
    );
}

#[test]
fn an_unknown_key_of_a_map() {
    shows(
        "let m = #{ a: 1 };\nm.b",
        "
error: the map has no key `b`
 --> main.rhai:2:3
  |
2 | m.b
  |   ^
  |
  = help: if it may be absent, write `.get(\"b\") ?? default`",
    );
}

#[test]
fn an_error_in_a_closure_that_a_native_function_called() {
    shows(
        "let f = |x| x.foo;\n[1, 2].map(f)",
        "
error: a value of type int has no property `foo`
 --> main.rhai:1:15
  |
1 | let f = |x| x.foo;
  |               ^^^
  |
  = note: a closure called from main.rhai:2:8
  = help: it has `bits`, `is_even`, `is_odd`, `is_zero`",
    );
}

#[test]
fn an_error_in_an_imported_module_is_shown_there() {
    let bench = Bench::new(&[
        (
            "main.rhai",
            "import \"lib/a\" as a;\n\nfn inner() {\n    a::f([1])\n}\ninner()",
        ),
        ("lib/a.rhai", "// a\nfn f(x) {\n    x.map(|y| y.z())\n}\n"),
    ]);
    assert_eq!(
        bench.error(),
        "error: there is no function `z`
 --> lib/a.rhai:3:17
  |
3 |     x.map(|y| y.z())
  |                 ^
  |
  = note: a closure called from lib/a.rhai:3:7
  = note: `f` called from main.rhai:4:8
  = note: `inner` called from main.rhai:6:1
  = help: `profiler doc` lists the functions"
    );
}

#[test]
fn a_module_that_does_not_parse_is_shown_there() {
    let bench = Bench::new(&[
        ("main.rhai", "import \"lib/a\" as a;\n"),
        ("lib/a.rhai", "// a\nfn f(x) {\n    let y = ;\n}\n"),
    ]);
    assert_eq!(
        bench.error(),
        "error: unexpected `;`
 --> lib/a.rhai:3:13
  |
3 |     let y = ;
  |             ^
  |
  = note: `lib/a.rhai` imported from main.rhai:1:8"
    );
}

#[test]
fn a_value_thrown_by_the_script() {
    shows(
        "fn check(n) {\n  throw `bad ${n}`;\n}\ncheck(3);",
        "
error: bad 3
 --> main.rhai:2:3
  |
2 |   throw `bad ${n}`;
  |   ^^^^^
  |
  = note: `check` called from main.rhai:4:1",
    );
}

#[test]
fn an_operator_between_strangers() {
    shows(
        "1 + #{}",
        "
error: `+` does not take int and map
 --> main.rhai:1:3
  |
1 | 1 + #{}
  |   ^",
    );
}

#[test]
fn an_unfinished_script() {
    let error = Bench::script("let x = [1,2").error();
    assert!(error.contains("this `[` is not closed"), "{error}");
    assert!(error.contains("--> main.rhai:1:9"), "{error}");
}

#[test]
fn columns_count_characters_and_tabs_keep_their_place() {
    shows(
        "\tlet größe = \"日本\" + wrong;",
        "
error: unknown variable `wrong`
 --> main.rhai:1:21
  |
1 |     let größe = \"日本\" + wrong;
  |                          ^^^^^
  |
  = help: define it with `let` first; functions see only their parameters",
    );
}

#[test]
fn a_reserved_word() {
    let error = Bench::script("let default = 1;").error();
    assert!(error.contains("`default` is a reserved word"), "{error}");
}

#[test]
fn small_mistakes_are_named_where_they_were_made() {
    let strategy = "import \"std/search\" as search;\nlet map = boundary(#{ input: [1, 9] }, #{});\n";
    for (script, place, words) in [
        ("let a = #{ verdict: 1 };\na.verdct", "2:3", "did you mean `verdict`?"),
        (
            "fn f(a) {\n  a.verdct\n}\nf(#{ x: 1 })",
            "2:5",
            "did you mean `verdict`?",
        ),
        ("let x = \"12\" / 4;", "1:14", "`/` does not take string and int"),
        (
            "boundary({ input: [1, 9] }, #{})",
            "1:10",
            "a map is written `#{ ... }`",
        ),
        ("fn f(x) {\n  x\n\nlet y = 1;\nf(y)", "1:9", "this `{` is not closed"),
        ("fn f(a) {\n  let x = (a + 2;\n  x\n}\nf(1)", "2:17", "expected `)`"),
        ("let x = None;", "1:9", "no value is written `()`"),
        // The error of a closure points to the file that defines it, not to its caller.
        (
            &format!("{strategy}search::adaptive(map, |p| p.nothing_like_it, #{{}})"),
            "3:29",
            "nothing_like_it",
        ),
        (
            &format!("{strategy}search::adaptive(map, |p| throw fault(\"missing\", \"no card\"), #{{}})"),
            "3:33",
            "does not take (string, string)",
        ),
    ] {
        let error = Bench::script(script).error();
        assert!(error.contains(&format!("--> main.rhai:{place}\n")), "{place} {error}");
        assert!(error.contains(words), "{words} {error}");
        assert!(!error.contains("std/"), "{error}");
    }
}

#[test]
fn colours_only_when_asked() {
    let diagnostic = Bench::script("wrong").run().unwrap_err();
    assert!(!diagnostic.render(false).contains('\u{1b}'));
    assert!(diagnostic.render(true).contains('\u{1b}'));
}
