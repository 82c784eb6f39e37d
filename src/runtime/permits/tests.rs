use super::*;
use crate::fault::Kind;
use crate::runtime::{Launch, Mount, RuntimeKind};

const NOTHING: [&str; 0] = [];

/// A shipped adapter without values of the script.
const SHIPPED: Origin = Origin::ShippedAdapter {
    replaced: false,
    unlisted: Vec::new(),
};

fn refused(permits: &Permits, launch: &Launch) -> Fault {
    let fault = permits.check_launch(RuntimeKind::Docker, launch, &SHIPPED).unwrap_err();
    assert_eq!(fault.kind, Kind::NotAllowed, "{fault:?}");
    fault
}

fn none() -> Permits {
    Permits::parse(NOTHING).unwrap()
}

/// The permissions of a shipped script with this parameter on the command line.
fn naming(parameter: &str, value: &str) -> Permits {
    let mut permits = none();
    permits.name([(parameter, value)], false, |_| false);
    permits
}

fn everything() -> Permits {
    Permits::parse(["token,process,exec,code,entrypoint,image=x,mount=/,net=example.org,port=81"]).unwrap()
}

fn mount(host: &Path, writable: bool) -> Launch {
    Launch {
        image: Some("x".into()),
        mounts: vec![Mount {
            host: host.to_str().unwrap().into(),
            container: "/m".into(),
            writable,
            of_model: false,
        }],
        ..Launch::default()
    }
}

#[test]
fn unknown_keywords_suggest_the_nearest() {
    let fault = Permits::parse(["token,proces"]).unwrap_err();
    assert_eq!(fault.kind, Kind::Usage);
    assert_eq!(fault.message, "`--allow` does not know `proces`");
    assert_eq!(fault.hint.as_deref(), Some("did you mean `process`?"));
    for wrong in [
        "mount",
        "mount=",
        "net",
        "image=",
        "token=x",
        "exec=",
        "mount=/no/such/folder",
    ] {
        assert_eq!(Permits::parse([wrong]).unwrap_err().kind, Kind::Usage, "{wrong}");
    }
}

#[test]
fn forbidden_options_are_refused_by_name_whatever_is_allowed() {
    type Ask = fn(&mut Launch);
    let asks: [(&str, Ask); 8] = [
        ("privileged", |launch| launch.privileged = true),
        ("network: \"host\"", |launch| launch.network = "host".into()),
        ("network: \"container:db\"", |launch| {
            launch.network = "container:db".into()
        }),
        ("pid: \"host\"", |launch| launch.pid = "host".into()),
        ("ipc: \"host\"", |launch| launch.ipc = "host".into()),
        ("devices: [\"/dev/sda\"]", |launch| {
            launch.devices = vec!["/dev/sda".into()]
        }),
        ("capabilities: [\"SYS_ADMIN\"]", |launch| {
            launch.capabilities = vec!["SYS_ADMIN".into()]
        }),
        ("ulimits: #{ nproc: … }", |launch| {
            launch.ulimits = [("memlock".into(), -1), ("nproc".into(), -1)].into()
        }),
    ];
    for (name, ask) in asks {
        let mut launch = Launch::default();
        ask(&mut launch);
        let fault = refused(&everything(), &launch);
        assert!(fault.message.contains(name), "{name}: {fault}");
    }
}

#[test]
fn the_docker_socket_can_never_be_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("innocent");
    std::os::unix::fs::symlink("/var/run", &link).unwrap();
    let through = |path: &str| refused(&everything(), &mount(Path::new(path), false)).message;
    for path in ["/var/run", "/run", "/", "/var/../run", "/proc", "/sys", "/dev"] {
        if Path::new(path).exists() {
            assert!(through(path).contains("never allowed"), "{path}");
        }
    }
    assert!(through(link.to_str().unwrap()).contains("never allowed"));
}

#[test]
fn any_socket_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.sock");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(
        refused(&everything(), &mount(&path, false))
            .message
            .contains("it is a socket")
    );
}

