"""``make eval-errors``: the classifier against failures that were sorted by hand (SPEC E1).

``agentops/docs/error-classification.md`` holds what this prints.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loops.engine.failures.classify import classify
from loops.engine.failures.llm_classifier import is_open
from loops.engine.failures.rule import Rule
from loops.engine.failures.rules import RULES
from loops.engine.state.failure import (
    Classified,
    Failure,
    Source,
)
from loops.engine.values import FailureKind

TABLE = Path(__file__).parent.parent / "data" / "errors"
KINDS = tuple(FailureKind)
_HEAD = f"{'part':<14}{'rows':>6}{'accuracy':>10}{'macro F1':>10}{'one class only':>16}{'sure':>7}{'right if sure':>15}"
_UNSURE = f"{'part':<14}{'put to a model':>16}{'right without it':>18}"
_NOISE = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A failure with the class that was given it by hand, and where it came from."""

    failure: Failure
    kind: FailureKind
    origin: str
    file: str

    @property
    def held_out(self) -> bool:
        """A third of the texts by hash; numbers do not count, so that a text and its twin stay together."""
        text = _NOISE.sub("#", self.failure.text.lower())
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % 3 == 0


def table() -> list[Labelled]:
    """Every labelled failure that rules may be changed for, in order of file and line."""
    return _read(TABLE)


def unseen() -> list[Labelled]:
    """What clients print that no rule was ever changed for; labelled by what the server did to them."""
    return _read(TABLE / "unseen")


def _read(folder: Path) -> list[Labelled]:
    files = sorted(folder.glob("*.jsonl"))
    return [_row(line, path.stem) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def _row(line: str, file: str) -> Labelled:
    row = json.loads(line)
    kind, origin, _ = FailureKind(row.pop("kind")), row.pop("from"), row.pop("note")
    return Labelled(Failure(**{**row, "source": Source(row["source"])}), kind, origin, file)


def accuracy(rows: Sequence[Labelled], rules: Sequence[Rule] = RULES) -> float:
    return sum(classify(row.failure, rules).kind is row.kind for row in rows) / len(rows)


def mistakes(rows: Iterable[Labelled]) -> list[tuple[Labelled, Classified]]:
    return [(row, said) for row in rows if (said := classify(row.failure)).kind is not row.kind]


def headline(rows: Sequence[Labelled]) -> str:
    """What to expect of a tool that nobody has seen."""
    return "\n".join(
        [_HEAD, _summary("never seen", rows), "", _UNSURE, _unsure("never seen", rows), "", *_matrix(rows)]
    )


def report(rows: Sequence[Labelled]) -> str:
    """The text that the command prints and the document holds."""
    parts = {
        "development": [row for row in rows if not row.held_out],
        "held out": [row for row in rows if row.held_out],
    }
    lines = [_HEAD]
    lines += [_summary(name, part) for name, part in {**parts, "all": list(rows)}.items()]
    lines += ["", _UNSURE]
    lines += [_unsure(name, part) for name, part in {**parts, "all": list(rows)}.items()]
    for name, part in parts.items():
        lines += ["", f"{name}: rows are labels, columns what the rules say", *_matrix(part)]
    return "\n".join(lines)


def _summary(name: str, rows: Sequence[Labelled]) -> str:
    baseline = max(Counter(row.kind for row in rows).values()) / len(rows)
    sure = [row for row in rows if classify(row.failure).certain]
    scores = [_score(rows, kind) for kind in {row.kind for row in rows}]
    macro = sum(_f1(precision, recall) for precision, recall in scores) / len(scores)
    return (
        f"{name:<14}{len(rows):>6}{accuracy(rows):>10.3f}{macro:>10.3f}{baseline:>16.3f}"
        f"{len(sure) / len(rows):>7.2f}{accuracy(sure):>15.3f}"
    )


def _unsure(name: str, rows: Sequence[Labelled]) -> str:
    """How many failures a model that breaks ties would see, and how often the rules guess right there by themselves."""
    put = [row for row in rows if is_open(classify(row.failure))]
    return f"{name:<14}{len(put):>16}{accuracy(put):>18.3f}"


def _matrix(rows: Sequence[Labelled]) -> list[str]:
    counts = Counter((row.kind, classify(row.failure).kind) for row in rows)
    head = "".join(f"{kind.value:>15}" for kind in KINDS)
    lines = [f"{'':<15}{head}{'precision':>12}{'recall':>9}"]
    for kind in KINDS:
        precision, recall = _score(rows, kind)
        cells = "".join(f"{counts[kind, said]:>15}" for said in KINDS)
        lines.append(f"{kind.value:<15}{cells}{precision:>12.3f}{recall:>9.3f}")
    return lines


def _score(rows: Sequence[Labelled], kind: FailureKind) -> tuple[float, float]:
    said = [row for row in rows if classify(row.failure).kind is kind]
    labelled = [row for row in rows if row.kind is kind]
    right = sum(row.kind is kind for row in said)
    return right / max(1, len(said)), right / max(1, len(labelled))


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def main() -> None:
    rows = table()
    print(headline(unseen()), report(rows), sep="\n\nthe table that rules are tuned on:\n")
    print("\nmistakes in the development part:")
    for row, said in mistakes(row for row in rows if not row.held_out):
        print(f"  {row.file}: {row.kind.value}, not {said.kind.value} ({said.rule}): {row.failure.text[-100:]!r}")


if __name__ == "__main__":
    main()
