//! How wide texts are, and how they are made to fit. Measured with the one font that is always there, which also writes the PNG; a page is read in
//! the font of its system, which may be wider, so that all room is reckoned with a margin.

use std::sync::Once;

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

/// The name under which plotters knows the font.
pub(super) const FAMILY: &str = "sans-serif";
/// plotters takes a font's size as its height from the lowest to the highest letter; SVG takes it as its em. Ubuntu: ascent 932 and descent
/// 189 of 1000 (its `hhea` table).
const HEIGHT: f64 = 1.121;
/// What system fonts may be wider than the one that is measured.
const MARGIN: f64 = 1.2;

/// The font of texts of so many pixels.
pub(super) fn font(size: f64, bold: bool) -> FontDesc<'static> {
    static READY: Once = Once::new();
    READY.call_once(|| {
        let known = register_font(FAMILY, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
        debug_assert!(known.is_ok(), "the font that comes with the program is a font");
    });
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    FontDesc::new(FontFamily::SansSerif, size, style)
}

/// The room that a text needs in pixels.
pub(super) fn wide(text: &str, size: f64) -> f64 {
    // In hundredths, as the answer is in whole numbers.
    match font(size * 100.0 * HEIGHT, false).layout_box(text) {
        Ok(((left, _), (right, _))) => f64::from(right - left) / 100.0 * MARGIN,
        Err(_) => text.chars().count() as f64 * size,
    }
}

/// A text cut to its room, with an ellipsis; empty where not even two letters fit.
pub(super) fn shorten(text: &str, size: f64, room: f64) -> String {
    if wide(text, size) <= room {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let cut = |count: usize| format!("{}…", letters[..count].iter().collect::<String>().trim_end());
    // The width grows with the letters, so that halving finds the longest that fits.
    let (mut fits, mut fails) = (0, letters.len());
    while fails - fits > 1 {
        let middle = fits.midpoint(fails);
        match wide(&cut(middle), size) <= room {
            true => fits = middle,
            false => fails = middle,
        }
    }
    if fits < 2 { String::new() } else { cut(fits) }
}

/// A text in lines of a room, so many at most; what is left over is cut.
pub(super) fn wrap(text: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if wide(&format!("{line} {word}"), size) <= room => {
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
            let measured = wide(text, 20.0) / MARGIN;
            assert!(
                (drawn - measured).abs() < 0.06 * measured + 2.0,
                "{text}: drawn {drawn}, measured {measured}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(shorten("load", 12.0, 200.0), "load");
        assert_eq!(shorten("loading the weights", 12.0, 5.0), "");
        let cut = shorten("loading the weights", 12.0, 60.0);
        assert!(cut.starts_with("load") && cut.ends_with('…'), "{cut}");
    }

    #[test]
    fn words_go_on_below() {
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
            prop_assert!(cut.is_empty() || wide(&cut, 12.0) <= room);
        }
    }
}
