# Records the lines that the threads of a Python program reach.
def _provoke_install():
    """Records the arrivals of threads at lines, the exceptions, and the lines at the end of a thread.

    Records are lines of text in chunks of a file, which processes append and map: "file INDEX NAME" names a file in the rest
    of its chunk, "line TIME THREAD INDEX:LINE FUNCTION" is an arrival, "raised TIME THREAD INDEX:LINE TYPE" an exception, and "end TIME
    THREAD INDEX:LINE..." has the lines that were active, the innermost first. Names are hexadecimal; the first arrival at a
    line has that of its function. A write to memory
    survives the end of the process, and unlike a system call it does not let other threads run.
    """
    order = _provoke_order()
    if order is None:
        return

    def report(*values):
        _provoke_report(order["output"], *values)

    if sys.version_info < (3, 8):
        report("refused", "lines are recorded only by Python 3.8 and newer")
        return
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
    known_places = set()
    files = {}
    # Before Python 3.12: the trace functions of files, and the lines whose later arrivals are not recorded.
    tracers = {}
    finished_lines = {}
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
    try:
        # Other processes were there before.
        has_company = os.stat(output).st_size > 0
    except OSError:
        # The file is not visible in a container.
        return

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

    def hexadecimal(name):
        return name.encode("utf-8", "surrogateescape").hex()

    def render_record(kind, places, suffix):
        text = ""
        for name, _ in places:
            if name not in names:
                names[name] = len(names)
                text += "file %d %s\n" % (names[name], hexadecimal(name))
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
            if place not in known_places:
                known_places.add(place)
                suffix = " " + hexadecimal(getattr(code, "co_qualname", code.co_name)[:200])
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
                write_record("raised", [place], " " + hexadecimal(kind.__name__[:100]))
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
            for lines in finished_lines.values():
                lines.clear()
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

        def trace_file(name, finished):
            """Returns the trace function of a file. It adds lines whose later arrivals are not recorded to a set."""

            def trace_line(frame, event, argument):
                if event == "line":
                    line = frame.f_lineno
                    if line not in finished and record_line(frame.f_code, name, line):
                        finished.add(line)
                elif event == "exception":
                    record_exception(argument[0], argument[2])
                return trace_line

            return trace_line

        def trace_call(frame, event, argument):
            name = own_name(frame.f_code)
            if name is None:
                return None
            if name not in tracers:
                finished_lines[name] = set()
                tracers[name] = trace_file(name, finished_lines[name])
            return tracers[name]

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
