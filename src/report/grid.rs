//! A table as lines of text: comfy-table lays out the cells, this cuts what is too wide.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};
use unicode_width::UnicodeWidthStr as _;

use super::document::Table;

/// Blanks between columns.
const GAP: usize = 2;
/// Narrowest that a column of words is made before the table is cut.
const NARROW_WORDS: usize = 18;
/// Narrowest that a column of words is made at all.
const NARROWEST_WORDS: usize = 8;

/// A line and what it is, so that the caller can style it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Caption(String),
    Head(String),
    Rule(String),
    Row(String),
    Picked(String),
    Note(String),
}

/// The table in at most `width` columns.
pub(super) fn lines(table: &Table, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    if !table.caption.is_empty() {
        lines.push(Line::Caption(table.caption.clone()));
    }
    let widths = natural_widths(table);
    for (i, part) in parts(table, &widths, width).into_iter().enumerate() {
        if i > 0 {
            lines.push(Line::Row(String::new()));
        }
        part_lines(table, &part, &widths, width, &mut lines);
    }
    lines.extend(table.notes.iter().cloned().map(Line::Note));
    lines
}

fn natural_widths(table: &Table) -> Vec<usize> {
    (0..table.columns.len())
        .map(|i| {
            let column = &table.columns[i];
            let cells = table.rows.iter().filter_map(|r| r.cells.get(i)).map(|c| c.width());
            cells.max().unwrap_or(0).max(column.head.width()).max(column.unit.width())
        })
        .collect()
}

/// Room that the mark of the pick takes.
fn mark_width(table: &Table) -> usize {
    if table.rows.iter().any(|r| r.picked) { 2 } else { 0 }
}

/// Which columns stand together: all, or the key columns with as many others as fit. Columns of one
/// group stay together where that is possible.
fn parts(table: &Table, widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let keys: Vec<usize> = (0..table.keys.min(widths.len())).collect();
    let of = |columns: &[usize]| total(table, &wanted(table, columns, &shrunk(table, widths)));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut part = keys.clone();
    for group in groups(table) {
        let fits = |part: &[usize], more: &[usize]| of(&[part, more].concat()) <= width;
        if fits(&part, &group) {
            part.extend(group);
            continue;
        }
        if part.len() > keys.len() {
            parts.push(std::mem::replace(&mut part, keys.clone()));
        }
        for column in group {
            if !fits(&part, &[column]) && part.len() > keys.len() {
                parts.push(std::mem::replace(&mut part, keys.clone()));
            }
            part.push(column);
        }
    }
    if part.len() > keys.len() || parts.is_empty() {
        parts.push(part);
    }
    parts
}

/// Widths if words are wrapped as far as is bearable.
fn shrunk(table: &Table, widths: &[usize]) -> Vec<usize> {
    let words = |i: usize| !table.columns[i].numeric && i >= table.keys;
    let bearable = |i: usize| widths[i].min(NARROW_WORDS.max(table.columns[i].head.width()));
    (0..widths.len()).map(|i| if words(i) { bearable(i) } else { widths[i] }).collect()
}

/// Widths of a part's columns, wide enough for the heads of groups.
fn wanted(table: &Table, part: &[usize], widths: &[usize]) -> Vec<usize> {
    let mut wanted: Vec<usize> = part.iter().map(|&i| widths[i].max(1)).collect();
    for span in spans(table, part) {
        let has: usize = wanted[span.clone()].iter().sum::<usize>() + GAP * (span.len() - 1);
        let needs = table.columns[part[span.start]].group.width();
        wanted[span.start] += needs.saturating_sub(has);
    }
    wanted
}

/// Width of a line of columns of these widths.
fn total(table: &Table, widths: &[usize]) -> usize {
    widths.iter().map(|w| w + GAP).sum::<usize>().saturating_sub(GAP) + mark_width(table)
}

/// Columns after the keys, those of one group together; each of no group alone.
fn groups(table: &Table) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in table.keys.min(table.columns.len())..table.columns.len() {
        let group = &table.columns[i].group;
        match groups.last_mut() {
            Some(last) if !group.is_empty() && table.columns[last[0]].group == *group => {
                last.push(i)
            }
            _ => groups.push(vec![i]),
        }
    }
    groups
}

fn part_lines(
    table: &Table,
    part: &[usize],
    widths: &[usize],
    width: usize,
    lines: &mut Vec<Line>,
) {
    let widths = fitted(table, part, widths, width);
    let marked = mark_width(table) > 0;
    let mut grid = comfy_table::Table::new();
    grid.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let aligned = |text: &str, column: usize| {
        let side =
            if table.columns[column].numeric { CellAlignment::Right } else { CellAlignment::Left };
        Cell::new(text).set_alignment(side)
    };
    let with_mark = |mark: &str, cells: Vec<Cell>| {
        let mark = marked.then(|| Cell::new(mark));
        mark.into_iter().chain(cells).collect::<Vec<Cell>>()
    };
    let of_columns = |text: fn(&super::document::Column) -> &str| {
        with_mark("", part.iter().map(|&i| aligned(text(&table.columns[i]), i)).collect())
    };
    let units = part.iter().any(|&i| !table.columns[i].unit.is_empty());
    grid.add_row(of_columns(|c| &c.head));
    if units {
        grid.add_row(of_columns(|c| &c.unit));
    }
    for row in &table.rows {
        let cells = part.iter().map(|&i| aligned(row.cells.get(i).map_or("", String::as_str), i));
        grid.add_row(with_mark(if row.picked { "▸" } else { "" }, cells.collect()));
    }
    size_columns(&mut grid, &widths, marked);
    let mut rendered = grid.lines();
    let head_lines = 1 + usize::from(units);
    lines.extend(group_line(table, part, &widths, marked).map(Line::Head));
    lines.extend(rendered.by_ref().take(head_lines).map(|l| Line::Head(l.trim_end().to_owned())));
    lines.push(Line::Rule("─".repeat(total(table, &widths).min(width))));
    let mut picked = false;
    for line in rendered {
        let line = line.trim_end().to_owned();
        // Further lines of a wrapped row start with blanks where the first has the mark or a key.
        picked = line.starts_with('▸')
            || (picked && line.starts_with("   ") && wraps(table, part, &widths));
        lines.push(if picked { Line::Picked(line) } else { Line::Row(line) });
    }
}

