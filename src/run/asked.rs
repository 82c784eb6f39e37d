//! The servers that were measured: engine, version, model and address, as the server reports them, read from the
//! journal's description of an engine.

use std::fmt;

use serde_json::Value;

/// A server that was measured, and its model. Two starts of one engine are the same server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedServer {
    /// The engine, as its adapter is named.
    pub engine: String,
    /// Its version, as it reports it.
    pub version: Option<String>,
    /// The model's name in the requests.
    pub model: Option<String>,
    /// The only model that the server lists, if the requests name another.
    pub listed: Option<String>,
    /// The address of a server that was already running, without a password.
    pub address: Option<String>,
    /// `docker`, `process`, `attach` or `sim`.
    runtime: String,
}

impl AskedServer {
    /// Reads the server from an engine's description in [`super::Event::Engine`]; `None` if the description is damaged.
    pub fn from_engine(described: &Value) -> Option<Self> {
        let text = |pointer: &str| {
            let text = described.pointer(pointer).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let runtime = text("/runtime").unwrap_or_default();
        let address = text("/launched/url").or_else(|| text("/options/url"));
        Some(Self {
            engine: text("/info/engine")?,
            version: text("/info/version"),
            model: text("/info/model").or_else(|| text("/options/model")),
            listed: text("/info/listed"),
            address: address
                .filter(|_| runtime == "attach")
                .map(|url| url.trim_end_matches('/').to_owned()),
            runtime,
        })
    }
}

impl fmt::Display for AskedServer {
    /// `vllm 0.33.0, model org/model-7, at http://127.0.0.1:8000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.engine)?;
        match &self.version {
            Some(version) => write!(f, " {version}")?,
            None => f.write_str(", version unknown")?,
        }
        match (&self.model, &self.listed) {
            (Some(model), None) => write!(f, ", model {model}")?,
            (Some(model), Some(listed)) => write!(f, ", model {model} (the server lists {listed})")?,
            (None, _) => f.write_str(", no model named")?,
        }
        match (&self.address, self.runtime.as_str()) {
            (Some(address), _) => write!(f, ", at {address}"),
            (None, "docker") => f.write_str(", in Docker"),
            (None, "process") => f.write_str(", as a process"),
            (None, "sim") => f.write_str(", SIMULATED"),
            (None, _) => Ok(()),
        }
    }
}
