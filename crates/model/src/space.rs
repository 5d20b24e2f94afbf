//! Space of a search: the candidates or items from which variants are chosen.

use super::{
    EditPlan, FileChange, LoadLimit, LoadPlan, RequestBody, SourceParts, Text, VariantPlan,
    is_default,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Name of the trials without any condition that a search or a comparison adds.
pub const PLAIN: &str = "plain";

/// The candidates or items from which a search chooses its variants. A variant is prepared only after it was chosen,
/// because most are never chosen, and a set has too many subsets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchSpace {
    /// Common part of all variants; marks such as `{variant}` in it are filled in.
    pub template: VariantPlan,
    /// The candidates or items.
    pub choices: VariantChoices,
    /// Source files of which pieces are left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sources: Vec<ReducedSource>,
    /// Counts of candidates from an earlier search.
    #[serde(default, skip_serializing_if = "is_default")]
    pub known: Vec<CandidateFacts>,
    /// Weight of each candidate as the first that fails; empty for equal weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weights: Vec<u64>,
    /// Whether the result is applied to the user's own files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub apply: bool,
    /// A repository in the directory of the run that borrows the objects of the user's repository: each commit is
    /// checked out from it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repository: Option<Text>,
    /// Whether the search stops at a merge instead of searching the merged commits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_parent: bool,
    /// The merge that an earlier search found; the candidates are the merged commits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub merge: Option<Candidate>,
    /// The searched part of a history in which the failure comes and goes.
    #[serde(default, skip_serializing_if = "is_default")]
    #[serde(rename = "stretch")]
    pub section: Option<AlternatingSection>,
    /// Number of variants that are prepared at the same time, in parallel with the trials.
    #[serde(rename = "makers")]
    pub parallel_builds: u32,
    /// Disk budget in bytes for the directories of variants; the oldest is evicted first.
    pub room: u64,
}

/// A section of a longer list in which the failure comes and goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AlternatingSection {
    /// Offset in the longer list.
    pub from: u32,
    /// Number of trials of the bad end after which the search gives up reproducing the failure.
    pub reproduce: u64,
    /// Sections that are searched after this one.
    pub next: Vec<UnsearchedSection>,
    /// Boundaries that earlier searches found.
    pub found: Vec<Boundary>,
}

/// A section of a list that is not yet searched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnsearchedSection {
    /// Offset in the whole list.
    pub from: u32,
    /// Its candidates, the good end first.
    pub places: Vec<Candidate>,
    /// Whether the section is in reverse order of the list.
    pub fixed: bool,
    /// Number of clean trials that is enough for a candidate between the ends, if neither end is known to fail.
    pub agree: Option<u64>,
}

/// Two neighbours in a list, one bad and one good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Boundary {
    /// The position of the second one in the list, from 0.
    pub place: u64,
    /// The bad one; several if those between them are not testable.
    pub fails: Vec<String>,
    /// The good one.
    pub passes: String,
    /// True if the failures begin there, false if they end there.
    pub begins: bool,
}

/// The set of possible choices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariantChoices {
    /// An ordered list of candidates, of which the first is good and the last one bad.
    #[serde(rename = "places")]
    Candidates(Vec<Candidate>),
    /// Any subset of these items.
    #[serde(rename = "things")]
    Items(Vec<Item>),
}

/// A candidate of an ordered list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Description, if the name is not one: the subject of a commit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub about: Option<String>,
}

/// An item that can be left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Location, such as `app.py:14`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: Option<String>,
    /// How to leave it out.
    pub what: ItemKind,
}

/// How an item is kept or left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// An argument of the command, by its index.
    Word(u32),
    /// A text in `{set}` and `{lines}`: the first if the item is kept, the second if it is left out.
    Text(Option<Text>, Option<Text>),
    /// An environment variable: its value if the item is kept, and if it is left out.
    Variable(Text, Option<Text>, Option<Text>),
    /// A piece of a source: the indices of both.
    Piece(u32, u32),
    /// A file in the working directory.
    File(Text),
    /// A kind of request of the load, or one of the files of its bodies: the indices of both.
    Request(u32, Option<u32>),
    /// A condition of trials. The search begins without any.
    Condition(SearchedCondition),
}

