//! Finds what a scenario wants searched: commits, pieces of files, what is known of them.

use super::error::refusal;
use crate::model::{Choices, Known, Make, Place, Source, Text, Thing, What};
use crate::packages::{self, Difference, Fault, Kind, Manager, Parts, Pip, Recipe, Wanted};
use crate::prepare::{self, Line};
use crate::scenario::{Ask, Refusal, Scenario, Searched};
use crate::source::{self, Grain};
use crate::store::{self, Folder, default_root};
use crate::term;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Environments that are made at once, unless told: to install is mostly to wait.
const MAKERS: u32 = 2;

/// Returns what is searched; nothing where the scenario says all of it.
pub(super) fn searched(scenario: &Scenario, base: &Path) -> Result<Option<Searched>, Refusal> {
    let folder = base.join(scenario.cwd.as_deref().unwrap_or(Path::new("")));
    let pieces = [
        ("imports", &scenario.imports, Grain::Imports),
        ("statements", &scenario.statements, Grain::Statements),
        ("lines", &scenario.lines, Grain::Lines),
    ];
    let pieces = pieces.into_iter().find(|(_, files, _)| !files.is_empty());
    let found = match (scenario.ask, pieces) {
        (Some(Ask::Bisect), _) => in_order(scenario, base, &folder)?,
        (Some(Ask::Reduce), Some((field, files, grain))) => {
            Some(of_sources(field, files, grain, base, &folder)?)
        }
        (Some(Ask::Reduce), None) => match (&scenario.files, &scenario.from, &scenario.to) {
            (Some(files), ..) => Some(of_files(&base.join(files), &folder)?),
            (None, Some(from), Some(to)) => {
                Some(of_differences(scenario, [from, to], base, &folder)?)
            }
            (None, Some(_), None) | (None, None, Some(_)) => {
                return Err(refuse(
                    "from",
                    "there is only one environment",
                    "give the one that does not fail as `from`, and the one that does as `to`",
                ));
            }
            (None, None, None) => None,
        },
        _ => None,
    };
    Ok(found)
}

fn refuse(field: &str, what: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal {
        what: what.into(),
        at: vec![field.to_owned()],
        hint: hint.into(),
    }
}

/// Returns the places of an ordered list, with what is known of them.
fn in_order(scenario: &Scenario, base: &Path, folder: &Path) -> Result<Option<Searched>, Refusal> {
    let packages = [
        ("pip", &scenario.pip, Manager::Pip),
        ("cargo", &scenario.cargo, Manager::Cargo),
        ("apt", &scenario.apt, Manager::Apt),
        ("npm", &scenario.npm, Manager::Npm),
    ];
    let mut packages = packages
        .into_iter()
        .filter_map(|(field, spec, manager)| Some((field, spec.as_ref()?, manager)));
    let (mut searched, sizes) = match (&scenario.git, packages.next()) {
        (Some(range), _) => {
            let line = prepare::line(folder, range, scenario.prior.is_some()).map_err(refusal)?;
            commits(scenario, line, folder)
        }
        (None, Some((field, spec, manager))) => (
            versions(scenario, field, spec, manager, base, folder)?,
            Vec::new(),
        ),
        (None, None) if scenario.image.is_some() => (images(scenario)?, Vec::new()),
        (None, None) if scenario.prior.is_some() || scenario.log.is_some() => {
            (Searched::from(scenario.places()?), Vec::new())
        }
        (None, None) => return Ok(None),
    };
    let places: BTreeMap<String, usize> = searched
        .choices
        .places()
        .iter()
        .enumerate()
        .map(|(index, place)| (place.name.clone(), index))
        .collect();
    match scenario.prior.as_deref() {
        None => {}
        Some("size") if !sizes.is_empty() => searched.weights = sizes,
        Some("size") => {
            let hint = "name a file with a place and a weight on each line";
            return Err(refuse("prior", "only commits have a size", hint));
        }
        Some(file) => searched.weights = weights(&base.join(file), &places)?,
    }
    if let Some(log) = &scenario.log {
        searched.known = known(&base.join(log), &places)?;
    }
    Ok(Some(searched))
}

