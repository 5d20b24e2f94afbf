//! Rules for judging observations.

use super::{CasePattern, Failure, FailureKind, RequestResult, Signal, SignatureId, is_default};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Rules for judging observations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Exit codes of passing trials.
    pub ok: BTreeSet<i32>,
    /// Exit codes of inconclusive trials.
    pub skip: BTreeSet<i32>,
    /// Patterns whose match in the output makes a trial a failure.
    pub fail_if_out: Vec<String>,
    /// Patterns whose match in the output makes a failing exit a pass.
    pub ok_if_out: Vec<String>,
    /// Failures that are the bug; empty means any failure. Other failures are counted separately.
    pub only: Vec<BugFilter>,
    /// How to treat leaked processes.
    pub leaks: LeakRule,
    /// Whether crashed child processes are ignored if the trial otherwise passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignore_child_crashes: bool,
    /// Which requests a service refused, and whether that fails a trial.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refusals: RefusalRules,
}

/// Which requests a service refused, and whether that fails a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusalRules {
    /// The statuses of refusals. A refused connection is always one.
    pub status: BTreeSet<u16>,
    /// The share of refused requests, in millionths, above which a service refuses its load.
    pub share: u32,
    /// Whether a trial above this share fails.
    pub fails: bool,
}

impl Default for RefusalRules {
    fn default() -> Self {
        Self {
            status: BTreeSet::from([429, 503]),
            share: 500_000,
            fails: false,
        }
    }
}

impl RefusalRules {
    /// Returns the refused requests by result, the most frequent first.
    pub fn refusals<'a>(
        &self,
        ends: &'a BTreeMap<RequestResult, u64>,
    ) -> Vec<(&'a RequestResult, u64)> {
        let is_refusal = |result: &RequestResult| match result {
            RequestResult::Refused => true,
            RequestResult::Status(status) => self.status.contains(status),
            _ => false,
        };
        let refused = ends.iter().filter(|(result, _)| is_refusal(result));
        let mut refused: Vec<(&RequestResult, u64)> =
            refused.map(|(result, count)| (result, *count)).collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        refused
    }

    /// Returns the number of refused requests.
    pub fn count_refused(&self, ends: &BTreeMap<RequestResult, u64>) -> u64 {
        self.refusals(ends).iter().map(|(_, count)| count).sum()
    }

    /// Returns whether so many of the sent requests were refused that the service refuses its load.
    pub fn refuses_load(&self, refused: u64, sent: u64) -> bool {
        u128::from(refused) * 1_000_000 > u128::from(self.share) * u128::from(sent)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            ok: BTreeSet::from([0]),
            skip: BTreeSet::from([125]),
            fail_if_out: Vec::new(),
            ok_if_out: Vec::new(),
            only: Vec::new(),
            leaks: LeakRule::default(),
            ignore_child_crashes: false,
            refusals: RefusalRules::default(),
        }
    }
}

/// How to treat processes still running after a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LeakRule {
    /// Kill them without looking for them.
    Off,
    /// List them, and do not change the outcome of the trial.
    Report,
    /// Fail a trial that would have passed.
    #[default]
    Fail,
}

/// A kind of failure that is the bug.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BugFilter {
    /// Death by this signal, observed or reported by an exit code.
    Signal(Signal),
    /// Exactly this exit code.
    Code(i32),
    /// A hung trial.
    Hang,
    /// A trial that took longer than its time limit: hung or only slow.
    Timeout,
    /// A trial with leaked processes.
    Leak,
    /// An OOM kill.
    Oom,
    /// Output that matched `fail_if_out`.
    Output,
    /// A service that provoke did not start and that was no longer running.
    Gone,
    /// A service that refused its load.
    Refused,
    /// Exactly this signature.
    #[serde(rename = "sig")]
    Signature(SignatureId),
    /// A failure of a case whose name matches. A trial in which no such case ran is inconclusive.
    Test(CasePattern),
    /// The reverse, for a search of what a case needs: the case passes. A trial in which it fails is a passing one.
    Passes(CasePattern),
}

impl Rules {
    /// Returns the patterns of the cases whose failures are the bug; none if any trial counts by its own end.
    pub fn searched_cases(&self) -> impl Iterator<Item = &CasePattern> {
        self.only.iter().filter_map(|filter| match filter {
            BugFilter::Test(pattern) | BugFilter::Passes(pattern) => Some(pattern),
            _ => None,
        })
    }

