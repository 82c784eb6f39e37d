//! Roles of marks, and the colour of each role on light and on dark backgrounds.
//!
//! Colours are based on Okabe and Ito's palette for all kinds of colour vision, darkened for contrast on white. Roles
//! also differ by shape, dash or pattern.

use crate::report::plot::{Colour, Layer};

/// Each role, which is also a CSS class, with its colour on light and on dark backgrounds.
pub(super) const ROLES: [(&str, &str, &str); 22] = [
    ("ink", "#1b1f24", "#e8eaed"),
    ("faint", "#5c6670", "#a3adb8"),
    ("grid", "#e4e7eb", "#2c323a"),
    ("edge", "#8b949e", "#6e7883"),
    ("paper", "#ffffff", "#14171b"),
    ("stripe", "#f3f5f7", "#1d2228"),
    ("fits", "#0050a8", "#2f86f0"),
    ("fails", "#d8400a", "#ff8048"),
    ("open", "#858b93", "#858e9a"),
    ("predicted", "#3f96d6", "#7cc4fa"),
    ("band", "#8f3a80", "#ecc8e0"),
    ("recommended", "#1b1f24", "#f5f6f7"),
    ("limit", "#b3261e", "#ff7b72"),
    ("quiet", "#7d8792", "#87929d"),
    ("series-0", "#005fb8", "#2f95f5"),
    ("series-1", "#a65100", "#feaa11"),
    ("series-2", "#009a70", "#35e0a0"),
    ("series-3", "#8a3f7c", "#c060a0"),
    ("series-4", "#33363b", "#c0c4cd"),
    ("series-5", "#64160a", "#f04a1c"),
    ("series-6", "#3f96d6", "#7cc8fa"),
    ("series-7", "#ab8e00", "#fdf480"),
];
/// Number of series with a colour of their own; the rest are dotted.
const SERIES: usize = 8;

impl Colour {
    pub(super) fn role(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Fails => "fails",
            Self::Open => "open",
            Self::Predicted => "predicted",
            Self::Band => "band",
            Self::Recommended => "recommended",
            Self::Limit => "limit",
            Self::Quiet => "quiet",
            Self::Series(number) => ROLES[ROLES.len() - SERIES + number % SERIES].0,
        }
    }
}

impl Layer {
    /// The `stroke-dasharray` of its lines: dashed if wanted, dotted beyond the eighth series.
    pub(super) fn dash(&self) -> &'static str {
        match self.colour {
            Colour::Series(number) if number >= SERIES => "2 3",
            _ if self.dashed => "6 4",
            _ => "",
        }
    }
}

/// CSS of the drawings on a page: a custom property per role (`--plot-fits`), dark if the system is, light on paper.
pub fn css() -> String {
    let light: String = ROLES.map(|(name, light, _)| format!("--plot-{name}:{light};")).concat();
    let dark: String = ROLES.map(|(name, _, dark)| format!("--plot-{name}:{dark};")).concat();
    let rules = rules(".plot ", |name, _, _| format!("var(--plot-{name})"));
    format!(
        ":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n.plot{{font-family:system-ui,sans-serif}}\n{rules}"
    )
}

/// CSS of an SVG file: light, or dark if the system is.
pub(super) fn file_css() -> String {
    let light = rules("", |_, light, _| light.to_owned());
    let dark = rules("", |_, _, dark| dark.to_owned());
    format!("{light}@media screen and (prefers-color-scheme:dark){{{dark}}}")
}

/// CSS of a PNG. The bundled font is light and has no bold: letters are made stronger by a stroke.
pub(super) fn png_css() -> String {
    let stronger = ROLES.map(|(name, colour, _)| {
        format!("text.pa-{name}{{stroke:{colour};stroke-width:.15px}}text.pa-{name}.p-bold{{stroke-width:.6px}}")
    });
    rules("", |_, light, _| light.to_owned()) + stronger.concat().as_str()
}

/// Rules that give each class its colour: `pl-` for lines, `pa-` for areas and texts.
fn rules(within: &str, colour: impl Fn(&str, &str, &str) -> String) -> String {
    let of_role = |(name, light, dark): (&str, &str, &str)| {
        let colour = colour(name, light, dark);
        let halo = match name {
            "paper" => {
                format!("{within}.p-halo{{paint-order:stroke;stroke:{colour};stroke-width:3px;stroke-linejoin:round}}")
            }
            _ => String::new(),
        };
        format!(
            "{within}.pl-{name}{{fill:none;stroke:{colour};stroke-linejoin:round}}{within}.pa-{name}{{fill:{colour}}}{halo}"
        )
    };
    format!("{within}.p-bold{{font-weight:600}}{}", ROLES.map(of_role).concat())
}

/// Viridis (van der Walt and Smith): perceptually even steps from dark to light, for every kind of colour vision.
const VIRIDIS: [u32; 9] = [
    0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c, 0x28ae80, 0x5ec962, 0xaddc30, 0xfde725,
];

/// The colour of a value as a share of its scale.
pub(super) fn heat_colour(share: f64) -> String {
    let at = share.clamp(0.0, 1.0) * 8.0;
    let index = (at as usize).min(7);
    let mix = |shift: u32| {
        let [one, other] = [0, 1].map(|next| f64::from(VIRIDIS[index + next] >> shift & 0xff));
        (one + (at - index as f64) * (other - one)).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(16), mix(8), mix(0))
}

#[cfg(test)]
mod tests {
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
}
