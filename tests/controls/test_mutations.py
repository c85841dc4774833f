"""What each mutation makes of a function, and when it refuses to guess."""

from __future__ import annotations

import ast

import pytest

from tests.controls.mutations import Unfit, mutated
from tests.controls.sql_mutations import mutated_sql


@pytest.mark.parametrize(
    ("body", "mutation", "becomes"),
    [
        ("if run.paused:\n    return 1", "never paused", "if False:\n    return 1"),
        ("if not person.is_active:\n    return 1", "always is_active", "if not True:\n    return 1"),
        ("return a and b.c > d", "never b.c", "return a and False"),
        ("return a > 0 or b > a", "always a b", "return a > 0 or True"),
        ("return a > 0 or a > 1", "never a 2", "return a > 0 or False"),
        ("return [x for x in y if x.ok]", "never ok", "return [x for x in y if False]"),
        ("if said := refusal(run):\n    raise E(said)", "never refusal", "if (said := False):\n    raise E(said)"),
        (
            "if said := refusal(run):\n    raise E(said)",
            "never said",
            "if ((said := refusal(run)), False)[1]:\n    raise E(said)",
        ),
        (
            "match x:\n    case A() if held(x):\n        pass",
            "never held",
            "match x:\n    case A() if False:\n        pass",
        ),
        ("return a and ready(b)", "without ready", "return a"),
        ("return f(a, mode=1)", "without mode", "return f(a)"),
        ("return ('--net', '--pid')", "without --pid", "return ('--net',)"),
        ("return {'as': a, 'cpu': b}", "without cpu", "return {'as': a}"),
        ("return mine(a) | theirs(b)", "without theirs", "return mine(a)"),
        ("return rows.visible_to(user).names()", "without visible_to", "return rows.names()"),
        ("return [x for x in y if x.ok]", "without ok", "return [x for x in y]"),
        ("return f'{person}:{gate}'", "without person", "return f':{gate}'"),
        ("kept = old\nself.kept = new", "without new", "kept = old\npass"),
        ("audit(refusal, by=actor)\nraise", "skips audit", "pass\nraise"),
        ("await audit(refusal)\nraise", "skips audit", "pass\nraise"),
        ("return known().text(str(given))", "skips text", "return str(given)"),
        ("return opened(resolve=BENEATH)", "reads BENEATH as 0", "return opened(resolve=0)"),
        (
            "return limits.most > 0 and limits.most",
            "reads limits.most 2 as 10 ** 9",
            "return limits.most > 0 and 10 ** 9",
        ),
    ],
)
def test_it_changes_what_it_names(body: str, mutation: str, becomes: str) -> None:
    assert ast.dump(ast.parse(mutated(_function(body), mutation))) == ast.dump(ast.parse(_function(becomes)))


def _function(body: str) -> str:
    return "def guard(self):\n    " + body.replace("\n", "\n    ")


@pytest.mark.parametrize("definition", ["@cache\ndef guard(a):\n    return a", "async def guard(a):\n    return a"])
def test_it_returns_whatever_it_is_asked(definition: str) -> None:
    assert mutated(definition, "returns given[0] + 1") == "def guard(*given, **named):\n    return given[0] + 1\n"


def test_it_does_not_depend_on_how_the_source_is_laid_out() -> None:
    long = (
        "def guard(a):\n    # a comment\n    return (\n        a.first\n        and\n        a.second  # another\n    )"
    )
    assert mutated(long, "without second") == "def guard(a):\n    return a.first"


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        ("never most", "finds 2 places"),
        ("never most 3", "finds 2 places"),
        ("never nobody", "finds 0 places"),
        ("never ", "finds 2 places"),
        ("skips most", "finds 0 places"),
        ("reads nobody as 0", "finds 0 places"),
        ("forgets most", "no mutation of functions is called 'forgets'"),
    ],
)
def test_it_never_guesses(mutation: str, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        mutated(_function("return 0 < most and most < 9"), mutation)


SQL = "UPDATE t SET a = %s WHERE id = %(id)s AND NOT (b > now() OR EXISTS (SELECT 1 FROM u WHERE u.c = 1)) RETURNING a"


@pytest.mark.parametrize(
    ("mutation", "was", "becomes"),
    [
        ("always id", "id = %(id)s", "(id = %(id)s OR TRUE)"),
        ("never b", "b > now()", "(b > now() AND FALSE)"),
        ("always u.c", "u.c = 1", "(u.c = 1 OR TRUE)"),
        ("never b u.c", "NOT (b > now() OR EXISTS (SELECT 1 FROM u WHERE u.c = 1))", None),
        ("never a", "", None),
        ("without b", "", None),
    ],
)
def test_sql_keeps_its_parameters(mutation: str, was: str, becomes: str | None) -> None:
    if becomes is None and not was:
        with pytest.raises(Unfit):
            mutated_sql(SQL, mutation)
    else:
        assert mutated_sql(SQL, mutation) == SQL.replace(was, becomes or f"({was} AND FALSE)")
