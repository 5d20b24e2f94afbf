//! Explains a core file: `explain CORE`.

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_autopsy::{Examiner, ExaminerSettings};
use provoke_model::{Autopsy, Frame};
use provoke_words::untrusted::SafeText;
use std::fmt::Write as _;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let core = std::env::args().nth(1).ok_or("usage: explain CORE")?;
    let mut examiner = Examiner::new(ExaminerSettings::default());
    let autopsy = examiner.examine_core(Path::new(&core))?;
    let text = describe(&autopsy)?;
    // A core contains names that somebody else chose.
    println!("{}", SafeText::from_lines(&text));
    Ok(())
}

fn describe(autopsy: &Autopsy) -> Result<String, std::fmt::Error> {
    let crash = &autopsy.crash;
    let mut text = String::new();
    match crash.signal {
        Some(signal) => writeln!(text, "{} ({}): {signal}", crash.program, crash.pid)?,
        None => writeln!(text, "{} ({})", crash.program, crash.pid)?,
    }
    writeln!(text, "fault: {}: {}", crash.fault.class, crash.fault.detail)?;
    if let Some(instruction) = &crash.fault.instruction {
        writeln!(text, "instruction: {instruction}")?;
    }
    if let Some(message) = &crash.abort {
        writeln!(text, "message: {}", message.trim())?;
    }
    for thread in &autopsy.threads {
        writeln!(text, "\nthread {} {}", thread.tid, thread.name)?;
        for frame in &thread.frames {
            writeln!(text, "  {}", describe_frame(frame))?;
        }
        if let Some(reason) = &thread.cut {
            writeln!(text, "  the stack ends here: {reason}")?;
        }
    }
    for gap in &autopsy.gaps {
        writeln!(text, "\nunknown: {gap}")?;
    }
    Ok(text.trim_end().to_owned())
}

fn describe_frame(frame: &Frame) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    let place = match (&frame.line, &frame.module) {
        (Some((file, line)), _) => format!("{file}:{line}"),
        (None, Some(module)) => format!("{module}+{:#x}", frame.offset),
        (None, None) => format!("{:#x}", frame.offset),
    };
    let repeated = match frame.repeated {
        0 => String::new(),
        count => format!(" ({count} more)"),
    };
    format!("{function} at {place}{repeated}")
}
