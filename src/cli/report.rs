//! `profiler report`: writes the page of one or several runs, and its figures as files.

use std::fs::create_dir_all;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf, absolute};

use serde_json::json;

use super::program::{Program, Status, json_text};
use crate::compare::import;
use crate::fault::{Fault, Kind, Result};
use crate::report::Section;
use crate::report::html::{self, Anchors};
use crate::report::plot::{self, Plot};
use crate::report::sections::{self, Document, Together};
use crate::run::{Folder, SCHEMA, hide, is_pack};

/// The page's file name, in the run's folder or, for several runs, the current one.
const PAGE: &str = "report.html";

/// PNG pixels per drawing unit.
const PNG_SCALE: f32 = 2.0;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders of runs; of several, one page that compares them. Or one file of another tool
    #[arg(value_name = "DIR|FILE", required = true)]
    folders: Vec<PathBuf>,
    /// Write the page to FILE; without any of these options, to DIR/report.html, of several runs or a packed one to report.html
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each picture as SVG into FOLDER
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Write each picture as PNG into FOLDER
    #[arg(long, value_name = "FOLDER")]
    png: Option<PathBuf>,
    /// Print the paths as one JSON document
    #[arg(long)]
    json: bool,
}

/// Writes the files and prints their paths.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let foreign = |path: &&PathBuf| path.is_file() && !is_pack(path);
    let (documents, together) = match (args.folders.as_slice(), args.folders.iter().find(foreign)) {
        ([_], Some(file)) => (vec![sections::imported(&import::read(file)?)?], Together::default()),
        (_, Some(file)) => {
            return Err(Fault::usage(format!(
                "`{}` is a file of another tool, which has a page of its own",
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
        (None, [folder]) if folder.is_dir() => Some(folder.join(PAGE)),
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
        program.note("there is nothing in these runs to draw");
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

/// Writes the page of a run into its folder and returns its path.
///
/// # Errors
///
/// `io` and `missing` if the folder cannot be read or the page cannot be written.
pub(super) fn write_run_page(folder: &Path) -> Result<PathBuf> {
    let (documents, together) = sections::documents(&[folder.to_owned()])?;
    let page = html::page(&documents, &together)?;
    Folder::open(folder)?.replace(Path::new(PAGE), |file| file.write_all(page.as_bytes()))?;
    Ok(folder.join(PAGE))
}

/// The path of a run's page, if it exists.
pub(super) fn page_of(folder: &Folder) -> Option<PathBuf> {
    folder.has_file(PAGE).then(|| folder.path().join(PAGE))
}

/// All figures with their file names, and whether they are of a simulated run.
fn pictures<'a>(documents: &'a [Document], together: &'a [Section]) -> Vec<(String, &'a Plot, bool)> {
    let mut names = Anchors::default();
    let any = documents.iter().any(|document| document.simulated.is_some());
    let several = documents.len() > 1;
    let own = documents.iter().enumerate().flat_map(|(index, document)| {
        let prefix = if several {
            format!("run-{} ", index + 1)
        } else {
            String::new()
        };
        document
            .sections
            .iter()
            .map(move |part| (prefix.clone(), part, document.simulated.is_some()))
    });
    let parts = together.iter().map(|part| (String::new(), part, any)).chain(own);
    let plots = parts.flat_map(|(prefix, part, simulated)| {
        part.plots()
            .into_iter()
            .map(move |plot| (prefix.clone(), plot, simulated))
    });
    plots
        .map(|(prefix, plot, simulated)| (names.give(&format!("{prefix}{}", plot.name)), plot, simulated))
        .collect()
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
                let name = path.file_name().map(PathBuf::from);
                let name = name.ok_or_else(|| Fault::usage(format!("`{}` is no name of a file", path.display())))?;
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
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
