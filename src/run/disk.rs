//! Files that are there whole, or not at all.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use serde::Serialize;

use super::secrets;
use crate::fault::{Fault, Result};

/// Replaces a file by `value` as indented JSON.
pub(super) fn replace_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Fault::internal(format!("`{}` cannot be written: {error}", path.display())))?;
    let mut text = secrets::hide(&text).into_owned();
    text.push('\n');
    replace(path, text.as_bytes())
}

/// Replaces a file: whoever reads it, now or after a crash, sees the old text or the new one.
pub(crate) fn replace(path: &Path, text: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let fresh = Path::new(&name);
    let written = File::create(fresh)
        .and_then(|mut file| file.write_all(text).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(fresh, path));
    written.map_err(|error| {
        // What could not be written whole is of no use.
        let _ = fs::remove_file(fresh);
        Fault::io(path, &error)
    })
}
