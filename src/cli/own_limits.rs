//! The limits of the machine that this program needs for itself: open files, threads and address space. Checked before
//! anything starts, so that a limit of ours is never taken for one of an engine. And the bound of its own memory.

use std::sync::mpsc::channel;
use std::thread::{Builder, sleep};
use std::time::Duration;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::program::exit;
use crate::fault::{Fault, Kind, Result};
use crate::fmt::Bytes;
use crate::outside::resident;
use crate::report::Terminal;
use crate::script;

/// Open files and threads of a command that measures, and of any other.
const FILES: [u64; 2] = [320, 64];
const THREADS: [u64; 2] = [32, 8];

/// Address space besides the stack of the script's thread. Only the part in use takes memory.
const SPACE: [u64; 2] = [1536 << 20, 640 << 20];

/// Fails if the limits of this process are too low.
///
/// # Errors
///
/// `missing`, with what is needed.
pub(super) fn check(measures: bool) -> Result<()> {
    let of = |needs: [u64; 2]| needs[usize::from(!measures)];
    let short = |what: &str, needed: String, option: &str| {
        Fault::missing(
            format!("the limits leave this program {what}: it needs {needed}"),
            format!("raise the limit: `ulimit {option}`"),
        )
    };
    let (_, files) = getrlimit(Resource::RLIMIT_NOFILE).map_err(Fault::internal)?;
    if files < of(FILES) {
        return Err(short(
            "too few open files",
            of(FILES).to_string(),
            &format!("-n {}", of(FILES)),
        ));
    }
    let space = of(SPACE) + if measures { script::STACK as u64 } else { 0 };
    for (resource, option) in [(Resource::RLIMIT_AS, "-v"), (Resource::RLIMIT_DATA, "-d")] {
        let (limit, _) = getrlimit(resource).map_err(Fault::internal)?;
        if limit != RLIM_INFINITY && limit < space {
            let most = space.div_ceil(1 << 10);
            return Err(short(
                "too little memory",
                Bytes(space).to_string(),
                &format!("{option} {most}"),
            ));
        }
    }
    // Other processes of this user count too, so the limit alone says nothing.
    let threads = of(THREADS);
    let (hold, held) = channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let started: Vec<_> = (0..threads)
        .map_while(|_| {
            let held = std::sync::Arc::clone(&held);
            let wait = move || crate::task::lock(&held).recv().is_ok();
            Builder::new().stack_size(64 << 10).spawn(wait).ok()
        })
        .collect();
    let count = started.len() as u64;
    drop(hold);
    for thread in started {
        let _ = thread.join();
    }
    if count < threads {
        let more = threads - count;
        return Err(short(
            "too few processes and threads",
            format!("{more} more"),
            "-u unlimited",
        ));
    }
    Ok(())
}

/// Resident bytes at which a command that only reads ends itself, so that it stays below 1 GiB. Bytes from outside are
/// bounded where they are read; this is for what no bound foresaw, such as a library that makes much of little. A command
/// that measures is not ended: a large load takes as much, and would be lost.
const MOST: u64 = 928 << 20;

/// How often its memory is looked at. A fast machine fills 64 MiB in that time.
const EACH: Duration = Duration::from_millis(10);

/// Ends this program once it holds too much memory.
///
/// # Errors
///
/// `missing` if no thread can be started.
pub(super) fn watch_memory() -> Result<()> {
    let watch = || {
        while resident().is_some_and(|held| held < MOST) {
            sleep(EACH);
        }
        if resident().is_some() {
            let fault = Fault::new(
                Kind::Limit,
                format!("this program took {} of memory, and ended itself", Bytes(MOST)),
            )
            .hint("give it a smaller file");
            Terminal::detect().print_fault(&fault);
            exit(fault.kind.exit_code());
        }
    };
    let started = Builder::new().name("memory".to_owned()).spawn(watch);
    started
        .map(drop)
        .map_err(|error| Fault::no_thread("watch of memory", &error))
}
