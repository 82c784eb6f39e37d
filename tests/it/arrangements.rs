//! A server arranges an answer in one of the many ways that servers do: where the text, the counts and the finish reason
//! stand, what comes between, and how the stream ends. The answer is recorded by a clock of its own, so that no delay of
//! this machine is in it, and measured as in a load.

use std::cell::Cell;
use std::time::Duration;

use profiler::engine::{Protocol, decoder};
use profiler::load::stats::{LoadStats, Settings, Slo};
use profiler::load::{QueuedRequest, RequestOutcome, RequestRecord, read_recorded};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Where the counts stand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counts {
    /// In an event of their own, after the finish reason.
    OwnEvent,
    /// In the event of the finish reason, and in its choice.
    Finish,
    FinishChoice,
    /// In the place that Groq has for them.
    Groq,
    /// In an event without text before the finish reason.
    BeforeFinish,
    /// In the last event with text.
    LastText,
    /// In each event: those so far, and those of the event alone.
    EachSoFar,
    EachAlone,
    /// As zeros, and nowhere.
    Zero,
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Finish {
    OwnEvent,
    WithLast,
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The body ends.
    Ends,
    /// The connection closes before the body has ended.
    Closes,
    /// Neither.
    StaysOpen,
    /// The connection closes within the text.
    CutInText,
}

/// An answer, and what is true of it.
#[derive(Clone, Debug)]
struct Arrangement {
    chat: bool,
    /// Tokens that came, and were asked for.
    tokens: u64,
    asked: u64,
    /// Tokens at the start that are not sent, and tokens after them that are thoughts.
    unsent: u64,
    thoughts: u64,
    /// The counts say how many are not sent.
    details: bool,
    /// Tokens of an event.
    bundle: u64,
    /// Each event has its token ids.
    ids: bool,
    counts: Counts,
    finish: Finish,
    finish_reason: &'static str,
    done: bool,
    end: End,
    /// Shape of text and thoughts.
    shape: usize,
    /// An event that is not part of the answer comes before every so-manieth.
    pings: usize,
    /// Bytes that come together.
    cut: usize,
    /// Milliseconds to the first token, between tokens, and between the events of the end.
    ttft: u64,
    gap: u64,
    delay: u64,
    /// All comes at the end.
    buffered: bool,
}

/// The server of most cases: 20 tokens, the first after 80 ms, then one each 12 ms; the last events at once.
const EVEN: Arrangement = Arrangement {
    chat: false,
    tokens: 20,
    asked: 20,
    unsent: 0,
    thoughts: 0,
    details: false,
    bundle: 1,
    ids: false,
    counts: Counts::OwnEvent,
    finish: Finish::OwnEvent,
    finish_reason: "length",
    done: true,
    end: End::Ends,
    shape: 0,
    pings: 0,
    cut: 1 << 20,
    ttft: 80,
    gap: 12,
    delay: 0,
    buffered: false,
};

const PINGS: [&str; 6] = [
    ": ping\n\n",
    ":\n\n",
    "data:\n\n",
    "event: ping\ndata: {}\n\n",
    "data: {\"type\":\"ping\"}\n\n",
    "data: {\"choices\":[]}\n\n",
];

impl Arrangement {
    fn at(&self, token: u64) -> Duration {
        ms(self.ttft + token * self.gap)
    }

    fn last(&self) -> Duration {
        self.at(self.tokens - 1)
    }

    /// The events with text: time, tokens, and how many of these are thoughts.
    fn texts(&self) -> Vec<(Duration, u64, bool)> {
        let mut texts = Vec::new();
        let mut token = self.unsent;
        while token < self.tokens {
            let thought = token < self.unsent + self.thoughts;
            let until = if thought {
                self.unsent + self.thoughts
            } else {
                self.tokens
            };
            let size = self.bundle.min(until - token);
            token += size;
            texts.push((self.at(token - 1), size, thought));
        }
        texts
    }

    fn usage(&self, output: u64) -> String {
        let input = 50;
        let details = if self.details && self.unsent > 0 {
            format!(
                ",\"completion_tokens_details\":{{\"reasoning_tokens\":{}}}",
                self.unsent
            )
        } else {
            String::new()
        };
        let total = input + output;
        format!(
            "\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output},\"total_tokens\":{total}{details}}}"
        )
    }

    /// The text of a choice, with its key.
    fn text(&self, tokens: u64, thought: bool) -> String {
        let text = " tok".repeat(usize::try_from(tokens).unwrap());
        if !self.chat {
            return format!("\"text\":\"{text}\"");
        }
        let delta = match (thought, self.shape % 4) {
            (false, 0 | 1) => format!("\"content\":\"{text}\""),
            (false, 2) => format!("\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]"),
            (false, _) => format!("\"role\":\"assistant\",\"content\":\"{text}\",\"reasoning_content\":null"),
            (true, 0) => format!("\"content\":null,\"reasoning_content\":\"{text}\""),
            (true, 1) => format!("\"content\":\"\",\"reasoning\":\"{text}\""),
            (true, 2) => format!(
                "\"content\":[{{\"type\":\"thinking\",\"thinking\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}]"
            ),
            (true, _) => format!("\"thinking\":\"{text}\""),
        };
        format!("\"delta\":{{{delta}}}")
    }

    fn nothing(&self) -> &'static str {
        match (self.chat, self.shape % 2) {
            (false, _) => "\"text\":\"\"",
            (true, 0) => "\"delta\":{}",
            (true, _) => "\"delta\":{\"content\":\"\"}",
        }
    }

    /// The events, each with its time; and how many of them come before the last text.
    fn events(&self) -> (Vec<(Duration, String)>, usize) {
        let mut events: Vec<(Duration, String)> = Vec::new();
        let texts = self.texts();
        if self.chat {
            let role = "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}";
            events.push((ms(self.ttft / 2), role.to_owned()));
        }
        let total = self.usage(self.tokens);
        let mut so_far = self.unsent;
        for (number, (at, size, thought)) in texts.iter().enumerate() {
            so_far += size;
            let last = number + 1 == texts.len();
            let ids = if self.ids {
                format!(",\"token_ids\":{:?}", vec![7; usize::try_from(*size).unwrap()])
            } else {
                String::new()
            };
            let finish = match self.finish {
                Finish::WithLast if last => format!("\"{}\"", self.finish_reason),
                _ => ["null", "\"\""][self.shape % 2].to_owned(),
            };
            let usage = match self.counts {
                Counts::EachSoFar => format!(",{}", self.usage(so_far)),
                Counts::EachAlone => format!(",{}", self.usage(*size)),
                Counts::LastText if last => format!(",{total}"),
                Counts::Finish if last && self.finish == Finish::WithLast => format!(",{total}"),
                _ => String::new(),
            };
            let text = self.text(*size, *thought);
            events.push((
                *at,
                format!("{{\"choices\":[{{\"index\":0,{text}{ids},\"finish_reason\":{finish}}}]{usage}}}"),
            ));
        }
        let before_last = events.len() - 1;
        let nothing = self.nothing();
        let mut ends: Vec<String> = Vec::new();
        if self.counts == Counts::BeforeFinish {
            ends.push(format!(
                "{{\"choices\":[{{{nothing},\"finish_reason\":null}}],{total}}}"
            ));
        }
        let reason = if self.finish == Finish::OwnEvent {
            format!("\"{}\"", self.finish_reason)
        } else {
            "null".to_owned()
        };
        let end = match self.counts {
            Counts::Finish if self.finish != Finish::WithLast => Some(format!(
                "{{\"choices\":[{{{nothing},\"finish_reason\":{reason}}}],{total}}}"
            )),
            Counts::FinishChoice => Some(format!(
                "{{\"choices\":[{{{nothing},\"finish_reason\":{reason},{total}}}]}}"
            )),
            Counts::Groq => Some(format!(
                "{{\"choices\":[{{{nothing},\"finish_reason\":{reason}}}],\"x_groq\":{{\"id\":\"r\",{total}}}}}"
            )),
            _ => (self.finish == Finish::OwnEvent)
                .then(|| format!("{{\"choices\":[{{{nothing},\"finish_reason\":{reason}}}],\"usage\":null}}")),
        };
        ends.extend(end);
        match self.counts {
            Counts::OwnEvent => ends.push(format!("{{\"choices\":[],{total}}}")),
            Counts::Zero => ends.push(
                "{\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0}}"
                    .to_owned(),
            ),
            _ => {}
        }
        if self.done {
            ends.push("[DONE]".to_owned());
        }
        let mut at = self.last();
        for end in ends {
            at += ms(self.delay);
            events.push((at, end));
        }
        (events, before_last)
    }

    /// When the last event that says anything comes.
    fn over(&self) -> Duration {
        self.events().0.last().unwrap().0
    }

    /// The record of a request that gets this answer, sent at time 0.
    fn recorded(&self) -> RequestRecord {
        let (mut events, before_last) = self.events();
        if self.end == End::CutInText {
            events.truncate(before_last);
        }
        let over = events.last().map_or(Duration::ZERO, |last| last.0);
        let mut parts: Vec<(Duration, Vec<u8>)> = Vec::new();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        parts.push((if self.buffered { over } else { Duration::ZERO }, head.into()));
        for (number, (at, data)) in events.iter().enumerate() {
            let mut text = format!("data: {data}\n\n");
            if self.pings > 0 && number % self.pings == 0 {
                text = format!("{}{text}", PINGS[number % PINGS.len()]);
            }
            let chunk = format!("{:x}\r\n{text}\r\n", text.len());
            let at = if self.buffered { over } else { *at };
            parts.extend(chunk.as_bytes().chunks(self.cut).map(|part| (at, part.to_vec())));
        }
        if self.end == End::Ends {
            parts.push((over + ms(self.delay), b"0\r\n\r\n".to_vec()));
        }
        let job = QueuedRequest {
            at: None,
            body: vec![b'x'; 400].into(),
            decoder: decoder(if self.chat {
                Protocol::OpenaiChat
            } else {
                Protocol::OpenaiCompletions
            }),
            timeout: Duration::from_secs(60),
            input: 50,
            output: self.asked,
        };
        let parts: Vec<(Duration, &[u8])> = parts.iter().map(|(at, part)| (*at, &part[..])).collect();
        let closes = matches!(self.end, End::Closes | End::CutInText).then_some(over + ms(self.delay));
        read_recorded(job, &parts, closes)
    }

    /// Whether a total is stated.
    fn is_counted(&self) -> bool {
        !matches!(self.counts, Counts::Zero | Counts::Absent)
    }

    /// Why the answer cannot be taken for a whole one; the table of all reasons.
    fn refusal(&self) -> Option<&'static str> {
        let events = self.texts().len() as u64;
        let one_each = self.unsent == 0 && (events == self.tokens || self.ids);
        match self.end {
            End::CutInText => Some("the connection closed within the text"),
            _ if self.finish == Finish::Absent && !self.is_counted() && !one_each => {
                Some("nothing says how long the text should be")
            }
            _ => None,
        }
    }

    /// Whether it is known how many tokens came after the first event.
    fn is_split(&self) -> bool {
        matches!(self.counts, Counts::EachSoFar | Counts::EachAlone)
            || self.ids && (self.unsent == 0 || self.details)
            || self.bundle == 1 && (self.unsent == 0 || self.details)
    }
}

