//! Fields of an event, of whatever JSON type a server gives them: read as far as they can be, and never an error.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::fmt::excerpt;

/// The methods of a visitor for values that it has no use for: null, and these.
macro_rules! nothing_of {
    ($($method:ident $type:ty),*) => {
        fn visit_unit<E: Error>(self) -> Result<Self, E> {
            Ok(self)
        }

        $(fn $method<E: Error>(self, _: $type) -> Result<Self, E> {
            Ok(self)
        })*
    };
}

/// Reads the members of a JSON object into the fields of a struct where it is. Those of a streamed event have hundreds of
/// bytes, and a derived `Deserialize` moves them several times for each token. Other members are skipped.
macro_rules! read_in_place {
    ($name:ident { $($key:literal => $field:ident),* }) => {
        impl<'de> DeserializeSeed<'de> for &mut $name<'de> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                deserializer.deserialize_any(self)
            }
        }

        impl<'de> Visitor<'de> for &mut $name<'de> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                while let Some(key) = map.next_key::<Field<'de>>()? {
                    match &*key.text {
                        $($key => map.next_value_seed(&mut self.$field)?,)*
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(())
            }

            // PHP writes an empty object as an empty array.
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
                match seq.next_element::<IgnoredAny>()? {
                    Some(_) => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
                    None => Ok(()),
                }
            }
        }
    };
}
pub(super) use read_in_place;

/// Reads a small field: it is moved.
macro_rules! read_whole {
    ($($name:ty),*) => {
        $(impl<'de> DeserializeSeed<'de> for &mut $name {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                *self = <$name>::deserialize(deserializer)?;
                Ok(())
            }
        })*
    };
}

read_whole!(Field<'de>, Usage);

/// A field of any JSON type: its text if it is a string (borrowed if it has no escapes), or the number of its items if
/// it is an array.
#[derive(Default)]
pub(super) struct Field<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) items: Option<u64>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Field::default())
    }
}

impl<'de> Visitor<'de> for Field<'de> {
    type Value = Self;

    nothing_of!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(mut self, text: &'de str) -> Result<Self, E> {
        self.text = Cow::Borrowed(text);
        Ok(self)
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<Self, E> {
        self.text = Cow::Owned(text.to_owned());
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self, A::Error> {
        let mut items = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            items += 1;
        }
        self.items = Some(items);
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// Whether a member is there, and is not null, at least once.
#[derive(Default)]
pub(super) struct Given(pub(super) bool);

impl<'de> DeserializeSeed<'de> for &mut Given {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0 |= Option::<IgnoredAny>::deserialize(deserializer)?.is_some();
        Ok(())
    }
}

/// Generated text: a string, or parts of it as an array or an object (`[{"type": "text", "text": " a"}]`).
#[derive(Default)]
pub(super) struct Text<'a> {
    /// The text that a user sees.
    pub(super) shown: Cow<'a, str>,
    /// Thoughts, and the arguments of tool calls.
    pub(super) hidden: Cow<'a, str>,
    /// Number of parts of an array.
    pub(super) parts: u64,
}

impl<'a> Text<'a> {
    /// Length in bytes, an upper bound of its tokens.
    pub(super) fn bytes(&self) -> u64 {
        (self.shown.len() + self.hidden.len()) as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Appends it to the response text, if that is kept.
    pub(super) fn add_to(&self, text: Option<&mut String>) {
        if let Some(text) = text {
            text.push_str(&self.hidden);
            text.push_str(&self.shown);
        }
    }

    /// All of it as text that no user sees.
    pub(super) fn unseen(mut self) -> Self {
        let shown = std::mem::take(&mut self.shown);
        append(&mut self.hidden, shown);
        self
    }

    fn add(&mut self, more: Self) {
        append(&mut self.shown, more.shown);
        append(&mut self.hidden, more.hidden);
    }
}

fn append<'a>(text: &mut Cow<'a, str>, more: Cow<'a, str>) {
    if text.is_empty() {
        *text = more;
    } else if !more.is_empty() {
        text.to_mut().push_str(&more);
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = Text::default();
        deserializer.deserialize_any(&mut text)?;
        Ok(text)
    }
}

impl<'de> DeserializeSeed<'de> for &mut Text<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // If a member comes twice, the last one counts.
        *self = Text::default();
        deserializer.deserialize_any(self).map(drop)
    }
}

