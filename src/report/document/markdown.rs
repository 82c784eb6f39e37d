//! Sections in GitHub Flavored Markdown for a comment on a pull request, within GitHub's size limit: warnings are
//! quotations, long lists and details are folded, foreign text is escaped.

use super::{Block, Fact, List, Section, Weight, readable};
use crate::report::plot::Plot;
use crate::report::sheet::{Entry, Sheet, entry_text};
use crate::report::terminal::shown;

/// Maximum size in bytes: a GitHub comment holds 65,536 characters.
const MOST: usize = 64_000;

/// Beyond this many bytes, only folded rows are added.
const FOLDED: usize = 40_000;

/// Rows of a table before the rest is folded; lists have half as many.
const ROWS: usize = 40;

/// Maximum bytes of a preformatted text: a drawing, or a script's text.
const VERBATIM: usize = 16_000;

/// Maximum characters of a title, an item and a cell, and of a paragraph.
const LONGEST: usize = 400;
const LONGEST_PARAGRAPH: usize = 2000;

/// Length in characters of the beginning of a chart's description, which is looked up in the text above to avoid
/// repeating it.
const BEGINNING: usize = 60;

/// Renders sections below a title, which is one line. No trailing newline.
pub fn markdown(title: &str, sections: &[Section]) -> String {
    let mut page = Markdown(format!("## {}\n", escape(title)));
    // The title need not be repeated.
    let is_new = |text: &String| !repeats(title, text);
    for section in sections {
        let begun = page.0.len();
        page.add(&heading(&section.title));
        let before = page.0.len();
        for block in &section.blocks {
            match block {
                Block::Paragraph(text) if !is_new(text) => {}
                Block::List(list) if list.title.is_empty() => {
                    let items = list.items.iter().filter(|text| is_new(text)).cloned().collect();
                    page.list(&List { items, ..list.clone() }, "");
                }
                block => page.block(block, &section.title),
            }
        }
        // Drop a heading without content.
        if page.0.len() == before {
            page.0.truncate(begun);
        }
    }
    page.0.trim_end().to_owned()
}

/// Whether a title ends with a text, ignoring case and the final full stop.
fn repeats(title: &str, text: &str) -> bool {
    let plain = |text: &str| text.trim().trim_end_matches('.').to_lowercase();
    plain(title).ends_with(&plain(text))
}

fn heading(title: &str) -> String {
    match title {
        "" => String::new(),
        title => format!("\n### {}\n", escape(title)),
    }
}

/// Text that stops growing at `MOST` bytes.
struct Markdown(String);

impl Markdown {
    /// A block of the section called `section`. A title that equals the section's is omitted.
    fn block(&mut self, block: &Block, section: &str) {
        let titled = |title: &str| {
            if title.eq_ignore_ascii_case(section) {
                String::new()
            } else {
                title.to_owned()
            }
        };
        match block {
            Block::Finding(text) => self.add(&format!("\n**{}**\n", paragraph(text))),
            Block::Facts(facts) => self.facts(facts),
            Block::Paragraph(text) => self.add(&format!("\n{}\n", paragraph(text))),
            Block::List(list) => self.list(list, &titled(&list.title)),
            Block::Table(sheet) => self.table(sheet, &titled(&sheet.title)),
            Block::Folded(sheet) => {
                let (head, lines) = table_lines(sheet);
                self.fold(&sheet.title, &head, &lines);
            }
            Block::Figure(plot) => self.figure(plot),
            Block::Sketch(text) | Block::Text(text) => self.verbatim(text),
        }
    }

    fn add(&mut self, text: &str) {
        if self.0.len() + text.len() < MOST {
            self.0.push_str(text);
        }
    }

    fn facts(&mut self, facts: &[Fact]) {
        let mut last = "";
        self.add("\n");
        for fact in facts {
            let is_new = fact.term != last;
            last = &fact.term;
            let term = escape(&fact.term);
            if fact.paste {
                let code = fenced(&fact.text, "sh", "  ");
                self.add(&if is_new { format!("- **{term}**\n{code}") } else { code });
            } else if is_new {
                self.add(&format!("- **{term}**: {}\n", escape(&fact.text)));
            } else {
                self.add(&format!("  - {}\n", escape(&fact.text)));
            }
        }
    }

    /// Unchanged lines, up to `VERBATIM` bytes, and the number of omitted ones.
    fn verbatim(&mut self, text: &str) {
        let mut bytes = 0;
        let lines: Vec<&str> = text
            .lines()
            .take_while(|line| {
                bytes += line.len() + 1;
                bytes <= VERBATIM
            })
            .collect();
        self.add(&fenced(&lines.join("\n"), "text", ""));
        let more = text.lines().count() - lines.len();
        if more > 0 {
            self.add(&format!("\nand {more} more lines in the terminal\n"));
        }
    }

