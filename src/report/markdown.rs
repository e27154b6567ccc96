//! A document as Markdown (GitHub's dialect), for `report.md`.

use super::document::{Block, Chart, Column, Document, Span, Style, Table};
use crate::record::{Finding, Level};

/// Cells of a bar in a chart.
const BAR: usize = 40;

/// The document, ending with a line feed.
pub fn render(document: &Document) -> String {
    let mut out = format!("# {}\n", escaped(&document.title));
    blocks(&document.lead, &mut out);
    for section in &document.sections {
        let marks = "#".repeat(usize::from(section.level) + 1);
        out.push_str(&format!("\n{marks} {}\n", escaped(&section.heading)));
        blocks(&section.blocks, &mut out);
    }
    out
}

fn blocks(blocks: &[Block], out: &mut String) {
    let mut after_finding = false;
    for block in blocks {
        let is_finding = matches!(block, Block::Finding(_));
        // Findings follow one another as one list.
        if !(is_finding && after_finding) {
            out.push('\n');
        }
        after_finding = is_finding;
        match block {
            Block::Paragraph(spans) => {
                spans.iter().for_each(|span| out.push_str(&inline(span)));
                out.push('\n');
            }
            Block::Facts(facts) => {
                for (name, value) in facts {
                    out.push_str(&format!("- **{}**: {}\n", escaped(name), escaped(value)));
                }
            }
            Block::Table(table) => out.push_str(&self::table(table)),
            Block::Chart(chart) => out.push_str(&self::chart(chart)),
            Block::Finding(finding) => out.push_str(&self::finding(finding)),
            Block::Code { language, text } => {
                out.push_str(&format!("```{language}\n{text}```\n"));
            }
        }
    }
}

fn inline(span: &Span) -> String {
    // Marks must touch the text, so blanks at its ends stay outside.
    let text = span.text.trim();
    let (before, after) = span.text.split_once(text).unwrap_or(("", ""));
    let body = match span.style {
        _ if text.is_empty() => return span.text.clone(),
        Style::Plain => escaped(text),
        Style::Strong => format!("**{}**", escaped(text)),
        Style::Mark => format!("*{}*", escaped(text)),
        Style::Name => format!("`{text}`"),
    };
    format!("{before}{body}{after}")
}

fn table(table: &Table) -> String {
    let mut out = String::new();
    if !table.caption.is_empty() {
        out.push_str(&format!("{}:\n\n", escaped(&table.caption)));
    }
    let heads: Vec<String> = table.columns.iter().map(|c| cell(&head(c))).collect();
    out.push_str(&format!("| {} |\n", heads.join(" | ")));
    let rules: Vec<&str> =
        table.columns.iter().map(|c| if c.numeric { "---:" } else { "---" }).collect();
    out.push_str(&format!("| {} |\n", rules.join(" | ")));
    for row in &table.rows {
        let cells: Vec<String> = row
            .cells
            .iter()
            .enumerate()
            .map(|(i, text)| {
                let text = cell(text);
                if row.picked && i < table.keys { format!("**{text}**") } else { text }
            })
            .collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    if !table.notes.is_empty() {
        out.push('\n');
    }
    for note in &table.notes {
        out.push_str(&format!("- {}\n", escaped(note)));
    }
    out
}

/// `lag by markers: p50, ms`.
fn head(column: &Column) -> String {
    let mut head = match (column.group.is_empty(), column.head.is_empty()) {
        (true, _) => column.head.clone(),
        (false, true) => column.group.clone(),
        (false, false) => format!("{}: {}", column.group, column.head),
    };
    if !column.unit.is_empty() {
        head.push_str(&format!(", {}", column.unit));
    }
    head
}

fn chart(chart: &Chart) -> String {
    let label = chart.bars.iter().map(|b| b.label.chars().count()).max().unwrap_or(0);
    let mut out = format!("```text\n{}\n", chart.caption);
    for bar in &chart.bars {
        let full = (bar.share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
        let mark = if bar.picked { "  ◂ pick" } else { "" };
        out.push_str(&format!(
            "{:label$}  {:BAR$}  {}{mark}\n",
            bar.label,
            "█".repeat(full),
            bar.text
        ));
    }
    out.push_str("```\n");
    out
}

fn finding(finding: &Finding) -> String {
    let level = match finding.level {
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Error => "**error**",
    };
    let mut line =
        format!("- {level} `{}`: {}", finding.code, escaped(finding.text.trim_end_matches('.')));
    if !finding.evidence.is_empty() {
        line.push_str(&format!(" ({})", escaped(&finding.evidence)));
    }
    if !line.ends_with('.') {
        line.push('.');
    }
    if !finding.hint.is_empty() {
        line.push_str(&format!(" → {}", escaped(&finding.hint)));
    }
    line.push('\n');
    line
}

/// Text whose marks mean themselves. Words in backticks stay code; an underscore within a word is no
/// mark.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    let mut in_word = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let within = in_word && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '`' => in_code = !in_code,
            '_' if !in_code && !within => out.push('\\'),
            '*' | '<' | '\\' | '~' | '#' if !in_code => out.push('\\'),
            _ => {}
        }
        in_word = c.is_alphanumeric();
        out.push(if c == '\n' { ' ' } else { c });
    }
    out
}

fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_in_text_mean_themselves() {
        assert_eq!(escaped("Com_* <b> `a_b`"), "Com\\_\\* \\<b> `a_b`");
        assert_eq!(escaped("oltp_insert _x_"), "oltp_insert \\_x\\_");
        assert_eq!(cell("a|b\nc"), "a\\|b c");
        let span = Span::new(Style::Strong, "Pick: x ");
        assert_eq!(inline(&span), "**Pick: x** ");
        assert_eq!(inline(&Span::new(Style::Mark, " ")), " ");
    }
}
