# Holds threads of a Python program before chosen lines, or records the lines that it reaches.
#
# The variable PROVOKE_HOLD_LINES has the instructions as JSON. Results are appended to a file, one JSON array per line:
# ["line", FILE, LINE, THREAD] for a reached line, ["held", INDEX] for a held thread, ["left_out", PACKAGE] for a package whose
# lines are of no interest, ["refused", REASON]. Paths of threads have a file of their own, see _provoke_record.
import sys


def _provoke_chain():
    """Runs the sitecustomize module that this one hides."""
    import importlib.machinery
    import os

    here = os.path.realpath(os.path.dirname(__file__))
    path = [folder for folder in sys.path if os.path.realpath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    import importlib.util

    # The hidden module has the name that it would have without this one.
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _provoke_scope(named):
    """Returns a function that returns the real path of a file whose lines are of interest, otherwise None; and the package of
    a file that is left out."""
    import os
    import sysconfig

    real_path = os.path.realpath
    own_file = real_path(__file__)
    library = [
        real_path(folder) + os.sep
        for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
        if folder
    ]
    package_folders = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)

    def classify(code_file):
        if code_file.startswith("<"):
            return None, None
        path = real_path(code_file)
        if path == own_file:
            return None, None
        if named:
            return (path if any(text in path for text in named) else None), None
        for folder in package_folders:
            if folder in path:
                inside = path.split(folder)[-1]
                return None, inside.split(os.sep)[0].split(".")[0]
        is_library = any(path.startswith(folder) for folder in library)
        return (None if is_library else path), None

    return classify


def _provoke_tool():
    """Returns a number with which sys.monitoring can be used, or None."""
    monitoring = sys.monitoring
    return next((tool for tool in (4, 3, 5, 2, 1) if monitoring.get_tool(tool) is None), None)


