//! Series as files: `memory/<name>.csv` of a run's folder.
//!
//! One line for each row of a [`Series`], so an idle engine leaves one line: `from_s,to_s,phase,looks,total` and one column
//! for each device, named by its id. Times are seconds since the sampler's start, to the microsecond; memory is in bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Result};
use crate::run::Run;

use super::series::Series;

/// Writes a series where people and other programs find it; none when the run leaves no folder.
pub fn keep(run: &Run, name: &str, series: &Series) -> Result<Option<PathBuf>> {
    let Some(path) = run.file("memory", &format!("{name}.csv"))? else {
        return Ok(None);
    };
    save(&path, series).map_err(|error| Fault::io(&path, &error))?;
    Ok(Some(path))
}

fn save(path: &Path, series: &Series) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    write(&mut file, series)?;
    file.flush()
}

/// Writes a series.
pub fn write(out: &mut impl Write, series: &Series) -> io::Result<()> {
    write!(out, "from_s,to_s,phase,looks,total")?;
    for device in series.devices() {
        write!(out, ",{}", quoted(&device.id))?;
    }
    writeln!(out)?;
    for row in series.rows() {
        write!(
            out,
            "{},{},{},{},{}",
            seconds(row.from),
            seconds(row.to),
            row.phase,
            row.looks,
            row.total
        )?;
        for used in &row.used {
            write!(out, ",{used}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// RFC 4180: a field with a comma, quote or line end is put in quotes, its own quotes doubled. A cgroup's path may have them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Device, Phase, Reading};

    #[test]
    fn the_format_is_as_documented() {
        let reading = |used| Reading {
            devices: vec![Device {
                id: "a,b".into(),
                name: "x".into(),
                used,
                total: 9,
            }],
            tenants: Vec::new(),
        };
        let mut series = Series::default();
        series.push(0, &reading(1));
        series.push(20_000, &reading(1));
        series.mark(Phase::WarmUp);
        series.push(1_040_000, &reading(3));
        let mut text = Vec::new();
        write(&mut text, &series).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "from_s,to_s,phase,looks,total,\"a,b\"\n0.000000,0.020000,baseline,2,1,1\n1.040000,1.040000,warm_up,1,3,3\n"
        );
    }
}