/// The statistics of twelve requests that get this answer.
fn measured(record: &RequestRecord, slo: Option<Slo>) -> LoadStats {
    let records: Vec<RequestRecord> = (0..12)
        .map(|index| RequestRecord {
            index,
            ..record.clone()
        })
        .collect();
    let settings = Settings {
        exact: true,
        slo,
        ..Settings::default()
    };
    LoadStats::from_records(&records, &settings)
}

fn arrangements() -> impl Strategy<Value = Arrangement> {
    let place = select(vec![
        Counts::OwnEvent,
        Counts::Finish,
        Counts::FinishChoice,
        Counts::Groq,
        Counts::BeforeFinish,
        Counts::LastText,
        Counts::EachSoFar,
        Counts::EachAlone,
        Counts::Zero,
        Counts::Absent,
    ]);
    let finish = prop_oneof![5 => Just(Finish::OwnEvent), 3 => Just(Finish::WithLast), 2 => Just(Finish::Absent)];
    let end = prop_oneof![10 => Just(End::Ends), 4 => Just(End::Closes), 4 => Just(End::StaysOpen), 1 => Just(End::CutInText)];
    let text = (
        any::<bool>(),
        2_u64..25,
        0_u64..30,
        0_u64..8,
        any::<bool>(),
        1_u64..4,
        any::<bool>(),
    );
    let form = (place, finish, any::<bool>(), end, 0_usize..8, 0_usize..4);
    let times = (
        select(vec![1_usize, 3, 17, 4096, 1 << 20]),
        5_u64..300,
        3_u64..40,
        0_u64..150,
        prop::bool::weighted(0.05),
    );
    (text, form, times).prop_map(|(text, form, times)| {
        let (chat, sent, unsent, thoughts, details, bundle, ids) = text;
        let (counts, finish, done, end, shape, pings) = form;
        let (cut, ttft, gap, delay, buffered) = times;
        let counted = !matches!(counts, Counts::Zero | Counts::Absent | Counts::EachAlone);
        // Where bundles may hide in front of thoughts that nobody counts, nothing is known.
        let known = details || counts == Counts::EachSoFar || bundle == 1 && !ids;
        let unsent = if chat && counted && known {
            unsent.saturating_sub(15).min(3 * sent)
        } else {
            0
        };
        let thoughts = if chat { thoughts.min(sent - 1) } else { 0 };
        // Two equal counts may be either.
        let counts = if counts == Counts::EachAlone && sent < 6 * bundle {
            Counts::OwnEvent
        } else {
            counts
        };
        Arrangement {
            chat,
            tokens: unsent + sent,
            asked: unsent + sent,
            unsent,
            thoughts: if details && unsent > 0 { 0 } else { thoughts },
            details,
            bundle,
            ids,
            counts,
            finish,
            finish_reason: "length",
            done,
            end,
            shape,
            pings,
            cut,
            ttft,
            gap,
            delay,
            buffered,
        }
    })
}