/// A condition of trials in a search for those that matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchedCondition {
    /// Name of the lever.
    pub lever: String,
    /// Its value, as it is stored.
    pub value: String,
    /// Name of the conditions with a common cause.
    pub family: String,
    /// Why it is in the search.
    pub role: ConditionRole,
}

/// Why a condition is in a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionRole {
    /// It is tried.
    Tried,
    /// It is tried, but not together with others, because many programs fail under it.
    Harsh,
    /// It does the same to a trial as others of its lever, except for what they are about.
    Sham,
    /// It is milder than one that is tried.
    Step,
    /// It is one of several seeds, of which each may have its own outcome.
    Seed,
}

/// A source file of which pieces are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReducedSource {
    /// Path relative to the working directory.
    pub file: Text,
    /// Digest of its text; if the text has changed, the pieces are no longer valid.
    pub digest: String,
    /// The pieces.
    pub pieces: SourceParts,
}

/// Facts about a candidate before the first trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateFacts {
    /// The candidate.
    pub place: u32,
    /// Failures and trials; `None` if the candidate is not testable.
    pub counts: Option<(u64, u64)>,
}

/// A choice from a space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariantChoice {
    /// This candidate of the list.
    Place(u32),
    /// Keep these items and leave out the others.
    Set(Subset),
}

/// A subset of the items, in ascending order; in JSON a string such as `0-12,17`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subset(pub Vec<u32>);

/// How the directory of a variant is prepared before its first trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparation {
    /// The directory, which replaces `{made}`; in a template, the parent of all these directories.
    pub folder: Text,
    /// Directory that is copied first; then the edits of the variant are applied.
    #[serde(default, skip_serializing_if = "is_default")]
    pub copy: Option<Text>,
    /// A script for `sh -c`; `PROVOKE_MADE` contains the directory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub script: Option<Text>,
    /// Working directory of the script.
    pub cwd: Text,
    /// Files that the script creates in the directory: variants with identical files are one candidate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub artifacts: Vec<Text>,
    /// Whether the result depends on the script alone, so that other runs can use it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: bool,
}

impl SearchSpace {
    /// Returns the number of candidates or items.
    pub fn len(&self) -> usize {
        match &self.choices {
            VariantChoices::Candidates(candidates) => candidates.len(),
            VariantChoices::Items(items) => items.len(),
        }
    }

    /// Returns whether the space is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the choice with which the search begins, which fails: the bad end, or all items. A search for conditions
    /// begins without any.
    pub fn first_choice(&self) -> VariantChoice {
        let count = u32::try_from(self.len()).unwrap_or(u32::MAX);
        match &self.choices {
            VariantChoices::Candidates(_) => VariantChoice::Place(count.saturating_sub(1)),
            VariantChoices::Items(items) => {
                let is_kept = |item: &Item| !matches!(item.what, ItemKind::Condition(..));
                let kept = (0..count).zip(items).filter(|(_, item)| is_kept(item));
                VariantChoice::Set(Subset(kept.map(|(index, _)| index).collect()))
            }
        }
    }

    /// Returns whether the space contains this choice.
    pub fn has_choice(&self, choice: &VariantChoice) -> bool {
        let is_in_range = |index: &u32| (*index as usize) < self.len();
        match (&self.choices, choice) {
            (VariantChoices::Candidates(_), VariantChoice::Place(index)) => is_in_range(index),
            (VariantChoices::Items(_), VariantChoice::Set(Subset(kept_items))) => {
                kept_items.iter().all(is_in_range) && kept_items.is_sorted_by(|a, b| a < b)
            }
            _ => false,
        }
    }

    /// Returns whether the variants of a plan are choices from this space, of which the first is the failing one; only
    /// a damaged file contains a plan whose variants are not.
    pub(super) fn fits_variants(&self, variants: &[VariantPlan]) -> bool {
        let fewest = match self.choices {
            VariantChoices::Candidates(_) => 2,
            VariantChoices::Items(_) => 1,
        };
        let first_choice = self.first_choice();
        let choice_fits = |choice: &VariantChoice| self.has_choice(choice);
        let variant_fits = |variant: &VariantPlan| {
            variant.setting.is_some() || variant.choice.as_ref().is_some_and(choice_fits)
        };
        self.len() >= fewest
            && choice_fits(&first_choice)
            && variants.iter().all(variant_fits)
            && variants.first().and_then(|first| first.choice.as_ref()) == Some(&first_choice)
            && self
                .known
                .iter()
                .all(|facts| (facts.place as usize) < self.len())
            && (self.weights.is_empty() || self.weights.len() == self.len())
    }

