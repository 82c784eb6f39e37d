//! Strategies beyond `std/search`, how to write one, and the files by which people come over from tgi-profiler.

mod fitted;
mod model_guided;
mod neighbours;
mod own;
mod results;
