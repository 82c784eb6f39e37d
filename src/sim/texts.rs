//! Logs and pages of each engine. There is one Jinja file per engine in `src/sim/engines`, with sections that begin
//! with `=== NAME`: the stages of a start, its failures, `GET /path` for a page, `error` for a refused request (its
//! status and its body), and `event` for tokens in an engine's own API.

use std::sync::LazyLock;

use jiff::tz::TimeZone;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior, Value};

use super::memory::MIB;
use super::profile::Engine;
use crate::fault::{Fault, Result};
use crate::fmt::{GIB, thousands};
use crate::world;

/// Placeholder for the time in a log line; its format is the section `time`.
const TIME: &str = "<time>";

/// The file whose sections apply to every engine, unless the engine's own file has the same section.
const EVERY: &str = "openai";

const FILES: [(&str, &str); 8] = [
    (EVERY, include_str!("engines/openai.jinja")),
    ("vllm", include_str!("engines/vllm.jinja")),
    ("sglang", include_str!("engines/sglang.jinja")),
    ("tensorrt_llm", include_str!("engines/tensorrt_llm.jinja")),
    ("tgi", include_str!("engines/tgi.jinja")),
    ("llamacpp", include_str!("engines/llamacpp.jinja")),
    ("ollama", include_str!("engines/ollama.jinja")),
    ("transformers", include_str!("engines/transformers.jinja")),
];

static TEMPLATES: LazyLock<std::result::Result<Environment<'static>, Error>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()?;
    environment.set_syntax(syntax);
    environment.add_filter("gib", |bytes: f64, decimals: Option<usize>| {
        format!("{:.1$}", bytes / GIB, decimals.unwrap_or(2))
    });
    environment.add_filter("mib", |bytes: f64, width: Option<usize>| {
        format!("{:1$.2}", bytes / MIB, width.unwrap_or(0))
    });
    environment.add_filter("short_gib", short_gib);
    environment.add_filter("thousands", thousands);
    // The built-in filter escapes `<` and `>` for HTML.
    environment.add_filter("tojson", |value: Value| {
        serde_json::to_string(&value).unwrap_or_default()
    });
    for (engine, text) in FILES {
        for section in text.split("\n=== ").skip(1) {
            let (name, body) = section.split_once('\n').unwrap_or((section, ""));
            let body = match body.trim_end() {
                "" => String::new(),
                body => format!("{body}\n"),
            };
            environment.add_template_owned(format!("{engine}/{name}"), body)?;
        }
    }
    Ok(environment)
});

impl Engine {
    /// A section of this engine's file, filled in.
    ///
    /// # Errors
    /// `internal` if there is no such section, or if it needs a value that is not given.
    pub(super) fn text(self, section: &str, values: &Value) -> Result<String> {
        let broken = |error: &Error| Fault::internal(format!("text `{section}` of the simulated engine: {error:#}"));
        let templates = TEMPLATES.as_ref().map_err(broken)?;
        let own = templates.get_template(&format!("{}/{section}", self.name()));
        let template = own.or_else(|_| templates.get_template(&format!("{EVERY}/{section}")));
        let text = template.and_then(|template| template.render(values.clone()));
        text.map_err(|error| broken(&error))
    }

    /// Whether its file has this section.
    pub(super) fn has_section(self, section: &str) -> bool {
        let name = format!("{}/{section}", self.name());
        TEMPLATES
            .as_ref()
            .is_ok_and(|templates| templates.get_template(&name).is_ok())
    }

    /// Paths of its pages.
    pub(super) fn pages(self) -> Vec<&'static str> {
        let templates = TEMPLATES.as_ref().ok();
        let names = templates.into_iter().flat_map(|templates| templates.templates());
        let mut pages: Vec<_> = names
            .filter_map(|(name, _)| {
                let (file, section) = name.split_once('/')?;
                [EVERY, self.name()]
                    .contains(&file)
                    .then(|| section.strip_prefix("GET "))?
            })
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// The line as logged now, with the time filled in.
    pub(super) fn stamped(self, line: &str) -> String {
        if !line.contains(TIME) {
            return line.to_owned();
        }
        let text = self.text("time", &Value::UNDEFINED).unwrap_or_default();
        let format = text.trim_end();
        let now = if format.ends_with('Z') {
            world::now().to_zoned(TimeZone::UTC)
        } else {
            world::now().to_zoned(TimeZone::system())
        };
        line.replacen(TIME, &now.strftime(format).to_string(), 1)
    }
}

