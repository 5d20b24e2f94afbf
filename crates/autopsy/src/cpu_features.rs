//! CPU features that instructions need, and that CPUs have.

use iced_x86::CpuidFeature as F;
use std::collections::BTreeSet;

/// CPU features that an instruction needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredFeatures {
    /// Features that not every 64-bit CPU has, in the usual spelling: `AVX2`.
    pub features: Vec<String>,
    /// Features that the CPU lacks, or that the system has disabled.
    pub lacking: Vec<String>,
    /// Features whose presence in the CPU is unknown.
    pub unknown: Vec<String>,
}

/// Features of every 64-bit CPU, and older ones.
const EVERYWHERE: &[F] = &[
    F::CLFSH,
    F::CMOV,
    F::CPUID,
    F::CX8,
    F::FPU,
    F::FPU287,
    F::FPU387,
    F::FXSR,
    F::IA64,
    F::INTEL186,
    F::INTEL286,
    F::INTEL386,
    F::INTEL486,
    F::INTEL8086,
    F::MMX,
    F::MSR,
    F::MULTIBYTENOP,
    F::PAUSE,
    F::SEP,
    F::SMM,
    F::SSE,
    F::SSE2,
    F::SYSCALL,
    F::TSC,
    F::X64,
];

/// Feature, its usual spelling, and its name in `/proc/cpuinfo`.
const FLAGS: &[(F, &str, &str)] = &[
    (F::ADX, "ADX", "adx"),
    (F::AES, "AES", "aes"),
    (F::AMX_BF16, "AMX-BF16", "amx_bf16"),
    (F::AMX_INT8, "AMX-INT8", "amx_int8"),
    (F::AMX_TILE, "AMX-TILE", "amx_tile"),
    (F::AVX, "AVX", "avx"),
    (F::AVX2, "AVX2", "avx2"),
    (F::AVX512BW, "AVX-512BW", "avx512bw"),
    (F::AVX512CD, "AVX-512CD", "avx512cd"),
    (F::AVX512DQ, "AVX-512DQ", "avx512dq"),
    (F::AVX512ER, "AVX-512ER", "avx512er"),
    (F::AVX512F, "AVX-512F", "avx512f"),
    (F::AVX512PF, "AVX-512PF", "avx512pf"),
    (F::AVX512VL, "AVX-512VL", "avx512vl"),
    (F::AVX512_4FMAPS, "AVX-512 4FMAPS", "avx512_4fmaps"),
    (F::AVX512_4VNNIW, "AVX-512 4VNNIW", "avx512_4vnniw"),
    (F::AVX512_BF16, "AVX-512 BF16", "avx512_bf16"),
    (F::AVX512_BITALG, "AVX-512 BITALG", "avx512_bitalg"),
    (F::AVX512_FP16, "AVX-512 FP16", "avx512_fp16"),
    (F::AVX512_IFMA, "AVX-512 IFMA", "avx512ifma"),
    (F::AVX512_VBMI, "AVX-512 VBMI", "avx512vbmi"),
    (F::AVX512_VBMI2, "AVX-512 VBMI2", "avx512_vbmi2"),
    (F::AVX512_VNNI, "AVX-512 VNNI", "avx512_vnni"),
    (
        F::AVX512_VP2INTERSECT,
        "AVX-512 VP2INTERSECT",
        "avx512_vp2intersect",
    ),
    (F::AVX512_VPOPCNTDQ, "AVX-512 VPOPCNTDQ", "avx512_vpopcntdq"),
    (F::AVX_VNNI, "AVX-VNNI", "avx_vnni"),
    (F::BMI1, "BMI1", "bmi1"),
    (F::BMI2, "BMI2", "bmi2"),
    (F::CET_IBT, "CET-IBT", "ibt"),
    (F::CET_SS, "CET shadow stacks", "user_shstk"),
    (F::CLDEMOTE, "CLDEMOTE", "cldemote"),
    (F::CLFLUSHOPT, "CLFLUSHOPT", "clflushopt"),
    (F::CLWB, "CLWB", "clwb"),
    (F::CLZERO, "CLZERO", "clzero"),
    (F::CMPXCHG16B, "CMPXCHG16B", "cx16"),
    (F::D3NOW, "3DNow!", "3dnow"),
    (F::D3NOWEXT, "3DNow! extensions", "3dnowext"),
    (F::ENQCMD, "ENQCMD", "enqcmd"),
    (F::F16C, "F16C", "f16c"),
    (F::FMA, "FMA", "fma"),
    (F::FMA4, "FMA4", "fma4"),
    (F::FSGSBASE, "FSGSBASE", "fsgsbase"),
    (F::GFNI, "GFNI", "gfni"),
    (F::HLE, "HLE", "hle"),
    (F::INVPCID, "INVPCID", "invpcid"),
    (F::LWP, "LWP", "lwp"),
    (F::LZCNT, "LZCNT", "abm"),
    (F::MONITOR, "MONITOR", "monitor"),
    (F::MONITORX, "MONITORX", "mwaitx"),
    (F::MOVBE, "MOVBE", "movbe"),
    (F::MOVDIR64B, "MOVDIR64B", "movdir64b"),
    (F::MOVDIRI, "MOVDIRI", "movdiri"),
    (F::MPX, "MPX", "mpx"),
    (F::PCLMULQDQ, "PCLMULQDQ", "pclmulqdq"),
    (F::PKU, "PKU", "pku"),
    (F::POPCNT, "POPCNT", "popcnt"),
    (F::PREFETCHW, "PREFETCHW", "3dnowprefetch"),
    (F::RDPID, "RDPID", "rdpid"),
    (F::RDPRU, "RDPRU", "rdpru"),
    (F::RDRAND, "RDRAND", "rdrand"),
    (F::RDSEED, "RDSEED", "rdseed"),
    (F::RDTSCP, "RDTSCP", "rdtscp"),
    (F::RTM, "RTM", "rtm"),
    (F::SERIALIZE, "SERIALIZE", "serialize"),
    (F::SHA, "SHA", "sha_ni"),
    (F::SMAP, "SMAP", "smap"),
    (F::SSE3, "SSE3", "pni"),
    (F::SSE4A, "SSE4a", "sse4a"),
    (F::SSE4_1, "SSE4.1", "sse4_1"),
    (F::SSE4_2, "SSE4.2", "sse4_2"),
    (F::SSSE3, "SSSE3", "ssse3"),
    (F::SVM, "SVM", "svm"),
    (F::TBM, "TBM", "tbm"),
    (F::TSXLDTRK, "TSXLDTRK", "tsxldtrk"),
    (F::VAES, "VAES", "vaes"),
    (F::VMX, "VMX", "vmx"),
    (F::VPCLMULQDQ, "VPCLMULQDQ", "vpclmulqdq"),
    (F::WAITPKG, "WAITPKG", "waitpkg"),
    (F::WBNOINVD, "WBNOINVD", "wbnoinvd"),
    (F::XOP, "XOP", "xop"),
    (F::XSAVE, "XSAVE", "xsave"),
    (F::XSAVEC, "XSAVEC", "xsavec"),
    (F::XSAVEOPT, "XSAVEOPT", "xsaveopt"),
    (F::XSAVES, "XSAVES", "xsaves"),
];

/// Compares the features that an instruction needs with the flags of a CPU, if the flags are known.
pub(super) fn needed_features(
    features: &[F],
    flags: Option<&BTreeSet<String>>,
) -> RequiredFeatures {
    let mut needs = RequiredFeatures::default();
    for feature in features
        .iter()
        .filter(|feature| !EVERYWHERE.contains(feature))
    {
        let row = FLAGS
            .iter()
            .find(|(flag_feature, ..)| flag_feature == feature);
        let name = row.map_or_else(|| format!("{feature:?}"), |(_, name, _)| (*name).to_owned());
        match (row, flags) {
            (Some((_, _, flag)), Some(flags)) if flags.contains(*flag) => {}
            (Some(_), Some(_)) => needs.lacking.push(name.clone()),
            _ => needs.unknown.push(name.clone()),
        }
        needs.features.push(name);
    }
    needs
}
