//! How wide the open region still is along each axis.

use super::lattice::below;
use super::{Boundary, Scalar};
use crate::fault::Result;

impl Boundary {
    /// The widest run of open values along each axis, in the axis' own unit; 0 if nothing is open.
    ///
    /// Every open run lies in a box between a lowest and a highest open cell, and every such box is open throughout.
    pub fn gap(&self) -> Result<Vec<(String, Scalar)>> {
        let view = self.view()?;
        let mut widest: Vec<Option<f64>> = vec![None; self.lattice.axes().len()];
        for low in &view.lowest {
            for high in view.highest.iter().filter(|high| below(low, high)) {
                for (index, axis) in self.lattice.axes().iter().enumerate() {
                    // From the last settled value below to the first one above, within the range.
                    let from = (low[index] - 1).max(0);
                    let to = (high[index] + 1).min(axis.last());
                    let width = axis.distance(from, to);
                    widest[index] = Some(widest[index].map_or(width, |most| most.max(width)));
                }
            }
        }
        let axes = self.lattice.axes().iter().zip(widest);
        Ok(axes
            .map(|(axis, width)| (axis.name().to_owned(), axis.scalar(width.unwrap_or(0.0))))
            .collect())
    }
}
