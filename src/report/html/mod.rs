//! The report as one HTML file: no network, no framework, nothing beside it. Everything that can be read is in it without the script; the script
//! adds what is told of the place under the mouse, keys, sliders, copying.
//!
//! `page.html` is the template, `style.css` and `script.js` stand in it; `view` is what the template fills in, `figure` makes it of a picture,
//! `columns` is the data that the script needs, each column once.

mod columns;
mod figure;
mod page;
mod table;
mod view;

pub use page::{page, slug};
pub use view::Anchors;
