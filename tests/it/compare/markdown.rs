//! A user posts a comparison as a comment on a pull request: the Markdown is parsed as GitHub parses it.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::two_runs::searched;
use crate::support::Profiler;

/// The content of a parsed page.
#[derive(Default)]
pub struct Page {
    pub headings: Vec<String>,
    /// The text of each cell, by table and row.
    pub tables: Vec<Vec<Vec<String>>>,
    pub html: Vec<String>,
}

/// Fails if the page contains HTML other than the tags that fold its details.
#[track_caller]
pub fn only_folds(page: &Page) {
    let fold = |line: &str| {
        let text = line.trim_start_matches("<summary>").trim_end_matches("</summary>");
        ["<details>", "</details>"].contains(&line) || (text.len() < line.len() && !text.contains(['<', '>']))
    };
    let lines = page.html.iter().flat_map(|html| html.lines());
    let others: Vec<&str> = lines.filter(|line| !fold(line)).collect();
    assert!(others.is_empty(), "{others:?}");
}

pub fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading = false;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                heading = true;
                page.headings.push(String::new());
            }
            Event::End(TagEnd::Heading(_)) => heading = false,
            Event::Start(Tag::Table(_)) => page.tables.push(Vec::new()),
            Event::Start(Tag::TableHead | Tag::TableRow) => page.tables.last_mut().unwrap().push(Vec::new()),
            Event::Start(Tag::TableCell) => page.tables.last_mut().unwrap().last_mut().unwrap().push(String::new()),
            Event::Html(html) | Event::InlineHtml(html) => page.html.push(html.trim().to_owned()),
            Event::Text(text) if heading => page.headings.last_mut().unwrap().push_str(&text),
            Event::Text(text) => {
                let cell = page.tables.last_mut().and_then(|rows| rows.last_mut()?.last_mut());
                if let Some(cell) = cell {
                    cell.push_str(&text);
                }
            }
            _ => {}
        }
    }
    page
}

#[test]
fn a_pull_request_is_told_the_verdict_first_and_nothing_becomes_markup() {
    let (before, after) = (searched(0.70, 1, "r|<b>*x*"), searched(0.68, 1, "r"));
    let outcome = Profiler::new()
        .arg("compare")
        .arg(before.folder().join("r|<b>*x*"))
        .arg(after.folder().join("r"))
        .args(["--threshold", "frontier>=-2%", "--threshold", "volume=5%", "--markdown"])
        .run()
        .code(4);
    let text = &outcome.stdout;
    assert!(
        text.starts_with("## profiler compare: 2 thresholds exceeded\n\n> **SIMULATED"),
        "{text}"
    );
    let page = read(text);
    assert_eq!(
        page.headings[..2],
        ["profiler compare: 2 thresholds exceeded", "Thresholds"]
    );
    let from = &page.tables[0][1];
    assert!(from[0] == "source" && from[1].ends_with("/r|<b>*x*"), "{from:?}");
    let thresholds = &page.tables[1];
    assert_eq!(thresholds[0], ["thresholds", "", "allowed", "[1]", "[2]", "change"]);
    let exceeded = thresholds.iter().filter(|row| row[1] == "exceeded").count();
    assert_eq!((thresholds.len(), exceeded), (4, 2), "{thresholds:?}");
    assert!(
        thresholds[1][0].starts_with("volume of ") && thresholds[1][2].starts_with(">= "),
        "{thresholds:?}"
    );
    only_folds(&page);
    assert!(
        page.headings
            .iter()
            .any(|heading| heading == "Fitted before, and fail now or are ruled out"),
        "{text}"
    );
    assert!(text.len() < 65_000);
}

#[test]
fn without_thresholds_everything_is_shown_and_nothing_is_judged() {
    let run = searched(0.70, 1, "r");
    let outcome = Profiler::new()
        .arg("compare")
        .arg(run.folder().join("r"))
        .arg(run.folder().join("r"))
        .arg("--markdown")
        .run()
        .success();
    let page = read(&outcome.stdout);
    let finding = "profiler compare: [2]: no significant difference in ";
    assert!(page.headings[0].starts_with(finding), "{:?}", page.headings);
    assert_eq!(page.headings[1..], ["boundary"]);
    assert!(
        page.tables[1][1..].iter().all(|row| row.last().unwrap() == "same"),
        "{}",
        outcome.stdout
    );
}
