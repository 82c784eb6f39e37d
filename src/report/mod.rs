//! What people see: the live view, the boundary as a picture, tables. With `cli`, the only room that prints.
//!
//! In the terminal: `terminal` owns the two streams, `page` says what a text may be made of, `live` draws a run while it goes on, `picture`, `table`
//! and `summary` make texts of a boundary, `breakdown` of where memory goes, `experiment` of settings against each other, `memory` and `stages` of
//! memory over time; `drawing` is what scripts draw of figures of their own. `advice` says what to run, `findings` is that as a value, and `alike` tells warnings of
//! one kind as one.
//!
//! As a page: `story` turns a run's folder into words and pictures that know nothing of HTML, `plot` describes and draws the pictures, `html` sets both into one
//! file. `beside` sets runs against each other and against thresholds, `comparison` memory against estimates and other tools.

mod advice;
mod alike;
mod beside;
mod breakdown;
mod comparison;
mod drawing;
mod estimate;
mod experiment;
mod figure;
mod findings;
pub mod html;
mod live;
mod memory;
mod page;
mod picture;
pub mod plot;
mod spark;
mod stages;
pub mod story;
mod subject;
mod summary;
mod table;
mod terminal;
mod unit;

pub use advice::{Advice, advise};
pub use alike::{Alike, alike};
pub use beside::{
    Alone, Beside, Finding, Judged, Line, Rule, Section, Thresholds, Turned, Unlike, Verdict, beside, doubts, markdown,
    partner,
};
pub use breakdown::breakdown;
pub use comparison::comparison;
pub use drawing::{Columns, Drawn, Heat, Lines, sheet};
pub use estimate::estimates;
pub use experiment::{experiment, planned};
pub use findings::{Findings, Row};
pub use live::{Live, own_words};
pub use memory::memory;
pub use page::Page;
pub use picture::draw;
pub use stages::stages;
pub use subject::{implausible, lines, notes, subject};
pub use summary::{Extras, SIMULATED, summarize};
pub use terminal::Terminal;
pub use unit::{Bytes, Clock, Count};