#[test]
fn mounts_need_permission() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let allow = |folder: &Path| Permits::parse([format!("mount={}", folder.display())]).unwrap();

    let fault = refused(&none(), &mount(&inside, false));
    let real = std::fs::canonicalize(&inside).unwrap();
    assert!(
        fault
            .hint
            .unwrap()
            .contains(&format!("--allow mount={}", real.display()))
    );

    let grant = allow(folder.path()).check_launch(RuntimeKind::Docker, &mount(&inside, true), &SHIPPED);
    assert_eq!(grant.unwrap().mounts[0].host, real.to_str().unwrap());

    // A link is resolved once, here; a later change of its target has no effect.
    let name = folder.path().join("name");
    std::os::unix::fs::symlink(&inside, &name).unwrap();
    let grant = allow(folder.path()).check_launch(RuntimeKind::Docker, &mount(&name, false), &SHIPPED);
    assert_eq!(grant.unwrap().mounts[0].host, real.to_str().unwrap());

    // A sibling with the same prefix, and a link that leads outside.
    refused(&allow(&inside), &mount(folder.path(), false));
    let link = inside.join("out");
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    assert!(
        refused(&allow(&inside), &mount(&link, false))
            .message
            .contains("`/etc`")
    );
}

#[test]
fn a_named_model_folder_may_be_read_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let permits = naming("model", &folder.path().display().to_string());
    let check = |permits: &Permits| permits.check_launch(RuntimeKind::Docker, &mount(folder.path(), false), &SHIPPED);
    assert!(check(&permits).is_ok());
    assert!(check(&permits.for_foreign_code()).is_err());
    assert!(
        refused(&permits, &mount(folder.path(), true))
            .message
            .contains("write to")
    );
}

#[test]
fn native_processes_need_permission() {
    let launch = Launch::default();
    let fault = none()
        .check_launch(RuntimeKind::Process, &launch, &SHIPPED)
        .unwrap_err();
    assert_eq!(
        (fault.kind, fault.message.contains("native processes")),
        (Kind::NotAllowed, true)
    );
    assert!(fault.hint.unwrap().contains("--allow process"));
    assert!(
        everything()
            .check_launch(RuntimeKind::Process, &launch, &SHIPPED)
            .is_ok()
    );
}

#[test]
fn addresses_that_the_run_did_not_open_need_permission() {
    let check = |permits: &Permits, url: &str| permits.check_url(&Url::parse(url).unwrap());
    for own in [
        "http://localhost:81",
        "http://127.9.9.9:81",
        "http://[::1]:81",
        "http://[::ffff:127.0.0.1]:81",
        "http://0.0.0.0:81",
    ] {
        let fault = check(&none(), own).unwrap_err();
        assert_eq!(fault.kind, Kind::NotAllowed, "{own}");
        assert!(fault.hint.unwrap().contains("--allow port=81"), "{own}");
        assert!(check(&everything(), own).is_ok(), "{own}");
    }
    assert!(check(&everything(), "http://localhost:82").is_err());
    assert!(Permits::parse(["mount=/tmp,process"]).unwrap().allowed.process);
    // A comma that a script chose does not start another word.
    let want = Want::new("image=busybox,process", "");
    let option = Want::option([&want]);
    assert_eq!(option, r"--allow 'image=busybox\,process'");
    let allowed = Permits::parse(["token, image=a", r"image=busybox\,process"])
        .unwrap()
        .allowed;
    assert_eq!(allowed.images, ["a", "busybox,process"]);
    assert!(allowed.token && !allowed.process);
    for foreign in [
        "http://example.org",
        "http://10.0.0.1:8000",
        "http://localhost.example.org:81",
        "http://localhost@example.org:81",
        "http://[::ffff:10.0.0.1]:81",
    ] {
        let fault = check(&none(), foreign).unwrap_err();
        assert_eq!(fault.kind, Kind::NotAllowed, "{foreign}");
        assert!(fault.hint.unwrap().contains("net="), "{foreign}");
    }
    assert!(check(&everything(), "https://example.org:8443/v1").is_ok());
    assert!(check(&everything(), "https://www.example.org").is_err());
    let only = Permits::parse(["net=example.org:81"]).unwrap();
    assert!(check(&only, "http://example.org:81").is_ok());
    assert!(check(&only, "http://example.org:80").is_err());
    for (named, other) in [
        ("10.0.0.1:8000/v1", "http://10.0.0.1:22"),
        ("localhost:8000", "http://localhost:22"),
    ] {
        let named_url = format!("http://{}", named.trim_end_matches("/v1"));
        let named = naming("url", named);
        assert!(check(&named, &named_url).is_ok() && check(&named, other).is_err());
        assert!(check(&named.for_foreign_code(), &named_url).is_err());
    }
}

#[test]
fn foreign_containers_need_permission() {
    assert!(none().check_attach("db").unwrap_err().message.contains("`db`"));
    let permits = naming("container", "db");
    assert!(permits.check_attach("db").is_ok());
    assert!(permits.for_foreign_code().check_attach("db").is_err());
    assert!(
        permits
            .check_exec("db")
            .unwrap_err()
            .hint
            .unwrap()
            .contains("--allow exec")
    );
    assert!(everything().check_exec("db").is_ok());
}