impl<'de> Visitor<'de> for &mut Text<'de> {
    type Value = Self;

    nothing_of!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or its parts")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self, E> {
        self.shown = Cow::Borrowed(text);
        Ok(self)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self, E> {
        self.shown = Cow::Owned(text.to_owned());
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while let Some(part) = seq.next_element::<Text<'de>>()? {
            self.add(part);
            self.parts += 1;
        }
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut is_thought = false;
        while let Some(key) = map.next_key::<Field<'de>>()? {
            match &*key.text {
                "text" | "content" => self.add(map.next_value()?),
                "thinking" | "reasoning" | "reasoning_content" | "summary" | "function" | "arguments" | "name" => {
                    self.add(map.next_value::<Text<'de>>()?.unseen());
                }
                "type" => {
                    let kind = map.next_value::<Field<'de>>()?.text;
                    is_thought = ["think", "thought", "reason"].iter().any(|word| kind.contains(word));
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if is_thought {
            *self = std::mem::take(self).unseen();
        }
        Ok(self)
    }
}

/// Token counts: of the prompt, of the output, and of the part of the output that the server does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Prompt tokens, at least 1.
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) reasoning: Option<u64>,
    total: Option<u64>,
}

impl Usage {
    /// These counts, and the other's where these have none.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            input: self.input.or(other.input),
            output: self.output.filter(|count| *count > 0).or(other.output).or(self.output),
            reasoning: self.reasoning.or(other.reasoning),
            total: self.total.or(other.total),
        }
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut usage = deserializer.deserialize_any(Usage::default())?;
        let rest = usage
            .total
            .zip(usage.input)
            .and_then(|(total, input)| total.checked_sub(input));
        usage.output = usage.output.or(rest.filter(|output| *output > 0));
        Ok(usage)
    }
}

impl<'de> Visitor<'de> for Usage {
    type Value = Self;

    nothing_of!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("token counts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(key) = map.next_key::<Field<'de>>()? {
            let mut more = Self::default();
            match &*key.text {
                "prompt_tokens" | "input_tokens" => {
                    more.input = map.next_value::<TokenCount>()?.0.filter(|count| *count > 0);
                }
                "completion_tokens" | "output_tokens" | "generated_tokens" => {
                    more.output = map.next_value::<TokenCount>()?.0;
                }
                "reasoning_tokens" => more.reasoning = map.next_value::<TokenCount>()?.0,
                "total_tokens" => more.total = map.next_value::<TokenCount>()?.0,
                "completion_tokens_details" | "output_tokens_details" => {
                    more.reasoning = map.next_value::<Self>()?.reasoning;
                }
                "usage" => more = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            self = self.or(more);
        }
        Ok(self)
    }
}

/// A number of tokens; `None` for anything that is no whole number from 0 up.
#[derive(Default)]
struct TokenCount(Option<u64>);

/// The largest float that is surely a whole number, 2^53.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

impl<'de> Deserialize<'de> for TokenCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TokenCount::default())
    }
}

impl<'de> Visitor<'de> for TokenCount {
    type Value = Self;

    nothing_of!(visit_bool bool, visit_i64 i64, visit_str &str);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tokens")
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Self, E> {
        Ok(Self(Some(count)))
    }

    fn visit_f64<E: Error>(self, count: f64) -> Result<Self, E> {
        let whole = (0.0..=MAX_WHOLE).contains(&count) && count.fract() == 0.0;
        Ok(Self(whole.then_some(count as u64)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// Most bytes of an error detail.
const MOST_SAID: usize = 256 << 10;

/// The error detail of an event, in this member or in all of it, without the request that the error may echo: a string,
/// or the messages of an object together with the fields that they name; otherwise the value as JSON.
pub(crate) fn error_of(event: &str, member: Option<&str>) -> String {
    let member = member.as_slice();
    let all = Said::in_members(if member.is_empty() { Said::MEMBERS } else { member });
    let mut json = serde_json::Deserializer::from_str(event);
    match all.deserialize(&mut json).and_then(|said| json.end().map(|()| said)) {
        Ok(said) if !said.text.is_empty() => said.text,
        // Only of an event of ordinary length are values made.
        _ if event.len() > MOST_SAID => excerpt(event),
        _ => serde_json::from_str(event).map_or_else(
            |_| event.to_owned(),
            |value: Value| member.first().map_or(&value, |member| &value[*member]).to_string(),
        ),
    }
}

/// The texts of an error's members, in the order of `members`. Everything else is skipped.
struct Said<'m> {
    members: &'m [&'m str],
    text: String,
}

impl<'m> Said<'m> {
    const MEMBERS: &'static [&'static str] = &["error", "errors", "detail", "message", "msg", "loc", "param"];

    fn in_members(members: &'m [&'m str]) -> Self {
        let text = String::new();
        Self { members, text }
    }

