//! A password asked for on the terminal, which shows nothing of it.

use std::fs::File;
use std::io::{self, Read, Write as _};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use crate::error::ErrorClass;
use crate::mysql::Secret;

/// Why there is no password. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no terminal, or it did not give one.
    #[error("ask for the password of {of} on the terminal: {source}")]
    Terminal {
        /// Whose password.
        of: String,
        /// What the system says.
        source: io::Error,
    },
    /// Ctrl-C or Ctrl-D instead of a password.
    #[error("ask for the password of {of}: interrupted")]
    Interrupted {
        /// Whose password.
        of: String,
    },
}

impl Error {
    /// What to do about it.
    pub const HELP: &str =
        "where nobody can type, name an environment variable or a file that holds it";

    /// What may be done about it: the user's to mend.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::User
    }
}

/// Asks on the process's own terminal, whatever standard input is. Blocks until there is an answer.
///
/// # Errors
/// When there is no terminal, or no password was typed.
pub fn password(of: &str) -> Result<Secret, Error> {
    let broken = |source| Error::Terminal { of: of.to_owned(), source };
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").map_err(broken)?;
    let silence = Silence::begin(&terminal).map_err(broken)?;
    write!(&terminal, "password of {of}: ").map_err(broken)?;
    let typed = typed(&mut &terminal);
    drop(silence);
    // The line break that was typed was not shown either.
    writeln!(terminal).map_err(broken)?;
    let typed = typed.map_err(broken)?.ok_or_else(|| Error::Interrupted { of: of.to_owned() })?;
    let text = String::from_utf8(typed);
    text.map(Secret::new).map_err(|_| broken(io::Error::other("what was typed is no UTF-8")))
}

/// A terminal that shows nothing of what is typed and hands on each key, until this is dropped.
struct Silence<'t> {
    terminal: &'t File,
    before: Termios,
}

impl Silence<'_> {
    fn begin(terminal: &File) -> io::Result<Silence<'_>> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        // Without ISIG Ctrl-C comes as a key: a signal would leave the terminal silent.
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Silence { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        // Whoever reads from a terminal that is gone is told so.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// What is typed until the line ends; `None` for Ctrl-C, and for Ctrl-D ahead of everything.
fn typed(keys: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut typed: Vec<u8> = Vec::new();
    loop {
        let mut key = [0];
        keys.read_exact(&mut key)?;
        match key[0] {
            b'\n' | b'\r' => return Ok(Some(typed)),
            3 => return Ok(None),
            4 => return Ok((!typed.is_empty()).then_some(typed)),
            // Backspace takes a whole character.
            8 | 127 => while typed.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {},
            21 => typed.clear(),
            key => typed.push(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_a_password() {
        let of = |keys: &[u8]| typed(&mut &*keys).map_err(|error| error.kind());
        assert_eq!(of(b"p@ s\\\rx"), Ok(Some(b"p@ s\\".to_vec())));
        assert_eq!(of("ab\u{e9}\u{7f}c\n".as_bytes()), Ok(Some(b"abc".to_vec())));
        assert_eq!(of(b"\x7f\n"), Ok(Some(Vec::new())), "nothing to take back");
        assert_eq!(of(b"wrong\x15right\n"), Ok(Some(b"right".to_vec())));
        assert_eq!((of(b"abc\x03\n"), of(b"\x04")), (Ok(None), Ok(None)));
        assert_eq!(of(b"a\x04"), Ok(Some(b"a".to_vec())));
        assert_eq!(of(b"abc"), Err(io::ErrorKind::UnexpectedEof), "a terminal that is gone");
    }
}
