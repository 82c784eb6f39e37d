//! Script API basics: assertions, faults, the machine's GPUs, parameters, waiting, parallel work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};
use serde_json::json;

use crate::fault::{Fault, Kind, Result};
use crate::fmt;
use crate::script::form::FormOptions;
use crate::script::interpreter::{STACK, panicked};
use crate::script::params::{Param, declared, merge_values};
use crate::script::suggest::quoted;
use crate::script::{self, Caught, begin_call, to_script};
use crate::{telemetry, world};

/// Assertions, faults, parameters, waiting, parallel work.
#[export_module]
pub mod basics {
    /// Ends the script with an error unless the condition is true.
    ///
    /// # Errors
    ///
    /// `script` if it is false.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(1 + 1 == 2);
    /// ```
    #[rhai_fn(name = "assert", return_raw)]
    pub fn plain(condition: bool) -> Caught<()> {
        explained(condition, "an assertion of the script failed")
    }

    /// Ends the script with the error `message` unless the condition is true.
    ///
    /// # Errors
    ///
    /// `script` if it is false.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(1 + 1 == 2, "arithmetic is broken");
    /// ```
    #[rhai_fn(name = "assert", return_raw)]
    pub fn explained(condition: bool, message: &str) -> Caught<()> {
        if condition {
            return Ok(());
        }
        Err(Fault::new(Kind::Script, message).into())
    }

    /// Calls a closure and returns `#{ ok, value, error }`: its value, or what it threw (`()`: nothing), an error of Rhai
    /// as a fault of kind `script`. A `catch` block has no value, so this is how a failure becomes one. Interruptions,
    /// limits and refused permissions are not held back.
    ///
    /// # Errors
    ///
    /// `interrupted`, `limit` and `not_allowed` of the closure.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let read = attempt(|| parse_int("12x"));
    /// assert(!read.ok && read.value == () && read.error.kind == "script");
    /// assert(attempt(|| parse_int("12")).value == 12);
    /// ```
    #[rhai_fn(name = "attempt", return_raw)]
    pub fn attempt(context: NativeCallContext, work: FnPtr) -> Caught<Map> {
        let map = |ok: bool, value: Dynamic, error: Dynamic| {
            [("ok", ok.into()), ("value", value), ("error", error)]
                .map(|(name, value)| (name.into(), value))
                .into()
        };
        let error = match work.call_within_context(&context, ()) {
            Ok(value) => return Ok(map(true, value, Dynamic::UNIT)),
            Err(error) => error,
        };
        let thrown = match error.unwrap_inner() {
            EvalAltResult::ErrorRuntime(value, _) => value.clone(),
            inner if inner.is_catchable() => Dynamic::from(Fault::new(Kind::Script, inner.to_string())),
            _ => return Err(error),
        };
        let kept = thrown.read_lock::<Fault>().map(|fault| fault.kind);
        match kept {
            Some(Kind::Limit | Kind::NotAllowed | Kind::Interrupted | Kind::DryRun) => Err(error),
            _ => Ok(map(false, Dynamic::UNIT, thrown)),
        }
    }

    /// This run and the time: `#{ run, profiler, time }`, the run's id, the version of the program, and the time now, in
    /// UTC. A resumed run gets another time: within `engine.trial` the first one is kept with the answer.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let now = run_info();
    /// assert(now.time.ends_with("Z") && now.profiler != "");
    /// ```
    #[rhai_fn(name = "run_info", return_raw)]
    pub fn run_info(context: NativeCallContext) -> Caught<Dynamic> {
        let host = begin_call(&context);
        let info = json!({
            "run": host.run.id(),
            "profiler": env!("CARGO_PKG_VERSION"),
            "time": format!("{:.0}", world::now()),
        });
        Ok(to_script(&info)?)
    }

    /// A fault to throw. If it is not caught, the run ends with the exit status of its kind: `usage` 2, `missing`,
    /// `not_allowed` and `start_failed` 3, `threshold` 4, `script` 1 (as for any other thrown value). `hint` is the remedy.
    ///
    /// # Errors
    ///
    /// `usage` for another kind.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { throw fault("missing", "there is no second GPU", "run it with one"); } catch (e) { assert(e.kind == "missing"); }
    /// ```
    #[rhai_fn(name = "fault", global, return_raw)]
    pub fn thrown(kind: &str, message: &str, hint: &str) -> Caught<Fault> {
        let Some(kind) = THROWN.into_iter().find(|known| known.name() == kind) else {
            let fault = Fault::usage(format!("a script cannot throw a fault of kind `{kind}`"));
            return Err(fault
                .hint(format!("the kinds are {}", quoted(THROWN.map(Kind::name))))
                .into());
        };
        Ok(Fault::new(kind, message).hint(hint))
    }

