//! Reads the Prometheus text format (exposition format 0.0.4) as far as gauges and counters need it. Pure.

/// One sample of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    /// `vllm:num_requests_running`.
    pub(super) name: &'a str,
    /// What stands between the braces.
    pub(super) labels: &'a str,
    /// The value; `NaN`, `+Inf` and `-Inf` are numbers here.
    pub(super) value: f64,
}

/// The samples of a page in its order. Comments, and lines that are no sample, are left out.
pub(super) fn samples(page: &str) -> impl Iterator<Item = Sample<'_>> {
    page.lines().filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => inner.split_at(closing(inner)?),
        None => ("", rest),
    };
    // A time stamp may follow the value.
    let value = rest.trim_start_matches('}').split_whitespace().next()?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// Where the brace closes: one within a quoted value does not count, nor a quote behind a backslash.
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
        samples(page)
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
    fn what_is_no_sample_is_left_out() {
        assert_eq!(read("<html>\na\nb x\nc{ 1\n{} 2\n"), []);
    }
}
