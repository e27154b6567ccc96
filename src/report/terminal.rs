//! A document for a terminal of a given width, coloured if asked.
//!
//! Tables that are too wide are cut into several, one below the other, that repeat the columns which
//! say which row it is: numbers are never wrapped or dropped. Text is wrapped at 100 columns at most.

use unicode_width::UnicodeWidthStr as _;

use super::document::{Block, Chart, Document, Span, Style};
use super::grid;
use crate::record::{Finding, Level};

/// Narrowest width that is honoured.
const NARROWEST: usize = 60;
/// Widest line of running text.
const WIDEST_TEXT: usize = 100;
/// Longest bar of a chart.
const LONGEST_BAR: usize = 50;

const BOLD: &str = "1";
const YELLOW: &str = "33";
const RED: &str = "31";
const CYAN: &str = "36";
const DIM: &str = "2";

/// The document as lines of at most `width` columns, ending with a line feed. `color` adds ANSI
/// styles.
pub fn render(document: &Document, width: u16, color: bool) -> String {
    let mut page = Page { width: usize::from(width).max(NARROWEST), color, out: String::new() };
    page.heading(&document.title, 0);
    page.blocks(&document.lead);
    for section in &document.sections {
        page.heading(&section.heading, section.level);
        page.blocks(&section.blocks);
    }
    page.out
}

struct Page {
    width: usize,
    color: bool,
    out: String,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn text_width(&self) -> usize {
        self.width.min(WIDEST_TEXT)
    }

    fn heading(&mut self, text: &str, level: u8) {
        let line = match level {
            0 => text.to_owned(),
            1 => {
                let rest = self.text_width().saturating_sub(text.width() + 4);
                format!("━━ {text} {}", "━".repeat(rest))
            }
            _ => format!("── {text}"),
        };
        if level > 0 {
            self.line("");
        }
        let line = self.styled(BOLD, &line);
        self.line(&line);
    }

    fn blocks(&mut self, blocks: &[Block]) {
        let mut after_finding = false;
        for block in blocks {
            let is_finding = matches!(block, Block::Finding(_));
            if !(is_finding && after_finding) {
                self.line("");
            }
            after_finding = is_finding;
            match block {
                Block::Paragraph(spans) => self.paragraph(spans, ""),
                Block::Facts(facts) => self.facts(facts),
                Block::Table(table) => {
                    for line in grid::lines(table, self.width) {
                        let line = match line {
                            grid::Line::Head(text) => self.styled(BOLD, &text),
                            grid::Line::Picked(text) => self.styled(BOLD, &text),
                            grid::Line::Rule(text) => self.styled(DIM, &text),
                            grid::Line::Row(text) => text,
                            grid::Line::Caption(text) => {
                                self.paragraph(&[Span::new(Style::Strong, text)], "");
                                continue;
                            }
                            grid::Line::Note(text) => {
                                self.paragraph(&[Span::new(Style::Plain, text)], "  ");
                                continue;
                            }
                        };
                        self.line(&line);
                    }
                }
                Block::Chart(chart) => self.chart(chart),
                Block::Finding(finding) => self.finding(finding),
                Block::Code { text, .. } => {
                    text.lines().for_each(|line| self.line(line));
                }
            }
        }
    }

    fn facts(&mut self, facts: &[(String, String)]) {
        let widest = facts.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        for (name, value) in facts {
            let pad = " ".repeat(widest - name.width() + 2);
            let head = format!("{}{pad}", self.styled(DIM, name));
            self.hanging(&head, widest + 2, &[Span::new(Style::Plain, value.clone())]);
        }
    }

    fn finding(&mut self, finding: &Finding) {
        let (word, code) = match finding.level {
            Level::Note => ("note", CYAN),
            Level::Warning => ("warning", YELLOW),
            Level::Error => ("error", RED),
        };
        let head = format!("{}{}", self.styled(code, word), " ".repeat(9 - word.len()));
        let mut spans = vec![
            Span::new(Style::Name, finding.code.clone()),
            Span::new(Style::Plain, format!(": {}", finding.text.trim_end_matches('.'))),
        ];
        if !finding.evidence.is_empty() {
            spans.push(Span::new(Style::Plain, format!(" ({})", finding.evidence)));
        }
        self.hanging(&head, 9, &spans);
        if !finding.hint.is_empty() {
            let hint = format!("→ {}", finding.hint);
            self.paragraph(&[Span::new(Style::Plain, hint)], "         ");
        }
    }

