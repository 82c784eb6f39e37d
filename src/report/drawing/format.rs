//! Formats values of scripts: numbers of one column get as many decimals as the smallest one needs.

use serde_json::Value;

/// Significant digits of the smallest number of a column.
const DIGITS: i32 = 3;
/// Maximum number of decimals.
const MOST: i32 = 4;

/// How the values of a column are formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColumnFormat {
    decimals: usize,
    /// Whether the column has texts and no numbers: it is left-aligned.
    pub(super) left_aligned: bool,
}

impl ColumnFormat {
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a Value>) -> Self {
        let (mut smallest, mut numbers, mut others) = (f64::INFINITY, false, false);
        for value in values {
            numbers |= value.is_number();
            others |= !(value.is_number() || value.is_null());
            if let Some(number) = value.as_f64().filter(|_| value.is_f64())
                && number != 0.0
            {
                smallest = smallest.min(number.abs());
            }
        }
        let decimals = match smallest.is_finite() {
            true => (DIGITS - 1 - smallest.log10().floor() as i32).clamp(0, MOST) as usize,
            false => 0,
        };
        Self {
            decimals,
            left_aligned: others && !numbers,
        }
    }

    /// Formats a value; `-` for null.
    pub(super) fn apply(self, value: &Value) -> String {
        match value {
            Value::Null => "-".to_owned(),
            Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
            Value::String(text) => text.clone(),
            Value::Number(number) => match number.as_f64() {
                Some(real) if number.is_f64() => format!("{real:.*}", self.decimals),
                _ => number.to_string(),
            },
            other => other.to_string(),
        }
    }
}

/// The width of a text in columns.
pub(super) fn width(text: &str) -> usize {
    console::measure_text_width(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ColumnFormat;

    fn texts(values: Value) -> Vec<String> {
        let values = values.as_array().unwrap().clone();
        let format = ColumnFormat::new(values.iter());
        values.iter().map(|value| format.apply(value)).collect()
    }

    #[test]
    fn a_column_has_the_decimals_that_its_smallest_number_needs() {
        assert_eq!(texts(json!([52.31, 4100.27, null])), ["52.3", "4100.3", "-"]);
        assert_eq!(texts(json!([0.0512, 2.1])), ["0.0512", "2.1000"]);
        assert_eq!(texts(json!([1833.1, 60.0, 0.0])), ["1833.1", "60.0", "0.0"]);
        assert_eq!(texts(json!([1e-9, 1234.0])), ["0.0000", "1234.0000"]);
        assert_eq!(texts(json!([1, 256, true, "oom"])), ["1", "256", "yes", "oom"]);
        assert_eq!(texts(json!([123_456.7])), ["123457"]);
    }

    #[test]
    fn a_column_without_numbers_is_left_aligned() {
        assert!(ColumnFormat::new([json!("vllm"), json!(null)].iter()).left_aligned);
        assert!(!ColumnFormat::new([json!("failed"), json!(2)].iter()).left_aligned);
    }
}
