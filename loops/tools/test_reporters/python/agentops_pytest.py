"""Reports what pytest collects and what becomes of each test; with xdist by the process that leads the others."""

import sys

import agentops_session

_hook = sys.modules["_pytest.config"].hookimpl
_LOOKED_AT = 4000


def watch(config):
    """``_pytest.config``: every run makes one manager of plugins, before it loads anything of the project."""
    manager = config.PytestPluginManager
    make = manager.__init__

    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        try:
            session = agentops_session.begin("pytest")
            if session is not None:
                self.register(Reporter(session), "agentops-test-report")
        except Exception:
            pass

    manager.__init__ = __init__


class Reporter:
    def __init__(self, session):
        self._session, self._parts, self._deselected = session, {}, []

    @_hook(hookwrapper=True)
    def pytest_cmdline_main(self, config):
        outcome = yield
        if outcome.excinfo is None:
            for name in list(self._parts):
                self._finish(name)
            code = outcome.get_result()
            agentops_session.end(self._session, code if code is None else int(code))

    def pytest_deselected(self, items):
        self._deselected += [item.nodeid for item in items]

    @_hook(trylast=True)
    def pytest_collection_finish(self, session):
        self._session.collected([item.nodeid for item in session.items], self._deselected)

    @_hook(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        if not self._session.has_collected:
            self._session.has_collected = True
            self._session.collected(ids)

    def pytest_collectreport(self, report):
        if report.failed:
            self._session.test(report.nodeid or ".", "failed", _message(report))

    def pytest_runtest_logreport(self, report):
        name, when, outcome = report.nodeid, report.when, _outcome(report)
        if when == "setup" or name not in self._parts:  # also where it is tried again
            self._parts[name] = ["", "", 0.0]
        part = self._parts[name]
        part[2] += getattr(report, "duration", 0.0)
        is_subtest = hasattr(report, "context")
        if outcome == "failed" or (not is_subtest and part[0] != "failed" and (when == "call" or outcome != "passed")):
            part[0], part[1] = outcome, part[1] or _message(report)

    def pytest_runtest_logfinish(self, nodeid):
        self._finish(nodeid)

    def _finish(self, name):
        part = self._parts.pop(name, None)
        if part is not None and part[0]:
            self._session.test(name, *part)


def _outcome(report):
    if hasattr(report, "wasxfail") and report.outcome != "failed":
        return "xfailed" if report.outcome == "skipped" else "xpassed"
    return report.outcome if report.outcome in ("passed", "skipped") else "failed"


def _message(report):
    found = getattr(report, "longrepr", None)
    if report.outcome == "passed" or found is None:
        return ""
    crash = getattr(found, "reprcrash", None)
    if crash is not None:
        return crash.message
    return found[2] if isinstance(found, tuple) else str(found)[:_LOOKED_AT]
