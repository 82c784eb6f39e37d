//! Removes secrets from what is shown, logged and stored.

use serde_json::Value;
use url::Url;

use crate::run::{HIDDEN, is_secret_name};

/// A URL without user name, password and query, since any of them may be a secret.
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

/// The value of an environment variable, hidden if its name is that of a secret.
pub fn env<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret_name(name) { HIDDEN } else { value }
}

/// A command line with the values of secret options hidden: `--api-key ***`.
pub fn command_line(words: &[String]) -> Vec<String> {
    let mut shown = Vec::with_capacity(words.len());
    let mut hide = false;
    for word in words {
        let option = word.split('=').next().unwrap_or(word);
        let secret = word.starts_with('-') && is_secret_name(option);
        shown.push(match word.split_once('=') {
            Some((name, _)) if secret => format!("{name}={HIDDEN}"),
            _ if hide && !word.starts_with('-') => HIDDEN.to_owned(),
            _ => word.clone(),
        });
        hide = secret && !word.contains('=');
    }
    shown
}

/// The secrets in user-set values, found by name: `env.HF_TOKEN`, `--api-key` in an engine's arguments.
pub fn secrets(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| secrets_of_member(name, value))
            .collect(),
        Value::Array(values) => {
            let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            let pairs = words.iter().zip(words.iter().skip(1));
            let separate = pairs.filter(|(option, value)| {
                option.starts_with('-') && !option.contains('=') && !value.starts_with('-') && is_secret_name(option)
            });
            let joined = words.iter().filter_map(|word| word.split_once('='));
            let joined = joined.filter(|(option, _)| option.starts_with('-') && is_secret_name(option));
            let found = separate.map(|(_, value)| *value).chain(joined.map(|(_, value)| value));
            found
                .map(str::to_owned)
                .chain(values.iter().flat_map(secrets))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn secrets_of_member(name: &str, value: &Value) -> Vec<String> {
    match value {
        // A member named just `key` is a lookup or sort key.
        Value::String(text) if is_secret_name(name) && !name.eq_ignore_ascii_case("key") => vec![text.clone()],
        value => secrets(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_user_password_and_query() {
        let shown = url(&Url::parse("http://me:hunter2@localhost:80/v1?key=abc#x").unwrap());
        assert_eq!(shown, "http://***@localhost/v1");
        assert_eq!(
            url(&Url::parse("http://localhost:81/").unwrap()),
            "http://localhost:81/"
        );
    }

    #[test]
    fn secrets_are_found_in_user_values() {
        let set = serde_json::json!({
            "env": { "HF_TOKEN": "one", "HF_HUB_OFFLINE": "1" }, "engine_args": ["--api-key", "two", "--token=three", "--port=80"],
            "engines": [{ "env": { "OPENAI_API_KEY": "four" } }], "tokenizer": "gpt2", "sort": { "key": "model" },
        });
        let mut found = secrets(&set);
        found.sort();
        assert_eq!(found, ["four", "one", "three", "two"]);
    }

    #[test]
    fn secrets_are_recognized_by_name() {
        assert_eq!(env("HF_TOKEN", "hf_x"), HIDDEN);
        assert_eq!(env("OPENAI_API_KEY", "sk"), HIDDEN);
        assert_eq!(env("HF_HUB_OFFLINE", "1"), "1");
        assert_eq!(env("MAX_TOTAL_TOKENS", "4096"), "4096");
        let line = ["serve", "--api-key", "sk", "--token=hf", "--max-tokens", "5"].map(str::to_owned);
        assert_eq!(
            command_line(&line),
            ["serve", "--api-key", HIDDEN, "--token=***", "--max-tokens", "5"]
        );
    }
}
