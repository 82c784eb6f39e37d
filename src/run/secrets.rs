//! Removes secrets from everything that is written or printed: keys and tokens given to this program, passwords in
//! URLs, and values of environment variables that are not known to be harmless.
//!
//! In JSON, each value is cleaned before it becomes text, so that a secret that is also part of the syntax does not
//! break the document.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::{LazyLock, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use serde_json::{Map, Value};
use url::Url;

use super::{decoded, keys};

/// The replacement for a secret.
pub const HIDDEN: &str = "***";

/// Shorter values could be part of ordinary text. Values of only letters, digits or signs could be words or numbers up
/// to [`MIN_PLAIN`].
const MIN_LENGTH: usize = 8;
const MIN_PLAIN: usize = 12;

/// Prefixes of the names of environment variables that hold no secrets.
const HARMLESS: &str = "CARGO CI COLORTERM COLUMNS CUDA DBUS_ DEBIAN_ DISPLAY DOCKER_CONFIG DOCKER_CONTEXT DOCKER_HOST EDITOR \
    HF_HOME HF_HUB_ HISTFILE HOME HOST LANG LC_ LD_LIBRARY_PATH LESS LINES LOGNAME LS_COLORS MAIL NCCL_ NO_COLOR NVIDIA_ \
    OLDPWD OMP_ PAGER PATH PROFILER_ PWD PYTHON RUST SHELL SHLVL SLURM_ TERM TMPDIR USER VLLM_ XDG_";

/// All secrets.
static SECRETS: LazyLock<RwLock<Secrets>> = LazyLock::new(|| {
    let mut secrets = Secrets::default();
    let words: Vec<String> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let variables = std::env::vars_os();
    let readable = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let found = readable.filter(|(name, value)| is_secret_variable(name, value, &words));
    secrets.add(found.map(|(_, value)| value));
    RwLock::new(secrets)
});

#[derive(Default)]
struct Secrets {
    values: BTreeSet<String>,
    /// Finds any of the secrets; `None` if there are none.
    finder: Option<Finder>,
}

/// Finds secrets of any length: an automaton has their first bytes, and the rest is compared. A secret that is cut off
/// after its first bytes is found too.
struct Finder {
    heads: AhoCorasick,
    /// Continuations of each head.
    tails: Vec<Vec<Vec<u8>>>,
}

impl Finder {
    const HEAD: usize = 64;
    /// Bytes at the end of what was found that are searched again, as another secret may begin there. More would take
    /// quadratic time where a secret repeats itself.
    const OVERLAP: usize = 4 << 10;

    /// Finds these forms of secrets; `None` if there are none, or more than gigabytes.
    fn new(forms: BTreeSet<Vec<u8>>) -> Option<Self> {
        let mut tails: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
        for mut form in forms {
            let tail = form.split_off(form.len().min(Self::HEAD));
            tails.entry(form).or_default().push(tail);
        }
        // If two secrets begin with the same characters, the longer one matches.
        let mut builder = AhoCorasick::builder();
        let heads = builder.match_kind(MatchKind::LeftmostLongest).build(tails.keys());
        let tails: Vec<_> = tails.into_values().collect();
        heads
            .ok()
            .filter(|_| !tails.is_empty())
            .map(|heads| Self { heads, tails })
    }

    fn find(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(head) = self.heads.find(Input::new(bytes).range(at..)) {
            let rest = &bytes[head.end()..];
            let common = |tail: &Vec<u8>| tail.iter().zip(rest).take_while(|(one, other)| one == other).count();
            let longest = self.tails[head.pattern()].iter().map(common).max();
            let end = head.end() + longest.unwrap_or_default();
            at = head.end().max(end.saturating_sub(Self::OVERLAP));
            all.push(head.start()..end);
        }
        all
    }
}

