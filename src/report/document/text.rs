//! Blocks for the terminal: facts in a column, wrapped sentences, tables that fit the width, drawings in characters.

use console::{Style, measure_text_width as width};

use super::table::{table, wrapped};
use super::{Block, Fact, List, Weight, entry_text};
use crate::fmt::wrap;
use crate::report::Page;
use crate::report::plot::{Entry, Sheet};

/// Sentences of a list before the rest is left to the JSON.
const MAX_LISTED: usize = 12;

/// Lines of prose are no longer and no shorter than this.
const PROSE: std::ops::RangeInclusive<usize> = 24..=160;

/// Renders blocks for the terminal, a blank line between them. Charts are left out. The result and lists without a title
/// are not wrapped, which [`crate::report::Terminal::print_wrapped`] does. No trailing newline.
pub fn text(blocks: &[Block], page: Page) -> String {
    let mut text = String::new();
    let mut above: Option<&Block> = None;
    for block in blocks {
        let rendered = block_text(block, page);
        if rendered.is_empty() {
            continue;
        }
        let is_warning = |block: &Block| matches!(block, Block::List(list) if list.weight == Weight::Warning);
        match above {
            None => {}
            // The result is the first line, or the second after the notice of a simulation.
            Some(above) if is_warning(above) && matches!(block, Block::Finding(_)) => text.push('\n'),
            // What a drawing shows.
            Some(Block::Sketch(_)) if matches!(block, Block::Paragraph(_)) => text.push('\n'),
            Some(_) => text.push_str("\n\n"),
        }
        text.push_str(&rendered);
        above = Some(block);
    }
    text
}

fn block_text(block: &Block, page: Page) -> String {
    match block {
        Block::Finding(finding) => page.paint(&page.signs(finding.clone()), Style::new().bold()),
        Block::Facts(facts) => facts_text(facts, page),
        Block::Paragraph(text) => paragraph(text, page).trim_start().to_owned(),
        Block::List(list) => list_text(list, page),
        Block::Table(sheet) | Block::Folded(sheet) => sheet_text(sheet, page),
        Block::Figure(_) => String::new(),
        Block::Sketch(text) | Block::Text(text) => text.clone(),
    }
}

/// A wrapped paragraph, indented.
fn paragraph(text: &str, page: Page) -> String {
    let width = page.width.clamp(*PROSE.start(), *PROSE.end());
    wrapped(&page.signs(text.to_owned()), width)
}

/// Facts: the terms in a column of their own, the texts wrapped next to it. Code is never wrapped.
fn facts_text(facts: &[Fact], page: Page) -> String {
    let indent = facts.iter().map(|fact| width(&fact.term)).max().unwrap_or(0) + 2;
    let room = page.width.saturating_sub(indent).max(20);
    let mut lines = Vec::new();
    let mut last = "";
    for fact in facts {
        let term = if fact.term == last { "" } else { &fact.term };
        last = &fact.term;
        let text = match fact.paste {
            true => page.paint(&fact.text, Style::new().bold()),
            false => wrap(&page.signs(fact.text.clone()), room, 0),
        };
        let text = text.replace('\n', &format!("\n{}", " ".repeat(indent)));
        let blanks = " ".repeat(indent - width(term));
        lines.push(format!("{}{blanks}{text}", page.paint(term, Style::new().dim())));
    }
    lines.join("\n")
}

fn list_text(list: &List, page: Page) -> String {
    // In the colour of warnings: yellow is unreadable on white.
    let serious = |text: &str| page.paint(text, Style::new().magenta().bold());
    let item = |item: &String| match (list.title.is_empty(), list.weight) {
        (true, Weight::Warning) if item.starts_with("SIMULATED") => page.paint(item, Style::new().black().on_yellow()),
        (true, Weight::Warning) => serious(item),
        (true, _) => page.signs(item.clone()),
        (false, _) => paragraph(item, page),
    };
    let mut lines = match list.weight {
        Weight::Warning => vec![serious(&list.title)],
        _ => vec![list.title.clone()],
    };
    lines.retain(|_| !list.title.is_empty());
    // A warning of its own is never left out.
    let most = match (list.title.is_empty(), list.weight) {
        (true, Weight::Warning) => usize::MAX,
        _ => MAX_LISTED,
    };
    lines.extend(list.items.iter().take(most).map(item));
    let more = list.items.len().saturating_sub(most);
    if more > 0 {
        lines.push(format!("  and {more} more with --json"));
    }
    lines.join("\n")
}

/// A table below its title: words aligned to the left, numbers to the right.
fn sheet_text(sheet: &Sheet, page: Page) -> String {
    let text = |entry: &Entry| match entry {
        Entry::None => "-".to_owned(),
        entry => page.signs(entry_text(entry)),
    };
    let rows: Vec<Vec<String>> = sheet.rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let headings: Vec<&str> = sheet.columns.iter().map(String::as_str).collect();
    let text = table(&headings, &rows, page);
    let lines = text.lines().map(str::trim_end).skip_while(|line| line.is_empty());
    let title = Some(sheet.title.as_str()).filter(|title| !title.is_empty());
    title.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SIMULATED;

    #[test]
    fn the_result_follows_the_notice_and_long_lists_are_cut() {
        let blocks = [
            Block::warnings(vec![SIMULATED.to_owned()]).unwrap(),
            Block::Finding("input ≤ 5".to_owned()),
            Block::Facts(vec![
                Fact::new("how sure", "3 probes, and a few words more than one line holds"),
                Fact::new("what to run", "5 requests"),
                Fact::code("what to run", "--max-num-seqs=5"),
            ]),
            Block::Figure(Box::default()),
            Block::Table(Sheet::new(
                ["of", "GiB", ""],
                [
                    vec!["weights".into(), 15.0.into(), "± 1".into()],
                    vec!["a".into(), Entry::None, "more".into()],
                ],
            )),
            Block::list(
                "points",
                (1..=14).map(|number| number.to_string()).collect(),
                Weight::Normal,
            )
            .unwrap(),
        ];
        let page = Page {
            width: 48,
            ..Page::default()
        };
        let text = text(&blocks, page);
        let expected = "input <= 5\n\n\
            how sure     3 probes, and a few words more than\n\
            \x20            one line holds\n\
            what to run  5 requests\n\
            \x20            --max-num-seqs=5\n\n\
            \x20 of       GiB\n\
            \x20 weights   15  +- 1\n\
            \x20 a          -  more\n\n\
            points\n  1\n";
        assert!(text.starts_with(&format!("{SIMULATED}\n{expected}")), "{text}");
        assert!(text.ends_with("  12\n  and 2 more with --json"), "{text}");
    }
}
