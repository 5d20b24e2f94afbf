//! Runs a command in a slot, three trials in turn, and prints how each of them ended.
//!
//!     cargo run -p provoke-slot --example run_trials -- sh -c 'exit $((PROVOKE_TRIAL % 2))'

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_model::{ActorPlan, ActorRole, LeakRule, SlotId, Text, Trial, TrialId, TrialPurpose};
use provoke_model::{VariantId, VariantPlan};
use provoke_slot::wire::{SlotOrder, SlotReply, VariantRecipe};
use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<Text> = std::env::args_os().skip(1).map(Text::from).collect();
    if words.first() == Some(&Text::from(provoke_slot::COMMAND)) {
        // The process that is started below.
        return Ok(provoke_slot::main(&[])?);
    }
    let mut slot = Command::new(std::env::current_exe()?)
        .arg(provoke_slot::COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut orders, replies) = (slot.stdin.take().unwrap(), slot.stdout.take().unwrap());

    let recipe = recipe_of(words)?;
    let trials: Vec<Trial> = (1..=3).map(new_trial).collect();
    for order in [
        SlotOrder::Learn(VariantId(0), Box::new(recipe)),
        SlotOrder::Run(trials),
    ] {
        writeln!(orders, "{}", serde_json::to_string(&order)?)?;
    }

    for line in BufReader::new(replies).lines() {
        if let SlotReply::Finished(TrialId(number), observation) = serde_json::from_str(&line?)? {
            let main = &observation.actors[0];
            println!("trial {number}: {} after {:?}", main.ending, main.elapsed);
            // A slot keeps the output of a trial that did not pass, so it stops there.
            if number == 3 || !observation.is_plain() {
                break;
            }
        }
    }
    drop(orders); // At the end of its orders, the slot ends.
    slot.wait()?;
    Ok(())
}

fn recipe_of(command: Vec<Text>) -> Result<VariantRecipe, Box<dyn Error>> {
    let actor = ActorPlan {
        name: String::new(),
        role: ActorRole::Main,
        command,
        copies: 1,
        env: Vec::new(),
        cwd: std::env::current_dir()?.into_os_string().into(),
        stdin: None,
        container: None,
    };
    Ok(VariantRecipe {
        variant: VariantPlan {
            actors: vec![actor],
            ..VariantPlan::default()
        },
        environment: std::env::vars_os()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        leaks: LeakRule::Fail,
        ..VariantRecipe::default()
    })
}

fn new_trial(number: u64) -> Trial {
    Trial {
        id: TrialId(number),
        variant: VariantId(0),
        slot: SlotId(0),
        seed: number,
        timeout: Duration::from_secs(10),
        purpose: TrialPurpose::Measure,
        hold: None,
    }
}
