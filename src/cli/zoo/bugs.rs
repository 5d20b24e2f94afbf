//! The bugs that `provoke zoo` lists, with their files.

/// A small program that fails only sometimes.
pub(super) struct Bug {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// The question that its command answers.
    pub(super) question: &'static str,
    /// Builds the program, and runs provoke; in the directory of the files.
    pub(super) command: &'static str,
    /// The commands that follow, in their order: they apply the fix and confirm it.
    pub(super) next: &'static [&'static str],
    /// The names and the texts of its files.
    pub(super) files: &'static [(&'static str, &'static str)],
}

/// Returns the files of a bug with their texts.
macro_rules! files {
    ($bug:literal: $($name:literal),+) => {
        &[$(($name, include_str!(concat!("../../../examples/zoo/", $bug, "/", $name)))),+]
    };
}

/// All bugs, in the order of the list.
pub(super) const BUGS: [Bug; 12] = [
    Bug {
        name: "deadlock",
        description: "two threads take two mutexes in different orders",
        question: "Why does it hang?",
        command: "cc -g -pthread deadlock.c -o deadlock && provoke run -n 8 --seed 1 -- ./deadlock",
        next: &["patch <fix.patch && cc -g -pthread deadlock.c -o deadlock && provoke confirm"],
        files: files!("deadlock": "deadlock.c", "fix.patch"),
    },
    Bug {
        name: "python-threads",
        description: "two threads of Python take two locks in different orders",
        question: "Which lines of Python wait for each other?",
        command: "provoke run -n 6 -t 3s --seed 1 -- python3 transfer.py",
        next: &["patch <fix.patch && provoke confirm"],
        files: files!("python-threads": "transfer.py", "fix.patch"),
    },
    Bug {
        name: "race",
        description: "two threads change a number without a lock",
        question: "Which lines race, if it almost never fails?",
        command: "cc -g -pthread race.c -o race && provoke hunt --seed 1 -- ./race",
        next: &["patch <fix.patch && cc -g -pthread race.c -o race && provoke confirm --held last"],
        files: files!("race": "race.c", "fix.patch"),
    },
    Bug {
        name: "file-race",
        description: "two processes use one temporary file",
        question: "Which lines of two processes race?",
        command: "cc -g publish.c -o publish && provoke hunt --seed 1 -- ./publish {dir}",
        next: &["patch <fix.patch && cc -g publish.c -o publish && provoke confirm --held last"],
        files: files!("file-race": "publish.c", "fix.patch"),
    },
    Bug {
        name: "heap-corruption",
        description: "a string is longer than its block",
        question: "Which line damages the heap?",
        command: "cc -g label.c -o plain && cc -g -fsanitize=address label.c -o checked && \
                  provoke run -n 20 --seed 1 -L build=checked,plain -- ./{build}",
        next: &[
            "patch <fix.patch && cc -g -fsanitize=address label.c -o checked && provoke confirm --of build=checked",
        ],
        files: files!("heap-corruption": "label.c", "fix.patch"),
    },
    Bug {
        name: "half-fix",
        description: "a fix removes one of two causes of a crash",
        question: "Is it fixed, or only rarer?",
        command: "cc -g settings.c -o settings && provoke run -n 40 --seed 1 -- ./settings",
        next: &[
            "patch <half.patch && cc -g settings.c -o settings && provoke confirm --seed 1",
            "patch <fix.patch && cc -g settings.c -o settings && provoke confirm",
        ],
        files: files!("half-fix": "settings.c", "half.patch", "fix.patch"),
    },
    Bug {
        name: "leaked-daemon",
        description: "a test leaves a process behind",
        question: "Which processes outlive the test?",
        command: "provoke run -n 20 --leak-grace 50ms --seed 1 -- sh test.sh",
        next: &["patch <fix.patch && provoke confirm"],
        files: files!("leaked-daemon": "test.sh", "fix.patch"),
    },
    Bug {
        name: "order",
        description: "a test fails only after another one",
        question: "Which test of a suite is flaky, and after which other?",
        command: "provoke run --cases --shuffle -n 12 --seed 1 -- python3 -m pytest -q",
        next: &[
            "provoke reduce --polluters last --only test:test_prices.py::test_total",
            "provoke why --cases --try order=reverse,tz,locale=C --seed 1 -- python3 -m pytest -q",
            "patch <fix.patch && provoke confirm --only test:test_prices.py::test_total",
        ],
        files: files!("order": "test_prices.py", "fix.patch"),
    },
    Bug {
        name: "deadline",
        description: "a deadline is too short for a busy machine",
        question: "Does it fail only under load?",
        command: "cc -g deadline.c -o deadline && provoke scenario load.toml --seed 1",
        next: &[
            "provoke why --try copies=30,tz,fds,umask,slow-sync --seed 1 -- ./deadline",
            "patch <fix.patch && cc -g deadline.c -o deadline && provoke confirm --of crowded",
        ],
        files: files!("deadline": "deadline.c", "load.toml", "fix.patch"),
    },
    Bug {
        name: "date",
        description: "a licence for tests expires",
        question: "Under which conditions does it fail?",
        command: "provoke why --try date,tz,locale --seed 1 -- python3 test_licence.py",
        next: &[
            "patch <fix.patch && provoke confirm --baseline 6/6 --under date=2039-06-15 -- python3 test_licence.py",
        ],
        files: files!("date": "test_licence.py", "fix.patch"),
    },
    Bug {
        name: "retry",
        description: "a request is sent twice if its answer is late",
        question: "What do failing runs do differently?",
        command: "cc -g -pthread payment.c -o payment && provoke differ --seed 1 -- ./payment",
        next: &[
            "patch <fix.patch && cc -g -pthread payment.c -o payment && provoke confirm --baseline last",
        ],
        files: files!("retry": "payment.c", "fix.patch"),
    },
    Bug {
        name: "server",
        description: "a server has too few database connections",
        question: "At which concurrency does it crash?",
        command: "provoke load http://127.0.0.1:18780/ -c 1..8 --requests 20 --warm-requests 1 \
                  --quiet-time 50ms --seed 1 -- python3 server.py 18780",
        next: &[
            "patch -o fixed.py server.py fix.patch && provoke load http://127.0.0.1:18780/ -c 5 --requests 20 --warm-requests 1 --quiet-time 50ms --seed 1 --serve 'python3 server.py 18780' --fixed 'python3 fixed.py 18780'",
        ],
        files: files!("server": "server.py", "fix.patch"),
    },
];
