//! The difference of two pictures, in plain words and without what merely follows from it.

use std::collections::BTreeSet;

use super::{
    Changed,
    snapshot::{Entry, Id, Section, Snapshot},
};
use crate::evidence::How;

/// A line that differs.
pub(in super::super) struct Differs<'a> {
    pub(in super::super) id: &'a Id,
    pub(in super::super) how: How,
    pub(in super::super) before: Option<&'a Entry>,
    pub(in super::super) after: Option<&'a Entry>,
}

/// Every line that differs, in the order of its section.
pub(in super::super) fn lines<'a>(before: &'a Snapshot, after: &'a Snapshot) -> Vec<Differs<'a>> {
    let ids: BTreeSet<&Id> = before.lines.keys().chain(after.lines.keys()).collect();
    ids.into_iter()
        .filter_map(|id| {
            let (before, after) = (before.lines.get(id), after.lines.get(id));
            let how = match (before, after) {
                (None, _) => How::Created,
                (_, None) if id.section == Section::Temporary => return None,
                (_, None) => How::Deleted,
                (Some(before), Some(after)) if before.digest != after.digest => How::Modified,
                (Some(before), Some(after)) if before.versions != after.versions => How::Touched,
                _ => return None,
            };
            Some(Differs { id, how, before, after })
        })
        .collect()
}

/// What changed, for a reader.
pub(super) fn changes(before: &Snapshot, after: &Snapshot) -> Vec<Changed> {
    let lines = lines(before, after);
    let came_or_went = |how| matches!(how, How::Created | How::Deleted);
    let whole: BTreeSet<&str> = lines
        .iter()
        .filter(|line| came_or_went(line.how) && line.id.section != Section::Rows)
        .map(|line| line.id.object.as_str())
        .collect();
    let reshaped: BTreeSet<&str> = lines
        .iter()
        .filter(|line| line.id.section == Section::Column)
        .filter_map(|line| line.after.or(line.before)?.parent.as_deref())
        .collect();
    let follows = |line: &Differs<'_>| {
        let parent = line.after.or(line.before).and_then(|entry| entry.parent.as_deref());
        let Some(parent) = parent else { return false };
        whole.contains(parent)
            || line.id.section == Section::Rows
                && reshaped.contains(parent)
                && line.before.map(count) == line.after.map(count)
    };
    let is_physical = |line: &Differs<'_>| line.id.section == Section::Physical;
    let has_content = lines.iter().any(|line| !is_physical(line));
    let mut seen = BTreeSet::new();
    lines
        .iter()
        .filter(|line| !(follows(line) || has_content && is_physical(line)))
        .filter(|line| seen.insert(&line.id.object))
        .map(|line| Changed { object: line.id.object.clone(), how: line.how })
        .collect()
}

/// The number of rows in a digest of rows.
fn count(entry: &Entry) -> &str {
    entry.digest.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of lines `section, object, parent, digest, versions`.
    fn picture(lines: &[(Section, &str, &str, &str, &str)]) -> Snapshot {
        let lines = lines.iter().map(|(section, object, parent, digest, versions)| {
            let id = Id { section: *section, object: (*object).into(), key: String::new() };
            let entry = Entry {
                parent: (!parent.is_empty()).then(|| (*parent).into()),
                digest: (*digest).into(),
                versions: (*versions).into(),
                undo: None,
                redo: None,
            };
            (id, entry)
        });
        Snapshot { lines: lines.collect() }
    }

    fn found(before: &Snapshot, after: &Snapshot) -> Vec<(String, How)> {
        changes(before, after).into_iter().map(|one| (one.object, one.how)).collect()
    }

    const ROWS: (Section, &str, &str, &str, &str) =
        (Section::Rows, "rows of t", "relation t", "3 77", "x");

    #[test]
    fn rows_are_modified_by_content_and_touched_by_version() {
        let before = picture(&[ROWS]);
        assert!(found(&before, &before).is_empty());
        let touched = picture(&[(ROWS.0, ROWS.1, ROWS.2, "3 77", "y")]);
        assert_eq!(found(&before, &touched), [("rows of t".into(), How::Touched)]);
        let modified = picture(&[(ROWS.0, ROWS.1, ROWS.2, "2 78", "y")]);
        assert_eq!(found(&before, &modified), [("rows of t".into(), How::Modified)]);
    }

    #[test]
    fn a_relation_that_came_or_went_stands_for_its_parts() {
        let without = picture(&[]);
        let with = picture(&[
            (Section::Relation, "relation t", "", "", ""),
            (Section::Column, "column c of t", "relation t", "", ""),
            (Section::Other, "privileges of t", "relation t", "", ""),
            (Section::Physical, "file of table t", "relation t", "1", ""),
            ROWS,
        ]);
        assert_eq!(found(&without, &with), [("relation t".into(), How::Created)]);
        assert_eq!(found(&with, &without), [("relation t".into(), How::Deleted)]);
    }

    #[test]
    fn a_new_column_is_no_change_of_the_rows_and_a_lost_row_beside_it_is() {
        let column = (Section::Column, "column c of t", "relation t", "", "");
        let before = picture(&[ROWS]);
        let after = picture(&[column, (ROWS.0, ROWS.1, ROWS.2, "3 99", "y")]);
        assert_eq!(found(&before, &after), [("column c of t".into(), How::Created)]);
        let after = picture(&[column, (ROWS.0, ROWS.1, ROWS.2, "2 99", "y")]);
        assert_eq!(found(&before, &after).len(), 2);
    }

    #[test]
    fn files_and_statistics_are_named_where_nothing_else_is() {
        let file = (Section::Physical, "file of index i", "", "1", "");
        let moved = (Section::Physical, "file of index i", "", "2", "");
        let before = picture(&[file, ROWS]);
        let after = picture(&[moved, ROWS]);
        assert_eq!(found(&before, &after), [("file of index i".into(), How::Modified)]);
        let after = picture(&[moved, (ROWS.0, ROWS.1, ROWS.2, "0 ", "")]);
        assert_eq!(found(&before, &after), [("rows of t".into(), How::Modified)]);
    }

    #[test]
    fn a_temporary_relation_that_goes_with_its_session_is_no_change() {
        let with = picture(&[(Section::Temporary, "temporary relation x", "", "1", "")]);
        assert_eq!(found(&picture(&[]), &with).len(), 1);
        assert!(found(&with, &picture(&[])).is_empty());
    }

    #[test]
    fn objects_of_the_same_words_are_named_once() {
        let mut after = picture(&[]);
        for key in ["1", "2"] {
            let with = picture(&[(Section::Other, "large object", "", "", "")]);
            after.lines.extend(with.lines.into_iter().map(|(mut id, entry)| {
                id.key = key.into();
                (id, entry)
            }));
        }
        assert_eq!(found(&picture(&[]), &after), [("large object".into(), How::Created)]);
    }
}
