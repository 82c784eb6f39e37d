//! Parses gauges and counters in the Prometheus text format (exposition format 0.0.4).

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    /// Such as `vllm:num_requests_running`.
    pub(super) name: &'a str,
    /// The text between the braces.
    pub(super) labels: &'a str,
    /// The value, which may be NaN or infinite.
    pub(super) value: f64,
}

impl Sample<'_> {
    /// Whether the sample has a label such as `reason="abort"`. Quotes within other labels' values are escaped, so they
    /// cannot match.
    pub(super) fn has(&self, label: &str) -> bool {
        let mut found = self.labels.match_indices(label);
        found.any(|(at, _)| matches!(self.labels[..at].trim_end().chars().next_back(), None | Some(',')))
    }
}

/// The samples with wanted names, in page order. Skips comments and malformed lines.
pub(super) fn samples(page: &str, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Sample<'_>> {
    page.lines().filter_map(move |line| sample(line, &wanted))
}

fn sample(line: &str, wanted: impl Fn(&str) -> bool) -> Option<Sample<'_>> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') || !wanted(name) {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => inner.split_at(closing(inner)?),
        None => ("", rest),
    };
    // A timestamp may follow the value.
    let value = rest.trim_start_matches('}').split_whitespace().next()?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// Position of the closing brace, ignoring braces in quoted values and escaped quotes.
fn closing(inner: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    inner.char_indices().find_map(|(at, c)| {
        if std::mem::take(&mut escaped) {
            return None;
        }
        match c {
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(at),
            _ => {}
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: &str) -> Vec<(&str, &str, f64)> {
        samples(page, |_| true)
            .map(|sample| (sample.name, sample.labels, sample.value))
            .collect()
    }

    #[test]
    fn samples_are_read_with_and_without_labels_and_time() {
        let page =
            "# HELP a b\n# TYPE a gauge\na 1\nb{x=\"1\"} 2.5\n\nc{x=\"}\\\"}\",y=\"2\"} 3e2 1395066363000\nd{} +Inf\n";
        assert_eq!(
            read(page),
            [
                ("a", "", 1.0),
                ("b", "x=\"1\"", 2.5),
                ("c", "x=\"}\\\"}\",y=\"2\"", 300.0),
                ("d", "", f64::INFINITY)
            ]
        );
    }

    #[test]
    fn a_label_is_found_where_it_begins_and_nowhere_else() {
        let page = "a{engine=\"0\", reason=\"stop\",x=\"reason=\\\"abort\\\"\",no_reason=\"length\"} 1\n";
        let sample = samples(page, |name| name == "a").next().unwrap();
        assert!(sample.has("engine=\"0\"") && sample.has("reason=\"stop\""));
        assert!(!sample.has("reason=\"abort\"") && !sample.has("reason=\"length\""));
        assert_eq!(samples(page, |name| name == "b").count(), 0);
    }

    #[test]
    fn malformed_lines_are_skipped() {
        assert_eq!(read("<html>\na\nb x\nc{ 1\n{} 2\n"), []);
    }
}