fn near(got: Option<f64>, want: Duration) -> bool {
    got.is_some_and(|got| (got - want.as_secs_f64() * 1e3).abs() < 0.5)
}

#[test]
fn an_answer_is_measured_however_it_is_arranged() {
    let (all, complete) = (Cell::new(0_u32), Cell::new(0_u32));
    let config = Config {
        cases: 10_000,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&arrangements(), |one| {
        all.set(all.get() + 1);
        let record = one.recorded();
        let stats = measured(&record, None);
        let fail = |why: &str| {
            Err(TestCaseError::fail(format!(
                "{why}: {record:?} {:?} {:?}",
                stats.failures, stats.warnings
            )))
        };
        if let Some(why) = one.refusal() {
            return if stats.completed == 0 { Ok(()) } else { fail(why) };
        }
        complete.set(complete.get() + 1);
        if stats.completed != 12 || stats.short != 0 {
            return fail("it is complete");
        }
        let output = stats.rates.output_throughput.unwrap() / stats.rates.request_throughput.unwrap();
        if (output - one.tokens as f64).abs() > 1e-6 {
            return fail("its tokens");
        }
        if record.ended != one.over() {
            return fail("it ends at its last event");
        }
        if one.buffered {
            let long = one.tokens >= 8;
            return if stats.unmeasured.contains_key("ttft_ms") == long {
                Ok(())
            } else {
                fail("text comes at once")
            };
        }
        let texts = one.texts();
        if !near(stats.latencies.e2el_ms.mean, one.last()) {
            return fail("E2E");
        }
        let span = one.last() - texts[0].0;
        // An answer that is there within moments after its first token has no other latency.
        if span <= ms(2).max(one.last().mul_f64(0.011)) {
            return Ok(());
        }
        if !near(stats.latencies.ttft_ms.mean, texts[0].0) {
            return fail("TTFT");
        }
        let visible = texts.iter().find(|text| !text.2).unwrap().0;
        if !near(stats.first_visible_ms.mean, visible) {
            return fail("the first visible token");
        }
        match stats.latencies.tpot_ms.mean {
            Some(tpot) if (tpot / one.gap as f64 - 1.0).abs() > 0.055 => fail("TPOT"),
            None if one.is_split() => fail("TPOT is known"),
            None if !stats.unmeasured.contains_key("tpot_ms") => fail("the reason why there is no TPOT"),
            _ => Ok(()),
        }
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(
        complete.get() * 10 >= all.get() * 9,
        "{} of {}",
        complete.get(),
        all.get()
    );
}

/// What is true of an answer: requests of twelve that complete, TTFT, TPOT and E2E latency in milliseconds, output tokens,
/// and the code of the warning that says what is unusual.
struct Truth {
    completed: u64,
    latencies: [Option<f64>; 3],
    output: f64,
    warns: &'static str,
}

fn check(name: &str, one: &Arrangement, truth: &Truth) {
    let stats = measured(&one.recorded(), None);
    let codes: Vec<&str> = stats.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(stats.completed, truth.completed, "{name}: {:?}", stats.failures);
    let latencies = [
        &stats.latencies.ttft_ms,
        &stats.latencies.tpot_ms,
        &stats.latencies.e2el_ms,
    ];
    for (got, want) in latencies.map(|latency| latency.median).into_iter().zip(truth.latencies) {
        let near = got.zip(want).is_some_and(|(got, want)| (got - want).abs() < 0.5);
        assert!(near || got == want, "{name}: {got:?} is not {want:?}");
    }
    let output = stats.rates.output_throughput.unwrap() / stats.rates.request_throughput.unwrap();
    assert!((output - truth.output).abs() < 1e-6, "{name}: {output}");
    let warned = if truth.warns.is_empty() {
        codes.is_empty()
    } else {
        codes.contains(&truth.warns)
    };
    assert!(warned, "{name}: {codes:?}");
}

/// The answers of servers from public reports, with one that nothing is wrong with.
#[test]
fn answers_of_reported_servers_are_measured() {
    let even = [Some(80.0), Some(12.0), Some(308.0)];
    for (name, one, latencies, output, warns) in [
        ("even", EVEN, even, 20.0, ""),
        (
            "buffered stream",
            Arrangement { buffered: true, ..EVEN },
            [None, None, Some(308.0)],
            20.0,
            "buffered",
        ),
        (
            "whole text in the last event",
            Arrangement { bundle: 20, ..EVEN },
            [None, None, Some(308.0)],
            20.0,
            "buffered",
        ),
        (
            "usage in the finish chunk",
            Arrangement {
                counts: Counts::Finish,
                delay: 200,
                ..EVEN
            },
            even,
            20.0,
            "",
        ),
        (
            "zero usage",
            Arrangement {
                counts: Counts::Zero,
                ..EVEN
            },
            even,
            20.0,
            "uncounted_tokens",
        ),
        (
            "hidden reasoning",
            Arrangement {
                chat: true,
                tokens: 100,
                asked: 100,
                unsent: 80,
                details: true,
                ..EVEN
            },
            [Some(1040.0), Some(12.0), Some(1268.0)],
            100.0,
            "hidden_tokens",
        ),
        (
            "hidden reasoning that nothing counts",
            Arrangement {
                chat: true,
                tokens: 100,
                asked: 100,
                unsent: 80,
                ..EVEN
            },
            [Some(1040.0), None, Some(1268.0)],
            100.0,
            "unknown_split",
        ),
        (
            "more hidden reasoning than text",
            Arrangement {
                chat: true,
                tokens: 320,
                asked: 320,
                unsent: 300,
                details: true,
                ..EVEN
            },
            [Some(3680.0), Some(12.0), Some(3908.0)],
            320.0,
            "hidden_tokens",
        ),
        (
            "no finish reason",
            Arrangement {
                finish: Finish::Absent,
                ..EVEN
            },
            even,
            20.0,
            "no_finish_reason",
        ),
        (
            "text ends early",
            Arrangement {
                tokens: 15,
                finish_reason: "stop",
                ..EVEN
            },
            [Some(80.0), Some(12.0), Some(248.0)],
            15.0,
            "short_answers",
        ),
        (
            "text ends early without a finish reason",
            Arrangement {
                tokens: 15,
                finish: Finish::Absent,
                ..EVEN
            },
            [Some(80.0), Some(12.0), Some(248.0)],
            15.0,
            "short_answers",
        ),
        (
            "held open after [DONE]",
            Arrangement {
                end: End::StaysOpen,
                ..EVEN
            },
            even,
            20.0,
            "held_open",
        ),
        (
            "held open without [DONE]",
            Arrangement {
                end: End::StaysOpen,
                done: false,
                ..EVEN
            },
            even,
            20.0,
            "held_open",
        ),
        (
            "held open after the finish reason, and no usage",
            Arrangement {
                end: End::StaysOpen,
                done: false,
                counts: Counts::Absent,
                ..EVEN
            },
            even,
            20.0,
            "held_open",
        ),
        (
            "two tokens an event, not counted",
            Arrangement { bundle: 2, ..EVEN },
            [Some(92.0), Some(12.0), Some(308.0)],
            20.0,
            "several_tokens_an_event",
        ),
    ] {
        let truth = Truth {
            completed: 12,
            latencies,
            output,
            warns,
        };
        check(name, &one, &truth);
    }
}

#[test]
fn an_objective_that_cannot_be_measured_has_no_goodput() {
    let buffered = Arrangement { buffered: true, ..EVEN }.recorded();
    let slo = |tpot_ms, e2el_ms| Slo {
        tpot_ms,
        e2el_ms,
        ..Slo::default()
    };
    let stats = measured(&buffered, Some(slo(Some(2.0), None)));
    assert!(stats.goodput.is_none() && stats.unmeasured.contains_key("tpot_ms"));
    let stats = measured(&buffered, Some(slo(None, Some(500.0))));
    assert_eq!(stats.goodput.unwrap().counts.good, 12);
}

/// All tokens came, and then half of the event with the finish reason: the connection stays open, or is closed.
#[test]
fn half_an_event_after_a_whole_answer_is_no_error() {
    let job = || QueuedRequest {
        at: None,
        body: vec![b'x'; 40].into(),
        decoder: decoder(Protocol::OpenaiCompletions),
        timeout: Duration::from_secs(60),
        input: 5,
        output: 2,
    };
    let token = "data: {\"choices\":[{\"text\":\" a\",\"token_ids\":[7]}]}\n\n";
    let half = "data: {\"choices\":[{\"text\":\"\",\"fini";
    let text = format!("{token}{token}{half}");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = format!("{head}{:x}\r\n{text}\r\n", text.len());
    for closes in [None, Some(ms(50))] {
        let record = read_recorded(job(), &[(ms(10), answer.as_bytes())], closes);
        assert_eq!(record.outcome, RequestOutcome::Completed, "{record:?}");
    }
    // Where tokens are missing, it is one.
    let answer = format!("{head}{:x}\r\n{token}{half}\r\n", token.len() + half.len());
    let record = read_recorded(job(), &[(ms(10), answer.as_bytes())], Some(ms(50)));
    assert!(matches!(record.outcome, RequestOutcome::Failed(_)), "{record:?}");
}

#[test]
fn times_out_of_order_are_no_latency() {
    let good = EVEN.recorded();
    let back = RequestRecord {
        sent: ms(90),
        ..good.clone()
    };
    let mut gap = good.clone();
    gap.itl_ms[3] = -4.0;
    for record in [back, gap] {
        let stats = measured(&record, None);
        assert_eq!(
            (stats.completed, stats.latencies.ttft_ms.n),
            (12, 0),
            "{:?}",
            stats.warnings
        );
        assert!(stats.unmeasured.contains_key("ttft_ms"));
    }
}
