//! Tests cores of running processes, which have little memory and no signal.

use super::victims::{Lab, TWO_THREADS, calls, examined, functions};
use provoke_autopsy::core_owner;
use provoke_model::{Fault, ProcessPhase};
use std::fs;

const SIGINFO: u32 = 0x5349_4749;
const PRSTATUS: u32 = 1;

fn number(bytes: &[u8], at: usize, size: usize) -> usize {
    let mut word = [0; 8];
    word[..size].copy_from_slice(&bytes[at..at + size]);
    usize::from_le_bytes(word)
}

/// Makes a core like that of a running process: of the memory, it contains only the stacks.
fn core_of_running_process(whole: &[u8]) -> Vec<u8> {
    let headers: Vec<&[u8]> = whole[number(whole, 32, 8)..]
        .chunks(56)
        .take(number(whole, 56, 2))
        .collect();
    let content = |header: &[u8]| {
        let at = number(header, 8, 8);
        whole[at..at + number(header, 32, 8)].to_vec()
    };
    let mut notes = content(headers[0]);
    let (mut at, mut stacks) = (0, Vec::new());
    while at < notes.len() {
        let padded = |size: usize| size.next_multiple_of(4);
        let body = at + 12 + padded(number(&notes, at, 4));
        let next = body + padded(number(&notes, at + 4, 4));
        match u32::try_from(number(&notes, at + 8, 4)).unwrap() {
            SIGINFO => notes[at + 8..at + 12].fill(0),
            PRSTATUS => {
                notes[body..body + 14].fill(0);
                stacks.push(number(&notes, body + 112 + 19 * 8, 8));
            }
            _ => {}
        }
        at = next;
    }
    let is_stack = |header: &&&[u8]| {
        let start = number(header, 16, 8);
        let range = start..start + number(header, 40, 8);
        stacks.iter().any(|stack| range.contains(stack))
    };
    let loads = headers[1..].iter().filter(is_stack);
    let mut parts = vec![(headers[0].to_vec(), notes)];
    parts.extend(loads.map(|header| (header.to_vec(), content(header))));
    let mut offset = 64 + 56 * parts.len();
    let mut core = whole[..64].to_vec();
    core[32..40].copy_from_slice(&64_u64.to_le_bytes());
    core[56..58].copy_from_slice(&u16::try_from(parts.len()).unwrap().to_le_bytes());
    for (header, content) in &mut parts {
        header[8..16].copy_from_slice(&offset.to_le_bytes());
        header[32..40].copy_from_slice(&content.len().to_le_bytes());
        offset += content.len();
        core.extend_from_slice(header);
    }
    core.extend(parts.into_iter().flat_map(|(_, content)| content));
    core
}

#[test]
fn stacks_of_a_running_process_are_read_without_other_memory() {
    let lab = Lab::new();
    let program = lab.compile("two", "two.c", TWO_THREADS, &["-g", "-pthread"]);
    let whole = fs::read(lab.core(&program, &[], &[])).unwrap();
    let path = lab.path("living");
    fs::write(&path, core_of_running_process(&whole)).unwrap();
    let autopsy = examined(&path);
    let crash = &autopsy.crash;
    assert_eq!(crash.signal, None);
    assert_eq!(crash.fault, Fault::default());
    assert_eq!(crash.phase, ProcessPhase::Run);
    assert!(calls(&crash.frames, &["helper", "work"]), "{autopsy:#?}");
    assert!(functions(&autopsy.threads[1].frames).contains(&"main".to_owned()));
    assert!(autopsy.threads.iter().all(|thread| thread.cut.is_none()));
    assert_eq!(autopsy.gaps, [""; 0]);
    assert_eq!(core_owner(&path).unwrap().signal, 0);
}
