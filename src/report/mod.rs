//! What people see: the live view, the boundary as a picture, tables. With `cli`, the only room that prints.

mod terminal;

pub use terminal::Terminal;