    /// Returns the variant of a choice.
    pub fn variant_of_choice(&self, choice: &VariantChoice) -> VariantPlan {
        let mut variant = self.template.clone();
        variant.choice = Some(choice.clone());
        match (&self.choices, choice) {
            (VariantChoices::Candidates(candidates), VariantChoice::Place(index)) => {
                if let Some(candidate) = candidates.get(*index as usize) {
                    variant.name.clone_from(&candidate.name);
                    variant.about.clone_from(&candidate.about);
                }
                let name = Text::from(variant.name.as_str());
                fill_marks(&mut variant, &[("{variant}", &name)], &index.to_string());
            }
            (VariantChoices::Items(items), VariantChoice::Set(subset)) => {
                self.keep_items(&mut variant, items, subset);
            }
            _ => {}
        }
        variant
    }

    /// Returns the load with only these of its requests. A kind that is not sent stays in the list with weight 0, so that
    /// the index of a kind is the same in all trials of a run. Without any requests, the service only runs for as long.
    pub fn reduced_load(&self, load: &LoadPlan, kept_items: &Subset) -> LoadPlan {
        let mut kept_files: BTreeMap<u32, Option<Vec<u32>>> = BTreeMap::new();
        for (index, item) in (0..).zip(self.choices.as_items()) {
            if let ItemKind::Request(kind, file) = item.what {
                let kept = kept_files.entry(kind).or_default();
                if kept_items.holds_item(index) {
                    kept.get_or_insert_default().extend(file);
                }
            }
        }
        let mut reduced = load.clone();
        if !kept_files.is_empty() && kept_files.values().all(Option::is_none) {
            if let LoadLimit::Time(time) = load.amount {
                reduced.quiet_time += time;
            }
            reduced.warm_up.requests = 0;
            reduced.amount = LoadLimit::Requests(0);
            return reduced;
        }
        for (kind, kept) in kept_files {
            let Some(request) = reduced.requests.get_mut(kind as usize) else {
                continue;
            };
            match (kept, &mut request.body) {
                (None, _) => request.weight = 0,
                (Some(kept), RequestBody::Files { files, .. }) if !kept.is_empty() => {
                    let kept = kept.iter().filter_map(|file| files.get(*file as usize));
                    *files = kept.cloned().collect();
                }
                (Some(_), _) => {}
            }
        }
        reduced
    }

    /// Applies a subset of the items to a variant.
    fn keep_items(&self, variant: &mut VariantPlan, items: &[Item], subset: &Subset) {
        variant.name = subset.name_among(items);
        let mut texts: Vec<Text> = Vec::new();
        let mut removed = Vec::new();
        let mut cuts: Vec<Vec<u32>> = vec![Vec::new(); self.sources.len()];
        for (index, item) in (0..).zip(items) {
            let is_kept = subset.holds_item(index);
            match &item.what {
                ItemKind::Word(position) if !is_kept => removed.push(*position as usize),
                ItemKind::Text(texts_if_kept, off) => {
                    texts.extend(if is_kept { texts_if_kept } else { off }.clone());
                }
                ItemKind::Variable(name, texts_if_kept, off) => {
                    let value = if is_kept { texts_if_kept } else { off };
                    for actor in &mut variant.actors {
                        actor.env.retain(|(own_name, _)| own_name != name);
                        actor.env.push((name.clone(), value.clone()));
                        actor.env.sort();
                    }
                }
                ItemKind::Piece(source, piece) if !is_kept => {
                    if let Some(cut) = cuts.get_mut(*source as usize) {
                        cut.push(*piece);
                    }
                }
                ItemKind::File(file) if !is_kept => variant.edits.push(EditPlan {
                    file: file.clone(),
                    change: FileChange::Remove,
                }),
                ItemKind::Condition(condition) if is_kept => {
                    let value = condition.value.clone();
                    variant.conditions.set(&condition.lever, value);
                }
                ItemKind::Word(_)
                | ItemKind::Piece(..)
                | ItemKind::File(_)
                | ItemKind::Condition(..)
                | ItemKind::Request(..) => {}
            }
        }
        for (source, (reduced, pieces)) in (0..).zip(self.sources.iter().zip(cuts)) {
            if !pieces.is_empty() {
                variant.edits.push(EditPlan {
                    file: reduced.file.clone(),
                    change: FileChange::LeaveOut { source, pieces },
                });
            }
        }
        let main = |actor: &&mut super::ActorPlan| actor.role.decides_outcome();
        if let Some(main) = variant.actors.iter_mut().find(main) {
            let words = std::mem::take(&mut main.command).into_iter().enumerate();
            for (position, word) in words {
                if word.as_bytes() == b"{set}" {
                    main.command.extend(texts.iter().cloned());
                } else if !removed.contains(&position) {
                    main.command.push(word);
                }
            }
        }
        let (set, lines) = (
            Text::join_texts(&texts, b" "),
            Text::join_texts(&texts, b"\n"),
        );
        let key = Text::from(subset.to_string()).content_digest();
        fill_marks(variant, &[("{set}", &set), ("{lines}", &lines)], &key);
    }
}

