//! Boundary maps in the terminal: one axis as a row, two as a map, more as slices.
//!
//! Every cell shows the class of its middle, so a map never claims more than the boundary does. Probes are drawn on
//! top. Predicted and contradictory cells have their own characters.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use console::{Style, measure_text_width};

use crate::answer::evidence::{NOT_SENT, ProbeClass};
use crate::boundary::{Axis, Boundary, Class, Point, Scalar};
use crate::fault::Result;
use crate::fmt::flow;
use crate::report::Page;
use crate::report::plot::{AxisLayout, canvas, canvas_columns};

/// The content of a cell.
#[derive(Clone, Copy)]
enum Cell {
    Fits,
    Open,
    Fails,
    /// Unknown, but predicted to fit.
    Likely,
    /// Unknown, but predicted to fail.
    Unlikely,
    /// Results contradict each other: not safe.
    Band,
    /// Ruled out by the engine's own report, and not sent.
    RuledOut,
    /// Refused for its length, or beyond what could be tested.
    Beyond,
    Probe(ProbeClass),
}

impl Cell {
    /// Its unique character, and its name in the legend.
    fn drawn(self, boundary: &Boundary, page: Page) -> (String, &'static str) {
        let style = Style::new();
        let (character, style, name) = match self {
            Self::Fits => (page.pick("█", "#"), style.green(), "fits"),
            Self::Open => (page.pick("░", "-"), style.dim(), "unknown"),
            Self::Fails => (page.pick("·", "."), style.red(), "fails"),
            // Yellow is invisible on white, and blue on black.
            Self::Likely => (page.pick("▒", "*"), style.cyan(), "predicted to fit"),
            Self::Unlikely => (":", style.dim().red(), "predicted to fail"),
            Self::Band => (page.pick("≈", "~"), style.magenta(), "contradictory"),
            Self::RuledOut => (page.pick("¦", "^"), style.dim(), RULED_OUT),
            Self::Beyond => ("/", style.dim(), beyond(boundary)),
            Self::Probe(ProbeClass::Fits) => ("o", style.green().bold(), "fitted"),
            Self::Probe(ProbeClass::Fails) => ("x", style.red().bold(), "failed"),
            Self::Probe(ProbeClass::Unclear) => ("?", style.bold(), "undecided"),
            Self::Probe(ProbeClass::Clipped) => ("!", style.bold(), "refused for its length"),
            Self::Probe(ProbeClass::NotSent) => ("%", style.bold(), NOT_SENT),
        };
        (page.paint(character, style), name)
    }

    /// The class of a point; `clipped` are the smallest points beyond a length limit.
    fn classify(point: &Point, boundary: &Boundary, clipped: &[Point]) -> Result<Self> {
        let is_beyond = |limit: &Point| boundary.lattice().is_at_most_as_hard(limit, point);
        Ok(match boundary.classify(point)? {
            Class::Fits => Self::Fits,
            Class::Fails if boundary.is_in_band(point)? => Self::Band,
            Class::Fails => Self::Fails,
            Class::NotSent => Self::RuledOut,
            Class::Unknown if clipped.iter().any(is_beyond) => Self::Beyond,
            Class::Unknown if boundary.is_likely(point)? => Self::Likely,
            Class::Unknown if boundary.is_unlikely(point)? => Self::Unlikely,
            Class::Unknown => Self::Open,
        })
    }
}

/// Draws a boundary; the text has no line end after its last line.
pub fn draw(boundary: &Boundary, page: Page) -> Result<String> {
    let mut lines = maps(boundary, 18, 3, page)?;
    lines.extend(legend(boundary, &lines, page));
    Ok(lines.join("\n"))
}

/// The legend of the part of the search range that only the engine's report rules out.
pub(super) const RULED_OUT: &str = "ruled out by the engine's own report";

/// The legend of `Cell::Beyond`.
pub(super) fn beyond(boundary: &Boundary) -> &'static str {
    match boundary.untested() {
        Some(_) => "beyond what could be tested",
        None => "beyond a length limit",
    }
}

/// Draws a boundary in `rows` rows of cells. With more than two axes, draws the slice with the most probes.
pub(super) fn draw_compact(boundary: &Boundary, rows: usize, page: Page) -> Result<String> {
    let mut lines = maps(boundary, rows, 1, page)?;
    lines.retain(|line| !line.is_empty());
    lines.extend(legend(boundary, &lines, page).into_iter().next());
    Ok(lines.join("\n"))
}

