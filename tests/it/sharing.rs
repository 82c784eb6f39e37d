//! A user adds other people's scripts from a file, a folder, a URL or a Git server; they are pinned by hash, and can be
//! run and imported by name.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Runtime;

use crate::support::{Outcome, Profiler, needs_git, temp};

const HALVING: &str = "//! Halves what is open. Shared by Git.
//! version: 1.2
//! author: Ann Other
//! license: MIT
//! requires: profiler >= 0.1
//! allow: port=8000
import \"lib/rule\" as rule;
fn twice() { 2 * rule::value() }
print(`rule ${rule::value()}`);
";

/// A folder of repositories, and its server.
struct GitServer {
    folder: tempfile::TempDir,
    url: String,
    _runtime: Runtime,
}

impl GitServer {
    /// Starts Git's own HTTP backend on loopback.
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let folder = temp();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}/it.git", listener.local_addr().unwrap());
        let router = Router::new().fallback(backend).with_state(folder.path().to_owned());
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            folder,
            url,
            _runtime: runtime,
        }
    }

    /// Commits these files on the branch `main` of `it.git` and returns the commit.
    fn commit(&self, files: &[(&str, &str)], tag: &str) {
        let work = self.folder.path().join("work");
        if !work.exists() {
            git(
                self.folder.path(),
                &["init", "--quiet", "--initial-branch=main", "work"],
            );
            git(
                self.folder.path(),
                &["init", "--quiet", "--bare", "--initial-branch=main", "it.git"],
            );
        }
        for (name, text) in files {
            let path = work.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        git(&work, &["add", "--all"]);
        git(&work, &["commit", "--quiet", "--message", tag]);
        git(&work, &["tag", tag]);
        git(&work, &["push", "--quiet", "../it.git", "main", tag]);
    }
}

fn git(folder: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
    assert!(command.args(args).status().unwrap().success(), "git {args:?}");
}

async fn backend(State(root): State<std::path::PathBuf>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
            .to_owned()
    };
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&body).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap().stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(&value[..3]),
            _ => response.header(name, value),
        };
    }
    response.body(Body::from(output[end + 4..].to_vec())).unwrap()
}

/// Runs the program with `home` as the place of the user's scripts.
fn at(home: &Path, args: &[&str]) -> Outcome {
    with(Profiler::new(), home, args)
}

fn with(program: Profiler, home: &Path, args: &[&str]) -> Outcome {
    program.env("XDG_DATA_HOME", home).args(args).run()
}