impl Secrets {
    fn add(&mut self, secrets: impl IntoIterator<Item = String>) {
        let before = self.values.len();
        for secret in secrets.into_iter().filter(|secret| can_be_hidden(secret)) {
            // Output is cleaned line by line, so each line of a secret counts.
            self.values
                .extend(secret.lines().filter(|line| can_be_hidden(line)).map(str::to_owned));
            self.values.insert(secret);
        }
        if self.values.len() == before {
            return;
        }
        // A text may be decoded further than the secret was encoded, so what looks like an escape in the secret may be
        // gone.
        let levels = |secret: &String| [decoded::levels(secret), decoded::levels(&secret.replace(' ', "+"))].concat();
        // A secret that is all escapes leaves a short word, which may stand anywhere.
        let is_hidden = |form: &Vec<u8>| can_be_hidden(&String::from_utf8_lossy(form));
        let forms: BTreeSet<Vec<u8>> = self.values.iter().flat_map(levels).filter(is_hidden).collect();
        self.finder = Finder::new(forms);
    }
}

/// Whether a value can be replaced in texts without hitting ordinary words or numbers: at least 8 characters of two
/// kinds, or 12.
pub fn can_be_hidden(value: &str) -> bool {
    let kinds: [fn(char) -> bool; 3] = [
        |letter| letter.is_alphabetic(),
        |letter| letter.is_numeric(),
        |letter| !letter.is_alphanumeric(),
    ];
    let kinds = kinds.iter().filter(|kind| value.contains(**kind)).count();
    let length = value.chars().count();
    length >= MIN_PLAIN || length >= MIN_LENGTH && kinds >= 2
}

/// Whether an environment variable holds a secret. `words` is the command line: a value that the user shows there is
/// not a secret, unless the variable's name says so.
fn is_secret_variable(name: &str, value: &str, words: &[String]) -> bool {
    let harmless = HARMLESS.split(' ').any(|begin| name.starts_with(begin));
    is_secret_name(name) || !harmless && looks_random(value) && !words.iter().any(|word| word.contains(value))
}

/// Whether a value looks like a key: letters and digits mixed, and not a path, address, date, version or name made of
/// words.
fn looks_random(value: &str) -> bool {
    let mixed =
        |run: &str| run.contains(|c: char| c.is_ascii_digit()) && run.contains(|c: char| c.is_ascii_alphabetic());
    let mut runs = value.split(|letter: char| !letter.is_ascii_alphanumeric());
    !value.contains('/') && runs.any(|run| run.len() >= MIN_PLAIN && mixed(run))
}

/// Whether the name of a variable, an option or a JSON member is typical of a secret. `TOKENIZER`, `MAX_TOKENS` and the
/// like are not.
pub fn is_secret_name(name: &str) -> bool {
    const WORDS: &str = "AUTH CREDS PW PWD JWT BEARER COOKIE TOKEN KEY APIKEY SECRET PASS PASSPHRASE PASSWORD PASSWD PAT \
        CREDENTIAL CREDENTIALS";
    let name = name.to_uppercase();
    let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    // `PGPASSWORD`. The shell's `PWD` is a folder.
    name != "PWD" && words.any(|word| WORDS.split(' ').any(|secret| word == secret) || word.ends_with("PASSWORD"))
}

/// Adds values to hide from now on, except those that look like ordinary text.
pub fn add_secrets(secrets: impl IntoIterator<Item = String>) {
    SECRETS.write().unwrap_or_else(PoisonError::into_inner).add(secrets);
}

/// Returns a text without secrets, and without user names and passwords in URLs.
pub fn hide(text: &str) -> Cow<'_, str> {
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    hide_by(text, secrets.finder.as_ref())
}

fn hide_by<'a>(text: &'a str, finder: Option<&Finder>) -> Cow<'a, str> {
    let text = without_userinfo(text);
    let Some(finder) = finder else { return text };
    let found = decoded::find(text.as_bytes(), &mut |bytes| finder.find(bytes));
    without(text, found)
}

