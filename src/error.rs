//! What kinds of failure there are and which exit code each run ends with.
//!
//! Every module owns its error enum; this file holds only what all of them share: the class that
//! decides about retries and exit codes. It is *not* a place for error variants.

/// Whose fault a failure is, and so what may be done about it. Retries look at nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// May go away by itself: a dropped connection, a deadlock, a lock wait.
    Transient,
    /// The user's input is wrong: a task file, an option.
    User,
    /// A server, a machine or its settings do not allow what was asked.
    Lab,
    /// dmbench itself is wrong.
    Bug,
}

/// How the process ends. Where several apply the order is
/// [`Exit::Bug`] > [`Exit::Lab`] > [`Exit::Differs`] > [`Exit::TrialFailed`] > [`Exit::LimitMissed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// A fault of dmbench.
    Bug = 1,
    /// The command line cannot be understood.
    Usage = 2,
    /// A task or lab file is invalid.
    Invalid = 3,
    /// The lab is unreachable or unsuitable.
    Lab = 4,
    /// A trial failed.
    TrialFailed = 5,
    /// Verification found differences between source and target.
    Differs = 6,
    /// A limit stated in the task was missed.
    LimitMissed = 7,
    /// Interrupted by Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// All exits with the sentence that `--help` prints for each.
    pub const ALL: [(Exit, &'static str); 9] = [
        (Exit::Ok, "all went well"),
        (Exit::Bug, "a fault of dmbench itself"),
        (Exit::Usage, "the command line cannot be understood"),
        (Exit::Invalid, "a task or lab file is invalid"),
        (Exit::Lab, "the lab is unreachable or unsuitable"),
        (Exit::TrialFailed, "a trial failed"),
        (Exit::Differs, "verification found differences between source and target"),
        (Exit::LimitMissed, "a limit stated in the task was missed"),
        (Exit::Interrupted, "interrupted by Ctrl-C; what was measured is kept and marked"),
    ];

    /// The worse of two exits, in the order stated on [`Exit`]; an interruption beats all but a bug.
    #[must_use]
    pub fn worse(self, other: Exit) -> Exit {
        const ORDER: [Exit; 9] = [
            Exit::Ok,
            Exit::LimitMissed,
            Exit::TrialFailed,
            Exit::Differs,
            Exit::Lab,
            Exit::Invalid,
            Exit::Usage,
            Exit::Interrupted,
            Exit::Bug,
        ];
        let rank = |exit: Exit| ORDER.iter().position(|&o| o == exit);
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<ErrorClass> for Exit {
    fn from(class: ErrorClass) -> Exit {
        match class {
            ErrorClass::Transient | ErrorClass::Lab => Exit::Lab,
            ErrorClass::User => Exit::Invalid,
            ErrorClass::Bug => Exit::Bug,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_exit_wins_whatever_the_order() {
        for (a, b, worse) in [
            (Exit::Ok, Exit::LimitMissed, Exit::LimitMissed),
            (Exit::TrialFailed, Exit::LimitMissed, Exit::TrialFailed),
            (Exit::Differs, Exit::TrialFailed, Exit::Differs),
            (Exit::Lab, Exit::Differs, Exit::Lab),
            (Exit::Bug, Exit::Lab, Exit::Bug),
        ] {
            assert_eq!(a.worse(b), worse);
            assert_eq!(b.worse(a), worse);
        }
    }
}
