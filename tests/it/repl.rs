//! A user works in the REPL at a keyboard, through a pseudo-terminal, or sends it input through a pipe.

use std::path::Path;

use nix::sys::signal::Signal;

use crate::runtime::docker;
use crate::support::engines::{container, process, runs};
use crate::support::{Dialogue, Profiler, needs_docker};

/// Printed by the editor once it controls the keyboard. Before that, the terminal handles Ctrl-C and Ctrl-D.
const READY: &str = "\x1b[?2004h";

fn repl() -> Dialogue {
    let mut repl = Profiler::new().arg("repl").on_terminal();
    repl.expect(READY);
    repl
}

/// Leaves with Ctrl-D after the last answer.
#[track_caller]
fn leave(mut repl: Dialogue) {
    repl.expect(READY);
    repl.control('d');
    assert_eq!(repl.end(), 0);
}

/// Types a line and waits for its answer, which must not be part of the line itself. The next input needs no further
/// wait.
#[track_caller]
fn ask(repl: &mut Dialogue, line: &str, answer: &str) {
    repl.line(line);
    repl.expect(&format!("\n{answer}\r\n"));
}

#[test]
fn a_function_may_span_lines() {
    let mut repl = repl();
    repl.line("fn plus(a, b) {");
    repl.line("  a + b // }");
    repl.line("}");
    ask(&mut repl, "plus(40, 2)", "42");
    ask(&mut repl, "let t = `a\rb`; t.len()", "3");
    leave(repl);
}

#[test]
fn words_that_people_type_in_any_shell_work() {
    for (line, answer) in [("help", ":save FILE"), ("?sleep", "sleep(seconds: float)")] {
        let mut repl = repl();
        repl.line(line);
        repl.expect(answer);
        leave(repl);
    }
    for line in ["exit", "quit", ":q"] {
        let mut repl = repl();
        repl.line(line);
        assert_eq!(repl.end(), 0, "{line}");
    }
}

#[test]
fn it_says_how_to_get_help_how_long_a_line_took_and_what_simulated_means() {
    let mut repl = Profiler::new().arg("repl").on_terminal();
    repl.expect(concat!("profiler ", env!("CARGO_PKG_VERSION"), ": type Rhai; `:help`"));
    repl.expect(READY);
    repl.line("sleep(0.2)");
    repl.expect("took 0.");
    repl.line("import \"std/engines\" as engines;");
    repl.line("let engine = engines::describe(\"sim\", #{ sim: #{ time_scale: 0.0 } });");
    repl.line("engine.probe(#{ input: 100, output: 10 })");
    repl.expect("simulated: no GPU is used");
    repl.expect("#{ verdict: \"ok\", ");
    repl.expect("SIMULATED> ");
    repl.control('d');
    assert_eq!(repl.end(), 0);
}

#[test]
fn a_report_is_not_pushed_off_the_screen_by_its_value() {
    let outcome = Profiler::new()
        .arg("repl")
        .stdin("let map = boundary(#{ input: [1, 100] }, #{}); map.record(#{ input: 50 }, \"ok\"); report(map)\n")
        .run()
        .success();
    assert!(!outcome.stdout.contains("#{"), "{}", outcome.stdout);
}

#[test]
fn values_are_shown_and_errors_quoted() {
    let mut repl = repl();
    ask(&mut repl, "#{ verdict: \"o\" + \"k\" }", "#{ verdict: \"ok\" }");
    repl.line("let log = []; log.pad(50, \"a line\"); #{ log: log, verdict: \"o\" + \"k\" }");
    repl.expect("\n#{ verdict: \"ok\", ");
    repl.expect("`:last` shows all of it");
    repl.line(":last");
    repl.expect("\r\n  verdict: \"ok\",\r\n}");
    repl.line(":json");
    repl.expect("\r\n  \"verdict\": \"ok\"\r\n}");
    repl.line("let wrong = nothing_here;");
    repl.expect("unknown variable `nothing_here`");
    repl.expect("input 3:1:13");
    repl.expect(READY);
    repl.line("const M = #{ a: 1 };");
    repl.line("M.a = 2");
    repl.expect("`M` is constant");
    ask(&mut repl, "M.a + 41", "42");
    repl.line(":quit");
    assert_eq!(repl.end(), 0);
}

