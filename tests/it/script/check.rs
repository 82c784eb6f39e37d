//! A user checks a script with `check`, which finds errors without running it.

use std::path::Path;

use profiler::script::{self, shipped};
use serde_json::json;

use super::bench::Bench;

/// All findings, rendered.
fn found(bench: &Bench) -> Vec<String> {
    let found = script::check(&bench.host(), &bench.path("main.rhai"));
    found.iter().map(|diagnostic| bench.shown(diagnostic)).collect()
}

#[track_caller]
fn finds(script: &str, message: &str, excerpt: &str) {
    let found = found(&Bench::script(script));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(message), "{}", found[0]);
    assert!(found[0].contains(excerpt), "{}", found[0]);
}

#[test]
fn a_sound_script_has_no_findings() {
    let bench = Bench::new(&[
        (
            "main.rhai",
            "import \"lib/a\" as a;
             let p = params(#{ count: param(3, \"how many\") });
             fn twice(x) { x * 2 }
             let kept = #{ f: |x| x + 1 };
             let all = [1, 2].map(|x| twice(a::inc(x)));
             all.push(kept.f(p.count)); let g = |x| x; g.call(1); all.len() + twice(2) + 3.max(4)",
        ),
        ("lib/a.rhai", "fn inc(n) { n + 1 } private fn own() { 1 }"),
    ]);
    assert_eq!(found(&bench), Vec::<String>::new());
}

#[test]
fn a_call_like_a_method_of_a_function_without_this_is_refused() {
    finds("fn double(n) { 2 * n }\nprint(1.double(2));", "`double`", "1.double(2)");
    for script in [
        "fn own(n) { this + n }\nprint(1.own(2));",
        "fn push(a, b) { a + b }\nlet l = []; l.push(push(1, 2));",
        "fn twice(n) { 2 * n }\nlet kept = #{ twice: |n| n };\nprint(kept.twice(1));",
    ] {
        assert_eq!(found(&Bench::script(script)), Vec::<String>::new(), "{script}");
    }
}

#[test]
fn the_value_of_a_catch_is_lost_and_refused() {
    for script in [
        "fn f() { try { throw 1; } catch (e) { #{ code: 5 } } }\nprint(f());",
        "let f = |x| { try { throw x; } catch { other(x) } };\nfn other(x) { x }\nprint(f.call(1));",
        "fn f(x) { if x { try { throw 1; } catch (e) { e } } else { 2 } }\nprint(f(true));",
        "try { throw 1; } catch (e) { 5 }",
    ] {
        finds(script, "the value of a `catch` block is lost", "main.rhai");
    }
    for script in [
        "fn f() { try { throw 1; } catch (e) { return 5; } }\nprint(f());",
        "fn f() { try { throw 1; } catch (e) { print(e); } }\nf();",
        "let x = 1; try { throw 1; } catch (e) { x = 5 }\nprint(x);",
        "try { throw 1; } catch (e) { print(e) }\nprint(1);",
    ] {
        assert_eq!(found(&Bench::script(script)), Vec::<String>::new(), "{script}");
    }
}

#[test]
fn a_deprecated_function_is_a_warning_with_its_place_and_successor() {
    let script = "import \"std/engines\" as engines;\nif true { engines::launch(\"sim\", #{}); }\nengines::describe(\"sim\", #{});";
    let bench = Bench::script(script);
    let main = bench.path("main.rhai");
    assert_eq!(found(&bench), Vec::<String>::new());
    let warnings = script::warnings(&bench.host(), &main);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let [place, called, successor] = ["main.rhai:2:", "`engines::launch`", "`engines::describe`"];
    assert!(
        warnings[0].contains(place) && warnings[0].contains(called) && warnings[0].contains(successor),
        "{warnings:?}"
    );
}

#[test]
fn a_search_whose_new_value_is_dropped_is_a_warning() {
    let script = "import \"std/search/steps\" as steps;
fn walk(map, probe, options) {
    let search = steps::begin(map, probe, options);
    while search.stopped == \"\" { steps::probe(search, map.smallest()); }
    if search.probes == 1 { steps::probe(search, map.largest()); }
    search = steps::probe(search, map.largest());
    if search.probes > 1 { steps::finish(search) } else { steps::finish(search) }
}";
    let bench = Bench::script(script);
    let warnings = script::warnings(&bench.host(), &bench.path("main.rhai"));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("main.rhai:4:") && warnings[1].contains("main.rhai:5:"),
        "{warnings:?}"
    );
}

#[test]
fn unknown_functions_and_wrong_arities_are_found_before_anything_runs() {
    finds(
        "if false {\n  slep(1);\n}",
        "there is no function `slep`",
        "2 |   slep(1);",
    );
    finds(
        "start_container(1);",
        "there is no function `start_container`",
        "`docker::start(",
    );
    finds("let x = [1];\nx.puhs(2);", "there is no function `puhs`", "`push`?");
    finds(
        "sleep(1, 2);",
        "`sleep` does not take 2 arguments",
        "`sleep(seconds: int)`",
    );
    finds(
        "fn f(a, b) { a + b }\nf(1);",
        "`f` does not take 1 argument",
        "it is `f(a, b)`",
    );
}

#[test]
fn unknown_variables_and_modules_are_found() {
    finds("fn f() { wrong }", "unknown variable `wrong`", "main.rhai:1:10");
    finds("nowhere::f()", "unknown module `nowhere`", "main.rhai:1:1");
    // An unknown variable does not hide later errors.
    let all = found(&Bench::script("let x = wrong;\nslep(1);\nimport \"std/serch\" as s;"));
    for wrong in [
        "unknown variable `wrong`",
        "no function `slep`",
        "no module `std/serch`",
    ] {
        assert_eq!(
            all.iter().filter(|one| one.contains(wrong)).count(),
            1,
            "{wrong}: {all:?}"
        );
    }
}

