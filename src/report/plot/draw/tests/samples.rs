//! A plot of each kind, as the report makes them.

use crate::report::plot::*;
use crate::unit::Unit;

fn axis(label: &str, unit: Unit, scale: Scale) -> Axis {
    Axis {
        label: label.into(),
        unit,
        scale,
        ..Axis::default()
    }
}

fn plot(name: &str, title: &str, panels: Vec<Panel>) -> Plot {
    Plot {
        name: name.into(),
        title: title.into(),
        words: format!("{title}, told in words."),
        caption: "Each dot is a probe. What lies between proven points and the predicted limit is open.".into(),
        panels,
        ..Plot::default()
    }
}

fn dots(name: &str, points: Vec<(f64, f64)>, colour: Colour, shape: Shape) -> Layer {
    Layer::Dots {
        name: name.into(),
        points,
        colour,
        shape,
    }
}

fn line(name: &str, points: Vec<(f64, f64)>, colour: Colour) -> Layer {
    Layer::Line {
        name: name.into(),
        points: points.into_iter().map(|(x, y)| (x, Some(y))).collect(),
        colour,
        dashed: false,
        steps: false,
        dots: false,
        right: false,
    }
}

fn boundary_panel(limit: f64, scale: Scale) -> Panel {
    let mut fits = vec![];
    let mut fails = vec![];
    for input in [128.0, 512.0, 1024.0, 2048.0, 3072.0, 4096.0, 6144.0, 8192.0] {
        for output in [128.0, 256.0, 1024.0, 2048.0, 3072.0, 4096.0] {
            match input + 2.0 * output <= limit {
                true => fits.push((input, output)),
                false => fails.push((input, output)),
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
            corners.push((pair[0].0, y));
            corners.push((pair[1].0, y));
        }
        corners.push((8192.0, 128.0));
        corners
    };
    let mut above = stairs(600.0);
    above[0] = (128.0, 4096.0);
    above.push((8192.0, 4096.0));
    let range = Some((128.0, 8192.0));
    Panel {
        x: Axis {
            range,
            ends: true,
            ..axis("input length", Unit::Tokens, scale)
        },
        y: Axis {
            range: Some((128.0, 4096.0)),
            ends: true,
            ..axis("output length", Unit::Tokens, scale)
        },
        layers: vec![
            Layer::Area {
                name: "proven to fit".into(),
                outlines: vec![stairs(0.0)],
                colour: Colour::Fits,
                hatched: false,
            },
            Layer::Area {
                name: "proven to fail".into(),
                outlines: vec![above],
                colour: Colour::Fails,
                hatched: false,
            },
            Layer::Area {
                name: "predicted to fit".into(),
                outlines: vec![
                    edge.iter()
                        .copied()
                        .chain(stairs(0.0).into_iter().skip(1).rev().skip(1))
                        .collect(),
                ],
                colour: Colour::Predicted,
                hatched: true,
            },
            Layer::Line {
                name: "predicted limit".into(),
                points: edge.iter().map(|(x, y)| (*x, Some(*y))).collect(),
                colour: Colour::Predicted,
                dashed: true,
                steps: false,
                dots: false,
                right: false,
            },
            dots("fits", fits, Colour::Fits, Shape::Circle),
            dots("out of memory", fails, Colour::Fails, Shape::Cross),
            dots("no answer", vec![(5000.0, 3500.0)], Colour::Open, Shape::Ring),
            dots("recommended", vec![(4096.0, 1024.0)], Colour::Recommended, Shape::Star),
        ],
        ..Panel::default()
    }
}

pub(super) fn boundary() -> Plot {
    plot(
        "boundary",
        "Largest input and output that fit",
        vec![boundary_panel(9000.0, Scale::Linear)],
    )
}

pub(super) fn boundary_log() -> Plot {
    plot(
        "boundary-log",
        "Largest input and output that fit",
        vec![boundary_panel(9000.0, Scale::Log)],
    )
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

pub(super) fn memory(gpus: usize, looks: usize) -> Plot {
    let panel = |gpu: usize| {
        let at = |index: usize| index as f64 / looks as f64 * 240.0;
        let level = |time: f64| match time {
            time if time < 20.0 => 1.0 + time * 0.7,
            time if time < 90.0 => 15.0 + (time - 20.0) * 0.01,
            time if time < 110.0 => 15.7 + (time - 90.0) * 2.6,
            time if time < 200.0 => 68.0 + 6.0 * (time * 0.9).sin().abs(),
            _ => 0.4,
        };
        let points: Vec<(f64, Option<f64>)> = (0..looks)
            .map(|index| {
                let time = at(index);
                let peak = if index == looks / 2 + 31 { 79.0 } else { level(time) };
                (time, (!(150.0..153.0).contains(&time)).then_some(peak * GIB))
            })
            .collect();
        let weights: Vec<(f64, f64, f64)> = (0..200)
            .map(|index| f64::from(index) * 1.0)
            .filter(|time| *time > 20.0)
            .map(|time| (time, 0.0, 15.0 * GIB))
            .collect();
        let cache: Vec<(f64, f64, f64)> = weights
            .iter()
            .filter(|point| point.0 > 110.0)
            .map(|point| (point.0, 15.0 * GIB, 66.0 * GIB))
            .collect();
        let span = |from: f64, to: f64, label: &str| Span {
            from,
            to,
            label: label.into(),
        };
        Panel {
            title: if gpus > 1 { format!("GPU {gpu}") } else { String::new() },
            x: axis("time", Unit::Seconds, Scale::Linear),
            y: axis("memory used", Unit::Bytes, Scale::Linear),
            layers: vec![
                Layer::Spans {
                    spans: vec![
                        span(0.0, 20.0, "loading the weights"),
                        span(20.0, 90.0, "compiling"),
                        span(90.0, 110.0, "KV cache"),
                        span(110.0, 200.0, "serving"),
                        span(200.0, 240.0, "after the death"),
                    ],
                },
                Layer::Ribbon {
                    name: "weights".into(),
                    points: weights,
                    colour: Colour::Series(0),
                    solid: true,
                    steps: false,
                    right: false,
                },
                Layer::Ribbon {
                    name: "KV cache".into(),
                    points: cache,
                    colour: Colour::Series(2),
                    solid: true,
                    steps: false,
                    right: false,
                },
                Layer::Line {
                    name: "used".into(),
                    points,
                    colour: Colour::Series(4),
                    dashed: false,
                    steps: false,
                    dots: false,
                    right: false,
                },
                Layer::Rule {
                    name: "80 GiB of the GPU".into(),
                    at: 80.0 * GIB,
                    upright: false,
                    colour: Colour::Limit,
                    dashed: false,
                    right: false,
                },
                Layer::Rule {
                    name: "limit of the engine".into(),
                    at: 76.0 * GIB,
                    upright: false,
                    colour: Colour::Quiet,
                    dashed: true,
                    right: false,
                },
                Layer::Moments {
                    moments: vec![Moment {
                        at: 200.0,
                        label: "died: CUDA out of memory".into(),
                    }],
                    colour: Colour::Limit,
                },
            ],
            ..Panel::default()
        }
    };
    plot("memory", "GPU memory over time", (0..gpus).map(panel).collect())
}

pub(super) fn breakdown() -> Plot {
    let names = [
        "weights",
        "KV cache",
        "activations at the largest batch",
        "CUDA graphs",
        "not explained",
    ];
    let bars = |factor: f64, interval: bool| {
        [15.0, 48.0, 6.2, 1.4, 0.8]
            .iter()
            .enumerate()
            .map(|(at, value)| Bar {
                at: at as f64,
                value: value * factor * GIB,
                base: 0.0,
                interval: interval.then_some((value * 0.95 * GIB, value * 1.06 * GIB)),
            })
            .collect()
    };
    let panel = Panel {
        x: Axis {
            names: names.map(Into::into).into(),
            ..axis("component", Unit::Count, Scale::Linear)
        },
        y: axis("memory", Unit::Bytes, Scale::Linear),
        layers: vec![
            Layer::Bars {
                name: "measured".into(),
                bars: bars(1.0, true),
                colour: Colour::Series(0),
                hatched: false,
            },
            Layer::Bars {
                name: "estimated".into(),
                bars: bars(0.93, false),
                colour: Colour::Series(0),
                hatched: true,
            },
        ],
        ..Panel::default()
    };
    plot("breakdown", "Where the memory goes", vec![panel])
}

pub(super) fn load() -> Plot {
    let levels = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
    let throughput: Vec<(f64, f64)> = levels
        .iter()
        .map(|level: &f64| (*level, 1900.0 * level / (level + 30.0)))
        .collect();
    let latency = |factor: f64| -> Vec<(f64, f64)> {
        levels
            .iter()
            .map(|level| (*level, factor * (40.0 + level * level / 40.0)))
            .collect()
    };
    let ribbon = levels
        .iter()
        .map(|level| (*level, 40.0 + level * level / 40.0, 2.4 * (40.0 + level * level / 40.0)))
        .collect();
    let marked = |layer: Layer| match layer {
        Layer::Line {
            name, points, colour, ..
        } => Layer::Line {
            name,
            points,
            colour,
            dashed: false,
            steps: false,
            dots: true,
            right: false,
        },
        other => other,
    };
    let x = || axis("concurrency", Unit::Count, Scale::Log);
    let rules = |named: bool| {
        let name = |name: &str| if named { name.to_owned() } else { String::new() };
        [
            Layer::Rule {
                name: name("knee"),
                at: 64.0,
                upright: true,
                colour: Colour::Recommended,
                dashed: true,
                right: false,
            },
            Layer::Rule {
                name: name("preemption from here"),
                at: 128.0,
                upright: true,
                colour: Colour::Limit,
                dashed: true,
                right: false,
            },
        ]
    };
    let mut above = vec![marked(line("output", throughput, Colour::Series(0)))];
    above.extend(rules(true));
    let mut below = vec![
        Layer::Ribbon {
            name: "p50 to p99".into(),
            points: ribbon,
            colour: Colour::Series(1),
            solid: false,
            steps: false,
            right: false,
        },
        marked(line("p50 time to first token", latency(1.0), Colour::Series(1))),
        marked(line("p99 time to first token", latency(2.4), Colour::Series(5))),
    ];
    below.extend(rules(false));
    below.push(Layer::Rule {
        name: "goal: 1 s".into(),
        at: 1000.0,
        upright: false,
        colour: Colour::Limit,
        dashed: true,
        right: false,
    });
    let panels = vec![
        Panel {
            x: x(),
            y: axis("throughput", Unit::TokensPerSecond, Scale::Linear),
            layers: above,
            ..Panel::default()
        },
        Panel {
            x: x(),
            y: axis("latency", Unit::Milliseconds, Scale::Log),
            layers: below,
            ..Panel::default()
        },
    ];
    plot("load", "Throughput and latency along concurrency", panels)
}

pub(super) fn two_scales() -> Plot {
    let wave = |scale: f64, shift: f64| -> Vec<(f64, f64)> {
        (0..600)
            .map(|index| f64::from(index) * 0.5)
            .map(|time| (time, scale * (0.5 + 0.5 * ((time + shift) / 20.0).sin())))
            .collect()
    };
    let mut queue = line("waiting", wave(40.0, 9.0), Colour::Series(1));
    if let Layer::Line { right, steps, .. } = &mut queue {
        (*right, *steps) = (true, true);
    }
    let panel = Panel {
        x: axis("time", Unit::Seconds, Scale::Linear),
        y: axis("KV cache in use", Unit::Percent, Scale::Linear),
        right: Some(axis("requests waiting", Unit::Count, Scale::Linear)),
        layers: vec![line("KV cache in use", wave(96.0, 0.0), Colour::Series(0)), queue],
        ..Panel::default()
    };
    plot("gauges", "KV cache and queue", vec![panel])
}

pub(super) fn heat_map() -> Plot {
    let levels = [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
    let mut cells = Vec::new();
    for x in levels.windows(2) {
        for y in levels.windows(2) {
            cells.push(Cell {
                x: (x[0], x[1]),
                y: (y[0], y[1]),
                value: 4000.0 / (1.0 + x[0] / 900.0) / (1.0 + y[0] / 3000.0),
            });
        }
    }
    let panel = Panel {
        x: axis("input length", Unit::Tokens, Scale::Log),
        y: axis("output length", Unit::Tokens, Scale::Log),
        layers: vec![Layer::Cells {
            name: "output tokens/s".into(),
            cells,
        }],
        ..Panel::default()
    };
    plot("heat", "Throughput by lengths", vec![panel])
}

pub(super) fn engines() -> Plot {
    let names = ["vllm", "sglang", "tgi", "llamacpp"];
    let panel = Panel {
        x: axis("concurrency", Unit::Count, Scale::Log),
        y: axis("output", Unit::TokensPerSecond, Scale::Linear),
        layers: (0..10_u8)
            .map(|number| {
                let points = (0..9).map(|power| 2_f64.powi(power)).map(|level| {
                    (
                        level,
                        (2000.0 - 150.0 * f64::from(number)) * level / (level + 20.0 + 6.0 * f64::from(number)),
                    )
                });
                line(
                    &format!("{} run {number}", names[usize::from(number) % 4]),
                    points.collect(),
                    Colour::Series(number),
                )
            })
            .collect(),
        ..Panel::default()
    };
    plot("engines", "Ten runs in one picture", vec![panel])
}

pub(super) fn empty() -> Plot {
    plot(
        "empty",
        "Nothing was measured",
        vec![Panel {
            x: axis("time", Unit::Seconds, Scale::Linear),
            ..Panel::default()
        }],
    )
}

pub(super) fn hostile() -> Plot {
    let name = "<script>alert('x')</script> & \"quotes\" ".repeat(8);
    let mut panel = Panel {
        title: name.clone(),
        x: Axis {
            names: vec![name.clone(), "ok".into(), name.clone()],
            ..axis(&name, Unit::Count, Scale::Linear)
        },
        y: axis(&name, Unit::Bytes, Scale::Linear),
        layers: vec![
            dots(
                &name,
                vec![(0.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 2.0), (2.0, 5.0)],
                Colour::Fits,
                Shape::Diamond,
            ),
            Layer::Rule {
                name: name.clone(),
                at: 3.0,
                upright: false,
                colour: Colour::Limit,
                dashed: false,
                right: false,
            },
            Layer::Rule {
                name: name.clone(),
                at: 1.0,
                upright: true,
                colour: Colour::Limit,
                dashed: false,
                right: false,
            },
            Layer::Spans {
                spans: (0..6)
                    .map(|at| Span {
                        from: f64::from(at) * 0.3,
                        to: f64::from(at + 1) * 0.3,
                        label: name.clone(),
                    })
                    .collect(),
            },
            Layer::Moments {
                moments: (0..9)
                    .map(|at| Moment {
                        at: f64::from(at) * 0.2,
                        label: name.clone(),
                    })
                    .collect(),
                colour: Colour::Limit,
            },
        ],
        ..Panel::default()
    };
    panel.right = Some(axis(&name, Unit::Count, Scale::Log));
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
    let (fits, fails) = points.partition(|(x, y)| x + 2.0 * y < 9000.0);
    let panel = Panel {
        x: axis("input length", Unit::Tokens, Scale::Linear),
        y: axis("output length", Unit::Tokens, Scale::Linear),
        layers: vec![
            dots("fits", fits, Colour::Fits, Shape::Circle),
            dots("out of memory", fails, Colour::Fails, Shape::Cross),
        ],
        ..Panel::default()
    };
    plot("many", "Ten thousand probes", vec![panel])
}

pub(super) fn one() -> Plot {
    let panel = Panel {
        x: axis("input length", Unit::Tokens, Scale::Log),
        y: axis("output length", Unit::Tokens, Scale::Log),
        layers: vec![dots("fits", vec![(512.0, 128.0)], Colour::Fits, Shape::Circle)],
        ..Panel::default()
    };
    plot("one", "One probe", vec![panel])
}

/// All of them.
pub(super) fn all() -> Vec<Plot> {
    vec![
        boundary(),
        boundary_log(),
        multiples(),
        memory(1, 24_000),
        Plot {
            name: "memory-8".into(),
            ..memory(8, 3000)
        },
        breakdown(),
        load(),
        two_scales(),
        heat_map(),
        engines(),
        empty(),
        hostile(),
        many(),
        one(),
        super::rows::forest(),
    ]
}