    /// The kind of the fault, a stable name: `usage`, `missing`, `not_allowed`, `timeout`, `limit`, `http`, `engine`,
    /// `start_failed`, `io`, `script`, `threshold`, `compile` or `internal`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { sleep(-1); } catch (e) { e.kind == "usage" }
    /// ```
    #[rhai_fn(get = "kind", pure)]
    pub fn kind(fault: &mut Fault) -> String {
        fault.kind.name().to_owned()
    }

    /// The problem in one sentence.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { sleep(-1); } catch (e) { print(e.message); }
    /// ```
    #[rhai_fn(get = "message", pure)]
    pub fn message(fault: &mut Fault) -> String {
        fault.message.clone()
    }

    /// The remedy, or `()`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { sleep(-1); } catch (e) { if e.hint != () { print(e.hint); } }
    /// ```
    #[rhai_fn(get = "hint", pure)]
    pub fn hint(fault: &mut Fault) -> Dynamic {
        fault.hint.clone().map_or(Dynamic::UNIT, Dynamic::from)
    }

    /// The fault's message, for `print(e)` and `` `${e}` ``.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { sleep(-1); } catch (e) { print(`it failed: ${e}`); }
    /// ```
    #[rhai_fn(name = "to_string", name = "to_debug", global, pure)]
    pub fn shown(fault: &mut Fault) -> String {
        fault.message.clone()
    }

    /// Declares a parameter: its default, which determines its type, and one line that explains it. `()` accepts any
    /// value, an empty map any keys. On the command line it is a flag too: `--output 256`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ output: param(128, "output length, tokens") });
    /// p.output == 128
    /// ```
    pub fn param(default: Dynamic, meaning: &str) -> Param {
        Param {
            default,
            meaning: meaning.to_owned(),
            form: FormOptions::default(),
        }
    }

    /// Declares a parameter whose form is not clear from its default. Options: `takes`, its type; `example`, a sensible
    /// value as a string, for help and errors; `least` and `most`, the bounds of a number or of each number in a list
    /// (what has bounds is a number, or one of `values`); `values`, texts that a shell offers as completions, and `path`,
    /// true if it offers files and folders: neither excludes other values; `lists`, true if each entry of a map is a list.
    ///
    /// `takes` is `"bool"`, `"int"`, `"float"`, `"string"`, `"map"`, or
    ///
    /// - `"list"`: several values; the user may write `8`, `8,16` or `[8,16]`, and `1..4` for each whole number from 1 to 4
    /// - `"range"`: one whole number, or the smallest and the largest, `1..8` or `[1,8]`; the script gets an int or an array of two
    /// - `"lengths"`: one whole number, or a map that is a distribution; `128..512` and `[128,512]` are `#{ uniform: [128, 512] }`
    ///
    /// # Errors
    ///
    /// `usage` for an unknown option or type.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{
    ///     output: param((), "output length, tokens; () is what the engine can hold", #{ takes: "range", example: "64..512" }),
    ///     share: param(0.9, "share of the requests", #{ least: 0, most: 1 }),
    /// });
    /// p.output == () && p.share == 0.9
    /// ```
    #[rhai_fn(name = "param", return_raw)]
    pub fn param_with_form(default: Dynamic, meaning: &str, options: Map) -> Caught<Param> {
        Ok(Param {
            default,
            meaning: meaning.to_owned(),
            form: script::options(options)?,
        })
    }

    /// The script's parameters as a map: the defaults, overridden by the user's `--set` and `--params`. Call it first
    /// in a script: `profiler run SCRIPT --help` evaluates the script up to here to list them.
    ///
    /// # Errors
    ///
    /// `usage` if the user set an unknown parameter (the closest one is suggested), or one with a wrong type.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{
    ///     engine: param("auto", "engine adapter, or a path to your own"),
    ///     search: param(#{}, "options of search::adaptive"),
    /// });
    /// p.engine == "auto"
    /// ```
    #[rhai_fn(return_raw)]
    pub fn params(context: NativeCallContext, declaration: Map) -> Caught<Dynamic> {
        let host = begin_call(&context);
        let values = merge_values(&declared(declaration)?, &host.settings.set)?;
        let shown = to_script(&values)?;
        host.run.set_parameters(&json!(values));
        host.state().params = Some(values);
        Ok(shown)
    }

    /// True if the user set a parameter, on the command line or in a file; otherwise it has its default.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(!is_set("input"));
    /// ```
    pub fn is_set(context: NativeCallContext, name: &str) -> bool {
        begin_call(&context).settings.set.contains_key(name)
    }

