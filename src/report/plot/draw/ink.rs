//! What a mark is drawn with: a role instead of a colour. plotters knows only colours, so that each ink travels through it as a key colour of its own
//! (role, number within the role, wear), and is a class again where the SVG is written.

use plotters::style::RGBColor;

use crate::report::plot::Colour;

/// What a mark is, for whoever gives it a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    /// Text.
    Ink,
    /// Text that stands back: ticks, axes.
    Faint,
    /// Lines of the grid.
    Grid,
    /// The line on which a panel stands.
    Edge,
    /// What lies below everything.
    Paper,
    /// Every other phase.
    Stripe,
    /// A meaning, by its number.
    Meaning(u8),
    /// One of several things.
    Series(u8),
    /// A step of the scale of values, from the lowest.
    Heat(u8),
}

/// How it is worn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Wear {
    /// Solid.
    #[default]
    Plain,
    /// A broken line.
    Dashed,
    /// A line of dots: the series beyond the eighth.
    Dotted,
    /// A thin wash of an area.
    Wash,
    /// An area that stands for an amount: less loud than a line of its colour.
    Solid,
    /// An area of stripes.
    Hatched,
    /// A text that keeps its distance from what lies below it.
    Halo,
}

/// The inks that have a name: meanings in the order of their numbers.
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
/// How many series have a colour of their own.
pub(super) const SERIES: u8 = 8;
/// Steps of the scale of values.
pub(super) const HEATS: u8 = 32;

impl Role {
    /// Its name in a class.
    pub(super) fn name(self) -> String {
        match self {
            Self::Ink => "ink".into(),
            Self::Faint => "faint".into(),
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
                let number = MEANINGS.iter().position(|(known, _)| *known == colour);
                Self::Meaning(u8::try_from(number.unwrap_or(0)).unwrap_or(0))
            }
        }
    }
}

/// A role, worn in a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ink {
    pub(super) role: Role,
    pub(super) wear: Wear,
}

impl Ink {
    /// Worn plainly.
    pub(super) fn of(role: impl Into<Role>) -> Self {
        Self {
            role: role.into(),
            wear: Wear::Plain,
        }
    }

    /// Worn in this way.
    pub(super) fn worn(self, wear: Wear) -> Self {
        Self { wear, ..self }
    }

    /// The ink of a line: broken where asked for, and dotted beyond the eighth series.
    pub(super) fn line(colour: Colour, dashed: bool) -> Self {
        let wear = match colour {
            Colour::Series(number) if number >= SERIES => Wear::Dotted,
            _ if dashed => Wear::Dashed,
            _ => Wear::Plain,
        };
        Self::of(colour).worn(wear)
    }

    /// The colour that stands for it.
    pub(super) fn key(self) -> RGBColor {
        let (role, number) = match self.role {
            Role::Ink => (0, 0),
            Role::Faint => (1, 0),
            Role::Grid => (2, 0),
            Role::Edge => (3, 0),
            Role::Paper => (4, 0),
            Role::Stripe => (5, 0),
            Role::Meaning(number) => (6, number),
            Role::Series(number) => (7, number),
            Role::Heat(step) => (8, step),
        };
        let wear = match self.wear {
            Wear::Plain => 0,
            Wear::Dashed => 1,
            Wear::Dotted => 2,
            Wear::Wash => 3,
            Wear::Hatched => 4,
            Wear::Halo => 5,
            Wear::Solid => 6,
        };
        RGBColor(role, number, wear)
    }

    /// The ink for which a colour stands.
    pub(super) fn read((role, number, wear): (u8, u8, u8)) -> Self {
        let role = match role {
            1 => Role::Faint,
            2 => Role::Grid,
            3 => Role::Edge,
            4 => Role::Paper,
            5 => Role::Stripe,
            6 => Role::Meaning(number),
            7 => Role::Series(number),
            8 => Role::Heat(number),
            _ => Role::Ink,
        };
        let wear = match wear {
            1 => Wear::Dashed,
            2 => Wear::Dotted,
            3 => Wear::Wash,
            4 => Wear::Hatched,
            5 => Wear::Halo,
            6 => Wear::Solid,
            _ => Wear::Plain,
        };
        Self { role, wear }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ink_comes_back_from_its_colour() {
        let mut roles = vec![
            Role::Ink,
            Role::Faint,
            Role::Grid,
            Role::Edge,
            Role::Paper,
            Role::Stripe,
        ];
        roles.extend(MEANINGS.iter().map(|(colour, _)| Role::from(*colour)));
        roles.extend((0..12).map(Role::Series));
        roles.extend((0..HEATS).map(Role::Heat));
        for role in roles {
            for wear in [
                Wear::Plain,
                Wear::Dashed,
                Wear::Dotted,
                Wear::Wash,
                Wear::Hatched,
                Wear::Halo,
                Wear::Solid,
            ] {
                let ink = Ink::of(role).worn(wear);
                let RGBColor(red, green, blue) = ink.key();
                assert_eq!(Ink::read((red, green, blue)), ink);
            }
        }
    }

    #[test]
    fn a_meaning_has_the_name_of_its_colour() {
        assert_eq!(Role::from(Colour::Predicted).name(), "predicted");
        assert_eq!(Role::from(Colour::Series(9)).name(), "series-1");
        assert_eq!(Ink::line(Colour::Series(9), false).wear, Wear::Dotted);
    }
}
