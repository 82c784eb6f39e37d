//! Keys of services, known by the form that each service publishes for them.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::decoded;

/// The service, the pattern of its keys, and where it says so.
const FORMS: [(&str, &str, &str); 29] = [
    (
        "Anthropic, OpenAI, OpenRouter",
        r"sk-[A-Za-z0-9_-]{20,}",
        "platform.openai.com/docs/api-reference/authentication",
    ),
    (
        "AWS",
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
        "docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html",
    ),
    (
        "Azure Storage",
        r"AccountKey=[A-Za-z0-9+/]{80,}",
        "learn.microsoft.com/azure/storage/common/storage-configure-connection-string",
    ),
    (
        "Databricks",
        r"dapi[0-9a-f]{32}",
        "docs.databricks.com/dev-tools/auth/pat.html",
    ),
    (
        "DigitalOcean",
        r"do[oprt]_v1_[0-9a-f]{64}",
        "docs.digitalocean.com/reference/api/create-personal-access-token",
    ),
    (
        "Docker",
        r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
        "docs.docker.com/security/access-tokens",
    ),
    (
        "Fireworks",
        r"fw_[A-Za-z0-9]{22,}",
        "docs.fireworks.ai/getting-started/quickstart",
    ),
    (
        "GitHub",
        r"gh[oprsu]_[A-Za-z0-9]{30,}",
        "docs.github.com/authentication/keeping-your-account-and-data-secure/about-authentication-to-github",
    ),
    (
        "GitHub",
        r"github_pat_[A-Za-z0-9_]{22,}",
        "docs.github.com/authentication/keeping-your-account-and-data-secure/about-authentication-to-github",
    ),
    (
        "GitLab",
        r"gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{20,}",
        "docs.gitlab.com/security/tokens",
    ),
    (
        "Google",
        r"AIza[A-Za-z0-9_-]{30,}",
        "cloud.google.com/docs/authentication/api-keys",
    ),
    (
        "Google",
        r"ya29\.[A-Za-z0-9_-]{20,}",
        "developers.google.com/identity/protocols/oauth2",
    ),
    (
        "Google",
        r"GOCSPX-[A-Za-z0-9_-]{20,}",
        "developers.google.com/identity/protocols/oauth2",
    ),
    ("Groq", r"gsk_[A-Za-z0-9]{40,}", "console.groq.com/docs/quickstart"),
    (
        "Hugging Face",
        r"hf_[A-Za-z0-9]{30,}",
        "huggingface.co/docs/hub/security-tokens",
    ),
    (
        "Hugging Face",
        r"api_org_[A-Za-z0-9]{30,}",
        "huggingface.co/docs/hub/security-tokens",
    ),
    (
        "LangSmith",
        r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{32,}",
        "docs.smith.langchain.com/administration/how_to_guides/organization_management/create_account_api_key",
    ),
    ("npm", r"npm_[A-Za-z0-9]{30,}", "docs.npmjs.com/about-access-tokens"),
    (
        "NVIDIA",
        r"nvapi-[A-Za-z0-9_-]{20,}",
        "docs.nvidia.com/ngc/gpu-cloud/ngc-user-guide",
    ),
    (
        "Perplexity",
        r"pplx-[A-Za-z0-9]{40,}",
        "docs.perplexity.ai/guides/getting-started",
    ),
    ("PyPI", r"pypi-[A-Za-z0-9_-]{16,}", "pypi.org/help/#apitoken"),
    ("Replicate", r"r8_[A-Za-z0-9]{30,}", "replicate.com/docs/reference/http"),
    (
        "SendGrid",
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        "docs.sendgrid.com/ui/account-and-settings/api-keys",
    ),
    (
        "Slack",
        r"x(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,}",
        "api.slack.com/concepts/token-types",
    ),
    (
        "Stripe",
        r"[prs]k_(?:live|test)_[A-Za-z0-9]{16,}",
        "docs.stripe.com/keys",
    ),
    ("Twilio", r"SK[0-9a-f]{32}", "twilio.com/docs/iam/api-keys"),
    ("xAI", r"xai-[A-Za-z0-9]{40,}", "docs.x.ai/docs/tutorial"),
    (
        "JSON Web Tokens",
        r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        "rfc-editor.org/rfc/rfc7519",
    ),
    (
        "private keys",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
        "rfc-editor.org/rfc/rfc7468",
    ),
];

