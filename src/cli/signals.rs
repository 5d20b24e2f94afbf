//! Signals to provoke itself.

use crate::model::Signal;
use crate::sys::signals::is_ignored;
use crate::term;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Signals to provoke itself, as they come.
pub(super) type Signals = mpsc::UnboundedReceiver<Signal>;

/// Listens for signals to provoke itself; the third ends it on the spot, and the
/// slots kill what they run when they see that.
pub(super) fn listen() -> std::io::Result<Signals> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    for (kind, known) in [
        (SignalKind::interrupt(), Signal::INT),
        (SignalKind::terminate(), Signal::TERM),
        (SignalKind::hangup(), Signal::HUP),
    ] {
        // What was ignored when we came, as under nohup, stays so: for the trials too.
        if is_ignored(known.0) {
            continue;
        }
        let (sender, count) = (sender.clone(), Arc::clone(&count));
        let mut signals = signal(kind)?;
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                    0 => term::say(
                        "\nstopping: asking the trials that run to end; once more to kill them",
                    ),
                    1 => term::say("killing the trials that run; once more to leave at once"),
                    _ => leave(known),
                }
                // Even when nobody takes it any more, the count goes on.
                let _ = sender.send(known);
            }
        });
    }
    Ok(receiver)
}

#[expect(clippy::exit, reason = "the user asked three times")]
fn leave(signal: Signal) -> ! {
    std::process::exit(128 + signal.0)
}
