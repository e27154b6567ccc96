//! The parent's hold on a pipeline's process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command as Program};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::mysql::Endpoint;
use crate::pipeline::builtin::child::wire::{Command, Failure, Message, Order};
use crate::pipeline::{Context, Error, How, Progress, State, UnitEvent};

/// How long a process may take to end when told to end at once, before it is killed.
const END_GRACE: Duration = Duration::from_secs(5);

/// A running or ended pipeline process. Dropping it kills the process.
#[derive(Debug)]
pub struct Child {
    process_id: u32,
    stdin: Option<ChildStdin>,
    events: mpsc::Receiver<UnitEvent>,
    /// `None` while it runs.
    ended: watch::Receiver<Option<Ended>>,
    kill: CancellationToken,
    /// Holds the process and reads its output.
    _watcher: JoinSet<()>,
}

/// How a process ended.
#[derive(Debug, Clone)]
enum Ended {
    /// It said so itself.
    Told(Option<Failure>),
    /// We killed it.
    Killed,
    /// It was gone.
    Died { status: String, last_words: String },
}

impl Child {
    /// Starts the process in a process group of its own, so that Ctrl-C in a terminal reaches only
    /// the parent, and hands it the order. Its standard error is appended to `pipeline.log` in the
    /// context's folder. `cancel` kills it.
    ///
    /// # Errors
    /// [`Error::Start`], [`Error::Talk`].
    pub async fn start(
        order: Order,
        context: &Context,
        progress: watch::Sender<Progress>,
        cancel: &CancellationToken,
    ) -> Result<Child, Error> {
        let start_error = |source| Error::Start { executable: context.executable.clone(), source };
        let log = context.folder.join("pipeline.log");
        let stderr = open_log(&context.folder, &log).map_err(start_error)?;
        let mut program = Program::new(&context.executable);
        // Secrets come through its standard input; its environment is none of their places.
        for variable in secret_variables(&context.source, &context.target) {
            program.env_remove(variable);
        }
        let mut process = program
            .arg("pipeline")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(start_error)?;
        let process_id = process.id().unwrap_or(0);
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().expect("it was just made a pipe");
        let (event_sender, events) = mpsc::channel(1_000);
        let (ended_sender, ended) = watch::channel(None);
        let kill = cancel.child_token();
        let watcher = Watcher {
            process,
            lines: BufReader::new(stdout).lines(),
            progress,
            events: event_sender,
            log,
        };
        let mut jobs = JoinSet::new();
        let killed = kill.clone();
        jobs.spawn(async move {
            let end = watcher.watch(killed).await;
            ended_sender.send_replace(Some(end));
        });
        let mut child = Child { process_id, stdin, events, ended, kill, _watcher: jobs };
        let mut line = serde_json::to_vec(&order).expect("an order is plain data");
        line.push(b'\n');
        child.write(&line).await?;
        Ok(child)
    }

    /// Lets a held pipeline work.
    ///
    /// # Errors
    /// [`Error::Talk`] when it is gone.
    pub async fn release(&mut self) -> Result<(), Error> {
        self.command(Command::Release).await
    }

    /// Its process id, also after its end.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// The next event of a unit; `None` at the end.
    pub async fn next_event(&mut self) -> Option<UnitEvent> {
        self.events.recv().await
    }

    /// Tells it to end and waits until it has.
    ///
    /// # Errors
    /// When a unit failed or the process died by itself.
    pub async fn stop(&mut self, how: How) -> Result<(), Error> {
        if !self.has_ended() {
            // A process that is about to end by itself may not take the command any more.
            let _ = self.command(Command::Stop { how }).await;
            if how == How::Now {
                let _ = tokio::time::timeout(END_GRACE, self.wait()).await;
                self.kill.cancel();
            }
        }
        match self.wait().await {
            Ended::Told(None) | Ended::Killed => Ok(()),
            Ended::Told(Some(failure)) => {
                Err(Error::Unit { class: failure.class(), text: failure.text })
            }
            Ended::Died { status, last_words } => Err(Error::Died { status, last_words }),
        }
    }