    /// A number as tables have it: three significant digits (below 0.1, four decimals), integers in full, commas between
    /// thousands.
    ///
    /// # Errors
    ///
    /// `usage` if it is no number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(readable(7128.4) == "7,128" && readable(0.8217) == "0.822" && readable(223680) == "223,680");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn readable(number: Dynamic) -> Caught<String> {
        let value = script::api::boundary::number(&number);
        Ok(fmt::number(value.map_err(|kind| {
            Fault::usage(format!("a number is needed, not `{kind}`"))
        })?))
    }

    /// Calls `work(item)` for the items that `next` returns, `count` of them at the same time, each on its own thread,
    /// and passes each answer to `done` as it arrives. `next(state)` returns `[state, item]`; the item is `()` if there
    /// is none for now, and `next` is called again after the answers that have
    /// arrived. `done(state, item, answer)` returns the state.
    /// The result is the state once there are no more items and no call of `work` is running.
    ///
    /// `work` gets copies of the values that it captures: its changes to them are not visible outside. With a `count`
    /// of 1 it runs like any other function.
    ///
    /// # Errors
    ///
    /// `usage` if the count is not 1 to 64. An error of `work` is thrown after the answers of all running calls were
    /// passed to `done`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let found = in_parallel(2, #{ left: [1, 2, 3], sum: 0 },
    ///     |state| { let item = if state.left.is_empty() { () } else { state.left.shift() }; [state, item] },
    ///     |item| item * item,
    ///     |state, item, square| { state.sum += square; state });
    /// assert(found.sum == 14);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn in_parallel(
        context: NativeCallContext,
        count: i64,
        state: Dynamic,
        next: FnPtr,
        work: FnPtr,
        done: FnPtr,
    ) -> Caught<Dynamic> {
        begin_call(&context).meter.reset();
        let Some(count) = usize::try_from(count).ok().filter(|count| (1..=64).contains(count)) else {
            return Err(Fault::usage(format!("`in_parallel` takes a count of 1 to 64, not {count}")).into());
        };
        super::in_parallel(&context, count, state, [&next, &work, &done])
    }

    // An overload for each numeric type: otherwise Rhai would find its own `sleep` first, which cannot be interrupted.

    /// Waits for a number of seconds. Ctrl-C ends the wait and the script.
    ///
    /// # Errors
    ///
    /// `usage` if the number is negative or not finite.
    ///
    /// # Example
    ///
    /// ```rhai
    /// sleep(0.01);
    /// ```
    #[rhai_fn(name = "sleep", return_raw)]
    pub fn sleep_float(context: NativeCallContext, seconds: f64) -> Caught<()> {
        wait(&context, seconds)
    }

    /// Waits for a whole number of seconds. Ctrl-C ends the wait and the script.
    ///
    /// # Errors
    ///
    /// `usage` if the number is negative.
    ///
    /// # Example
    ///
    /// ```rhai
    /// sleep(0);
    /// ```
    #[rhai_fn(name = "sleep", return_raw)]
    pub fn sleep_int(context: NativeCallContext, seconds: i64) -> Caught<()> {
        wait(&context, seconds as f64)
    }
}

const THROWN: [Kind; 6] = [
    Kind::Missing,
    Kind::NotAllowed,
    Kind::Script,
    Kind::StartFailed,
    Kind::Threshold,
    Kind::Usage,
];

fn wait(context: &NativeCallContext, seconds: f64) -> Caught<()> {
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| Fault::usage(format!("`sleep` takes a non-negative number of seconds, not {seconds}")))?;
    Ok(begin_call(context).tasks.sleep(time)?)
}

/// The GPUs of this machine.
#[export_module]
pub mod gpu {
    /// The GPUs of this machine, as maps of `index`, `id` (the UUID), `name`, `vendor` (`"nvidia"` or `"amd"`), `used`
    /// and `total` (bytes), and `driver` (its version, or `()`). Empty if there are none: `gpu::absent()` returns the
    /// reason.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let gpus = gpu::list();
    /// assert(gpus.is_empty() == (gpu::absent() != ()));
    /// ```
    #[rhai_fn(return_raw)]
    pub fn list() -> Caught<Array> {
        let gpus = telemetry::gpus().unwrap_or_default();
        Ok(gpus.iter().map(to_script).collect::<Result<_>>()?)
    }

    /// Why there is no GPU, or `()` if there is one.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let why = gpu::absent();
    /// if why != () { print(`no GPU: ${why}`); }
    /// ```
    pub fn absent() -> Dynamic {
        telemetry::gpus().map_or_else(|fault| fault.message.into(), |_| Dynamic::UNIT)
    }

