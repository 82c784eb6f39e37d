//! A text under its encodings: what stands in it percent-encoded, escaped as in JSON, source code or HTML, in
//! hexadecimal or base64, in any mixture, with the place of each decoded byte in the text.
//!
//! Searching decoded text finds a secret however its parts were written, where a list of encoded forms would have to
//! name every producer's habits.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use memchr::{memchr, memchr3};

/// Encodings below each other that are undone.
const DEPTH: usize = 4;

/// Bytes that are decoded at a time, and how many of them are read again with the next ones, so that an encoded secret
/// lies in one piece. An eighth of it is the longest secret that is found across pieces.
const PIECE: usize = 256 << 10;
const OVERLAP: usize = 32 << 10;

/// Shortest run of hexadecimal or base64 digits that may be an encoded secret, which has at least 8 characters.
const LEAST_HEX: usize = 16;
const LEAST_BASE64: usize = 11;

/// Bytes that are decoded for each byte of a text at most, so that a text made for it cannot hold up what writes it.
const MAX_WORK: usize = 64;
/// A shorter text may take as much work as one of this length.
const LITTLE: usize = 4 << 10;

/// The signs with which escapes begin: all together, and one by one.
const ESCAPES: [u8; 3] = *b"%\\&";
const KINDS: [&[u8]; 4] = [&ESCAPES, b"%", b"\\", b"&"];

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes, and for each the part of the text that stands for it.
struct Layer {
    bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
}

/// Calls `search` with a text, and with what stands in it under its encodings. It returns the ranges that it found,
/// and so does this: as ranges of the text, in no order.
pub(super) fn find(text: &[u8], search: &mut dyn FnMut(&[u8]) -> Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut found = search(text);
    let mut start = 0;
    while start < text.len() {
        let end = text.len().min(start + PIECE);
        let piece = &text[start..end];
        if may_be_encoded(piece) {
            let mut decoding = Decoding {
                search,
                left: MAX_WORK * piece.len().max(LITTLE),
                seen: HashMap::new(),
                found: Vec::new(),
            };
            decoding.below(&Layer::of(piece), DEPTH);
            let below = decoding.found.into_iter();
            found.extend(below.map(|range| start + range.start..start + range.end));
        }
        start = if end == text.len() { end } else { end - OVERLAP };
    }
    found
}

/// A text, and it with one level of its escapes undone after the other: as many as [`find`] undoes.
pub(super) fn levels(text: &str) -> Vec<Vec<u8>> {
    let inner = |last: &Vec<u8>| Some(Layer::of(last).unescaped(&ESCAPES)?.bytes);
    std::iter::successors(Some(text.as_bytes().to_vec()), inner)
        .take(1 + DEPTH)
        .collect()
}

/// Whether anything in these bytes can be decoded. Most texts have nothing.
fn may_be_encoded(bytes: &[u8]) -> bool {
    memchr3(b'%', b'\\', b'&', bytes).is_some()
        || runs(bytes, LEAST_HEX, &HEX).next().is_some()
        || runs(bytes, LEAST_BASE64, &BASE64).next().is_some()
}

#[derive(Hash)]
enum Form {
    Text,
    Hex,
    Base64,
}

/// The search of all that a text decodes to.
struct Decoding<'a> {
    search: &'a mut dyn FnMut(&[u8]) -> Vec<Range<usize>>,
    /// How many bytes may still be decoded.
    left: usize,
    /// Hashes of what was decoded already, and how many levels below each.
    seen: HashMap<u64, usize>,
    found: Vec<Range<usize>>,
}

impl Decoding<'_> {
    fn below(&mut self, layer: &Layer, depth: usize) {
        if depth == 0 {
            return;
        }
        // Producers escape with one kind of sign, and what looks like another kind may be the text itself.
        let signs = ESCAPES.iter().filter(|sign| layer.bytes.contains(sign)).count();
        let kinds = if signs > 1 { &KINDS[..] } else { &KINDS[..1] };
        for kind in kinds {
            let inner = layer.unescaped(kind).filter(|inner| !inner.bytes.is_empty());
            if let Some(inner) = inner.filter(|inner| self.is_new(Form::Text, inner, 0..inner.bytes.len(), depth)) {
                self.look(&inner, depth);
            }
        }
        for run in runs(&layer.bytes, LEAST_HEX, &HEX) {
            if self.is_new(Form::Hex, layer, run.clone(), depth) {
                layer.unhexed(run).iter().for_each(|inner| self.look(inner, depth));
            }
        }
        for run in runs(&layer.bytes, LEAST_BASE64, &BASE64) {
            if self.is_new(Form::Base64, layer, run.clone(), depth) {
                layer.unbased(run).iter().for_each(|inner| self.look(inner, depth));
            }
        }
    }

    /// Whether this part of a layer is new in this form and at this depth. It is known if the same bytes came before from
    /// the same part of the text: escapes of several kinds can be undone in any order and leave other text unchanged.
    fn is_new(&mut self, form: Form, layer: &Layer, part: Range<usize>, depth: usize) -> bool {
        let mut hasher = DefaultHasher::new();
        form.hash(&mut hasher);
        hasher.write(&layer.bytes[part.clone()]);
        layer.place(part).hash(&mut hasher);
        let known = self.seen.entry(hasher.finish()).or_default();
        let is_new = *known < depth;
        *known = depth.max(*known);
        is_new
    }

    fn look(&mut self, inner: &Layer, depth: usize) {
        let Some(left) = self.left.checked_sub(inner.bytes.len()) else {
            return;
        };
        self.left = left;
        for range in (self.search)(&inner.bytes)
            .into_iter()
            .filter(|range| !range.is_empty())
        {
            let (start, end) = inner.place(range);
            self.found.push(start as usize..end as usize);
        }
        if may_be_encoded(&inner.bytes) {
            self.below(inner, depth - 1);
        }
    }
}

