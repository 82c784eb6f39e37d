//! The colour of each role on light and on dark backgrounds: based on Okabe and Ito's palette for all kinds of colour
//! vision, darkened for contrast on white. Roles also differ by shape, dash or pattern.

use std::fmt::Write as _;

use super::style::{HEATS, MEANINGS, SERIES};

/// A role's class, its colour on light and on dark backgrounds.
type Row = (&'static str, &'static str, &'static str);

pub(super) const ROLES: [Row; 22] = [
    ("style", "#1b1f24", "#e8eaed"),
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

/// Viridis (van der Walt and Smith): perceptually even steps from dark to light, for every kind of colour vision.
const VIRIDIS: [(u8, u8, u8); 9] = [
    (0x44, 0x01, 0x54),
    (0x47, 0x2d, 0x7b),
    (0x3b, 0x52, 0x8b),
    (0x2c, 0x72, 0x8e),
    (0x21, 0x91, 0x8c),
    (0x28, 0xae, 0x80),
    (0x5e, 0xc9, 0x62),
    (0xad, 0xdc, 0x30),
    (0xfd, 0xe7, 0x25),
];

/// CSS of the drawings on a page: a custom property per role (`--plot-fits`), dark if the system is, light on paper.
#[must_use]
pub fn css() -> String {
    let values = |dark: bool| {
        ROLES.iter().fold(String::new(), |mut text, (name, light, night)| {
            let _ = write!(text, "--plot-{name}:{};", if dark { night } else { light });
            text
        })
    };
    let rules = rules(".plot ", |name, _| format!("var(--plot-{name})"));
    format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n.plot{{font-family:system-ui,sans-serif}}\n{rules}",
        values(false),
        values(true)
    )
}

/// CSS of an SVG file: light, or dark if the system is.
pub(super) fn style() -> String {
    let night = rules("", |_, row| row.2.to_owned());
    format!("{}@media screen and (prefers-color-scheme:dark){{{night}}}", light())
}

/// CSS of a PNG. The bundled font is light and has no bold: letters are made stronger by a stroke.
pub(super) fn pixels() -> String {
    let mut text = light();
    for (name, colour, _) in &ROLES {
        let _ = write!(
            text,
            "text.pa-{name}{{stroke:{colour};stroke-width:.15px}}text.pa-{name}.p-bold{{stroke-width:.6px}}"
        );
    }
    text
}

fn light() -> String {
    rules("", |_, row| row.1.to_owned())
}

/// Rules that give each class its colour: `pl-` for lines, `pa-` for areas and texts.
fn rules(within: &str, value: impl Fn(&str, &Row) -> String) -> String {
    let mut text = String::new();
    for row in &ROLES {
        let (name, value) = (row.0, value(row.0, row));
        let _ = write!(
            text,
            "{within}.pl-{name}{{fill:none;stroke:{value};stroke-linejoin:round}}{within}.pa-{name}{{fill:{value}}}"
        );
        if name == "paper" {
            let _ = write!(
                text,
                "{within}.p-halo{{paint-order:stroke;stroke:{value};stroke-width:3px;stroke-linejoin:round}}"
            );
        }
    }
    let _ = write!(text, "{within}.p-bold{{font-weight:600}}");
    for step in 0..HEATS {
        let _ = write!(text, "{within}.pa-heat-{step}{{fill:{}}}", heat(step));
    }
    text
}

/// The colour of a step of the colour scale.
pub(super) fn heat(step: u8) -> String {
    let share = f64::from(step.min(HEATS - 1)) / f64::from(HEATS - 1) * 8.0;
    let index = (share.floor() as usize).min(7);
    let part = share - index as f64;
    let ((r, g, b), (s, h, c)) = (VIRIDIS[index], VIRIDIS[index + 1]);
    let mix = |one: u8, other: u8| (f64::from(one) + part * (f64::from(other) - f64::from(one))).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(r, s), mix(g, h), mix(b, c))
}

const _: () = assert!(
    ROLES.len() == 6 + MEANINGS.len() + SERIES as usize,
    "every role has a colour"
);