/// Returns the commits of a history, and how much each changes.
fn commits(scenario: &Scenario, line: Line, folder: &Path) -> (Searched, Vec<u64>) {
    if line.commits.iter().any(|commit| commit.merges) {
        term::say(
            "note: a merge is one step here; if one is found, --git \"$(git merge-base M^1 M^2)..M^2\" searches what it merged",
        );
    }
    if line.has_submodules {
        term::say(
            "note: submodules are not checked out; --build 'git submodule update --init' does that",
        );
    }
    let sizes = line.commits.iter().map(|commit| commit.lines + 1).collect();
    let place = |commit: prepare::Commit| Place {
        name: commit.name,
        about: Some(commit.subject),
    };
    let places = line.commits.into_iter().map(place).collect();
    let cwd = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let make = prepare::work_tree(&line.root, &cwd, scenario.build.as_deref());
    let searched = Searched {
        make: Some(make),
        repository: Some(line.root.as_path().into()),
        moved: Some((line.root, "{made}".to_owned())),
        ..Searched::from(Choices::Places(places))
    };
    (searched, sizes)
}

/// Puts why a package tool has no answer into the words of a scenario.
fn faulty(field: &str, fault: &Fault) -> Refusal {
    let why = std::error::Error::source(fault).map_or(String::new(), |why| format!(": {why}"));
    refuse(field, format!("{fault}{why}"), fault.hint())
}

/// Returns the versions of a package.
fn versions(
    scenario: &Scenario,
    field: &str,
    spec: &str,
    manager: Manager,
    base: &Path,
    folder: &Path,
) -> Result<Searched, Refusal> {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| base.join(path));
    let (requirements, constraints) = (path(&scenario.requirements), path(&scenario.constraints));
    let wanted = Wanted {
        manager,
        spec,
        folder,
        env: &[],
        requirements: requirements.as_deref(),
        constraints: constraints.as_deref(),
        python: scenario.python.as_deref(),
        build: scenario.build.as_deref(),
    };
    let found = packages::versions(&wanted).map_err(|fault| faulty(field, &fault))?;
    for note in &found.notes {
        term::say(&format!("note: {note}"));
    }
    let place = |name: String| Place { name, about: None };
    let places = found.versions.into_iter().map(place).collect();
    Ok(in_environments(
        found.recipe,
        Choices::Places(places),
        folder,
    ))
}

/// Returns the tags of an image, each tried in a container of its own for every trial.
fn images(scenario: &Scenario) -> Result<Searched, Refusal> {
    let said = scenario.image.as_deref().unwrap_or_default();
    let Some((image, tags)) = said.rsplit_once(':').filter(|(image, _)| !image.is_empty()) else {
        let hint = "write IMAGE:TAG,TAG,TAG, such as app:1.0,1.1,1.2";
        return Err(refuse("image", format!("`{said}` names no tags"), hint));
    };
    let answers = |engine: &&str| {
        let mut command = std::process::Command::new(engine);
        let said = command.args(["image", "ls", "-q"]).output();
        said.is_ok_and(|said| said.status.success())
    };
    let Some(engine) = ["docker", "podman"].into_iter().find(answers) else {
        let hint = "`docker image ls` must work for you";
        return Err(refuse("image", "no container engine answers", hint));
    };
    let place = |tag: &str| Place {
        name: tag.to_owned(),
        about: None,
    };
    // By the trial's seed its container is known again, also where the engine lives on and the
    // trial does not.
    let name = "provoke-{seed}";
    let image = format!("{image}:{{variant}}");
    let numbers = ["TRIAL", "SEED", "VARIANT"];
    let numbers = numbers.map(|name| ["-e".to_owned(), format!("PROVOKE_{name}")]);
    let run = [
        engine,
        "run",
        "--rm",
        "--init",
        "--network=none",
        "--pull=never",
        "--name",
        name,
    ];
    let run = run.into_iter().map(str::to_owned);
    let wrap = run.chain(numbers.into_iter().flatten()).chain([image]);
    Ok(Searched {
        wrap: wrap.collect(),
        conclude: Some(format!(
            "{engine} rm --force --volumes provoke-\"$PROVOKE_SEED\" >/dev/null 2>&1 || :"
        )),
        ..Searched::from(Choices::Places(tags.split(',').map(place).collect()))
    })
}