    async fn wait(&mut self) -> Ended {
        let gone =
            || Ended::Died { status: "an unknown status".to_owned(), last_words: String::new() };
        match self.ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_else(gone),
            Err(_) => gone(),
        }
    }

    async fn command(&mut self, command: Command) -> Result<(), Error> {
        let mut line = serde_json::to_vec(&command).expect("a command is plain data");
        line.push(b'\n');
        self.write(&line).await
    }

    async fn write(&mut self, line: &[u8]) -> Result<(), Error> {
        let Some(stdin) = &mut self.stdin else {
            return Err(Error::State { action: "talk to the pipeline", state: "gone" });
        };
        stdin.write_all(line).await.map_err(|source| Error::Talk { source })?;
        stdin.flush().await.map_err(|source| Error::Talk { source })
    }
}

/// Names of environment variables that hold a password of an end.
fn secret_variables(source: &Endpoint, target: &Endpoint) -> Vec<OsString> {
    let secrets = [source, target].map(|end| end.password.expose());
    let holds =
        |value: &OsString| secrets.iter().any(|secret| !secret.is_empty() && value == secret);
    std::env::vars_os().filter(|(_, value)| holds(value)).map(|(name, _)| name).collect()
}

fn open_log(folder: &Path, log: &Path) -> std::io::Result<std::fs::File> {
    std::fs::create_dir_all(folder)?;
    std::fs::OpenOptions::new().create(true).append(true).open(log)
}

/// The last line of a log that calls itself an error, else the last line; long ones are cut.
fn last_words(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let lines = || text.lines().rev().filter(|line| !line.trim().is_empty());
    let line = lines().find(|line| line.starts_with("error: ")).or_else(|| lines().next());
    line.unwrap_or_default().chars().take(300).collect()
}

/// The parent's reader: owns the process until it has ended.
struct Watcher {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
    progress: watch::Sender<Progress>,
    events: mpsc::Sender<UnitEvent>,
    log: PathBuf,
}

impl Watcher {
    async fn watch(mut self, kill: CancellationToken) -> Ended {
        let told = tokio::select! {
            told = self.read() => told,
            () = kill.cancelled() => {
                let _ = self.process.start_kill();
                let _ = self.process.wait().await;
                self.progress.send_modify(|p| p.state = State::Finished);
                return Ended::Killed;
            }
        };
        let status = tokio::select! {
            status = self.process.wait() => status,
            () = kill.cancelled() => {
                let _ = self.process.start_kill();
                self.process.wait().await
            }
        };
        if let Some(failure) = told {
            return Ended::Told(failure);
        }
        let status = status.map_or_else(|e| e.to_string(), |status| status.to_string());
        let last_words = last_words(&self.log);
        let died = Error::Died { status: status.clone(), last_words: last_words.clone() };
        self.progress.send_modify(|p| {
            p.state = State::Failed;
            p.error = Some(died.to_string());
        });
        Ended::Died { status, last_words }
    }

    /// Takes in all lines. `None` when they ended without the last word.
    async fn read(&mut self) -> Option<Option<Failure>> {
        while let Ok(Some(line)) = self.lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(Message::Progress(progress)) => {
                    self.progress.send_replace(*progress);
                }
                Ok(Message::Event(event)) => {
                    // A handful of events per process; the room is far larger.
                    if self.events.try_send(*event).is_err() {
                        tracing::warn!("an event of the pipeline was not taken");
                    }
                }
                Ok(Message::Ended { failure }) => {
                    if let Some(failure) = &failure {
                        self.progress.send_modify(|p| {
                            p.state = State::Failed;
                            p.error = Some(failure.text.clone());
                        });
                    }
                    return Some(failure);
                }
                Err(error) => tracing::warn!("passed over a line of the pipeline: {error}"),
            }
        }
        None
    }
}
