//! Strategies beyond `std/search`: rules of one's own, and the method of tgi-profiler.

mod follow;
mod neighbours;
