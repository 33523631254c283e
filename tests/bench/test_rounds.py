"""The harness: alternation, ratios, and contestants that do other work."""

from __future__ import annotations

import pytest

from bench.rounds import Stopwatch, contest, ratio, within

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have left in the memory takes long to walk through."""
    monkeypatch.setattr("bench.rounds.gc.collect", lambda: 0)


def test_contestants_alternate_in_rotated_order_and_the_first_round_does_not_count() -> None:
    seen = []

    def contestant(name: str, seconds: float):
        def run(stopwatch: Stopwatch) -> list[float]:
            seen.append(name)
            stopwatch.seconds += seconds
            return [1.0]

        return run

    found = contest({"x": contestant("x", 2.0), "y": contestant("y", 6.0)}, rounds=2, check=within(0.0))
    assert "".join(seen) == "xyyxxy"
    assert found == {"x": [2.0, 2.0], "y": [6.0, 6.0]}
    assert ratio(found, peer="y", ours="x") == {"median": 3.0, "rounds": [3.0, 3.0]}


def test_other_work_is_refused() -> None:
    contestants = {"x": lambda _: [1.0, -1.0], "y": lambda _: [1.0, -1.2]}
    with pytest.raises(ValueError, match="y and x"):
        contest(contestants, rounds=1, check=within(0.1))
    contest({"x": contestants["x"], "z": contestants["x"]}, rounds=1, check=within(0.1))


def test_no_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="rounds=0"):
        contest({}, rounds=0, check=within(0.0))
