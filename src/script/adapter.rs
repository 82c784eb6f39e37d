//! An engine's Rhai file as a Rust [`Adapter`]: `stdlib/engines/NAME.rhai`, or a user's file.
//!
//! Each adapter has its own interpreter. Arguments and results are converted through JSON. A result of the wrong type
//! is reported with the adapter, the function and the path.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, HeaderValue, RETRY_AFTER};
use rhai::{AST, Dynamic, Engine, FuncArgs, Scope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::convert::deserialize_as;
use super::diagnose::diagnose;
use super::resolver::{open_named, with_extension};
use super::source::Source;
use super::{Host, convert, interpreter, own_calls, resolver, shipped};
use crate::boundary::Point;
use crate::engine::{
    Adapter, Answer, AnswerRequest, COMPRESSED, Credentials, Facts, FailureRule, Harmless, Limits, Patience, Readiness,
    Rejection, RequestForm, Setting, WAIT, remedy, short_error_detail, title, wait_longer,
};
use crate::fault::{Fault, Kind, Result};
use crate::http::{self, ApiKey};
use crate::runtime::{self, Launch, Target};
use crate::task::{Tasks, lock};

/// Functions and their parameters.
pub(super) type Exports = [(&'static str, &'static [&'static str])];

/// Functions that an adapter must export.
pub(super) const EXPORTS: &Exports = &[
    ("launch", &["options"]),
    ("ready", &["engine"]),
    ("request", &["point"]),
    ("facts", &[]),
    ("failures", &[]),
    ("flags", &["limits"]),
];

/// Functions that a cluster must export.
pub(super) const CLUSTER: &Exports = &[
    ("slots", &["options"]),
    ("submit", &["jobs"]),
    ("status", &["jobs"]),
    ("cancel", &["job"]),
    ("logs", &["job"]),
    ("collect", &["job"]),
];

struct RhaiAdapter {
    name: String,
    shipped: bool,
    host: Arc<Host>,
    engine: Engine,
    ast: AST,
    key: String,
    client: reqwest::Client,
}

/// Loads the adapter `name`: a shipped engine, or a path relative to the main script, such as `./mine.rhai`.
///
/// A name that ends in `.rhai` or contains a slash is a path.
pub fn load(host: &Arc<Host>, name: &str) -> Result<Arc<dyn Adapter>> {
    let below_std = format!("engines/{name}");
    let shipped = shipped::module(&below_std).map(|text| Source::new(&format!("std/{below_std}.rhai"), &text));
    let known = shipped::modules().filter_map(|module| module.strip_prefix("engines/"));
    let file = with_extension(Path::new(name));
    let source = open_named(host, (name, &file), ("engine adapter", ".rhai"), shipped, known)?;
    from_source(host, name, &source)
}

/// The adapter in `source`; `name` is the user's name for it.
pub(super) fn from_source(host: &Arc<Host>, name: &str, source: &Source) -> Result<Arc<dyn Adapter>> {
    let shipped = source.key.starts_with("std/");
    let host = &if shipped {
        Arc::clone(host)
    } else {
        Arc::new(host.for_foreign_code())
    };
    host.sources.insert(source.clone());
    let engine = interpreter(host, &host.settings.root());
    let ast = resolver::compile(&engine, source)
        .map_err(|error| with_location(name, diagnose(&engine, &host.sources, &source.key, error)))?;
    if let Some(problem) = missing_exports(&ast, EXPORTS).into_iter().next() {
        return Err(Fault::usage(format!("adapter `{name}` {problem}"))
            .hint("`profiler check` lists what an adapter must export; copy a shipped one as a template"));
    }
    let stem = Path::new(name).file_stem().unwrap_or_default();
    Ok(Arc::new(RhaiAdapter {
        name: stem.to_string_lossy().into_owned(),
        shipped,
        host: Arc::clone(host),
        key: source.key.to_string(),
        client: http::build_for_engines(http::direct().timeout(REQUEST_TIMEOUT))?,
        engine,
        ast,
    }))
}

/// The exports that a file lacks, phrased to follow its name.
pub(super) fn missing_exports(ast: &AST, exports: &Exports) -> Vec<String> {
    let lacks = |(name, params): &(&str, &[&str])| {
        let wanted = format!("{name}({})", params.join(", "));
        let public = ast
            .iter_functions()
            .filter(|one| one.name == *name && !one.access.is_private());
        let arities: Vec<usize> = public.map(|function| function.params.len()).collect();
        match arities.first() {
            None => Some(format!("does not export `{wanted}`")),
            Some(_) if arities.contains(&params.len()) => None,
            Some(other) => Some(format!("exports `{name}` with {other} parameters, not `{wanted}`")),
        }
    };
    exports.iter().filter_map(lacks).collect()
}

/// Turns an error inside an adapter into a one-line fault with its location.
fn with_location(name: &str, diagnostic: super::Diagnostic) -> Fault {
    let at = diagnostic
        .location()
        .map(|place| format!(" ({place})"))
        .unwrap_or_default();
    let mut fault = diagnostic.fault;
    if fault.kind != Kind::Interrupted {
        fault.message = format!("adapter `{name}`: {}{at}", fault.message);
    }
    fault
}

impl RhaiAdapter {
    fn call(&self, function: &str, args: impl FuncArgs) -> Result<Dynamic> {
        let name = own_calls::second_name(function, &self.key);
        self.engine
            .call_fn(&mut Scope::new(), &self.ast, name, args)
            .map_err(|error| with_location(&self.name, diagnose(&self.engine, &self.host.sources, &self.key, error)))
    }

    /// Calls a function and converts its result to `T`.
    fn call_as<T: DeserializeOwned>(&self, function: &str, args: impl FuncArgs) -> Result<T> {
        let value = self.call(function, args)?;
        let result = convert::from_script(&value).and_then(|value| deserialize_as("key", value));
        self.result_of(function, result)
    }

    fn result_of<T>(&self, function: &str, result: Result<T>) -> Result<T> {
        result.map_err(|fault| fault.while_doing(format!("adapter `{}`: result of `{function}`", self.name)))
    }
}

impl Adapter for RhaiAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn shipped(&self) -> bool {
        self.shipped
    }

    fn launch(&self, options: &Value) -> Result<Launch> {
        self.call_as("launch", (convert::to_script(options)?,))
    }

    fn ready(&self, base_url: &str, options: &Value, key: Option<&ApiKey>) -> Result<Readiness> {
        let options = convert::to_script(options)?;
        let server = Server::new(base_url, self.client.clone(), options, key.cloned());
        let result = self.call("ready", (server.clone(),))?;
        let rejection = lock(&server.rejection).take();
        match (result.as_bool(), result.is_string()) {
            (Ok(true), _) => Ok(Readiness::Ready),
            (Ok(false), _) => Ok(rejection.map_or(Readiness::NotYet, Readiness::Rejecting)),
            (Err(_), true) => Ok(match rejection.filter(|rejection| rejection.remedy.is_some()) {
                Some(rejection) => Readiness::Rejecting(rejection),
                None => Readiness::Failed(result.to_string()),
            }),
            (Err(kind), false) => Err(Fault::usage(format!(
                "adapter `{}`: `ready` must return true, false, or a string saying why the engine cannot become ready; it returned a {}",
                self.name,
                convert::type_name(kind)
            ))),
        }
    }

    fn request(&self, point: &Point, limits: Option<&Limits>) -> Result<Vec<RequestForm>> {
        let mut argument = serde_json::to_value(point).map_err(Fault::internal)?;
        argument["limits"] = json!(limits);
        let given = self.call("request", (convert::to_script(&argument)?,))?;
        let forms = match convert::from_script(&given)? {
            Value::Array(forms) => forms,
            one => vec![one],
        };
        if forms.is_empty() {
            let none = Fault::usage("the list of requests is empty").hint("give at least one");
            return self.result_of("request", Err(none));
        }
        let read = forms.into_iter().map(|form| deserialize_as("key", form));
        self.result_of("request", read.collect())
    }

    fn facts(&self) -> Result<Facts> {
        self.call_as("facts", ())
    }

    fn failures(&self) -> Result<Vec<FailureRule>> {
        self.call_as("failures", ())
    }

    fn flags(&self, limits: &Limits, concurrency: bool) -> Result<Vec<String>> {
        let mut limits = json!(limits);
        if !concurrency {
            limits["concurrency"] = Value::Null;
        }
        self.call_as("flags", (convert::to_script(&limits)?,))
    }

    fn settings(&self, options: &Value) -> Result<Vec<String>> {
        if missing_exports(&self.ast, &[("settings", &["options"])]).is_empty() {
            self.call_as("settings", (convert::to_script(options)?,))
        } else {
            Ok(Vec::new())
        }
    }

    fn harmless(&self) -> Result<Harmless> {
        if missing_exports(&self.ast, &[("harmless", &[])]).is_empty() {
            self.call_as("harmless", ())
        } else {
            Ok(Harmless::default())
        }
    }

    fn tunable(&self) -> Result<Vec<Setting>> {
        if missing_exports(&self.ast, &[("tunable", &[])]).is_empty() {
            self.call_as("tunable", ())
        } else {
            Ok(Vec::new())
        }
    }

    fn answers(&self) -> bool {
        missing_exports(&self.ast, &[("answer", &["engine", "request"])]).is_empty()
    }

    fn answer(
        &self,
        base_url: &str,
        options: &Value,
        key: Option<&ApiKey>,
        request: &AnswerRequest<'_>,
    ) -> Result<Option<Answer>> {
        if !self.answers() {
            return Ok(None);
        }
        let options = convert::to_script(options)?;
        let server = Server::new(base_url, self.client.clone(), options, key.cloned());
        self.call_as("answer", (server, convert::to_script(request)?)).map(Some)
    }
}

/// Longer responses are truncated: health and information pages are small.
const MAX_BODY: usize = 1 << 20;

/// Timeout of one request. `ready` is called repeatedly.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// An engine's server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    base: String,
    client: reqwest::Client,
    key: Option<ApiKey>,
    /// The newest unsuccessful answer.
    rejection: Arc<Mutex<Option<Rejection>>>,
    /// Argument of the adapter's `launch(options)`.
    pub(super) options: Dynamic,
}

/// An HTTP response.
#[derive(Debug, Default, Serialize)]
pub(super) struct HttpReply {
    /// HTTP status; 0 if there was no response.
    status: u16,
    /// Response text, or the target of a redirect; without a response, the reason.
    body: String,
    /// Status, page and body in one sentence, unless the status is a success.
    refusal: Option<String>,
    /// The remedy for an answer that will not change.
    remedy: Option<String>,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

impl HttpReply {
    /// The answer as a rejection, if it is one.
    fn rejection(&self) -> Option<Rejection> {
        Some(Rejection {
            status: self.status,
            message: self.refusal.clone()?,
            remedy: self.remedy.clone(),
            retry_after: self.retry_after,
        })
    }
}

impl Server {
    /// The server at `base`, `http://127.0.0.1:8000`.
    pub(super) fn new(base: &str, client: reqwest::Client, options: Dynamic, key: Option<ApiKey>) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            client,
            key,
            rejection: Arc::default(),
            options,
        }
    }

    pub(super) fn get(&self, tasks: &Tasks, path: &str) -> Result<HttpReply> {
        let mut answer = tasks.wait(self.send(self.client.get(self.url(path)?)))?;
        let credentials = Credentials::new(self.key.as_ref(), &self.base);
        // The wording of nginx and Go.
        let wants_tls = answer.status == 400 && answer.body.contains("HTTPS");
        let own = answer
            .remedy
            .or_else(|| wants_tls.then(|| "write `https://` in place of `http://`".to_owned()));
        answer.remedy = own.or_else(|| remedy(answer.status, credentials));
        answer.refusal = match answer.status {
            0 => answer.remedy.is_some().then(|| answer.body.clone()),
            200..300 => answer.remedy.is_some().then(|| format!("`{path}`: {}", answer.body)),
            status => {
                let title = title(status, credentials).map_or_else(String::new, |title| format!("{title}: "));
                Some(format!(
                    "{title}status {status} at `{path}`: {}",
                    short_error_detail(&answer.body)
                ))
            }
        };
        if let Some(rejection) = answer.rejection() {
            *lock(&self.rejection) = Some(rejection);
        }
        Ok(answer)
    }

    /// `POST path` with a JSON body and its own timeout.
    pub(super) fn post(
        &self,
        tasks: &Tasks,
        path: &str,
        body: &serde_json::Value,
        timeout: Duration,
    ) -> Result<HttpReply> {
        tasks.wait(self.send(self.client.post(self.url(path)?).json(body).timeout(timeout)))
    }

    /// Appends the path. It must start with `/`, so that it cannot lead to another server: not `//other` or `@other`.
    fn url(&self, path: &str) -> Result<String> {
        if path.starts_with('/') {
            Ok(format!("{}{path}", self.base))
        } else {
            Err(Fault::usage(format!("the path `{path}` does not begin with `/`")))
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<HttpReply> {
        let request = match &self.key {
            Some(key) => request.header(reqwest::header::AUTHORIZATION, key.header()),
            None => request,
        };
        // A starting server refuses connections, and `ready` must see that, so it is not a fault.
        Ok(fetch(request).await.unwrap_or_else(|error| {
            let (body, remedy) = http::unanswered(&error);
            HttpReply {
                body,
                remedy,
                ..HttpReply::default()
            }
        }))
    }
}

/// Fetches a page of a server that the user named. With `wait`, waits while the server reports that it is loading.
pub(super) fn page(host: &Host, url: &str, path: &str, key: Option<&str>, wait: bool) -> Result<Dynamic> {
    let key = runtime::api_key(&Target::Url(url.to_owned()), key, &host.permits)?;
    let client = http::build_for_engines(http::direct().timeout(REQUEST_TIMEOUT))?;
    let base = runtime::server_url(url)?;
    let server = Server::new(base.as_str(), client, Dynamic::UNIT, key);
    let mut answer = server.get(&host.tasks, path)?;
    let mut patience = Patience::new(&host.tasks, &host.run, host.settings.wait.unwrap_or(WAIT));
    // If the user said how long to wait, also wait for a server that does not answer.
    let silent = |answer: &HttpReply| answer.status == 0 && answer.remedy.is_none() && host.settings.wait.is_some();
    while wait && (answer.rejection().is_some_and(|rejection| rejection.passes()) || silent(&answer)) {
        let why = answer.refusal.as_ref().unwrap_or(&answer.body);
        if !patience.wait(why, answer.retry_after)? {
            if answer.status != 0 {
                answer.remedy = Some(wait_longer(answer.status).to_owned());
            }
            break;
        }
        answer = server.get(&host.tasks, path)?;
    }
    convert::to_script(&answer)
}

async fn fetch(request: reqwest::RequestBuilder) -> reqwest::Result<HttpReply> {
    let response = http::send(request).await?;
    let status = response.status().as_u16();
    let location = response
        .headers()
        .get(reqwest::header::LOCATION)
        .filter(|_| response.status().is_redirection());
    if let Some(location) = location.and_then(|location| location.to_str().ok()) {
        return Ok(HttpReply {
            status,
            body: format!("redirects to `{location}`, which is not followed"),
            ..HttpReply::default()
        });
    }
    let text = |name| {
        response
            .headers()
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let retry_after = text(RETRY_AFTER).and_then(http::retry_after);
    if let Some(coding) = text(CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Ok(HttpReply {
            status,
            body: format!("the page is compressed (`{coding}`), which was not asked for"),
            remedy: Some(COMPRESSED.to_owned()),
            ..HttpReply::default()
        });
    }
    let (body, _cut) = http::text(response, MAX_BODY).await?;
    Ok(HttpReply {
        status,
        body,
        retry_after,
        ..HttpReply::default()
    })
}
