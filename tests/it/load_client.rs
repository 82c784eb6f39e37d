//! A user's load reaches servers that misbehave as real ones do: the client accounts for every request, and reports its
//! own delays.

mod server;
mod tls;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, socket};
use profiler::engine::{Protocol, decoder};
use profiler::fault::{Fault, Result};
use profiler::load::{
    BuildRequest, Control, Failure, FailureForm, LoadConfig, LoadRun, QueuedRequest, Rejection, RequestOutcome,
    RequestRecord, RequestSource, Slots, run_load,
};
use server::{Act, LAST, Server, TOKEN, good, server, streamed};
use tokio_util::sync::CancellationToken;

use crate::support::eventually;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A source of `count` equal requests.
struct Alike {
    count: u64,
    given: AtomicU64,
    ended: AtomicU64,
    /// The interval between two requests of an open loop.
    every: Option<Duration>,
    timeout: Duration,
    /// The control to return after this number of ended requests.
    order: (u64, Control),
    /// How long rejected requests wait.
    again: Option<Duration>,
}

impl Alike {
    fn new(count: u64) -> Self {
        Self {
            count,
            given: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            every: None,
            timeout: ms(20_000),
            order: (u64::MAX, Control::Continue),
            again: None,
        }
    }
}

impl RequestSource for Alike {
    fn next(&self) -> Result<Option<BuildRequest>> {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let (every, timeout) = (self.every, self.timeout);
        let build = move || {
            Ok(QueuedRequest {
                at: every.map(|every| every * u32::try_from(number).unwrap()),
                body: "{}".into(),
                decoder: decoder(Protocol::OpenaiCompletions),
                timeout,
                input: 3,
                output: 2,
            })
        };
        Ok((number < self.count).then(|| Box::new(build) as BuildRequest))
    }

    fn retries(&self) -> bool {
        self.again.is_some()
    }

    fn rejected(&self, rejection: &Rejection, before: u32) -> Option<Duration> {
        assert_eq!((rejection.status, rejection.retry_after), (429, Some(ms(1000))));
        self.again.filter(|_| before < 3)
    }

    fn ended(&self, _: &RequestRecord) -> Control {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        if ended >= self.order.0 {
            self.order.1
        } else {
            Control::Continue
        }
    }
}

fn closed(concurrency: u64) -> LoadConfig {
    LoadConfig {
        slots: Slots::closed(concurrency, Duration::ZERO),
        limit: None,
        grace: Duration::ZERO,
        keep_text: true,
        must_connect: true,
        key: None,
        cancel: CancellationToken::new(),
    }
}

fn driven(url: &str, plan: LoadConfig, source: Alike) -> Result<LoadRun> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(run_load(url, plan, Arc::new(source)))
}

/// Runs a load of one request, which the server answers with `acts`.
fn one(acts: Vec<Act>) -> (RequestRecord, Server) {
    let server = server(move |_| acts.clone());
    let source = Alike {
        timeout: ms(1500),
        ..Alike::new(1)
    };
    let mut driven = driven(&server.url, closed(1), source).unwrap();
    assert_eq!(driven.records.len(), 1);
    (driven.records.remove(0), server)
}