/// GiB as vLLM logs them: two decimals without trailing zeros, but at least one.
fn short_gib(bytes: f64) -> String {
    format!("{:?}", (bytes / GIB * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    #[test]
    fn every_file_is_read_and_says_what_each_engine_needs() {
        assert!(TEMPLATES.is_ok(), "{:?}", TEMPLATES.as_ref().err());
        for engine in Engine::ALL {
            for section in ["time", "ready", "failed", "stopped", "GET /health"] {
                assert!(engine.has_section(section), "{engine:?} {section}");
            }
            for page in ["/health", "/version", "/v1/models"] {
                assert!(engine.pages().contains(&page), "{engine:?} {page}");
            }
        }
    }

    #[test]
    fn lines_of_another_file_stay_lines() {
        let sizes = context! { compute_mib => 254.5 };
        let values = context! { max_seqs => 2, max_total => 100, url => "http://x", sizes };
        let text = Engine::Llamacpp.text("ready", &values).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].ends_with("compute buffer size =   254.50 MiB"), "{text}");
        assert!(lines[1].contains("n_slots = 2, n_ctx_slot = 100"), "{text}");
    }

    #[test]
    fn the_time_is_in_the_engines_format() {
        let stamped = Engine::Sglang.stamped("[<time> TP0] x");
        let pattern = regex::Regex::new(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d TP0\] x$").unwrap();
        assert!(pattern.is_match(&stamped), "{stamped}");
        assert!(Engine::Tgi.stamped("<time>  INFO").ends_with("Z  INFO"));
        assert_eq!(Engine::Llamacpp.stamped("main: x"), "main: x");
    }

    #[test]
    fn sizes_are_written_as_the_engines_do() {
        assert_eq!(short_gib(-708_669_603.0), "-0.66");
        assert_eq!(short_gib(16.0 * GIB), "16.0");
        let text = TEMPLATES.as_ref().unwrap().render_str(
            "{{ a|gib }} {{ a|gib(3) }} {{ a|mib(8) }}",
            context! { a => 3_221_225_472_u64 },
        );
        assert_eq!(text.unwrap(), "3.00 3.000  3072.00");
    }
}

#[cfg(test)]
mod wire_tests {
    use minijinja::context;

    use super::*;

    #[test]
    fn errors_and_events_are_json() {
        let values = context! { problem => "bad_request", message => "a <= \"b\"", n_prompt_tokens => 3, n_ctx => 2 };
        for engine in Engine::ALL {
            let text = engine.text("error", &values).unwrap();
            let (status, body) = text.trim_end().split_once('\n').unwrap();
            serde_json::from_str::<serde_json::Value>(body).unwrap_or_else(|error| panic!("{engine:?} {error} {text}"));
            assert!(
                ["400", "422"].contains(&status) && text.contains("a <= \\\"b\\\""),
                "{text}"
            );
        }
        for (engine, lines) in [(Engine::Tgi, 1), (Engine::Llamacpp, 2), (Engine::Ollama, 2)] {
            let values = context! {
                model => "m", input => 3, produced => 2, text => " w1", tokens => [1], ids => false, reason => "limit", all => " w1", clipped => true,
            };
            let text = engine.text("event", &values).unwrap();
            let events: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
            assert_eq!(events.len(), lines, "{text}");
            for event in events {
                let json = event.strip_prefix("data:").unwrap_or(event);
                serde_json::from_str::<serde_json::Value>(json)
                    .unwrap_or_else(|error| panic!("{engine:?} {error} {event}"));
            }
        }
    }
}
