//! A user picks a strategy other than `std/search`, writes one, or brings files of tgi-profiler.

mod fitted;
mod model_guided;
mod neighbours;
mod own;
mod real_limits;
mod results;
mod time_left;
