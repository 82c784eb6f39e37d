//! A plot of each kind that the report draws.

use crate::fmt::Unit;
use crate::report::plot::*;

fn axis(label: &str, unit: Unit, scale: Scale) -> Axis {
    Axis::new(label, unit).with_scale(scale)
}

fn plot(name: &str, title: &str, panels: Vec<Panel>) -> Plot {
    Plot {
        name: name.into(),
        title: title.into(),
        alt: format!("{title}, told in words."),
        caption: "Each dot is a probe. What lies between proven points and the predicted limit is open.".into(),
        panels,
        ..Plot::default()
    }
}

fn line(name: &str, points: impl IntoIterator<Item = (f64, f64)>, colour: Colour) -> Layer {
    Layer::line(name, points.into_iter().map(|(x, y)| (x, Some(y))), colour)
}

fn area(name: &str, outline: Vec<(f64, f64)>, colour: Colour) -> Layer {
    let outlines = vec![outline];
    Layer::new(name, colour, Marks::Area { outlines })
}

fn ribbon(name: &str, points: impl IntoIterator<Item = (f64, f64, f64)>, colour: Colour) -> Layer {
    let points = points.into_iter().collect();
    Layer::new(name, colour, Marks::Ribbon { points })
}

pub(super) fn spans(spans: Vec<Span>) -> Layer {
    Layer::new("", Colour::Quiet, Marks::Spans { spans })
}

fn boundary_panel(limit: f64, scale: Scale) -> Panel {
    let (mut fits, mut fails) = (vec![], vec![]);
    for input in [128.0, 512.0, 1024.0, 2048.0, 3072.0, 4096.0, 6144.0, 8192.0] {
        for output in [128.0, 256.0, 1024.0, 2048.0, 3072.0, 4096.0] {
            if input + 2.0 * output <= limit {
                fits.push((input, output));
            } else {
                fails.push((input, output));
            }
        }
    }
    let edge: Vec<(f64, f64)> = [128.0, 1024.0, 2048.0, 4096.0, 6144.0, 8192.0]
        .iter()
        .map(|input| (*input, ((limit - input) / 2.0).clamp(128.0, 4096.0)))
        .collect();
    let stairs = |shift: f64| {
        let mut corners = vec![(128.0, 128.0)];
        for pair in edge.windows(2) {
            let y = (pair[1].1 + shift).clamp(128.0, 4096.0);
            corners.extend([(pair[0].0, y), (pair[1].0, y)]);
        }
        corners.push((8192.0, 128.0));
        corners
    };
    let mut above = stairs(600.0);
    above[0] = (128.0, 4096.0);
    above.push((8192.0, 4096.0));
    let below = stairs(0.0).into_iter().skip(1).rev().skip(1);
    let predicted = edge.iter().copied().chain(below).collect();
    let axis = |label: &str, high: f64| Axis {
        range: Some((128.0, high)),
        ..axis(label, Unit::Tokens, scale)
    };
    Panel {
        x: axis("input length", 8192.0),
        y: axis("output length", 4096.0),
        layers: vec![
            area("proven to fit", stairs(0.0), Colour::Fits),
            area("proven to fail", above, Colour::Fails),
            area("predicted to fit", predicted, Colour::Predicted).dashed(true),
            line("predicted limit", edge.clone(), Colour::Predicted).dashed(true),
            Layer::dots("fits", fits, Colour::Fits, MarkerShape::Circle),
            Layer::dots("out of memory", fails, Colour::Fails, MarkerShape::Cross),
            Layer::dots("no answer", [(5000.0, 3500.0)], Colour::Open, MarkerShape::Ring),
            Layer::dots(
                "recommended",
                [(4096.0, 1024.0)],
                Colour::Recommended,
                MarkerShape::Star,
            ),
        ],
        ..Panel::default()
    }
}

pub(super) fn boundary() -> Plot {
    let panel = boundary_panel(9000.0, Scale::Linear);
    plot("boundary", "Largest input and output that fit", vec![panel])
}

fn boundary_log() -> Plot {
    let panel = boundary_panel(9000.0, Scale::Log);
    plot("boundary-log", "Largest input and output that fit", vec![panel])
}

