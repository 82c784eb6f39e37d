//! Limits of engines' mechanisms: a sum of pieces that fits into a pool, with steps and caps.
//!
//! A piece is a number of tokens that the point takes by one mechanism: whole blocks, a window, a prefix that requests
//! share, a prompt padded to a power of two. One number inside it (the size of a block, the place of a kink) is
//! not known, so that each value of it makes a form. A cap bounds a second quantity beside the pool: the number of
//! sequences, the longest prompt, a second pool.

use crate::boundary::lattice::Cell;
use crate::boundary::{Axis, Easier, Scalar};
use crate::fmt::thousands;

/// A request count and the lengths of its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    input: f64,
    output: f64,
    count: f64,
}

/// Where the value of an input, an output or a count comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Fixed(f64),
    /// The free axis and its smallest value.
    Axis(usize, f64),
}

/// Reads loads from cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loads {
    /// The block size that the engine reports.
    block: Option<f64>,
    /// Input, output and count.
    sources: [Source; 3],
    largest: Load,
}

impl Loads {
    /// `None` if an axis is none of input, output and concurrency, or its larger values are not harder whole numbers.
    pub(super) fn new(axes: &[Axis], block: Option<u64>) -> Option<Self> {
        let mut sources = [Source::Fixed(0.0), Source::Fixed(0.0), Source::Fixed(1.0)];
        let mut largest = [0.0, 0.0, 1.0];
        let mut free = 0;
        for axis in axes {
            let index = ["input", "output", "concurrency"]
                .iter()
                .position(|name| *name == axis.name())?;
            let (Scalar::Int(low), Scalar::Int(high)) = axis.range() else {
                return None;
            };
            if axis.easier() != Easier::Down || low < 0 {
                return None;
            }
            largest[index] = high as f64;
            if axis.last() == 0 {
                sources[index] = Source::Fixed(low as f64);
            } else {
                sources[index] = Source::Axis(free, low as f64);
                free += 1;
            }
        }
        let [input, output, count] = largest;
        (input + output > 0.0 && count > 0.0).then_some(Self {
            block: block.filter(|block| *block > 1).map(|block| block as f64),
            sources,
            largest: Load { input, output, count },
        })
    }

    fn load(&self, cell: &Cell) -> Load {
        let value = |source: Source| match source {
            Source::Fixed(value) => value,
            Source::Axis(axis, low) => low + cell[axis] as f64,
        };
        let [input, output, count] = self.sources.map(value);
        Load { input, output, count }
    }

    /// The smallest input, at least 16.
    fn smallest_input(&self) -> f64 {
        match self.sources[0] {
            Source::Fixed(value) => value,
            Source::Axis(_, low) => low.max(16.0),
        }
    }

    fn is_searched(&self, index: usize) -> bool {
        matches!(self.sources[index], Source::Axis(..))
    }
}

/// The loads of the proven cells.
pub(super) struct ProvenLoads {
    pub(super) fits: Vec<Load>,
    pub(super) fails: Vec<Load>,
}

impl ProvenLoads {
    pub(super) fn new(loads: &Loads, fits: &[Cell], fails: &[Cell]) -> Self {
        let read = |cells: &[Cell]| cells.iter().map(|cell| loads.load(cell)).collect();
        Self {
            fits: read(fits),
            fails: read(fails),
        }
    }
}

