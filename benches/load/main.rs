//! Measures the accuracy and the cost of the load client against a server that timestamps every write. Each has a core
//! of its own.
//!
//! `cargo bench --bench load` prints four Markdown tables, which the README quotes: the exact errors of this client,
//! token by token; the errors that can be computed for any client, rank by rank; its TPOT where events carry several
//! tokens; and how late requests are sent in an open loop. `cargo bench --bench load -- --peers FOLDER` also measures the other clients that `FOLDER/bin` has, on
//! the same server in the same run; see `peers.rs`. `--streams 64,512` and `--rates 200` choose rows. It asserts
//! nothing, because the figures depend on the machine.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a bench prints, and stops where it cannot measure"
)]

mod arrivals;
mod client;
mod clock;
mod figures;
mod mock;
mod network;
mod peers;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

use client::Load;
use figures::Row;

/// Cores of the client and of the server.
const CLIENT: usize = 0;
const SERVER: usize = 1;

const TOKENS: u64 = 100;
const WAVES: u64 = 10;

/// Streams of the rows with several tokens in an event, whose numbers divide `TOKENS`.
const BUNDLED: u64 = 64;

/// Time between two tokens, in milliseconds. Doubled from `MANY` streams on, where the server could not keep up.
const GAP: u64 = 10;
const MANY: u64 = 2000;

/// How often a row is measured at most, if the server was late.
const ATTEMPTS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["mock", gap, bundle] => {
            pin(SERVER);
            mock::serve(Duration::from_millis(gap.parse().unwrap()), bundle.parse().unwrap());
        }
        ["client", url, streams] => {
            pin(CLIENT);
            client::run(url, Load::closed(streams.parse().unwrap(), WAVES, TOKENS));
        }
        ["arrivals", url, rate] => {
            pin(CLIENT);
            client::run(url, arrivals::load(rate.parse().unwrap(), Duration::from_millis(GAP)));
        }
        ["cost", ref command @ ..] => {
            pin(CLIENT);
            peers::cost(command);
        }
        _ => table(&words),
    }
}

fn table(words: &[&str]) {
    let value = |name: &str| {
        words
            .iter()
            .position(|word| *word == name)
            .and_then(|at| words.get(at + 1))
    };
    let numbers = |name: &str, usual: &str| -> Vec<u64> {
        let list = value(name).map_or(usual, |list| *list);
        let numbers = list.split(',').filter(|number| !number.is_empty());
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    let network = network::own();
    let mut exact = vec![Row::head()];
    let mut by_ranks = vec![Row::head()];
    for streams in numbers("--streams", "1,64,256,512,1000,2000") {
        let gap = if streams >= MANY { 2 * GAP } else { GAP };
        let row = measure(gap, 1, |url| told(&["client", url, &streams.to_string()]));
        tell(&mut exact, row.exact(streams));
        tell(&mut by_ranks, row.by_ranks("profiler", streams));
        let Some(folder) = value("--peers") else { continue };
        for peer in peers::ALL.into_iter().filter(|peer| !peers::absent(folder, peer)) {
            let row = measure(gap, 1, |url| peers::run(folder, peer, url, streams));
            tell(&mut by_ranks, row.by_ranks(peer, streams));
        }
    }
    let mut bundled = vec![Row::HEAD_OF_BUNDLES.to_owned()];
    for bundle in numbers("--bundles", "2,5,20") {
        let row = measure(GAP, bundle, |url| told(&["client", url, &BUNDLED.to_string()]));
        tell(&mut bundled, row.bundled(BUNDLED, TOKENS, bundle));
    }
    let mut open = vec![Row::HEAD_OF_ARRIVALS.to_owned()];
    for rate in numbers("--rates", "200,2000") {
        let row = measure(GAP, 1, |url| told(&["arrivals", url, &rate.to_string()]));
        tell(&mut open, row.arrivals(rate));
    }
    println!("Over {network}.");
    let tables = [
        ("Each first token against the server's stamp of the same token", exact),
        ("Every client by the same rule, rank by rank", by_ranks),
        ("TPOT of events with several tokens", bundled),
        ("Sending in an open loop", open),
    ];
    for (title, rows) in tables.into_iter().filter(|(_, rows)| rows.len() > 1) {
        println!("\n{title}:\n\n{}", rows.join("\n"));
    }
}

/// Keeps a row and prints it at once, because the whole table takes minutes.
fn tell(rows: &mut Vec<String>, row: String) {
    eprintln!("{row}");
    rows.push(row);
}

/// The JSON output of a process of this binary.
fn told(arguments: &[&str]) -> Value {
    let output = own(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Measures one client. If the server was late, the row measures the server and the machine, so it is repeated.
fn measure(gap: u64, bundle: u64, client: impl Fn(&str) -> Value) -> Row {
    let mut row = attempt(gap, bundle, &client);
    for _ in 1..ATTEMPTS {
        if row.server_in_time() {
            break;
        }
        row = attempt(gap, bundle, &client);
    }
    row
}

/// Runs one client against a fresh server. Returns the client's output and the server's timestamps.
fn attempt(gap: u64, bundle: u64, client: impl Fn(&str) -> Value) -> Row {
    let mut mock = own(&["mock", &gap.to_string(), &bundle.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(mock.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    let before = clock::stolen();
    let said = client(url);
    let after = clock::stolen();
    let stamped = page(url, "/report");
    end(&mut mock);
    let stolen = (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
    Row {
        said,
        stamped,
        stolen,
        gap,
    }
}

fn own(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).stderr(Stdio::piped());
    command
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn page(url: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: mock\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).unwrap();
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if field.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Pins this process and its future threads to one core.
fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cores).unwrap();
}
