//! Writes all samples as files to inspect: `PROFILER_GALLERY=FOLDER cargo test --lib gallery`.

use super::samples::all;
use crate::report::plot::draw::{Width, css, file, png, svg};

#[test]
fn every_sample_is_drawn() {
    let folder = std::env::var_os("PROFILER_GALLERY").map(std::path::PathBuf::from);
    let mut page = format!(
        "<!doctype html><meta charset=utf-8><style>body{{background:var(--plot-paper);color:var(--plot-ink);font-family:system-ui;margin:20px}}svg{{display:block;max-width:100%}}.plot-wide{{width:960px}}.plot-narrow{{width:400px}}{}</style>",
        css()
    );
    for plot in all() {
        let drawn = file(&plot, plot.name == "load");
        let picture = png(&plot, plot.name == "load", 1.0).unwrap();
        assert!(picture.starts_with(b"\x89PNG"));
        for width in [Width::Wide, Width::Narrow] {
            page.push_str(&format!("<h2>{}</h2>{}", plot.name, svg(&plot, width).svg));
        }
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(format!("{}.svg", plot.name)), drawn).unwrap();
            std::fs::write(folder.join(format!("{}.png", plot.name)), picture).unwrap();
        }
    }
    if let Some(folder) = &folder {
        std::fs::write(folder.join("page.html"), page).unwrap();
    }
}
