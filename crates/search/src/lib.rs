//! The search for limits: boundaries, experiments, and what they need. Pure, and optimised in every build.

pub mod boundary;
pub mod cost;
pub mod error;
pub mod experiment;
pub mod fmt;
mod nnls;
mod pace;

/// Gives an enum the names of its variants in scripts, JSON and reports: `ALL` and `name`.
#[macro_export]
macro_rules! names {
    ($type:ident { $($variant:ident $name:literal,)* }) => {
        impl $type {
            /// Every variant.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in scripts, JSON and reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
    // The last variant holds any other name.
    ($type:ident { $($variant:ident $name:literal,)* } or $other:ident) => {
        impl $type {
            /// Every known variant.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in scripts, JSON and reports.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::$other(name) => name,
                }
            }
        }

        impl From<&str> for $type {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::$other(other.into()),
                }
            }
        }
    };
}
