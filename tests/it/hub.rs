//! A user's run fetches a tokenizer or model from the hub; the hub is a local server that answers like the real one.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use profiler::fault::{Fault, Kind};
use profiler::prompt::{Hub, Tokenizer, locate};
use tempfile::TempDir;

use super::prompt::families;
use super::support::hub::{self, Answer, Answers, COMMIT, Server, TOKEN, error, file};
use super::support::{Profiler, temp};

fn tokenizer() -> Vec<u8> {
    families::byte_level().to_string().into_bytes()
}

const MAIN: &str = "/org/name/resolve/main/tokenizer.json";

fn one(answers: Vec<Answer>) -> Answers {
    HashMap::from([(MAIN, answers)])
}

async fn refused(answers: Answers) -> (Fault, Server, TempDir) {
    let server = Server::start(answers).await;
    let cache = temp();
    let fault = locate("org/name", &server.hub(cache.path())).await.unwrap_err();
    assert!(!format!("{fault:?}").contains(TOKEN));
    (fault, server, cache)
}

#[tokio::test]
async fn a_tokenizer_is_fetched_into_the_caches_layout_once() {
    let pinned = |name| match name {
        "tokenizer_config.json" => "/org/name/resolve/0123456789abcdef0123456789abcdef01234567/tokenizer_config.json",
        _ => "/org/name/resolve/0123456789abcdef0123456789abcdef01234567/config.json",
    };
    let answers = HashMap::from([
        (MAIN, vec![file("aaaaaaaaaaaa", tokenizer())]),
        (
            pinned("tokenizer_config.json"),
            vec![file("bbbbbbbbbbbb", r#"{"bos_token":"<s>"}"#)],
        ),
        (
            pinned("config.json"),
            vec![file("W/\"cccccccccccc", r#"{"vocab_size":400}"#)],
        ),
    ]);
    let server = Server::start(answers).await;
    let cache = temp();
    let hub = server.hub(cache.path());
    let folder = locate("org/name", &hub).await.unwrap();

    let model = cache.path().join("models--org--name");
    assert_eq!(folder, model.join("snapshots").join(COMMIT));
    assert_eq!(std::fs::read_to_string(model.join("refs/main")).unwrap(), COMMIT);
    let link = std::fs::read_link(folder.join("tokenizer.json")).unwrap();
    assert_eq!(link, Path::new("../../blobs/aaaaaaaaaaaa"));
    Tokenizer::open(&folder).unwrap();
    let names: Vec<_> = std::fs::read_dir(model.join("blobs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 3, "nothing half-written is left: {names:?}");

    let asked = server.requests().len();
    assert_eq!(asked, 4, "the chat template is asked for, and may be missing");
    assert_eq!(locate("org/name", &hub).await.unwrap(), folder);
    let offline = Hub { offline: true, ..hub };
    assert_eq!(locate("org/name", &offline).await.unwrap(), folder);
    assert_eq!(server.requests().len(), asked, "the cache answers");
}

#[tokio::test]
async fn the_token_goes_to_the_hub_and_to_nobody_else() {
    let elsewhere = Server::start(HashMap::from([(
        "/blob",
        vec![Answer {
            status: 200,
            headers: vec![("etag", "\"theirs-that-is-not-a-name\"".into())],
            body: tokenizer(),
        }],
    )]))
    .await;
    let moved = Answer {
        status: 302,
        headers: vec![
            ("location", format!("http://{}/blob", elsewhere.address)),
            ("x-repo-commit", COMMIT.into()),
            ("x-linked-etag", "\"dddddddddddd\"".into()),
        ],
        body: Vec::new(),
    };
    let server = Server::start(one(vec![moved])).await;
    let cache = temp();
    let folder = locate("org/name", &server.hub(cache.path())).await.unwrap();
    let link = std::fs::read_link(folder.join("tokenizer.json")).unwrap();
    assert_eq!(link, Path::new("../../blobs/dddddddddddd"), "named as the hub names it");
    assert!(
        server
            .tokens()
            .iter()
            .all(|token| token.as_deref() == Some(&format!("Bearer {TOKEN}")))
    );
    assert_eq!(elsewhere.tokens(), [None]);
}

#[tokio::test]
async fn a_redirect_within_the_hub_is_followed() {
    let moved = Answer {
        status: 307,
        headers: vec![("location", "/api/resolve-cache/x".into())],
        body: Vec::new(),
    };
    let answers = HashMap::from([
        (MAIN, vec![moved]),
        ("/api/resolve-cache/x", vec![file("eeeeeeeeeeee", tokenizer())]),
    ]);
    let server = Server::start(answers).await;
    let cache = temp();
    locate("org/name", &server.hub(cache.path())).await.unwrap();
}

#[tokio::test]
async fn a_failing_hub_is_asked_again() {
    let server = Server::start(one(vec![
        error(503, ""),
        error(500, ""),
        error(429, ""),
        file("ffffffffffff", tokenizer()),
    ]))
    .await;
    let cache = temp();
    locate("org/name", &server.hub(cache.path())).await.unwrap();
    assert_eq!(server.requests().iter().filter(|path| *path == MAIN).count(), 4);

    let (fault, server, _cache) = refused(one(vec![error(502, "")])).await;
    assert_eq!(fault.kind, Kind::Missing);
    assert!(fault.message.contains("502"), "{fault}");
    assert_eq!(server.requests().len(), 4, "not for ever");
}

#[tokio::test]
async fn what_the_hub_refuses_is_told_with_a_remedy() {
    for (answer, message, remedy) in [
        (error(403, "GatedRepo"), "is gated", "accept the terms"),
        (error(401, "GatedRepo"), "is gated", "HF_TOKEN"),
        (error(401, "RepoNotFound"), "no model `org/name`", "HF_TOKEN"),
        (error(404, "RepoNotFound"), "no model `org/name`", "name"),
        (error(404, "RevisionNotFound"), "no revision", "revision"),
        (error(404, "EntryNotFound"), "has no `tokenizer.json`", "`tokenizer`"),
    ] {
        let (fault, server, _cache) = refused(one(vec![answer])).await;
        assert_eq!(fault.kind, Kind::Missing, "{fault}");
        assert!(fault.message.contains(message), "{fault}");
        assert!(fault.hint.clone().unwrap().contains(remedy), "{fault:?}");
        assert_eq!(server.requests().len(), 1, "asking again would not help");
    }
}

#[tokio::test]
async fn answers_that_are_not_a_hubs_are_refused() {
    let bare = |headers| {
        one(vec![Answer {
            status: 200,
            headers,
            body: tokenizer(),
        }])
    };
    let (fault, ..) = refused(bare(Vec::new())).await;
    assert!(fault.message.contains("x-repo-commit"), "{fault}");
    // A server's answer never becomes a path outside the cache.
    let (fault, _, cache) = refused(bare(vec![("x-repo-commit", "../../../../evil".into())])).await;
    assert!(fault.message.contains("x-repo-commit"), "{fault}");
    assert!(!cache.path().join("../evil").exists());
    let cyclic = Answer {
        status: 302,
        headers: vec![("location", MAIN.into())],
        body: Vec::new(),
    };
    let (fault, ..) = refused(one(vec![cyclic])).await;
    assert!(fault.message.contains("too often"), "{fault}");
}

#[tokio::test]
async fn an_etag_that_is_no_name_is_replaced_by_the_contents_hash() {
    let mut answer = file("", tokenizer());
    answer.headers[1] = ("etag", "\"../../../x\"".into());
    let server = Server::start(one(vec![answer])).await;
    let cache = temp();
    let folder = locate("org/name", &server.hub(cache.path())).await.unwrap();
    let link = std::fs::read_link(folder.join("tokenizer.json")).unwrap();
    assert_eq!(link.file_name().unwrap().len(), 64);
    assert!(folder.join("tokenizer.json").is_file());
}

#[tokio::test]
async fn a_body_that_ends_early_leaves_nothing() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _asked = stream.read(&mut request).await.unwrap();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\nx-repo-commit: {COMMIT}\r\netag: \"abcdefabcdef\"\r\n\r\n{{"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
        }
    });
    let cache = temp();
    let hub = Hub {
        endpoint: format!("http://{address}").parse().unwrap(),
        cache: cache.path().to_owned(),
        token: None,
        offline: false,
        retry_pause: Duration::from_millis(1),
        patience: Duration::from_secs(30),
    };
    let fault = locate("org/name", &hub).await.unwrap_err();
    server.abort();
    assert_eq!(fault.kind, Kind::Missing, "{fault}");
    let model = cache.path().join("models--org--name");
    assert_eq!(std::fs::read_dir(model.join("blobs")).unwrap().count(), 0);
    assert!(!model.join("snapshots").exists());
}

/// A server that accepts the connection and stays silent.
#[test]
fn a_wait_for_the_hub_is_reported_and_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (mut child, _folder) = Profiler::new()
        .env("HF_ENDPOINT", &endpoint)
        .args(["estimate", "org/name"])
        .spawn();
    let _silent = listener.accept().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines
        .by_ref()
        .map(Result::unwrap)
        .find(|line| line.contains("127.0.0.1"));
    assert!(line.unwrap().contains("waiting"));
    assert_eq!(child.wait().unwrap().code(), Some(3));
    // It is not asked again, which would take another connection.
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_hub_that_cannot_be_reached_is_asked_once() {
    let server = Server::start(HashMap::new()).await;
    let cache = temp();
    // Nothing listens there, and a retry would take an hour.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = Hub {
        endpoint: format!("http://{closed}").parse().unwrap(),
        retry_pause: Duration::from_secs(3600),
        ..server.hub(cache.path())
    };
    for _ in 0..2 {
        assert_eq!(locate("org/name", &nobody).await.unwrap_err().kind, Kind::Missing);
    }
}

#[tokio::test]
async fn offline_and_unreachable_are_told_apart() {
    let server = Server::start(HashMap::new()).await;
    let cache = temp();
    let offline = Hub {
        offline: true,
        ..server.hub(cache.path())
    };
    let fault = locate("org/name", &offline).await.unwrap_err();
    assert!(fault.message.contains("HF_HUB_OFFLINE"), "{fault}");
    assert!(server.requests().is_empty());

    let nobody = Hub {
        endpoint: "http://127.0.0.1:1".parse().unwrap(),
        ..server.hub(cache.path())
    };
    let fault = locate("org/name", &nobody).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Missing);
    assert!(fault.message.contains("refused") && fault.hint.unwrap().contains("HF_ENDPOINT"));
}

