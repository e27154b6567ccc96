//! Cuts SQL text that arrives piece by piece into statements.
//!
//! A statement ends at a semicolon outside quotes and comments. Only the statement at hand is kept
//! in memory. This is not a parser: it knows quotes, backslashes, comments and nothing else.

use memchr::{memchr, memchr2};

/// The longest statement a server can be made to accept (1 GiB).
const LONGEST: usize = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    /// In text that this quote ends; a backslash takes away the meaning of what follows it.
    Text(u8),
    /// In a name in backquotes, where a backslash is nothing special.
    Name,
    /// In `/* … */`.
    Comment,
    /// In `-- …` or `# …`.
    Line,
}

/// A text that ends or goes on where it must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SplitError {
    /// It ends inside a statement.
    #[error("it ends inside a statement")]
    CutOff,
    /// No semicolon within what a server accepts.
    #[error("a statement is longer than 1 GiB")]
    TooLong,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Splitter {
    buffer: Vec<u8>,
    scanned: usize,
    state: State,
}

impl Splitter {
    /// A splitter that has seen nothing.
    pub(super) fn new() -> Splitter {
        Splitter { buffer: Vec::new(), scanned: 0, state: State::Plain }
    }

    /// The buffer to append the next piece to.
    pub(super) fn input(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// The next whole statement without its semicolon and outer white space; `None` when more text
    /// is needed. Empty statements are left out.
    pub(super) fn next_statement(&mut self) -> Result<Option<Vec<u8>>, SplitError> {
        while let Some(end) = self.scan() {
            let rest = self.buffer.split_off(end + 1);
            let mut statement = std::mem::replace(&mut self.buffer, rest);
            self.scanned = 0;
            statement.pop();
            let statement = trim(statement);
            if !statement.is_empty() {
                return Ok(Some(statement));
            }
        }
        if self.buffer.len() > LONGEST { Err(SplitError::TooLong) } else { Ok(None) }
    }

    /// Checks that the text ends behind a statement: a file that was cut off must not pass for a
    /// whole one.
    pub(super) fn finish(self) -> Result<(), SplitError> {
        let blank = matches!(self.state, State::Plain | State::Line)
            && trim(without_line_comments(self.buffer)).is_empty();
        if blank { Ok(()) } else { Err(SplitError::CutOff) }
    }

    /// Moves on to the next semicolon and returns where it is. Stops before a byte whose meaning
    /// depends on one that has not arrived.
    fn scan(&mut self) -> Option<usize> {
        while self.scanned < self.buffer.len() {
            let rest = &self.buffer[self.scanned..];
            match self.state {
                State::Plain => {
                    let Some(skip) = rest.iter().position(|&byte| is_mark(byte)) else {
                        self.scanned = self.buffer.len();
                        return None;
                    };
                    self.scanned += skip;
                    let at = self.scanned;
                    match self.enter(&self.buffer[at..])? {
                        None => {
                            self.scanned = at + 1;
                            return Some(at);
                        }
                        Some((state, length)) => {
                            self.state = state;
                            self.scanned = at + length;
                        }
                    }
                }
                State::Text(quote) => {
                    let Some(skip) = memchr2(quote, b'\\', rest) else {
                        self.scanned = self.buffer.len();
                        return None;
                    };
                    if rest[skip] == quote {
                        self.state = State::Plain;
                        self.scanned += skip + 1;
                    } else if skip + 1 < rest.len() {
                        self.scanned += skip + 2;
                    } else {
                        self.scanned += skip;
                        return None;
                    }
                }
                State::Name => self.leave(memchr(b'`', rest), 1),
                State::Line => self.leave(memchr(b'\n', rest), 1),
                State::Comment => match memchr(b'*', rest) {
                    Some(skip) if skip + 1 == rest.len() => {
                        self.scanned += skip;
                        return None;
                    }
                    Some(skip) if rest[skip + 1] != b'/' => self.scanned += skip + 1,
                    found => self.leave(found, 2),
                },
            }
        }
        None
    }

    /// What begins at a mark: the next state and the bytes that lead into it, `Some(None)` for a
    /// semicolon, `None` when the next byte must be known first.
    fn enter(&self, rest: &[u8]) -> Option<Option<(State, usize)>> {
        Some(match (rest[0], rest.get(1), rest.get(2)) {
            (b';', ..) => None,
            (quote @ (b'\'' | b'"'), ..) => Some((State::Text(quote), 1)),
            (b'`', ..) => Some((State::Name, 1)),
            (b'#', ..) => Some((State::Line, 1)),
            (b'/', Some(b'*'), _) => Some((State::Comment, 2)),
            (b'-', Some(b'-'), Some(space)) if space.is_ascii_whitespace() => {
                Some((State::Line, 2))
            }
            (b'/' | b'-', None, _) | (b'-', Some(b'-'), None) => return None,
            _ => Some((State::Plain, 1)),
        })
    }

    fn leave(&mut self, found: Option<usize>, length: usize) {
        match found {
            Some(skip) => {
                self.state = State::Plain;
                self.scanned += skip + length;
            }
            None => self.scanned = self.buffer.len(),
        }
    }
}

fn is_mark(byte: u8) -> bool {
    matches!(byte, b'\'' | b'"' | b'`' | b';' | b'/' | b'-' | b'#')
}

fn trim(mut text: Vec<u8>) -> Vec<u8> {
    let length = text.trim_ascii_end().len();
    text.truncate(length);
    let skip = length - text.trim_ascii_start().len();
    text.drain(..skip);
    text
}

fn without_line_comments(text: Vec<u8>) -> Vec<u8> {
    let comment = |line: &&[u8]| {
        let line = line.trim_ascii_start();
        line.starts_with(b"-- ") || line.starts_with(b"#") || line == b"--"
    };
    text.split(|&byte| byte == b'\n').filter(|line| !comment(line)).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<String>, Result<(), SplitError>) {
        let mut splitter = Splitter::new();
        let mut statements = Vec::new();
        for piece in pieces {
            splitter.input().extend_from_slice(piece);
            while let Some(statement) = splitter.next_statement().expect("short") {
                statements.push(String::from_utf8_lossy(&statement).into_owned());
            }
        }
        (statements, splitter.finish())
    }

