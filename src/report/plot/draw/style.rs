//! Sizes; styles of marks, which have a role instead of a colour; the colour of each role on light and dark backgrounds.
//!
//! Colours are based on Okabe and Ito's palette for all kinds of colour vision, darkened for contrast on white. Roles
//! also differ by shape, dash or pattern.

use std::fmt::Write as _;

use super::Width;
use crate::report::plot::Colour;

#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutMetrics {
    /// Width of a panel with its labels.
    pub(super) width: f64,
    /// Width of the whole drawing.
    pub(super) total_width: f64,
    /// Font size.
    pub(super) font: f64,
    /// Whether there is room for labels beside the panels.
    pub(super) side_room: bool,
}

impl LayoutMetrics {
    pub(super) fn new(width: Width) -> Self {
        let (width, font, side_room) = match width {
            Width::Wide => (960.0, 12.5, true),
            Width::Narrow => (400.0, 13.0, false),
        };
        Self {
            width,
            total_width: width,
            font,
            side_room,
        }
    }

    /// The sizes of one of several panels side by side.
    pub(super) fn narrowed(self, width: f64) -> Self {
        Self {
            width,
            side_room: false,
            ..self
        }
    }
}

/// What a mark means; the theme gives each role a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    Text,
    /// Secondary text: ticks, axes.
    SecondaryText,
    Grid,
    /// The x axis line of a panel.
    Edge,
    /// The background of every other phase.
    Stripe,
    /// Index into [`MEANINGS`].
    Meaning(u8),
    Series(u8),
    /// A step of the colour scale of values, from the lowest.
    Heat(u8),
}

/// Dash of a line, or fill of an area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum FillStyle {
    #[default]
    Plain,
    Dashed,
    /// A line of the series beyond the eighth.
    Dotted,
    /// A translucent area.
    Wash,
    /// A component of a stack: less strong than a line of its colour.
    Solid,
    Hatched,
}

/// Colours with a fixed meaning and their names in CSS classes, by the index of [`Role::Meaning`].
pub(super) const MEANINGS: [(Colour, &str); 8] = [
    (Colour::Fits, "fits"),
    (Colour::Fails, "fails"),
    (Colour::Open, "open"),
    (Colour::Predicted, "predicted"),
    (Colour::Band, "band"),
    (Colour::Recommended, "recommended"),
    (Colour::Limit, "limit"),
    (Colour::Quiet, "quiet"),
];
/// Number of series with a colour of their own.
pub(super) const SERIES: u8 = 8;
/// Steps of the colour scale of values.
pub(super) const HEATS: u8 = 32;

impl Role {
    /// Its name in CSS classes.
    pub(super) fn name(self) -> String {
        match self {
            Self::Text => "ink".into(),
            Self::SecondaryText => "faint".into(),
            Self::Grid => "grid".into(),
            Self::Edge => "edge".into(),
            Self::Stripe => "stripe".into(),
            Self::Meaning(number) => MEANINGS[usize::from(number) % MEANINGS.len()].1.into(),
            Self::Series(number) => format!("series-{}", number % SERIES),
            Self::Heat(step) => format!("heat-{step}"),
        }
    }
}

impl From<Colour> for Role {
    fn from(colour: Colour) -> Self {
        match colour {
            Colour::Series(number) => Self::Series(number),
            _ => {
                let number = MEANINGS.iter().position(|(meaning, _)| *meaning == colour);
                Self::Meaning(u8::try_from(number.unwrap_or(0)).unwrap_or(0))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MarkStyle {
    pub(super) role: Role,
    pub(super) fill: FillStyle,
}

impl MarkStyle {
    pub(super) fn new(role: impl Into<Role>) -> Self {
        Self {
            role: role.into(),
            fill: FillStyle::Plain,
        }
    }

    pub(super) fn with_fill(self, fill: FillStyle) -> Self {
        Self { fill, ..self }
    }

    /// Style of a line: dashed if wanted, dotted beyond the eighth series.
    pub(super) fn line(colour: Colour, dashed: bool) -> Self {
        let fill = match colour {
            Colour::Series(number) if number >= SERIES => FillStyle::Dotted,
            _ if dashed => FillStyle::Dashed,
            _ => FillStyle::Plain,
        };
        Self::new(colour).with_fill(fill)
    }
}

impl From<Role> for MarkStyle {
    fn from(role: Role) -> Self {
        Self::new(role)
    }
}

impl From<Colour> for MarkStyle {
    fn from(colour: Colour) -> Self {
        Self::new(colour)
    }
}

/// A role's class, its colour on light and on dark backgrounds.
type RoleColours = (&'static str, &'static str, &'static str);

pub(super) const ROLES: [RoleColours; 22] = [
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
pub(super) fn file_css() -> String {
    let night = rules("", |_, row| row.2.to_owned());
    format!(
        "{}@media screen and (prefers-color-scheme:dark){{{night}}}",
        light_css()
    )
}

/// CSS of a PNG. The bundled font is light and has no bold: letters are made stronger by a stroke.
pub(super) fn png_css() -> String {
    let mut text = light_css();
    for (name, colour, _) in &ROLES {
        let _ = write!(
            text,
            "text.pa-{name}{{stroke:{colour};stroke-width:.15px}}text.pa-{name}.p-bold{{stroke-width:.6px}}"
        );
    }
    text
}

fn light_css() -> String {
    rules("", |_, row| row.1.to_owned())
}

/// Rules that give each class its colour: `pl-` for lines, `pa-` for areas and texts.
fn rules(within: &str, value: impl Fn(&str, &RoleColours) -> String) -> String {
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
        let _ = write!(text, "{within}.pa-heat-{step}{{fill:{}}}", heat_colour(step));
    }
    text
}

/// The colour of a step of the colour scale.
pub(super) fn heat_colour(step: u8) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_has_the_name_of_its_colour() {
        assert_eq!(Role::from(Colour::Predicted).name(), "predicted");
        assert_eq!(Role::from(Colour::Series(9)).name(), "series-1");
        assert_eq!(MarkStyle::line(Colour::Series(9), false).fill, FillStyle::Dotted);
    }
}
