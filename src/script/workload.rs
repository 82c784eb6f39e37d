//! Workloads: the lengths of somebody's requests, from a shipped file of `stdlib/workloads` or a file of the user.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::nearest::{nearest, quoted};
use super::{Host, inputs, shipped};
use crate::fault::{Fault, Result};

/// A workload file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    /// One line for people.
    description: String,
    /// Where the numbers come from.
    source: String,
    input: Lengths,
    output: Lengths,
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
struct Lengths {
    p50: u64,
    p95: u64,
}

/// Lengths as they are written: one number, or two percentiles.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a length is a number, or `{ p50 = …, p95 = … }`")]
enum Written {
    Fixed(u64),
    Percentiles(Percentiles),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Percentiles {
    p50: u64,
    p95: u64,
}

impl From<Written> for Lengths {
    fn from(written: Written) -> Self {
        match written {
            Written::Fixed(tokens) => Self {
                p50: tokens,
                p95: tokens,
            },
            Written::Percentiles(Percentiles { p50, p95 }) => Self { p50, p95 },
        }
    }
}

/// The workload of a shipped name, or of a TOML file that the user named.
pub(super) fn read(host: &Host, name: &str) -> Result<Value> {
    let text = match shipped::workload(name) {
        Some(text) => text.into_owned(),
        None if name.contains(['/', '.']) => inputs::read_text(host, name)?,
        None => return Err(unknown(name)),
    };
    let workload = parse(name, &text)?;
    Ok(json!({
        "name": name,
        "description": workload.description,
        "source": workload.source,
        "input": workload.input,
        "output": workload.output,
    }))
}

fn parse(name: &str, text: &str) -> Result<Workload> {
    let fault = |what: &str| {
        Fault::usage(format!("the workload `{name}` is not valid: {}", what.trim())).hint(
            "it has `description`, `source`, `input` and `output`; a length is a number, or `{ p50 = …, p95 = … }`",
        )
    };
    let workload: Workload = toml::from_str(text).map_err(|error| fault(error.message()))?;
    for (what, lengths) in [("input", workload.input), ("output", workload.output)] {
        if lengths.p50 == 0 || lengths.p95 < lengths.p50 {
            return Err(fault(&format!("`{what}` is at least 1 token, and p95 is at least p50")));
        }
    }
    Ok(workload)
}

fn unknown(name: &str) -> Fault {
    let names = quoted(shipped::workloads());
    let known = format!("the workloads are {names}; or name a TOML file of your own");
    Fault::usage(format!("there is no workload `{name}`")).hint(match nearest(name, shipped::workloads()) {
        Some(near) => format!("did you mean `{near}`? {known}"),
        None => known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_workload_is_valid() {
        assert!(shipped::workloads().count() >= 5);
        for name in shipped::workloads() {
            parse(name, &shipped::workload(name).unwrap()).unwrap();
        }
    }

    #[test]
    fn a_length_is_a_number_or_two_percentiles_and_nothing_else() {
        let text = |input: &str| format!("description = \"a\"\nsource = \"b\"\noutput = 5\ninput = {input}");
        assert_eq!(parse("x", &text("10")).unwrap().input, Lengths { p50: 10, p95: 10 });
        let both = parse("x", &text("{ p50 = 10, p95 = 30 }")).unwrap();
        assert_eq!(
            (both.input, both.output),
            (Lengths { p50: 10, p95: 30 }, Lengths { p50: 5, p95: 5 })
        );
        for wrong in ["{ p50 = 30, p95 = 10 }", "0", "{ p50 = 1, p99 = 3 }", "10\nrate = 3"] {
            parse("x", &text(wrong)).unwrap_err();
        }
    }
}