/// Fills in the marks of a variant, and its directory within that of all variants.
fn fill_marks(variant: &mut VariantPlan, marks: &[(&str, &Text)], key: &str) {
    let mut filled = Text::default();
    if let Some(make) = &mut variant.make {
        for text in make.script.iter_mut().chain([&mut make.cwd]) {
            *text = text.fill_marks(marks);
        }
        let key = match &make.script {
            Some(script) if make.shared => script.content_digest(),
            _ => key.to_owned(),
        };
        make.folder = Path::new(make.folder.as_os_str())
            .join(key)
            .as_path()
            .into();
        filled.clone_from(&make.folder);
    }
    let marks = [marks, &[("{made}", &filled)]].concat();
    let actors = variant.actors.iter_mut().flat_map(|actor| {
        let values = actor.env.iter_mut().filter_map(|(_, value)| value.as_mut());
        let words = actor.command.iter_mut().chain(actor.stdin.as_mut());
        let container = actor.container.iter_mut().flat_map(|container| {
            let mounts = container.mounts.iter_mut().flatten();
            mounts.chain([&mut container.image])
        });
        words.chain(values).chain(container).chain([&mut actor.cwd])
    });
    let hooks = &mut variant.hooks;
    let hooks = [
        &mut hooks.setup,
        &mut hooks.prepare,
        &mut hooks.conclude,
        &mut hooks.cleanup,
        &mut hooks.cwd,
    ];
    for text in actors.chain(hooks.into_iter().flatten()) {
        *text = text.fill_marks(&marks);
    }
}

impl VariantChoices {
    /// Returns the candidates; empty for other searches.
    pub fn as_candidates(&self) -> &[Candidate] {
        match self {
            Self::Candidates(candidates) => candidates,
            Self::Items(_) => &[],
        }
    }

    /// Returns the items; empty for other searches.
    pub fn as_items(&self) -> &[Item] {
        match self {
            Self::Items(items) => items,
            Self::Candidates(_) => &[],
        }
    }
}

impl Subset {
    /// Returns whether the set contains this item.
    pub fn holds_item(&self, item: u32) -> bool {
        self.0.binary_search(&item).is_ok()
    }