pub(super) fn multiples() -> Plot {
    let panels = [1.0, 2.0, 4.0, 8.0, 16.0].map(|concurrency: f64| Panel {
        title: format!("concurrency {concurrency}"),
        ..boundary_panel(12_000.0 - 500.0 * concurrency, Scale::Log)
    });
    Plot {
        slider: Some("concurrency".into()),
        ..plot("cuts", "Largest lengths at each concurrency", panels.into())
    }
}

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Memory over time, sampled often, with a peak of one sample and a gap.
pub(super) fn memory(gpus: usize, samples: usize) -> Plot {
    let level = |time: f64| match time {
        time if time < 20.0 => 1.0 + time * 0.7,
        time if time < 90.0 => 15.0 + (time - 20.0) * 0.01,
        time if time < 110.0 => 15.7 + (time - 90.0) * 2.6,
        time if time < 200.0 => 68.0 + 6.0 * (time * 0.9).sin().abs(),
        _ => 0.4,
    };
    let sample = |index: usize| {
        let time = index as f64 / samples as f64 * 240.0;
        let used = if index == samples / 2 + 31 { 79.0 } else { level(time) };
        (time, (!(150.0..153.0).contains(&time)).then_some(used * GIB))
    };
    let times = |from: i32| (from..200).map(f64::from);
    let span = |from: f64, to: f64, label: &str| Span {
        from,
        to,
        label: label.into(),
    };
    let spans = vec![
        span(0.0, 20.0, "loading the weights"),
        span(20.0, 90.0, "compiling"),
        span(90.0, 110.0, "KV cache"),
        span(110.0, 200.0, "serving"),
        span(200.0, 240.0, "after the death"),
    ];
    let panel = |gpu: usize| Panel {
        title: if gpus > 1 { format!("GPU {gpu}") } else { String::new() },
        x: axis("time", Unit::Seconds, Scale::Linear),
        y: axis("memory used", Unit::Bytes, Scale::Linear),
        layers: vec![
            self::spans(spans.clone()),
            ribbon("weights", times(21).map(|at| (at, 0.0, 15.0 * GIB)), Colour::Series(0)),
            ribbon(
                "KV cache",
                times(111).map(|at| (at, 15.0 * GIB, 66.0 * GIB)),
                Colour::Series(2),
            ),
            Layer::line("used", (0..samples).map(sample), Colour::Series(4)),
            Layer::horizontal_rule("80 GiB of the GPU", 80.0 * GIB, Colour::Limit),
            Layer::horizontal_rule("limit of the engine", 76.0 * GIB, Colour::Quiet).dashed(true),
            Layer::vertical_rule("died: CUDA out of memory", 200.0, Colour::Limit),
        ],
        ..Panel::default()
    };
    plot("memory", "GPU memory over time", (0..gpus).map(panel).collect())
}

fn breakdown() -> Plot {
    let names = [
        "weights",
        "KV cache",
        "activations at the largest batch",
        "CUDA graphs",
        "not explained",
    ];
    let bars = |factor: f64, interval: bool| {
        (0..).zip([15.0, 48.0, 6.2, 1.4, 0.8]).map(move |(at, value)| Bar {
            at: f64::from(at),
            value: value * factor * GIB,
            base: 0.0,
            interval: interval.then_some((value * 0.95 * GIB, value * 1.06 * GIB)),
        })
    };
    let x = Axis {
        label: "component".into(),
        ..Axis::categories(names.map(str::to_owned))
    };
    let panel = Panel {
        x,
        y: axis("memory", Unit::Bytes, Scale::Linear),
        layers: vec![
            Layer::bars("measured", bars(1.0, true), Colour::Series(0)),
            Layer::bars("estimated", bars(0.93, false), Colour::Series(0)).dashed(true),
        ],
        ..Panel::default()
    };
    plot("breakdown", "Where the memory goes", vec![panel])
}

pub(super) fn load() -> Plot {
    let levels = || (0..9).map(|power| 2_f64.powi(power));
    let latency = |level: f64| 40.0 + level * level / 40.0;
    let curve = |factor: f64| levels().map(move |level| (level, factor * latency(level)));
    let rules = |knee: &str, onset: &str| {
        [
            Layer::vertical_rule(knee, 64.0, Colour::Recommended).dashed(true),
            Layer::vertical_rule(onset, 128.0, Colour::Limit).dashed(true),
        ]
    };
    let throughput = levels().map(|level| (level, 1900.0 * level / (level + 30.0)));
    let mut above = vec![line("output", throughput, Colour::Series(0)).with_markers(MarkerShape::Circle)];
    above.extend(rules("knee", "preemption from here"));
    let fan = levels().map(|level| (level, latency(level), 2.4 * latency(level)));
    let mut below = vec![
        ribbon("p50 to p99", fan, Colour::Series(1)),
        line("p50 time to first token", curve(1.0), Colour::Series(1)).with_markers(MarkerShape::Circle),
        line("p99 time to first token", curve(2.4), Colour::Series(5)).with_markers(MarkerShape::Circle),
        Layer::horizontal_rule("goal: 1 s", 1000.0, Colour::Limit).dashed(true),
    ];
    below.extend(rules("", ""));
    let panel = |y: Axis, layers: Vec<Layer>| Panel {
        x: axis("concurrency", Unit::Count, Scale::Log),
        y,
        layers,
        ..Panel::default()
    };
    let panels = vec![
        panel(axis("throughput", Unit::TokensPerSecond, Scale::Linear), above),
        panel(axis("latency", Unit::Milliseconds, Scale::Log), below),
    ];
    plot("load", "Throughput and latency along concurrency", panels)
}