/// Ranges of at least `least` digits, with the bytes between them that separate digits: at most two, then any line ends
/// and indents.
fn runs<'a>(bytes: &'a [u8], least: usize, class: &'a [Digit; 256]) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at;
            let (mut digits, mut end, mut new_line) = (0, at, false);
            while let Some(byte) = bytes.get(at) {
                let ends_line = matches!(byte, b'\n' | b'\r');
                match class[usize::from(*byte)] {
                    Digit::One => (digits, end, new_line) = (digits + 1, at + 1, false),
                    Digit::Between if digits > 0 && (ends_line || at - end < 2) => new_line |= ends_line,
                    _ if new_line && matches!(byte, b' ' | b'\t') => {}
                    _ => break,
                }
                at += 1;
            }
            at = at.max(start + 1);
            if digits >= least {
                return Some(start..end);
            }
        }
        None
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Digit {
    One,
    Between,
    None,
}

/// Each byte may begin with `0x`.
const HEX: [Digit; 256] = digits(b"0123456789abcdefABCDEF", b": -,\n\rxX");

/// Digits of both alphabets. Long texts are broken into lines.
const BASE64: [Digit; 256] = digits(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/-_",
    b"\n\r",
);

const fn digits(ones: &[u8], between: &[u8]) -> [Digit; 256] {
    let mut class = [Digit::None; 256];
    let mut at = 0;
    while at < ones.len() {
        class[ones[at] as usize] = Digit::One;
        at += 1;
    }
    at = 0;
    while at < between.len() {
        class[between[at] as usize] = Digit::Between;
        at += 1;
    }
    class
}