/// The axes that are shown of a boundary.
#[derive(Clone, Debug)]
pub(super) struct Projection<'a> {
    /// Horizontal.
    pub(super) x: &'a Axis,
    /// Vertical; none for a strip.
    pub(super) y: Option<&'a Axis>,
    /// The axis that varies between slices.
    pub(super) slider: Option<&'a Axis>,
    /// Axes with several values, held at the easiest.
    pub(super) held: Vec<&'a Axis>,
    /// Axes with a single value.
    pub(super) fixed: Vec<&'a Axis>,
}

/// The axes to show of a boundary: lengths first, then those with the most probed values. None for a boundary without
/// axes.
pub(super) fn projection(boundary: &Boundary) -> Option<Projection<'_>> {
    let axes = boundary.lattice().axes().iter();
    // An axis with a single value needs no space.
    let (mut varied, mut fixed): (Vec<&Axis>, Vec<&Axis>) = axes.partition(|axis| axis.range().0 != axis.range().1);
    if varied.is_empty() && !fixed.is_empty() {
        varied.push(fixed.remove(0));
    }
    let weight = |axis: &Axis| {
        let probed: HashSet<u64> = boundary
            .records()
            .filter_map(|(point, _)| Some(axis.of(&point)?.to_bits()))
            .collect();
        (matches!(axis.name(), "input" | "output"), probed.len())
    };
    let mut ranked = varied.clone();
    ranked.sort_by_cached_key(|axis| Reverse(weight(axis)));
    let others = ranked.split_off(ranked.len().min(2));
    // In the order of the boundary.
    varied.retain(|axis| ranked.contains(axis));
    Some(Projection {
        x: varied.first()?,
        y: varied.get(1).copied(),
        slider: others.first().copied(),
        held: others.into_iter().skip(1).collect(),
        fixed,
    })
}

/// The map of one or two axes; of more, up to `slices` maps. Each has at most `rows` rows of cells.
fn maps(boundary: &Boundary, rows: usize, slices: usize, page: Page) -> Result<Vec<String>> {
    let Some(Projection {
        x,
        y,
        slider,
        held,
        fixed,
    }) = projection(boundary)
    else {
        return Ok(Vec::new());
    };
    let shown: Vec<&Axis> = std::iter::once(x).chain(y).collect();
    let at = |axis: &&Axis| format!("{}={}", axis.name(), axis.easiest());
    let fixed: Vec<String> = fixed.iter().map(at).collect();
    let mut lines = Vec::new();
    if !fixed.is_empty() {
        lines.push(format!("at {}", fixed.join(" ")));
    }
    let mut through = boundary.smallest();
    let Some(slider) = slider else {
        lines.extend(map(boundary, &shown, &through, rows, page)?);
        return Ok(lines);
    };
    let held: String = held.iter().map(|axis| format!(", {}", at(axis))).collect();
    for value in slice_values(boundary, slider, slices) {
        through.0.insert(slider.name().to_owned(), value);
        lines.push(format!("slice at {}={value}{held}", slider.name()));
        lines.extend(map(boundary, &shown, &through, rows, page)?);
        lines.push(String::new());
    }
    Ok(lines)
}

/// The row of an axis, or the plane of two, through `through`, which fixes all others; probes elsewhere are left out.
fn map(boundary: &Boundary, shown: &[&Axis], through: &Point, rows: usize, page: Page) -> Result<Vec<String>> {
    let axes: Vec<AxisLayout> = shown.iter().map(|axis| AxisLayout::from_boundary(axis)).collect();
    let rows = shown.get(1).map_or(1, |y| count(y, rows));
    let columns = count(shown[0], canvas_columns(axes.get(1), rows, page));
    let along = || shown.iter().zip(&axes).zip([columns, rows]).enumerate();
    // The column and the row of a point from below; none outside the search range.
    let place = |point: &Point| {
        let mut place = [0, 0];
        for (index, ((axis, AxisLayout { scale, .. }), cells)) in along() {
            let value = axis.of(point)?;
            place[index] = scale.contains(value).then(|| scale.cell(value, cells))?;
        }
        Some(place)
    };
    let middle = |place: [usize; 2]| {
        let mut point = through.clone();
        for (index, ((axis, AxisLayout { scale, .. }), cells)) in along() {
            let centre = scale.value((place[index] as f64 + 0.5) / cells as f64);
            let value = match axis.range().0 {
                Scalar::Int(_) => Scalar::Int(centre.round() as i64),
                Scalar::Float(_) => Scalar::Float(centre),
            };
            point.0.insert(axis.name().to_owned(), value);
        }
        point
    };
    let mut probes: BTreeMap<[usize; 2], ProbeClass> = BTreeMap::new();
    for (point, record) in boundary.records() {
        let here = |(name, value): (&String, &Scalar)| {
            shown.iter().any(|axis| axis.name() == name) || point.0.get(name) == Some(value)
        };
        if let Some(place) = place(&point).filter(|_| through.0.iter().all(here)) {
            let class = ProbeClass::from_record(record);
            let shown = probes.entry(place).or_insert(class);
            *shown = class.max(*shown);
        }
    }
    let clipped = boundary.clipped();
    let cell = |place: [usize; 2]| -> Result<String> {
        let cell = match probes.get(&place) {
            Some(class) => Cell::Probe(*class),
            None => Cell::classify(&middle(place), boundary, &clipped)?,
        };
        Ok(cell.drawn(boundary, page).0)
    };
    let row = |row: usize| (0..columns).map(|column| cell([column, row])).collect();
    let cells: Vec<String> = (0..rows).rev().map(row).collect::<Result<_>>()?;
    let lines = canvas(&axes[0], axes.get(1), columns, &cells, page);
    Ok(lines.into_iter().skip(2 - axes.len()).collect())
}