    #[test]
    fn semicolons_in_quotes_and_comments_do_not_end_statements() {
        let text = b"/*!40101 SET NAMES utf8mb4*/;\nINSERT INTO `a;``b` (`c`) VALUES\n\
            ('it''s; \\'; \\\\'),\n(\"x;\\\"\");\n-- one; two\nSELECT 1-- 2;\n;\n/* a;* */ DO 0 #;\n;\n";
        let (statements, end) = split([&text[..]]);
        assert_eq!(
            statements,
            [
                "/*!40101 SET NAMES utf8mb4*/",
                "INSERT INTO `a;``b` (`c`) VALUES\n('it''s; \\'; \\\\'),\n(\"x;\\\"\")",
                "-- one; two\nSELECT 1-- 2;",
                "/* a;* */ DO 0 #;",
            ]
        );
        assert_eq!(end, Ok(()));
    }

    #[test]
    fn a_text_that_is_cut_off_is_told() {
        for text in ["INSERT INTO t VALUES ('a", "SELECT 1", "SELECT 1; /* ", "`a;"] {
            assert_eq!(split([text.as_bytes()]).1, Err(SplitError::CutOff), "{text}");
        }
        for text in ["", "SELECT 1;\n -- end", "# nothing\n\n", "SELECT 1; "] {
            assert_eq!(split([text.as_bytes()]).1, Ok(()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_split_into_reads_gives_the_same_statements(
            text in proptest::collection::vec(
                proptest::sample::select(b"a '\"`\\;\n-/*#(),".to_vec()), 0..80
            ),
            cuts in proptest::collection::vec(0usize..80, 0..6),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
            let bytes = text.chunks(1);
            let whole = split([&text[..]]);
            prop_assert_eq!(&split(pieces), &whole);
            prop_assert_eq!(&split(bytes), &whole);
        }

        #[test]
        fn quoted_rows_come_back_whole(values in proptest::collection::vec(".{0,12}", 1..5)) {
            let quoted: Vec<_> = values
                .iter()
                .map(|v| format!("('{}')", v.replace('\\', "\\\\").replace('\'', "\\'")))
                .collect();
            let statement = format!("INSERT INTO `t` VALUES\n{}", quoted.join(",\n"));
            let text = format!("{statement};\n{statement};\n");
            prop_assert_eq!(split([text.as_bytes()]).0, vec![statement.clone(), statement]);
        }
    }
}
