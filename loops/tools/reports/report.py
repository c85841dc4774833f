"""What a test run came to."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.values import Json

MOST_FAILURES = 50
LONGEST_TEXT, LONGEST_NAME = 2_000, 300


@dataclass(frozen=True, slots=True)
class Failure:
    name: str
    message: str
    location: str


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of one test run; ``failed`` includes ``errors``. ``source``: "reporter", "junit" or "text"."""

    passed: int
    failed: int
    skipped: int = 0
    errors: int = 0
    failures: tuple[Failure, ...] = ()
    source: str = "junit"

    def plus(self, other: Report) -> Report:
        """Both documents as one run."""
        return Report(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.errors + other.errors,
            (*self.failures, *other.failures)[:MOST_FAILURES],
            self.source,
        )

    def as_data(self) -> dict[str, Json]:
        """For the result of a tool call."""
        failures: list[Json] = [{"name": f.name, "message": f.message, "location": f.location} for f in self.failures]
        total = self.passed + self.failed + self.skipped
        counts: dict[str, Json] = {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "total": total,
        }
        unnamed = max(0, self.failed - len(failures))
        left_out: dict[str, Json] = {"failures_left_out": unnamed} if failures and unnamed else {}
        return counts | {"errors": self.errors, "failures": failures, "source": self.source} | left_out
