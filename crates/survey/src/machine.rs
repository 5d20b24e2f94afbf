//! Collects facts about the machine: CPU, kernel, memory, limits, container, graphics.

use provoke_model::{Host, Survey};
use provoke_sys::host::{field_of, read_trimmed};
use provoke_sys::{cgroup, host, limits};
use std::fs;
use std::path::Path;

/// Facts in files with a single line.
const LINES: [(&str, &str); 7] = [
    ("kernel.release", "/proc/sys/kernel/osrelease"),
    ("kernel.aslr", "/proc/sys/kernel/randomize_va_space"),
    ("kernel.core_pattern", "/proc/sys/kernel/core_pattern"),
    ("kernel.core_uses_pid", "/proc/sys/kernel/core_uses_pid"),
    ("kernel.ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope"),
    ("kernel.overcommit", "/proc/sys/vm/overcommit_memory"),
    ("gpu.nvidia", "/sys/module/nvidia/version"),
];

/// Facts in fields of files.
const FIELDS: [(&str, &[(&str, &str)]); 4] = [
    (
        "/proc/cpuinfo",
        &[
            ("cpu.model", "model name"),
            ("cpu.microcode", "microcode"),
            ("cpu.flags", "flags"),
            // The name on 64-bit Arm.
            ("cpu.flags", "Features"),
        ],
    ),
    (
        "/proc/meminfo",
        &[("memory.total", "MemTotal"), ("memory.swap", "SwapTotal")],
    ),
    ("/etc/os-release", &[("os", "PRETTY_NAME=")]),
    ("/usr/lib/os-release", &[("os", "PRETTY_NAME=")]),
];

/// Limit of graphics cards.
const CARDS: usize = 32;

pub(super) fn survey_machine(survey: &mut Survey) {
    for (name, file) in LINES {
        survey.set_if(name, read_trimmed(file));
    }
    for (file, fields) in FIELDS {
        let text = fs::read_to_string(file).unwrap_or_default();
        for (name, prefix) in fields {
            if survey.get_fact(name).is_none() {
                let value = field_of(&text, prefix);
                survey.set_if(*name, value.map(|value| value.trim_matches('"').to_owned()));
            }
        }
    }
    survey.set_fact("cpu.count", host::cpu_count().to_string());
    survey.set_if("kernel.thp", huge_pages());
    for (name, soft, hard) in limits::all_limits() {
        let value = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |n| n.to_string());
        let limits = format!("{}/{}", value(soft), value(hard));
        survey.set_fact(format!("limits.{name}"), limits);
    }
    survey.set_if("cgroup.memory.max", cgroup::memory_limit());
    survey.set_if("container", detect_container());
    let (user, group) = host::real_user();
    survey.set_fact("user", format!("{user}/{group}"));
    add_graphics(survey);
}

/// Returns the active setting, which is in brackets.
fn huge_pages() -> Option<String> {
    let modes = read_trimmed("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let (chosen, _) = modes.split_once('[')?.1.split_once(']')?;
    Some(chosen.to_owned())
}

/// Describes the machine on which provoke runs.
pub fn this_host() -> Host {
    let [name, kernel, arch] = host::system_names();
    let read_field = |file, field| field_of(&fs::read_to_string(file).ok()?, field);
    let memory = read_field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    Host {
        name,
        kernel,
        arch,
        cpu: read_field("/proc/cpuinfo", "model name").unwrap_or_default(),
        cpus: host::cpu_count(),
        memory: memory.map_or(0, |kib| kib * 1024),
    }
}

/// Returns the type of the container that this machine is, if it can be detected.
pub fn detect_container() -> Option<String> {
    if let Ok(text) = fs::read_to_string("/run/.containerenv") {
        let image = text.lines().find_map(|line| line.strip_prefix("image="));
        let image = image.map(|image| image.trim_matches('"'));
        return Some(match image.filter(|image| !image.is_empty()) {
            Some(image) => format!("podman, image {image}"),
            None => "podman".to_owned(),
        });
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".to_owned());
    }
    Path::new("/.dockerenv")
        .exists()
        .then(|| "docker".to_owned())
}

/// Returns the name of the machine's time zone.
pub(super) fn time_zone() -> Option<String> {
    let link = fs::read_link("/etc/localtime").ok();
    let name = link.and_then(|link| {
        let link = link.to_str()?.to_owned();
        Some(link.split_once("zoneinfo/")?.1.to_owned())
    });
    name.or_else(|| read_trimmed("/etc/timezone"))
}

fn add_graphics(survey: &mut Survey) {
    let entries = fs::read_dir("/sys/class/drm").into_iter().flatten();
    let names = entries
        .flatten()
        .map(|entry| entry.file_name())
        .filter_map(|name| name.into_string().ok());
    // `card0` is a card, `card0-HDMI-A-1` a connector of it.
    let mut cards: Vec<String> = names
        .filter(|name| name.starts_with("card") && !name.contains('-'))
        .collect();
    cards.sort();
    for card in cards.iter().take(CARDS) {
        let device = Path::new("/sys/class/drm").join(card).join("device");
        let read_attribute = |file: &str| read_trimmed(device.join(file)).unwrap_or_default();
        let driver = fs::read_link(device.join("driver"))
            .ok()
            .and_then(|link| link.file_name()?.to_str().map(str::to_owned));
        let identity = [
            read_attribute("vendor"),
            read_attribute("device"),
            driver.unwrap_or_default(),
        ];
        survey.set_fact(format!("gpu.{card}"), identity.join(" ").trim());
    }
}