#[test]
fn a_script_of_a_git_server_runs_by_name_as_the_lock_has_it() {
    if !needs_git() {
        return;
    }
    let (server, home) = (GitServer::start(), temp());
    let home = home.path();
    let rule = |value: &str| format!("fn value() {{ {value} }}");
    server.commit(
        &[("halving/halving.rhai", HALVING), ("halving/lib/rule.rhai", &rule("7"))],
        "v1",
    );
    server.commit(&[("halving/lib/rule.rhai", &rule("8"))], "v2");

    let added = at(home, &["add", &format!("git+{}@v1#halving", server.url)]).success();
    let _ = added
        .stdout("added halving, 2 files")
        .stdout("author Ann Other")
        .stdout("needs --allow port=8000");
    let _ = at(home, &["add", &format!("{}#halving", server.url), "--name", "newest"]).success();
    let _ = at(home, &["add", &format!("{}#halving", server.url), "--name", "newest"])
        .code(2)
        .stderr("was added before");

    let ran = at(home, &["run", "halving"]).success().stdout("rule 7");
    let _ = ran.stderr("says that it needs --allow port=8000");
    let _ = at(home, &["run", "newest"]).success().stdout("rule 8");
    let help = at(home, &["run", "halving", "--help"]).success();
    let _ = help
        .stdout("Halves what is open. Shared by Git.")
        .stdout("license MIT")
        .nowhere("requires:");
    let _ = at(home, &["list"])
        .success()
        .stdout("halving")
        .stdout("author Ann Other");

    // Its modules can be imported by its name, and the run stores the versions that ran.
    let own = "import \"halving\" as h; import \"newest/lib/rule\" as r; print(`own ${h::twice()} ${r::value()}`);";
    let imported = with(
        Profiler::new().file("own.rhai", own),
        home,
        &["run", "own.rhai", "--out", "run"],
    );
    let imported = imported.success().stdout("own 14 8");
    let manifest = fs::read(imported.folder().join("run/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let listed = at(home, &["list", "--json"]).success().json();
    let pinned = &listed["added"][0]["files"]["lib/rule.rhai"];
    assert_eq!(listed["added"][0]["intact"], true);
    assert!(
        pinned.is_string() && &manifest["modules"]["@halving/lib/rule.rhai"] == pinned,
        "{manifest:#}"
    );

    // A file that differs from the lock is not run, imported, or loaded as an adapter.
    let file = home.join("profiler/scripts/halving/lib/rule.rhai");
    fs::write(&file, "fn value() { 9 }").unwrap();
    let refused = "`@halving/lib/rule.rhai` has changed since it was added";
    let _ = at(home, &["run", "halving"]).code(3).stderr(refused).nowhere("rule 9");
    let _ = with(Profiler::new().file("own.rhai", own), home, &["run", "own.rhai"])
        .code(3)
        .stderr(refused);
    let _ = at(home, &["run", file.to_str().unwrap()]).code(3).stderr(refused);
    fs::write(home.join("profiler/scripts/halving/more.rhai"), "print(1)").unwrap();
    let more = home.join("profiler/scripts/halving/more.rhai");
    let _ = at(home, &["run", more.to_str().unwrap()])
        .code(3)
        .stderr("was not added");

    let _ = at(home, &["list"]).success().stdout("has changed since it was added");

    // A pinned revision stays; a branch moves only on `update`.
    server.commit(&[("halving/lib/rule.rhai", &rule("10"))], "v3");
    let _ = at(home, &["run", "newest"]).success().stdout("rule 8");
    let updated = at(home, &["update"]).success();
    let _ = updated
        .stdout("updated newest")
        .stdout("changed: lib/rule.rhai")
        .stdout("updated halving");
    let _ = at(home, &["run", "newest"]).success().stdout("rule 10");
    let _ = at(home, &["run", "halving"]).success().stdout("rule 7");

    let _ = at(home, &["remove", "halving"]).success();
    let _ = at(home, &["run", "halving"]).code(2).stderr("`halving`");
    assert!(!home.join("profiler/scripts/halving").exists());
}

#[test]
fn what_was_added_is_still_a_strangers() {
    let home = temp();
    let starts = "print(process::start(#{ command: [\"true\"] }).wait().code)";
    let program = Profiler::new().file("starts.rhai", starts);
    let _ = with(program, home.path(), &["add", "starts.rhai"]).success();
    let _ = at(home.path(), &["run", "starts"]).code(3).stderr("--allow process");
    let _ = at(home.path(), &["run", "starts", "--allow", "process"]).success();
}

#[test]
fn files_folders_and_addresses_are_added_and_what_is_no_script_is_not() {
    let home = temp();
    let home = home.path();
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = format!("http://{}/sent.rhai", listener.local_addr().unwrap());
    let router = Router::new().route("/sent.rhai", axum::routing::get(|| async { "print(\"sent\")" }));
    runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
    let _ = at(home, &["add", &address]).success().stdout("added sent, 1 file");
    let _ = at(home, &["run", "sent"]).success().stdout("sent");

    // A folder without a script of its own name, with files that must not be added.
    let folder = Profiler::new()
        .file("two/one.rhai", "import \"other\" as o; print(o::text())")
        .file("two/other.rhai", "//! version: 1.0\nfn text() { \"of the folder\" }")
        .file("two/.hidden.rhai", "nonsense(")
        .file("two/data.bin", "x");
    std::os::unix::fs::symlink("/etc/passwd", folder.folder().join("two/passwd.txt")).unwrap();
    let _ = with(folder, home, &["add", "two"])
        .success()
        .stdout("two/one, two/other");
    let _ = at(home, &["run", "two/one"]).success().stdout("of the folder");
    let _ = at(home, &["run", "two"]).code(2).stderr("two/one");
    let taken = fs::read_dir(home.join("profiler/scripts/two")).unwrap().count();
    assert_eq!(taken, 2);

    let requires = |what: &str| Profiler::new().file("r.rhai", format!("//! requires: {what}\n1"));
    for (program, source, message) in [
        (
            Profiler::new().file("adaptive.rhai", "1"),
            "adaptive.rhai",
            "ships with profiler",
        ),
        (
            Profiler::new().file("a.rhai", "import \"b\" as b; b::c()"),
            "a.rhai",
            "add their folder",
        ),
        (
            Profiler::new().file("a.rhai", "//! allow: prot=1\n1"),
            "a.rhai",
            "`port`?",
        ),
        (
            Profiler::new().file("big.rhai", "/".repeat(300 << 10)),
            "big.rhai",
            "256.0 KiB",
        ),
        (Profiler::new().file("x/y.txt", "1"), "x", "has no script"),
        (Profiler::new(), "http://example.org/a.rhai", "give its https address"),
        (Profiler::new(), "git+http://example.org/a", "give its https address"),
        (Profiler::new(), "nowhere", "`nowhere`"),
    ] {
        let _ = with(program, home, &["add", source]).code(2).stderr(message);
    }
    let _ = with(requires("absent >= 1.0"), home, &["add", "r.rhai"])
        .code(2)
        .stderr("--name absent");
    let _ = with(requires("sent >= 1.0"), home, &["add", "r.rhai"])
        .code(2)
        .stderr("`profiler update sent`");
    let _ = with(requires("sent, profiler >= 0.1"), home, &["add", "r.rhai"]).success();
}

#[test]
fn an_address_of_a_repository_runs_no_command_and_links_in_it_lead_nowhere() {
    if !needs_git() {
        return;
    }
    let (server, home) = (GitServer::start(), temp());
    server.commit(&[("a.rhai", "print(1)"), ("sub/b.txt", "x")], "v1");
    let work = server.folder.path().join("work");
    std::os::unix::fs::symlink("/etc/passwd", work.join("passwd.txt")).unwrap();
    server.commit(&[], "v2");
    let _ = at(home.path(), &["add", &server.url])
        .success()
        .stdout("added it, 2 files");
    assert!(!home.path().join("profiler/scripts/it/passwd.txt").exists());
    let touch = home.path().join("touched");
    for source in [
        format!("git+ext::touch% {}", touch.display()),
        "git+--upload-pack=x/y".to_owned(),
        format!("{}@no-such-revision", server.url),
        format!("{}#no/such/path", server.url),
        "git+http://user:hunter2@127.0.0.1:1/x.git".to_owned(),
    ] {
        let refused = at(home.path(), &["add", &source, "--name", "other"]);
        let _ = refused.nowhere("added other").nowhere("hunter2");
    }
    assert!(!touch.exists());
    let listed = at(home.path(), &["list", "--json"]).success().json();
    assert_eq!(listed["added"].as_array().unwrap().len(), 1);
}
