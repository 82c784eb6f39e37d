use super::*;
use crate::fault::Kind;
use crate::runtime::{Launch, Mount, RuntimeKind};

const NOTHING: [&str; 0] = [];

fn refused(permits: &Permits, launch: &Launch) -> Fault {
    let fault = permits.check_launch(RuntimeKind::Docker, launch, true).unwrap_err();
    assert_eq!(fault.kind, Kind::NotAllowed, "{fault:?}");
    fault
}

fn none() -> Permits {
    Permits::parse(NOTHING).unwrap()
}

fn everything() -> Permits {
    Permits::parse(["token,process,exec,code,image=x,mount=/,net=example.org"]).unwrap()
}

fn mount(host: &Path, writable: bool) -> Launch {
    Launch {
        image: Some("x".into()),
        mounts: vec![Mount {
            host: host.to_str().unwrap().into(),
            container: "/m".into(),
            writable,
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

    let grant = allow(folder.path()).check_launch(RuntimeKind::Docker, &mount(&inside, true), false);
    assert_eq!(grant.unwrap().mounts[0].host, real.to_str().unwrap());

    // A link is resolved once, here; a later change of its target has no effect.
    let name = folder.path().join("name");
    std::os::unix::fs::symlink(&inside, &name).unwrap();
    let grant = allow(folder.path()).check_launch(RuntimeKind::Docker, &mount(&name, false), false);
    assert_eq!(grant.unwrap().mounts[0].host, real.to_str().unwrap());

    // A sibling with the same prefix, and a link that leads out.
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
    let mut permits = none();
    assert!(permits.name_model(folder.path()));
    assert!(!permits.name_model(Path::new("/no/such/folder")));
    assert!(
        permits
            .check_launch(RuntimeKind::Docker, &mount(folder.path(), false), false)
            .is_ok()
    );
    assert!(
        refused(&permits, &mount(folder.path(), true))
            .message
            .contains("writing to")
    );
}

#[test]
fn native_processes_need_permission() {
    let launch = Launch::default();
    let fault = none().check_launch(RuntimeKind::Process, &launch, true).unwrap_err();
    assert_eq!(
        (fault.kind, fault.message.contains("native processes")),
        (Kind::NotAllowed, true)
    );
    assert!(fault.hint.unwrap().contains("--allow process"));
    assert!(everything().check_launch(RuntimeKind::Process, &launch, true).is_ok());
}

#[test]
fn foreign_addresses_need_permission() {
    let check = |permits: &Permits, url: &str| permits.check_url(&Url::parse(url).unwrap());
    for own in [
        "http://localhost:1",
        "http://127.0.0.1",
        "http://127.9.9.9:5",
        "http://[::1]:80",
        "http://[::ffff:127.0.0.1]",
    ] {
        assert!(check(&none(), own).is_ok(), "{own}");
    }
    for foreign in [
        "http://example.org",
        "http://10.0.0.1:8000",
        "http://0.0.0.0:80",
        "http://localhost.example.org",
        "http://localhost@example.org",
        "http://[::ffff:10.0.0.1]",
    ] {
        let fault = check(&none(), foreign).unwrap_err();
        assert_eq!(fault.kind, Kind::NotAllowed, "{foreign}");
        assert!(fault.hint.unwrap().contains("--allow net="), "{foreign}");
    }
    assert!(check(&everything(), "https://example.org:8443/v1").is_ok());
    assert!(check(&everything(), "https://www.example.org").is_err());
    let only = Permits::parse(["net=example.org:81"]).unwrap();
    assert!(check(&only, "http://example.org:81").is_ok());
    assert!(check(&only, "http://example.org:80").is_err());
    let mut named = none();
    named.name_url(&Url::parse("http://10.0.0.1:8000/v1").unwrap());
    assert!(check(&named, "http://10.0.0.1:8000").is_ok());
    assert!(check(&named, "http://10.0.0.1:22").is_err());
}

#[test]
fn foreign_containers_need_permission() {
    let mut permits = none();
    assert!(permits.check_attach("db").unwrap_err().message.contains("`db`"));
    permits.name_container("db");
    assert!(permits.check_attach("db").is_ok());
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
        with(&[], &[("TRUST_REMOTE_CODE", "true")]),
    ] {
        let fault = refused(&none(), &launch);
        assert!(fault.message.contains("trust_remote_code"), "{launch:?}");
        assert!(fault.hint.unwrap().contains("--allow code"));
        assert!(everything().check_launch(RuntimeKind::Docker, &launch, true).is_ok());
    }
    for harmless in [
        with(&["--trust-remote-code=false", "--tokenizer", "t", "--tp"], &[]),
        with(&[], &[("TRUST_REMOTE_CODE", "0")]),
    ] {
        assert!(
            none().check_launch(RuntimeKind::Docker, &harmless, true).is_ok(),
            "{harmless:?}"
        );
    }
}

#[test]
fn cache_and_token_are_for_shipped_images_and_allowed_ones() {
    let launch = Launch {
        image: Some("ghcr.io/me/engine:1".into()),
        cache: Some("/cache".into()),
        token: true,
        ..Launch::default()
    };
    let check = |allow: &str, shipped| {
        let permits = Permits::parse([allow]).unwrap();
        let grant = permits.check_launch(RuntimeKind::Docker, &launch, shipped).unwrap();
        // Every denial is reported.
        assert_eq!(
            grant.withheld.len(),
            usize::from(!grant.cache) + usize::from(!grant.token)
        );
        (grant.cache, grant.token)
    };
    assert_eq!(check("", true), (true, true));
    assert_eq!(check("", false), (false, false));
    assert_eq!(check("token", false), (false, true));
    assert_eq!(check("image=ghcr.io/me", false), (true, true));
    assert_eq!(check("image=ghcr.io/me/engine:1", false), (true, true));
    assert_eq!(check("image=ghcr.io/m,image=ghcr.io/you", false), (false, false));
}

#[test]
fn the_token_is_withheld_when_the_environment_redirects_traffic() {
    let mut launch = Launch {
        image: Some("x".into()),
        token: true,
        ..Launch::default()
    };
    let mut harmless = launch.clone();
    harmless
        .env
        .insert("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION".into(), "0".into());
    let grant = none().check_launch(RuntimeKind::Docker, &harmless, true).unwrap();
    assert!(grant.token, "a page of the engine's own turns nothing elsewhere");
    for name in ["HF_ENDPOINT", "https_proxy", "LD_PRELOAD", "PYTHONPATH"] {
        launch.env = [(name.to_owned(), "http://example.org".to_owned())].into();
        let grant = none().check_launch(RuntimeKind::Docker, &launch, true).unwrap();
        assert!(!grant.token && grant.withheld[0].contains(name), "{name}");
    }
}
