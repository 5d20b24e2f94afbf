"""Reports which tests pytest plans, starts and ends, as lines of JSON. PYTEST_DONT_REWRITE

Load it with PYTEST_PLUGINS=provoke_cases; PROVOKE_CASES names the file that the lines are appended to. Each line is one
write(2), so the lines of parallel workers do not mix, and the last line names the test that ended the process. If
PROVOKE_SHUFFLE is set, the tests run in a random order that depends on its value, or in the reverse order if it is
`reverse`. PROVOKE_SELECT_FILE names a file with the names of the only tests to run, one JSON string a line, in this
order; with PROVOKE_ALONE, no other file of tests is collected.
"""
import json
import os
import time

import pytest

RECORDER = "provoke-cases-recorder"
# The path of the stream, while a recorder writes to it.
OWNER = "PROVOKE_CASES_OWNER"
LONGEST_MESSAGE = 4000
NAMES_PER_LINE = 500


def pytest_configure(config):
    path = os.environ.get("PROVOKE_CASES")
    if not path:
        return
    worker = getattr(config, "workerinput", None)
    if worker is None:
        # Tests of pytest plugins run pytest within a test. Its tests are not cases.
        if os.environ.get(OWNER) == path:
            return
        os.environ[OWNER] = path
    elif not worker.get(RECORDER):
        return
    config.pluginmanager.register(Recorder(config, path, worker), RECORDER)


def pytest_unconfigure(config):
    if config.pluginmanager.unregister(name=RECORDER) and not hasattr(config, "workerinput"):
        os.environ.pop(OWNER, None)


