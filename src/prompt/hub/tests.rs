use std::path::Path;

use super::*;

fn hub(variables: &[(&str, &str)]) -> Result<Hub> {
    let find = |name: &str| {
        let entry = variables.iter().find(|(entry, _)| *entry == name);
        entry.map(|(_, value)| (*value).to_owned())
    };
    Hub::from_variables(find, Some("/caches".into()))
}

#[test]
fn without_variables_it_is_the_public_hub_and_the_users_cache() {
    let hub = hub(&[]).unwrap();
    assert_eq!(hub.endpoint.as_str(), "https://huggingface.co/");
    assert_eq!(hub.cache, Path::new("/caches/huggingface/hub"));
    assert!(!hub.offline && hub.token.is_none());
}

#[test]
fn variables_are_honoured() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "from-file\n").unwrap();
    let home = folder.path().to_str().unwrap();
    let token = |hub: Hub| hub.token.unwrap().reveal().to_owned();
    assert_eq!(hub(&[("HF_HOME", home)]).unwrap().cache, folder.path().join("hub"));
    assert_eq!(token(hub(&[("HF_HOME", home)]).unwrap()), "from-file");
    assert_eq!(
        token(hub(&[("HF_HOME", home), ("HF_TOKEN", "given")]).unwrap()),
        "given"
    );
    let all = hub(&[
        ("HF_HUB_CACHE", "/c"),
        ("HF_HUB_OFFLINE", "1"),
        ("HF_ENDPOINT", "http://localhost:9"),
    ])
    .unwrap();
    assert_eq!(
        (all.cache.to_str().unwrap(), all.offline, all.endpoint.port()),
        ("/c", true, Some(9))
    );
    assert!(!hub(&[("HF_HUB_OFFLINE", "0")]).unwrap().offline);
    assert!(hub(&[("HF_TOKEN", " ")]).unwrap().token.is_none());
}

#[test]
fn a_wrong_endpoint_is_refused_without_repeating_it() {
    for endpoint in ["user:secret@host", "ftp://secret@host/", "secret"] {
        let fault = hub(&[("HF_ENDPOINT", endpoint)]).unwrap_err();
        assert!(!fault.message.contains("secret"), "{fault}");
    }
}