/// The need of a point, as one or two sums of tokens that grow with its hardness, and the quantity capped beside the
/// pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Form {
    pieces: Pieces,
    cap: Cap,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pieces {
    /// Tokens of all requests.
    Tokens,
    /// Blocks of this size, by request, the last token not stored.
    Blocks(f64),
    /// Blocks of this size by request.
    FullBlocks(f64),
    /// Blocks of this size by request, and as many more for its state.
    BlocksAndState(f64),
    /// Blocks of this size by request, and any constant.
    BlocksAndMore(f64),
    /// Prompts in blocks of this size.
    InputBlocks(f64),
    /// Prompts padded to powers of two.
    PaddedInput,
    /// Requests padded to powers of two.
    PaddedTotal,
    /// Counts padded to a multiple of eight.
    CountsOfEight,
    /// Counts padded to the sizes of CUDA graphs.
    Graphs,
    /// Input and output with weights of their own.
    Weights,
    /// Activations of one prompt beside the cache, up to a chunk of this size.
    Chunk(f64),
    /// Layers that keep everything, and layers that keep a window of this size.
    Window(f64),
    /// More memory for each token of a prompt beyond this length.
    Kink(f64),
    /// A prefix of this length that all requests share.
    Prefix(f64),
    /// Buffers that are larger from this prompt length on.
    Jump(f64),
    /// Attention that takes the square of each prompt.
    Squares,
    /// Attention that takes the square of one prompt.
    Square,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cap {
    None,
    Count,
    Input,
    Total,
    Inputs,
    Outputs,
    /// Windows of this size.
    Windows(f64),
    /// Prompts of at most so many requests at once.
    InputsAtOnce(f64),
    /// Inputs, and this share of outputs.
    Weighted(f64),
}

fn round_up(value: f64, block: f64) -> f64 {
    (value / block).ceil() * block
}

fn power_of_two(value: f64) -> f64 {
    value.max(1.0).log2().ceil().exp2()
}

/// The sizes of CUDA graphs: 1, 2, 4, then multiples of 8, and from 32 on of 32.
fn graph(count: f64) -> f64 {
    match count {
        _ if count <= 4.0 => power_of_two(count),
        _ if count <= 32.0 => round_up(count, 8.0),
        _ => round_up(count, 32.0),
    }
}

impl Pieces {
    /// The one or two sums of a load.
    fn sums(self, load: Load) -> [f64; 2] {
        let Load { input, output, count } = load;
        let total = input + output;
        match self {
            Pieces::Tokens => [count * total, 0.0],
            Pieces::Blocks(block) => [count * round_up(total - 1.0, block), 0.0],
            Pieces::FullBlocks(block) => [count * round_up(total, block), 0.0],
            Pieces::BlocksAndState(block) => [count * (round_up(total, block) + block), 0.0],
            Pieces::BlocksAndMore(block) => [count * round_up(total, block), count],
            Pieces::InputBlocks(block) => [count * (round_up(input, block) + output), 0.0],
            Pieces::PaddedInput => [count * (power_of_two(input) + output), 0.0],
            Pieces::PaddedTotal => [count * power_of_two(total), 0.0],
            Pieces::CountsOfEight => [round_up(count, 8.0) * total, 0.0],
            Pieces::Graphs => [graph(count) * total, 0.0],
            Pieces::Weights => [count * input, count * output],
            Pieces::Chunk(chunk) => [count * total, input.min(chunk)],
            Pieces::Window(window) => [count * total, count * total.min(window)],
            Pieces::Kink(from) => [count * total, count * (input - from).max(0.0)],
            Pieces::Prefix(shared) => [input.min(shared) + count * ((input - shared).max(0.0) + output), 0.0],
            Pieces::Jump(from) => [count * total, if input > from { 1.0 } else { 0.0 }],
            Pieces::Squares => [count * total, count * input * input],
            Pieces::Square => [count * total, input * input],
        }
    }

    fn count(self) -> usize {
        match self {
            Pieces::BlocksAndMore(_)
            | Pieces::Weights
            | Pieces::Chunk(_)
            | Pieces::Window(_)
            | Pieces::Kink(_)
            | Pieces::Jump(_)
            | Pieces::Squares
            | Pieces::Square => 2,
            _ => 1,
        }
    }
}

impl Cap {
    /// The capped quantity of a load; 0 for no cap.
    fn quantity(self, load: Load) -> f64 {
        let Load { input, output, count } = load;
        match self {
            Cap::None => 0.0,
            Cap::Count => count,
            Cap::Input => input,
            Cap::Total => input + output,
            Cap::Inputs => count * input,
            Cap::Outputs => count * output,
            Cap::Windows(window) => count * (input + output).min(window),
            Cap::InputsAtOnce(most) => count.min(most) * input,
            Cap::Weighted(share) => count * (input + share * output),
        }
    }
}

/// A form over the loads of a search, scaled so that the hardest point has 1 in each term.
#[derive(Clone, Debug)]
pub(super) struct Mechanism {
    loads: Loads,
    form: Form,
    scale: [f64; 3],
}

/// Terms of a mechanism: what is capped, and two pieces.
pub(super) const TERMS: usize = 3;

impl Mechanism {
    fn new(loads: Loads, form: Form) -> Self {
        let [one, other] = form.pieces.sums(loads.largest);
        let scale =
            [form.cap.quantity(loads.largest), one, other].map(|most| if most > 0.0 { 1.0 / most } else { 0.0 });
        Self { loads, form, scale }
    }

    pub(super) fn terms(&self, cell: &Cell) -> [f64; TERMS] {
        self.terms_of(self.loads.load(cell))
    }

    fn terms_of(&self, load: Load) -> [f64; TERMS] {
        let [one, other] = self.form.pieces.sums(load);
        let terms = [self.form.cap.quantity(load), one, other];
        std::array::from_fn(|index| terms[index] * self.scale[index])
    }

    /// Its terms at each of these loads.
    pub(super) fn terms_at<'a>(&'a self, loads: &'a [Load]) -> impl Iterator<Item = [f64; TERMS]> + 'a {
        loads.iter().map(|load| self.terms_of(*load))
    }

    /// Whether some limit of the form may violate the proven points by no more than `tolerated`, with its cap just
    /// beyond what fits. Exact for a single piece; a form of two pieces always may.
    pub(super) fn may_agree(&self, proven: &ProvenLoads, tolerated: f64) -> bool {
        if self.pieces() > 1 {
            return true;
        }
        let piece = |load: &Load| self.form.pieces.sums(*load)[0];
        let capped = |load: &Load| self.form.cap.quantity(*load);
        let most = proven.fits.iter().map(piece).fold(0.0, f64::max);
        let least = most * (1.0 - tolerated) / (1.0 + tolerated);
        let cap = match self.is_capped() {
            true => proven.fits.iter().map(capped).fold(0.0, f64::max) * (1.0 + 1e-9),
            false => f64::INFINITY,
        };
        proven
            .fails
            .iter()
            .all(|load| piece(load) >= least || capped(load) > cap)
    }

    /// The form as people write it, given the weights of its piece, if it counts blocks of requests and has no cap.
    pub(super) fn formula(&self, weights: &[f64]) -> Option<String> {
        let (block, by_request) = match self.form.pieces {
            Pieces::Blocks(block) => (block, ["⌈(input + output - 1) / ", "⌉"]),
            Pieces::FullBlocks(block) => (block, ["⌈(input + output) / ", "⌉"]),
            Pieces::BlocksAndState(block) => (block, ["(⌈(input + output) / ", "⌉ + 1)"]),
            _ => return None,
        };
        let all = weights
            .iter()
            .map(|weight| 1.0 / (weight * self.scale[1] * block) + 1e-6);
        let (least, most) = all.fold((f64::INFINITY, 0.0), |(least, most), all| {
            (f64::min(least, all), f64::max(most, all))
        });
        if self.is_capped() || !most.is_finite() {
            return None;
        }
        let [before, after] = by_request;
        let (about, all) = if least.floor() < most.floor() {
            ("about ", f64::midpoint(least, most))
        } else {
            ("", most)
        };
        let [block, all] = [block, all.floor()].map(|value| thousands(value as u64));
        Some(format!("concurrency × {before}{block}{after} ≤ {about}{all}"))
    }

    /// The number of its pieces.
    pub(super) fn pieces(&self) -> usize {
        self.form.pieces.count()
    }

    /// Whether something is capped.
    pub(super) fn is_capped(&self) -> bool {
        self.form.cap != Cap::None
    }
}

/// Forms of one kind, for each value of the number that is not known.
pub(super) struct Kind {
    pub(super) forms: Vec<Mechanism>,
    /// The prior probability of the kind, relative to those of the families.
    pub(super) prior: f64,
    /// Whether values between those of the forms are possible.
    pub(super) continuous: bool,
}

impl Mechanism {
    /// The form with its number between two others by the geometric mean.
    pub(super) fn between(&self, other: &Self) -> Option<Self> {
        let mean = |one: f64, other: f64| (one * other).sqrt();
        let pieces = match (self.form.pieces, other.form.pieces) {
            (Pieces::Chunk(one), Pieces::Chunk(other)) => Pieces::Chunk(mean(one, other)),
            (Pieces::Window(one), Pieces::Window(other)) => Pieces::Window(mean(one, other)),
            (Pieces::Kink(one), Pieces::Kink(other)) => Pieces::Kink(mean(one, other)),
            (Pieces::Prefix(one), Pieces::Prefix(other)) => Pieces::Prefix(mean(one, other)),
            (Pieces::Jump(one), Pieces::Jump(other)) => Pieces::Jump(mean(one, other)),
            _ => return None,
        };
        Some(Self::new(
            self.loads,
            Form {
                pieces,
                cap: self.form.cap,
            },
        ))
    }
}

/// Values of a number that is not known, from `low` to `high`, each two fifths more than the one before.
fn spread(low: f64, high: f64) -> Vec<f64> {
    let mut values = Vec::new();
    let mut at = low.max(16.0);
    while at < high {
        values.push(at);
        at *= 1.4;
    }
    values
}

/// Block sizes: multiples of 16 of which several fit into the longest request.
fn block_sizes(longest: f64) -> Vec<f64> {
    (1..=160)
        .map(|blocks| 16.0 * f64::from(blocks))
        .filter(|size| 3.0 * size <= longest)
        .collect()
}

/// Common sizes of windows.
const WINDOWS: [f64; 5] = [512.0, 1024.0, 2048.0, 4096.0, 8192.0];

/// The kinds of mechanisms over the axes of a search.
pub(super) fn kinds(loads: Loads) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let mut add = |pieces: Vec<Pieces>, cap: Cap, prior: f64, continuous: bool| {
        let forms: Vec<Mechanism> = pieces
            .into_iter()
            .map(|pieces| Mechanism::new(loads, Form { pieces, cap }))
            .collect();
        if !forms.is_empty() {
            kinds.push(Kind {
                forms,
                prior,
                continuous,
            });
        }
    };
    let Load { input, output, .. } = loads.largest;
    let [by_input, by_output, by_count] = [0, 1, 2].map(|index| loads.is_searched(index));
    let each = |sizes: Vec<f64>, piece: fn(f64) -> Pieces| sizes.into_iter().map(piece).collect::<Vec<_>>();
    let sizes = block_sizes(input + output);
    let common: Vec<f64> = sizes
        .iter()
        .copied()
        .filter(|size| [16.0, 32.0, 64.0, 128.0, 256.0].contains(size))
        .collect();
    add(each(common, Pieces::Blocks), Cap::None, 2.0, false);
    add(each(sizes.clone(), Pieces::Blocks), Cap::None, 1.0, false);
    add(each(sizes.clone(), Pieces::FullBlocks), Cap::None, 1.0, false);
    add(each(sizes.clone(), Pieces::BlocksAndState), Cap::None, 1.0, false);
    if let Some(block) = loads.block {
        for form in [Pieces::Blocks, Pieces::FullBlocks, Pieces::BlocksAndState] {
            add(vec![form(block)], Cap::None, 2.0, false);
        }
    }
    let coarse = sizes.iter().copied().filter(|size| size % 256.0 == 0.0).collect();
    add(each(coarse, Pieces::BlocksAndMore), Cap::None, 0.5, false);
    if by_input {
        let sizes = sizes
            .iter()
            .copied()
            .filter(|size| size.log2().fract() == 0.0)
            .collect();
        add(each(sizes, Pieces::InputBlocks), Cap::None, 0.5, false);
        add(vec![Pieces::PaddedInput], Cap::None, 1.0, false);
        let (low, high) = (loads.smallest_input(), input);
        add(each(spread(low, high), Pieces::Kink), Cap::None, 2.0, true);
        add(each(spread(low, high), Pieces::Jump), Cap::None, 0.5, true);
        if by_count {
            add(each(spread(low, high), Pieces::Chunk), Cap::None, 1.0, true);
            add(each(spread(low, high), Pieces::Prefix), Cap::None, 1.0, true);
        }
        if by_count && by_output {
            add(vec![Pieces::Squares], Cap::None, 2.0, false);
            add(vec![Pieces::Square], Cap::None, 2.0, false);
            add(vec![Pieces::Weights], Cap::None, 4.0, false);
        }
    }
    add(vec![Pieces::PaddedTotal], Cap::None, 0.2, false);
    add(each(spread(64.0, input + output), Pieces::Window), Cap::None, 2.0, true);
    let mut caps = Vec::new();
    if by_count {
        add(vec![Pieces::CountsOfEight], Cap::None, 0.3, false);
        add(vec![Pieces::Graphs], Cap::None, 0.5, false);
        caps.push((Cap::Count, 4.0));
        caps.extend(WINDOWS.map(|window| (Cap::Windows(window), 0.2)));
        if by_input {
            caps.extend([(Cap::Input, 2.0), (Cap::Inputs, 0.5)]);
            caps.extend([2.0, 4.0, 8.0, 16.0].map(|most| (Cap::InputsAtOnce(most), 0.2)));
        }
    }
    if by_input || by_output {
        caps.push((Cap::Total, 2.0));
    }
    if by_output {
        caps.push((Cap::Outputs, 0.3));
    }
    if by_input && by_output {
        caps.extend([0.0, 0.2, 0.4, 0.6, 0.8].map(|share| (Cap::Weighted(share), 0.3)));
    }
    for (cap, prior) in caps {
        add(vec![Pieces::Tokens], cap, prior, false);
        add(vec![Pieces::Blocks(16.0)], cap, prior / 4.0, false);
        if by_count && by_output {
            add(vec![Pieces::Weights], cap, prior / 8.0, false);
        }
    }
    kinds
}
