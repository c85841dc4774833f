"""``make bench``: every figure as a ratio to something measured in the same run."""

from __future__ import annotations

from tests.bench import stack


def main() -> None:
    print(stack.machine())
    with stack.running():
        from tests.bench import durable_step

        durable_step.main()


if __name__ == "__main__":
    main()
