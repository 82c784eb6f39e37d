//! Converts Rust types to script types: `Result<ImmutableString, Box<EvalAltResult>>` is a string.

use std::collections::BTreeMap;

/// Registered names of custom types, by Rust name.
pub(super) type TypeNames = BTreeMap<String, String>;

/// The script name of a Rust type as registered; `None` for the unit type.
pub(super) fn script_type(spelled: &str, names: &TypeNames) -> Option<String> {
    let compact: String = spelled.chars().filter(|c| !c.is_whitespace()).collect();
    let bare = compact.trim_start_matches('&');
    // Without white space, `&mut T` is `&mutT`. None of our types starts with `mut`.
    let bare = match compact.starts_with('&') {
        true => bare.strip_prefix("mut").unwrap_or(bare),
        false => bare,
    };
    let (path, inner) = match bare.split_once('<') {
        Some((path, inner)) => (path, inner.strip_suffix('>').unwrap_or(inner)),
        None => (bare, ""),
    };
    let name = path.rsplit("::").next().unwrap_or(path);
    let script_name = match name {
        "" | "()" => return None,
        "Result" | "RhaiResultOf" | "Caught" => return script_type(first_argument(inner), names),
        "Arc" | "Rc" | "Box" | "Shared" => return script_type(inner, names),
        "Option" => format!("{} or ()", script_type(inner, names)?),
        "INT" | "i64" | "i32" | "u64" | "u32" | "usize" => "int".to_owned(),
        "FLOAT" | "f64" | "f32" => "float".to_owned(),
        "bool" => "bool".to_owned(),
        "char" => "char".to_owned(),
        "ImmutableString" | "String" | "str" | "string" | "SmartString" | "Identifier" => "string".to_owned(),
        "Array" | "array" | "Vec" => "array".to_owned(),
        "Blob" => "blob".to_owned(),
        "Map" | "map" => "map".to_owned(),
        "Range" | "RangeInclusive" | "ExclusiveRange" | "InclusiveRange" => "range".to_owned(),
        "Dynamic" | "RhaiResult" | "?" => "any".to_owned(),
        "FnPtr" | "Fn" => "closure".to_owned(),
        other => names.get(other).cloned().unwrap_or_else(|| other.to_owned()),
    };
    Some(script_name)
}

/// `T` of `T,Box<E>`, ignoring commas inside brackets.
fn first_argument(arguments: &str) -> &str {
    let mut depth = 0;
    for (index, c) in arguments.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => return &arguments[..index],
            _ => {}
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_custom_type_has_its_registered_name() {
        let names = TypeNames::from([("EngineHandle".to_owned(), "Engine".to_owned())]);
        assert_eq!(script_type("&mut EngineHandle", &names).as_deref(), Some("Engine"));
        assert_eq!(
            script_type("Caught<Arc<EngineHandle>>", &names).as_deref(),
            Some("Engine")
        );
    }

    #[test]
    fn rust_types_become_script_types() {
        for (rust, word) in [
            ("INT", Some("int")),
            ("& mut EngineHandle", Some("EngineHandle")),
            ("&mut crate :: engine :: Handle", Some("Handle")),
            ("Result<ImmutableString, Box<EvalAltResult>>", Some("string")),
            ("Caught < () >", None),
            ("Caught < Dynamic >", Some("any")),
            ("Result<Vec<Option<i64>>, Box<rhai::EvalAltResult>>", Some("array")),
            ("RhaiResultOf<Map>", Some("map")),
            ("()", None),
            ("&str", Some("string")),
            ("std::ops::Range<i64>", Some("range")),
            ("FnPtr", Some("closure")),
            ("Option<INT>", Some("int or ()")),
        ] {
            assert_eq!(script_type(rust, &TypeNames::new()).as_deref(), word, "{rust}");
        }
    }
}
