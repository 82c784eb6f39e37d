//! A real browser without a window, that a test points at a page: what the page complained of, what it asked the network for, what it shows.
//!
//! It is driven by the few commands of the W3C's WebDriver that are needed, and Chromium's own for its logs and its screen. The kept libraries for this
//! turn on features of crates that the program shares, and would test another program than the one that is built.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::temp;

/// Chromium and its driver, as Debian calls them.
const BROWSER: &str = "/usr/bin/chromium";
const DRIVER: &str = "/usr/bin/chromedriver";

/// As root, without a card, and without asking the network for anything of its own.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // Larger than every screen below: the mouse cannot leave the window.
    "--window-size=1400,1200",
];

/// Whether both are installed.
pub(super) fn installed() -> bool {
    [BROWSER, DRIVER].iter().all(|program| Path::new(program).is_file())
}

/// A browser with one page open, ended with all its processes when dropped.
pub struct Browser {
    client: reqwest::Client,
    /// The address of the session.
    session: String,
    opened: String,
    _driver: Driver,
}

/// Keys by the code points that WebDriver gives them.
pub mod key {
    pub const ESCAPE: char = '\u{e00c}';
    pub const RIGHT: char = '\u{e014}';
}

/// What the page is seen with.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Width and height, CSS pixels.
    pub size: (u32, u32),
    /// Whether the system is dark.
    pub dark: bool,
}

impl Screen {
    /// A laptop.
    pub const WIDE: Self = Self {
        size: (1280, 900),
        dark: false,
    };
    /// A phone.
    pub const PHONE: Self = Self {
        size: (390, 844),
        dark: false,
    };

    /// The same in the dark.
    pub fn dark(self) -> Self {
        Self { dark: true, ..self }
    }
}

impl Browser {
    /// Opens a file from disk.
    pub async fn open(file: &Path, screen: Screen) -> Self {
        // The driver is asked over plain HTTP; the client wants to know all the same who would encrypt. A second one is refused, and not needed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let driver = Driver::start();
        let profile = format!("--user-data-dir={}", driver.profile.path().display());
        let arguments: Vec<&str> = ARGUMENTS.into_iter().chain([profile.as_str()]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": BROWSER, "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let mut browser = Self {
            client: reqwest::Client::new(),
            session: format!("http://127.0.0.1:{}/session", driver.port),
            opened: String::new(),
            _driver: driver,
        };
        let begun = browser.ask("", wanted).await;
        browser.session = format!("{}/{}", browser.session, begun["sessionId"].as_str().unwrap());
        browser.show(screen).await;
        browser.turn_to(file).await;
        browser
    }

    /// Opens another file in place of this one. A browser takes seconds to start.
    pub async fn turn_to(&mut self, file: &Path) {
        self.opened = format!("file://{}", file.canonicalize().unwrap().display());
        let _ = self.ask("/url", json!({ "url": self.opened })).await;
    }

    /// Shows the page on another screen.
    pub async fn show(&self, screen: Screen) {
        let (width, height) = screen.size;
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", metrics).await;
        let scheme = if screen.dark { "dark" } else { "light" };
        // Without motion, what is scrolled to is there at once.
        let features = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        self.command("Emulation.setEmulatedMedia", features).await;
    }

    /// What the page complained of since it was last asked: errors of scripts, refused resources, `console.…`.
    pub async fn complaints(&self) -> Vec<String> {
        let said = self.log("browser").await;
        said.iter()
            .map(|entry| format!("{}: {}", entry["level"], entry["message"]))
            .collect()
    }

    /// The addresses that the page asked for since this was last asked, beyond the page itself and what it carries within it.
    pub async fn requests(&self) -> Vec<String> {
        let events = self.log("performance").await;
        let asked = events.iter().filter_map(|event| {
            let message: Value = serde_json::from_str(event["message"].as_str().unwrap()).unwrap();
            let message = &message["message"];
            (message["method"] == "Network.requestWillBeSent")
                .then(|| message["params"]["request"]["url"].as_str().map(str::to_owned))
                .flatten()
        });
        // The browser's own empty page comes before ours.
        let own = |url: &str| {
            ["data:", "about:", "chrome:"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        };
        asked.filter(|url| *url != self.opened && !own(url)).collect()
    }

    /// The value of a script's `return`.
    pub async fn tell(&self, script: &str) -> Value {
        self.ask("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Moves the mouse to a place in the window, CSS pixels.
    pub async fn hover(&self, x: i64, y: i64) {
        let moves = json!([{ "type": "pointerMove", "duration": 0, "x": x, "y": y }]);
        self.act(
            json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": moves }),
        )
        .await;
    }

    /// Presses a [`key`] where the focus is.
    pub async fn press(&self, key: char) {
        let strokes = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        self.act(json!({ "type": "key", "id": "keys", "actions": strokes }))
            .await;
    }

    /// Ends the browser in order. Dropping it kills it, which is quicker and leaves nothing either.
    pub async fn close(self) {
        let answer = self.client.delete(&self.session).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }

    async fn act(&self, source: Value) {
        let _ = self.ask("/actions", json!({ "actions": [source] })).await;
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.ask("/se/log", json!({ "type": kind })).await;
        entries.as_array().unwrap().clone()
    }

    async fn command(&self, name: &str, arguments: Value) {
        let _ = self
            .ask("/goog/cdp/execute", json!({ "cmd": name, "params": arguments }))
            .await;
    }

    /// Sends a command of the session; gives its value.
    async fn ask(&self, command: &str, body: Value) -> Value {
        let request = self.client.post(format!("{}{command}", self.session)).json(&body);
        let mut answer: Value = request.send().await.unwrap().json().await.unwrap();
        let value = answer["value"].take();
        assert!(
            value["error"].is_null(),
            "{command}: {} {}",
            value["error"],
            value["message"]
        );
        value
    }
}

/// The driver, on a port of its own choice, and the folder of its browser.
struct Driver {
    process: Child,
    port: u16,
    profile: TempDir,
}

impl Driver {
    /// Starts a driver. One that finds the port of its choice taken for the other version of IP ends at once.
    fn start() -> Self {
        (0..10)
            .find_map(|_| Self::try_start())
            .expect("chromedriver tells its port")
    }

    fn try_start() -> Option<Self> {
        let profile = temp();
        let mut process = Command::new(PathBuf::from(DRIVER))
            .arg("--port=0")
            .env("HOME", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let Some(port) = port else {
            process.wait().unwrap();
            return None;
        };
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { process, port, profile })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The browser's processes are in the driver's group.
        let _ = killpg(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}
