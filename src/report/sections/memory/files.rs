//! The files below `memory/` of a run folder, grouped by engine start.

use crate::fault::Result;
use crate::run::Folder;

/// The files of one start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StartFiles {
    /// `engine-3`; `engine-3-2` for the second engine with this number, if the run was resumed.
    pub(super) name: String,
    /// The engine's number, and which one of that number it is; none for foreign file names.
    pub(super) number: Option<(u64, usize)>,
    pub(super) series: Option<String>,
    pub(super) activity: Option<String>,
    pub(super) processes: Option<String>,
}

/// The files in `memory/`, in the order of the starts; empty if there is no such folder.
///
/// # Errors
///
/// `io` if the folder cannot be read.
pub(super) fn files(folder: &Folder) -> Result<Vec<StartFiles>> {
    let mut all: Vec<StartFiles> = Vec::new();
    for file in folder.names("memory")? {
        let Some((name, kind)) = split(&file) else {
            continue;
        };
        let path = format!("memory/{file}");
        let files = match all.iter_mut().position(|files| files.name == name) {
            Some(index) => &mut all[index],
            None => {
                all.push(StartFiles {
                    number: start_number(&name),
                    name,
                    ..StartFiles::default()
                });
                let newest = all.len() - 1;
                &mut all[newest]
            }
        };
        match kind {
            Kind::Series => files.series = Some(path),
            Kind::Activity => files.activity = Some(path),
            Kind::Processes => files.processes = Some(path),
        }
    }
    all.sort_by_key(|files| {
        (
            files.number.map_or((u64::MAX, 0), |(number, copy)| (number, copy)),
            files.name.clone(),
        )
    });
    Ok(all)
}

enum Kind {
    Series,
    Activity,
    Processes,
}

/// The name of the start, and the kind of file. A copy has its number before the last dot: `engine-1.activity-2.csv`.
fn split(file: &str) -> Option<(String, Kind)> {
    let stem = file.strip_suffix(".csv")?;
    let Some((name, rest)) = stem.split_once('.') else {
        return Some((stem.to_owned(), Kind::Series));
    };
    let (kind, copy) = rest
        .split_once('-')
        .map_or((rest, None), |(kind, copy)| (kind, Some(copy)));
    let kind = match kind {
        "activity" => Kind::Activity,
        "processes" => Kind::Processes,
        _ => return None,
    };
    let name = copy.map_or_else(|| name.to_owned(), |copy| format!("{name}-{copy}"));
    Some((name, kind))
}

fn start_number(name: &str) -> Option<(u64, usize)> {
    let rest = name.strip_prefix("engine-")?;
    let (number, copy) = rest.split_once('-').unwrap_or((rest, "1"));
    Some((number.parse().ok()?, copy.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_grouped_by_start_in_order() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::open(temp.path()).unwrap();
        assert_eq!(files(&folder).unwrap(), []);
        let memory = temp.path().join("memory");
        std::fs::create_dir(&memory).unwrap();
        for name in [
            "engine-10.csv",
            "engine-2.csv",
            "engine-2-2.csv",
            "engine-2.activity-2.csv",
            "engine-2.processes.csv",
            "engine-2.usage.json",
            "other.csv",
            "notes.txt",
        ] {
            std::fs::write(memory.join(name), "").unwrap();
        }
        let all = files(&folder).unwrap();
        let found: Vec<_> = all
            .iter()
            .map(|files| {
                (
                    files.name.as_str(),
                    files.series.is_some(),
                    files.activity.is_some(),
                    files.processes.is_some(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("engine-2", true, false, true),
                ("engine-2-2", true, true, false),
                ("engine-10", true, false, false),
                ("other", true, false, false)
            ]
        );
    }
}
