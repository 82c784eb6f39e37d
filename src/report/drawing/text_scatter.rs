//! Scatter charts as text: a character at each point, a different one for each series.

use super::format::{ColumnFormat, width};
use crate::report::Page;
use crate::report::plot::dropped_note;

/// Maximum number of columns, and number of rows.
const WIDEST: usize = 64;
const ROWS: usize = 14;

/// Draws named series; `log` says which axes are logarithmic. Where two series share a cell, the later one is shown.
pub(super) fn draw(
    (across, up): (&str, &str),
    series: &[(&str, Vec<(f64, f64)>)],
    log: (bool, bool),
    page: Page,
) -> String {
    let all = || series.iter().flat_map(|(_, points)| points);
    let shown = |value: f64, log: bool| value.is_finite() && (!log || value > 0.0);
    let has_place = |(x, y): &(f64, f64)| shown(*x, log.0) && shown(*y, log.1);
    let range = |part: fn(&(f64, f64)) -> f64, log: bool| {
        all()
            .map(part)
            .filter(|value| shown(*value, log))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
    };
    let (x, y) = (range(|point| point.0, log.0), range(|point| point.1, log.1));
    if x.0 > x.1 || y.0 > y.1 {
        return format!("  {up}: no values");
    }
    let format = ColumnFormat::new([y.0.into(), y.1.into()].iter());
    let (top, bottom) = (format.apply(&y.1.into()), format.apply(&y.0.into()));
    let gutter = width(&top).max(width(&bottom));
    let columns = page.width.saturating_sub(gutter + 4).clamp(8, WIDEST);
    let letters = page.pick(
        ['●', '×', '◆', '○', '▲', '□', '+', '*'],
        ['o', 'x', '+', '*', '#', '@', '%', '='],
    );
    let mut field = vec![vec![' '; columns]; ROWS];
    for (index, (_, points)) in series.iter().enumerate() {
        for (px, py) in points.iter().filter(|point| has_place(point)) {
            let (column, row) = (place(*px, x, log.0, columns), place(*py, y, log.1, ROWS));
            field[ROWS - 1 - row][column] = letters[index % letters.len()];
        }
    }
    let mut lines = vec![format!("  {up}")];
    for (row, cells) in field.iter().enumerate() {
        let label = match row {
            0 => top.as_str(),
            _ if row == ROWS - 1 => bottom.as_str(),
            _ => "",
        };
        let cells: String = cells.iter().collect();
        let line = format!("  {label:>gutter$}{}{cells}", page.pick("│", "|"));
        lines.push(line.trim_end().to_owned());
    }
    let (corner, edge) = page.pick(('└', "─"), ('+', "-"));
    lines.push(format!("  {:gutter$}{corner}{}", "", edge.repeat(columns)));
    let format = ColumnFormat::new([x.0.into(), x.1.into()].iter());
    let (left, right) = (
        format.apply(&x.0.into()),
        format!("{} {across}", format.apply(&x.1.into())),
    );
    let blanks = columns.saturating_sub(width(&left) + width(&right)).max(1);
    lines.push(
        format!("  {:gutter$} {left}{}{right}", "", " ".repeat(blanks))
            .trim_end()
            .to_owned(),
    );
    if series.len() > 1 {
        let keys: Vec<String> = series
            .iter()
            .enumerate()
            .map(|(index, (name, _))| format!("{} {name}", letters[index % letters.len()]))
            .collect();
        lines.push(format!("  {:gutter$} {}", "", keys.join("   ")));
    }
    let dropped = all().filter(|point| !has_place(point)).count();
    lines.extend(dropped_note(dropped).map(|text| format!("  {:gutter$} {text}", "")));
    lines.join("\n")
}

/// The cell of a value, of `cells` cells.
fn place(value: f64, (low, high): (f64, f64), log: bool, cells: usize) -> usize {
    let (value, low, high) = if log {
        (value.ln(), low.ln(), high.ln())
    } else {
        (value, low, high)
    };
    let share = if high > low { (value - low) / (high - low) } else { 0.5 };
    ((share.clamp(0.0, 1.0) * (cells - 1) as f64).round() as usize).min(cells - 1)
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::report::Page;

    #[test]
    fn each_series_has_its_letter() {
        let series = [("near", vec![(1.0, 1.0), (10.0, 1.0)]), ("far", vec![(100.0, 9.5)])];
        let text = draw(("input", "latency, ms"), &series, (true, false), Page::default());
        assert!(text.is_ascii() && text.contains("o near   x far"), "{text}");
        let bottom = text
            .lines()
            .find(|line| line.trim_start().starts_with("1.00|"))
            .unwrap();
        // On a logarithmic axis, 10 lies in the middle of 1 and 100.
        assert_eq!(bottom.matches('o').count(), 2, "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn an_empty_chart_says_so() {
        assert!(
            draw(
                ("x", "y"),
                &[("none", vec![(0.0, 1.0)])],
                (true, false),
                Page::default()
            )
            .contains("no values")
        );
    }
}
