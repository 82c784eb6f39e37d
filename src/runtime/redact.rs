//! Texts without their secrets: what may be shown, logged and stored.

use serde_json::Value;
use url::Url;

/// What stands where a secret stood.
const HIDDEN: &str = "***";

/// A URL without user name, password and query: any of them may be a secret.
#[must_use]
pub fn url(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    if !shown.username().is_empty() || shown.password().is_some() {
        // Fails only for URLs without a host, which have no user either.
        let _ = shown.set_password(None);
        let _ = shown.set_username(HIDDEN);
    }
    shown.into()
}

/// The value of an environment variable, unless its name says that it is a secret.
#[must_use]
pub fn env<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret(name) { HIDDEN } else { value }
}

/// A command line without the values of options whose names say that they are secrets: `--api-key ***`.
#[must_use]
pub fn words(words: &[String]) -> Vec<String> {
    let mut shown = Vec::with_capacity(words.len());
    let mut hide = false;
    for word in words {
        let option = word.split('=').next().unwrap_or(word);
        let secret = word.starts_with('-') && is_secret(option);
        shown.push(match word.split_once('=') {
            Some((name, _)) if secret => format!("{name}={HIDDEN}"),
            _ if hide && !word.starts_with('-') => HIDDEN.to_owned(),
            _ => word.clone(),
        });
        hide = secret && !word.contains('=');
    }
    shown
}

/// The secrets among what a user set, known by their names: `env.HF_TOKEN`, `--api-key` among the arguments of an engine.
#[must_use]
pub fn secrets(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| of_member(name, value))
            .collect(),
        Value::Array(values) => {
            let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            let pairs = words.iter().zip(words.iter().skip(1));
            let behind = pairs.filter(|(option, value)| {
                option.starts_with('-') && !option.contains('=') && !value.starts_with('-') && is_secret(option)
            });
            let within = words.iter().filter_map(|word| word.split_once('='));
            let within = within.filter(|(option, _)| option.starts_with('-') && is_secret(option));
            let told = behind.map(|(_, value)| *value).chain(within.map(|(_, value)| value));
            told.map(str::to_owned).chain(values.iter().flat_map(secrets)).collect()
        }
        _ => Vec::new(),
    }
}

fn of_member(name: &str, value: &Value) -> Vec<String> {
    match value {
        // A key alone is what something is found by, or sorted by.
        Value::String(text) if is_secret(name) && !name.eq_ignore_ascii_case("key") => vec![text.clone()],
        value => secrets(value),
    }
}

/// Whether a name is one of a secret. `TOKENIZER`, `MAX_TOKENS` and their like are none.
fn is_secret(name: &str) -> bool {
    const SECRET: [&str; 8] = [
        "TOKEN",
        "KEY",
        "APIKEY",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "CREDENTIAL",
        "CREDENTIALS",
    ];
    name.to_uppercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| SECRET.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_user_nor_password_nor_query_is_shown() {
        let shown = url(&Url::parse("http://me:hunter2@localhost:80/v1?key=abc#x").unwrap());
        assert_eq!(shown, "http://***@localhost/v1");
        assert_eq!(
            url(&Url::parse("http://localhost:81/").unwrap()),
            "http://localhost:81/"
        );
    }

    #[test]
    fn secrets_are_found_among_what_a_user_set() {
        let set = serde_json::json!({
            "env": { "HF_TOKEN": "one", "HF_HUB_OFFLINE": "1" }, "engine_args": ["--api-key", "two", "--token=three", "--port=80"],
            "engines": [{ "env": { "OPENAI_API_KEY": "four" } }], "tokenizer": "gpt2", "sort": { "key": "model" },
        });
        let mut found = secrets(&set);
        found.sort();
        assert_eq!(found, ["four", "one", "three", "two"]);
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        assert_eq!(env("HF_TOKEN", "hf_x"), HIDDEN);
        assert_eq!(env("OPENAI_API_KEY", "sk"), HIDDEN);
        assert_eq!(env("HF_HUB_OFFLINE", "1"), "1");
        assert_eq!(env("MAX_TOTAL_TOKENS", "4096"), "4096");
        let line = ["serve", "--api-key", "sk", "--token=hf", "--max-tokens", "5"].map(str::to_owned);
        assert_eq!(
            words(&line),
            ["serve", "--api-key", HIDDEN, "--token=***", "--max-tokens", "5"]
        );
    }
}
