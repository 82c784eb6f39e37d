//! The files that a run writes besides journal and manifest: series, tables, exports, and the script's own files below
//! `files/`.

use std::io::{self, BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::disk::{BoundedFile, NAME, WrittenFile};
use super::writer::RunWriter;
use super::{Folder, Run, folder, hide};
use crate::csv;
use crate::fault::{Fault, Kind, Result};
use crate::task::lock;

impl Run {
    /// Opens `SUBFOLDER/NAME` for appending, and returns its path; `None` if the run has no folder.
    ///
    /// A file of that name from an earlier execution is kept: the new one is numbered.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be opened.
    pub fn append(&self, subfolder: &str, name: &str) -> Result<Option<(PathBuf, BoundedFile)>> {
        let (Some((folder, name)), Some(writer)) = (self.locate(subfolder, name)?, &self.writer) else {
            return Ok(None);
        };
        let (file, disk) = (folder.append(&name)?, Arc::clone(&writer.disk));
        Ok(Some((folder.path().join(name), BoundedFile::new(file, disk))))
    }

    /// Writes `SUBFOLDER/NAME` atomically, numbered like [`Run::append`]; returns its path.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be written.
    pub fn write(
        &self,
        subfolder: &str,
        name: &str,
        write: impl FnOnce(&mut BufWriter<WrittenFile>) -> io::Result<()>,
    ) -> Result<Option<PathBuf>> {
        let Some((folder, name)) = self.locate(subfolder, name)? else {
            return Ok(None);
        };
        folder.replace(&name, write)?;
        Ok(Some(folder.path().join(name)))
    }

    /// Writes a JSON document like [`Run::write`].
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be written.
    pub fn write_json(&self, subfolder: &str, name: &str, document: &Value) -> Result<Option<PathBuf>> {
        let Some((folder, name)) = self.locate(subfolder, name)? else {
            return Ok(None);
        };
        folder.replace_json(&name, document)?;
        Ok(Some(folder.path().join(name)))
    }

    /// The run's folder, and the name to use in it in this execution.
    pub(super) fn locate(&self, subfolder: &str, name: &str) -> Result<Option<(&Folder, PathBuf)>> {
        match &self.writer {
            Some(writer) => Ok(Some((&writer.folder, writer.name(subfolder, name)?))),
            None => Ok(None),
        }
    }

    /// Writes rows as `tables/NAME.csv` and `tables/NAME.json`, each atomically replacing the table of that name.
    /// The rows of a simulated run say so in a last column. Returns the CSV file; `None` if the run has no folder.
    ///
    /// # Errors
    ///
    /// `usage` if the name has characters other than letters, digits, `_` and `-`; `io` and `missing` if it cannot be
    /// written.
    pub fn keep_table(&self, name: &str, columns: &[String], rows: &[Map<String, Value>]) -> Result<Option<PathBuf>> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(
                Fault::usage(format!("`{name}` is not a valid table name")).hint("use letters, digits, `_` and `-`")
            );
        }
        let Some(RunWriter { folder, disk, .. }) = &self.writer else {
            return Ok(None);
        };
        let file = |extension: &str| Path::new("tables").join(format!("{name}.{extension}"));
        let mut rows = rows.to_vec();
        if self.simulated() {
            let mark = |row: &mut Map<String, Value>| drop(row.insert("simulated".to_owned(), true.into()));
            rows.iter_mut().for_each(mark);
        }
        let table = csv::write(columns, &rows);
        // JSON repeats the column names in each row, so it is about three times as long.
        disk.claim(2 * NAME + 4 * table.len(), 0)?;
        folder.replace_json(&file("json"), &rows)?;
        folder.replace_text(&file("csv"), &hide(&table))?;
        Ok(Some(folder.path().join(file("csv"))))
    }

    /// Reads a CSV file in the run's folder, by its relative path; empty if the run has no folder.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a path outside the folder, whether it exists or not; `io` if it cannot be read.
    pub fn read_table(&self, file: &str) -> Result<Vec<Map<String, Value>>> {
        let Some(RunWriter { folder, .. }) = &self.writer else {
            return Ok(Vec::new());
        };
        let elsewhere = || {
            Fault::not_allowed(
                format!("no file `{file}` in the run's folder"),
                "give a path from a load's answer, such as `timeline.file`, or one in `tables/`",
            )
        };
        // `keep_table` returns a path that includes the folder's.
        let inside = Path::new(file);
        let inside = inside.strip_prefix(folder.path()).unwrap_or(inside);
        let bytes = match folder.read(inside) {
            Ok(Some(bytes)) => bytes,
            Err(fault) if fault.kind != Kind::Usage => return Err(fault),
            _ => return Err(elsewhere()),
        };
        let broken = |why: String| Fault::new(Kind::Io, format!("`{file}` is not a table: {why}"));
        let text = String::from_utf8(bytes).map_err(|error| broken(error.to_string()))?;
        csv::table(&text).map_err(broken)
    }

    /// Writes a document for another tool as `STEM_<UTC time>.json` and returns the file; `None` if the run has no
    /// folder.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be written.
    pub fn export(&self, stem: &str, document: &Value) -> Result<Option<PathBuf>> {
        self.write_json("", &format!("{stem}_{}.json", folder::compact()), document)
    }

    /// Writes `files/NAME`, replacing an existing file, with secrets hidden. Returns its path; `None` if the run has no
    /// folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads out of the folder; `io` and `missing` if it cannot be written.
    pub fn write_file(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        let Some((folder, file)) = self.script_file(name, text)? else {
            return Ok(None);
        };
        folder.replace_text(&file, &hide(text))?;
        self.is_first_write(&file);
        Ok(Some(folder.path().join(file)))
    }

    /// Appends to `files/NAME`. The first call of each execution truncates the file. Returns its path.
    ///
    /// # Errors
    ///
    /// As [`Run::write_file`].
    pub fn append_file(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        let Some((folder, file)) = self.script_file(name, text)? else {
            return Ok(None);
        };
        let path = folder.path().join(&file);
        if self.is_first_write(&file) {
            folder.replace_text(&file, &hide(text))?;
        } else {
            let written = folder.append(&file)?.write_all(hide(text).as_bytes());
            written.map_err(|error| Fault::io(&path, &error))?;
        }
        Ok(Some(path))
    }

    /// Whether this is the first write to the file in this execution.
    fn is_first_write(&self, file: &Path) -> bool {
        lock(&self.started_files).insert(file.to_owned())
    }

    /// The run's folder, and the path in it of a script's file. Counts `text` towards the limit.
    fn script_file(&self, name: &str, text: &str) -> Result<Option<(&Folder, PathBuf)>> {
        let inside = Path::new(name);
        let plain =
            |part: Component<'_>| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
        if name.is_empty() || name.ends_with('/') || !inside.components().all(plain) {
            return Err(Fault::usage(format!("`{name}` is not a valid file name"))
                .hint("give a name, or a relative path without `..`, such as `rows.csv` or `models/a.json`"));
        }
        let Some(writer) = &self.writer else {
            return Ok(None);
        };
        writer.disk.claim(NAME + text.len(), 0)?;
        Ok(Some((&writer.folder, Path::new("files").join(inside))))
    }
}
