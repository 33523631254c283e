"""Statistics of policies' courses: rates with intervals, and where gold turns."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from crm.report.statistics import cluster_interval
from experiments.paper_tables.cells import over_seeds


def selected_rates(courses: Sequence[dict[str, Any]], place: int = 0, criteria: int = 1) -> dict[str, Any]:
    """Of the selected policies, a seed each: gold's win rate over the start, with limits over queries and seeds.

    Of policies that serve several ``criteria``, the rate of the one at ``place``; the other numbers are of all of them.
    """
    measured = {}
    for seed, course in enumerate(courses):
        size = len(course["selected"]["won"]) // criteria
        measured[seed] = cluster_interval(course["selected"]["won"][place * size : (place + 1) * size], range(size))
    cell = over_seeds(measured)
    return {
        "n": sum(interval.n for interval in measured.values()),
        "win_rate": round(cell.mean, 4),
        "low": round(cell.low, 4),
        "high": round(cell.high, 4),
        "seeds": ", ".join(f"{value:.3f}" for value in cell.seeds.values()),
        "step": fmean(course["selected"]["step"] for course in courses),
        **{
            name: round(fmean(course["selected"][name] for course in courses), 4)
            for name in ("kl", "degenerate", "tokens")
        },
        "proxy_gain": round(fmean(course["selected"]["proxy"] - course["course"][0]["proxy"] for course in courses), 4),
    }


def turn(course: dict[str, Any]) -> dict[str, Any]:
    """Where gold's win rate is highest, and what proxy and gold do from there to the end."""
    points = course["course"]
    rates = [fmean(point["won"]) for point in points]
    top = rates.index(max(rates))
    return {
        "step": points[top]["step"],
        "kl": points[top]["kl"],
        "win_rate": rates[top],
        "last_step": points[-1]["step"],
        "last_kl": points[-1]["kl"],
        "last_win_rate": rates[-1],
        "proxy_after": points[-1]["proxy"] - points[top]["proxy"],
        "turned": rates[top] - rates[-1] > 0.05 and points[-1]["proxy"] > points[top]["proxy"],
    }


def turns(courses: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds of `turn`, and how many of the courses turned: gold fell by over .05 while the proxy rose."""
    found = [turn(course) for course in courses]
    means = {name: round(fmean(one[name] for one in found), 4) for name in found[0] if name != "turned"}
    return {**means, "turned": sum(one["turned"] for one in found), "courses": len(found)}


def curve(course: dict[str, Any]) -> list[dict[str, Any]]:
    """The points of a course without its texts."""
    return [
        {
            "step": point["step"],
            "win_rate": round(fmean(point["won"]), 4),
            **{
                name: None if point[name] is None else round(point[name], 4)
                for name in ("proxy", "gold", "kl", "degenerate", "tokens")
            },
        }
        for point in course["course"]
    ]
