//! Renders every kind of plot and reads it back as a renderer does.

mod contrast;
mod gallery;
mod phases;
mod rows;
mod samples;
mod structure;
