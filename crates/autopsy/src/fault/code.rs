//! Explains faults of instructions: illegal ones, and arithmetic without a result.

use super::super::cpu_features;
use super::super::fault_context::FaultContext;
use super::super::instruction::{self, DecodedInstruction};
use super::fault_of_class;
use iced_x86::{Code, Instruction, Mnemonic};
use provoke_model::{Fault, fault_class};

/// Explains an instruction that the CPU rejected.
pub(super) fn explain_illegal(
    scene: &FaultContext<'_>,
    decoded: Option<&DecodedInstruction>,
) -> Fault {
    let Some(decoded) = decoded else {
        return fault_of_class(fault_class::ILLEGAL, "the code could not be read");
    };
    let Some(instruction) = &decoded.instruction else {
        return no_code(&decoded.bytes);
    };
    match instruction.mnemonic() {
        Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 => fault_of_class(
            fault_class::DELIBERATE,
            "the compiler or a library placed it there, in unreachable code or after a failed check; the CPU is not the cause",
        ),
        _ => explain_lacking(scene, instruction),
    }
}

fn no_code(bytes: &[u8]) -> Fault {
    let hex_bytes: Vec<String> = bytes
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let detail = format!(
        "jumped into data, or the code is damaged: {}",
        hex_bytes.join(" ")
    );
    fault_of_class(fault_class::NO_CODE, &detail)
}

/// Explains a valid instruction that not every CPU has.
fn explain_lacking(scene: &FaultContext<'_>, instruction: &Instruction) -> Fault {
    let needs = cpu_features::needed_features(instruction.cpuid_features(), scene.processor);
    let text = instruction::format_instruction(instruction);
    let name = text.split(' ').next().unwrap_or_default();
    if let Some(lacks) = needs.lacking.first() {
        let names = needs.lacking.join(" and ");
        return Fault {
            lacks: Some(names.clone()),
            ..fault_of_class(
                &format!("{}{lacks}", fault_class::NEEDS),
                &format!("{name} needs {names}; this CPU lacks it"),
            )
        };
    }
    if let Some(feature) = needs.unknown.first() {
        return fault_of_class(
            &format!("{}{feature}", fault_class::NEEDS),
            &format!(
                "{name} needs {} (cannot check)",
                needs.unknown.join(" and ")
            ),
        );
    }
    let has = match needs.features.join(" and ") {
        names if names.is_empty() => "every x86-64 CPU has it".to_owned(),
        names => format!("it needs {names}, which this CPU has"),
    };
    fault_of_class(
        fault_class::ILLEGAL,
        &format!("{has}: an invalid form of it, or an emulator or the system forbids it"),
    )
}

/// Explains a division without a representable quotient.
pub(super) fn explain_division(
    scene: &FaultContext<'_>,
    decoded: Option<&DecodedInstruction>,
) -> Fault {
    let decoded_instruction = decoded.and_then(|instruction| instruction.instruction.as_ref());
    let divisor = decoded_instruction
        .filter(|instruction| matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv))
        .and_then(|instruction| instruction::operand_value(instruction, 0, scene));
    match divisor {
        Some(0) => fault_of_class(fault_class::DIVISION_BY_ZERO, "the divisor is 0"),
        Some(_) => fault_of_class(
            fault_class::DIVISION_OVERFLOW,
            "the divisor is not 0, but the quotient does not fit: the smallest number divided by -1",
        ),
        None => fault_of_class(fault_class::DIVISION, "the divisor is not known"),
    }
}

/// Explains a breakpoint instruction; the instruction pointer is behind it.
pub(super) fn explain_breakpoint(scene: &FaultContext<'_>) -> Fault {
    let previous = scene.registers.rip.wrapping_sub(1);
    let decoded = instruction::decode_at(scene.memory, previous);
    let breakpoint = decoded
        .and_then(|instruction| instruction.instruction)
        .filter(|instruction| instruction.code() == Code::Int3);
    let Some(instruction) = breakpoint else {
        return fault_of_class(fault_class::TRAP, "a trap without a debugger");
    };
    Fault {
        instruction: Some(instruction::format_instruction(&instruction)),
        ..fault_of_class(
            fault_class::BREAKPOINT,
            "int3: a failed check of the program, or a breakpoint without a debugger",
        )
    }
}
