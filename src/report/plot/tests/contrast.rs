//! Contrast of the colours after WCAG 2.2, and their distance for red-green blindness after Machado, Oliveira and
//! Fernandes (2009).

use crate::report::plot::style::ROLES;

type Three = [f64; 3];

/// Linear RGB as seen with protanopia and deuteranopia.
const PROTAN: [Three; 3] = [
    [0.152_286, 1.052_583, -0.204_868],
    [0.114_503, 0.786_281, 0.099_216],
    [-0.003_882, -0.048_116, 1.051_998],
];
const DEUTAN: [Three; 3] = [
    [0.367_322, 0.860_646, -0.227_968],
    [0.280_085, 0.672_501, 0.047_413],
    [-0.011_820, 0.042_940, 0.968_881],
];
const WHOLE: [Three; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

fn linear(colour: &str) -> Three {
    [1, 3, 5].map(|at| {
        let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if part <= 0.04045 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    })
}

fn times(matrix: [Three; 3], vector: Three) -> Three {
    matrix.map(|row| row.iter().zip(vector).map(|(one, other)| one * other).sum())
}

fn contrast(one: &str, other: &str) -> f64 {
    let light = |colour| times([[0.2126, 0.7152, 0.0722]; 3], linear(colour))[0];
    let (one, other) = (light(one), light(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// CIE L*a*b* under D65.
fn lab(linear: Three) -> Three {
    let matrix = [
        [0.412_456_4, 0.357_576_1, 0.180_437_5],
        [0.212_672_9, 0.715_152_2, 0.072_175_0],
        [0.019_333_9, 0.119_192_0, 0.950_304_1],
    ];
    let [x, y, z] = times(matrix, linear.map(|part| part.clamp(0.0, 1.0)));
    let [x, y, z] = [x / 0.950_47, y, z / 1.088_83].map(|part| {
        if part > 0.008_856 {
            part.cbrt()
        } else {
            7.787 * part + 16.0 / 116.0
        }
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// The smallest distance of two colours over all kinds of colour vision.
fn distance(one: &str, other: &str) -> f64 {
    let apart = |matrix| {
        let (one, other) = (lab(times(matrix, linear(one))), lab(times(matrix, linear(other))));
        one.iter()
            .zip(other)
            .map(|(one, other)| (one - other).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    [WHOLE, PROTAN, DEUTAN]
        .map(apart)
        .into_iter()
        .fold(f64::INFINITY, f64::min)
}

/// Colours of one theme by their names.
fn themes() -> [Vec<(&'static str, &'static str)>; 2] {
    let light = ROLES.iter().map(|(name, light, _)| (*name, *light)).collect();
    let dark = ROLES.iter().map(|(name, _, dark)| (*name, *dark)).collect();
    [light, dark]
}

#[test]
fn texts_and_marks_stand_out_from_their_ground() {
    for theme in themes() {
        let of = |wanted: &str| theme.iter().find(|(name, _)| *name == wanted).unwrap().1;
        for (name, colour) in &theme {
            let least = match *name {
                "paper" | "grid" | "stripe" => continue,
                "ink" | "faint" => 4.5,
                _ => 3.0,
            };
            for ground in ["paper", "stripe"] {
                let seen = contrast(colour, of(ground));
                let least = if ground == "stripe" { least - 0.35 } else { least };
                assert!(seen >= least, "{name} {colour} on {ground}: {seen:.2}");
            }
        }
    }
}

#[test]
fn meanings_are_told_apart_by_every_kind_of_vision() {
    for theme in themes() {
        let meanings = ["fits", "fails", "open", "predicted", "band"];
        pairs(&theme, |name| meanings.contains(&name), 20.0);
    }
}

#[test]
fn series_are_told_apart_by_every_kind_of_vision() {
    for theme in themes() {
        pairs(&theme, |name| name.starts_with("series-"), 15.0);
        // These are most often drawn together.
        pairs(&theme, |name| name.starts_with("series-") && name < "series-4", 24.0);
    }
}

fn pairs(theme: &[(&str, &str)], wanted: impl Fn(&str) -> bool, least: f64) {
    let chosen: Vec<_> = theme.iter().filter(|(name, _)| wanted(name)).collect();
    for (index, (one, colour)) in chosen.iter().enumerate() {
        for (other, against) in &chosen[index + 1..] {
            let apart = distance(colour, against);
            assert!(apart >= least, "{one} {colour} and {other} {against}: {apart:.1}");
        }
    }
}