/// A text without these ranges.
fn without(text: Cow<'_, str>, mut ranges: Vec<Range<usize>>) -> Cow<'_, str> {
    if ranges.is_empty() {
        return text;
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut hidden, mut at) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        // A range may begin within a character that was escaped in parts.
        let (mut start, mut end) = (range.start, range.end);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        while !text.is_char_boundary(end) {
            end += 1;
        }
        if start >= at {
            hidden.push_str(&text[at..start]);
            hidden.push_str(HIDDEN);
        }
        at = at.max(end);
    }
    hidden.push_str(&text[at..]);
    Cow::Owned(hidden)
}

/// Returns a text without secrets, and without what has the form of a service's key.
pub fn hide_keys(text: &str) -> Cow<'_, str> {
    let text = hide(text);
    let found = keys::places(text.as_bytes());
    without(text, found)
}

/// Whether a text holds a secret, or what has the form of a service's key.
pub fn holds_secret(text: &str) -> bool {
    let parameters = || {
        let url = Url::parse(text.strip_prefix("git+").unwrap_or(text)).ok();
        // `git@` is the usual user by ssh.
        url.is_some_and(|url| {
            let user = url.scheme() != "ssh" && !url.username().is_empty();
            user || url.password().is_some() || url.query_pairs().any(|(name, _)| is_secret_name(&name))
        })
    };
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    let found = |finder: &Finder| !decoded::find(text.as_bytes(), &mut |bytes| finder.find(bytes)).is_empty();
    secrets.finder.as_ref().is_some_and(found) || !keys::places(text.as_bytes()).is_empty() || parameters()
}

/// Returns a JSON document without secrets. Most documents have none and are returned unchanged.
pub fn hide_json(text: String) -> String {
    let Cow::Owned(hidden) = hide(&text) else { return text };
    let Ok(document) = serde_json::from_str(&text).map(hidden_value) else {
        return hidden;
    };
    if text.contains('\n') {
        format!("{document:#}")
    } else {
        document.to_string()
    }
}

/// Returns a JSON value without secrets in its texts and keys.
pub(super) fn hidden_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(hide(&text).into_owned()),
        Value::Array(values) => values.into_iter().map(hidden_value).collect(),
        Value::Object(members) => {
            let hidden = |(key, value): (String, Value)| (hide(&key).into_owned(), hidden_value(value));
            members.into_iter().map(hidden).collect()
        }
        value => value,
    }
}

/// Whether a parameter was a secret and is therefore missing from the run's folder.
pub fn has_hidden(set: &Map<String, Value>) -> bool {
    Value::Object(set.clone()).to_string().contains(HIDDEN)
}