#[test]
fn tab_completes() {
    let mut repl = repl();
    repl.line("let measurements = [20, 22];");
    ask(&mut repl, "measu\t.le\t() + 40", "42");
    repl.line(":he\t slee\t");
    repl.expect("sleep(seconds: float)");
    leave(repl);
}

#[test]
fn the_signature_is_shown_while_a_call_is_typed() {
    let mut repl = repl();
    repl.keys("sleep(");
    repl.expect("sleep(seconds: ");
    repl.control('c');
    leave(repl);
}

#[test]
fn history_outlives_the_session() {
    let mut first = repl();
    ask(&mut first, "6 * 7", "42");
    first.expect(READY);
    let mut second = first.again();
    second.expect(READY);
    second.keys("\x1b[A");
    second.expect("6 * 7");
    second.keys(" + 1\r");
    second.expect("\n43\r\n");
    leave(second);
}

#[test]
fn help_tells_of_commands_and_names() {
    let mut repl = repl();
    repl.line(":help");
    repl.expect(":save FILE");
    repl.expect(READY);
    repl.line(":help sleep");
    repl.expect("sleep(seconds: float)\r\n\r\nWaits");
    repl.expect(READY);
    repl.line("/// Doubles a number.\rfn twice(n) { 2 * n }");
    repl.expect(READY);
    repl.line(":help twice");
    repl.expect("Doubles a number.");
    repl.expect(READY);
    repl.line(":help slep");
    repl.expect("`sleep`?");
    repl.line(":hepl");
    repl.expect("`:help`?");
    leave(repl);
}

#[test]
fn a_saved_session_runs() {
    let mut repl = repl();
    std::fs::write(repl.folder().join("mine.rhai"), "fn twice(n) { 2 * n }").unwrap();
    repl.line("let x = 20");
    repl.line("let lost = 1; throw \"no\"");
    repl.expect("no");
    repl.line("import \"mine\" as mine");
    repl.line("fn answer(n) { mine::twice(n) + 2 }");
    ask(&mut repl, "answer(x)", "42");
    repl.line(":save session.rhai");
    repl.expect("saved `session.rhai`");
    repl.line(":save session.rhai");
    repl.expect("`:save! session.rhai` replaces it");
    repl.line(":reset");
    repl.line(":scope");
    repl.expect("no variables");
    repl.line(":load session.rhai");
    repl.expect("\n42\r\n");
    repl.line(":scope");
    repl.expect("let x: int = 20");
    let saved = std::fs::read_to_string(repl.folder().join("session.rhai")).unwrap();
    assert!(!saved.contains("lost"), "{saved}");
    assert!(saved.find("import").unwrap() < saved.find("let x").unwrap(), "{saved}");
    leave(repl);
}

#[test]
fn control_c_drops_the_line_or_stops_the_running_one() {
    let mut repl = repl();
    repl.line("let x = 41");
    repl.keys("let x = 7; thr");
    repl.expect("thr");
    repl.control('c');
    repl.expect(READY);
    repl.line("print(\"go\" + \"ing\"); sleep(100); let x = 8;");
    repl.expect("going");
    repl.control('c');
    repl.expect("interrupted");
    repl.expect(READY);
    ask(&mut repl, "x + 1", "42");
    repl.line("print(\"on\" + \"ward\"); loop {}");
    repl.expect("onward");
    repl.control('c');
    repl.expect("interrupted");
    ask(&mut repl, "x + 2", "43");
    leave(repl);
}

#[test]
fn a_signal_to_end_is_obeyed_at_the_prompt_and_in_a_line() {
    let mut waiting = repl();
    waiting.signal(Signal::SIGTERM);
    assert_eq!(waiting.end(), 143);

    let mut running = repl();
    running.line("print(\"go\" + \"ing\"); sleep(100)");
    running.expect("going");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end(), 143);
}

