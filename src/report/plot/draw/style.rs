//! Styles of marks: a role instead of a colour, and a dash or fill. plotters knows only RGB colours, so a style is
//! packed into one and unpacked where the SVG is written.

use plotters::style::RGBColor;

use crate::report::plot::Colour;

/// What a mark means; the theme gives each role a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    Text,
    /// Secondary text: ticks, axes.
    SecondaryText,
    Grid,
    /// The x axis line of a panel.
    Edge,
    /// The background.
    Paper,
    /// The background of every other phase.
    Stripe,
    /// Index into [`MEANINGS`].
    Meaning(u8),
    Series(u8),
    /// A step of the colour scale of values, from the lowest.
    Heat(u8),
}

/// Dash of a line, fill of an area, or halo of a text.
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
    /// A text outlined in the background colour.
    Halo,
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
            Self::Text => "style".into(),
            Self::SecondaryText => "faint".into(),
            Self::Grid => "grid".into(),
            Self::Edge => "edge".into(),
            Self::Paper => "paper".into(),
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

    /// Packs the style into a colour.
    pub(super) fn key(self) -> RGBColor {
        let (role, number) = match self.role {
            Role::Text => (0, 0),
            Role::SecondaryText => (1, 0),
            Role::Grid => (2, 0),
            Role::Edge => (3, 0),
            Role::Paper => (4, 0),
            Role::Stripe => (5, 0),
            Role::Meaning(number) => (6, number),
            Role::Series(number) => (7, number),
            Role::Heat(step) => (8, step),
        };
        let fill = match self.fill {
            FillStyle::Plain => 0,
            FillStyle::Dashed => 1,
            FillStyle::Dotted => 2,
            FillStyle::Wash => 3,
            FillStyle::Hatched => 4,
            FillStyle::Halo => 5,
            FillStyle::Solid => 6,
        };
        RGBColor(role, number, fill)
    }

    /// Unpacks a style from a colour.
    pub(super) fn read((role, number, fill): (u8, u8, u8)) -> Self {
        let role = match role {
            1 => Role::SecondaryText,
            2 => Role::Grid,
            3 => Role::Edge,
            4 => Role::Paper,
            5 => Role::Stripe,
            6 => Role::Meaning(number),
            7 => Role::Series(number),
            8 => Role::Heat(number),
            _ => Role::Text,
        };
        let fill = match fill {
            1 => FillStyle::Dashed,
            2 => FillStyle::Dotted,
            3 => FillStyle::Wash,
            4 => FillStyle::Hatched,
            5 => FillStyle::Halo,
            6 => FillStyle::Solid,
            _ => FillStyle::Plain,
        };
        Self { role, fill }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_survives_packing() {
        let mut roles = vec![
            Role::Text,
            Role::SecondaryText,
            Role::Grid,
            Role::Edge,
            Role::Paper,
            Role::Stripe,
        ];
        roles.extend(MEANINGS.iter().map(|(colour, _)| Role::from(*colour)));
        roles.extend((0..12).map(Role::Series));
        roles.extend((0..HEATS).map(Role::Heat));
        for role in roles {
            for fill in [
                FillStyle::Plain,
                FillStyle::Dashed,
                FillStyle::Dotted,
                FillStyle::Wash,
                FillStyle::Hatched,
                FillStyle::Halo,
                FillStyle::Solid,
            ] {
                let style = MarkStyle::new(role).with_fill(fill);
                let RGBColor(red, green, blue) = style.key();
                assert_eq!(MarkStyle::read((red, green, blue)), style);
            }
        }
    }

    #[test]
    fn a_meaning_has_the_name_of_its_colour() {
        assert_eq!(Role::from(Colour::Predicted).name(), "predicted");
        assert_eq!(Role::from(Colour::Series(9)).name(), "series-1");
        assert_eq!(MarkStyle::line(Colour::Series(9), false).fill, FillStyle::Dotted);
    }
}