    /// Returns a short name that distinguishes the set from others.
    fn name_among(&self, items: &[Item]) -> String {
        /// Maximum number of items in a name.
        const MAX_NAMED: usize = 3;
        let named = |is_kept: bool| {
            let items_shown = (0..)
                .zip(items)
                .filter(|(i, _)| self.holds_item(*i) == is_kept);
            let names: Vec<&str> = items_shown.map(|(_, item)| item.name.as_str()).collect();
            names.join(", ")
        };
        let are_conditions = matches!(
            items[..],
            [
                Item {
                    what: ItemKind::Condition(..),
                    ..
                },
                ..
            ]
        );
        match (self.0.len(), items.len()) {
            (0, _) if are_conditions => PLAIN.to_owned(),
            (1..=MAX_NAMED, _) if are_conditions => named(true),
            (count, total) if count == total => "everything".to_owned(),
            (0, _) => "nothing".to_owned(),
            (1..=MAX_NAMED, _) => format!("only {}", named(true)),
            (count, total) if total - count <= MAX_NAMED => format!("all but {}", named(false)),
            (count, total) => {
                let digest = Text::from(self.to_string()).content_digest();
                let items = if are_conditions {
                    format!("{count} conditions")
                } else {
                    format!("{count} of {total} items")
                };
                format!("{items} ({})", &digest[..4])
            }
        }
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        while let Some(first) = rest.first() {
            let run = (*first..).zip(rest).take_while(|(a, b)| a == *b).count();
            let comma = if rest.len() == self.0.len() { "" } else { "," };
            match run {
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{}", rest[run - 1])?,
            }
            rest = &rest[run..];
        }
        Ok(())
    }
}

