//! `adaptive` on limits of real engines, as their kept runs show them: each is a law that agrees with every answer of its
//! run, and the report that the engine gave (tests/data/runs).

use serde_json::Value;

use crate::script::bench::Bench;

struct RealLimit {
    run: &'static str,
    axes: &'static str,
    /// Whether the point `p` fits.
    fits: &'static str,
    report: &'static str,
    /// The kind of certificate.
    by: &'static str,
    /// The most probes until it is verified.
    probes: u64,
}

const LIMITS: [RealLimit; 4] = [
    RealLimit {
        run: "docker-8b",
        axes: "#{ input: [128, 126976], output: [64, 4096] }",
        fits: "p.input + p.output <= 106720",
        report: "#{ tokens: 106720, block: 16, longest: 106720 }",
        by: "report",
        probes: 8,
    },
    RealLimit {
        run: "vllm-mla",
        axes: "#{ concurrency: [1, 256], input: [256, 16384], output: [64, 64] }",
        fits: "p.concurrency * ((p.input + p.output + 15) / 16) * 16 <= 183952",
        report: "#{ tokens: 183952, block: 16 }",
        by: "report",
        probes: 8,
    },
    // Blocks of attention, and one of state for each request, from one pool.
    RealLimit {
        run: "vllm-falcon-h1",
        axes: "#{ concurrency: [1, 191], input: [256, 8192], output: [64, 64] }",
        fits: "p.concurrency * ((p.input + p.output + 1567) / 1568 + 1) <= 204",
        report: "#{ tokens: 241782, block: 1568, length: 8256, max_model_len: 8256 }",
        by: "report",
        probes: 20,
    },
    // Sliding windows in most layers: the report does not hold.
    RealLimit {
        run: "vllm-hybrid-verified",
        axes: "#{ concurrency: [1, 64], input: [128, 16384], output: [128, 128] }",
        fits: "1.0 * p.concurrency * (p.input + p.output + 6.25 * min(p.input + p.output, 768)) <= 375000.0",
        report: "#{ tokens: 103594, block: 16 }",
        by: "fitted",
        probes: 30,
    },
];

#[test]
fn limits_of_real_engines_are_verified_with_few_probes() {
    for limit in LIMITS {
        let RealLimit {
            run,
            axes,
            fits,
            report,
            ..
        } = limit;
        let done: Value = Bench::script(&format!(
            r#"import "std/search" as search;
            let map = boundary({axes}, #{{}});
            search::adaptive(map, |p| #{{ verdict: if {fits} {{ "ok" }} else {{ "queued" }}, report: {report} }}, #{{}})"#
        ))
        .value();
        assert_eq!(
            (&done["stopped"], &done["verified"]["by"]),
            (&"verified".into(), &limit.by.into()),
            "{run}: {done}"
        );
        assert!(done["probes"].as_u64().unwrap() <= limit.probes, "{run}: {done}");
        if run == "vllm-falcon-h1" {
            let formula = "concurrency × (⌈(input + output) / 1,568⌉ + 1) ≤ 204";
            assert_eq!(done["verified"]["formula"], formula, "{done}");
        }
    }
}