def _provoke_record(order, report):
    """Records the arrivals of threads at lines, the exceptions, and the lines at the end of a thread.

    Records are lines of text in chunks of a file, which processes append and map: "file INDEX NAME" names a file in the rest
    of its chunk, "line TIME THREAD INDEX:LINE" is an arrival, at first with the name of the function, "raised TIME THREAD INDEX:LINE TYPE" an exception, and "end TIME
    THREAD INDEX:LINE..." has the lines that were active, the innermost first. Names are JSON. A write to memory survives the
    end of the process, and unlike a system call it does not let other threads run.
    """
    if sys.version_info < (3, 8):
        report("refused", "lines are recorded only by Python 3.8 and newer")
        return
    import json
    import mmap
    import os
    import threading
    from _thread import allocate_lock, get_native_id
    from time import monotonic_ns

    arrivals, output = order["record"], order["arrivals"]
    chunk_size, max_size = order["chunk_size"], order["max_size"]
    lock = allocate_lock()
    chunk = b""
    # The chunk is full: the first record starts another one, also in a new process.
    position = chunk_size
    names = {}
    counts = {}
    named_places = set()
    files = {}
    classify = _provoke_scope(order["named"])
    starts = {
        "_thread.start_new_thread",
        "_thread.start_joinable_thread",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "subprocess.Popen",
    }
    without_failure = (StopIteration, StopAsyncIteration, GeneratorExit)
    # Other processes were there before.
    has_company = os.stat(output).st_size > 0

    def append_chunk():
        file = os.open(output, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        options = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        low_descriptors = []
        try:
            if os.write(file, bytes(chunk_size)) < chunk_size:
                raise OSError("the disk is full")
            end = os.lseek(file, 0, os.SEEK_CUR)
            if end > max_size:
                return None
            # The descriptor that `mmap` keeps must not be one that the program expects for its files.
            while not options and len(low_descriptors) < 64:
                low_descriptors.append(os.dup(file))
            return mmap.mmap(file, chunk_size, offset=end - chunk_size, **options)
        finally:
            for descriptor in [file] + low_descriptors:
                os.close(descriptor)

    def start_chunk():
        nonlocal chunk, position
        names.clear()
        position = 0
        try:
            chunk = append_chunk()
        except (OSError, ValueError) as error:
            chunk = None
            try:
                report("refused", "cannot record lines of Python: %s" % error)
            except OSError:
                pass

    def render_record(kind, places, suffix):
        text = ""
        for name, _ in places:
            if name not in names:
                names[name] = len(names)
                text += "file %d %s\n" % (names[name], json.dumps(name))
        text += "%s %d %d" % (kind, monotonic_ns(), get_native_id())
        for name, line in places:
            text += " %d:%d" % (names[name], line)
        return (text + suffix + "\n").encode()

    def write_record(kind, places, suffix=""):
        nonlocal position
        for _ in range(2):
            if chunk is None:
                return
            record = render_record(kind, places, suffix)
            end = position + len(record)
            if end <= chunk_size:
                chunk[position:end] = record
                position = end
                return
            start_chunk()

    def own_name(code):
        """Returns the real path of the file of a function whose lines are of interest, otherwise None."""
        code_file = code.co_filename
        try:
            return files[code_file]
        except KeyError:
            name = files[code_file] = classify(code_file)[0]
            return name

    def count_arrival(key):
        """Returns whether an arrival is recorded, and whether it is the last one."""
        limit = arrivals if has_company else 1
        count = counts[key] = counts.get(key, 0) + 1
        return count <= limit, count >= limit

    def record_line(code, name, line):
        """Returns whether later arrivals at the line are not recorded."""
        place = (name, line)
        with lock:
            suffix = ""
            if place not in named_places:
                named_places.add(place)
                suffix = " " + json.dumps(getattr(code, "co_qualname", code.co_name)[:200])
            is_recorded, is_last = count_arrival(place)
            if is_recorded:
                write_record("line", [place], suffix)
        return is_last

    def record_exception(kind, trace):
        if trace is None or issubclass(kind, without_failure):
            return
        frame = trace.tb_frame
        name = own_name(frame.f_code)
        if name is None:
            return
        # A caller of the function that raised it is not recorded.
        callee = trace.tb_next
        while callee is not None:
            if own_name(callee.tb_frame.f_code) is not None:
                return
            callee = callee.tb_next
        place = (name, trace.tb_lineno)
        with lock:
            if count_arrival((name, trace.tb_lineno, kind.__name__))[0]:
                write_record("raised", [place], " " + json.dumps(kind.__name__[:100]))
        if issubclass(kind, SystemExit):
            calls = []
            while frame is not None:
                calls.append((frame.f_code, frame.f_lineno))
                frame = frame.f_back
            record_end(calls)

    def record_end(calls):
        places = [(own_name(code), line) for code, line in calls]
        places = [place for place in places if place[0] is not None]
        if places:
            with lock:
                write_record("end", places[:64])

    def record_uncaught(trace):
        calls = []
        while trace is not None:
            calls.insert(0, (trace.tb_frame.f_code, trace.tb_lineno))
            trace = trace.tb_next
        record_end(calls)

    def forked():
        nonlocal lock, position
        lock = allocate_lock()
        position = chunk_size

    def note_start(event, arguments):
        nonlocal has_company
        if event in starts and not has_company:
            has_company = True
            counts.clear()
            if hasattr(sys, "monitoring"):
                sys.monitoring.restart_events()

    program_hook, thread_hook = sys.excepthook, threading.excepthook

    def handle_uncaught(kind, error, trace):
        record_uncaught(trace)
        program_hook(kind, error, trace)

    def handle_uncaught_in_thread(arguments):
        record_uncaught(arguments.exc_traceback)
        thread_hook(arguments)

    if hasattr(sys, "monitoring"):
        monitoring, events = sys.monitoring, sys.monitoring.events
        tool = _provoke_tool()
        if tool is None:
            report("refused", "all tool numbers of sys.monitoring are in use")
            return

        def on_line(code, line):
            name = own_name(code)
            if name is None or record_line(code, name, line):
                return monitoring.DISABLE

        def on_raise(code, offset, error):
            if own_name(code) is not None:
                record_exception(type(error), error.__traceback__)

        monitoring.use_tool_id(tool, "provoke")
        monitoring.register_callback(tool, events.LINE, on_line)
        monitoring.register_callback(tool, events.RAISE, on_raise)
        monitoring.set_events(tool, events.LINE | events.RAISE)
    else:

        def trace_line(frame, event, argument):
            if event == "line":
                record_line(frame.f_code, own_name(frame.f_code), frame.f_lineno)
            elif event == "exception":
                record_exception(argument[0], argument[2])
            return trace_line

        def trace_call(frame, event, argument):
            return trace_line if own_name(frame.f_code) is not None else None

        start_new_thread = threading._start_new_thread

        def start_thread(*arguments):
            # There is no audit event.
            note_start("_thread.start_new_thread", arguments)
            return start_new_thread(*arguments)

        threading._start_new_thread = start_thread
        threading.settrace(trace_call)
        sys.settrace(trace_call)
    sys.addaudithook(note_start)
    os.register_at_fork(after_in_child=forked)
    sys.excepthook = handle_uncaught
    threading.excepthook = handle_uncaught_in_thread


def _provoke_install():
    import json
    import os
    import threading
    import time
    from _thread import allocate_lock, get_ident

    text = os.environ.get("PROVOKE_HOLD_LINES")
    if not text:
        return
    order = json.loads(text)
    holds = order["holds"]
    learns = order["learn"]
    output = order["output"]
    total = [order["total_limit_us"] / 1e6]
    sleep, write, real_path = time.sleep, os.write, os.path.realpath
    lock = allocate_lock()
    arrivals = [0] * len(holds)
    numbers = {}
    seen = set()
    scope = _provoke_scope(order["named"])
    left_out = set()
    # Its lines run at the exit of the interpreter, while daemon threads continue.
    exit_code = getattr(threading._shutdown, "__code__", None)
    exit_file = real_path(threading.__file__)
    files = {}
    wanted = {}
    for index, hold in enumerate(holds):
        wanted.setdefault((hold["file"], hold["line"]), []).append(index)
    wanted_files = {file for file, _ in wanted}

    def report(*values):
        # A single write with O_APPEND is not mixed with those of other processes.
        descriptor = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write(descriptor, (json.dumps(values) + "\n").encode())
        finally:
            os.close(descriptor)

    if order["record"]:
        return _provoke_record(order, report)

    def own_name(code):
        """Returns the real path of the file of a function whose lines are of interest, otherwise None."""
        if code is exit_code:
            return exit_file if learns or exit_file in wanted_files else None
        code_file = code.co_filename
        try:
            name, package = files[code_file]
        except KeyError:
            name, package = files[code_file] = classify(code_file)
        if package is not None and package not in left_out and not is_alone():
            left_out.add(package)
            report("left_out", package)
        return name

    def classify(code_file):
        if learns:
            return scope(code_file)
        path = None if code_file.startswith("<") else real_path(code_file)
        return (path if path in wanted_files else None), None

    def mix(number):
        mask = (1 << 64) - 1
        number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & mask
        number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & mask
        return number ^ (number >> 31)

    def includes(hold, arrival):
        if hold["nth"] is not None:
            return arrival == hold["nth"]
        if hold["every"]:
            return arrival <= 1000
        mixed = mix(hold["seed"] ^ (arrival * 0x9E3779B97F4A7C15) & ((1 << 64) - 1))
        return arrival <= 1000 and mixed & 1 == 1

    def is_alone():
        return len(sys._current_frames()) < 2

    def reached(name, line):
        """Handles a line; returns whether it is of no interest any more."""
        if learns:
            if is_alone():
                return False
            key = (name, line)
            with lock:
                number = numbers.setdefault(get_ident(), len(numbers))
                is_new = key not in seen
                seen.add(key)
            if is_new:
                report("line", name, line, number)
            return True
        indices = wanted.get((name, line))
        if indices is None:
            return True
        if is_alone():
            return False
        for index in indices:
            hold = holds[index]
            with lock:
                arrivals[index] += 1
                limit = min(hold["limit_us"] / 1e6, total[0])
                is_held = limit > 0 and includes(hold, arrivals[index])
                if is_held:
                    total[0] -= limit
            if is_held:
                report("held", index)
                sleep(limit)
        return False

    def forked():
        nonlocal lock
        lock = allocate_lock()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forked)

    numbers[get_ident()] = 0
    if hasattr(sys, "monitoring"):
        monitoring = sys.monitoring
        tool = _provoke_tool()
        if tool is None:
            report("refused", "all tool numbers of sys.monitoring are in use")
            return

        def on_line(code, line):
            name = own_name(code)
            if name is None or reached(name, line):
                return monitoring.DISABLE

        monitoring.use_tool_id(tool, "provoke")
        monitoring.register_callback(tool, monitoring.events.LINE, on_line)
        monitoring.set_events(tool, monitoring.events.LINE)
    else:

        def trace_line(frame, event, argument):
            if event == "line":
                name = own_name(frame.f_code)
                if name is not None:
                    reached(name, frame.f_lineno)
            return trace_line

        def trace_call(frame, event, argument):
            return trace_line if own_name(frame.f_code) is not None else None

        threading.settrace(trace_call)
        sys.settrace(trace_call)


try:
    _provoke_chain()
finally:
    _provoke_install()
