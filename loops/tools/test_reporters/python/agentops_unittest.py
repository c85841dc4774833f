"""Reports what unittest runs, whichever runner it is that has the suite run: its own, Django's, or another's."""

import functools

import agentops_session

_OUTCOMES = {
    "addError": "failed",
    "addFailure": "failed",
    "addUnexpectedSuccess": "failed",
    "addSkip": "skipped",
    "addExpectedFailure": "xfailed",
}


def watch(unittest):
    """The package ``unittest``: a session begins with its program, its runner or a suite, whatever comes first."""
    _around(unittest.TestProgram, "__init__", lambda self, *args, **kwargs: None)
    _around(unittest.TextTestRunner, "run", lambda self, test, *args, **kwargs: test)
    _around(unittest.TestSuite, "run", lambda self, *args, **kwargs: self)
    for name in ("startTest", "stopTest", "addSubTest", *_OUTCOMES):
        _hear(unittest.TestResult, name)


def _session():
    """Ours; that of pytest hears of the same tests."""
    found = agentops_session.current
    return found if found is not None and found.runner == "unittest" else None


def _around(kind, name, suite_of):
    """A session around a method, unless there is one."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def inner(self, *args, **kwargs):
        session = agentops_session.begin("unittest")
        _collect(lambda: suite_of(self, *args, **kwargs))
        code = 1
        try:
            found = method(self, *args, **kwargs)
            code = _code(session, found)
            return found
        except SystemExit as end:
            code = end.code
            raise
        finally:
            agentops_session.end(session, code)

    setattr(kind, name, inner)


def _code(session, found):
    result = found if found is not None else getattr(session, "result", None)
    return 0 if result is None or result.wasSuccessful() else 1


def _collect(suite):
    """Once in a session: the suite that holds all."""
    session = _session()
    if session is None or session.has_collected:
        return
    try:
        found = suite()
        if found is not None:
            session.has_collected = True
            session.collected([test.id() for test in _tests(found)])
    except Exception:
        session.close()


def _tests(suite):
    import unittest

    for one in suite if isinstance(suite, unittest.BaseTestSuite) else [suite]:
        if isinstance(one, unittest.BaseTestSuite):
            yield from _tests(one)
        elif isinstance(one, unittest.TestCase):
            yield one


def _hear(kind, name):
    method = getattr(kind, name)

    @functools.wraps(method)
    def inner(self, *args, **kwargs):
        found = method(self, *args, **kwargs)
        session = _session()
        if session is not None and session.result in (None, self):
            session.result = self  # and not that of a test that tries a runner itself
            try:
                _note(session, name, *args)
            except Exception:
                session.close()
        return found

    setattr(kind, name, inner)


def _note(session, name, test, *more):
    begun = session.begun
    if name == "startTest":
        begun[id(test)] = ["passed", ""]
    elif name == "stopTest":
        session.test(test.id(), *begun.pop(id(test), ["passed", ""]))
    elif name != "addSubTest":
        said = more[0] if more else "it passed, and was expected to fail"
        _set(session, getattr(test, "test_case", test), _OUTCOMES[name], said)
    elif more[1] is not None:
        _set(session, test, "failed", more[1])


def _set(session, test, outcome, said):
    """Of a test under way; what is none, such as the set-up of a class, is reported by itself."""
    message = "%s: %s" % (getattr(said[0], "__name__", "Error"), said[1]) if isinstance(said, tuple) else said
    if id(test) not in session.begun:
        session.test(test.id(), outcome, message)
    elif session.begun[id(test)][0] != "failed":
        session.begun[id(test)] = [outcome, message]