#[tokio::test]
async fn the_program_uses_the_environment_and_never_shows_the_token() {
    let server = Server::start(one(vec![file("aaaaaaaaaaaa", tokenizer())])).await;
    let endpoint = format!("http://{}", server.address);
    let session = "prompt::tokens(50, #{ model: \"org/name\", form: \"text\" }).count\nprompt::tokens(50, #{ model: \"org/other\" })\n";
    let outcome = tokio::task::spawn_blocking(move || {
        Profiler::new()
            .env("HF_ENDPOINT", endpoint)
            .env("HF_TOKEN", TOKEN)
            .arg("repl")
            .stdin(session)
            .run()
    });
    let outcome = outcome.await.unwrap().nowhere(TOKEN);
    assert!(
        outcome
            .folder()
            .join("cache/huggingface/hub/models--org--name/refs/main")
            .is_file()
    );
    outcome.stdout("50").stderr("`org/other` has no `tokenizer.json`");
    assert!(server.tokens()[0].as_deref().unwrap().contains(TOKEN));
}

fn blobs(cache: &TempDir) -> Vec<String> {
    let folder = cache.path().join("models--org--name/blobs");
    let names = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[tokio::test]
async fn a_download_of_weights_goes_on_where_it_broke_off() {
    let weights: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let server = Server::start(hub::model(&weights)).await;
    let cache = temp();
    let hub = server.hub(cache.path());
    let model = "org/name".parse().unwrap();
    assert!(!hub.is_complete(&model, false));
    // Without weights only the configuration is fetched, and its content hash is known.
    let reports = std::sync::Mutex::new(Vec::new());
    let report = |done, total| {
        // Intermediate reports depend on the time that the download takes.
        let mut reports = reports.lock().unwrap();
        if reports.last().is_none_or(|(_, before)| *before != total) {
            reports.push((done, total));
        }
        Ok(())
    };
    hub.complete(&model, false, &report).await.unwrap();
    assert!(hub.is_complete(&model, false) && !hub.is_complete(&model, true));
    let digest = hub::digest(&weights);
    let partial = cache
        .path()
        .join("models--org--name/blobs")
        .join(format!("{digest}.incomplete-profiler"));
    std::fs::write(&partial, &weights[..900_000]).unwrap();
    let before = server.requests().len();
    hub.complete(&model, true, &report).await.unwrap();
    assert_eq!(*reports.lock().unwrap(), [(0, 2), (900_000, 1_000_000)]);
    let asked = &server.requests()[before..];
    assert_eq!(asked.len(), 2, "the list, and the rest of the file: {asked:?}");
    assert!(server.sent() < 110_000, "only the rest was sent");
    let folder = cache.path().join("models--org--name/snapshots").join(COMMIT);
    assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights);
    let mut names = blobs(&cache);
    names.sort();
    assert!(names.contains(&digest) && names.len() == 2, "{names:?}");
    let offline = Hub { offline: true, ..hub };
    offline.complete(&model, true, &report).await.unwrap();
}

#[tokio::test]
async fn damaged_weights_are_not_kept() {
    let mut answers = hub::model(b"weights");
    let path = "/org/name/resolve/0123456789abcdef0123456789abcdef01234567/model.safetensors";
    answers.insert(path, vec![file(&hub::digest(b"weights"), "wEights")]);
    let server = Server::start(answers).await;
    let cache = temp();
    let model = "org/name".parse().unwrap();
    let complete = server.hub(cache.path()).complete(&model, true, &|_, _| Ok(())).await;
    let why = complete.unwrap().unwrap();
    assert!(why.contains("`model.safetensors` came damaged"), "{why}");
    assert_eq!(blobs(&cache), ["aaaaaaaaaaaa"]);
    assert!(!server.hub(cache.path()).is_complete(&model, true));
}