    fn list(&mut self, list: &List, title: &str) {
        let bold = match title {
            "" => String::new(),
            title => format!("**{}**\n", escape(title)),
        };
        if list.weight == Weight::Warning {
            let mut texts = vec![bold];
            texts.retain(|text| !text.is_empty());
            texts.extend(
                list.items
                    .iter()
                    .take(ROWS / 2)
                    .map(|text| format!("**{}**\n", escape(text))),
            );
            let more = list.items.len().saturating_sub(ROWS / 2);
            texts.extend((more > 0).then(|| format!("and {more} more with `--json`\n")));
            return texts.iter().for_each(|text| self.add(&format!("\n> {text}")));
        }
        if list.title.is_empty() {
            let texts = list.items.iter().take(ROWS / 2);
            return texts.for_each(|text| self.add(&format!("\n{}\n", paragraph(text))));
        }
        let items: Vec<String> = list.items.iter().map(|text| format!("- {}\n", escape(text))).collect();
        if list.weight == Weight::Detail {
            return self.fold(title, "", &items);
        }
        let shown = items.len().min(ROWS / 2);
        self.add(&format!("\n{bold}\n{}", items[..shown].concat()));
        self.fold("more of them", "", &items[shown..]);
    }

    /// A table. Rows beyond the limit are folded.
    fn table(&mut self, sheet: &Sheet, title: &str) {
        let (head, lines) = table_lines(sheet);
        let title = match title {
            "" => String::new(),
            title => format!("\n**{}**\n", escape(title)),
        };
        let rows = lines.len().min(ROWS);
        self.add(&format!("{title}\n{head}"));
        self.lines(&lines[..rows], FOLDED);
        self.fold("more of them", &head, &lines[rows..]);
    }

    /// A chart as its description, unless the text above already has it, and as its table.
    fn figure(&mut self, plot: &Plot) {
        let words = paragraph(&plot.alt);
        let beginning: String = words.chars().take(BEGINNING).collect();
        let mut head = if self.0.contains(&beginning) {
            String::new()
        } else {
            format!("{words}\n\n")
        };
        let (columns, lines) = table_lines(&plot.sheet);
        if !lines.is_empty() {
            head.push_str(&columns);
        }
        if !head.is_empty() {
            self.fold_counted(&plot.title, &head, &lines);
        }
    }

    /// Rows or items that are folded, with their number.
    fn fold(&mut self, summary: &str, head: &str, lines: &[String]) {
        if !lines.is_empty() {
            self.fold_counted(&format!("{summary} ({})", lines.len()), head, lines);
        }
    }

    fn fold_counted(&mut self, summary: &str, head: &str, lines: &[String]) {
        const END: &str = "\n</details>\n";
        // Space for the line that counts the omitted rows.
        const SPARE: usize = 200;
        let begin = format!("\n<details>\n<summary>{}</summary>\n\n{head}", html(summary));
        let space = MOST.saturating_sub(END.len() + SPARE);
        let first = lines.first().map_or(0, String::len);
        if self.0.len() + begin.len() + first > space {
            return;
        }
        self.0.push_str(&begin);
        self.lines(lines, space);
        self.0.push_str(END);
    }

    /// Lines up to a total page size of `most` bytes, and the number of omitted ones.
    fn lines(&mut self, lines: &[String], most: usize) {
        let mut bytes = self.0.len();
        let fits = |line: &&String| {
            bytes += line.len();
            bytes <= most
        };
        let fitting = lines.iter().take_while(fits).count();
        self.0.push_str(&lines[..fitting].concat());
        let left = lines.len() - fitting;
        if left > 0 {
            self.0.push_str(&format!("\nand {left} more with `--json`\n"));
        }
    }
}

/// The heading lines of a table and its rows.
fn table_lines(sheet: &Sheet) -> (String, Vec<String>) {
    let sheet = readable(sheet);
    let heads: Vec<Entry> = sheet.columns.iter().map(|name| name.as_str().into()).collect();
    let head = format!("{}|{}\n", row_line(&heads), " --- |".repeat(heads.len()));
    (head, sheet.rows.iter().map(|row| row_line(row)).collect())
}