impl Layer {
    fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            places: (0..).zip(1..).take(bytes.len()).collect(),
        }
    }

    fn with_room(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            places: Vec::with_capacity(bytes),
        }
    }

    fn push(&mut self, bytes: &[u8], place: (u32, u32)) {
        self.bytes.extend_from_slice(bytes);
        self.places.resize(self.bytes.len(), place);
    }

    fn place(&self, range: Range<usize>) -> (u32, u32) {
        (self.places[range.start].0, self.places[range.end - 1].1)
    }

    /// One level of escapes with these signs undone; `None` if there are none.
    fn unescaped(&self, signs: &[u8]) -> Option<Self> {
        let next_sign = |bytes: &[u8]| match signs {
            [sign] => memchr(*sign, bytes),
            _ => memchr3(b'%', b'\\', b'&', bytes),
        };
        next_sign(&self.bytes)?;
        let mut inner = Self::with_room(self.bytes.len());
        let (mut at, mut any) = (0, false);
        while at < self.bytes.len() {
            let rest = &self.bytes[at..];
            let decoded = match rest[0] {
                sign if !signs.contains(&sign) => None,
                b'%' => escaped_percent(rest),
                b'\\' => escaped_backslash(rest),
                b'&' => escaped_html(rest),
                _ => None,
            };
            let Some((length, decoded)) = decoded else {
                let end = next_sign(&rest[1..]).map_or(rest.len(), |next| next + 1);
                inner.bytes.extend_from_slice(&rest[..end]);
                inner.places.extend_from_slice(&self.places[at..at + end]);
                at += end;
                continue;
            };
            any = true;
            let mut buffer = [0; 4];
            let bytes = match decoded {
                Decoded::Byte(byte) => {
                    buffer[0] = byte;
                    &buffer[..1]
                }
                Decoded::Char(letter) => letter.encode_utf8(&mut buffer).as_bytes(),
            };
            inner.push(bytes, self.place(at..at + length));
            at += length;
        }
        any.then_some(inner)
    }

    /// The bytes of a run of hexadecimal digits, which may begin within a byte.
    fn unhexed(&self, run: Range<usize>) -> Vec<Self> {
        let begins_byte = |at: usize| {
            let follows_digit = at > 0 && self.bytes[at - 1].is_ascii_hexdigit();
            !follows_digit && matches!(self.bytes[at..], [b'0', b'x' | b'X', ..])
        };
        let digits: Vec<(u8, usize)> = run
            .filter(|at| !begins_byte(*at))
            .filter_map(|at| Some(((self.bytes[at] as char).to_digit(16)? as u8, at)))
            .collect();
        let from = |first: usize| {
            let mut inner = Self::with_room(digits.len() / 2);
            for pair in digits[first..].chunks_exact(2) {
                inner.push(&[pair[0].0 << 4 | pair[1].0], self.place(pair[0].1..pair[1].1 + 1));
            }
            inner
        };
        (0..2).map(from).collect()
    }

    /// The bytes of a run of base64 digits, which may begin within a group of four. Decoded from each of the four digits
    /// on, it also shows what begins and ends between the signs of a path or a date.
    fn unbased(&self, run: Range<usize>) -> Vec<Self> {
        let places: Vec<usize> = run
            .filter(|at| BASE64[usize::from(self.bytes[*at])] == Digit::One)
            .collect();
        // Both alphabets at once: a run may have signs of both.
        let standard = |at: &usize| match self.bytes[*at] {
            b'-' => b'+',
            b'_' => b'/',
            digit => digit,
        };
        let digits: Vec<u8> = places.iter().map(standard).collect();
        // Words and numbers.
        let has = |kind: fn(&u8) -> bool| digits.iter().any(kind);
        let letters = [u8::is_ascii_lowercase, u8::is_ascii_uppercase].map(has);
        if letters == [false; 2] || letters != [true; 2] && !has(|digit| !digit.is_ascii_alphabetic()) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for first in 0..4.min(digits.len()) {
            // A single digit at the end stands for nothing.
            let kept = digits.len() - usize::from((digits.len() - first) % 4 == 1);
            let Ok(bytes) = LENIENT.decode(&digits[first..kept]) else {
                continue;
            };
            let mut inner = Self::with_room(bytes.len());
            for (index, byte) in bytes.into_iter().enumerate() {
                let (from, to) = (first + index * 8 / 6, first + (index * 8 + 7) / 6);
                inner.push(&[byte], self.place(places[from]..places[to] + 1));
            }
            found.push(inner);
        }
        found
    }
}

enum Decoded {
    Byte(u8),
    Char(char),
}

fn number(digits: Option<&[u8]>, radix: u32) -> Option<u32> {
    let text = std::str::from_utf8(digits?).ok()?;
    let is_plain = text.chars().all(|digit| digit.is_digit(radix));
    is_plain.then(|| u32::from_str_radix(text, radix).ok()).flatten()
}

fn escaped_percent(rest: &[u8]) -> Option<(usize, Decoded)> {
    let byte = number(rest.get(1..3), 16)?;
    Some((3, Decoded::Byte(u8::try_from(byte).ok()?)))
}

/// `\n`, `\"`, `\x41`, `\u0041`, `\u{41}`, `\U00000041`, `\101` and the like.
fn escaped_backslash(rest: &[u8]) -> Option<(usize, Decoded)> {
    let simple = |letter: u8| Some((2, Decoded::Byte(letter)));
    match *rest.get(1)? {
        b'n' => simple(b'\n'),
        b'r' => simple(b'\r'),
        b't' => simple(b'\t'),
        b'b' => simple(8),
        b'f' => simple(12),
        quoted @ (b'\\' | b'/' | b'"' | b'\'') => simple(quoted),
        b'x' => Some((4, Decoded::Byte(u8::try_from(number(rest.get(2..4), 16)?).ok()?))),
        b'U' => Some((10, Decoded::Char(char::from_u32(number(rest.get(2..10), 16)?)?))),
        b'u' if rest.get(2) == Some(&b'{') => {
            let end = rest.iter().take(10).position(|byte| *byte == b'}')?;
            Some((end + 1, Decoded::Char(char::from_u32(number(rest.get(3..end), 16)?)?)))
        }
        b'u' => {
            let unit = number(rest.get(2..6), 16)?;
            if let Some(letter) = char::from_u32(unit) {
                return Some((6, Decoded::Char(letter)));
            }
            // The first half of a pair.
            let low = rest
                .get(6..8)
                .filter(|next| *next == br"\u")
                .and(number(rest.get(8..12), 16))?;
            let both = [u16::try_from(unit).ok()?, u16::try_from(low).ok()?];
            let letter = char::decode_utf16(both).next()?.ok()?;
            Some((12, Decoded::Char(letter)))
        }
        b'0'..=b'3' => Some((4, Decoded::Byte(u8::try_from(number(rest.get(1..4), 8)?).ok()?))),
        _ => None,
    }
}

