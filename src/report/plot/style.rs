//! Roles of marks, and the colour of each role on light and on dark backgrounds.
//!
//! Colours are based on Okabe and Ito's palette for all kinds of colour vision, darkened for contrast on white. Roles
//! also differ by shape, dash or pattern.

use std::fmt::Write as _;

use crate::report::plot::{Colour, Layer};

/// Text.
pub(super) const TEXT: &str = "ink";
/// Secondary text: ticks, axes.
pub(super) const FAINT: &str = "faint";
pub(super) const GRID: &str = "grid";
/// The x axis line of a panel.
pub(super) const EDGE: &str = "edge";
/// The background of every other phase.
pub(super) const STRIPE: &str = "stripe";

/// Each role, which is also a CSS class, with its colour on light and on dark backgrounds.
pub(super) const ROLES: [(&str, &str, &str); 22] = [
    (TEXT, "#1b1f24", "#e8eaed"),
    (FAINT, "#5c6670", "#a3adb8"),
    (GRID, "#e4e7eb", "#2c323a"),
    (EDGE, "#8b949e", "#6e7883"),
    ("paper", "#ffffff", "#14171b"),
    (STRIPE, "#f3f5f7", "#1d2228"),
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
const SERIES: u8 = 8;

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
            Self::Series(number) => ROLES[ROLES.len() - usize::from(SERIES) + usize::from(number % SERIES)].0,
        }
    }
}

/// A line of a role; its width is in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stroke {
    pub(super) role: &'static str,
    pub(super) width: f64,
    /// `stroke-dasharray`; empty for a solid line.
    pub(super) dash: &'static str,
}

impl Stroke {
    pub(super) fn solid(role: &'static str, width: f64) -> Self {
        Self { role, width, dash: "" }
    }

    /// A line of a layer: dashed if wanted, dotted beyond the eighth series.
    pub(super) fn new(layer: &Layer, width: f64) -> Self {
        let dash = match layer.colour {
            Colour::Series(number) if number >= SERIES => "2 3",
            _ if layer.dashed => "6 4",
            _ => "",
        };
        let role = layer.colour.role();
        Self { role, width, dash }
    }
}

/// How an area is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fill {
    Plain,
    /// A translucent area.
    Wash,
    /// A component of a stack: less strong than a line of its colour.
    Solid,
    Hatched,
}

impl Fill {
    /// Hatched if the layer is an estimate.
    pub(super) fn of(layer: &Layer, otherwise: Self) -> Self {
        if layer.dashed { Self::Hatched } else { otherwise }
    }
}

/// CSS of the drawings on a page: a custom property per role (`--plot-fits`), dark if the system is, light on paper.
pub fn css() -> String {
    let values = |dark: bool| -> String {
        let value = |(name, light, night): &(&str, &str, &str)| {
            let colour = if dark { night } else { light };
            format!("--plot-{name}:{colour};")
        };
        ROLES.iter().map(value).collect()
    };
    let rules = rules(".plot ", |name, _, _| format!("var(--plot-{name})"));
    format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n.plot{{font-family:system-ui,sans-serif}}\n{rules}",
        values(false),
        values(true)
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
    let mut text = rules("", |_, light, _| light.to_owned());
    for (name, colour, _) in &ROLES {
        let _ = write!(
            text,
            "text.pa-{name}{{stroke:{colour};stroke-width:.15px}}text.pa-{name}.p-bold{{stroke-width:.6px}}"
        );
    }
    text
}

/// Rules that give each class its colour: `pl-` for lines, `pa-` for areas and texts.
fn rules(within: &str, colour: impl Fn(&str, &str, &str) -> String) -> String {
    let mut text = format!("{within}.p-bold{{font-weight:600}}");
    for (name, light, dark) in ROLES {
        let colour = colour(name, light, dark);
        let _ = write!(
            text,
            "{within}.pl-{name}{{fill:none;stroke:{colour};stroke-linejoin:round}}{within}.pa-{name}{{fill:{colour}}}"
        );
        if name == "paper" {
            let _ = write!(
                text,
                "{within}.p-halo{{paint-order:stroke;stroke:{colour};stroke-width:3px;stroke-linejoin:round}}"
            );
        }
    }
    text
}

/// Viridis (van der Walt and Smith): perceptually even steps from dark to light, for every kind of colour vision.
const VIRIDIS: [[u8; 3]; 9] = [
    [0x44, 0x01, 0x54],
    [0x47, 0x2d, 0x7b],
    [0x3b, 0x52, 0x8b],
    [0x2c, 0x72, 0x8e],
    [0x21, 0x91, 0x8c],
    [0x28, 0xae, 0x80],
    [0x5e, 0xc9, 0x62],
    [0xad, 0xdc, 0x30],
    [0xfd, 0xe7, 0x25],
];

/// The colour of a value as a share of its scale.
pub(super) fn heat_colour(share: f64) -> String {
    let at = share.clamp(0.0, 1.0) * 8.0;
    let index = (at as usize).min(7);
    let mix = |part: usize| {
        let (one, other) = (f64::from(VIRIDIS[index][part]), f64::from(VIRIDIS[index + 1][part]));
        (one + (at - index as f64) * (other - one)).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}
