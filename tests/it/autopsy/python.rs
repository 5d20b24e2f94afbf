//! Tests cores of Python with a C extension that crashes.

use super::victims::{Lab, calls, examined, functions};
use crate::needs::{needs, python_headers};
use provoke_model::{Crash, ProcessPhase};
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = r#"
#include <Python.h>
#include <pthread.h>
#include <stdlib.h>
__attribute__((noinline)) static int c_inner(int *p) { return p[8]; }
static PyObject *crash(PyObject *self, PyObject *args) { return PyLong_FromLong(c_inner(0)); }
static void *worker(void *p) { return (void *)(long)c_inner(p); }
static PyObject *in_thread(PyObject *self, PyObject *args) {
    pthread_t other;
    pthread_create(&other, 0, worker, 0);
    pthread_join(other, 0);
    Py_RETURN_NONE;
}
static void goodbye(void) { c_inner(0); }
static PyObject *at_exit(PyObject *self, PyObject *args) { atexit(goodbye); Py_RETURN_NONE; }
static PyObject *twice(PyObject *self, PyObject *args) {
    char *p = malloc(4000);
    free(p);
    free(p);
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {
    {"crash", crash, METH_NOARGS, 0},
    {"in_thread", in_thread, METH_NOARGS, 0},
    {"at_exit", at_exit, METH_NOARGS, 0},
    {"twice", twice, METH_NOARGS, 0},
    {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "boom", 0, -1, methods};
PyMODINIT_FUNC PyInit_boom(void) { return PyModule_Create(&module); }
"#;

/// An interpreter, and the extension compiled for it.
pub(crate) struct Extension {
    lab: Lab,
    pub(crate) interpreter: PathBuf,
}

impl Extension {
    pub(crate) fn new() -> Self {
        let ask =
            "import sys, sysconfig\nprint(sys.executable)\nprint(sysconfig.get_path('include'))";
        let output = Command::new("python3").args(["-c", ask]).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let [interpreter, include] = output.lines().collect::<Vec<_>>()[..] else {
            panic!("python3 printed {output:?}");
        };
        let lab = Lab::new();
        let include = format!("-I{include}");
        let flags = ["-g", "-w", "-shared", "-fPIC", "-pthread", &include];
        lab.compile("boom.so", "boom.c", SOURCE, &flags);
        Self {
            lab,
            interpreter: interpreter.into(),
        }
    }

    /// Returns the directory of the extension.
    pub(crate) fn folder(&self) -> PathBuf {
        self.lab.path("")
    }

    pub(crate) fn core(&self, code: &str, with_faulthandler: bool) -> PathBuf {
        let code = format!("import boom; {code}");
        let folder = self.lab.path("");
        let mut env = vec![("PYTHONPATH", folder.to_str().unwrap())];
        if with_faulthandler {
            env.push(("PYTHONFAULTHANDLER", "1"));
        }
        self.lab.core(&self.interpreter, &["-c", &code], &env)
    }

    /// Returns the crash, which must be the same with and without Python's fault handler.
    fn crash(&self, code: &str) -> Crash {
        let plain = examined(&self.core(code, false)).crash;
        let mut with_handler = examined(&self.core(code, true)).crash;
        with_handler.pid = plain.pid;
        with_handler.fault.sender = plain.fault.sender;
        assert_eq!(with_handler, plain);
        plain
    }
}

#[test]
fn a_crash_in_an_extension_shows_its_c_function() {
    needs!(python_headers());
    let crash = Extension::new().crash("boom.crash()");
    assert!(
        calls(&crash.frames[..2], &["c_inner", "crash"]),
        "{crash:#?}"
    );
    assert_eq!(crash.fault.address, Some(32));
    assert_eq!(crash.phase, ProcessPhase::Run);
}

#[test]
fn a_crash_in_a_native_thread_shows_its_c_function() {
    needs!(python_headers());
    let crash = Extension::new().crash("boom.in_thread()");
    assert!(
        calls(&crash.frames[..2], &["c_inner", "worker"]),
        "{crash:#?}"
    );
    assert_eq!(crash.thread, 2);
}

#[test]
fn a_crash_after_the_end_of_the_interpreter_has_the_phase_shutdown() {
    needs!(python_headers());
    let crash = Extension::new().crash("boom.at_exit()");
    assert!(
        calls(&crash.frames[..2], &["c_inner", "goodbye"]),
        "{crash:#?}"
    );
    assert_eq!(crash.phase, ProcessPhase::Shutdown);
}

#[test]
fn an_abort_in_an_extension_keeps_its_message() {
    needs!(python_headers());
    let crash = Extension::new().crash("boom.twice()");
    assert!(
        functions(&crash.frames).contains(&"twice".to_owned()),
        "{crash:#?}"
    );
    assert!(crash.abort.unwrap().contains("double free"));
}
