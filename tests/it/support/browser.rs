//! A real headless browser, which a test points at a page to read its errors, its network requests and its content.
//!
//! It is driven by the few W3C WebDriver commands that the tests need, plus Chromium's commands for logs and screen.
//! WebDriver crates would enable features of crates that the program shares, so the tests would run another build of
//! it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::temp;

/// Chromium and its driver, by Debian's paths.
const BROWSER: &str = "/usr/bin/chromium";
const DRIVER: &str = "/usr/bin/chromedriver";

/// Runs as root and without a GPU, and sends no requests of its own.
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
    // Larger than every screen below, so that the mouse cannot leave the window.
    "--window-size=1400,1200",
];

/// True if both are installed.
pub(super) fn installed() -> bool {
    [BROWSER, DRIVER].iter().all(|program| Path::new(program).is_file())
}

/// A browser with one page open. All its processes are killed on drop.
pub struct Browser {
    client: reqwest::Client,
    /// URL of the session.
    session: String,
    opened: String,
    _driver: Driver,
}

/// Keys, as WebDriver's code points.
pub mod key {
    pub const ESCAPE: char = '\u{e00c}';
    pub const RIGHT: char = '\u{e014}';
}

/// The screen that shows the page.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Width and height in CSS pixels.
    pub size: (u32, u32),
    /// True if the system uses a dark theme.
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

    /// This screen with a dark theme.
    pub fn dark(self) -> Self {
        Self { dark: true, ..self }
    }
}

impl Browser {
    /// Opens a file from disk.
    pub async fn open(file: &Path, screen: Screen) -> Self {
        // The driver speaks plain HTTP, but the HTTP client requires a TLS provider. A second installation fails, which
        // is harmless.
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

    /// Opens another file in the same browser, because starting one takes seconds.
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
        // With reduced motion, scrolling is instant.
        let features = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        self.command("Emulation.setEmulatedMedia", features).await;
    }

    /// Errors of the page since the last call: script errors, refused resources, `console.…`.
    pub async fn complaints(&self) -> Vec<String> {
        let said = self.log("browser").await;
        said.iter()
            .map(|entry| format!("{}: {}", entry["level"], entry["message"]))
            .collect()
    }

    /// The URLs requested since the last call, except the page itself and its inlined resources.
    pub async fn requests(&self) -> Vec<String> {
        let events = self.log("performance").await;
        let asked = events.iter().filter_map(|event| {
            let message: Value = serde_json::from_str(event["message"].as_str().unwrap()).unwrap();
            let message = &message["message"];
            (message["method"] == "Network.requestWillBeSent")
                .then(|| message["params"]["request"]["url"].as_str().map(str::to_owned))
                .flatten()
        });
        // The browser's own empty page comes first.
        let own = |url: &str| {
            ["data:", "about:", "chrome:"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        };
        asked.filter(|url| *url != self.opened && !own(url)).collect()
    }

    /// The value that a script returns.
    pub async fn tell(&self, script: &str) -> Value {
        self.ask("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Moves the mouse to a position in the window, in CSS pixels.
    pub async fn hover(&self, x: i64, y: i64) {
        let moves = json!([{ "type": "pointerMove", "duration": 0, "x": x, "y": y }]);
        self.act(
            json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": moves }),
        )
        .await;
    }

    /// Presses a [`key`] at the focus.
    pub async fn press(&self, key: char) {
        let strokes = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        self.act(json!({ "type": "key", "id": "keys", "actions": strokes }))
            .await;
    }

    /// Ends the browser in order. Dropping it kills it, which is faster and leaves nothing behind either.
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

    /// Sends a command of the session and returns its value.
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

/// The driver, on a port of its choice, and the folder of its browser.
struct Driver {
    process: Child,
    port: u16,
    profile: TempDir,
}

impl Driver {
    /// Starts a driver. Retries, because a driver exits at once if its port is taken for the other IP version.
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
        // Drain the log, so that the pipe cannot fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { process, port, profile })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The browser's processes are in the driver's process group.
        let _ = killpg(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}
