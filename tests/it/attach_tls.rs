//! A user attaches to servers over TLS: which certificates are trusted, and errors that name TLS and the remedy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::made_up::MadeUp;
use crate::support::scripted::{Asked, SELF_SIGNED, Scripted, healthy};
use crate::support::{Outcome, Profiler};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn probe(url: &str) -> Profiler {
    Profiler::new().args(["run", "adaptive", "--url", url]).args([
        "--set",
        "input=32",
        "--set",
        "output=4",
        "--set",
        "concurrency=1",
    ])
}

fn load(url: &str) -> Profiler {
    Profiler::new()
        .args(["run", "throughput", "--url", url, "--set", "concurrency=[2]"])
        .args(["--set", "input=20", "--set", "output=4", "--set", "min_requests=4"])
}

/// Fails unless the error names TLS and no request reached the server.
fn refused(server: &Scripted, outcome: Outcome) -> Outcome {
    let outcome = outcome.code(3);
    let error = outcome.stderr.lines().find(|line| line.starts_with("error"));
    assert!(error.is_some_and(|error| error.contains("TLS")), "{}", outcome.stderr);
    assert!(server.asked(|_| true).is_empty());
    outcome
}

#[test]
fn a_certificate_that_is_its_own_issuer_is_trusted_where_the_user_names_it() {
    let server = Scripted::self_signed(healthy);
    for engine in ["auto", "openai", "vllm"] {
        let engine = format!("engine={engine}");
        let outcome = refused(&server, probe(&server.url).args(["--set", &engine]).run());
        let _ = outcome.stderr("SSL_CERT_FILE").stderr("--insecure");
    }
    let other = format!("{ROOT}/tests/data/tls/certificate.pem");
    let _ = refused(&server, probe(&server.url).env("SSL_CERT_FILE", &other).run());
    let named = format!("{ROOT}/{SELF_SIGNED}");
    let _ = probe(&server.url).env("SSL_CERT_FILE", &named).run().success();
    let _ = load(&server.url).env("SSL_CERT_FILE", &named).run().success();
    // The certificate is valid for 127.0.0.1 and `localhost` only.
    let before = server.asked(|_| true).len();
    let elsewhere = server.url.replace("127.0.0.1", "127.0.0.2");
    let outcome = probe(&elsewhere).env("SSL_CERT_FILE", &named).run().code(3);
    let _ = outcome.stderr("TLS").stderr("name");
    assert_eq!(server.asked(|_| true).len(), before);
}

#[test]
fn only_servers_on_this_machine_go_unverified_and_only_where_the_user_says_so() {
    let server = Scripted::self_signed(healthy);
    let run = probe(&server.url).args(["--insecure", "--out", "out"]).run().success();
    let manifest = std::fs::read_to_string(run.folder().join("out/manifest.json")).unwrap();
    assert!(manifest.contains("\"insecure\": true"), "{manifest}");
    let _ = load(&server.url).arg("--insecure").run().success();
    let asked = server.asked(|_| true).len();
    for engine in ["auto", "openai", "vllm"] {
        let elsewhere = probe("https://192.0.2.1").args(["--insecure", "--set", &format!("engine={engine}")]);
        let _ = elsewhere.run().code(2).stderr("--insecure");
    }
    // No script can set it, neither as a parameter nor as an option of an engine.
    let _ = probe(&server.url).args(["--set", "insecure=true"]).run().code(2);
    let script = format!(
        r#"import "std/engines" as engines;
        engines::attach("openai", #{{ url: "{}", insecure: true }}).start()"#,
        server.url
    );
    let own = Profiler::new().file("s.rhai", script);
    let _ = own.args(["run", "s.rhai", "--allow", "net=127.0.0.1"]).run().code(2);
    assert_eq!(server.asked(|_| true).len(), asked);
}

#[test]
fn a_server_without_tls_is_told_apart() {
    // The first answers as it does to a malformed request; the second closes the connection.
    let (speaks, closes) = (MadeUp::default().start(), Scripted::start(healthy));
    for url in [&speaks.url, &closes.url] {
        let url = url.replace("http://", "https://");
        let outcome = probe(&url).run().code(3).stderr("TLS").stderr("`http://`");
        let _ = outcome.nowhere("SSL_CERT_FILE");
    }
}

/// The message of a proxy to a request without TLS.
#[test]
fn a_server_with_tls_says_so_to_a_request_without() {
    let count = Arc::new(AtomicUsize::default());
    let seen = Arc::clone(&count);
    let server = Scripted::start(move |_: &Asked| {
        seen.fetch_add(1, Ordering::Relaxed);
        crate::support::scripted::answer(400, "", "Client sent an HTTP request to an HTTPS server.\n")
    });
    let _ = probe(&server.url).run().code(3).stderr("`https://`");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
