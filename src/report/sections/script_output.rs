//! What the script itself output: plots, printed texts and recorded values. Its tables are files of the folder.

use super::{Block, Section, Source};
use crate::report::plot::{Plot, Sheet};

/// The sections. Unreadable data are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let plots = found
        .plots
        .iter()
        .filter_map(|(name, value)| match serde_json::from_value::<Plot>(value.clone()) {
            Ok(plot) => Some(plot),
            Err(error) => {
                missing.push(format!(
                    "the picture `{name}` that the script drew cannot be read: {error}"
                ));
                None
            }
        });
    let texts = found.shown.iter().map(|(_, text)| Block::Text(text.clone()));
    let recorded = found
        .records
        .iter()
        .map(|(name, value)| vec![name.as_str().into(), value.to_string().into()]);
    let recorded = (!found.records.is_empty()).then(|| Sheet::new(["name", "value"], recorded));
    let sections = [
        Section::new("drawn", "What the script shows").with(plots).with(texts),
        Section::new("records", "What the script recorded").with(recorded),
    ];
    sections
        .into_iter()
        .filter(|section| !section.blocks.is_empty())
        .collect()
}
