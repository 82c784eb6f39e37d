//! A user reads counters from an engine's metrics page through its adapter: recorded pages of real engines, and live
//! ones of simulated engines.

use serde_json::{Value, json};

use super::engine::value;
use super::logs::rules;

/// The counters that the adapter of this engine reads from a page.
fn counters(engine: &str, page: &str) -> Value {
    json!(rules(engine).read_metrics(page))
}

#[test]
fn a_page_of_real_vllm_counts_what_it_served() {
    // 48 streams of 6000 input and 512 output tokens; five were preempted.
    let page = include_str!("../data/vllm-0.24.0-h200/small.metrics.txt");
    assert_eq!(
        counters("vllm", page),
        json!([{
            "running": 0, "waiting": 0, "kv_usage": 0.0, "preemptions": 5,
            // A queued request is looked up again at every step: 29 times as many queried tokens as prompt tokens.
            "prefix_queries": 8_364_000, "prefix_hits": 0, "drafted": null, "accepted": null, "prompt_tokens": 48 * 6000, "generated_tokens": 48 * 512,
            "finished": { "length": 48, "stop": 0, "abort": 0, "error": 0, "repetition": 0 },
        }])
    );
}

/// Metric names from the source code of these versions; no recorded page was available.
#[test]
fn names_of_other_versions_and_engines_are_known() {
    let old = "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\nvllm:gpu_prefix_cache_queries_total{model_name=\"m\"} 64.0\n\
               vllm:gpu_prefix_cache_hits_total{model_name=\"m\"} 48.0\n";
    let moment = &counters("vllm", old)[0];
    assert_eq!(
        (&moment["kv_usage"], &moment["prefix_queries"], &moment["prefix_hits"]),
        (&0.5.into(), &64.into(), &48.into())
    );
    let drafting = "vllm:spec_decode_num_draft_tokens_total{model_name=\"m\"} 80.0\nvllm:spec_decode_num_accepted_tokens_total{model_name=\"m\"} 60.0\n";
    let moment = &counters("vllm", drafting)[0];
    assert_eq!((&moment["drafted"], &moment["accepted"]), (&80.into(), &60.into()));
    let sglang = "sglang:cached_tokens_total{cache_source=\"device\",tp_rank=\"0\"} 30.0\n\
                  sglang:cached_tokens_total{cache_source=\"host\",tp_rank=\"0\"} 2.0\nsglang:prompt_tokens_total{tp_rank=\"0\"} 100.0\n";
    let moment = &counters("sglang", sglang)[0];
    assert_eq!(
        (&moment["prefix_queries"], &moment["prefix_hits"]),
        (&100.into(), &32.into())
    );
    let llamacpp = |page: &str| {
        let moment = counters("llamacpp", page)[0].clone();
        (moment["prompt_tokens"].clone(), moment["prefix_hits"].clone())
    };
    let newer = "llamacpp:prompt_tokens_total 60\nllamacpp:prompt_tokens_cached_total 40\n";
    assert_eq!(llamacpp(newer), (100.into(), 40.into()));
    assert_eq!(llamacpp("llamacpp:prompt_tokens_total 60\n"), (60.into(), Value::Null));
    let tensorrt = r#"[{"kvCacheStats":{"reusedBlocks":3,"missedBlocks":9,"usedNumBlocks":1,"maxNumBlocks":4}}]"#;
    let moment = &counters("tensorrt_llm", tensorrt)[0];
    assert_eq!(
        (&moment["prefix_queries"], &moment["prefix_hits"], &moment["kv_usage"]),
        (&12.into(), &3.into(), &0.25.into())
    );
}

/// The metrics of a simulated engine, as its adapter reads them after two requests of 320 input and 8 output tokens
/// whose prompts share the first `shared` tokens.
fn after_two(engine: &str, shared: u64) -> Value {
    value(&format!(
        "let engine = engines::describe(\"{engine}\", #{{ runtime: \"sim\", sim: #{{ time_scale: 0.0 }} }});
         engine.start();
         let prompt = |first| {{
             let ids = [];
             for at in 0..320 {{ ids.push(if at < {shared} {{ 100 + at }} else {{ first + at }}); }}
             ids
         }};
         for first in [1000, 2000] {{ engine.send(prompt.call(first), #{{ output: 8 }}); }}
         engine.metrics()"
    ))
}

#[test]
fn every_engine_that_counts_tokens_counts_those_of_its_requests() {
    for (engine, ended) in [("vllm", "length"), ("sglang", "all"), ("sim", "length")] {
        let metrics = after_two(engine, 100);
        assert_eq!(
            (
                &metrics["prompt_tokens"],
                &metrics["generated_tokens"],
                &metrics["finished"][ended]
            ),
            (&640.into(), &16.into(), &2.into()),
            "{engine}: {metrics}"
        );
        // Only whole blocks of 16 tokens of the second prompt are hits.
        assert_eq!(
            (&metrics["prefix_queries"], &metrics["prefix_hits"]),
            (&640.into(), &96.into()),
            "{engine}: {metrics}"
        );
    }
    let blocks = after_two("tensorrt_llm", 100);
    assert_eq!(
        (&blocks["prefix_queries"], &blocks["prefix_hits"]),
        (&40.into(), &6.into()),
        "{blocks}"
    );
    let llamacpp = after_two("llamacpp", 100);
    assert_eq!(
        (
            &llamacpp["prompt_tokens"],
            &llamacpp["generated_tokens"],
            &llamacpp["prefix_hits"]
        ),
        (&640.into(), &16.into(), &0.into()),
        "{llamacpp}"
    );
}

#[test]
fn an_engine_that_takes_text_counts_its_requests() {
    let metrics = value(
        "let engine = engines::describe(\"tgi\", #{ runtime: \"sim\", sim: #{ time_scale: 0.0 } });
         let sent = engine.send(\"one two three four five\", #{ output: 4 });
         let metrics = engine.metrics();
         assert(metrics.prompt_tokens == sent.input && metrics.generated_tokens == sent.output);
         metrics",
    );
    assert_eq!(
        (&metrics["finished"], &metrics["prefix_hits"]),
        (&json!({ "error": 0, "success": 1 }), &0.into())
    );
}

#[test]
fn a_prefix_cache_that_is_turned_off_finds_nothing() {
    let metrics = value(
        "let engine = engines::describe(\"sim\", #{ prefix_cache: false });
         engine.start();
         let ids = [];
         for at in 0..64 { ids.push(100 + at); }
         for time in 0..2 { engine.send(ids, #{ output: 2 }); }
         engine.metrics()",
    );
    assert_eq!(
        (&metrics["prefix_hits"], &metrics["prompt_tokens"]),
        (&0.into(), &128.into()),
        "{metrics}"
    );
}
