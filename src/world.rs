//! The services of the machine that a run uses: time, randomness, disk and network. A simulation of whole runs replaces
//! them for its thread.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hyper::{Request, Response};
use jiff::Timestamp;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// The body of a response, as it arrives.
pub type Body = BoxStream<'static, io::Result<Bytes>>;

/// An HTTP server: answers a request.
pub type Server = Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// A simulated machine. All its work runs on one thread, so that it is deterministic.
pub trait World: Send + Sync {
    /// The runtime for all asynchronous work. Its clock is the clock of this machine.
    fn runtime(&self) -> &Runtime;

    /// The time of the wall clock.
    fn now(&self) -> Timestamp;

    /// A random number.
    fn random(&self) -> u64;

    /// Called before a run's folder is changed.
    ///
    /// # Errors
    ///
    /// The error of the disk. The change is then not made.
    fn change(&self, change: Change<'_>) -> io::Result<()>;

    /// Lets an engine of this machine listen; returns its URL. Its connections break when `reset` is cancelled.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    fn listen(&self, reset: CancellationToken) -> io::Result<String>;

    /// Serves at the URL from now on.
    fn serve(&self, url: &str, server: Server);

    /// Sends a request. The answer is streamed.
    ///
    /// # Errors
    ///
    /// If nothing listens there, or the connection breaks.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, io::Result<Response<Body>>>;

    /// Sends a request and returns the whole answer. Returns status 502 if there is none, because only the client can
    /// create its own errors.
    fn page(&self, request: reqwest::Request) -> BoxFuture<'static, reqwest::Response>;
}

/// A change of a run's folder.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Opens a file for writing, and creates it if there is none.
    Open(&'a Path),
    /// Appends to the file that was opened with this name.
    Write(&'a Path, &'a [u8]),
    /// Truncates the file that was opened with this name to this many bytes.
    Cut(&'a Path, u64),
    /// Syncs the contents of the file that was opened with this name.
    Sync(&'a Path),
    /// Syncs a folder's directory entries.
    SyncFolder(&'a Path),
    /// Renames a file.
    Rename(&'a Path, &'a Path),
    /// Removes a file.
    Remove(&'a Path),
    /// Creates a folder unless it exists.
    MakeFolder(&'a Path),
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn World>>> = const { RefCell::new(None) };
}

/// The simulated machine of this thread, if it has one.
pub fn current() -> Option<Arc<dyn World>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Runs `work` on the simulated machine, or on this one if it is `None`.
pub fn within<T>(world: Option<Arc<dyn World>>, work: impl FnOnce() -> T) -> T {
    /// Restores the previous machine, also after a panic.
    struct Leave(Option<Arc<dyn World>>);
    impl Drop for Leave {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _entered = world.as_ref().map(|world| world.runtime().enter());
    let _leave = Leave(CURRENT.replace(world.clone()));
    work()
}

/// The time of the wall clock.
pub(crate) fn now() -> Timestamp {
    current().map_or_else(Timestamp::now, |world| world.now())
}

/// Announces a change of a run's folder.
pub(crate) fn change(change: Change<'_>) -> io::Result<()> {
    current().map_or(Ok(()), |world| world.change(change))
}
