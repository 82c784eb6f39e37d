//! Measures, shortens and wraps texts. Measured with the bundled font, which also writes the PNG; a page uses the
//! system's font, which may be wider, so every width has a margin.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId};

/// The height from descent to ascent in em, the unit of SVG's font size. Ubuntu: ascent 932 and descent 189 of 1000
/// (`hhea` table).
const HEIGHT: f64 = 1.121;
/// How much wider system fonts may be than the bundled one.
const MARGIN: f64 = 1.2;

/// The width of a text in pixels, with a margin.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    static FONT: LazyLock<Option<Face>> = LazyLock::new(|| Face::parse(epaint_default_fonts::UBUNTU_LIGHT, 0).ok());
    let Some(font) = &*FONT else {
        return text.chars().count() as f64 * size;
    };
    // In whole hundredths of a pixel.
    let height = f32::from(font.ascender()) - f32::from(font.descender());
    let scale = (size * 100.0 * HEIGHT) as f32 / height;
    let mut width = 0.0;
    let mut previous = None;
    for letter in text.chars() {
        let glyph = font.glyph_index(letter).unwrap_or_default();
        width += scale * f32::from(font.glyph_hor_advance(glyph).unwrap_or_default());
        if let Some(previous) = previous {
            width += scale * f32::from(kerning(font, previous, glyph));
        }
        previous = Some(glyph);
    }
    f64::from(width as i32) / 100.0 * MARGIN
}

fn kerning(font: &Face, left: GlyphId, right: GlyphId) -> i16 {
    let tables = font.tables().kern.into_iter().flat_map(|kern| kern.subtables);
    let mut usable = tables.filter(|table| table.horizontal && !table.variable);
    usable
        .find_map(|table| table.glyphs_kerning(left, right))
        .unwrap_or_default()
}

/// Shortens a text to a width, with an ellipsis; empty if not even two letters fit.
pub(super) fn shorten(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let cut = |count: usize| format!("{}…", letters[..count].iter().collect::<String>().trim_end());
    // The width grows with the number of letters: bisect for the longest that fits.
    let (mut fits, mut fails) = (0, letters.len());
    while fails - fits > 1 {
        let middle = fits.midpoint(fails);
        match text_width(&cut(middle), size) <= room {
            true => fits = middle,
            false => fails = middle,
        }
    }
    if fits < 2 { String::new() } else { cut(fits) }
}

/// Wraps a text to a width, to at most `most` lines; the last one is shortened.
pub(super) fn wrap(text: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most.max(1) - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| shorten(line, size, room)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_as_wide_as_the_renderer_draws_it() {
        for text in ["output length, tokens", "8,192", "WWWWWWWW", "illicit"] {
            let svg = format!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="900" height="90"><text y="50" font-size="20" font-family="Ubuntu">{text}</text></svg>"#
            );
            let mut options = resvg::usvg::Options::default();
            options
                .fontdb_mut()
                .load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
            let tree = resvg::usvg::Tree::from_str(&svg, &options).unwrap();
            let drawn = f64::from(tree.root().abs_layer_bounding_box().width());
            let measured = text_width(text, 20.0) / MARGIN;
            assert!(
                (drawn - measured).abs() < 0.06 * measured + 2.0,
                "{text}: drawn {drawn}, measured {measured}"
            );
        }
    }

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(shorten("load", 12.0, 200.0), "load");
        assert_eq!(shorten("loading the weights", 12.0, 5.0), "");
        let cut = shorten("loading the weights", 12.0, 60.0);
        assert!(cut.starts_with("load") && cut.ends_with('…'), "{cut}");
    }

    #[test]
    fn texts_wrap_between_words() {
        assert_eq!(wrap("KV cache", 12.0, 20.0, 3), ["KV", ""]);
        assert_eq!(
            wrap("KV cache of the engine", 12.0, 60.0, 3),
            ["KV cache", "of the", "engine"]
        );
        assert_eq!(wrap("a b c d e f g h", 12.0, 24.0, 2).len(), 2);
    }

    proptest! {
        #[test]
        fn a_cut_text_fits(text in "\\PC{0,40}", room in 0.0..300.0_f64) {
            let cut = shorten(&text, 12.0, room);
            prop_assert!(cut.is_empty() || text_width(&cut, 12.0) <= room);
        }
    }
}