fn heat_map() -> Plot {
    let levels = [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
    let cell = |x: &[f64], y: &[f64]| HeatCell {
        x: (x[0], x[1]),
        y: (y[0], y[1]),
        value: 4000.0 / (1.0 + x[0] / 900.0) / (1.0 + y[0] / 3000.0),
    };
    let cells = levels
        .windows(2)
        .flat_map(|x| levels.windows(2).map(move |y| cell(x, y)));
    let panel = Panel {
        x: axis("input length", Unit::Tokens, Scale::Log),
        y: axis("output length", Unit::Tokens, Scale::Log),
        layers: vec![Layer::new(
            "output tokens/s",
            Colour::Quiet,
            Marks::Cells { cells: cells.collect() },
        )],
        ..Panel::default()
    };
    plot("heat", "Throughput by lengths", vec![panel])
}

/// Ten lines in one panel.
pub(super) fn engines() -> Plot {
    let names = ["vllm", "sglang", "tgi", "llamacpp"];
    let run = |number: u8| {
        let points = (0..9).map(|power| 2_f64.powi(power)).map(|level| {
            let slow = f64::from(number);
            (level, (2000.0 - 100.0 * slow) * level / (level + 20.0 + 6.0 * slow))
        });
        let name = format!("{} run {number}", names[usize::from(number) % 4]);
        line(&name, points, Colour::Series(number.into()))
    };
    let panel = Panel {
        x: axis("concurrency", Unit::Count, Scale::Log),
        y: axis("output", Unit::TokensPerSecond, Scale::Linear),
        layers: (0..10).map(run).collect(),
        ..Panel::default()
    };
    plot("engines", "Ten runs in one picture", vec![panel])
}

/// Points in a few rows, one of them with a long name.
pub(super) fn rows() -> Plot {
    let panel = Panel {
        x: axis("input length", Unit::Tokens, Scale::Linear).with_range((0.0, 4096.0)),
        y: Axis::categories(["fits", "fails", &"not tested, predicted to fail ".repeat(4)].map(str::to_owned)),
        layers: vec![
            Layer::dots("fits", [(512.0, 0.0)], Colour::Fits, MarkerShape::Circle),
            Layer::dots("fails", [(4096.0, 1.0)], Colour::Fails, MarkerShape::Cross),
            Layer::dots("not tested", [(0.0, 2.0)], Colour::Fails, MarkerShape::Square),
            Layer::dots("inconclusive", [(2048.0, 2.0)], Colour::Open, MarkerShape::Triangle),
        ],
        notes: vec![((4096.0, 1.0), "4,096".into()), ((0.0, 2.0), "not tested".into())],
        ..Panel::default()
    };
    plot("rows", "Probes of one axis", vec![panel])
}

/// Components in a stack for each GPU, labelled, and their estimate.
pub(super) fn stacks(gpus: usize) -> Plot {
    let parts = [
        ("weights", 15.0),
        ("KV cache in use", 48.0),
        ("CUDA graphs and activations", 6.2),
    ];
    let (mut layers, mut notes, mut base) = (Vec::new(), Vec::new(), 0.0);
    for (index, (name, size)) in parts.into_iter().enumerate() {
        let value = base + size * GIB;
        let bars = (0..=gpus).map(|at| Bar {
            base,
            ..Bar::new(at, value)
        });
        notes.extend((0..=gpus).map(|at| ((at as f64, f64::midpoint(base, value)), format!("{name} {size} GiB"))));
        layers.push(Layer::bars(name, bars, Colour::Series(index)));
        base = value;
    }
    let names = (0..gpus).map(|gpu| format!("GPU {gpu}")).chain(["estimate".to_owned()]);
    let y = axis("memory", Unit::Bytes, Scale::Linear);
    let panel = Panel::new("", Axis::categories(names), y, layers).with_notes(notes);
    plot(&format!("stacks-{gpus}"), "Where the memory goes", vec![panel])
}

/// A bar for each of `count` prompt lengths, each with a mark.
pub(super) fn categories(count: usize) -> Plot {
    let lengths: Vec<String> = (1..=count).map(|at| (at * 1024).to_string()).collect();
    let marks = (0..count).map(|at| Layer::vertical_rule(format!("mark {at}"), at as f64, Colour::Quiet));
    let bars = (0..count).map(|at| Bar::new(at, 1.0 + at as f64));
    let layers = marks.chain([Layer::bars("", bars, Colour::Series(0))]);
    let x = Axis {
        label: "input".into(),
        ..Axis::categories(lengths)
    };
    let panel = Panel::new("", x, axis("rate", Unit::TokensPerSecond, Scale::Linear), layers);
    plot(&format!("categories-{count}"), "Rates by length", vec![panel])
}

pub(super) fn empty() -> Plot {
    let panel = Panel {
        x: axis("time", Unit::Seconds, Scale::Linear),
        ..Panel::default()
    };
    plot("empty", "Nothing was measured", vec![panel])
}

pub(super) fn hostile() -> Plot {
    let name = "<script>alert('x')</script> & \"quotes\" ".repeat(8);
    let span = |at: i32| Span {
        from: f64::from(at) * 0.3,
        to: f64::from(at + 1) * 0.3,
        label: name.clone(),
    };
    let moment = |at: i32| Layer::vertical_rule(name.clone(), f64::from(at) * 0.2, Colour::Limit);
    let points = [(0.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 2.0), (2.0, 5.0)];
    let panel = Panel {
        title: name.clone(),
        x: Axis {
            names: vec![name.clone(), "ok".into(), name.clone()],
            ..axis(&name, Unit::Count, Scale::Linear)
        },
        y: axis(&name, Unit::Bytes, Scale::Linear),
        layers: [
            Layer::dots(name.clone(), points, Colour::Fits, MarkerShape::Diamond),
            Layer::horizontal_rule(name.clone(), 3.0, Colour::Limit),
            Layer::vertical_rule(name.clone(), 1.0, Colour::Limit),
            self::spans((0..6).map(span).collect()),
        ]
        .into_iter()
        .chain((0..9).map(moment))
        .collect(),
        ..Panel::default()
    };
    Plot {
        caption: name.clone(),
        ..plot("hostile", &name, vec![panel])
    }
}

pub(super) fn many() -> Plot {
    let points = (0..10_000).map(|index| {
        (
            f64::from(index % 137) * 61.0 + 128.0,
            f64::from(index / 100) * 40.0 + 7.0 * f64::from(index % 7) + 128.0,
        )
    });
    let (fits, fails): (Vec<_>, Vec<_>) = points.partition(|(x, y)| x + 2.0 * y < 9000.0);
    let panel = Panel {
        x: axis("input length", Unit::Tokens, Scale::Linear),
        y: axis("output length", Unit::Tokens, Scale::Linear),
        layers: vec![
            Layer::dots("fits", fits, Colour::Fits, MarkerShape::Circle),
            Layer::dots("out of memory", fails, Colour::Fails, MarkerShape::Cross),
        ],
        ..Panel::default()
    };
    plot("many", "Ten thousand probes", vec![panel])
}

pub(super) fn one() -> Plot {
    let panel = Panel {
        x: axis("input length", Unit::Tokens, Scale::Log),
        y: axis("output length", Unit::Tokens, Scale::Log),
        layers: vec![Layer::dots("fits", [(512.0, 128.0)], Colour::Fits, MarkerShape::Circle)],
        ..Panel::default()
    };
    plot("one", "One probe", vec![panel])
}

/// All samples.
pub(super) fn all() -> Vec<Plot> {
    let eight = Plot {
        name: "memory-8".into(),
        ..memory(8, 3000)
    };
    let few = [
        boundary(),
        boundary_log(),
        multiples(),
        memory(1, 24_000),
        eight,
        breakdown(),
        load(),
    ];
    let rest = [heat_map(), engines(), rows(), empty(), hostile(), many(), one()];
    let bars = [stacks(1), stacks(4), categories(24), categories(60)];
    few.into_iter().chain(rest).chain(bars).collect()
}
