//! CPU models of emulators by name: a program under an emulator has the CPU features of the model.

use std::collections::BTreeSet;

/// Features of every 64-bit CPU.
const BASE: &str = "fpu de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush \
                    mmx fxsr sse sse2 syscall nx lm";

/// Model, the model that it extends, and the additional features.
const MODELS: &[(&str, &str, &str)] = &[
    ("qemu64", "", "pni cx16 lahf_lm svm"),
    ("kvm64", "", "pni cx16"),
    ("conroe", "", "pni ssse3 cx16 lahf_lm"),
    ("core2duo", "conroe", "monitor vmx"),
    ("penryn", "conroe", "sse4_1"),
    ("nehalem", "penryn", "sse4_2 popcnt"),
    ("westmere", "nehalem", "aes pclmulqdq"),
    (
        "sandybridge",
        "westmere",
        "avx xsave xsaveopt rdtscp x2apic tsc_deadline_timer",
    ),
    ("ivybridge", "sandybridge", "f16c rdrand fsgsbase smep erms"),
    (
        "haswell-notsx",
        "ivybridge",
        "avx2 bmi1 bmi2 fma movbe abm invpcid pcid",
    ),
    ("haswell", "haswell-notsx", "hle rtm"),
    (
        "broadwell-notsx",
        "haswell-notsx",
        "adx rdseed smap 3dnowprefetch",
    ),
    ("broadwell", "broadwell-notsx", "hle rtm"),
    ("skylake-client-notsx", "broadwell-notsx", "xsavec xgetbv1"),
    ("skylake-client", "skylake-client-notsx", "hle rtm"),
    (
        "skylake-server-notsx",
        "skylake-client-notsx",
        "clflushopt clwb pku avx512f avx512dq avx512bw avx512cd avx512vl",
    ),
    ("skylake-server", "skylake-server-notsx", "hle rtm"),
    (
        "cascadelake-server-notsx",
        "skylake-server-notsx",
        "avx512_vnni",
    ),
    ("cascadelake-server", "cascadelake-server-notsx", "hle rtm"),
    ("cooperlake", "cascadelake-server", "avx512_bf16"),
    (
        "icelake-server-notsx",
        "cascadelake-server-notsx",
        "avx512vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq gfni vaes vpclmulqdq umip wbnoinvd",
    ),
    ("icelake-server", "icelake-server-notsx", "hle rtm"),
    (
        "sapphirerapids",
        "icelake-server",
        "avx512ifma sha_ni rdpid fsrm xsaves avx512_bf16 avx512_fp16 avx_vnni amx_tile amx_bf16 \
         amx_int8 serialize tsxldtrk",
    ),
    ("opteron_g1", "", "pni"),
    ("opteron_g2", "opteron_g1", "cx16 lahf_lm svm"),
    (
        "opteron_g3",
        "opteron_g2",
        "popcnt sse4a abm misalignsse monitor",
    ),
    (
        "opteron_g4",
        "opteron_g3",
        "ssse3 sse4_1 sse4_2 aes pclmulqdq avx xsave xop fma4 3dnowprefetch",
    ),
    ("opteron_g5", "opteron_g4", "f16c fma tbm bmi1"),
    (
        "epyc",
        "opteron_g3",
        "ssse3 sse4_1 sse4_2 aes pclmulqdq avx avx2 bmi1 bmi2 f16c fma movbe xsave xsaveopt xsavec \
         xgetbv1 rdrand rdseed rdtscp adx sha_ni fsgsbase smep smap clflushopt 3dnowprefetch",
    ),
    (
        "epyc-rome",
        "epyc",
        "clwb rdpid umip clzero xsaveerptr wbnoinvd",
    ),
    (
        "epyc-milan",
        "epyc-rome",
        "vaes vpclmulqdq pku invpcid pcid erms fsrm",
    ),
    (
        "epyc-genoa",
        "epyc-milan",
        "avx512f avx512dq avx512bw avx512cd avx512vl avx512ifma avx512vbmi avx512_vbmi2 \
         avx512_vnni avx512_bitalg avx512_vpopcntdq avx512_bf16 gfni",
    ),
    ("x86-64-v2", "nehalem", ""),
    (
        "x86-64-v3",
        "x86-64-v2",
        "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    ),
    (
        "x86-64-v4",
        "x86-64-v3",
        "avx512f avx512bw avx512cd avx512dq avx512vl",
    ),
];

/// Features that emulators and `/proc/cpuinfo` call by different names.
const ALIASES: &[(&str, &str)] = &[
    ("sse3", "pni"),
    ("sse4.1", "sse4_1"),
    ("sse4.2", "sse4_2"),
    ("lzcnt", "abm"),
    ("sha-ni", "sha_ni"),
    ("avx512-vnni", "avx512_vnni"),
    ("avx512-bf16", "avx512_bf16"),
    ("avx512-vpopcntdq", "avx512_vpopcntdq"),
    ("avx512-ifma", "avx512ifma"),
];

/// Returns the flags of a CPU model by an emulator's name of it, with the features that are
/// switched on and off behind the name: `Haswell`, `SandyBridge,+avx2`,
/// `Skylake-Server-v2,avx512f=off`.
///
/// Returns `None` for names that stand for the host's CPU, such as `max` and `host`, and for
/// unknown names.
pub fn flags_of_model(name: &str) -> Option<BTreeSet<String>> {
    let name = name.to_ascii_lowercase();
    let mut parts = name.split(',').map(str::trim);
    let model = parts.next().filter(|model| !model.is_empty())?;
    let mut flags = of_base(without_version(model))?;
    for part in parts {
        let (flag, is_set) = match (part.strip_prefix('+'), part.strip_prefix('-')) {
            (Some(flag), _) => (flag, true),
            (_, Some(flag)) => (flag, false),
            _ => match part.split_once('=') {
                Some((flag, value)) => (flag, value == "on"),
                None => (part, true),
            },
        };
        let alias = ALIASES.iter().find(|(alias_name, _)| *alias_name == flag);
        let flag = alias.map_or(flag, |(_, flag_name)| flag_name);
        if is_set {
            flags.insert(flag.to_owned());
        } else {
            flags.remove(flag);
        }
    }
    Some(flags)
}

/// Removes suffixes that do not affect instructions: the version, and names of mitigations.
fn without_version(name: &str) -> &str {
    let mut name = name.strip_suffix("-x86_64-cpu").unwrap_or(name);
    while let Some((head, tail)) = name.rsplit_once('-') {
        let version = tail
            .strip_prefix('v')
            .is_some_and(|digits| digits.parse::<u32>().is_ok());
        let level = head == "x86-64";
        if (version && !level) || tail == "ibrs" || tail == "ibpb" {
            name = head;
        } else {
            break;
        }
    }
    name
}

fn of_base(name: &str) -> Option<BTreeSet<String>> {
    if name.is_empty() {
        return Some(BASE.split(' ').map(str::to_owned).collect());
    }
    let (_, base, more_flags) = MODELS.iter().find(|(model, ..)| *model == name)?;
    let mut flags = of_base(base)?;
    flags.extend(more_flags.split_whitespace().map(str::to_owned));
    Some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model_has_flag(model: &str, flag: &str) -> bool {
        flags_of_model(model).unwrap().contains(flag)
    }

    #[test]
    fn every_model_has_flags_and_derives_from_a_known_model() {
        for (name, ..) in MODELS {
            let flags = flags_of_model(name).unwrap();
            assert!(flags.contains("sse2") && flags.contains("lm"), "{name}");
            assert!(
                flags
                    .iter()
                    .all(|flag| !flag.contains(char::is_whitespace) && !flag.is_empty())
            );
        }
    }

    #[test]
    fn each_model_has_the_features_of_its_generation() {
        assert!(model_has_flag("SandyBridge", "avx") && !model_has_flag("sandybridge", "avx2"));
        assert!(model_has_flag("Haswell", "avx2") && !model_has_flag("Haswell", "avx512f"));
        assert!(
            model_has_flag("Skylake-Server", "avx512vl")
                && !model_has_flag("Skylake-Client", "avx512f")
        );
        assert!(
            !model_has_flag("Nehalem", "avx")
                && model_has_flag("Nehalem", "sse4_2")
                && !model_has_flag("Nehalem", "aes")
        );
        assert!(
            model_has_flag("EPYC", "sha_ni")
                && model_has_flag("EPYC", "avx2")
                && !model_has_flag("EPYC", "fma4")
        );
        assert!(model_has_flag("Opteron_G5", "xop") && model_has_flag("Opteron_G5", "fma4"));
        assert!(model_has_flag("qemu64", "pni") && !model_has_flag("qemu64", "ssse3"));
        assert!(!model_has_flag("Haswell-noTSX", "rtm") && model_has_flag("Haswell", "rtm"));
        assert!(model_has_flag("x86-64-v3", "avx2") && !model_has_flag("x86-64-v2", "avx"));
    }

    #[test]
    fn model_versions_and_feature_switches_are_parsed() {
        assert_eq!(
            flags_of_model("Skylake-Server-v2"),
            flags_of_model("skylake-server")
        );
        assert_eq!(
            flags_of_model("Haswell-noTSX-IBRS"),
            flags_of_model("Haswell-noTSX")
        );
        assert!(model_has_flag("SandyBridge,+avx2", "avx2"));
        assert!(
            !model_has_flag("Haswell,-avx2", "avx2") && !model_has_flag("Haswell,avx2=off", "avx2")
        );
        assert!(
            model_has_flag("Nehalem,sha-ni=on,+lzcnt", "sha_ni")
                && model_has_flag("Nehalem,+lzcnt", "abm")
        );
    }

    #[test]
    fn host_dependent_and_unknown_models_have_no_flags() {
        for name in ["max", "host", "base", "", "Pentium9"] {
            assert_eq!(flags_of_model(name), None, "{name}");
        }
    }
}