#[test]
fn leaving_ends_what_the_session_started() {
    let mut repl = Profiler::new()
        .args(["repl", "--allow", "process,image=profiler-test"])
        .on_terminal();
    repl.line("let server = process::start(#{ command: [\"sh\", \"-c\", \"echo pid=$$; exec sleep 1000\"] });");
    repl.line("while server.logs().is_empty() { sleep(0.01); } print(`the ` + server.logs()[0] + `;`);");
    repl.expect("the pid=");
    let pid = repl.expect(";");
    let process = Path::new("/proc").join(&pid);
    assert!(process.exists(), "{pid}");
    leave(repl);
    assert!(!process.exists(), "{pid} lives");
}

/// Starts an engine in the session, whose command line contains `name`, queries it, and leaves with Ctrl-D.
fn leave_with_an_engine(runtime: &str, adapter: &str, name: &str) {
    let mut repl = Profiler::new()
        .file("mine.rhai", adapter)
        .args(["repl", "--allow", "process,image=profiler-test", "--set"])
        .arg(format!("runtime={runtime}"))
        .on_terminal();
    let lives = || match runtime {
        "docker" => docker(&["ps", "--all", "--no-trunc", "--format", "{{.Command}}"]).contains(name),
        _ => runs(name),
    };
    repl.expect(READY);
    repl.line("import \"std/engines\" as engines;");
    repl.line("let p = params(#{ runtime: param(\"\", \"where it lives\") });");
    repl.line("let engine = engines::describe(\"./mine.rhai\", #{ runtime: p.runtime });");
    repl.line("engine.probe(#{ input: 100, output: 10 }).verdict + \"ay\"");
    repl.expect("\"okay\"");
    assert!(lives(), "the engine does not outlive its line");
    leave(repl);
    assert!(!lives(), "the engine outlives its session");
}

#[test]
fn leaving_ends_an_engine_that_is_a_process() {
    let name = format!("of-a-session-{}", std::process::id());
    leave_with_an_engine("process", &process(0.0, &format!(r#"["--model", "{name}"]"#)), &name);
}

#[test]
fn leaving_ends_an_engine_that_is_a_container() {
    if needs_docker() {
        let name = format!("in-a-container-of-a-session-{}", std::process::id());
        leave_with_an_engine("docker", &container(0.0, &format!(r#"["--model", "{name}"]"#)), &name);
    }
}

#[test]
fn a_script_is_loaded_first() {
    let mut repl = Profiler::new()
        .file("kit/helper.rhai", "fn one() { 1 }")
        .file(
            "kit/main.rhai",
            "//! A kit.\nimport \"helper\" as helper;\nconst BASE = 41;\nfn answer() { global::BASE + helper::one() }\nanswer() + 1",
        )
        .args(["repl", "kit/main.rhai"])
        .on_terminal();
    repl.expect("43\r\n");
    repl.expect(READY);
    ask(&mut repl, "answer()", "42");
    ask(&mut repl, "helper::one()", "1");
    leave(repl);
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let program = Profiler::new();
    let state = program.folder().join("state");
    let outcome = program
        .env("XDG_STATE_HOME", &state)
        .arg("repl")
        .stdin("let x = 40;\nfn f(n) {\n  n + 2\n}\nprint(\"hello\");\nf(x)\n:hepl\nlet y = ;\nx\n")
        .run();
    // All input is run, although some of it fails.
    let outcome = outcome.code(1).stderr("`:help`?").stderr("input 5:1:9");
    assert_eq!(outcome.stdout, "hello\n42\n40\n");
    assert!(state.join("profiler/history").exists());
    let misspelt = "boundary(#{ inptu: [1, 2] }, #{})\nlet p = #{ colour: 1 };\np.coluor\nstart(1)\n";
    let outcome = Profiler::new().arg("repl").stdin(misspelt).run().code(1);
    let _ = outcome
        .stderr("`input`?")
        .stderr("`colour`?")
        .stderr("help: it is `start(engine: Engine)`\n");
    let _ = Profiler::new().arg("repl").stdin("1 + 1\n").run().success();
}