/// Says that each variant has an environment of its own.
fn in_environments(recipe: Recipe, choices: Choices, folder: &Path) -> Searched {
    let cwd = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    Searched {
        make: Some(Make {
            folder: "".into(),
            copy: None,
            script: Some(recipe.script.into()),
            cwd: cwd.as_path().into(),
            shared: recipe.shared,
        }),
        moved: recipe.cwd.map(|to| (cwd, format!("{{made}}/{to}"))),
        path: recipe.path,
        env: recipe.env,
        makers: Some(MAKERS),
        ..Searched::from(choices)
    }
}

/// Returns what one environment has otherwise than another.
fn of_differences(
    scenario: &Scenario,
    ends: [&Path; 2],
    base: &Path,
    folder: &Path,
) -> Result<Searched, Refusal> {
    let files = ends.map(|end| base.join(end));
    let found = match ends.map(|end| variables_of(end, base)) {
        [Some(old), Some(new)] => packages::compare(Kind::Variables, old, new),
        _ => {
            let [from, to] = &files;
            packages::differences(from, to).map_err(|fault| faulty("from", &fault))?
        }
    };
    let text = |text: &Option<String>| text.as_ref().map(Text::from);
    let thing = |one: &Difference| {
        let (from, to) = (text(&one.from), text(&one.to));
        let what = match found.kind {
            Kind::Packages => What::Text(to, from),
            Kind::Variables => What::Variable(one.name.as_str().into(), to, from),
        };
        Thing {
            name: difference(found.kind, one),
            at: None,
            what,
        }
    };
    let things = Choices::Things(found.differences.iter().map(thing).collect());
    if found.kind == Kind::Variables {
        let env = found.common.into_iter();
        return Ok(Searched {
            env: env.collect(),
            ..Searched::from(things)
        });
    }
    let wanted = Wanted {
        manager: Manager::Pip,
        spec: "",
        folder,
        env: &[],
        requirements: None,
        constraints: None,
        python: scenario.python.as_deref(),
        build: None,
    };
    let pip = Pip::find(&wanted).map_err(|fault| faulty("from", &fault))?;
    let lines = found.common.into_iter().map(|(_, line)| line);
    let lines: Vec<String> = lines.chain(["{lines}".to_owned()]).collect();
    Ok(in_environments(pip.environment(&lines), things, folder))
}

/// Returns the environment of a run, where that is what was named, and not a file.
fn variables_of(name: &Path, base: &Path) -> Option<Parts> {
    if base.join(name).is_file() {
        return None;
    }
    let folder = Folder::find(name.to_str()?, &default_root()).ok()?;
    let state = store::read(&folder.journal(), |_| false, |_, _| {}).ok()?;
    let mut all: Parts = BTreeMap::new();
    let text = |text: &Text| text.as_os_str().to_str().map(str::to_owned);
    for (name, value) in &state.plan.environment {
        all.insert(text(name)?, text(value)?);
    }
    let mains = state
        .plan
        .variants
        .iter()
        .flat_map(|variant| &variant.actors);
    for (name, value) in mains.take(1).flat_map(|main| &main.env) {
        match value {
            Some(value) => all.insert(text(name)?, text(value)?),
            None => all.remove(&text(name)?),
        };
    }
    Some(all)
}