/// Weights & Biases has bare keys of 40 hexadecimal digits (docs.wandb.ai/support/find_api_key), like the ids of commits
/// and files of Git. An id follows one of these words or signs.
const BARE: &str = r"[0-9a-f]{40}";
const ID_WORDS: [&str; 16] = [
    "commit", "revision", "rev", "resolve", "raw", "archive", "snapshot", "blob", "sha", "hash", "digest", "etag",
    "tree", "git", "ref", "@",
];
/// How far before the digits the word stands.
const ID_REACH: usize = 96;

static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms: Vec<&str> = FORMS.iter().map(|(_, form, _)| *form).collect();
    // A letter or digit before a key is part of another word; `_`, an escape or a letter of another script is not.
    Regex::new(&format!(
        r"(?-u)(?:^|[^A-Za-z0-9])({}|({BARE})(?:[^0-9A-Za-z]|$))",
        forms.join("|")
    ))
    .ok()
});

/// The places of keys in a text, under any encoding.
pub(super) fn places(text: &[u8]) -> Vec<Range<usize>> {
    let Some(keys) = &*KEYS else { return Vec::new() };
    decoded::find(text, &mut |bytes| {
        let found = keys.captures_iter(bytes).filter_map(|found| {
            let key = found.get(2).or(found.get(1))?;
            let before = &bytes[key.start().saturating_sub(ID_REACH)..key.start()];
            let before = String::from_utf8_lossy(before).to_ascii_lowercase();
            let is_id = found.get(2).is_some() && ID_WORDS.iter().any(|word| before.contains(word));
            (!is_id).then(|| key.range())
        });
        found.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::decoded::tests::encoded;
    use super::*;

    #[test]
    fn a_key_is_found_wherever_it_stands() {
        let word = "AbCdEfGh";
        let hex = "0123456789abcdef0123456789abcdef01234567";
        let keys = [
            format!("hf_{}", word.repeat(5)),
            format!("sk-{}", word.repeat(5)),
            format!("sk-ant-api03-{}", word.repeat(8)),
            format!("ghp_{}", word.repeat(5)),
            format!("glpat-{}", word.repeat(3)),
            format!("AIza{}", word.repeat(5)),
            format!("xoxb-123456789012-{word}"),
            format!("nvapi-{}", word.repeat(8)),
            format!("npm_{}", word.repeat(5)),
            format!("AKIA{}", "IOSFODNN7EXAMPLE"),
            format!("ASIA{}", "IOSFODNN7EXAMPLE"),
            format!("eyJ{0}{0}.eyJ{0}{0}.{0}{0}", word),
            "-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(),
            hex.to_owned(),
        ];
        for key in &keys {
            for text in [
                format!("first line\n{key}\nlast"),
                format!("a\t{key}"),
                format!("a%3D{key}"),
                format!("key_{key}"),
                format!("é{key}"),
                format!("\"\\\"{key}\\\"\""),
                key.clone(),
            ] {
                for written in [
                    text.clone(),
                    encoded(&text, 2, 0),
                    encoded(&encoded(&text, 2, 0), 2, 0),
                    encoded(&text, 0, 7),
                ] {
                    assert!(!places(written.as_bytes()).is_empty(), "{written}");
                }
            }
        }
        for text in [
            format!("models--x/snapshots/{hex}/config.json"),
            format!("{{\"commit\":\"{hex}\"}}"),
            format!("Qwen/Qwen3-8B@{hex}"),
            format!("sha256:{hex}{hex}"),
            "task-list-of-the-day-and-more-words".to_owned(),
            "risk-adjusted-returns-of-many-kinds".to_owned(),
        ] {
            assert!(places(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
