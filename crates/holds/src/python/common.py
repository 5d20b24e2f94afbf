# Common parts of the modules that provoke gives to Python programs as their `sitecustomize`.
#
# The variable PROVOKE_HOLD_LINES has the instructions as JSON. Results are appended to a file, one JSON array per line.
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

    real_path = os.path.realpath
    own_file = real_path(__file__)
    # `sysconfig` knows it as well, but takes 10 ms.
    library = real_path(os.path.dirname(os.__file__)) + os.sep
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
        return (None if path.startswith(library) else path), None

    return classify


def _provoke_tool():
    """Returns a number with which sys.monitoring can be used, or None."""
    monitoring = sys.monitoring
    return next((tool for tool in (4, 3, 5, 2, 1) if monitoring.get_tool(tool) is None), None)


def _provoke_order():
    """Returns the instructions, or None."""
    import os

    text = os.environ.get("PROVOKE_HOLD_LINES")
    # Each such text is an expression of Python, and the module `json` takes 10 ms.
    return eval(text, {"true": True, "false": False, "null": None}) if text else None


def _provoke_report(output, *values):
    """Appends a result."""
    import json
    import os

    # A single write with O_APPEND is not mixed with those of other processes.
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, (json.dumps(values) + "\n").encode())
    finally:
        os.close(descriptor)