/// The number of cells of an axis: at most `most`, and no more than it has values.
fn count(axis: &Axis, most: usize) -> usize {
    let values = match axis.range() {
        (Scalar::Int(low), Scalar::Int(high)) => usize::try_from(high - low + 1).unwrap_or(most),
        _ => most,
    };
    values.min(most).max(1)
}

/// The values that were probed most; if there are fewer, also the ends of the axis.
fn slice_values(boundary: &Boundary, axis: &Axis, most: usize) -> Vec<Scalar> {
    let mut counts: BTreeMap<String, (usize, Scalar)> = BTreeMap::new();
    for (point, _) in boundary.records() {
        if let Some(value) = point.0.get(axis.name()) {
            counts.entry(value.to_string()).or_insert((0, *value)).0 += 1;
        }
    }
    let mut probed: Vec<(usize, Scalar)> = counts.into_values().collect();
    probed.sort_by(|(a, _), (b, _)| b.cmp(a));
    let mut values: Vec<Scalar> = probed.into_iter().map(|(_, value)| value).take(most).collect();
    for end in <[Scalar; 2]>::from(axis.range()) {
        if values.len() < most && !values.contains(&end) {
            values.push(end);
        }
    }
    values.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    values
}

/// Explains the characters: first the regions, then the probes, each in as few lines as possible. The first three of
/// each are always explained, the others only if they are drawn.
fn legend(boundary: &Boundary, drawn: &[String], page: Page) -> Vec<String> {
    use Cell::{Band, Beyond, Fails, Fits, Likely, Open, RuledOut, Unlikely};
    use ProbeClass::{Clipped, NotSent, Unclear};
    let explained = |title: &str, cells: &[Cell]| {
        let named = cells.iter().map(|cell| cell.drawn(boundary, page)).enumerate();
        let shown = named.filter(|(index, (cell, _))| *index < 3 || drawn.iter().any(|line| line.contains(cell)));
        let mut parts: Vec<String> = shown.map(|(_, (cell, name))| format!("{cell} {name}")).collect();
        parts[0].insert_str(0, title);
        flow(parts, "  ", |line| measure_text_width(line) <= page.width)
    };
    let regions = [Fits, Open, Fails, Likely, Unlikely, Band, RuledOut, Beyond];
    let probes = [ProbeClass::Fits, ProbeClass::Fails, Unclear, Clipped, NotSent];
    [explained("", &regions), explained("probes: ", &probes.map(Cell::Probe))].concat()
}

#[cfg(test)]
mod tests {
    //! Maps of small boundaries, compared as text.

    use serde_json::{Value, json};

    use super::draw;
    use crate::boundary::{Answer, Boundary, Options, Point};
    use crate::report::Page;

    fn boundary(axes: Value, answers: &[(Value, &str)]) -> Boundary {
        let mut boundary = Boundary::new(&axes, Options::default()).unwrap();
        for (point, verdict) in answers {
            let point: Point = serde_json::from_value(point.clone()).unwrap();
            boundary
                .record(&point, &Answer::parse(&json!(verdict)).unwrap())
                .unwrap();
        }
        boundary
    }

    fn picture(boundary: &Boundary, width: usize) -> String {
        let page = Page {
            width,
            ..Page::default()
        };
        let text = draw(boundary, page).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        format!("\n{}\n", lines.join("\n"))
    }

