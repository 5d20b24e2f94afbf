//! Handles signals to provoke itself.

use crate::term;
use provoke_model::Signal;
use provoke_sys::signals::is_ignored;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Signals to provoke itself, in order of arrival.
pub(super) type Signals = mpsc::UnboundedReceiver<Signal>;

/// Number of signals so far.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns whether a signal arrived.
pub(super) fn signal_came() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Listens for signals to provoke itself; the third ends it immediately, and the slots then kill their trials.
pub(super) fn listen_for_signals() -> std::io::Result<Signals> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for (kind, known) in [
        (SignalKind::interrupt(), Signal::INT),
        (SignalKind::terminate(), Signal::TERM),
        (SignalKind::hangup(), Signal::HUP),
    ] {
        // Signals that were ignored at the start, as under nohup, stay ignored, in trials as well.
        if is_ignored(known.0) {
            continue;
        }
        let sender = sender.clone();
        let mut signals = signal(kind)?;
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                match COUNT.fetch_add(1, Ordering::Relaxed) {
                    0 => term::print_message(
                        "\nstopping running trials; press Ctrl-C again to kill them",
                    ),
                    1 => {
                        term::print_message(
                            "killing running trials; press Ctrl-C again to exit immediately",
                        );
                    }
                    _ => leave_with_signal(known),
                }
                // The count continues even without a receiver.
                let _ = sender.send(known);
            }
        });
    }
    Ok(receiver)
}

#[expect(clippy::exit, reason = "the user asked three times")]
fn leave_with_signal(signal: Signal) -> ! {
    std::process::exit(128 + signal.0)
}
