use super::*;

fn function(kind: FunctionKind, module: Option<&str>, on: Option<&str>) -> FunctionDoc {
    FunctionDoc {
        name: "start".to_owned(),
        kind,
        module: module.map(str::to_owned),
        on: on.map(str::to_owned),
        params: vec![
            Param {
                name: "options".to_owned(),
                kind: Some("map".to_owned()),
            },
            Param {
                name: "more".to_owned(),
                kind: None,
            },
        ],
        returns: Some("int".to_owned()),
        settable: false,
        summary: String::new(),
        docs: String::new(),
        examples: Vec::new(),
    }
}

#[test]
fn a_signature_reads_as_the_call() {
    let signature = |kind, module, on| function(kind, module, on).signature();
    assert_eq!(
        signature(FunctionKind::Function, Some("std/engines"), None),
        "engines::start(options: map, more) -> int"
    );
    assert_eq!(
        signature(FunctionKind::Method, None, Some("Engine")),
        "Engine.start(options: map, more) -> int"
    );
    assert_eq!(
        signature(FunctionKind::Property, None, Some("Engine")),
        "Engine.start: int"
    );
}

#[test]
fn titles_distinguish_modules_and_types() {
    assert_eq!(
        function(FunctionKind::Function, Some("std/engines"), None).title(),
        "std/engines::start"
    );
    assert_eq!(
        function(FunctionKind::Method, None, Some("Engine")).title(),
        "Engine.start"
    );
}