class Recorder:
    def __init__(self, config, path, worker):
        self.config = config
        self.worker_id = None if worker is None else worker.get("workerid")
        self.pid = os.getpid()
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        path = os.environ.get("PROVOKE_SELECT_FILE")
        self.selection = None if path is None else read_selection(path)
        if self.selection is not None and os.environ.get("PROVOKE_ALONE"):
            self.replace_arguments()
        # Node IDs of repeated tests: the name of the case, and the number of the repeat.
        self.repeats = {}

    def write(self, event, **fields):
        # A process that a test has forked may return into pytest.
        if os.getpid() != self.pid:
            return
        line = {"event": event}
        line.update(fields, pid=self.pid, time=round(time.monotonic(), 6))
        try:
            os.write(self.file, json.dumps(line).encode("ascii") + b"\n")
        except OSError:
            pass  # The disk is full, for example. The tests run on.

    def write_case(self, event, nodeid, **fields):
        case, repeat = self.repeats.get(nodeid, (nodeid, None))
        if repeat is not None:
            fields["repeat"] = repeat
        self.write(event, case=to_unicode(case), **fields)

    def replace_arguments(self):
        """Makes pytest collect the selected tests only."""
        root = str(getattr(self.config, "rootpath", None) or self.config.rootdir)
        arguments = [os.path.join(root, name) for name in self.selection]
        # The name of a test begins with the path of its file, except for some plugins.
        if all(os.path.exists(argument.split("::", 1)[0]) for argument in arguments):
            self.config.args[:] = arguments

    def is_controller(self):
        """Returns whether workers of pytest-xdist run the tests."""
        return self.config.pluginmanager.hasplugin("dsession")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput[RECORDER] = True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        if self.selection is not None:
            items[:] = select_tests(items, self.selection)
            return
        seed = os.environ.get("PROVOKE_SHUFFLE")
        if seed == "reverse":
            items.reverse()
        elif seed:
            items[:] = shuffle_tests(items, seed)

    def pytest_collectreport(self, report):
        if report.failed and self.worker_id in (None, "gw0"):
            text = failure_message(report.longrepr)
            errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E  ")]
            message = errors[-1] if errors else text
            self.write("note", text="pytest cannot collect `%s`: %s" % (to_unicode(report.nodeid), message))

    def pytest_collection_finish(self, session):
        if self.is_controller():
            return
        names = []
        for item in session.items:
            repeat = repeat_of(item)
            if repeat is not None:
                self.repeats[item.nodeid] = repeat
            name = item.nodeid if repeat is None else repeat[0]
            if repeat is None or repeat[1] == 1:
                names.append(to_unicode(name))
        # All workers have the same tests.
        if self.worker_id in (None, "gw0"):
            for start in range(0, len(names) or 1, NAMES_PER_LINE):
                self.write("planned", cases=names[start : start + NAMES_PER_LINE])

    def pytest_runtest_logstart(self, nodeid):
        if not self.is_controller():
            self.write_case("start", nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        if call.excinfo is None or outcome.excinfo is not None:
            return
        report = outcome.get_result()
        report.provoke_kind = call.excinfo.typename
        report.provoke_place = innermost_place(call.excinfo.tb)

    def pytest_runtest_logreport(self, report):
        if self.is_controller():
            return
        fields = {}
        is_expected_failure = hasattr(report, "wasxfail")
        # Only failures of subtests count for their test.
        if report.outcome == "skipped" and hasattr(report, "context"):
            return
        if report.outcome == "passed":
            if report.when != "call" or not is_expected_failure:
                return
            fields["outcome"] = "xpassed"
            fields["message"] = to_unicode(str(report.wasxfail))
        elif report.outcome == "skipped":
            fields["outcome"] = "xfailed" if is_expected_failure else "skipped"
            if is_expected_failure:
                fields["message"] = to_unicode(str(report.wasxfail))
            elif isinstance(report.longrepr, tuple):
                reason = str(report.longrepr[2])
                fields["message"] = to_unicode(reason[9:] if reason.startswith("Skipped: ") else reason)
        else:
            fields["outcome"] = "error" if report.when in ("setup", "teardown") else "failed"
            # pytest-rerunfailures and similar plugins have other outcomes for attempts that they repeat.
            if report.outcome != "failed":
                fields["retried"] = True
            fields["kind"] = getattr(report, "provoke_kind", "")
            fields["message"] = failure_message(report.longrepr)
            place = getattr(report, "provoke_place", None)
            if place is not None:
                path, fields["line"], function = place
                fields["file"] = self.relative_path(to_unicode(path))
                fields["function"] = to_unicode(function)
        self.write_case("result", report.nodeid, when=report.when, **fields)

    def pytest_runtest_logfinish(self, nodeid):
        if not self.is_controller():
            self.write_case("end", nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem, report):
        # Only the controller of pytest-xdist has this hook. The worker has died.
        self.write_case("result", crashitem, outcome="crashed", message=failure_message(report.longrepr))

    def pytest_sessionfinish(self):
        self.write("finish")

    def relative_path(self, path):
        root = str(getattr(self.config, "rootpath", None) or self.config.rootdir)
        return path[len(root) + 1 :] if path.startswith(root + os.sep) else path


def to_unicode(text):
    """Escapes halves of surrogate pairs, which JSON readers refuse."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def failure_message(longrepr):
    crash = getattr(longrepr, "reprcrash", None)
    message = crash.message if crash is not None else str(longrepr)
    return to_unicode(message[:LONGEST_MESSAGE])


def innermost_place(traceback):
    """Returns the file, line and function in which an exception began, without helpers of unittest and pytest."""
    place = None
    while traceback is not None:
        frame = traceback.tb_frame
        is_helper = "__unittest" in frame.f_globals or "__tracebackhide__" in frame.f_locals
        if place is None or not is_helper:
            place = (frame.f_code.co_filename, traceback.tb_lineno, frame.f_code.co_name)
        traceback = traceback.tb_next
    return place


def repeat_of(item):
    """Returns the node ID without the mark of pytest-repeat or pytest-flakefinder, and the number of the repeat."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    for param, value in params.items():
        if param == "__pytest_repeat_step_number":
            # The ID is `2-3` for the second of three; the number of repeats ends at the bracket.
            head, _, _ = item.nodeid.rpartition("%d-" % (value + 1))
            return close_parameters(head), value + 1
        if param.startswith("__flakefinder_"):
            head, bracket, rest = item.nodeid.partition("[")
            rest = rest[len(str(value)) :].lstrip("-")
            return head if rest == "]" else head + bracket + rest, value + 1
    return None


def close_parameters(head):
    return head[:-1] if head.endswith("[") else head.rstrip("-") + "]"


def read_selection(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def select_tests(items, names):
    """Returns the named tests in the order of the names."""
    by_name = {}
    for item in items:
        by_name.setdefault(to_unicode(item.nodeid), []).append(item)
    return [item for name in dict.fromkeys(names) for item in by_name.get(name, [])]


def shuffle_tests(items, seed):
    """Shuffles modules, the classes in a module and the tests in a class, so that each stays in one piece.

    The value `SEED:all` mixes all tests.
    """
    import random

    generator = random.Random(seed)
    if seed.endswith(":all"):
        order = list(items)
        generator.shuffle(order)
        return order
    return shuffle_blocks(list(items), 0, generator)


def shuffle_blocks(items, depth, generator):
    blocks = {}
    for index, item in enumerate(items):
        parts = item.nodeid.split("[", 1)[0].split("::")
        key = ("block", parts[depth]) if len(parts) > depth + 1 else ("test", index)
        blocks.setdefault(key, []).append(item)
    keys = list(blocks)
    generator.shuffle(keys)
    order = []
    for key in keys:
        block = blocks[key]
        order += shuffle_blocks(block, depth + 1, generator) if key[0] == "block" else block
    return order
