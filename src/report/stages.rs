//! Memory by life-cycle stage of each engine as a table in GiB: before the start, loaded, warmed up, peak,
//! after the end.

use serde_json::Value;

use super::Page;
use super::figure::gib;
use super::table::table;

/// The stages' JSON keys and column headings.
pub(super) const STAGES: [(&str, &str); 5] = [
    ("baseline", "before"),
    ("loaded", "loaded"),
    ("warmed", "warmed up"),
    ("peak", "peak"),
    ("after", "after"),
];

/// The table of all engines, from `memory/<engine>.usage.json`; `None` if no memory was recorded. Several GPUs
/// get rows for maximum, mean and standard deviation. Other processes get a row if they used memory.
#[must_use]
pub fn stages(engines: &[(String, Value)], page: Page) -> Option<String> {
    let mut rows = Vec::new();
    for (engine, usage) in engines {
        if usage.is_null() {
            rows.push(vec![format!("{engine}, cut off")]);
            continue;
        }
        if usage["peak"].is_null() {
            continue;
        }
        let gpus = usage["peak"]["per_gpu"].as_array().map_or(0, Vec::len);
        let mut lines = vec![(engine.clone(), "sum")];
        if gpus > 1 {
            let spread = [("highest", "max"), ("mean", "mean"), ("standard deviation", "std")];
            lines.extend(spread.map(|(name, key)| (format!("{name} of {gpus}"), key)));
        }
        lines.push(("of others".to_owned(), "others"));
        for (name, key) in lines {
            let figures = STAGES.map(|(stage, _)| usage[stage][key].as_f64());
            let all_zero = figures.iter().flatten().all(|bytes| *bytes == 0.0);
            if all_zero && key == "others" {
                continue;
            }
            let figures = figures.map(|bytes| bytes.map_or_else(|| "-".to_owned(), gib));
            rows.push(std::iter::once(name).chain(figures).collect());
        }
    }
    let headings: Vec<&str> = std::iter::once("").chain(STAGES.map(|(_, title)| title)).collect();
    (!rows.is_empty()).then(|| format!("memory in use by stage, GiB\n{}", table(&headings, &rows, page)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stages_that_were_not_reached_are_left_open() {
        let gib = |gib: u64| json!({ "sum": gib << 30, "others": 0, "per_gpu": [{}] });
        let usage = json!({ "baseline": gib(1), "loaded": gib(18), "warmed": null, "peak": gib(19), "after": null });
        let unseen = json!({ "peak": null });
        assert_eq!(
            stages(
                &[("engine-1".into(), usage), ("engine-2".into(), unseen.clone())],
                Page::default()
            )
            .unwrap(),
            "memory in use by stage, GiB\n            before  loaded  warmed up   peak  after\n  engine-1    1.00   18.00          -  19.00      -"
        );
        assert_eq!(stages(&[("engine-2".into(), unseen)], Page::default()), None);
        let cut_off = stages(&[("engine-1".into(), Value::Null)], Page::default()).unwrap();
        assert!(cut_off.contains("engine-1, cut off"), "{cut_off}");
    }

    #[test]
    fn several_gpus_have_a_spread_and_others_a_line() {
        let peak = json!({ "sum": 30_u64 << 30, "max": 20_u64 << 30, "mean": 15.0 * 1_073_741_824.0, "std": 0.0, "others": 1_u64 << 30, "per_gpu": [{}, {}] });
        let text = stages(&[("engine-1".into(), json!({ "peak": peak }))], Page::default()).unwrap();
        for line in ["highest of 2", "15.00", "standard deviation of 2", "of others"] {
            assert!(text.contains(line), "{text}");
        }
    }
}
