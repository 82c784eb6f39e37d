//! Files of runs: `profiler report` writes the page of one or several runs, and its charts as files; `profiler pack`
//! packs a run into one file, to send.

use std::fs::create_dir_all;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf, absolute};
use std::slice;

use serde_json::json;

use super::program::{Program, Status, create_file, json_text};
use crate::compare::import;
use crate::fault::{Fault, Kind, Result};
use crate::fmt::Bytes;
use crate::report::Section;
use crate::report::html::{self, Anchors};
use crate::report::plot::{self, Plot};
use crate::report::sections::{self, Document, PAGE, Together};
use crate::run::{self, Folder, Manifest, SCHEMA, hide};
use crate::temporary::Temporary;

/// PNG pixels per drawing unit.
const PNG_SCALE: f32 = 2.0;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders of runs; several are compared on one page. Or one file of another tool
    #[arg(value_name = "DIR|FILE", required = true)]
    folders: Vec<PathBuf>,
    /// Write the page to FILE; without any of these options, to DIR/report.html, or to report.html for several runs or
    /// a packed one
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each chart as SVG into FOLDER
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Write each chart as PNG into FOLDER
    #[arg(long, value_name = "FOLDER")]
    png: Option<PathBuf>,
    /// Print the paths as one JSON document
    #[arg(long)]
    json: bool,
}

/// Writes the files and prints their paths.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let foreign = |path: &&PathBuf| import::is_foreign(path);
    let (documents, together) = match (args.folders.as_slice(), args.folders.iter().find(foreign)) {
        ([_], Some(file)) => (vec![sections::imported(&import::read(file)?)?], Together::default()),
        (_, Some(file)) => {
            return Err(Fault::usage(format!(
                "`{}` is of another tool, and has a page of its own",
                file.display()
            ))
            .hint("give it alone; `profiler compare` holds it against others"));
        }
        _ => sections::documents(&args.folders)?,
    };
    let pictures = pictures(&documents, &together.sections);
    let page = match (&args.html, args.folders.as_slice()) {
        (Some(file), _) => Some(file.clone()),
        (None, _) if args.svg.is_some() || args.png.is_some() => None,
        (None, [folder]) if folder.is_dir() && !import::is_foreign(folder) => Some(folder.join(PAGE)),
        (None, _) => Some(PathBuf::from(PAGE)),
    };
    if let Some(page) = &page {
        write(page, html::page(&documents, &together)?.as_bytes(), "--html FILE", args)?;
    }
    let mut drawn = [Vec::new(), Vec::new()];
    for (name, plot, simulated) in &pictures {
        let mut draw = |index: usize, folder: &Path, extension: &str, bytes: &[u8]| -> Result<()> {
            let path = folder.join(format!("{name}.{extension}"));
            write(&path, bytes, &format!("--{extension} FOLDER"), args)?;
            drawn[index].push(path);
            Ok(())
        };
        if let Some(folder) = &args.svg {
            draw(0, folder, "svg", hide(&plot::file(plot, *simulated)).as_bytes())?;
        }
        if let Some(folder) = &args.png {
            draw(1, folder, "png", &plot::png(plot, *simulated, PNG_SCALE)?)?;
        }
    }
    if pictures.is_empty() && (args.svg.is_some() || args.png.is_some()) {
        let folders = args.folders.iter().map(|folder| format!("`{}`", folder.display()));
        let nothing = format!("nothing in {} can be drawn", folders.collect::<Vec<_>>().join(", "));
        if page.is_none() {
            return Err(
                Fault::usage(nothing).hint("`--html FILE` writes a page of what is known, `profiler show` prints it")
            );
        }
        program.note(nothing);
    }
    let [svg, png] = drawn;
    let text = if args.json {
        let simulated = documents.iter().any(|document| document.simulated.is_some());
        let document = json!({ "schema": SCHEMA, "simulated": simulated, "html": page, "svg": svg, "png": png });
        json_text(&document)?
    } else {
        let paths = page
            .iter()
            .chain(&svg)
            .chain(&png)
            .map(|path| path.display().to_string());
        paths.collect::<Vec<_>>().join("\n")
    };
    if !text.is_empty() {
        program.terminal.print(&text)?;
    }
    Ok(0)
}