/// Returns what a difference is called: `numpy 1.16 to 1.21`.
fn difference(kind: Kind, one: &Difference) -> String {
    let said = |text: &String| match kind {
        Kind::Packages => {
            let version = text.strip_prefix(&one.name);
            version.unwrap_or(text).trim_start_matches('=').to_owned()
        }
        Kind::Variables => text.clone(),
    };
    let name = &one.name;
    match (one.from.as_ref().map(said), one.to.as_ref().map(said)) {
        (Some(from), Some(to)) => format!("{name} {from} -> {to}"),
        (None, Some(to)) => format!("{name} {to}"),
        (_, None) => format!("no {name}"),
    }
}

/// Reads a file of lines that each begin with the name of a place.
fn lines_of<'a, T>(
    field: &str,
    file: &Path,
    text: &'a str,
    places: &BTreeMap<String, usize>,
    read: impl Fn(&[&'a str]) -> Option<(&'a str, T)>,
    wanted: &str,
) -> Result<Vec<(usize, T)>, Refusal> {
    let said = (1..)
        .zip(text.lines())
        .map(|(n, line)| (n, line, line.split('#').next().unwrap_or("").trim()));
    let mut all = Vec::new();
    for (number, line, said) in said.filter(|(_, _, said)| !said.is_empty()) {
        let words: Vec<&str> = said.split_whitespace().collect();
        let here = format!("{}:{number}: `{}`", file.display(), line.trim_end());
        let Some((name, value)) = read(&words) else {
            return Err(refuse(field, format!("{here} is not understood"), wanted));
        };
        let Some(place) = places.get(name) else {
            let what = format!("{here} names `{name}`, which is not searched");
            return Err(refuse(
                field,
                what,
                "leave the line out, or search a longer list",
            ));
        };
        all.push((*place, value));
    }
    Ok(all)
}

fn read(field: &str, file: &Path) -> Result<String, Refusal> {
    fs::read_to_string(file).map_err(|error| {
        let what = format!("cannot read `{}`: {error}", file.display());
        refuse(field, what, "name a file of text")
    })
}

/// Reads how likely each place is the first that fails. What is not named is as likely as the
/// least of those that are.
fn weights(file: &Path, places: &BTreeMap<String, usize>) -> Result<Vec<u64>, Refusal> {
    let text = read("prior", file)?;
    let wanted = "write a place and a whole number above 0 on each line: `v1.2 10`";
    let said = lines_of("prior", file, &text, places, weight, wanted)?;
    let least = said.iter().map(|(_, weight)| *weight).min();
    let mut weights = vec![u64::from(least.unwrap_or(1)); places.len()];
    for (place, weight) in said {
        weights[place] = u64::from(weight);
    }
    Ok(weights)
}

/// Reads what an earlier search found out, as its log says it.
fn known(file: &Path, places: &BTreeMap<String, usize>) -> Result<Vec<Known>, Refusal> {
    let text = read("log", file)?;
    let wanted =
        "write `bad PLACE 3/10` (3 failures in 10 trials), `good PLACE 0/20` or `skip PLACE`";
    let said = lines_of("log", file, &text, places, counts, wanted)?;
    let known = said.into_iter().map(|(place, counts)| Known {
        place: u32::try_from(place).unwrap_or(u32::MAX),
        counts,
    });
    Ok(known.collect())
}

fn weight<'a>(words: &[&'a str]) -> Option<(&'a str, u32)> {
    match words {
        [name, weight] => Some((name, weight.parse().ok().filter(|weight| *weight > 0)?)),
        _ => None,
    }
}

fn counts<'a>(words: &[&'a str]) -> Option<(&'a str, Option<(u64, u64)>)> {
    match words {
        ["skip", name, ..] => Some((name, None)),
        ["good" | "bad", name, counts, ..] => {
            let (failures, trials) = counts.split_once('/')?;
            let (failures, trials) = (failures.parse().ok()?, trials.parse().ok()?);
            (failures <= trials).then_some((name, Some((failures, trials))))
        }
        _ => None,
    }
}

