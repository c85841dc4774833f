"""Loaded by every Python program of a command. Code under a name that is no file's is not measured for coverage."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load(name):
    """A file of this folder, as a module."""
    module = sys.modules[name] = type(sys)(name)
    module.HERE = _HERE
    with open(os.path.join(_HERE, name + ".py")) as file:
        exec(compile(file.read(), "<%s>" % name, "exec"), module.__dict__)
    return module


_load("agentops_hook").begin(__name__, _load)
