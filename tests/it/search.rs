//! The strategies of `std/search` against closures that stand in for an engine.

use serde_json::Value;

use crate::script::bench::Bench;

fn found(script: &str) -> Value {
    Bench::script(&format!("import \"std/search\" as search;\n{script}")).value()
}

#[test]
fn smoke() {
    for (what, truth) in [
        ("sum", "p.input + p.output <= 8000"),
        ("all", "true"),
        ("none", "false"),
        ("step", "p.input <= 5000"),
    ] {
        for strategy in ["adaptive", "bisect", "grid"] {
            let t = std::time::Instant::now();
            let found = found(&format!(
                r#"let map = boundary(#{{ input: [128, 8192], output: [128, 4096] }}, #{{}});
                let r = search::{strategy}(map, |p| if {truth} {{ "ok" }} else {{ "oom" }}, #{{}});
                r.coverage = map.coverage(); r"#
            ));
            println!("{what} {strategy} {} {:?}", found, t.elapsed());
        }
    }
}
