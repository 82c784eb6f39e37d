//! A user works with the program over real sockets, processes and containers. All tests are one binary, so that it
//! links once; each file covers one subject.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod adapters;
mod advice;
mod arrangements;
mod attach;
mod attach_container;
mod attach_forms;
mod attach_limits;
mod attach_starts;
mod attach_states;
mod attach_tls;
mod attacks;
mod batch;
mod boundary;
mod bounds;
mod breakdown;
mod browser;
mod budget;
mod calm;
mod circles;
mod cli;
mod compare;
mod counters;
mod cut_short;
mod daemon;
mod daemon_restarts;
mod disturbed;
mod doc;
mod docker;
mod doctor;
mod engine;
mod estimate;
mod exit_codes;
mod experiment;
mod export;
mod failed;
mod failure_forms;
mod failures;
mod flags;
mod fleet;
mod frontier;
mod fuzz;
mod hostile_containers;
mod hub;
mod import;
mod inside;
mod io_faults;
mod isolate;
mod journal;
mod killed;
mod kills;
mod launches;
mod liars;
mod links;
mod live;
mod llamacpp;
mod load;
mod load_client;
mod load_scripts;
mod load_timeline;
mod logs;
mod models;
mod modules;
mod noise;
mod not_sent;
mod orphans;
mod out;
mod own_limits;
mod pack;
mod parallel;
mod parameters;
mod permits;
mod pictures;
mod plan;
mod podman;
mod probes;
mod process;
mod prompt;
mod pulls;
mod ranges;
mod readme;
mod real_runs;
mod repl;
mod replicas;
mod report;
mod resume;
mod run;
mod runtime;
mod scoreboard;
mod script;
mod search;
mod sharing;
mod show;
mod signals;
mod sim;
mod simulation;
mod starts;
mod strategies;
mod support;
mod telemetry;
mod templates;
mod tenancy;
mod textengines;
mod torn;
mod tune;
mod usage;
mod verdicts;
mod wants;