/// Says that variants run in copies of a folder.
fn copies_of(field: &str, folder: &Path) -> Result<(PathBuf, Make), Refusal> {
    let root = fs::canonicalize(folder).map_err(|error| {
        let what = format!("cannot work in `{}`: {error}", folder.display());
        refuse("cwd", what, "say another with --cwd")
    })?;
    prepare::weigh(&root)
        .map_err(refusal)
        .map_err(|refusal| Refusal {
            at: vec![field.to_owned()],
            ..refusal
        })?;
    let make = Make {
        folder: "".into(),
        copy: Some(root.as_path().into()),
        script: None,
        cwd: root.as_path().into(),
        shared: false,
    };
    Ok((root, make))
}

fn in_copies(root: PathBuf, make: Make, things: Vec<Thing>, sources: Vec<Source>) -> Searched {
    Searched {
        sources,
        make: Some(make),
        moved: Some((root, "{made}".to_owned())),
        ..Searched::from(Choices::Things(things))
    }
}

/// Returns the path of a file as it stands below the folder that is copied.
fn below(field: &str, root: &Path, file: &Path) -> Result<PathBuf, Refusal> {
    let real = fs::canonicalize(file).map_err(|error| {
        let what = format!("cannot read `{}`: {error}", file.display());
        refuse(field, what, "name a file that is there")
    })?;
    let inside = real.strip_prefix(root).map(Path::to_owned);
    inside.map_err(|_| {
        let what = format!("`{}` does not lie in `{}`", file.display(), root.display());
        refuse(field, what, "run in a folder that holds it: only that one is copied, and the file itself is never changed")
    })
}

/// Returns the pieces of files.
fn of_sources(
    field: &str,
    files: &[PathBuf],
    grain: Grain,
    base: &Path,
    folder: &Path,
) -> Result<Searched, Refusal> {
    let (root, make) = copies_of(field, folder)?;
    let (mut things, mut sources) = (Vec::new(), Vec::new());
    for (number, said) in (0..).zip(files) {
        let file = base.join(said);
        let inside = below(field, &root, &file)?;
        let text = fs::read(&file).map_err(|error| {
            let what = format!("cannot read `{}`: {error}", file.display());
            refuse(field, what, "name a file that can be read")
        })?;
        let pieces = source::pieces(&file, &text, grain).map_err(|fault| {
            let place = match &fault {
                source::Fault::Syntax { line, column, .. } => {
                    format!("{}:{line}:{column}", said.display())
                }
                _ => said.display().to_string(),
            };
            refuse(field, format!("{place}: {fault}"), fault.hint())
        })?;
        for (index, piece) in (0..).zip(&pieces.pieces) {
            let at = match files {
                [_] => format!("line {}", piece.line),
                _ => format!("{}:{}", said.display(), piece.line),
            };
            things.push(Thing {
                name: piece.text.clone(),
                at: Some(at),
                what: What::Piece(number, index),
            });
        }
        sources.push(Source {
            file: inside.as_path().into(),
            digest: Text::from(OsStr::from_bytes(&text)).digest(),
            pieces,
        });
    }
    Ok(in_copies(root, make, things, sources))
}

/// Returns the files of a folder.
fn of_files(files: &Path, folder: &Path) -> Result<Searched, Refusal> {
    let (root, make) = copies_of("files", folder)?;
    let top = below("files", &root, files)?;
    let all = prepare::files(&root.join(&top)).map_err(refusal)?;
    let thing = |file: PathBuf| Thing {
        name: file.display().to_string(),
        at: None,
        what: What::File(Text::from(top.join(&file).as_path())),
    };
    Ok(in_copies(
        root,
        make,
        all.into_iter().map(thing).collect(),
        Vec::new(),
    ))
}
