//! Every kind of picture, read back as a renderer reads it.

mod contrast;
mod gallery;
mod phases;
mod rows;
mod samples;
mod structure;