    /// Returns whether the trials in which a case passes are searched, and not the ones in which it fails.
    pub fn search_passes(&self) -> bool {
        let mut filters = self.only.iter();
        filters.any(|filter| matches!(filter, BugFilter::Passes(_)))
    }
}

impl BugFilter {
    /// Returns the rule that covers all failures of a kind.
    pub fn of_kind(kind: &FailureKind) -> Self {
        match kind {
            FailureKind::Signal { signal, .. } => Self::Signal(*signal),
            FailureKind::Exit { code } => Self::Code(*code),
            FailureKind::Hang { .. } => Self::Hang,
            FailureKind::Slow => Self::Timeout,
            FailureKind::Leak => Self::Leak,
            FailureKind::Oom { .. } => Self::Oom,
            FailureKind::Output => Self::Output,
            FailureKind::ServiceVanished => Self::Gone,
            FailureKind::Refused => Self::Refused,
            FailureKind::Test => Self::Test(CasePattern::new("*")),
            FailureKind::TestPassed => Self::Passes(CasePattern::new("*")),
        }
    }

    /// Returns whether this failure is covered.
    pub fn covers_failure(&self, failure: &Failure) -> bool {
        if let Self::Signature(signature_id) = self {
            let signature = &failure.signature;
            let also = signature.also.iter().map(|(_, id)| *id);
            let families = signature.families.iter().map(|family| family.id);
            let mut names = also.chain(families).chain([signature.id]);
            return names.any(|id| id == *signature_id);
        }
        match (self, &failure.kind) {
            (Self::Signal(wanted_signal), FailureKind::Signal { signal, .. }) => {
                wanted_signal == signal
            }
            (Self::Code(wanted_code), kind) => kind.exit_code() == Some(*wanted_code),
            (Self::Timeout, kind) => kind.is_timeout(),
            // A run that looks for failures of cases has judged its trials by them.
            (Self::Test(_) | Self::Passes(_), _)
            | (Self::Hang, FailureKind::Hang { .. })
            | (Self::Leak, FailureKind::Leak)
            | (Self::Oom, FailureKind::Oom { .. })
            | (Self::Output, FailureKind::Output)
            | (Self::Gone, FailureKind::ServiceVanished)
            | (Self::Refused, FailureKind::Refused) => true,
            _ => false,
        }
    }
}

impl fmt::Display for BugFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => signal.fmt(f),
            Self::Code(code) => write!(f, "code:{code}"),
            Self::Hang => f.write_str("hang"),
            Self::Timeout => f.write_str("timeout"),
            Self::Leak => f.write_str("leak"),
            Self::Oom => f.write_str("oom"),
            Self::Output => f.write_str("output"),
            Self::Gone => f.write_str("gone"),
            Self::Refused => f.write_str("refused"),
            Self::Signature(id) => write!(f, "sig:{id}"),
            Self::Test(pattern) => write!(f, "test:{pattern}"),
            Self::Passes(pattern) => write!(f, "passes:{pattern}"),
        }
    }
}

impl FromStr for BugFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "hang" => return Ok(Self::Hang),
            "timeout" => return Ok(Self::Timeout),
            "leak" => return Ok(Self::Leak),
            "oom" => return Ok(Self::Oom),
            "output" => return Ok(Self::Output),
            "gone" => return Ok(Self::Gone),
            "refused" => return Ok(Self::Refused),
            _ => {}
        }
        if let Some(code) = text.strip_prefix("code:") {
            let code = code
                .parse()
                .map_err(|_| format!("`{code}` is not an exit code"))?;
            return Ok(Self::Code(code));
        }
        if let Some(pattern) = text.strip_prefix("test:") {
            if pattern.is_empty() {
                return Err(
                    "`test:` needs the name of a test; a `*` in it stands for any text".to_owned(),
                );
            }
            return Ok(Self::Test(CasePattern::new(pattern)));
        }
        if let Some(pattern) = text.strip_prefix("passes:").filter(|text| !text.is_empty()) {
            return Ok(Self::Passes(CasePattern::new(pattern)));
        }
        if let Some(id) = text.strip_prefix("sig:") {
            return id.parse().map(Self::Signature);
        }
        Signal::from_name(text).map(Self::Signal).ok_or_else(|| {
            format!("`{text}` is not a kind of failure: a signal name, `code:N`, `sig:ID`, `test:NAME`, `hang`, `timeout`, `leak`, `oom` or `output`")
        })
    }
}
