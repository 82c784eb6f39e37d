//! Script API basics: assertions, faults, the machine's GPUs, parameters, waiting.

use std::time::Duration;

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};
use serde_json::json;

use crate::fault::{Fault, Kind, Result};
use crate::script::params::{Param, declared, merge_values};
use crate::script::{Caught, host, to_script};
use crate::telemetry;

/// Assertions.
#[export_module]
pub mod assert {
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
}

const THROWN: [Kind; 6] = [
    Kind::Missing,
    Kind::NotAllowed,
    Kind::Script,
    Kind::StartFailed,
    Kind::Threshold,
    Kind::Usage,
];

/// Faults that a script caught or throws.
#[export_module]
pub mod fault {
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
            let names = THROWN.map(|kind| format!("`{}`", kind.name())).join(", ");
            return Err(Fault::usage(format!("a script cannot throw a fault of kind `{kind}`"))
                .hint(format!("the kinds are {names}"))
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

    /// One sentence about what went wrong.
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

    /// What to do about it, or `()`.
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

    /// One sample of every GPU: a map of `devices` (maps of `id`, `name`, `used` and `total`, in bytes), `tenants`
    /// (processes on them: maps of `pid`, `device`, and `used` in bytes, or `()` if the driver does not report it) and
    /// `activity` (maps of `device`, `power_mw` in milliwatts and `busy_percent`, `()` if the driver does not report
    /// it). `total` is what programs can use, without what the driver reserves. A GPU that is divided by MIG is listed
    /// as its instances.
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

/// Parameters of a script.
#[export_module]
pub mod params {
    /// Declares a parameter: its default, which determines its type, and one line that explains it. `()` accepts any
    /// value, an empty map any keys.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ output: param([128, 4096], "output length, tokens: smallest and largest") });
    /// p.output == [128, 4096]
    /// ```
    pub fn param(default: Dynamic, meaning: &str) -> Param {
        Param {
            default,
            meaning: meaning.to_owned(),
        }
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
        let host = host(&context);
        let values = merge_values(&declared(declaration)?, &host.settings.set)?;
        let shown = to_script(&values)?;
        host.run.set_parameters(&json!(values));
        host.state().params = Some(values);
        Ok(shown)
    }

    /// Whether the user set a parameter, on the command line or in a file; otherwise it has its default.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(!is_set("input"));
    /// ```
    pub fn is_set(context: NativeCallContext, name: &str) -> bool {
        host(&context).settings.set.contains_key(name)
    }
}

fn wait(context: &NativeCallContext, seconds: f64) -> Caught<()> {
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| Fault::usage(format!("`sleep` takes a non-negative number of seconds, not {seconds}")))?;
    Ok(host(context).tasks.sleep(time)?)
}

/// Several things at the same time.
#[export_module]
pub mod parallel {
    /// Calls `work(item)` for the items that `next` gives, `count` of them at the same time, each on a thread of its own, and passes each answer to `done` as it
    /// comes. `next(state)` returns `[state, item]`; the item is `()` if there is none for now, and it is asked again after each answer.
    /// `done(state, item, answer)` returns the state. Returns the state once there is no item and nothing under way.
    ///
    /// `work` gets copies of what it captured: what it changes there is not seen outside. With a `count` of 1 it runs like any other function.
    ///
    /// # Errors
    ///
    /// `usage` if the count is not 1 to 64. An error of `work` is thrown once what is under way has been passed to `done`.
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
        host(&context).meter.reset();
        let Some(count) = usize::try_from(count).ok().filter(|count| (1..=64).contains(count)) else {
            return Err(Fault::usage(format!("`in_parallel` takes a count of 1 to 64, not {count}")).into());
        };
        crate::script::parallel::in_parallel(&context, count, state, [&next, &work, &done])
    }
}

/// Waiting. Both numeric types have an overload, because otherwise Rhai's own, which cannot be interrupted, would be
/// found first.
#[export_module]
pub mod time {
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
