//! Tests that damaged cores give an answer or an error quickly.

use super::victims::{Lab, TWO_THREADS};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use provoke_autopsy::{CoreError, Examiner, ExaminerSettings, core_owner};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The headers and notes of a small core end before this offset.
const FRONT: u64 = 16 << 10;

fn small_core(lab: &Lab) -> Vec<u8> {
    let program = lab.compile("two", "two.c", TWO_THREADS, &["-pthread"]);
    fs::read(lab.core(&program, &[], &[])).unwrap()
}

#[test]
fn a_truncated_core_is_read_up_to_its_end() {
    let lab = Lab::new();
    let whole = small_core(&lab);
    let path = lab.path("cut");
    let mut examiner = Examiner::new(ExaminerSettings::default());
    let early = (0..2000).step_by(37);
    let lengths: Vec<usize> = early.chain((2000..whole.len()).step_by(5003)).collect();
    let mut read = 0;
    for length in lengths {
        fs::write(&path, &whole[..length]).unwrap();
        if let Ok(autopsy) = examiner.examine_core(&path) {
            read += 1;
            assert!(
                autopsy.gaps.iter().any(|gap| gap.contains("cut short")),
                "{length}"
            );
            assert!(core_owner(&path).unwrap().truncated);
        }
    }
    // The kernel writes its notes first; debuggers write them last, so a cut core has none.
    let notes = u64::from_le_bytes(whole[72..80].try_into().unwrap());
    assert!(notes > FRONT || read > 20);
}

#[test]
fn damaged_cores_do_not_crash_or_hang_the_reader() {
    let lab = Lab::new();
    let whole = small_core(&lab);
    let path = lab.path("damaged");
    fs::write(&path, &whole).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut examiner = Examiner::new(ExaminerSettings::default());
    let mut read = 0;
    for number in 0..3000_u32 {
        let range = if number % 4 == 0 {
            whole.len() as u64
        } else {
            FRONT
        };
        let mut places = Vec::new();
        for _ in 0..=random.next_u32() % 4 {
            let at = random.next_u64() % range;
            let extremes = [0, 1, 0x7f, 0x80, 0xff];
            let byte = match random.next_u32() % 3 {
                0 => extremes[random.next_u32() as usize % extremes.len()],
                1 => whole[usize::try_from(at).unwrap()] ^ (1 << (random.next_u32() % 8)),
                _ => random.next_u32().to_le_bytes()[0],
            };
            file.write_all_at(&[byte], at).unwrap();
            places.push(at);
        }
        read += u32::from(examiner.examine_core(&path).is_ok());
        for at in places {
            let at = usize::try_from(at).unwrap();
            file.write_all_at(&whole[at..=at], at as u64).unwrap();
        }
    }
    assert!(read > 1000, "{read}");
}

#[test]
fn a_file_that_is_not_a_core_is_refused_with_a_reason() {
    let lab = Lab::new();
    let error_of = |path: &Path| {
        let mut examiner = Examiner::new(ExaminerSettings::default());
        let error = examiner.examine_core(path).unwrap_err();
        assert_eq!(error.to_string(), core_owner(path).unwrap_err().to_string());
        error
    };
    let path = lab.path("text");
    fs::write(&path, "hello").unwrap();
    assert!(matches!(error_of(&path), CoreError::NoCore { .. }));
    fs::write(&path, "").unwrap();
    assert!(error_of(&path).to_string().contains("it is empty"));
    let program = error_of(Path::new("/proc/self/exe")).to_string();
    assert!(program.contains("a program or a library"), "{program}");
    assert!(matches!(
        error_of(&lab.path("none")),
        CoreError::Unreadable { .. }
    ));
    assert!(matches!(
        error_of(Path::new("/dev/zero")),
        CoreError::Unreadable { .. }
    ));
}

#[test]
fn a_core_of_another_architecture_names_its_process() {
    let lab = Lab::new();
    let mut bytes = small_core(&lab);
    bytes[18] = 183;
    let path = lab.path("foreign");
    fs::write(&path, &bytes).unwrap();
    let autopsy = Examiner::new(ExaminerSettings::default())
        .examine_core(&path)
        .unwrap();
    assert!(autopsy.gaps[0].contains("aarch64"), "{:?}", autopsy.gaps);
    assert_eq!(autopsy.crash.program, "two");
    let owner = core_owner(&path).unwrap();
    assert_eq!((owner.pid, owner.signal), (autopsy.crash.pid, 11));
}