    fn chart(&mut self, chart: &Chart) {
        self.line(&chart.caption);
        let label = chart.bars.iter().map(|b| b.label.width()).max().unwrap_or(0);
        let text = chart.bars.iter().map(|b| b.text.width()).max().unwrap_or(0);
        let room = self.width.saturating_sub(label + text + 6).clamp(8, LONGEST_BAR);
        for bar in &chart.bars {
            let length = bar.share.clamp(0.0, 1.0) * room as f64;
            let full = "█".repeat(length as usize);
            let part = ["", "▎", "▌", "▊"][(length.fract() * 4.0) as usize % 4];
            let mark = if bar.picked { "▸ " } else { "  " };
            let pad = " ".repeat(label - bar.label.width());
            let line = format!("{mark}{}{pad}  {full}{part} {}", bar.label, bar.text);
            let line = if bar.picked { self.styled(BOLD, &line) } else { line };
            self.line(&line);
        }
    }

    fn paragraph(&mut self, spans: &[Span], indent: &str) {
        self.hanging(indent, indent.width(), spans);
    }

    /// Wraps `spans` after `head`, which takes `indent` columns; further lines are indented by as
    /// many.
    fn hanging(&mut self, head: &str, indent: usize, spans: &[Span]) {
        let room = self.text_width().saturating_sub(indent).max(16);
        let mut line = head.to_owned();
        let mut used = 0;
        for (word, style, glued) in words(spans, !self.color) {
            let shown = word;
            let gap = usize::from(used > 0 && !glued);
            if used > 0 && used + gap + shown.width() > room && !glued {
                self.line(&line);
                line = " ".repeat(indent);
                used = 0;
            } else if gap > 0 {
                line.push(' ');
                used += 1;
            }
            used += shown.width();
            line.push_str(&match style {
                Style::Plain => shown,
                Style::Strong => self.styled(BOLD, &shown),
                Style::Mark => self.styled(YELLOW, &shown),
                Style::Name => self.styled(CYAN, &shown),
            });
        }
        self.line(&line);
    }
}

/// Words with their style, and whether a word touches the one before it. `marked` puts reservations
/// between asterisks, for want of colour.
fn words(spans: &[Span], marked: bool) -> Vec<(String, Style, bool)> {
    let mut words = Vec::new();
    let mut open = false;
    for span in spans {
        let starts_glued = open && !span.text.starts_with(char::is_whitespace);
        let text = match span.style {
            Style::Mark if marked => format!("*{}*", span.text.trim()),
            _ => span.text.clone(),
        };
        for (i, word) in text.split_whitespace().enumerate() {
            words.push((word.to_owned(), span.style, i == 0 && starts_glued));
        }
        if !span.text.is_empty() {
            open = !span.text.ends_with(char::is_whitespace);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(width: usize, color: bool) -> Page {
        Page { width, color, out: String::new() }
    }

    #[test]
    fn a_paragraph_wraps_at_the_width_and_marks_reservations() {
        let mut page = page(41, false);
        let spans = [
            Span::new(Style::Strong, "Pick: sync.worker-count = 8"),
            Span::new(Style::Plain, " "),
            Span::new(Style::Mark, "indicative"),
            Span::new(Style::Plain, ", because of this and that."),
        ];
        page.paragraph(&spans, "");
        assert_eq!(
            page.out,
            "Pick: sync.worker-count = 8 *indicative*,\nbecause of this and that.\n"
        );
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        let span = [Span::new(Style::Strong, "x")];
        let (mut plain, mut coloured) = (page(80, false), page(80, true));
        plain.paragraph(&span, "");
        coloured.paragraph(&span, "");
        assert_eq!(plain.out, "x\n");
        assert_eq!(coloured.out, "\u{1b}[1mx\u{1b}[0m\n");
    }
}
