//! Colours and names of memory components, the same in every chart.

use crate::memory::{Component, Part};
use crate::report::plot::Colour;

/// Colour of the total-memory line; not used by any component.
pub(super) const IN_USE: Colour = Colour::Series(4);

pub(super) fn colour(component: Component) -> Colour {
    match component {
        Component::Weights => Colour::Series(0),
        Component::KvPool => Colour::Series(1),
        Component::KvUsed => Colour::Series(2),
        Component::Activations => Colour::Series(3),
        Component::CudaGraphs => Colour::Series(7),
        Component::RuntimeContext => Colour::Series(5),
        Component::OtherTenants => Colour::Series(6),
        Component::Unexplained => Colour::Open,
    }
}

pub(super) fn legend_label(part: &Part) -> String {
    format!("{} ({})", part.component.title(), part.provenance)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_components_share_a_colour() {
        let mut colours: HashSet<Colour> = Component::ALL.into_iter().map(colour).collect();
        assert!(colours.insert(IN_USE));
        assert_eq!(colours.len(), Component::ALL.len() + 1);
    }
}