/// `http://user:password@host` as `http://***@host`.
fn without_userinfo(text: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("://").map(|at| at + 3) {
        let authority = rest[start..]
            .find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '\\' | '<' | '>') || c.is_whitespace())
            .map_or(&rest[start..], |end| &rest[start..start + end]);
        clean.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some(at) = authority.rfind('@') {
            clean.push_str(HIDDEN);
            rest = &rest[at..];
        }
    }
    if clean.is_empty() {
        return Cow::Borrowed(text);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// A URL without user name, password and query, since each may be a secret.
pub fn hide_url(url: &Url) -> String {
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

/// Whether a value is a secret by the name of its option or JSON member. `api_key_env` names the variable or the file that
/// holds one, unless somebody wrote the secret itself there.
fn is_named_secret(name: &str, value: &str) -> bool {
    let names_another = || {
        let is_variable = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
        name.to_ascii_lowercase().ends_with("env")
            && (value.chars().all(is_variable) || std::env::var_os(value).is_some() || Path::new(value).is_file())
    };
    is_secret_name(name) && !names_another()
}

/// The value of an environment variable, hidden if its name is typical of a secret.
pub fn hide_variable<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret_name(name) { HIDDEN } else { value }
}

/// Environment variables as [`hide_variable`] shows them.
pub fn hide_variables<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<&'a str, &'a str> {
    all.into_iter()
        .map(|(name, value)| (name, hide_variable(name, value)))
        .collect()
}

/// A command line with the values of secret options hidden: `--api-key ***`.
pub fn hide_words(words: &[String]) -> Vec<String> {
    let mut shown = words.to_vec();
    for (at, start) in secret_words(words.iter().map(String::as_str)) {
        shown[at].replace_range(start.., HIDDEN);
    }
    shown
}

/// The values of secret options in a command line: the index of the word, and the offset of the value in it.
fn secret_words<'a>(words: impl Iterator<Item = &'a str>) -> Vec<(usize, usize)> {
    let (mut found, mut secret) = (Vec::new(), None);
    for (at, word) in words.enumerate() {
        let is_option = word.starts_with('-');
        let (option, value) = word
            .split_once('=')
            .map_or((word, None), |(option, _)| (option, Some(option.len() + 1)));
        match value {
            Some(start) if is_option && is_named_secret(option, &word[start..]) => found.push((at, start)),
            _ if !is_option && secret.is_some_and(|option| is_named_secret(option, word)) => found.push((at, 0)),
            _ => {}
        }
        secret = Some(option).filter(|_| is_option && value.is_none());
    }
    found
}

/// The secrets in user-set values, found by name: `env.HF_TOKEN`, `--api-key` in an engine's arguments.
pub fn named_secrets(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let of_member = |(name, value): (&String, &Value)| match value {
                // A member named just `key` is a lookup or sort key.
                Value::String(text) if is_named_secret(name, text) && !name.eq_ignore_ascii_case("key") => {
                    vec![text.clone()]
                }
                value => named_secrets(value),
            };
            members.iter().flat_map(of_member).collect()
        }
        Value::Array(values) => {
            let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            let found = secret_words(words.iter().copied());
            let found = found.into_iter().map(|(at, start)| words[at][start..].to_owned());
            found.chain(values.iter().flat_map(named_secrets)).collect()
        }
        _ => Vec::new(),
    }
}

/// Hides from now on the secrets in the configuration of a container of somebody else: only what looks like a key, and
/// only so many, so that a stranger can take no words from what is shown.
pub fn add_secrets_of(configuration: &Value) {
    add_secrets(keys_of(configuration));
}

fn keys_of(configuration: &Value) -> Vec<String> {
    const MOST: usize = 64;
    let mut all = Vec::new();
    texts(configuration, &mut all);
    let named = named_secrets(configuration).into_iter();
    let named = named.chain(all.iter().flat_map(|text| secrets_of_line(text)));
    let named = named.filter(|secret| looks_random(secret) || is_base64(secret));
    let formed = all.iter().flat_map(|text| {
        let places = keys::places(text.as_bytes()).into_iter();
        places.filter_map(|place| text.get(place).map(str::to_owned))
    });
    named.chain(formed).take(MOST).collect()
}

/// The texts in a value.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.values().for_each(|member| texts(member, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The secrets that a shell's line names: `HF_TOKEN=... vllm serve --api-key ...`.
fn secrets_of_line(line: &str) -> Vec<String> {
    let ends = |letter: char| letter.is_whitespace() || ";&|()".contains(letter);
    let line = line.replace(['"', '\'', '`'], "");
    let words: Vec<&str> = line.split(ends).filter(|word| !word.is_empty()).collect();
    let options = secret_words(words.iter().copied()).into_iter();
    let options = options.map(|(at, start)| words[at][start..].to_owned());
    let variables = words.iter().filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        is_secret_name(name).then(|| value.to_owned())
    });
    options.chain(variables).collect()
}