#[test]
fn everything_that_a_launch_needs_is_asked_for_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch {
        entrypoint: vec!["/bin/id".into()],
        ..mount(folder.path(), false)
    };
    let check = |permits: &Permits| permits.check_launch(RuntimeKind::Docker, &launch, &Origin::Script);
    let fault = check(&none()).unwrap_err();
    let real = folder.path().canonicalize().unwrap();
    let option = format!("image=x,entrypoint,mount={}", real.display());
    assert!(fault.hint.unwrap().contains(&format!("`--allow {option}`")));
    assert!(check(&Permits::parse([option]).unwrap()).is_ok());

    // An answer counts for all requested permissions, and for the rest of the run.
    let asked = Permits::parse(["image=x"]).unwrap();
    asked.ask_with(|wants| Ok(if wants.len() == 2 { Consent::Run } else { Consent::No }));
    assert!(check(&asked).is_ok());
    assert_eq!(
        asked.answered(),
        ["entrypoint".to_owned(), format!("mount={}", real.display())]
    );
    assert!(check(&asked.clone()).is_ok() && asked.answered().len() == 2);
}

#[test]
fn images_of_shipped_adapters_need_no_permission_and_others_do() {
    let launch = Launch {
        image: Some("ghcr.io/me/engine:1".into()),
        ..Launch::default()
    };
    let replaced = Origin::ShippedAdapter {
        replaced: true,
        unlisted: Vec::new(),
    };
    let check = |permits: &Permits, origin: &Origin| permits.check_launch(RuntimeKind::Docker, &launch, origin).is_ok();
    assert!(check(&none(), &SHIPPED));
    for origin in [&replaced, &Origin::Script] {
        assert!(!check(&none(), origin), "{origin:?}");
        for (allow, enough) in [
            ("ghcr.io/me", true),
            ("ghcr.io/me/engine:1", true),
            ("ghcr.io/m", false),
        ] {
            let permits = Permits::parse([format!("image={allow}")]).unwrap();
            assert_eq!(check(&permits, origin), enough, "{origin:?} {allow}");
        }
    }
    let named = naming("image", "ghcr.io/me/engine:1");
    assert!(check(&named, &replaced) && !check(&named, &Origin::Script));
    assert!(!check(&naming("image", "ghcr.io/me"), &replaced), "named as it is");
}

