//! Strategies beyond `std/search`: the method of tgi-profiler.

mod neighbours;
