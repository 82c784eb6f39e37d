//! Lets a script do several things at the same time, each on a thread of its own.
//!
//! A value that closures capture is shared between them, and Rhai locks it for as long as one of them calls a method of
//! it. What runs on another thread therefore gets copies.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::Builder;

use rhai::{Array, Dynamic, FnPtr, Map, NativeCallContext};

use super::Caught;
use super::interpreter::{STACK, panicked};
use crate::fault::{Fault, Kind};
use crate::world;

/// Calls `work` for items that `next` gives, `count` of them at the same time, and passes each answer to `done` as it
/// comes. `next` and `done` run on this thread, one after the other.
///
/// `next(state)` returns `[state, item]`, where the item is `()` if there is none for now; it is called again after each
/// answer. `done(state, item, answer)` returns the state. Returns the state when there is no item and nothing under way.
///
/// An error ends it once what is under way has been answered.
pub(super) fn in_parallel(
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
                    // Nobody waits for it if the script failed.
                    let _ = answer.send((item, answered));
                });
                started.map_err(|error| Fault::internal(format!("cannot start a thread of the script: {error}")))?;
            }
            if busy == 0 {
                return failure.map_or(Ok(state), Err);
            }
            let (item, answer) = answers
                .recv()
                .map_err(|_| Fault::internal("a thread of the script ended without an answer"))?;
            busy -= 1;
            match answer {
                Ok(answer) => state = done.call_raw(context, None, [state, item, answer])?,
                Err(error) => drop(failure.get_or_insert(error)),
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

/// The value with nothing in it that another value shares.
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