    fn push(&mut self, more: &str) {
        let left = MOST_SAID.saturating_sub(self.text.len());
        if !more.is_empty() && left > 0 {
            self.text.push_str(if self.text.is_empty() { "" } else { ": " });
            let mut ends = (0..=left.min(more.len())).rev();
            let end = ends.find(|end| more.is_char_boundary(*end)).unwrap_or_default();
            self.text.push_str(&more[..end]);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Said<'_> {
    type Value = Self;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Said<'_> {
    type Value = Self;

    nothing_of!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<Self, E> {
        self.push(text);
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self, A::Error> {
        while let Some(item) = seq.next_element_seed(Said::in_members(Said::MEMBERS))? {
            self.push(&item.text);
        }
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        let mut said = vec![String::new(); self.members.len()];
        while let Some(key) = map.next_key::<Field<'de>>()? {
            match self.members.iter().position(|member| *member == key.text) {
                Some(place) => said[place] = map.next_value_seed(Said::in_members(Said::MEMBERS))?.text,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        said.iter().for_each(|said| self.push(said));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_text_in_every_form() {
        let text = |json: &str| error_of(json, None);
        assert_eq!(text("\"a\""), "a");
        assert_eq!(text("{\"message\":\"b\",\"code\":400}"), "b");
        assert_eq!(text("{\"code\":400}"), "{\"code\":400}");
        let repeated = r#"{"detail":[{"loc":["body","seed"],"msg":"Not allowed","input":{"ignore_eos":true}}]}"#;
        assert_eq!(text(repeated), "Not allowed: body: seed");
        assert_eq!(text("not JSON"), "not JSON");
        assert_eq!(
            error_of(r#"{"detail":"a","error":{"code":5}}"#, Some("error")),
            r#"{"code":5}"#
        );
    }

    #[test]
    fn strings_and_item_counts_are_read() {
        let text = |json: &str| serde_json::from_str::<Field<'_>>(json).unwrap().text.into_owned();
        assert_eq!((text("\"a\\n\""), text("\"b\"")), ("a\n".into(), "b".into()));
        for empty in ["\"\"", "null", "3", "{\"a\":[1]}"] {
            assert_eq!(text(empty), "", "{empty}");
        }
        let items = |json: &str| serde_json::from_str::<Field<'_>>(json).unwrap().items;
        assert_eq!(
            (items("[1,[2],{}]"), items("[]"), items("null")),
            (Some(3), Some(0), None)
        );
    }

    #[test]
    fn text_and_thoughts_are_read_in_every_shape() {
        for (json, shown, hidden) in [
            (r#"" a""#, " a", ""),
            (r#"[" a", " b"]"#, " a b", ""),
            (
                r#"[{"type":"text","text":" a"},{"type":"text","text":" b"}]"#,
                " a b",
                "",
            ),
            (r#"{"type":"output_text","text":" a"}"#, " a", ""),
            (
                r#"[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]"#,
                "",
                "hm",
            ),
            (r#"[{"text":"hm","type":"reasoning.text"},{"text":" a"}]"#, " a", "hm"),
            (
                r#"[{"index":0,"function":{"name":"f","arguments":"{\"x\":1"}}]"#,
                "",
                "f{\"x\":1",
            ),
            ("null", "", ""),
            ("7", "", ""),
            (r#"[null, {}, 3]"#, "", ""),
        ] {
            let text: Text<'_> = serde_json::from_str(json).unwrap();
            assert_eq!((&*text.shown, &*text.hidden), (shown, hidden), "{json}");
        }
    }

    #[test]
    fn counts_are_read_in_every_shape() {
        for (json, counts) in [
            (
                r#"{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}"#,
                (Some(5), Some(2), None),
            ),
            (r#"{"input_tokens":5,"output_tokens":2.0}"#, (Some(5), Some(2), None)),
            (r#"{"prompt_tokens":5,"total_tokens":7}"#, (Some(5), Some(2), None)),
            (
                r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#,
                (None, Some(0), None),
            ),
            (
                r#"{"input_tokens":0,"prompt_tokens":5,"output_tokens":0,"completion_tokens":2}"#,
                (Some(5), Some(2), None),
            ),
            (
                r#"{"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":0}}"#,
                (None, Some(9), Some(4)),
            ),
            (
                r#"{"id":"req","usage":{"prompt_tokens":5,"completion_tokens":2}}"#,
                (Some(5), Some(2), None),
            ),
            (r#"{"prompt_tokens":-5,"completion_tokens":"8"}"#, (None, None, None)),
            (r#"{"prompt_tokens":5.5,"completion_tokens":1e30}"#, (None, None, None)),
            ("null", (None, None, None)),
            ("[1]", (None, None, None)),
            ("\"none\"", (None, None, None)),
        ] {
            let usage: Usage = serde_json::from_str(json).unwrap();
            assert_eq!((usage.input, usage.output, usage.reasoning), counts, "{json}");
        }
    }
}