fn escaped_html(rest: &[u8]) -> Option<(usize, Decoded)> {
    let end = rest.iter().take(12).position(|byte| *byte == b';')?;
    let name = &rest[1..end];
    let letter = match name {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(Some(digits), 16)?)?,
        [b'#', digits @ ..] => char::from_u32(number(Some(digits), 10)?)?,
        _ => return None,
    };
    Some((end + 1, Decoded::Char(letter)))
}

#[cfg(test)]
pub(super) mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    use super::*;

    /// One producer's encoding of a text; `part` says which of its characters are encoded where that is free.
    pub(in crate::run) fn encoded(text: &str, kind: u8, part: u64) -> String {
        let each = |encode: &dyn Fn(char) -> String| -> String {
            let chosen = |(at, letter): (usize, char)| {
                let plain = part >> (at % 64) & 1 == 0 && letter.is_ascii_alphanumeric();
                if plain { letter.to_string() } else { encode(letter) }
            };
            text.chars().enumerate().map(chosen).collect()
        };
        let bytes = |letter: char, write: &dyn Fn(u8) -> String| -> String {
            letter.encode_utf8(&mut [0; 4]).bytes().map(write).collect()
        };
        match kind % 11 {
            0 => each(&|letter| bytes(letter, &|byte| format!("%{byte:02X}"))),
            1 => each(&|letter| bytes(letter, &|byte| format!("%{byte:02x}"))),
            2 => serde_json::to_string(text).unwrap(),
            3 => each(&|letter| {
                letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect()
            }),
            4 => each(&|letter| format!("&#{};", letter as u32)),
            5 => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
            6 => text.bytes().map(|byte| format!("{byte:02x}:")).collect(),
            7 => STANDARD.encode(format!("{}{text}", "user:".get(..part as usize % 5).unwrap_or(""))),
            8 => URL_SAFE_NO_PAD.encode(format!("{text}\n")),
            9 => text.bytes().map(|byte| format!("0x{byte:02x}, ")).collect(),
            _ => text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;"),
        }
    }

    proptest! {
        #[test]
        fn a_text_is_found_under_any_mixture_of_encodings(
            secret in "[a-z]{4,9}[0-9\"\\\\/&<>%=+é ]{4,9}[A-Z]",
            kinds in prop::collection::vec((0_u8..11, any::<u64>()), 0..4),
            before in "[a-z =]{0,5}", after in "[ ,;\"][a-z]{0,5}",
        ) {
            let written = kinds.iter().fold(secret.clone(), |text, (kind, part)| encoded(&text, *kind, *part));
            let text = format!("{before} {written}{after}");
            let mut search = |bytes: &[u8]| {
                let at = memchr::memmem::find(bytes, secret.as_bytes());
                at.map(|at| at..at + secret.len()).into_iter().collect()
            };
            let found = find(text.as_bytes(), &mut search);
            prop_assert!(!found.is_empty(), "{}", text);
            for range in found {
                prop_assert!(before.len() <= range.start && range.end <= text.len() - after.len() + 1);
            }
        }

        #[test]
        fn any_bytes_are_decoded(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            find(&bytes, &mut |_| Vec::new());
        }
    }

    #[test]
    fn a_text_that_is_all_encoded_is_found() {
        let secret = "a&b<c>d%e\\f\"g9";
        for (inner, outer) in (0..11).flat_map(|inner| (0..11).map(move |outer| (inner, outer))) {
            let text = encoded(&encoded(secret, inner, u64::MAX), outer, u64::MAX);
            let mut search = |bytes: &[u8]| {
                let at = memchr::memmem::find(bytes, secret.as_bytes());
                at.map(|at| at..at + secret.len()).into_iter().collect()
            };
            assert!(!find(text.as_bytes(), &mut search).is_empty(), "{text}");
        }
    }

    #[test]
    fn as_many_levels_are_kept_as_are_undone() {
        assert_eq!(levels(&format!("%{}41", "25".repeat(10_000))).len(), 1 + DEPTH);
    }

    #[test]
    fn a_long_text_is_decoded_in_pieces() {
        let text = format!("{}{}", "x ".repeat(PIECE / 2 - 10), encoded("a&b&c&d&e&f", 0, u64::MAX));
        let found = find(text.as_bytes(), &mut |bytes| {
            memchr::memmem::find(bytes, b"a&b&c&d&e&f")
                .map(|at| at..at + 11)
                .into_iter()
                .collect()
        });
        assert_eq!(found[0], text.len() - 33..text.len());
    }
}
