//! Compiles programs that crash, and captures their cores.

use provoke_autopsy::{Examiner, ExaminerSettings};
use provoke_model::{Autopsy, Frame};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory with programs and cores.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles one source file; its extension determines the language.
    pub(crate) fn compile(
        &self,
        program: &str,
        file: &str,
        source: &str,
        flags: &[&str],
    ) -> PathBuf {
        fs::write(self.path(file), source).unwrap();
        let compiler = match file.rsplit_once('.').unwrap().1 {
            "c" => "cc",
            "cc" => "g++",
            _ => "rustc",
        };
        let mut command = Command::new(compiler);
        command.current_dir(self.folder.path());
        command.args([file, "-o", program]).args(flags);
        succeed(&mut command);
        self.path(program)
    }

    pub(crate) fn run(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(program);
        succeed(command.args(args).current_dir(self.folder.path()));
    }

    /// Runs a program until it crashes, and returns its core.
    pub(crate) fn core(&self, program: &Path, args: &[&str], env: &[(&str, &str)]) -> PathBuf {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap().keep();
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
        let plain = !pattern.contains('/') && !pattern.contains('|');
        let mut command = if plain {
            let mut shell = Command::new("sh");
            shell.args(["-c", "ulimit -c unlimited && exec \"$0\" \"$@\""]);
            shell
        } else {
            // The kernel passes cores to another program here; a debugger can write them as well.
            let mut debugger = Command::new("gdb");
            debugger.args(["-batch", "-ex", "run", "-ex", "generate-core-file core"]);
            if env.iter().any(|(name, _)| *name == "ABORT") {
                debugger.args(["-iex", "handle SIGSEGV nostop noprint pass"]);
            }
            debugger.arg("--args");
            debugger
        };
        command.arg(program).args(args).current_dir(&folder);
        command.env_remove("PYTHONFAULTHANDLER");
        command.envs(env.iter().copied());
        command.stdin(Stdio::null());
        let output = command.output().unwrap();
        let mut cores = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        cores.next().unwrap_or_else(|| {
            panic!(
                "{} left no core: {} {}",
                program.display(),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
}

pub(crate) fn examined(core: &Path) -> Autopsy {
    Examiner::new(ExaminerSettings::default())
        .examine_core(core)
        .unwrap()
}

/// Returns the functions of these frames, or the offset in the file of a frame without a name.
pub(crate) fn functions(frames: &[Frame]) -> Vec<String> {
    let name = |frame: &Frame| match (&frame.function, &frame.module) {
        (Some(function), _) => function.clone(),
        (None, Some(module)) => format!("{module}+{:#x}", frame.offset),
        (None, None) => "?".to_owned(),
    };
    frames.iter().map(name).collect()
}

/// Returns whether these functions call each other, innermost first.
pub(crate) fn calls(frames: &[Frame], wanted: &[&str]) -> bool {
    let functions = functions(frames);
    functions.windows(wanted.len()).any(|part| part == wanted)
}

pub(crate) const TWO_THREADS: &str = r"
#include <pthread.h>
#include <unistd.h>
struct thing { long a, b, c; };
__attribute__((noinline)) static long helper(struct thing *t) { return t->c; }
__attribute__((noinline)) static void *work(void *t) { helper(t); return t; }
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, work, 0);
    pthread_join(other, 0);
}
";

pub(crate) const OVERFLOW: &str = r"
__attribute__((noinline)) int rec(volatile int *n) { volatile int m = *n + 1; return rec(&m) + 1; }
int main(void) { volatile int n = 0; return rec(&n); }
";

pub(crate) const DOUBLE_FREE: &str = r"
#include <stdlib.h>
__attribute__((noinline)) static void twice(char *p) { free(p); free(p); }
int main(void) { twice(malloc(4000)); twice(malloc(40)); return 0; }
";

pub(crate) const THROW: &str = r#"
#include <stdexcept>
namespace app { struct Engine {
    __attribute__((noinline)) void run(int depth) {
        if (depth > 2) throw std::runtime_error("no fuel");
        run(depth + 1);
    }
}; }
int main() { app::Engine().run(0); }
"#;

pub(crate) const TEMPLATES: &str = r"
#include <vector>
namespace app {
template <typename T> struct Box { T *value; inline T get() const { return *value; } };
template <typename T> __attribute__((noinline)) T sum(const std::vector<Box<T>> &all) {
    T total = 0;
    for (const auto &one : all) total += one.get();
    return total;
}
}
int main() {
    std::vector<app::Box<long>> all(2, app::Box<long>{nullptr});
    return (int)app::sum(all);
}
";

pub(crate) const RUST: &str = r#"
mod engine {
    #[inline(never)]
    pub fn run(fuel: &[u32], at: usize) -> u32 { fuel[at] }
}
fn main() { println!("{}", engine::run(&[1, 2], std::env::args().count() + 5)); }
"#;

/// A signal handler that raises the signal again, like the handlers of many runtimes.
pub(crate) const HANDLER: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static int helper(int *p) { return p[4]; }
__attribute__((noinline)) static int outer(int *p) { return helper(p) + 1; }
static void farewell(int number) {
    (void)!write(2, "farewell\n", 9);
    signal(number, SIG_DFL);
    if (getenv("ABORT")) abort();
    raise(number);
}
int main(int argc, char **argv) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = farewell;
    if (argc > 1 && !strcmp(argv[1], "nodefer")) action.sa_flags = SA_NODEFER;
    if (argc > 1 && !strcmp(argv[1], "own-stack")) {
        static char stack[65536];
        stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
        sigaltstack(&other, 0);
        action.sa_flags = SA_NODEFER | SA_ONSTACK;
    }
    if (argc > 1) sigaction(SIGSEGV, &action, 0);
    return outer(0);
}
"#;