/// Whether a value may be bytes in base64: keys of 32 characters and more, which may have slashes.
fn is_base64(value: &str) -> bool {
    let kinds: [fn(&char) -> bool; 3] = [char::is_ascii_uppercase, char::is_ascii_lowercase, char::is_ascii_digit];
    let is_one = |letter: char| letter.is_ascii_alphanumeric() || "+/=".contains(letter);
    let has_all = || kinds.iter().all(|kind| value.chars().any(|letter| kind(&letter)));
    value.len() >= 32 && !value.starts_with('/') && value.chars().all(is_one) && has_all()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::super::decoded::tests::encoded;
    use super::*;

    #[test]
    fn the_name_of_a_variable_is_no_secret_and_a_key_in_its_place_is() {
        let given = |name: &str| named_secrets(&serde_json::json!({ "api_key_env": name, "hf_token_env": name }));
        assert!(given("MY_HF_TOKEN").is_empty() && given("PATH").is_empty());
        assert_eq!(given("sk-9f3a27c1").len(), 2);
        let shown = |words: [&str; 2]| hide_words(&words.map(str::to_owned));
        assert_eq!(shown(["--api-key-env", "MY_KEY"])[1], "MY_KEY");
        assert_eq!(shown(["--api-key-env", "sk-9f3a27c1"])[1], HIDDEN);
        assert_eq!(shown(["--api-key", "MY_KEY"])[1], HIDDEN);
    }

    fn hidden(text: &str, secrets: &[&str]) -> String {
        let mut all = Secrets::default();
        all.add(secrets.iter().map(|secret| (*secret).to_owned()));
        hide_by(text, all.finder.as_ref()).into_owned()
    }

    #[test]
    fn secrets_of_any_length_are_hidden_whole_and_where_they_are_cut_off() {
        let long = |end: &str| format!("{}{end}", "aB3dE6gH".repeat(200));
        let secrets = [long("one1"), long("other2"), "aB3dE6gHaB3d".to_owned()];
        let secrets = [&*secrets[0], &secrets[1], &secrets[2]];
        let [one, other, short] = secrets;
        for (text, clean) in [
            (format!("{one} {other} {short}!"), "*** *** ***!".to_owned()),
            (format!("{}\n", &one[..100]), "***\n".to_owned()),
            (format!("{}zz", STANDARD.encode(other)), "***==zz".to_owned()),
        ] {
            assert_eq!(hidden(&text, &secrets), clean);
        }
    }

    #[test]
    fn secrets_are_found_next_to_what_looks_like_a_part_of_them() {
        let hex = |between: &str| {
            let bytes = "hunter2hunter2".bytes().map(|byte| format!("{byte:02x}"));
            bytes.collect::<Vec<_>>().join(between)
        };
        let (long, key) = ("aB3dE6gH".repeat(8), "hf_uzkc97I4XGCIfNQ9rbxo");
        let longer = format!("{long}hf_zzzzYY12345");
        let (either, digit, upper) = ("hunter2hunter2", "hunter2hunte0", "QPVXAG8NF1E9CVYYVWWN");
        let secrets = [longer.as_str(), key, either, digit, upper];
        for (text, clean) in [
            // Base64 after signs of either alphabet, over lines, and of letters of one case.
            (
                "https://my-host/aHVudGVyMmh1bnRlcjI=".to_owned(),
                "https://my-host/***=",
            ),
            ("/srv/my_app/aHVudGVyMmh1bnRlcjI=".to_owned(), "/srv/my_app/***="),
            ("2026-11-29/aHVudGVyMmh1bnRlcjI".to_owned(), "2026-11-29/***"),
            ("- |\n    aHVudGVyMmh1\n    bnRlcjI=".to_owned(), "- |\n    ***="),
            ("UVBWWEFHOE5GMUU5Q1ZZWVZXV04=".to_owned(), "***="),
            // Hexadecimal before an `x`, and as `xxd -i` and `openssl` write it.
            ("68756e7465723268756e746530x".to_owned(), "***x"),
            (format!("{{\n  0x{}\n}}", hex(",\n  0x")), "{\n  0x***\n}"),
            (format!("    {}:", hex(":\r\n    ")), "    ***:"),
            // A secret that begins where another is cut off.
            (format!("{long}{key}!"), "***!"),
        ] {
            assert_eq!(hidden(&text, &secrets), clean);
        }
    }

    #[test]
    fn urls_lose_their_passwords_and_nothing_else() {
        for (text, clean) in [
            (
                r#"{"url":"http://me:p%40ss@[::1]:80/v1","x":"a@b"}"#,
                r#"{"url":"http://***@[::1]:80/v1","x":"a@b"}"#,
            ),
            (
                "see https://huggingface.co/x@main and http://a@b",
                "see https://huggingface.co/x@main and http://***@b",
            ),
            ("no url: a@b", "no url: a@b"),
        ] {
            assert_eq!(hidden(text, &[]), clean);
        }
    }

    #[test]
    fn words_and_numbers_are_no_secrets() {
        for value in ["12345678", "boundary", "short1", ""] {
            assert!(!can_be_hidden(value), "{value}");
        }
        for value in ["hunter2hunter2", "hf_abcdefgh", "correcthorsebatterystaple"] {
            assert!(can_be_hidden(value), "{value}");
        }
        assert_eq!(
            hidden("a boundary of 12345678", &["boundary", "12345678"]),
            "a boundary of 12345678"
        );
    }

    #[test]
    fn a_variable_is_harmless_by_its_name_its_value_or_the_command_line() {
        let words = ["run", "adaptive", "--set", "model=Qwen/Qwen3-8B"].map(str::to_owned);
        let secret = |name: &str, value: &str| is_secret_variable(name, value, &words);
        for (name, value) in [
            ("GITHUB_PAT", "ghp_abcdefgh12345"),
            ("MY_PASSWD", "hunter2hunter2"),
            ("HF_TOKEN", "/looks/like/a/path1"),
            ("SOMETHING", "hunter2hunter2"),
            ("PGPASSWORD", "letmeinletmein"),
            ("SLURM_JWT", "eyJhbGciOi"),
            ("CUDA_TOKEN", "abcdefgh1"),
            ("DB_PWD", "letmein-9"),
        ] {
            assert!(secret(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("PWD", "/home/me/work1"),
            ("MY_MODEL", "meta-llama/Llama31Instruct8B"),
            ("WORKSPACE", "/home/me/work1"),
            ("BUILD_DATE", "2026-11-23"),
            ("EXPERIMENT", "kv_cache"),
            ("RUN_NAME", "llama3-8b-test-1"),
            ("LC_ALL", "en_US.UTF-8"),
            ("HTTP_PROXY", "http://proxy:3128"),
        ] {
            assert!(!secret(name, value), "{name}");
        }
    }

    #[test]
    fn secrets_are_found_by_line_and_in_what_engines_make_of_them() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nXl3tBcd\n";
        assert_eq!(hidden("a MIIEvQIBADANBgkqhkiG9w0 b", &[key]), "a *** b");
        // Python's `repr`, `json.dumps` once and twice, `quote`, and JavaScript's `encodeURIComponent`.
        let said = r#"'a"b\\\\c/é!12' a\"b\\\\c/\u00e9!12 a\\\"b\\\\\\\\c/\\u00e9!12 a%22b%5C%5Cc/%C3%A9%2112 a%22b%5C%5Cc%2F%C3%A9!12"#;
        let clean = hidden(said, &[r#"a"b\\c/é!12"#]);
        assert_eq!(clean, "'***' *** *** *** ***");
        // Basic authentication. The first and the last digit also encode what is next to the secret.
        for (pair, left) in [
            ("me:hunter2hunter2", "bWU6***="),
            ("you:hunter2hunter2", "eW91O***"),
            ("root:hunter2hunter2", "cm9vdD***=="),
        ] {
            assert_eq!(hidden(&STANDARD.encode(pair), &["hunter2hunter2"]), left, "{pair}");
        }
    }

    proptest! {
        /// For any secret, a document stays valid JSON and contains no form of the secret.
        #[test]
        fn a_document_loses_every_form_of_a_secret_and_nothing_else(
            secret in "[a-z]{4,9}[0-9\"\\\\/&<>%=+é ]{4,9}", kinds in prop::collection::vec((0_u8..11, any::<u64>()), 0..3),
        ) {
            prop_assume!(can_be_hidden(&secret));
            add_secrets([secret.clone()]);
            let form = kinds.iter().fold(secret.clone(), |text, (kind, part)| encoded(&text, *kind, *part));
            let said = format!("before {form} after");
            let document = serde_json::json!({ "point": { "input": 4096 }, "said": said, "kept": "boundary" });
            for text in [document.to_string(), format!("{document:#}")] {
                let text = hide_json(text);
                let read: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&read["point"], &document["point"]);
                prop_assert_eq!(&read["kept"], &document["kept"]);
                let said = read["said"].as_str().unwrap();
                prop_assert!(said.starts_with("before ") && said.ends_with(" after") && said.contains("***"), "{}", said);
                prop_assert!(!said.contains(&form));
            }
        }
    }
}

#[cfg(test)]
mod redact_tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_user_password_and_query() {
        let shown = hide_url(&Url::parse("http://me:hunter2@localhost:80/v1?key=abc#x").unwrap());
        assert_eq!(shown, "http://***@localhost/v1");
        assert_eq!(
            hide_url(&Url::parse("http://localhost:81/").unwrap()),
            "http://localhost:81/"
        );
    }

    #[test]
    fn secrets_are_found_in_user_values() {
        let set = serde_json::json!({
            "env": { "HF_TOKEN": "one", "HF_HUB_OFFLINE": "1" }, "engine_args": ["--api-key", "two", "--token=three", "--port=80"],
            "engines": [{ "env": { "OPENAI_API_KEY": "four" } }], "tokenizer": "gpt2", "sort": { "key": "model" },
        });
        let mut found = named_secrets(&set);
        found.sort();
        assert_eq!(found, ["four", "one", "three", "two"]);
    }

    #[test]
    fn keys_of_a_strangers_container_are_found_where_they_usually_stand() {
        let hf = format!("hf_{}", "AbCdEfGh".repeat(4));
        let configuration = serde_json::json!({
            "env": { "MODEL_ARGS": format!("--hf={hf} --fast"), "S3_SECRET": "wJalrXUtnFEMIK7MDENGbPxRfiCYzzzz/KEY/xyz", "TOKEN_FILE": "/models/Llama31Instruct8B" },
            "command": ["sh", "-c", "API_KEY='one23456789012' vllm serve \"a/b\" --api-key two23456789012; sleep 9"],
        });
        let mut found = keys_of(&configuration);
        found.sort();
        let aws = "wJalrXUtnFEMIK7MDENGbPxRfiCYzzzz/KEY/xyz";
        assert_eq!(found, [hf.as_str(), "one23456789012", "two23456789012", aws]);
    }

    #[test]
    fn secrets_are_recognized_by_name() {
        assert_eq!(hide_variable("HF_TOKEN", "hf_x"), HIDDEN);
        assert_eq!(hide_variable("OPENAI_API_KEY", "sk"), HIDDEN);
        assert_eq!(hide_variable("HF_HUB_OFFLINE", "1"), "1");
        assert_eq!(hide_variable("MAX_TOTAL_TOKENS", "4096"), "4096");
        let line = ["serve", "--api-key", "sk", "--token=hf", "--max-tokens", "5"].map(str::to_owned);
        assert_eq!(
            hide_words(&line),
            ["serve", "--api-key", HIDDEN, "--token=***", "--max-tokens", "5"]
        );
    }
}
