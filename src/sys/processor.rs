//! Reads which CPU this program sees: that of the machine, or that of an emulator.

/// What a program can know of its processor by asking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// How it calls itself; empty where it does not say.
    pub model: String,
    /// The instructions it has beyond those of every 64-bit processor, as `/proc/cpuinfo` calls them.
    pub flags: Vec<String>,
}

/// Asks the processor itself: what files say of it is true of the machine's, whatever an emulator
/// shows. Nothing where it cannot be asked.
#[cfg(target_arch = "x86_64")]
pub fn seen() -> Option<Processor> {
    let flags = FLAGS.iter().filter(|(_, is_there)| is_there());
    Some(Processor {
        model: brand(),
        flags: flags.map(|(name, _)| (*name).to_owned()).collect(),
    })
}

#[cfg(not(target_arch = "x86_64"))]
pub fn seen() -> Option<Processor> {
    None
}

#[cfg(target_arch = "x86_64")]
macro_rules! flags {
    ($($name:literal: $feature:tt),* $(,)?) => {
        [$(($name, || std::arch::is_x86_feature_detected!($feature))),*]
    };
}

/// A flag, and whether it is there.
#[cfg(target_arch = "x86_64")]
type Flag = (&'static str, fn() -> bool);

/// What programs are built for, or choose when they start: as `/proc/cpuinfo` calls it, and Rust.
#[cfg(target_arch = "x86_64")]
const FLAGS: [Flag; 39] = flags![
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

/// Where the name begins, and the last of the three parts it comes in.
#[cfg(target_arch = "x86_64")]
const BRAND: (u32, u32) = (0x8000_0002, 0x8000_0004);

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "an instruction that only asks")]
fn brand() -> String {
    use std::arch::x86_64::__cpuid;
    // SAFETY: every 64-bit processor has CPUID, and it changes nothing.
    #[expect(unused_unsafe, reason = "newer compilers know that it is safe")]
    let ask = |leaf| unsafe { __cpuid(leaf) };
    // The highest that may be asked for.
    if ask(0x8000_0000).eax < BRAND.1 {
        return String::new();
    }
    let parts = (BRAND.0..=BRAND.1).map(ask);
    let words = parts.flat_map(|part| [part.eax, part.ebx, part.ecx, part.edx]);
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).trim().to_owned()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::sys::host;

    #[test]
    fn it_says_of_itself_what_the_kernel_says_of_it() {
        let Processor { model, flags } = seen().unwrap();
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let named = host::field_of(&text, "model name").unwrap();
        assert_eq!(model, named.trim());
        let known = host::processor_flags().unwrap();
        // The kernel may hide one that is there; it makes none up.
        for (name, _) in FLAGS {
            let there = flags.iter().any(|flag| flag == name);
            assert!(there || !known.contains(name), "{name}");
        }
    }
}
