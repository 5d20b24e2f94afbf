//! Prepares the conditions of the processes of one trial: its variables, its directories and the steps of their start.

use super::give_to_trial;
use super::wire::VariantRecipe;
use provoke_levers::{CwdCopy, InputKind, TerminalStreams, TrialStart};
use provoke_model::{Text, Trial};
use provoke_sys::files;
use provoke_sys::private_folder::PrivateFolder;
use provoke_sys::start_step::{PreparedSteps, StartStep};
use provoke_sys::terminal::open_terminal;
use provoke_sys::tool;
use provoke_words::untrusted::Untrusted as _;
use rustix::pipe::PipeFlags;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Directory of a trial for a copy of the working directory. Test runners that search tests below the working
/// directory skip hidden directories, so they do not find those of a copy.
const FOLDER: &str = ".conditions";
/// Columns of a terminal.
const COLUMNS: u16 = 80;
/// Time limit for the copy of a working directory.
const COPY_WITHIN: Duration = Duration::from_secs(60);

/// The conditions of the processes of one trial.
pub(super) struct TrialSetup {
    /// Variables that are set or removed, over all others.
    pub(super) variables: Vec<(OsString, Option<OsString>)>,
    pub(super) steps: PreparedSteps,
    /// Contains the directories that variables name. Its path is short: those of Unix sockets may have 107 bytes.
    pub(super) folders: Option<PrivateFolder>,
    /// A working directory, and its copy.
    copied_cwd: Option<(PathBuf, PathBuf)>,
}

/// The streams of a process: the ends of provoke, and those of the process.
pub(super) struct Streams {
    pub(super) stdin: Option<OwnedFd>,
    /// The other end of stdin, which stays open.
    pub(super) input: Option<OwnedFd>,
    pub(super) stdout: (OwnedFd, OwnedFd),
    pub(super) stderr: (OwnedFd, OwnedFd),
}

impl TrialSetup {
    /// Creates the directories of a trial, and prepares the steps of its processes.
    pub(super) fn prepare(recipe: &VariantRecipe, trial: &Trial) -> io::Result<Self> {
        let start = &recipe.start;
        let variables = start.variables.iter();
        let mut variables: Vec<(OsString, Option<OsString>)> = variables
            .map(|(name, value)| (name.into(), value.as_ref().map(OsString::from)))
            .collect();
        let mut steps = Vec::new();
        if start.steps.contains(&StartStep::MakeCwdReadOnly)
            && let Some(trials) = &recipe.evidence
        {
            let trials = Path::new(trials.as_os_str());
            files::create_folders(trials)?;
            steps.push(StartStep::KeepWritable(trials.to_owned()));
        }
        let mut folders = None;
        if !start.folders.is_empty() {
            let parent = PrivateFolder::new("trial")?;
            files::let_through(parent.path())?;
            for folder in &start.folders {
                let (path, step) = folder.create_in(parent.path())?;
                give_to_trial(recipe, &path)?;
                steps.extend(step);
                variables.push((OsString::from(&folder.variable), Some(path.into())));
            }
            folders = Some(parent);
        }
        steps.extend(start.steps.iter().cloned());
        if start.terminal.is_some() {
            steps.push(StartStep::TakeTerminal);
        }
        let copied_cwd = match &recipe.cwd_snapshot {
            Some((cwd, snapshot)) if start.cwd_copy.is_some() && is_cwd(recipe, cwd) => {
                let cwd = PathBuf::from(cwd.as_os_str());
                let name = cwd.file_name().unwrap_or(OsStr::new("root"));
                let parent = folder_of(recipe, trial)?;
                let copy = match start.cwd_copy {
                    Some(CwdCopy::InSpace) => parent.join("with spaces").join(name),
                    _ => parent.join(name),
                };
                copy_folder(Path::new(snapshot.as_os_str()), &copy)?;
                Some((cwd, copy))
            }
            _ if start.cwd_copy.is_some() => {
                return Err(io::Error::other(
                    "the working directory was not copied before the first trial",
                ));
            }
            _ => None,
        };
        Ok(Self {
            variables,
            steps: PreparedSteps::new(&steps, trial.slot.index())?,
            folders,
            copied_cwd,
        })
    }

    /// Returns the working directory of a process in this trial.
    pub(super) fn cwd_of<'a>(&'a self, planned: &'a Path) -> &'a Path {
        match &self.copied_cwd {
            Some((cwd, copy)) if cwd == planned => copy,
            _ => planned,
        }
    }
}

/// Removes the copy of the working directory.
pub(super) fn remove_copied_cwd(recipe: &VariantRecipe, trial: &Trial) {
    if recipe.start.cwd_copy.is_some()
        && let Ok(folder) = folder_of(recipe, trial)
    {
        let _ = files::remove_tree(&folder);
        // The folder of the trial may contain evidence.
        let _ = folder.parent().map(files::remove_empty_folder);
    }
}

/// Returns whether the main process of a recipe has this working directory.
fn is_cwd(recipe: &VariantRecipe, cwd: &Text) -> bool {
    let main = recipe.variant.main_actor();
    main.is_some_and(|main| main.cwd == *cwd)
}

fn folder_of(recipe: &VariantRecipe, trial: &Trial) -> io::Result<PathBuf> {
    let trials = recipe.evidence.as_ref();
    let trials = trials.ok_or_else(|| io::Error::other("the run has no directory"))?;
    let folder = Path::new(trials.as_os_str()).join(trial.id.0.to_string());
    Ok(folder.join(FOLDER))
}

/// Copies a directory with the modes, the times and the owners of its files.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    let _ = files::remove_tree(to);
    files::create_folders(to.parent().unwrap_or(to))?;
    let arguments = [OsStr::new("-a"), from.as_os_str(), to.as_os_str()];
    let deadline = Instant::now() + COPY_WITHIN;
    tool::run_program(Path::new("cp"), &arguments, deadline, 0)
        .map(drop)
        .map_err(|error| io::Error::other(format!("cannot copy `{}`: {error}", from.to_safe())))
}

impl Streams {
    /// Opens the streams of a process of a trial.
    pub(super) fn open(start: &TrialStart) -> io::Result<Self> {
        let terminal = || open_terminal(start.columns.unwrap_or(COLUMNS));
        let (stdout, stderr) = match start.terminal {
            None => (open_pipe()?, open_pipe()?),
            Some(TerminalStreams::Stdout) => (terminal()?, open_pipe()?),
            // Two terminals keep the streams apart.
            Some(TerminalStreams::All) => (terminal()?, terminal()?),
        };
        let (stdin, input) = match (start.input, start.terminal) {
            (Some(InputKind::Empty), _) => (Some(open_pipe()?.0), None),
            (_, Some(TerminalStreams::All)) => (Some(stdout.1.try_clone()?), None),
            (Some(InputKind::Terminal), _) => {
                let (input, stdin) = terminal()?;
                (Some(stdin), Some(input))
            }
            (None, _) => (None, None),
        };
        for end in [&stdout.0, &stderr.0] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Self {
            stdin,
            input,
            stdout,
            stderr,
        })
    }
}

fn open_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| io::Error::other(format!("cannot create a pipe: {error}")))
}