fn wraps(table: &Table, part: &[usize], widths: &[usize]) -> bool {
    part.iter()
        .zip(widths)
        .any(|(&i, &w)| table.rows.iter().any(|r| r.cells.get(i).is_some_and(|c| c.width() > w)))
}

/// Sets the width of each column of cells; the padding to the right is the gap.
fn size_columns(grid: &mut comfy_table::Table, widths: &[usize], marked: bool) {
    let all = marked.then_some((1, 1)).into_iter().chain(widths.iter().map(|&w| (w, GAP)));
    for (i, (width, gap)) in all.enumerate() {
        if let Some(column) = grid.column_mut(i) {
            column.set_padding((0, gap as u16));
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed((width + gap) as u16)));
        }
    }
}

/// Widths of a part's columns: as wanted where they fit, else columns of words are narrowed.
fn fitted(table: &Table, part: &[usize], widths: &[usize], width: usize) -> Vec<usize> {
    let mut fitted = wanted(table, part, widths);
    while total(table, &fitted) > width {
        let widest = (0..part.len())
            .filter(|&at| !table.columns[part[at]].numeric && fitted[at] > NARROWEST_WORDS)
            .max_by_key(|&at| fitted[at]);
        let Some(widest) = widest else { break };
        fitted[widest] -= 1;
    }
    fitted
}

/// Ranges of neighbouring columns of one group within a part.
fn spans(table: &Table, part: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut spans: Vec<std::ops::Range<usize>> = Vec::new();
    for at in 0..part.len() {
        let group = &table.columns[part[at]].group;
        match spans.last_mut() {
            Some(last) if !group.is_empty() && table.columns[part[last.start]].group == *group => {
                last.end = at + 1;
            }
            _ => spans.push(at..at + 1),
        }
    }
    spans
}

/// The line above the heads that names groups; `None` where there are none.
fn group_line(table: &Table, part: &[usize], widths: &[usize], marked: bool) -> Option<String> {
    let mut line = String::new();
    let mut any = false;
    let mut at_column = if marked { 2 } else { 0 };
    for span in spans(table, part) {
        let room = widths[span.clone()].iter().sum::<usize>() + GAP * (span.len() - 1);
        let name = &table.columns[part[span.start]].group;
        if !name.is_empty() {
            any = true;
            // Over the heads, which stand to the right; a line leads from its first column to it.
            let lead = room.saturating_sub(name.width() + 1);
            let lead = if span.len() > 1 && lead > 1 {
                format!("{} ", "┄".repeat(lead))
            } else {
                " ".repeat(room.saturating_sub(name.width()))
            };
            line.push_str(&" ".repeat(at_column - line.width()));
            line.push_str(&lead);
            line.push_str(name);
        }
        at_column += room + GAP;
    }
    any.then_some(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::document::{Column, Row};
    use super::*;

    fn table(columns: usize, rows: usize, keys: usize, long: usize) -> Table {
        let column = |i: usize| Column {
            group: if i % 3 == 1 { "a longer group".to_owned() } else { String::new() },
            head: format!("head{i}"),
            unit: if i.is_multiple_of(2) { "ms".to_owned() } else { String::new() },
            numeric: i != columns - 1,
        };
        let row = |r: usize| Row {
            cells: (0..columns)
                .map(|c| {
                    if c == columns - 1 { "word ".repeat(long) } else { format!("{}", r * 100 + c) }
                })
                .collect(),
            picked: r == 1,
        };
        Table {
            caption: "caption".to_owned(),
            columns: (0..columns).map(column).collect(),
            keys,
            rows: (0..rows).map(row).collect(),
            notes: vec!["note".to_owned()],
        }
    }

    fn text(line: &Line) -> &str {
        match line {
            Line::Head(t)
            | Line::Rule(t)
            | Line::Caption(t)
            | Line::Row(t)
            | Line::Picked(t)
            | Line::Note(t) => t,
        }
    }

    #[test]
    fn a_wide_table_is_cut_and_its_keys_are_repeated() {
        let lines = lines(&table(12, 3, 1, 1), 40);
        let heads = lines.iter().filter(|l| matches!(l, Line::Head(t) if t.contains("head0")));
        assert!(heads.count() > 1);
        assert_eq!(lines.iter().filter(|l| matches!(l, Line::Note(_))).count(), 1);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_page(
            columns in 2..14_usize, rows in 1..5_usize, long in 0..40_usize, width in 40..200_usize,
        ) {
            let table = table(columns, rows, 1, long);
            for line in lines(&table, width) {
                prop_assert!(text(&line).width() <= width, "{:?}", line);
            }
        }

        #[test]
        fn every_number_is_shown(columns in 2..14_usize, width in 40..200_usize) {
            let table = table(columns, 3, 1, 1);
            let all: Vec<String> = lines(&table, width).iter().map(|l| text(l).to_owned()).collect();
            let all = all.join("\n");
            for cell in table.rows.iter().flat_map(|r| &r.cells[..columns - 1]) {
                prop_assert!(all.split_whitespace().any(|w| w == cell), "{cell} is lost in\n{all}");
            }
        }
    }
}