    #[test]
    fn a_logarithmic_axis_of_few_values_is_drawn() {
        let axes = json!({ "concurrency": { "range": [1, 4], "scale": "log" }, "input": [1, 1000] });
        let map = boundary(axes, &[(json!({ "concurrency": 2, "input": 300 }), "ok")]);
        assert!(picture(&map, 80).contains("concurrency"));
    }

    #[test]
    fn one_axis_is_a_row() {
        let boundary = boundary(
            json!({ "input": [1, 100] }),
            &[
                (json!({ "input": 50 }), "ok"),
                (json!({ "input": 80 }), "oom"),
                (json!({ "input": 60 }), "timeout"),
            ],
        );
        assert_eq!(
            picture(&boundary, 42),
            "
  |##################o---?-------x.......
  +--------------------------------------
   1          32           64         100
                                    input
# fits  - unknown  . fails
probes: o fitted  x failed  ? undecided
"
        );
    }

    #[test]
    fn what_is_refused_for_its_length_has_its_own_mark_and_region() {
        let mut boundary = boundary(json!({ "input": [1, 100] }), &[(json!({ "input": 50 }), "ok")]);
        let refused = json!({ "verdict": "refused", "cause": "length_limit" });
        boundary
            .record(&Point::default().with("input", 80), &Answer::parse(&refused).unwrap())
            .unwrap();
        let text = picture(&boundary, 42);
        assert!(text.contains("#o-") && text.contains("-!///"), "{text}");
        for named in ["/ beyond a length limit", "! refused for its length"] {
            assert!(text.contains(named), "{named}: {text}");
        }
    }

    #[test]
    fn two_axes_are_a_map() {
        let boundary = boundary(
            json!({ "input": [0, 9], "output": [0, 5] }),
            &[
                (json!({ "input": 4, "output": 2 }), "ok"),
                (json!({ "input": 7, "output": 1 }), "oom"),
            ],
        );
        assert_eq!(
            picture(&boundary, 80),
            "
output
5 |*****--...
  |*****--...
  |*****--...
  |####o*-...
  |#####*-x..
0 |#####*--::
  +----------
   0        9
        input
# fits  - unknown  . fails  * predicted to fit  : predicted to fail
probes: o fitted  x failed  ? undecided
"
        );
    }

    #[test]
    fn three_axes_are_slices() {
        let boundary = boundary(
            json!({ "a": [0, 3], "b": [0, 1], "c": [1, 8] }),
            &[
                (json!({ "a": 1, "b": 1, "c": 4 }), "ok"),
                (json!({ "a": 2, "b": 1, "c": 4 }), "oom"),
            ],
        );
        let text = picture(&boundary, 80);
        assert!(text.contains("slice at c=1\n") && text.contains("slice at c=4\n") && text.contains("slice at c=8\n"));
        assert!(text.contains("1 |#ox.\n0 |##--\n"), "{text}");
    }

    #[test]
    fn an_axis_of_one_value_is_not_drawn_and_a_log_scale_is_named() {
        let boundary = boundary(
            json!({ "input": [2000, 2000], "output": [500, 500], "concurrency": { "range": [1, 1000], "scale": "log" } }),
            &[
                (json!({ "input": 2000, "output": 500, "concurrency": 31 }), "ok"),
                (json!({ "input": 2000, "output": 500, "concurrency": 33 }), "queued"),
            ],
        );
        let text = picture(&boundary, 62);
        let lines: Vec<&str> = text.trim_start().lines().collect();
        assert_eq!(lines[0], "at input=2000 output=500", "{text}");
        assert!(text.contains(" concurrency (log scale)\n"), "{text}");
        // 58 cells: 32 is in the middle of a scale from 1 to 1,000.
        let (fitting, failing) = (lines[1].matches('#').count(), lines[1].matches('.').count());
        assert!(fitting.abs_diff(28) <= 1 && failing.abs_diff(28) <= 1, "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_page() {
        let wide = boundary(
            json!({ "input": { "range": [128, 131_072], "scale": "log" }, "output": [128, 32_768] }),
            &[
                (json!({ "input": 4096, "output": 2000 }), "ok"),
                (json!({ "input": 60_000, "output": 9000 }), "oom"),
            ],
        );
        for width in [24, 40, 80, 200] {
            for unicode in [true, false] {
                let page = Page {
                    width,
                    unicode,
                    colour: true,
                };
                for line in draw(&wide, page).unwrap().lines() {
                    // The legend cannot be cut any further.
                    let limit = width.max(40);
                    assert!(console::measure_text_width(line) <= limit, "{width}: {line}");
                }
            }
        }
    }
}
