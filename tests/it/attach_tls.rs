//! A user attaches to servers over TLS: which certificates are trusted, and errors that name TLS and the remedy.

use crate::support::Profiler;
use crate::support::attached::{LOAD, POINT, attached, table};
use crate::support::made_up::MadeUp;
use crate::support::scripted::{Asked, SELF_SIGNED, Scripted, answer, healthy};

/// Runs the command with this file of trusted certificates against a server with a self-signed certificate, reached as
/// `host`. The server gets requests only if the command succeeds.
fn check(trusted: &str, host: &str, command: &str, code: i32, parts: &[&str]) {
    let server = Scripted::self_signed(healthy);
    let mut program = attached(&server.url.replace("127.0.0.1", host), command);
    if !trusted.is_empty() {
        program = program.env("SSL_CERT_FILE", format!("{}/{trusted}", env!("CARGO_MANIFEST_DIR")));
    }
    let _ = program.run().sees(code, parts);
    assert_eq!(server.asked(|_| true).is_empty(), code != 0);
}

const HERE: &str = "127.0.0.1";
const OTHER: &str = "tests/data/tls/certificate.pem";

table! { check:
    untrusted: "", HERE, POINT, 3, &["TLS", "SSL_CERT_FILE", "--insecure"];
    untrusted_by_auto: "", HERE, "run engine_info --engine auto", 3, &["TLS", "SSL_CERT_FILE", "--insecure"];
    untrusted_by_openai: "", HERE, "run engine_info --engine openai", 3, &["TLS", "SSL_CERT_FILE", "--insecure"];
    untrusted_by_vllm: "", HERE, "run engine_info --engine vllm", 3, &["TLS", "SSL_CERT_FILE", "--insecure"];
    trusted_is_another: OTHER, HERE, POINT, 3, &["TLS"];
    trusted: SELF_SIGNED, HERE, POINT, 0, &[];
    trusted_for_a_load: SELF_SIGNED, HERE, LOAD, 0, &[];
    /// The certificate is valid for 127.0.0.1 and `localhost` only.
    trusted_for_another_name: SELF_SIGNED, "127.0.0.2", POINT, 3, &["TLS", "name"];
    insecure_load: "", HERE, "run throughput --input 20 --output 4 --concurrency [2] --min-requests 4 --insecure", 0, &[];
    insecure_elsewhere_by_auto: "", "192.0.2.1", "run engine_info --engine auto --insecure", 2, &["--insecure"];
    insecure_elsewhere_by_openai: "", "192.0.2.1", "run engine_info --engine openai --insecure", 2, &["--insecure"];
    insecure_elsewhere_by_vllm: "", "192.0.2.1", "run engine_info --engine vllm --insecure", 2, &["--insecure"];
    /// A script cannot set it, neither as a parameter nor, below, as an option of an engine.
    insecure_as_a_parameter: "", HERE, "run adaptive --set insecure=true", 2, &["insecure"];
}

#[test]
fn insecure_as_an_option_of_an_engine() {
    let server = Scripted::self_signed(healthy);
    let script = format!(
        r#"import "std/engines" as engines;
        engines::attach("openai", #{{ url: "{}", insecure: true }}).start()"#,
        server.url
    );
    let own = Profiler::new().file("s.rhai", script);
    let _ = own.args(["run", "s.rhai", "--allow", "net=127.0.0.1"]).run().code(2);
    assert!(server.asked(|_| true).is_empty());
}

#[test]
fn insecure_is_kept_in_the_manifest() {
    let server = Scripted::self_signed(healthy);
    let run = attached(&server.url, POINT).args(["--insecure", "--out", "out"]);
    let run = run.run().success();
    let manifest = std::fs::read_to_string(run.folder().join("out/manifest.json")).unwrap();
    assert!(manifest.contains("\"insecure\": true"), "{manifest}");
}

/// The first server answers as it does to a malformed request; the second closes the connection.
#[test]
fn a_server_without_tls() {
    let (speaks, closes) = (MadeUp::default().start(), Scripted::start(healthy));
    for url in [&speaks.url, &closes.url] {
        let outcome = attached(&url.replace("http://", "https://"), POINT).run();
        let _ = outcome.sees(3, &["TLS", "`http://`", "!SSL_CERT_FILE"]);
    }
}

/// The message of a proxy to a request without TLS.
#[test]
fn a_server_with_tls_says_so_to_a_request_without() {
    let server = Scripted::start(|_: &Asked| answer(400, "", "Client sent an HTTP request to an HTTPS server.\n"));
    let _ = attached(&server.url, POINT).run().sees(3, &["`https://`"]);
    assert_eq!(server.asked(|_| true).len(), 1);
}