fn row_line(row: &[Entry]) -> String {
    let cells = row.iter().map(|entry| match entry {
        Entry::None => "-".to_owned(),
        entry => {
            let text = entry_text(entry);
            // Nested components are indented.
            let blanks = text.len() - text.trim_start_matches(' ').len();
            format!("{}{}", "&nbsp;".repeat(blanks), escape(&text))
        }
    });
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// An unchanged text, in a fence longer than any that it contains.
fn fenced(text: &str, language: &str, indent: &str) -> String {
    let text = shown(text, false);
    let ticks = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(ticks.max(2) + 1);
    let lines: String = text.lines().map(|line| format!("{indent}{line}\n")).collect();
    format!("\n{indent}{fence}{language}\n{lines}{indent}{fence}\n")
}

fn escape(text: &str) -> String {
    escaped(text, LONGEST)
}

fn paragraph(text: &str) -> String {
    escaped(text, LONGEST_PARAGRAPH)
}

/// Foreign text within HTML, where backslashes escape nothing.
fn html(text: &str) -> String {
    let text = shown(text, false);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let escaped = line.chars().take(LONGEST).map(|letter| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '@' => "&#64;".to_owned(),
        '#' => "&#35;".to_owned(),
        letter => letter.to_string(),
    });
    escaped.collect()
}

/// Escapes foreign text: no secrets, no markup, one line, no mentions, at most `most` characters.
fn escaped(text: &str, most: usize) -> String {
    // Hide secrets first: they would not be recognised after escaping.
    let text = shown(text, false);
    let mut escaped = String::with_capacity(text.len());
    let mut letters = text.chars().take(most).peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            // It is markup only at the start of a line.
            '>' if escaped.is_empty() => escaped.push_str("&gt;"),
            // Avoids mentions of users and references to issues.
            '@' => escaped.push_str("&#64;"),
            '#' => escaped.push_str("&#35;"),
            '|' | '\\' | '*' | '`' | '[' | ']' | '~' | '$' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            // Harmless within a word.
            '_' if !(before.is_alphanumeric() && letters.peek().is_some_and(|next| next.is_alphanumeric())) => {
                escaped.push_str("\\_")
            }
            letter if letter.is_whitespace() || letter.is_control() => {
                if before != ' ' {
                    escaped.push(' ');
                }
                before = ' ';
                continue;
            }
            letter => escaped.push(letter),
        }
        before = letter;
    }
    if text.chars().count() > most {
        escaped.push('…');
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_never_longer_than_it_may_be() {
        let note = "a note & <its> words, ".repeat(100);
        let sheet = |rows: usize| {
            let row = |index: usize| {
                vec![
                    format!("a case <of> many | words {index}").into(),
                    "x".repeat(300).into(),
                ]
            };
            Sheet::new(["metric", ""], (0..rows).map(row)).titled("metrics")
        };
        for (shown, folded) in [(0, 5000), (5000, 5000), (30, 5000), (3000, 0)] {
            let section = Section {
                title: "metrics".to_owned(),
                blocks: vec![
                    Block::warnings(vec![note.clone(); 500]).unwrap(),
                    Block::Table(sheet(shown)),
                    Block::Folded(sheet(folded)),
                    Block::list("notes", vec![note.clone(); 500], Weight::Detail).unwrap(),
                ],
                ..Section::default()
            };
            let text = markdown("a title", &[section]);
            assert!(text.len() < 65_000, "{}", text.len());
            assert!(text.len() > 30_000, "there is room for more: {}", text.len());
            assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
            assert!(text.contains("more with `--json`"));
        }
    }

    #[test]
    fn the_title_is_not_repeated_and_indents_are_kept() {
        let answer = "input <= 5 fits";
        let items = vec![answer.to_owned(), "more".to_owned()];
        let sheet = Sheet::new(["part"], [vec!["KV cache".into()], vec!["  KV cache in use".into()]]);
        let section = Section::new("", "")
            .with(["Input <= 5 fits.".to_owned()])
            .with(Block::list("", items, Weight::Normal))
            .with([sheet.titled("p99_ttft_*")].map(Block::Folded));
        assert_eq!(
            markdown(answer, &[section]),
            "## input &lt;= 5 fits\n\nmore\n\n<details>\n<summary>p99_ttft_* (2)</summary>\n\n| part |\n| --- |\n\
             | KV cache |\n| &nbsp;&nbsp;KV cache in use |\n\n</details>"
        );
    }

    #[test]
    fn texts_of_others_are_no_markup() {
        assert_eq!(escape("p99_ttft_ms"), "p99_ttft_ms");
        assert_eq!(
            escape("a|b <b>&\n@me #1 [x](y) _z_"),
            "a\\|b &lt;b>&amp; &#64;me &#35;1 \\[x\\](y) \\_z\\_"
        );
        assert_eq!(escape(&"x".repeat(1000)).chars().count(), 401);
        assert_eq!(escape("at http://me:passphrase@host"), "at http://\\*\\*\\*&#64;host");
        assert_eq!(
            html("p99_ttft*  <b>\n@me #1 & it's"),
            "p99_ttft* &lt;b&gt; &#64;me &#35;1 &amp; it's"
        );
        assert_eq!(
            fenced("a ``` b\n````", "sh", "  "),
            "\n  `````sh\n  a ``` b\n  ````\n  `````\n"
        );
    }
}
