"""What embeddings add to word pairs on recorded runs (SPEC F2, F4), with any model that speaks ``/v1/embeddings``:

    python -m tests.evals.meanings --url http://127.0.0.1:11434/v1 --model nomic-embed-text

Only the half of the tasks on which thresholds are chosen is looked at, so the other half stays unseen.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import django

from loops.engine.loop_detection.detectors import DETECTORS, Detector
from loops.engine.loop_detection.meaning import same_meaning
from loops.llm.config import ModelConfig
from loops.llm.embeddings import Embeddings
from tests.evals.loops import WHOLE, combined, found_in, table
from tests.evals.trajectories import EXTRACT, Trajectory, read

PATIENCE_S = 3600.0


def by_meaning(runs: Sequence[Trajectory], embedder: Embeddings, similar: float) -> Detector:
    """``same_meaning`` as the monitor asks it, for every one of ``runs``. A step is known by its marks."""
    from loops.monitor.embeddings import meanings_of

    texts = {(seen.action, seen.outcome): said for run in runs for seen, said in zip(run.steps, run.texts, strict=True)}
    known = meanings_of(embedder, texts)
    return lambda window, thresholds: same_meaning(
        window,
        {seen.step: known[seen.action, seen.outcome] for seen in window if seen.call},
        model=embedder.model,
        similar=similar,
        thresholds=thresholds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="of the endpoint, up to /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--cosine", type=float, nargs="+", default=[0.9])
    parser.add_argument("--data", type=Path, default=WHOLE if WHOLE.exists() else EXTRACT, help="folder of *.jsonl.gz")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    config = ModelConfig(given.model, "openai", given.model, given.url, timeout=PATIENCE_S)
    runs = [run for run in read(given.data, "intercode") if run.half == "tune" and run.rewards and not run.submitted]
    winners = [run for name in ("airline", "swe-agent") for run in read(given.data, name) if run.won]
    words = combined(DETECTORS)
    print(f"Half: tune. Model: {given.model}.")
    for similar in given.cosine:
        meaning = by_meaning([*runs, *winners], Embeddings(config, PATIENCE_S), similar)
        both: Detector = combined((*DETECTORS, meaning))
        rows = (("word pairs", words), ("same_meaning", meaning), ("both", both))
        table(f"Cosine {similar}", runs, rows)
        disturbed = ", ".join(f"{name} {found_in(winners, each)}" for name, each in rows)
        print(f"\nOf {len(winners)} winners disturbed: {disturbed}")


if __name__ == "__main__":
    main()
