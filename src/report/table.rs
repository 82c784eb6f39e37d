//! Columns of text, each as wide as its widest entry, numbers to the right.

/// Lays rows out below their headings; every line begins with two blanks.
pub(super) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let entries = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|entry| entry.chars().count());
        entries.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |entries: &mut dyn Iterator<Item = &str>| -> String {
        entries
            .zip(&widths)
            .map(|(entry, width)| format!("  {entry:>width$}"))
            .collect()
    };
    let head = line(&mut headings.iter().copied());
    let body = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(head).chain(body).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [
            vec!["8192".to_owned(), "1".to_owned()],
            vec!["64".to_owned(), "4096".to_owned()],
        ];
        assert_eq!(
            table(&["input", "output"], &rows),
            "  input  output\n   8192       1\n     64    4096"
        );
    }
}
