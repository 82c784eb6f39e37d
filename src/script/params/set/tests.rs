use serde_json::{Map, Value, json};

use super::{assign, assignment, read_file};

#[test]
fn values_are_json_else_strings() {
    assert_eq!(assignment("a=1").unwrap(), ("a", json!(1)));
    assert_eq!(assignment("a.b=[1, 2]").unwrap(), ("a.b", json!([1, 2])));
    assert_eq!(assignment("a=\"7\"").unwrap(), ("a", json!("7")));
    assert_eq!(
        assignment("url=http://h/?a=b").unwrap(),
        ("url", json!("http://h/?a=b"))
    );
    assert_eq!(assignment("a=").unwrap(), ("a", json!("")));
    assert!(assignment("a").is_err());
}

#[test]
fn dots_reach_into_maps_and_the_last_assignment_wins() {
    let mut map = Map::new();
    for (path, value) in [("a.b", 1), ("a.c.d", 2), ("e", 3), ("a.b", 4)] {
        assign(&mut map, path, json!(value)).unwrap();
    }
    assert_eq!(
        Value::Object(map.clone()),
        json!({ "a": { "b": 4, "c": { "d": 2 } }, "e": 3 })
    );
    assert!(assign(&mut map, "e.f", json!(1)).is_err());
    for wrong in ["", ".a", "a.", "a..b"] {
        assert!(assign(&mut map, wrong, json!(1)).is_err(), "{wrong}");
    }
}

#[test]
fn yaml_toml_and_json_files_give_the_same_parameters() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("p.yaml", "model: tiny\nsearch:\n  max_probes: 40\ninput: [1, 2]\n"),
        ("p.toml", "model = \"tiny\"\ninput = [1, 2]\nsearch.max_probes = 40\n"),
        (
            "p.json",
            "{\"model\": \"tiny\", \"search.max_probes\": 40, \"input\": [1, 2]}",
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let map = Value::Object(read_file(&path).unwrap());
        assert_eq!(
            map,
            json!({ "model": "tiny", "search": { "max_probes": 40 }, "input": [1, 2] }),
            "{name}"
        );
    }
}

#[test]
fn an_invalid_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("p.json", "[1]"),
        ("p.txt", "a: 1"),
        ("p.yaml", "a: [1"),
        ("p.toml", "a = "),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let fault = read_file(&path).unwrap_err();
        assert!(fault.message.contains(name), "{fault}");
    }
}
