//! Reads which CPU this program sees: that of the machine, or that of an emulator.

use crate::host::field_of;
use crate::tool;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Instant;

/// Hidden subcommand that prints the CPU that it sees; emulators run it.
pub const COMMAND: &str = "processor";

/// Limit of an answer in bytes.
const ANSWER: usize = 1 << 14;

/// Facts that a program can read with CPUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Model name; empty if CPUID does not contain it.
    pub model: String,
    /// Flags of instruction sets that not every 64-bit CPU has, as in `/proc/cpuinfo`.
    pub flags: Vec<String>,
}

/// Reads the facts with CPUID; returns `None` if that is impossible.
///
/// The files of the system describe the machine's CPU even under an emulator.
#[cfg(target_arch = "x86_64")]
pub fn visible_processor() -> Option<Processor> {
    let flags = FLAGS.iter().filter(|(_, is_there)| is_there());
    Some(Processor {
        model: brand_string(),
        flags: flags.map(|(name, _)| (*name).to_owned()).collect(),
    })
}

#[cfg(not(target_arch = "x86_64"))]
pub fn visible_processor() -> Option<Processor> {
    None
}

/// Returns the output of [`COMMAND`] in the form of `/proc/cpuinfo`; `None` if the CPU cannot be
/// read.
pub fn describe_processor() -> Option<String> {
    let Processor { model, flags } = visible_processor()?;
    Some(format!(
        "model name\t: {model}\nflags\t\t: {}\n",
        flags.join(" ")
    ))
}

/// Runs this program under an emulator to read the CPU that it shows.
///
/// Only the model determines the CPU. The other options, and their variables, are left out: with
/// them the emulator could wait for a debugger, or overwrite the log of a trial.
pub fn emulated_processor(
    emulator: &Path,
    model: Option<&OsStr>,
    ourselves: &Path,
    deadline: Instant,
) -> Option<Processor> {
    let mut words: Vec<&OsStr> = Vec::new();
    if let Some(model) = model {
        words.extend([OsStr::new("-cpu"), model]);
    }
    words.extend([ourselves.as_os_str(), OsStr::new(COMMAND)]);
    let output = tool::run_bare(emulator, &words, deadline, ANSWER).ok()?;
    let flags = field_of(&output, "flags")?;
    Some(Processor {
        model: field_of(&output, "model name")?,
        flags: flags.split_whitespace().map(str::to_owned).collect(),
    })
}

/// Returns the flags of a CPU model of QEMU, also those that QEMU cannot emulate, which it names in warnings.
pub fn flags_of_model(
    emulator: &Path,
    model: &str,
    ourselves: &Path,
    deadline: Instant,
) -> Option<BTreeSet<String>> {
    let script = r#"exec "$0" -cpu "$1" "$2" "$3" 2>&1"#;
    let words = ["-c".as_ref(), script.as_ref(), emulator.as_os_str()];
    let arguments = [model.as_ref(), ourselves.as_os_str(), COMMAND.as_ref()];
    let words = [words, arguments].concat();
    all_flags(&tool::run_bare(Path::new("/bin/sh"), &words, deadline, ANSWER).ok()?)
}

/// Returns the flags that an emulator shows, and those that it names in warnings.
fn all_flags(output: &str) -> Option<BTreeSet<String>> {
    let flags = field_of(output, "flags")?;
    let flags = flags.split_whitespace().map(str::to_owned);
    // `qemu-x86_64: warning: TCG doesn't support requested feature: CPUID.07H:EBX.avx512f [bit 16]`
    let unsupported = output.lines().filter_map(|line| {
        let (_, register) = line.split_once("requested feature: CPUID.")?;
        let (_, name) = register.split_once('.')?;
        Some(name.split(' ').next()?.replace('-', "_"))
    });
    Some(flags.chain(unsupported).collect())
}

#[cfg(target_arch = "x86_64")]
macro_rules! flags {
    ($($name:literal: $feature:tt),* $(,)?) => {
        [$(($name, || std::arch::is_x86_feature_detected!($feature))),*]
    };
}

/// Name of a flag, and a test for it.
#[cfg(target_arch = "x86_64")]
type CpuFlag = (&'static str, fn() -> bool);

/// Flags that programs are built for, or test at startup: the names in `/proc/cpuinfo` and in Rust.
#[cfg(target_arch = "x86_64")]
const FLAGS: [CpuFlag; 39] = flags![
    "abm": "lzcnt",
    "adx": "adx",
    "aes": "aes",
    "avx": "avx",
    "avx2": "avx2",
    "avx512_bf16": "avx512bf16",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512f": "avx512f",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vl": "avx512vl",
    "bmi1": "bmi1",
    "bmi2": "bmi2",
    "cx16": "cmpxchg16b",
    "f16c": "f16c",
    "fma": "fma",
    "gfni": "gfni",
    "movbe": "movbe",
    "pclmulqdq": "pclmulqdq",
    "pni": "sse3",
    "popcnt": "popcnt",
    "rdrand": "rdrand",
    "rdseed": "rdseed",
    "rtm": "rtm",
    "sha_ni": "sha",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "sse4a": "sse4a",
    "ssse3": "ssse3",
    "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq",
    "xsave": "xsave",
    "xsaveopt": "xsaveopt",
];

/// First and last CPUID leaf of the model name.
#[cfg(target_arch = "x86_64")]
const BRAND: (u32, u32) = (0x8000_0002, 0x8000_0004);

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "an instruction that only asks")]
fn brand_string() -> String {
    use std::arch::x86_64::__cpuid;
    // SAFETY: every 64-bit CPU has CPUID, and the instruction has no side effects.
    #[expect(unused_unsafe, reason = "newer compilers know that it is safe")]
    let ask = |leaf| unsafe { __cpuid(leaf) };
    // Test the highest supported leaf.
    if ask(0x8000_0000).eax < BRAND.1 {
        return String::new();
    }
    let registers = (BRAND.0..=BRAND.1).map(ask);
    let words =
        registers.flat_map(|register| [register.eax, register.ebx, register.ecx, register.edx]);
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).trim().to_owned()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::host;

    #[test]
    fn a_model_has_the_flags_that_the_emulator_names_in_warnings() {
        let output = "qemu-x86_64: warning: TCG doesn't support requested feature: CPUID.07H:EBX.avx512-vnni [bit 16]\n\
            model name\t: a model\nflags\t\t: aes avx\n";
        let flags = all_flags(output).unwrap();
        assert_eq!(Vec::from_iter(flags), ["aes", "avx", "avx512_vnni"]);
    }

    #[test]
    fn the_cpu_reports_the_same_features_as_the_kernel() {
        let Processor { model, flags } = visible_processor().unwrap();
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let named = host::field_of(&text, "model name").unwrap();
        assert_eq!(model, named.trim());
        let known = host::processor_flags().unwrap();
        // The kernel may hide a flag, but does not invent any.
        for (name, _) in FLAGS {
            let there = flags.iter().any(|flag| flag == name);
            assert!(there || !known.contains(name), "{name}");
        }
    }
}
