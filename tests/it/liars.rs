//! A fleet whose hosts lie: whatever one of them says or returns, the fleet ends, and the jobs are done on the others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Profiler, needs_small_disk};

/// Stands for `ssh`: runs the line on this machine, in a home for each host. A host is named after its lie.
pub const SSH: &str = r##"#!/bin/bash
host="${@: -2:1}"; line="${@: -1}"
export HOME="$HOSTS/$host"; mkdir -p "$HOME"; unset XDG_CACHE_HOME XDG_STATE_HOME XDG_DATA_HOME
list() { [[ "$line" == *"nvidia-smi -L"* ]]; }
fetch() { [[ "$line" == *"tar -cf -"* ]]; }
archive() { python3 -c "
import io, sys, tarfile
out = tarfile.open(fileobj=sys.stdout.buffer, mode='w|')
def add(name, text=b'{}', kind=tarfile.REGTYPE):
    entry = tarfile.TarInfo(name); entry.type = kind; entry.linkname = '/etc/passwd'
    entry.size = len(text) if kind == tarfile.REGTYPE else 0
    out.addfile(entry, io.BytesIO(text))
$1
out.close()"; }
say() { if list; then printf 'program\n'"$1"; exit; fi; }
give() { if fetch; then archive "$1"; exit; fi; }
case "$host" in
    word) say 'left abc-x y z\n' ;;
    negative) say 'left 0001-one 1 -5\n' ;;
    big) say 'left 0001-one 9223372036854775807 0\n' ;;
    place) say 'left 0001-one 1 99999999999999999999\n' ;;
    short) say 'left \nleft a\nleft\n' ;;
    foreign) say 'left 0001-one 5 0\nleft 0002-one 5 0\nleft 9999-one 5 0\n' ;;
    screen) say 'GPU 0: \033]0;PWN\007\033[31mNV (UUID: GPU-\033[2J)\nGPU 0 (UUID: GPU-1)\nGPU (UUID: \nMIG (UUID: x\n' ;;
    endless) if list; then exec yes; fi ;;
    silent) if list; then exec sleep 1000; fi ;;
    garbage) if fetch; then exec head -c 100000 /dev/urandom; fi ;;
    refusing) if fetch; then exit 255; fi ;;
    outside) give "add('../../../escape')" ;;
    absolute) give "add('/tmp/escape-of-a-liar')" ;;
    links) give "add('manifest.json', kind=tarfile.SYMTYPE)" ;;
    deep) give "add('a/' * 2000 + 'b')" ;;
    long) give "add('a' * 3000000)" ;;
    forged) give "add('manifest.json', b'{\"schema\":1,\"status\":\"done\",\"id\":\"x\"}')" ;;
    filler) give "add('table.csv', b'x' * 20000000)" ;;
    trickle) if fetch; then while printf x; do sleep 1; done; fi ;;
    flood) if fetch; then archive "
while True: add('l', kind=tarfile.SYMTYPE)"; exit; fi ;;
esac
exec sh -c "$line"
"##;

const LIARS: [&str; 18] = [
    "word", "negative", "big", "place", "short", "foreign", "screen", "endless", "silent", "garbage", "refusing",
    "outside", "absolute", "links", "deep", "long", "forged", "flood",
];

/// A fleet of so many jobs on these hosts.
fn fleet(hosts: &[&str], jobs: usize) -> Profiler {
    let numbers = (0..jobs).collect::<Vec<_>>();
    let program = Profiler::new()
        .file("bin/ssh", SSH)
        .file(
            "one.rhai",
            "let p = params(#{ n: param(0, \"a number\") }); record(\"n\", p.n);",
        )
        .file(
            "jobs.yaml",
            format!("jobs:\n  - script: one.rhai\n    matrix: {{n: {numbers:?}}}\n"),
        );
    let folder = program.folder().to_owned();
    fs::set_permissions(folder.join("bin/ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let options = serde_json::json!({ "hosts": hosts, "program": env!("CARGO_BIN_EXE_profiler"), "gone": 3 });
    program
        .env("PATH", path)
        .env("HOSTS", folder.join("hosts"))
        .args([
            "fleet",
            "jobs.yaml",
            "--cluster",
            "ssh",
            "--set",
            &format!("options={options}"),
        ])
        .args(["--set", "attempts=20", "--allow", "command=ssh,process", "--json"])
}

#[test]
fn whatever_a_host_says_or_returns_its_jobs_are_done_on_others() {
    let hosts: Vec<&str> = LIARS.into_iter().chain(["good-1", "good-2", "good-3"]).collect();
    let program = fleet(&hosts, LIARS.len() + 3);
    let folder = program.folder().to_owned();
    let ran = program.args(["--out", "fleet"]).run().success();
    let summary = &ran.json()["result"]["summary"];
    assert_eq!(
        (&summary["done"], &summary["failed"]),
        (&21.into(), &0.into()),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stdout.contains('\u{1b}'));
    assert!(!folder.join("escape").exists() && !std::path::Path::new("/tmp/escape-of-a-liar").exists());
    let left = fs::read_dir(folder.join("fleet/jobs")).unwrap();
    let left = left
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.as_encoded_bytes()[0] == b'.');
    assert_eq!(left.count(), 0, "nothing of a refused archive stays");
}

/// A fleet of four, of which one lies: the others do all.
#[test]
#[ignore = "minutes: `.ci/long` runs it"]
fn each_liar_in_turn_costs_the_other_three_nothing() {
    for liar in LIARS {
        let ran = fleet(&[liar, "good-1", "good-2", "good-3"], 4)
            .args(["--out", "fleet"])
            .run();
        let ran = ran.success();
        assert_eq!(ran.json()["result"]["summary"]["done"], 4, "{liar}: {}", ran.stderr);
    }
}

/// It holds up the copies of the others for a minute at most, not for the ten that a copy may take.
#[test]
#[ignore = "minutes: `.ci/long` runs it"]
fn a_host_that_sends_its_archive_byte_by_byte_is_given_up() {
    let ran = fleet(&["trickle", "good-1"], 2)
        .args(["--out", "fleet"])
        .run()
        .success();
    assert_eq!(ran.json()["result"]["summary"]["done"], 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("sent less than"), "{}", ran.stderr);
}

/// The disk of this machine, not of a host, is full: the fleet says so, and the jobs are not given up.
#[test]
fn a_full_disk_here_is_no_hosts_fault() {
    let Some(small) = needs_small_disk() else { return };
    let ran = fleet(&["filler"], 1).arg("--out").arg(small.path().join("fleet")).run();
    let _ = ran.code(3).stderr("free disk space");
}