/// Writes the page of a run into its folder and returns its path and its headline.
///
/// # Errors
///
/// `io` and `missing` if the folder cannot be read or the page cannot be written.
pub(super) fn write_run_page(folder: &Path) -> Result<(PathBuf, String)> {
    let document = sections::own_document(folder)?;
    let page = html::page(slice::from_ref(&document), &Together::default())?;
    Folder::open(folder)?.replace(Path::new(PAGE), |file| file.write_all(page.as_bytes()))?;
    Ok((folder.join(PAGE), document.headline))
}

/// The path of a run's page, if it exists.
pub(super) fn page_of(folder: &Folder) -> Option<PathBuf> {
    folder.has_file(PAGE).then(|| folder.path().join(PAGE))
}

/// All charts with their file names, and whether they are of a simulated run.
fn pictures<'a>(documents: &'a [Document], together: &'a [Section]) -> Vec<(String, &'a Plot, bool)> {
    let (mut names, mut found) = (Anchors::default(), Vec::new());
    let mut add = |prefix: &str, sections: &'a [Section], simulated: bool| {
        for plot in sections.iter().flat_map(Section::plots) {
            found.push((names.give(&format!("{prefix}{}", plot.name)), plot, simulated));
        }
    };
    add(
        "",
        together,
        documents.iter().any(|document| document.simulated.is_some()),
    );
    for (index, document) in documents.iter().enumerate() {
        let prefix = match documents.len() {
            1 => String::new(),
            _ => format!("run-{} ", index + 1),
        };
        add(&prefix, &document.sections, document.simulated.is_some());
    }
    found
}

/// Writes a file that the user named. In a run's folder, symbolic links are not followed.
fn write(path: &Path, bytes: &[u8], option: &str, args: &Args) -> Result<()> {
    let below = args.folders.iter().find_map(|folder| {
        let path = absolute(path).ok()?;
        let inside = path.strip_prefix(absolute(folder).ok()?).ok()?;
        let leaves = inside.components().any(|part| part == Component::ParentDir);
        (!leaves && inside != Path::new("")).then(|| (inside.to_owned(), folder))
    });
    let written = || {
        let (folder, name) = match below {
            Some((name, folder)) => (folder.as_path(), name),
            None => {
                let name = path
                    .file_name()
                    .map(PathBuf::from)
                    .ok_or_else(|| Fault::usage(format!("`{}` is no name of a file", path.display())))?;
                let parent = path
                    .parent()
                    .filter(|parent| !parent.as_os_str().is_empty())
                    .unwrap_or(Path::new("."));
                create_dir_all(parent).map_err(|error| Fault::io(parent, &error))?;
                (parent, name)
            }
        };
        Folder::open(folder)?.replace(&name, |file| file.write_all(bytes))
    };
    written().map_err(|fault| match fault.kind {
        Kind::Io if fault.hint.is_none() => fault.hint(format!("choose another place with {option}")),
        _ => fault,
    })
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct PackArgs {
    /// The folder of a run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The file to write; NAME.tar.gz in the current folder when absent
    file: Option<PathBuf>,
    /// Include the logs of the engine, which may contain requests
    #[arg(long)]
    logs: bool,
    /// Leave out this file or folder of the run
    #[arg(long, value_name = "PATH")]
    without: Vec<String>,
}

/// Packs a run. Never overwrites a file. If a secret is found, no file is left behind.
pub(super) fn pack(args: &PackArgs, program: &Program) -> Result<Status> {
    let folder = Folder::open(&args.folder)?;
    Manifest::read(&folder)?;
    let real = args
        .folder
        .canonicalize()
        .map_err(|error| Fault::io(&args.folder, &error))?;
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = args
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let mut without = args.without.clone();
    without.extend((!args.logs).then(|| "logs".to_owned()));
    let file = create_file(
        &path,
        "nothing was written; give another file: `profiler pack DIR FILE`",
    )?;
    // Half an archive is useless.
    let half = Temporary::of(path.clone());
    let packed = run::pack(&folder, &name, &without, &file)?;
    half.keep();
    let size = file.metadata().map_err(|error| Fault::io(&path, &error))?.len();
    program.terminal.print(&path.display().to_string())?;
    let logs = if args.logs {
        "with logs"
    } else {
        "without logs; --logs adds them"
    };
    program.note(format!(
        "{packed} files, {}, {logs}. Paths and the host's name are in it",
        Bytes(size)
    ));
    Ok(0)
}
