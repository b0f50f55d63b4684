//! Cuts the seed's SQL into statements.

/// The statements of a text, without what stands between them. It knows comments, quoted texts
/// and names and dollar quotes, which is what the seed has; escape texts (`E'…'`) it does not.
pub(super) fn statements(sql: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < sql.len() {
        let rest = &sql[at..];
        at += if rest.starts_with("--") {
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            if sql[start..at].trim().is_empty() {
                start = at + length;
            }
            length
        } else if rest.starts_with('\'') || rest.starts_with('"') {
            quoted(rest, &rest[..1])
        } else if let Some(tag) = dollar(rest) {
            quoted(rest, tag)
        } else if rest.starts_with(';') {
            statements.push(sql[start..at].trim());
            start = at + 1;
            1
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
    }
    statements.push(sql[start..].trim());
    statements.retain(|statement| !statement.is_empty());
    statements
}

/// The length of a quoted part that begins and ends with `mark`.
fn quoted(text: &str, mark: &str) -> usize {
    let inner = &text[mark.len()..];
    inner.find(mark).map_or(text.len(), |end| end + 2 * mark.len())
}

/// The mark of a dollar quote that begins here.
fn dollar(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('$')?;
    let end = inner.find('$')?;
    let is_tag = inner[..end].chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // `$1` is a parameter.
    (is_tag && !inner.starts_with(|c: char| c.is_ascii_digit())).then(|| &text[..end + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_quotes_and_comments_end_nothing() {
        let sql = "-- one; of it\nSELECT ';', \"a;b\"; -- two;\nSELECT $b$ x; $$ y; $b$, 'it''s;';\n\
            SELECT $1 -- it's\n;;\nlast";
        let found = statements(sql);
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found[0], "SELECT ';', \"a;b\"");
        assert!(found[1].starts_with("SELECT $b$") && found[1].ends_with("'it''s;'"));
        assert!(found[2].starts_with("SELECT $1"));
        assert_eq!(found[3], "last");
    }

    #[test]
    fn an_open_quote_reaches_to_the_end() {
        assert_eq!(statements("a 'b; c").len(), 1);
        assert_eq!(statements("$x$ a; $y$").len(), 1);
        assert_eq!(statements("a $ b; c").len(), 2);
        assert!(statements(" ;\n; -- x").is_empty());
    }
}