impl Serialize for Subset {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subset {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// Upper limit of an index; a larger one comes from a damaged file.
        const MAX_INDEX: u32 = 10_000_000;
        let text = String::deserialize(from)?;
        let mut numbers = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let ends = first
                .parse::<u32>()
                .ok()
                .zip(last.parse::<u32>().ok())
                .filter(|(_, last)| *last < MAX_INDEX);
            let (first, last) = ends.ok_or_else(|| D::Error::custom("broken list of numbers"))?;
            numbers.extend(first..=last);
        }
        Ok(Self(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActorPlan, RequestPlan};
    use std::time::Duration;

    fn space(choices: VariantChoices, command: &[&str]) -> SearchSpace {
        let actor = ActorPlan {
            name: String::new(),
            role: crate::ActorRole::Main,
            command: command.iter().map(Text::from).collect(),
            copies: 1,
            env: vec![("PATH".into(), Some("{made}/bin:/bin".into()))],
            cwd: "{made}/sub".into(),
            stdin: None,
            container: None,
        };
        let make = Preparation {
            folder: "/made".into(),
            copy: None,
            script: Some("install {variant}".into()),
            cwd: "/".into(),
            artifacts: Vec::new(),
            shared: false,
        };
        let template = VariantPlan {
            actors: vec![actor],
            make: Some(make),
            ..VariantPlan::default()
        };
        SearchSpace {
            template,
            choices,
            sources: Vec::new(),
            known: Vec::new(),
            weights: Vec::new(),
            apply: false,
            repository: None,
            first_parent: false,
            merge: None,
            section: None,
            parallel_builds: 1,
            room: 0,
        }
    }

    fn item(name: &str) -> Item {
        Item {
            name: name.to_owned(),
            at: None,
            what: ItemKind::Text(Some(name.into()), None),
        }
    }

    #[test]
    fn a_candidate_fills_in_its_name_and_its_folder() {
        let place = |name: &str| Candidate {
            name: name.to_owned(),
            about: None,
        };
        let space = space(
            VariantChoices::Candidates(vec![place("1.0"), place("1.1")]),
            &["run", "--version={variant}", "{trial}"],
        );
        assert_eq!(space.first_choice(), VariantChoice::Place(1));
        let variant = space.variant_of_choice(&VariantChoice::Place(1));
        let actor = &variant.actors[0];
        let command: Vec<String> = actor.command.iter().map(Text::to_string).collect();
        assert_eq!(command, ["run", "--version=1.1", "{trial}"]);
        assert_eq!(actor.cwd, "/made/1/sub".into());
        assert_eq!(actor.env[0].1, Some("/made/1/bin:/bin".into()));
        let make = variant.make.unwrap();
        assert_eq!(make.script, Some("install 1.1".into()));
        assert_eq!(make.folder, "/made/1".into());
    }

    #[test]
    fn a_subset_leaves_out_the_other_items() {
        let mut things = ["a", "b", "c"].map(item).to_vec();
        things.push(Item {
            name: "-v".to_owned(),
            at: None,
            what: ItemKind::Word(1),
        });
        let mut space = space(
            VariantChoices::Items(things),
            &["run", "-v", "{set}", "x={set}"],
        );
        let command = |space: &SearchSpace, kept: &[u32]| {
            let variant = space.variant_of_choice(&VariantChoice::Set(Subset(kept.to_vec())));
            let words = variant.actors[0].command.iter();
            words.map(Text::to_string).collect::<Vec<_>>().join("|")
        };
        assert_eq!(command(&space, &[0, 1, 2, 3]), "run|-v|a|b|c|x=a b c");
        assert_eq!(command(&space, &[0, 2]), "run|a|c|x=a c");
        assert_eq!(command(&space, &[]), "run|x=");
        // Preparation that depends on the script alone has the same directory for every equal script.
        let make = space.template.make.as_mut().unwrap();
        (make.script, make.shared) = (Some("install {lines}".into()), true);
        let folder = |kept: &[u32]| {
            let variant = space.variant_of_choice(&VariantChoice::Set(Subset(kept.to_vec())));
            variant.make.unwrap().folder
        };
        assert_eq!(folder(&[0]), folder(&[0, 3]));
        assert_ne!(folder(&[0]), folder(&[1]));
    }

    #[test]
    fn a_subset_leaves_out_the_other_requests() {
        let request = |kind, file| Item {
            what: ItemKind::Request(kind, file),
            ..item("request")
        };
        let items = vec![
            request(0, None),
            request(2, Some(0)),
            request(2, Some(1)),
            request(2, Some(2)),
        ];
        let space = space(VariantChoices::Items(items), &["serve"]);
        let second = Duration::from_secs(1);
        let mut load = LoadPlan::from_url("http://127.0.0.1:1", 8, LoadLimit::Time(second));
        let kind = load.requests[0].clone();
        let files = |names: &[&str]| RequestBody::Files {
            files: names.iter().map(Text::from).collect(),
            pick: crate::FilePick::Random,
        };
        let unsent = RequestPlan {
            weight: 0,
            ..kind.clone()
        };
        let with_body = |body| RequestPlan {
            body,
            ..kind.clone()
        };
        load.requests = vec![
            with_body(files(&["a"])),
            unsent,
            with_body(files(&["a", "b", "c"])),
        ];
        let reduced = |kept: &[u32]| space.reduced_load(&load, &Subset(kept.to_vec()));
        let weights = |load: &LoadPlan| -> Vec<u32> {
            load.requests.iter().map(|kind| kind.weight).collect()
        };
        assert_eq!(reduced(&[0, 1, 2, 3]), load);
        let both_kinds = reduced(&[0, 2, 3]);
        assert_eq!(weights(&both_kinds), [1, 0, 1]);
        let bodies: Vec<_> = both_kinds.requests.iter().map(|kind| &kind.body).collect();
        let expected = [&files(&["a"]), &RequestBody::None, &files(&["b", "c"])];
        assert_eq!(bodies, expected);
        assert_eq!(weights(&reduced(&[0])), [1, 0, 0]);
        // The service runs for as long as under load.
        let nothing = reduced(&[]);
        assert_eq!(nothing.amount, LoadLimit::Requests(0));
        assert_eq!(nothing.quiet_time, load.quiet_time + second);
    }

    #[test]
    fn subsets_are_short_in_the_journal_and_have_names() {
        for (kept, text) in [
            (vec![], "\"\""),
            (vec![3], "\"3\""),
            (vec![0, 1, 2, 5, 7, 8], "\"0-2,5,7-8\""),
        ] {
            let subset = Subset(kept);
            assert_eq!(serde_json::to_string(&subset).unwrap(), text);
            assert_eq!(serde_json::from_str::<Subset>(text).unwrap(), subset);
        }
        assert!(serde_json::from_str::<Subset>("\"0-4294967295\"").is_err());
        let things: Vec<Item> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(item).into();
        let name = |kept: &[u32]| Subset(kept.to_vec()).name_among(&things);
        assert_eq!(name(&[]), "nothing");
        assert_eq!(name(&[1, 2]), "only b, c");
        assert_eq!(name(&[0, 1, 2, 3, 4, 5, 7]), "all but g");
        assert_eq!(name(&[0, 1, 2, 3, 4, 5, 6, 7]), "everything");
        assert!(name(&[0, 1, 2, 3]).starts_with("4 of 8 items ("));
    }
}
