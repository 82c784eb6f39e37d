//! A user imports modules; imports resolve only where they may.

use serde_json::json;

use super::bench::Bench;

#[test]
fn imports_are_relative_to_the_importing_file() {
    let bench = Bench::new(&[
        ("main.rhai", "import \"lib/a\" as a; a::f() + a::g()"),
        (
            "lib/a.rhai",
            "import \"deep/b\" as b; import \"../top\" as t; fn f() { b::two() } fn g() { t::ten() }",
        ),
        ("lib/deep/b.rhai", "fn two() { 2 }"),
        ("top.rhai", "fn ten() { 10 }"),
    ]);
    assert_eq!(bench.value(), json!(12));
}

#[test]
fn a_module_runs_once() {
    let bench = Bench::new(&[
        ("main.rhai", "import \"a\" as a; import \"b\" as b; a::x() + b::x()"),
        ("a.rhai", "import \"c\" as c; fn x() { 1 }"),
        ("b.rhai", "import \"c.rhai\" as c; fn x() { 1 }"),
        ("c.rhai", "print(\"loaded\");"),
    ]);
    let host = bench.host();
    let lines = super::bench::printed(&host);
    assert_eq!(bench.run_in(&host).unwrap(), json!(2));
    assert_eq!(*lines.lock().unwrap(), ["loaded"]);
}

/// Functions with equal names and parameters, in a script, in its module and in that one's module.
const NAMESAKES: &[(&str, &str)] = &[
    (
        "lib/a.rhai",
        "import \"b\" as b;
         fn search() { helper(1) + b::both(1) + [1, 2].map(|n| helper(n))[1] + `${helper(1)}` }
         fn each(probe) { helper(1); helper(1) + [probe.call(1), probe.call(1)][1] }
         private fn helper(a) { if a == 1 { return \"a\"; } helper(a - 1) }",
    ),
    (
        "lib/b.rhai",
        "fn helper(a) { \"b\" } fn both(a) { helper(a) + helper(a) }",
    ),
];

fn namesakes(script: &str) -> Bench {
    let text = format!("import \"lib/a\" as a; import \"lib/b\" as b; fn helper(a) {{ \"script\" }} {script}");
    Bench::new(&[NAMESAKES, &[("main.rhai", &text)]].concat())
}

#[test]
fn a_module_calls_its_own_functions_whatever_was_called_before() {
    let after = namesakes("for n in 0..3 { helper(n); } a::search() + b::helper(1)");
    assert_eq!(after.value(), json!("abbaab"));
    let before = namesakes("for n in 0..3 { a::search(); b::both(n); } helper(1) + a::search()");
    assert_eq!(before.value(), json!("scriptabbaa"));
    let callback = namesakes("let script = a::each(|n| helper(n)); script + a::each(|n| helper(n))");
    assert_eq!(callback.value(), json!("ascriptascript"));
}

#[test]
fn a_call_like_a_method_in_a_closure_runs_no_function_of_the_module_that_calls_it() {
    let bench = Bench::new(&[
        (
            "main.rhai",
            "import \"a\" as a;
             fn plus(n) { this + n }
             a::each(|| { let list = [1]; list.insert(0, 2); list + [3.plus(4)] })",
        ),
        (
            "a.rhai",
            "fn insert(search, point) { throw \"the module's\" }
             fn less(n) { n - 1 }
             fn plus(n) { [n].map(less)[0] + Fn(\"less\").call(n) }
             fn each(probe) { [probe.call(), probe.call(), plus(1)] }",
        ),
    ]);
    assert_eq!(bench.value(), json!([[2, 1, 7], [2, 1, 7], 0]));
}

#[test]
fn an_error_in_an_own_function_of_a_module_names_it_as_written() {
    let bench = Bench::new(&[
        ("main.rhai", "import \"a\" as a;\na::f()"),
        ("a.rhai", "fn f() { [1].map(|n| helper(n)) }\nfn helper(n) { n.none }"),
    ]);
    assert_eq!(
        bench.error(),
        "error: a value of type int has no property `none`
 --> a.rhai:2:18
  |
2 | fn helper(n) { n.none }
  |                  ^^^^
  |
  = note: `helper` called from a.rhai:1:22
  = note: a closure called from a.rhai:1:14
  = note: `f` called from main.rhai:2:4
  = help: it has `bits`, `is_even`, `is_odd`, `is_zero`"
    );
}

#[test]
fn cycles_are_refused_by_name() {
    let bench = Bench::new(&[
        ("main.rhai", "import \"a\" as a;"),
        ("a.rhai", "import \"b\" as b;"),
        ("b.rhai", "import \"a\" as a;"),
    ]);
    let error = bench.error();
    assert!(
        error.contains("import cycle: `a.rhai` -> `b.rhai` -> `a.rhai`"),
        "{error}"
    );
    assert!(error.contains("--> b.rhai:1:8"), "{error}");
    assert!(error.contains("`b.rhai` imported from a.rhai:1:"), "{error}");
}

#[test]
fn a_script_cannot_import_itself() {
    let error = Bench::script("import \"main\" as m;").error();
    assert!(error.contains("import cycle: `main.rhai` -> `main.rhai`"), "{error}");
}

#[test]
fn imports_stay_below_the_scripts_folder() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.rhai"), "fn f() { 1 }").unwrap();
    let up = Bench::new(&[
        ("main.rhai", "import \"sub/x\" as x;"),
        ("sub/x.rhai", "import \"../../up\" as u;"),
    ]);
    let error = up.error();
    assert!(error.contains("`../../up` leaves the script's folder"), "{error}");

    let absolute = Bench::script(&format!("import \"{}/secret\" as s;", outside.path().display()));
    let error = absolute.error();
    assert!(error.contains("is absolute"), "{error}");

    let link = Bench::script("import \"link/secret\" as s;");
    std::os::unix::fs::symlink(outside.path(), link.path("link")).unwrap();
    let error = link.error();
    assert!(error.contains("`link/secret` leaves the script's folder"), "{error}");

    let link = Bench::script("import \"secret\" as s;");
    std::os::unix::fs::symlink(outside.path().join("secret.rhai"), link.path("secret.rhai")).unwrap();
    assert!(link.error().contains("leaves the script's folder"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Bench::script("import \"nowhere\" as n;").error();
    assert!(error.contains("`nowhere.rhai`"), "{error}");
}

#[test]
fn a_device_is_not_a_script() {
    let bench = Bench::script("import \"zero\" as z;");
    std::os::unix::fs::symlink("/dev/zero", bench.path("zero.rhai")).unwrap();
    assert!(bench.error().contains("leaves the script's folder"));
}

#[test]
fn long_chains_of_imports_are_refused() {
    let files: Vec<(String, String)> = (0..60)
        .map(|n| (format!("m{n}.rhai"), format!("import \"m{}\" as m;", n + 1)))
        .collect();
    let mut all: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    all.push(("main.rhai", "import \"m0\" as m;"));
    assert!(Bench::new(&all).error().contains("imports nest deeper than 32 files"));
}

#[test]
fn what_ran_is_kept_with_its_hash() {
    let bench = Bench::new(&[("main.rhai", "import \"a\" as a; a::f()"), ("a.rhai", "fn f() { 1 }")]);
    let host = bench.host();
    bench.run_in(&host).unwrap();
    let kept = host.sources.all();
    assert_eq!(kept.len(), 2);
    assert!(
        kept.iter()
            .any(|source| &*source.text == "fn f() { 1 }" && source.sha256.len() == 64)
    );
}