    /// True if an engine can use a GPU of this machine; `auto` checks this.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let name = if gpu::usable() { "vllm" } else { "sim" };
    /// assert(name == "vllm" || name == "sim");
    /// ```
    pub fn usable() -> bool {
        telemetry::gpus().is_ok_and(|gpus| !gpus.is_empty())
    }

    /// One sample of every GPU: a map of `devices` (maps of `id`, `name`, `used` and `total`, in bytes), `tenants`
    /// (processes on them: maps of `pid`, `device`, and `used` in bytes, or `()` if the driver does not report it) and
    /// `activity` (maps of `device`, `power_mw` in milliwatts and `busy_percent`, `()` if the driver does not report
    /// it). `total` is the memory that programs can use, without the memory that the driver reserves. A GPU that is
    /// divided by MIG is listed as its instances.
    ///
    /// # Errors
    ///
    /// `missing` if there is no GPU, or its driver does not respond.
    ///
    /// # Example
    ///
    /// ```rhai,needs-gpu
    /// let look = gpu::sample();
    /// assert(look.devices[0].used <= look.devices[0].total);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn sample() -> Caught<Dynamic> {
        Ok(to_script(&telemetry::read_gpus()?)?)
    }
}

/// Calls `next` and `done` on this thread, one after the other, and `work` on its own threads.
///
/// Closures share the values that they capture, and Rhai locks such a value while one of them calls a method of it.
/// Calls on other threads therefore get copies.
fn in_parallel(
    context: &NativeCallContext,
    count: usize,
    mut state: Dynamic,
    [next, work, done]: [&FnPtr; 3],
) -> Caught<Dynamic> {
    let world = world::current();
    std::thread::scope(|scope| {
        let (sender, answers) = mpsc::channel();
        let (mut busy, mut failure) = (0, None);
        loop {
            while busy < count && failure.is_none() {
                let item = next_item(context, next, &mut state)?;
                if item.is_unit() {
                    break;
                }
                busy += 1;
                let answer = sender.clone();
                if count == 1 {
                    let _ = answer.send((item.clone(), work.call_raw(context, None, [item])));
                    break;
                }
                let (work, world) = (own_function(work.clone()), world.clone());
                let thread = Builder::new().name("script".into()).stack_size(STACK);
                let started = thread.spawn_scoped(scope, move || {
                    let called = || world::within(world, || work.call_raw(context, None, [own(item.clone())]));
                    let answered = catch_unwind(AssertUnwindSafe(called));
                    let answered = answered.unwrap_or_else(|panic| Err(panicked(panic.as_ref()).into()));
                    // Nobody receives the answer if the script failed.
                    let _ = answer.send((item, answered));
                });
                started.map_err(|error| Fault::no_thread("thread of the script", &error))?;
            }
            if busy == 0 {
                return failure.map_or(Ok(state), Err);
            }
            let first = answers
                .recv()
                .map_err(|_| Fault::internal("a thread of the script ended without an answer"))?;
            // The next item is chosen with every answer that is there.
            for (item, answer) in std::iter::once(first).chain(answers.try_iter()) {
                busy -= 1;
                match answer {
                    Ok(answer) => state = done.call_raw(context, None, [state, item, answer])?,
                    Err(error) => drop(failure.get_or_insert(error)),
                }
            }
        }
    })
}

/// The next item; `()` if there is none.
fn next_item(context: &NativeCallContext, next: &FnPtr, state: &mut Dynamic) -> Caught<Dynamic> {
    let given = next.call_raw(context, None, [std::mem::take(state)])?.flatten();
    match given.into_array().map(<[Dynamic; 2]>::try_from) {
        Ok(Ok([changed, item])) => {
            *state = changed;
            Ok(item)
        }
        _ => Err(Fault::new(Kind::Script, "`next` must return `[state, item]`").into()),
    }
}

/// A copy of the value that shares nothing with other values.
fn own(value: Dynamic) -> Dynamic {
    let value = value.flatten();
    if value.is::<FnPtr>() {
        return own_function(value.cast()).into();
    }
    if value.is_map() {
        let map = value.cast::<Map>().into_iter();
        return map.map(|(name, value)| (name, own(value))).collect::<Map>().into();
    }
    if value.is_array() {
        return value.cast::<Array>().into_iter().map(own).collect::<Array>().into();
    }
    value
}

fn own_function(mut function: FnPtr) -> FnPtr {
    for value in function.iter_curry_mut() {
        *value = own(std::mem::take(value));
    }
    function
}
