//! A user opens `profiler report` or the page that every run leaves, and learns from this one file what was found, on
//! which machine, what set the limit, and how to repeat it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::SEARCH;
use crate::support::Profiler;

/// The text of an HTML file, with its entities decoded.
pub fn unescaped(html: &str) -> String {
    let entities = [
        ("&#x2f;", "/"),
        ("&#x27;", "'"),
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    entities
        .iter()
        .fold(html.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
}

/// The page's description of a term.
#[track_caller]
fn described(page: &str, term: &str) -> String {
    let start = format!("<dt>{term}</dt>");
    let at = page.find(&start).unwrap_or_else(|| panic!("no `{term}` in the page"));
    let rest = &page[at + start.len()..];
    let text = &rest[..rest.find("</div>").unwrap()];
    let tags = text
        .split('<')
        .map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    unescaped(tags.collect::<String>().trim())
}

fn page(folder: &Path) -> String {
    fs::read_to_string(folder.join("report.html")).unwrap()
}

/// The arguments of a command, split as a shell does.
fn words(command: &str) -> Vec<String> {
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("printf '%s\\n' {command}"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_page_alone_names_what_was_found_why_not_more_and_how_to_repeat_it() {
    let args = ["run", "adaptive", "--set", "engine=sim", "--set", "input=[128,8192]"];
    let run = Profiler::new()
        .args(args)
        .args(["--set", "search.max_probes=9", "--set", "model=it's"])
        .args(["--seed", "7", "--out", "out"])
        .run()
        .success()
        .stderr("report: out/report.html");
    let out = run.folder().join("out");
    let html = page(&out);
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    assert!(
        html.contains("<title>SIMULATED")
            && html
                .matches("SIMULATED: Llama-3.1-8B-Instruct, 24 GB card (profile")
                .count()
                == 2
    );
    assert!(described(&html, "model").contains("meta-llama/Llama-3.1-8B-Instruct"));
    assert!(described(&html, "engine").starts_with("sim 0.24.0"));
    assert!(
        described(&html, "GPU").starts_with("SIMULATED: 24 GB card"),
        "{}",
        described(&html, "GPU")
    );
    let manifest: Value = serde_json::from_slice(&fs::read(out.join("manifest.json")).unwrap()).unwrap();
    assert!(described(&html, "script").contains(manifest["script"]["sha256"].as_str().unwrap()));
    assert_eq!(described(&html, "seed"), "7");
    let result: Value = serde_json::from_slice(&fs::read(out.join("result.json")).unwrap()).unwrap();
    let result = &result["result"];
    let limit = result["answer"]["limit"].as_str().unwrap();
    assert!(limit.contains("8,352"), "{limit}");
    assert!(html.contains(&format!("<title>SIMULATED · {limit}")), "the title");
    assert!(described(&html, "why not more").contains("8352 tokens"));
    let flags: Vec<&str> = result["flags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flag| flag.as_str().unwrap())
        .collect();
    assert!(described(&html, "what to run").contains(&flags.join(" ")));
    // A part with a single picture shows its heading once, with the note that it was simulated.
    let heading = "Largest input and output that fit";
    assert!(html.contains(&format!("-title\">{heading} <span class=\"tag\">SIMULATED</span></h2>")));
    assert!(html.contains(&format!("-title\" class=\"unseen\">{heading}")));
    assert!(described(&html, "room").contains("GiB"));

    let repeat = words(&described(&html, "to repeat it"));
    assert_eq!(repeat[..3], ["profiler", "run", "adaptive"]);
    assert!(repeat.contains(&"it's".to_owned()), "{repeat:?}");
    let again = Profiler::new()
        .args(&repeat[1..])
        .args(["--out", "again"])
        .run()
        .success();
    assert!(page(&again.folder().join("again")).contains(&format!("<title>SIMULATED · {limit}")));
}

#[test]
fn what_a_run_says_is_text_on_the_page_and_nothing_else() {
    let script = r#"
        let p = params(#{ x: param("", "anything") });
        let evil = "</script><img src=x onerror=alert(1)><script>alert(2)</script>";
        warn(evil);
        record(evil, evil);
        let map = boundary(#{ input: [1, 100] }, #{});
        map.record(#{ input: 10 }, "ok");
        map.record(#{ input: 50 }, #{ verdict: "oom", cause: evil, evidence: #{ log: [evil], message: evil } });
        warn("http://me:passphrase@127.0.0.1/");
        report(map);
        show(#{ value: evil }, evil);
        throw evil;
    "#;
    let name = "<img src=x onerror=alert(3)>.rhai";
    let run = Profiler::new()
        .file(name, script)
        .args(["run", name, "--out", "out", "--set", "x=<script>alert(4)"])
        .run();
    let html = page(&run.folder().join("out"));
    assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;"), "it is shown");
    assert!(!html.contains("<img") && !html.contains("<script>alert"));
    let scripts = html.matches("<script").count();
    let figures = html.matches("<script type=\"application/json\"").count();
    assert_eq!((scripts, html.matches("</script>").count()), (figures + 1, figures + 1));
    assert!(!html.contains("passphrase"));
    for address in ["src=\"", "url(http", "@import"] {
        assert!(!html.contains(address), "{address}: the page asks for nothing");
    }
}

#[test]
fn a_run_that_fails_leaves_a_page_that_says_so_and_a_page_that_cannot_be_written_fails_no_run() {
    let run = Profiler::new()
        .file("s.rhai", "record(\"begun\", 1); throw \"no such luck\"")
        .args(["run", "s.rhai", "--out", "out"])
        .run()
        .code(1)
        .stderr("report: out/report.html");
    let out = run.folder().join("out");
    let html = page(&out);
    assert!(html.contains("no such luck"));
    fs::remove_file(out.join("report.html")).unwrap();
    fs::create_dir_all(out.join("report.html/full")).unwrap();
    let _ = Profiler::new()
        .current_dir(run.folder())
        .args(["run", "s.rhai", "--resume", "out"])
        .run()
        .code(1)
        .stderr("warning: the run has no report");
}

#[test]
fn the_page_of_a_run_without_its_end_says_so_first_and_how_to_go_on() {
    let script = r#"
        let map = boundary(#{ input: [1, 100] }, #{});
        map.record(#{ input: 10 }, "ok");
        throw "later";
    "#;
    let run = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--out", "out", "--allow", "exec"])
        .run()
        .code(1)
        .stdout("profiler run s.rhai --resume out --allow exec");
    let html = page(&run.folder().join("out"));
    assert!(
        html.contains("<title>Unfinished: undecided: input=10 fits"),
        "the title"
    );
    assert!(html.find("did not come to its end").unwrap() < html.find(">What was found").unwrap());
    assert_eq!(
        described(&html, "to resume it"),
        "profiler run s.rhai --resume out --allow exec"
    );
    let own = described(&html, "its script");
    assert!(own.contains("s.rhai") && own.contains("script.rhai"), "{own}");
    assert!(run.folder().join("out/script.rhai").is_file());
}

#[test]
fn the_command_of_the_page_names_the_engine_that_auto_stood_for() {
    let run = Profiler::new()
        .args(["run", "adaptive", "--out", "out", "--set", "search.max_probes=3"])
        .run()
        .success();
    let html = page(&run.folder().join("out"));
    assert!(described(&html, "to repeat it").contains("--engine sim"));
    assert!(!html.contains("<dt>its script</dt>"), "a shipped one is everywhere");
    assert!(!html.contains("Unfinished") && !html.contains("to resume it"));
}

#[test]
fn several_runs_make_one_page_and_paths_are_printed() {
    let run = |limit: &str| {
        let limit = format!("limit={limit}");
        let args = ["run", "line.rhai", "--out", "out", "--set", limit.as_str()];
        Profiler::new().file("line.rhai", SEARCH).args(args).run().success()
    };
    let (one, other) = (run("500"), run("600"));
    let both = Profiler::new()
        .arg("report")
        .args([one.folder().join("out"), other.folder().join("out")])
        .run()
        .success();
    assert_eq!(both.stdout, "report.html\n");
    let html = page(both.folder());
    for folder in [one.folder(), other.folder()] {
        let manifest: Value = serde_json::from_slice(&fs::read(folder.join("out/manifest.json")).unwrap()).unwrap();
        assert!(html.contains(manifest["run"].as_str().unwrap()));
    }
    assert_eq!(html.matches("<h1").count(), 1);

    let alone = Profiler::new()
        .arg("report")
        .arg(one.folder().join("out"))
        .args(["--html", "deep/a.html", "--json"])
        .run()
        .success();
    assert_eq!(alone.json()["html"], "deep/a.html");
    assert!(alone.folder().join("deep/a.html").is_file());
}

#[test]
fn what_is_no_run_is_named_with_what_to_do() {
    let _ = Profiler::new()
        .args(["report", "nowhere"])
        .run()
        .code(2)
        .stderr("nowhere")
        .stderr("profiler run");
    let _ = Profiler::new()
        .file("other.json", "{}")
        .args(["report", "other.json"])
        .run()
        .code(2)
        .stderr("the format of `other.json` is unknown");
}

#[test]
fn charts_of_what_has_none_are_refused_and_a_page_beside_them_is_written() {
    let run = Profiler::new()
        .file("s.rhai", "42")
        .args(["run", "s.rhai", "--out", "out"])
        .run()
        .success();
    let report = |further: &[&str]| {
        let program = Profiler::new().arg("report").arg(run.folder().join("out"));
        program.args(["--svg", "pictures"]).args(further).run()
    };
    for further in [&[][..], &["--png", "pictures", "--json"]] {
        let refused = report(further).code(2).stderr("--html");
        assert_eq!(refused.stdout, "");
    }
    let written = report(&["--html", "page.html"])
        .success()
        .stdout("page.html")
        .stderr("can be drawn");
    assert!(written.folder().join("page.html").exists());
}

#[test]
fn the_points_of_another_tools_file_are_drawn() {
    let file = crate::import::fixture("tgi-profiler.json");
    let drawn = Profiler::new()
        .args(["report", &file, "--html", "page.html", "--svg", "pictures"])
        .run();
    let drawn = drawn.success().stdout("pictures/boundary.svg");
    let page = fs::read_to_string(drawn.folder().join("page.html")).unwrap();
    assert!(page.contains("8,192 + 521 tokens") && page.contains("32,768"));
    let _ = Profiler::new()
        .args(["report", &file, &file])
        .run()
        .code(2)
        .stderr("give it alone");
}

#[test]
fn the_command_of_the_page_repeats_the_run_with_all_that_changes_what_is_done() {
    // The last iteration exceeds the allowed number of operations; nothing else fails.
    let script = r#"
        let p = params(#{ n: param(1, "rounds"), m: param(0, "other") });
        let map = boundary(#{ input: [1, 9] }, #{});
        map.record(#{ input: p.m }, "ok");
        for i in 0..p.n {}
        p.m
    "#;
    let run = Profiler::new()
        .file("s.rhai", script)
        .file("p.json", "{ \"n\": 20000, \"m\": 2 }")
        .args(["run", "s.rhai", "--out", "out", "--params", "p.json", "--set", "m=3"])
        .args([
            "--allow",
            "exec",
            "--shared-gpu",
            "--max-operations",
            "5000",
            "--seed",
            "11",
        ])
        .run()
        .code(1)
        .stdout("--resume out --allow exec --shared-gpu --max-operations 5000");
    let html = page(&run.folder().join("out"));
    let again = Profiler::new()
        .file("s.rhai", script)
        .args(&words(&described(&html, "to repeat it"))[1..])
        .args(["--out", "out"])
        .run()
        .code(1);
    let document = |folder: &Path, name: &str| -> Value {
        serde_json::from_slice(&fs::read(folder.join("out").join(name)).unwrap()).unwrap()
    };
    let fault = document(run.folder(), "result.json")["fault"].clone();
    assert!(fault["message"].as_str().unwrap().contains("operations"), "{fault}");
    assert_eq!(document(again.folder(), "result.json")["fault"], fault);
    for name in [
        "set",
        "parameters",
        "seed",
        "permissions",
        "shared_gpu",
        "max_operations",
    ] {
        let before = &document(run.folder(), "manifest.json")[name];
        assert!(!before.is_null(), "{name}");
        assert_eq!(document(again.folder(), "manifest.json")[name], *before, "{name}");
    }
}

#[test]
fn every_option_of_run_is_in_the_command_that_repeats_it_or_changes_nothing() {
    let repeated = ["set", "seed", "allow", "max-operations", "shared-gpu", "insecure"];
    // Parameter files and short options are repeated as `--set`, and each choice of a matrix by its own run. The others
    // choose only where to write or what to show.
    let beside = [
        "params",
        "matrix",
        "attempt",
        "model",
        "url",
        "out",
        "resume",
        "trust-script",
        "max-time",
        "max-disk",
        "wait",
        "force-new",
        "dry-run",
        "json",
        "help",
        "color",
    ];
    let help = Profiler::new().args(["run", "--help"]).run().success();
    let options: Vec<&str> = help
        .stdout
        .lines()
        .filter_map(|line| line.trim_start().trim_start_matches("-h, ").strip_prefix("--"))
        .map(|rest| rest.split([' ', '=']).next().unwrap())
        .collect();
    assert!(options.contains(&"seed"), "{}", help.stdout);
    for option in options {
        assert!(repeated.contains(&option) || beside.contains(&option), "--{option}");
    }
}
