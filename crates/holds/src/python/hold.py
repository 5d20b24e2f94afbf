# Holds threads of a Python program before chosen lines, or learns the lines that it reaches.
#
# Results are ["line", FILE, LINE, THREAD] for a reached line, ["held", INDEX] for a held thread, ["left_out", PACKAGE] for a
# package whose lines are of no interest, ["refused", REASON].
def _provoke_install():
    import os
    import threading
    import time
    from _thread import allocate_lock, get_ident

    order = _provoke_order()
    if order is None:
        return
    holds = order["holds"]
    learns = order["learn"]
    output = order["output"]
    total = [order["total_limit_us"] / 1e6]
    sleep, real_path = time.sleep, os.path.realpath
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
        _provoke_report(output, *values)

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
