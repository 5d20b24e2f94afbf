//! Table of crash messages without variable parts.

use super::{MessageMeaning, normalise_line};

/// A type of message.
pub(super) struct MessageType {
    pub(super) kind: &'static str,
    words: &'static str,
    family: Option<&'static str>,
    rank: u8,
}

impl MessageType {
    const fn new(rank: u8, kind: &'static str, words: &'static str) -> Self {
        Self {
            kind,
            words,
            family: None,
            rank,
        }
    }

    const fn of_heap(kind: &'static str, words: &'static str) -> Self {
        Self {
            kind,
            words,
            family: Some("heap"),
            rank: 1,
        }
    }

    /// Makes a tell of this type.
    pub(super) fn make_tell(&self, detail: impl Into<String>) -> MessageMeaning {
        let detail = detail.into();
        MessageMeaning {
            kind: self.kind,
            words: self.words,
            family: self.family,
            message: detail.clone(),
            detail,
            parts: Vec::new(),
            rank: self.rank,
        }
    }

    /// Makes a tell of this type with a message in prose, whose numbers and paths may differ between trials.
    pub(super) fn make_prose_tell(&self, message: &str) -> MessageMeaning {
        MessageMeaning {
            message: message.trim().to_owned(),
            ..self.make_tell(normalise_line(message))
        }
    }
}

pub(super) const SANITIZER: MessageType =
    MessageType::new(0, "sanitizer", "a sanitizer found an error");
pub(super) const FAILED_TEST: MessageType = MessageType::new(0, "test", "a test failed");
pub(super) const GO_RACE: MessageType = MessageType::new(
    0,
    "go race",
    "two goroutines used the same memory without synchronization",
);
pub(super) const DOUBLE_FREE: MessageType =
    MessageType::of_heap("double free", "memory was freed twice");
pub(super) const BAD_FREE: MessageType =
    MessageType::of_heap("bad free", "memory was freed that was not allocated");
pub(super) const HEAP: MessageType = MessageType::of_heap(
    "heap corruption",
    "an earlier write damaged the heap; the stack shows where that was found, not its cause",
);
pub(super) const OVERFLOW: MessageType =
    MessageType::new(1, "overflow", "a write past the end of a buffer");
pub(super) const ASSERT: MessageType =
    MessageType::new(2, "assert", "an assertion in the code failed");
pub(super) const C_LIBRARY: MessageType =
    MessageType::new(2, "c library", "the C library detected an error");
pub(super) const PURE_VIRTUAL: MessageType = MessageType::new(
    2,
    "pure virtual",
    "an object was used while it was being constructed or destroyed",
);
pub(super) const JVM: MessageType =
    MessageType::new(2, "jvm", "the Java virtual machine itself crashed");
pub(super) const NODE_HEAP: MessageType =
    MessageType::new(2, "node heap", "the JavaScript heap reached its limit");
pub(super) const CXX_EXCEPTION: MessageType =
    MessageType::new(3, "c++ exception", "a C++ exception was not caught");
pub(super) const RUST_OVERFLOW: MessageType = MessageType::new(
    3,
    "rust stack overflow",
    "a thread of a Rust program overflowed its stack",
);
pub(super) const GO: MessageType =
    MessageType::new(3, "go", "the Go runtime detected a fatal error");
pub(super) const RUST_PANIC: MessageType = MessageType::new(4, "rust panic", "a thread panicked");
pub(super) const CXX_TERMINATE: MessageType = MessageType::new(
    4,
    "c++ terminate",
    "terminated without an exception: perhaps a joinable std::thread was destroyed",
);
pub(super) const JAVA_EXCEPTION: MessageType =
    MessageType::new(5, "java exception", "a Java exception was not caught");