fn failure(acts: Vec<Act>) -> (FailureForm, String) {
    match one(acts).0.outcome {
        RequestOutcome::Failed(failure) => (failure.form, failure.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_follow_each_other_on_the_same_connections() {
    let server = server(|_| vec![Act::Write(good())]);
    let driven = driven(&server.url, closed(4), Alike::new(40)).unwrap();
    let completed = driven
        .records
        .iter()
        .filter(|record| record.outcome == RequestOutcome::Completed);
    assert_eq!(completed.count(), 40);
    assert_eq!(server.requests.lock().unwrap().len(), 40);
    assert_eq!(server.connections.load(Ordering::Relaxed), 4);
    assert_eq!(
        (
            driven.health.connected,
            driven.health.stats.opened_late,
            driven.health.events
        ),
        (4, 0, 80)
    );
    for (index, record) in driven.records.iter().enumerate() {
        assert_eq!(record.index, index as u64);
        assert_eq!(
            (record.text.as_deref(), record.events, record.counts.output),
            (Some(" a b"), 2, Some(2))
        );
        let moments = [
            Some(record.scheduled),
            Some(record.sent),
            record.first_byte,
            record.first_token,
            record.last_token,
            Some(record.ended),
        ];
        assert!(moments.iter().all(Option::is_some) && moments.is_sorted(), "{record:?}");
    }
}

#[test]
fn every_split_is_read() {
    let (record, _) = one(vec![Act::Trickle(format!(
        "HTTP/1.1 103 Early Hints\r\n\r\n{}",
        good()
    ))]);
    assert_eq!(
        (record.outcome, record.text.as_deref()),
        (RequestOutcome::Completed, Some(" a b"))
    );
}

#[test]
fn a_server_that_takes_one_request_a_connection_is_served_all_the_same() {
    let answer = good().replace("HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n");
    let server = server(move |_| vec![Act::Write(answer.clone()), Act::Close]);
    let driven = driven(&server.url, closed(2), Alike::new(10)).unwrap();
    assert!(
        driven
            .records
            .iter()
            .all(|record| record.outcome == RequestOutcome::Completed)
    );
    assert_eq!(
        (
            server.connections.load(Ordering::Relaxed),
            driven.health.stats.opened_late
        ),
        (10, 8)
    );
}

#[test]
fn an_idle_connection_that_the_server_closed_is_no_failure_of_the_engine() {
    // The server closes the connection after every answer without announcing it.
    let server = server(|_| vec![Act::Write(good()), Act::Close]);
    let source = Alike {
        every: Some(ms(20)),
        ..Alike::new(10)
    };
    let open = LoadConfig {
        slots: Slots::Open {
            max_concurrency: None,
            expected: 1,
        },
        ..closed(1)
    };
    let seen = driven(&server.url, open, source).unwrap();
    assert!(
        seen.records
            .iter()
            .all(|record| record.outcome == RequestOutcome::Completed),
        "{:?}",
        seen.records
    );
    assert!(
        seen.health.replaced + seen.health.stats.resent >= 9,
        "{:?}",
        seen.health
    );
    // Without a pause between requests, the client writes the next request before it sees the end of the connection.
    let seen = driven(&server.url, closed(1), Alike::new(10)).unwrap();
    assert!(
        seen.records
            .iter()
            .all(|record| record.outcome == RequestOutcome::Completed),
        "{:?}",
        seen.records
    );
    assert!(seen.health.stats.resent + seen.health.replaced > 0, "{:?}", seen.health);
}

#[test]
fn a_new_connection_closed_without_an_answer_is_a_failure_and_the_request_is_not_repeated() {
    let (record, server) = one(vec![Act::Close]);
    let broken = |failure: &Failure| failure.form == FailureForm::Broken;
    assert!(record.failure().is_some_and(broken), "{record:?}");
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[test]
fn each_form_of_failure_is_told() {
    let refusal = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 9\r\n\r\nslow down";
    let status = failure(vec![Act::Write(refusal.into())]);
    assert_eq!(status, (FailureForm::Status(429), "slow down".to_owned()));
    let error = streamed(&[TOKEN, r#"{"error":{"message":"out of memory"}}"#]) + "0\r\n\r\n";
    let in_stream = failure(vec![Act::Write(error)]);
    assert_eq!(in_stream, (FailureForm::InStream, "out of memory".to_owned()));
    let broken = failure(vec![Act::Write(streamed(&[TOKEN])), Act::Close]);
    assert_eq!(broken.0, FailureForm::Broken, "{broken:?}");
    let early = failure(vec![Act::Write(streamed(&[TOKEN]) + "0\r\n\r\n")]);
    assert_eq!(early.0, FailureForm::EndedEarly, "{early:?}");
    let empty = failure(vec![Act::Write(streamed(&["[DONE]"]) + "0\r\n\r\n")]);
    assert_eq!(empty.0, FailureForm::EndedEarly, "{empty:?}");
    let malformed = failure(vec![Act::Write("220 mail.example ESMTP\r\n\r\n".into())]);
    assert_eq!(malformed.0, FailureForm::Malformed, "{malformed:?}");
    let deadline = failure(vec![Act::Write(streamed(&[TOKEN])), Act::Wait(ms(10_000))]);
    assert_eq!(deadline.0, FailureForm::Deadline, "{deadline:?}");
}

#[test]
fn an_answer_whose_body_does_not_end_is_complete_after_its_last_event() {
    let (record, _) = one(vec![
        Act::Write(streamed(&[TOKEN, LAST, "[DONE]"])),
        Act::Wait(ms(10_000)),
    ]);
    assert_eq!(record.outcome, RequestOutcome::Completed);
    assert!(record.ended - record.last_token.unwrap() < ms(1000), "{record:?}");
}

#[test]
fn a_server_that_holds_its_streams_open_costs_time_once() {
    for end in [&[TOKEN, LAST, "[DONE]"][..], &[TOKEN, LAST]] {
        let text = streamed(end);
        let server = server(move |_| vec![Act::Write(text.clone()), Act::Wait(ms(60_000))]);
        let driven = driven(&server.url, closed(2), Alike::new(20)).unwrap();
        let whole = |record: &&RequestRecord| record.outcome == RequestOutcome::Completed && record.held_open;
        assert_eq!(driven.records.iter().filter(whole).count(), 20, "{:?}", driven.records);
        // Two requests are waited for, and after them none.
        assert!(
            driven
                .records
                .iter()
                .all(|record| Some(record.ended) == record.last_token),
            "{:?}",
            driven.records
        );
        assert!(driven.duration < ms(10_000), "{:?}", driven.duration);
    }
}

#[test]
fn a_rejected_request_keeps_its_slot_and_counts_from_the_attempt_that_is_accepted() {
    let refusal = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 4\r\n\r\nbusy";
    // Every other attempt.
    let server = server(move |number| {
        let answer = if number.is_multiple_of(2) {
            refusal.to_owned()
        } else {
            good()
        };
        vec![Act::Write(answer)]
    });
    let source = Alike {
        again: Some(ms(100)),
        ..Alike::new(6)
    };
    let seen = driven(&server.url, closed(1), source).unwrap();
    for record in &seen.records {
        assert_eq!(
            (&record.outcome, record.rejections),
            (&RequestOutcome::Completed, 1),
            "{record:?}"
        );
        assert!(
            record.waited >= ms(100) && record.sent >= record.scheduled + ms(100),
            "{record:?}"
        );
    }
    let requests = server.requests.lock().unwrap();
    assert_eq!((seen.records.len(), requests.len()), (6, 12));
    assert!(
        requests.iter().all(|request| request.ends_with("{}")),
        "the body is sent again"
    );
    drop(requests);
    // Without end, it has failed.
    let never = server_that_rejects(refusal);
    let source = Alike {
        again: Some(ms(1)),
        ..Alike::new(2)
    };
    let seen = driven(&never.url, closed(2), source).unwrap();
    for record in &seen.records {
        let failure = record.failure().unwrap();
        assert_eq!(
            (failure.form, failure.message.as_str()),
            (FailureForm::Status(429), "busy")
        );
        assert_eq!(record.rejections, 3);
    }
}

fn server_that_rejects(refusal: &'static str) -> Server {
    server(move |_| vec![Act::Write(refusal.to_owned())])
}

#[test]
fn an_engine_that_dies_leaves_every_request_accounted_for() {
    let server = server(|number| {
        if number < 6 {
            vec![Act::Write(good())]
        } else {
            vec![Act::Write(streamed(&[TOKEN])), Act::Close]
        }
    });
    let source = Alike {
        order: (8, Control::Drain),
        ..Alike::new(1000)
    };
    let driven = driven(&server.url, closed(2), source).unwrap();
    let completed = driven
        .records
        .iter()
        .filter(|record| record.outcome == RequestOutcome::Completed)
        .count();
    assert_eq!(completed, 6);
    let broken = |record: &&RequestRecord| matches!(&record.outcome, RequestOutcome::Failed(failure) if failure.form == FailureForm::Broken);
    let issued = driven.records.len();
    assert_eq!(driven.records.iter().filter(broken).count(), issued - completed);
    assert!((8..1000).contains(&issued), "{issued}");
}

#[test]
fn an_open_loop_sends_when_requests_are_due() {
    let server = server(|_| vec![Act::Write(good())]);
    let source = Alike {
        every: Some(ms(5)),
        ..Alike::new(60)
    };
    let open = LoadConfig {
        slots: Slots::Open {
            max_concurrency: None,
            expected: 4,
        },
        ..closed(1)
    };
    let driven = driven(&server.url, open, source).unwrap();
    let mut late: Vec<Duration> = driven
        .records
        .iter()
        .map(|record| record.sent - record.scheduled)
        .collect();
    late.sort();
    assert!(
        driven
            .records
            .iter()
            .zip(0..)
            .all(|(record, number)| record.scheduled == ms(5) * number)
    );
    assert!(late[30] < ms(5), "{late:?}");
    assert_eq!(driven.health.send_late_ms.len(), 60);
}

#[test]
fn no_more_than_so_many_are_under_way() {
    let slow = || {
        vec![
            Act::Write(streamed(&[TOKEN])),
            Act::Wait(ms(50)),
            Act::Write(good()[streamed(&[TOKEN]).len()..].to_owned()),
        ]
    };
    let server = server(move |_| slow());
    let source = Alike {
        every: Some(ms(1)),
        ..Alike::new(12)
    };
    let open = LoadConfig {
        slots: Slots::Open {
            max_concurrency: Some(3),
            expected: 8,
        },
        ..closed(1)
    };
    let driven = driven(&server.url, open, source).unwrap();
    for record in &driven.records {
        let beside = driven
            .records
            .iter()
            .filter(|other| other.sent <= record.sent && other.ended > record.sent);
        assert!(beside.count() <= 3, "{record:?}");
    }
    // The engine causes the wait for a slot; it is not the client's lateness.
    assert!(driven.records[11].sent - driven.records[11].scheduled > ms(100));
    assert!(
        driven.health.send_late_ms[11] < 50.0,
        "{:?}",
        driven.health.send_late_ms
    );
}

#[test]
fn what_is_under_way_at_the_limit_is_cut_off_after_its_grace() {
    let server = server(|_| vec![Act::Write(streamed(&[TOKEN])), Act::Wait(ms(10_000))]);
    let plan = LoadConfig {
        limit: Some(ms(100)),
        grace: ms(100),
        ..closed(3)
    };
    let driven = driven(&server.url, plan, Alike::new(100)).unwrap();
    assert!(
        driven
            .records
            .iter()
            .all(|record| record.outcome == RequestOutcome::CutOff && record.events == 1)
    );
    assert_eq!(driven.records.len(), 3);
    assert!(
        driven.duration >= ms(200) && driven.duration < ms(2000),
        "{:?}",
        driven.duration
    );
}

#[test]
fn a_load_is_cut_off_when_somebody_says_so() {
    let server = server(|_| vec![Act::Write(streamed(&[TOKEN])), Act::Wait(ms(10_000))]);
    let plan = closed(2);
    let cut = plan.cancel.clone();
    let requests = Arc::clone(&server.requests);
    std::thread::spawn(move || {
        eventually("two requests", || requests.lock().unwrap().len() == 2);
        cut.cancel();
    });
    let driven = driven(&server.url, plan, Alike::new(100)).unwrap();
    assert_eq!(driven.records.len(), 2);
    assert!(driven.duration < ms(2000), "{:?}", driven.duration);
}

#[test]
fn where_nothing_listens_is_said_without_the_password() {
    let fault = driven("http://user:secret@127.0.0.1:1/x", closed(1), Alike::new(1)).unwrap_err();
    assert!(
        fault.message.contains("127.0.0.1:1") && fault.message.contains("refused"),
        "{fault}"
    );
    assert!(!fault.message.contains("secret") && fault.hint.is_some(), "{fault}");
}

/// A probe records unreachable servers as failures, whereas a load would not begin.
fn probe(concurrency: u64) -> LoadConfig {
    LoadConfig {
        must_connect: false,
        ..closed(concurrency)
    }
}

#[test]
fn a_probe_of_a_host_without_an_address_is_unreachable() {
    // A label of a host name is at most 63 letters long, so no name server is queried.
    let url = format!("http://{}:1/x", "a".repeat(64));
    let seen = driven(&url, probe(2), Alike::new(2)).unwrap();
    assert_eq!(seen.records.len(), 2);
    for record in &seen.records {
        let failure = record.failure().unwrap();
        assert_eq!(failure.form, FailureForm::Unreachable);
        assert!(failure.message.contains("has no address"), "{failure:?}");
    }
    let fault = driven(&url, closed(2), Alike::new(2)).unwrap_err();
    assert!(fault.message.contains("has no address"), "{fault}");
}

/// A server with a full accept queue, and the connection that fills it.
fn full_server() -> (TcpListener, TcpStream) {
    let listener = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(
        std::os::fd::AsRawFd::as_raw_fd(&listener),
        &SockaddrIn::new(127, 0, 0, 1, 0),
    )
    .unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let listener = TcpListener::from(listener);
    let first = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener, first)
}

#[test]
fn a_probe_waits_for_a_full_accept_queue_until_its_own_timeout() {
    let (listener, _first) = full_server();
    let source = Alike {
        timeout: ms(1500),
        ..Alike::new(2)
    };
    let begun = Instant::now();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let seen = driven(&url, probe(2), source).unwrap();
    assert!(begun.elapsed() < ms(5000), "{:?}", begun.elapsed());
    let late = |record: &RequestRecord| record.failure().map(|failure| failure.form) == Some(FailureForm::Deadline);
    assert!(seen.records.len() == 2 && seen.records.iter().all(late), "{seen:?}");
}

#[test]
fn a_probe_is_served_when_the_accept_queue_has_room() {
    let (listener, _first) = full_server();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        std::thread::sleep(ms(1500));
        let _filled = listener.accept().unwrap();
        // Serves one connection after another; a connection without a request would block it forever.
        let (mut stream, _) = listener.accept().unwrap();
        let read = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(good().as_bytes()).unwrap();
        read
    });
    let seen = driven(&url, probe(1), Alike::new(1)).unwrap();
    assert_eq!(seen.records[0].outcome, RequestOutcome::Completed, "{seen:?}");
    assert!(serving.join().unwrap() > 0);
}

#[test]
fn a_password_in_the_address_is_sent_as_basic_authentication() {
    let server = server(|_| vec![Act::Write(good())]);
    let url = server.url.replace("http://", "http://Aladdin:open%20sesame@");
    driven(&url, closed(1), Alike::new(1)).unwrap();
    let request = server.requests.lock().unwrap()[0].clone();
    assert!(
        request.contains("\r\nauthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"),
        "{request}"
    );
    assert!(
        request.starts_with("POST /v1/completions HTTP/1.1\r\n") && request.ends_with("\r\n\r\n{}"),
        "{request}"
    );
}

#[test]
fn over_tls_answers_are_read_as_they_come_without_spinning() {
    // Trusted certificates are read from the environment once, and a process of many tests must not change its
    // environment.
    let this = "load_client::over_tls_answers_are_read_as_they_come_without_spinning";
    if std::env::var_os("SSL_CERT_FILE").is_none_or(|file| file != tls::CERTIFICATE) {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args([this, "--exact"])
            .env("SSL_CERT_FILE", tls::CERTIFICATE)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let end = good()[streamed(&[TOKEN]).len()..].to_owned();
    let url = tls::server(vec![streamed(&[TOKEN]), end], ms(150));
    let driven = driven(&url, closed(3), Alike::new(12)).unwrap();
    for record in &driven.records {
        assert_eq!(
            (&record.outcome, record.text.as_deref(), record.itl_ms.len()),
            (&RequestOutcome::Completed, Some(" a b"), 1)
        );
    }
    // A busy machine may delay some of them.
    let apart = driven.records.iter().filter(|record| record.itl_ms[0] > 75.0).count();
    assert!(apart >= 6, "{:?}", driven.records);
    let watch = &driven.health;
    assert_eq!(
        (driven.records.len(), watch.connected, watch.stats.opened_late),
        (12, 3, 0)
    );
    // Each answer comes in two parts. A wake-up without bytes is superfluous, but the system causes a few.
    assert!(watch.wakes < 12 * 2 * 3, "{watch:?}");
}

#[test]
fn a_certificate_that_nobody_trusts_is_told_with_its_remedy() {
    let url = tls::server(vec![good()], ms(0));
    let fault = driven(&url, closed(1), Alike::new(1)).unwrap_err();
    assert!(fault.message.contains("certificate"), "{fault}");
    assert!(fault.hint.is_some_and(|hint| hint.contains("SSL_CERT_FILE")));
}

/// A source that fails.
struct Failing;

impl RequestSource for Failing {
    fn next(&self) -> Result<Option<BuildRequest>> {
        Err(Fault::usage("no prompt can be made"))
    }

    fn ended(&self, _: &RequestRecord) -> Control {
        Control::Continue
    }
}

#[test]
fn a_request_that_cannot_be_made_ends_the_load() {
    let server = server(|_| vec![Act::Write(good())]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let fault = runtime
        .block_on(run_load(&server.url, closed(2), Arc::new(Failing)))
        .unwrap_err();
    assert_eq!(fault.message, "no prompt can be made");
}
