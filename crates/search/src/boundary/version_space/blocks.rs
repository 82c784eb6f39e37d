//! Block sizes that agree with all answers: an engine may count lengths in blocks, so that its limit moves in steps.

use super::limits::Frame;
use crate::boundary::lattice::Cell;

/// Common block sizes: powers of two, and round numbers.
const BLOCK_SIZES: [i64; 22] = [
    8, 10, 16, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1000, 1024, 2000, 2048, 2500, 4096, 5000, 8192, 10_000,
];
/// The fewest blocks that an axis must have.
const MIN_BLOCKS: f64 = 3.0;

/// Frames that round lengths up to blocks, each length alone and all together, largest blocks first. Only frames in
/// which no failing cell lies in or below the blocks of a fitting cell.
pub(super) fn roundings(frame: &Frame, fits: &[Cell], fails: &[Cell]) -> Vec<Frame> {
    let Some(largest) = &frame.largest else {
        return Vec::new();
    };
    let axes = largest.len();
    let sides: Vec<AxisOrder> = (0..axes).map(|axis| AxisOrder::new(axis, fits, fails)).collect();
    let alone: Vec<Vec<usize>> = sides.iter().map(|side| side.reached(frame, 1.0)).collect();
    let each: Vec<usize> = (0..axes)
        .filter(|axis| Some(*axis) != frame.requests)
        .map(|axis| 1 << axis)
        .collect();
    let together = (each.len() > 1).then(|| each.iter().sum());
    let lengths: Vec<usize> = each.into_iter().chain(together).collect();
    let countings = frame.countings();
    let mut found = Vec::new();
    for (size, frame) in BLOCK_SIZES
        .iter()
        .rev()
        .flat_map(|size| countings.iter().map(move |frame| (*size as f64, frame)))
    {
        let wide = |axis: &usize| size * MIN_BLOCKS <= largest[*axis];
        let rounded: Vec<Option<Vec<usize>>> = (0..axes)
            .map(|axis| wide(&axis).then(|| sides[axis].reached(frame, size)))
            .collect();
        for which in &lengths {
            let is_rounded = |axis: &usize| which >> axis & 1 == 1;
            let reached: Option<Vec<&Vec<usize>>> = (0..axes)
                .map(|axis| {
                    if is_rounded(&axis) {
                        rounded[axis].as_ref()
                    } else {
                        Some(&alone[axis])
                    }
                })
                .collect();
            if reached.is_some_and(|reached| agrees(&sides, &reached, fits.len())) {
                let block = |axis: usize| if is_rounded(&axis) { size } else { 1.0 };
                found.push(frame.rounded((0..axes).map(block).collect()));
            }
        }
    }
    found
}

/// Whether no failing cell lies in or below the blocks of a fitting one. `reached` holds, by axis and then by fitting
/// cell, how many failing cells (in their order on that axis) lie no further.
fn agrees(sides: &[AxisOrder], reached: &[&Vec<usize>], fits: usize) -> bool {
    let words = sides[0].first[0].len();
    (0..fits).all(|fit| {
        (0..words).all(|word| {
            let sets = sides
                .iter()
                .zip(reached)
                .map(|(side, reached)| side.first[reached[fit]][word]);
            sets.fold(u64::MAX, |both, set| both & set) == 0
        })
    })
}

/// One axis of fitting and failing cells.
struct AxisOrder {
    axis: usize,
    fits: Vec<i64>,
    /// In rising order.
    fails: Vec<i64>,
    /// The set of the first n failing cells, one bit each, by n.
    first: Vec<Vec<u64>>,
}

impl AxisOrder {
    fn new(axis: usize, fits: &[Cell], fails: &[Cell]) -> Self {
        let mut sorted: Vec<(i64, usize)> = fails.iter().map(|cell| cell[axis]).zip(0..).collect();
        sorted.sort_unstable();
        let mut set = vec![0; fails.len().div_ceil(64)];
        let mut first = vec![set.clone()];
        for (_, index) in &sorted {
            set[index / 64] |= 1 << (index % 64);
            first.push(set.clone());
        }
        Self {
            axis,
            fits: fits.iter().map(|cell| cell[axis]).collect(),
            fails: sorted.into_iter().map(|(at, _)| at).collect(),
            first,
        }
    }

    /// For each fitting cell, how many failing cells lie in or below its block.
    fn reached(&self, frame: &Frame, block: f64) -> Vec<usize> {
        let place = |at: &i64| (frame.coordinate(self.axis, *at, block) * 1e12).round() as i64;
        let fails: Vec<i64> = self.fails.iter().map(place).collect();
        let count = |fit: &i64| {
            let fit = place(fit);
            fails.partition_point(|fail| *fail <= fit)
        };
        self.fits.iter().map(count).collect()
    }
}
