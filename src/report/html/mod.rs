//! Renders a report as one self-contained HTML file without network access or frameworks. Everything is
//! readable without the script, which adds tooltips, keyboard navigation, sliders and copying.
//!
//! `page.html` is the template; it includes `style.css` and `script.js`. `view` holds the template's data,
//! `figure` renders a figure, `columns` is the data for the script.

mod columns;
mod figure;
mod page;
mod table;
mod view;

pub use page::{page, slug};
pub use view::Anchors;