pub(crate) const AT_EXIT: &str = r"
#include <stdlib.h>
static void goodbye(void) { *(volatile int *)0 = 1; }
int main(void) { atexit(goodbye); return 0; }
";

pub(crate) const BEFORE_MAIN: &str = r"
__attribute__((constructor)) static void early(void) { *(volatile int *)0 = 1; }
int main(void) { return 0; }
";

pub(crate) const NULL_CALL: &str = r"
__attribute__((noinline)) static int dispatch(int (*volatile f)(void)) { return f() + 1; }
int main(void) { return dispatch(0) + 1; }
";

/// Crashes in a function that generated code calls. With `-DBARE`, this code has no frame pointer, and with `-DDATA`, the frame
/// pointer leads to a code address that follows no call.
pub(crate) const GENERATED: &str = r"
#include <string.h>
#include <sys/mman.h>
typedef int (*generated)(int (*)(int), int);
__attribute__((noinline)) static int crash(int a) { return *(volatile int *)8 + a; }
__attribute__((noinline)) static int callback(int a) { return crash(a) + 1; }
__attribute__((noinline)) static int run(generated code) { return code(callback, 3) + 1; }
int main(void) {
#ifdef BARE
  /* xor ebp,ebp; sub rsp,8; mov rax,rdi; call rax */
  static const unsigned char code[] = {0x31,0xed,0x48,0x83,0xec,8,0x48,0x89,0xf8,0xff,0xd0,0xcc};
#elif defined DATA
  /* push rdi; push rdi; mov rbp,rsp; sub rsp,8; mov rax,rdi; call rax */
  static const unsigned char code[] = {0x57,0x57,0x48,0x89,0xe5,0x48,0x83,0xec,8,0x48,0x89,0xf8,0xff,0xd0,0xcc};
#else
  /* push rbp; mov rbp,rsp; sub rsp,16; mov rax,rdi; mov edi,esi; call rax; leave; ret */
  static const unsigned char code[] = {0x55,0x48,0x89,0xe5,0x48,0x83,0xec,16,0x48,0x89,0xf8,0x89,0xf7,0xff,0xd0,0xc9,0xc3};
#endif
  void *memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(memory, code, sizeof code);
  return run((generated)memory) + 1;
}
";

pub(crate) const INLINED: &str = r"
static inline __attribute__((always_inline)) int deepest(int *p) { return *p; }
static inline __attribute__((always_inline)) int middle(int *p) { return deepest(p) + 1; }
__attribute__((noinline)) int outer(int *p) { return middle(p) * 2; }
int main(int argc, char **argv) { (void)argv; return outer((int *)(long)(argc - 1)); }
";

pub(crate) const QSORT: &str = r"
#include <stdlib.h>
static int compare(const void *a, const void *b) { (void)a; (void)b; return *(volatile int *)8; }
int main(void) { int all[] = {3, 1, 2}; qsort(all, 3, sizeof *all, compare); return all[0]; }
";