pub(super) const JAVASCRIPT: MessageType = MessageType::new(
    5,
    "javascript exception",
    "a JavaScript exception was not caught",
);
pub(super) const PYTHON_FATAL: MessageType = MessageType::new(
    5,
    "python fatal",
    "the Python interpreter detected a fatal error",
);
pub(super) const PYTHON_EXCEPTION: MessageType =
    MessageType::new(6, "python exception", "a Python exception was not caught");

/// A text in a line, and its type.
pub(super) struct MessageText {
    pub(super) text: &'static str,
    pub(super) sort: &'static MessageType,
}

const fn make_row(text: &'static str, sort: &'static MessageType) -> MessageText {
    MessageText { text, sort }
}

/// The first matching row counts, so longer texts must precede shorter ones.
pub(super) const FIXED: &[MessageText] = &[
    // glibc's malloc.
    make_row("double free or corruption", &DOUBLE_FREE),
    make_row("free(): double free detected", &DOUBLE_FREE),
    make_row("block freed twice", &DOUBLE_FREE),
    make_row("free(): invalid pointer", &BAD_FREE),
    make_row("munmap_chunk(): invalid pointer", &BAD_FREE),
    make_row("mremap_chunk(): invalid pointer", &BAD_FREE),
    make_row("realloc(): invalid pointer", &BAD_FREE),
    make_row("free(): ", &HEAP),
    make_row("malloc(): ", &HEAP),
    make_row("realloc(): ", &HEAP),
    make_row("malloc_consolidate(): ", &HEAP),
    make_row("tcache_thread_shutdown(): ", &HEAP),
    make_row("corrupted size vs. prev_size", &HEAP),
    make_row("corrupted double-linked list", &HEAP),
    make_row("smallbin double linked list corrupted", &HEAP),
    make_row("largebin double linked list corrupted", &HEAP),
    make_row("unsorted double linked list corrupted", &HEAP),
    make_row("unaligned fastbin chunk detected", &HEAP),
    make_row("break adjusted to free malloc space", &HEAP),
    make_row("malloc assertion failure in", &HEAP),
    make_row("malloc: top chunk is corrupt", &HEAP),
    make_row("memory clobbered before allocated block", &HEAP),
    make_row("memory clobbered past end of allocated block", &HEAP),
    // Other allocators.
    make_row("] Attempt to free invalid pointer", &BAD_FREE),
    make_row("<jemalloc>: size mismatch detected", &HEAP),
    make_row("mimalloc: error: double free detected", &DOUBLE_FREE),
    make_row("mimalloc: error: corrupted", &HEAP),
    make_row("mimalloc: error: buffer overflow", &HEAP),
    // glibc's other checks.
    make_row("*** stack smashing detected ***", &OVERFLOW),
    make_row("*** buffer overflow detected ***", &OVERFLOW),
    make_row("*** bit out of range 0 - FD_SETSIZE", &OVERFLOW),
    make_row("*** longjmp causes uninitialized stack frame", &C_LIBRARY),
    make_row("*** %n in writable segment", &C_LIBRARY),
    make_row("*** invalid %N$ use detected", &C_LIBRARY),
    make_row("*** invalid open call", &C_LIBRARY),
    make_row("*** invalid openat", &C_LIBRARY),
    make_row(
        "The futex facility returned an unexpected error",
        &C_LIBRARY,
    ),
    make_row("glibc detected an invalid stdio handle", &C_LIBRARY),
    make_row("FATAL: exception not rethrown", &C_LIBRARY),
    make_row("libgcc_s.so.1 must be installed for", &C_LIBRARY),
    // C++.
    make_row("pure virtual method called", &PURE_VIRTUAL),
    make_row("deleted virtual method called", &PURE_VIRTUAL),
    make_row("Pure virtual function called!", &PURE_VIRTUAL),
    make_row(
        "terminate called without an active exception",
        &CXX_TERMINATE,
    ),
    make_row("terminate called recursively", &CXX_TERMINATE),
    // Runtimes.
    make_row("JavaScript heap out of memory", &NODE_HEAP),
    make_row("has overflowed its stack", &RUST_OVERFLOW),
];