#[test]
fn imports_are_followed() {
    let bench = Bench::new(&[
        (
            "main.rhai",
            "import \"a\" as a;\nimport \"gone\" as g;\na::f(1);\na::g();\na::hidden();",
        ),
        ("a.rhai", "fn f() { nothing() }\nprivate fn hidden() { 1 }"),
    ]);
    let found = found(&bench).join("\n\n");
    for expected in [
        "there is no function `nothing`\n --> a.rhai:1:10",
        "there is no file `gone.rhai`\n --> main.rhai:2:8",
        "`a::f` does not take 1 argument\n --> main.rhai:3:4",
        "there is no function `a::g`\n --> main.rhai:4:4",
        "there is no function `a::hidden`\n --> main.rhai:5:4",
    ] {
        assert!(found.contains(expected), "{expected} is not in\n{found}");
    }
}

#[test]
fn cycles_end() {
    let bench = Bench::new(&[("main.rhai", "import \"a\" as a;"), ("a.rhai", "import \"main\" as m;")]);
    let found = found(&bench);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("import cycle"), "{}", found[0]);
}

#[test]
fn parameters_that_are_not_declared_are_found() {
    let script = "let p = params(#{ model: param(\"tiny\", \"model\") });\nprint(p.modle);";
    finds(script, "the script declares no parameter `modle`", "`model`?");
    let shared = "import \"std/engines\" as engines;
                  let p = params(engines::parameters() + #{ levels: param([1], \"requests at once\") });
                  print(p.levels); print(p.model); print(p.levles);";
    finds(shared, "the script declares no parameter `levles`", "`levels`?");
    let bench =
        Bench::script("let p = params(#{ model: param(\"tiny\", \"model\") }); p.model").set(json!({ "modle": 1 }));
    let found = found(&bench);
    assert!(found[0].contains("unknown parameter `modle`"), "{found:?}");
}

#[test]
fn an_adapter_must_export_all_six_functions() {
    let adapter = "fn launch(options) { #{} } fn ready(engine) { true } fn request(point) { #{} } \
                   fn facts() { #{} } fn failures() { [] } fn flags(limits, more) { [] }";
    finds(
        adapter,
        "this adapter exports `flags` with 2 parameters, not `flags(limits)`",
        "main.rhai",
    );
    let half = "fn launch(options) { #{} } fn ready(engine) { true } fn request(point) { #{} }";
    assert_eq!(found(&Bench::script(half)).len(), 3);
}

#[test]
fn axes_and_empty_maps_are_checked() {
    finds("boundary(#{ inptu: [1, 9] }, #{})", "main.rhai:1:13", "`input`?");
    finds(
        "boundary(#{ input: [1, 9] }, {})",
        "main.rhai:1:30",
        "an empty map is written `#{}`",
    );
    assert_eq!(
        found(&Bench::script("boundary(#{ share: [0, 1] }, #{})")),
        Vec::<String>::new()
    );
}

#[test]
fn what_an_adapter_says_without_an_engine_is_checked() {
    let adapter = |request: &str, pattern: &str| {
        let form = format!("protocol: \"{request}\", path: \"/v1\", prompt: \"text\", body: #{{}}");
        format!(
            "fn launch(options) {{ #{{}} }}\nfn ready(engine) {{ true }}\nfn request(point) {{ #{{ {form} }} }}\n\
             fn facts() {{ #{{ log: #{{ kv_tokens: [\"{pattern}\"] }} }} }}\nfn failures() {{ [] }}\n\
             fn flags(limits) {{ [] }}"
        )
    };
    finds(&adapter("openai-chat", "x"), "main.rhai:3:1", "`openai_chat`?");
    finds(&adapter("openai_chat", "(x"), "main.rhai:4:1", "unclosed group");
    assert_eq!(
        found(&Bench::script(&adapter("openai_chat", "(x)"))),
        Vec::<String>::new()
    );
}

#[test]
fn a_failure_rule_of_unknown_rank_or_place_is_refused() {
    let adapter = |rule: &str| {
        format!(
            "import \"std/engines/openai\" as openai;\nfn launch(options) {{ openai::launch(options) }}\n\
             fn ready(engine) {{ true }}\nfn request(point) {{ openai::request(point) }}\nfn facts() {{ #{{}} }}\n\
             fn failures() {{ [#{{ pattern: \"x\", verdict: \"error\", {rule} }}] }}\nfn flags(limits) {{ [] }}"
        )
    };
    finds(&adapter("rank: \"critical\""), "main.rhai:6:1", "`fatal`");
    finds(&adapter("place: \"traceback\""), "main.rhai:6:1", "`exception`");
    finds(
        &adapter("rank: \"consequence\", cause: \"port\""),
        "main.rhai:6:1",
        "explains nothing",
    );
    let right = adapter("rank: \"warning\", place: \"exception\", cause: \"module\", remedy: \"install it\"");
    assert_eq!(found(&Bench::script(&right)), Vec::<String>::new());
}

#[test]
fn everything_that_ships_is_sound() {
    let modules = shipped::modules().map(|name| format!("std/{name}"));
    for name in shipped::scripts().map(str::to_owned).chain(modules) {
        let bench = Bench::script("");
        let found = script::check(&bench.host(), Path::new(&name));
        let shown: Vec<_> = found.iter().map(|diagnostic| diagnostic.render(false)).collect();
        assert!(shown.is_empty(), "{}", shown.join("\n"));
    }
}