#[test]
fn code_from_the_model_needs_permission() {
    let with = |args: &[&str], env: &[(&str, &str)]| Launch {
        args: args.iter().map(|&arg| arg.into()).collect(),
        env: env.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
        ..Launch::default()
    };
    for launch in [
        with(&["--trust-remote-code"], &[]),
        with(&["--trust_remote_code=true"], &[]),
        with(&["--trust-remote"], &[]),
        with(&["-c", "serve --trust-remote-code m"], &[]),
        with(&[r#"{"trust_remote_code": true}"#], &[]),
        with(&["-c", "echo --trust-remote-code=false --trust-remote"], &[]),
        with(&[], &[("TRUST_REMOTE_CODE", "true")]),
    ] {
        let fault = refused(&none(), &launch);
        assert!(fault.message.contains("trust_remote_code"), "{launch:?}");
        assert!(fault.hint.unwrap().contains("--allow code"));
        assert!(
            everything()
                .check_launch(RuntimeKind::Docker, &launch, &SHIPPED)
                .is_ok()
        );
    }
    for harmless in [
        with(&["--trust-remote-code=false", "--tokenizer", "t", "--tp"], &[]),
        with(&[], &[("TRUST_REMOTE_CODE", "0")]),
    ] {
        assert!(
            none().check_launch(RuntimeKind::Docker, &harmless, &SHIPPED).is_ok(),
            "{harmless:?}"
        );
    }
}

#[test]
fn the_token_is_for_launches_that_shipped_adapters_describe() {
    let launch = Launch {
        image: Some("x".into()),
        token: true,
        ..Launch::default()
    };
    let of = |replaced, unlisted: &[&str]| Origin::ShippedAdapter {
        replaced,
        unlisted: unlisted.iter().map(|&name| name.into()).collect(),
    };
    let grant = |allow: &str, kind, origin: &Origin| {
        let permits = Permits::parse(["image=x,process", allow]).unwrap();
        let grant = permits.check_launch(kind, &launch, origin).unwrap();
        // A denial is reported.
        assert_ne!(
            grant.token,
            grant.withheld.iter().any(|what| what.contains("--allow token"))
        );
        grant
    };
    for (origin, docker, process) in [
        (of(false, &[]), true, true),
        (of(true, &[]), false, false),
        (of(false, &["NCCL_NET_PLUGIN"]), false, false),
        (Origin::Script, false, false),
    ] {
        assert_eq!(grant("", RuntimeKind::Docker, &origin).token, docker, "{origin:?}");
        assert_eq!(grant("", RuntimeKind::Process, &origin).token, process, "{origin:?}");
        assert!(grant("token", RuntimeKind::Docker, &origin).token);
    }
    let withheld = grant("", RuntimeKind::Docker, &of(false, &["NCCL_NET_PLUGIN"])).withheld;
    assert!(withheld[0].contains("`NCCL_NET_PLUGIN`"), "{withheld:?}");
}

#[test]
fn the_token_is_not_for_a_container_of_somebody_else() {
    let launch = Launch {
        container: Some("theirs".into()),
        token: true,
        ..Launch::default()
    };
    let grant = |allow: &str| {
        let permits = Permits::parse([allow]).unwrap();
        permits.check_launch(RuntimeKind::Process, &launch, &SHIPPED).unwrap()
    };
    let asked = grant("exec");
    assert!(!asked.token);
    let said = asked.withheld.join("; ");
    assert!(said.contains("`theirs`") && said.contains("--allow token"), "{said}");
    let allowed = grant("exec,token");
    assert!(allowed.token && allowed.withheld.is_empty());
}

#[test]
fn a_file_is_written_only_in_an_allowed_folder_however_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let [allowed, other] = ["allowed", "other"].map(|name| real.join(name));
    std::fs::create_dir(&allowed).unwrap();
    std::fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(&other, allowed.join("link")).unwrap();
    std::fs::write(other.join("theirs"), "kept").unwrap();
    std::os::unix::fs::symlink(other.join("theirs"), allowed.join("file")).unwrap();
    std::os::unix::fs::symlink(other.join("nothing"), allowed.join("dangling")).unwrap();
    let permits = Permits::parse([format!("mount={}", allowed.display())]).unwrap();
    let check = |permits: &Permits, name: &str| permits.check_output(allowed.join(name).to_str().unwrap());

    assert_eq!(check(&permits, "new/x").unwrap(), allowed.join("new/x"));
    for outside in ["../other/x", "link/x", "link/new/x", "file", "../x"] {
        assert_eq!(
            check(&permits, outside).unwrap_err().kind,
            Kind::NotAllowed,
            "{outside}"
        );
    }
    for wrong in ["new/../../other/x", "dangling", "../other/theirs/x", "link", "x/"] {
        assert_eq!(check(&permits, wrong).unwrap_err().kind, Kind::Usage, "{wrong}");
    }
    // The remedy names something that can be allowed.
    let fault = check(&none(), "new/x").unwrap_err();
    let word = format!("mount={}", allowed.display());
    assert!(fault.hint.unwrap().contains(&format!("--allow {word}")));
    check(&Permits::parse([word]).unwrap(), "new/x").unwrap();
    // A path that the user names may lead anywhere.
    let named = allowed.join("../other/x");
    let named = named.to_str().unwrap();
    assert_eq!(naming("output", named).check_output(named).unwrap(), other.join("x"));
}

#[test]
fn a_mount_that_the_user_did_not_name_costs_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch {
        token: true,
        ..mount(folder.path(), false)
    };
    let mounts = format!("/no/such:/n,{}:/m", folder.path().display());
    let check = |permits: &Permits| permits.check_launch(RuntimeKind::Docker, &launch, &SHIPPED).unwrap();
    assert!(check(&naming("mounts", &mounts)).token);
    let allowed = format!("mount={}", folder.path().display());
    let grant = check(&Permits::parse([allowed.clone()]).unwrap());
    assert!(
        !grant.token && !grant.keeps_model && grant.withheld[0].contains("--allow token"),
        "{grant:?}"
    );
    assert!(check(&Permits::parse([allowed, "token".to_owned()]).unwrap()).token);

    // Naming a folder allows to read it.
    let writable = mount(folder.path(), true);
    let fault = refused(
        &naming("mounts", &format!("{}:/m:rw", folder.path().display())),
        &writable,
    );
    assert!(fault.hint.unwrap().contains("--allow mount="));
}
