"""Gives way to the environment's own ``sitecustomize``, and has a reporter loaded where pytest or unittest is.

Standard library of Python 3.8 alone, as everything in this folder.
"""

import os
import sys

HERE = globals().get("HERE", "")
_REPORTERS = {"unittest": "agentops_unittest", "_pytest.config": "agentops_pytest"}


class _Loader:
    """The loader that was found, which has the reporter look at the module once it is there."""

    def __init__(self, loader, finder):
        self._loader, self._finder = loader, finder

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.watch(module)


class _Finder:
    def __init__(self, load):
        self._load = load

    def find_spec(self, name, path=None, target=None):
        if name not in _REPORTERS:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def watch(self, module):
        try:
            if "agentops_session" not in sys.modules:
                self._load("agentops_session")
            self._load(_REPORTERS[module.__name__]).watch(module)
        except Exception:  # a run of tests is never worse for being reported
            pass


def begin(name, load):
    if os.environ.get("AGENTOPS_TEST_REPORT"):
        finder = _Finder(load)
        sys.meta_path.insert(0, finder)
        if "unittest" in sys.modules:
            finder.watch(sys.modules["unittest"])
    _give_way(name)


def _give_way(name):
    """As if this folder were not on the path: what the environment brings under the name is what stays."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]
    if name != "sitecustomize":
        return
    ours = sys.modules.pop(name)
    try:
        __import__(name)
    except ImportError as error:
        if error.name != name:
            raise
        sys.modules[name] = ours
