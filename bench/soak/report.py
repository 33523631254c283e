"""A soak as a table. In: what `bench.soak` found. Out: Markdown."""

from __future__ import annotations

from typing import Any


def to_markdown(found: dict[str, Any]) -> str:
    """A row a stage; then every limit; then failures in words, where there are any."""
    stages: dict[str, dict[str, Any]] = found["stages"]
    missing = [name for name in found["chosen"] if name not in stages]
    lines = ["# Soak", "", _head(found, missing), "", "| stage | tried | failures | seconds |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {_counts(row['tried'])} | {_counts(row['failures']) or '0'} | {row['seconds']:.0f} |"
        for name, row in stages.items()
    ]
    lines += ["", "| stage | limit | found | allowed | |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {limit} | {_found(told)} | {_allowed(told)} | {'held' if told['held'] else '**broken**'} |"
        for name, row in stages.items()
        for limit, told in row["limits"].items()
    ]
    lines += _waiting(stages)
    examples = [f"- {name}: {_plain(text)}" for name, row in stages.items() for text in row["examples"]]
    about = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    end = f"{about}; {found['cores']} cores; commit {found['commit']}; seed {found['seed']}."
    return "\n".join([*lines, *(["", "Failures:", "", *examples] if examples else []), "", end, ""])


def _head(found: dict[str, Any], missing: list[str]) -> str:
    broken = [name for name, row in found["stages"].items() if not row["held"]]
    said = f"Broken: {', '.join(broken)}." if broken else "Every limit held."
    ended = f" Ended before {', '.join(missing)}." if missing else ""
    return f"{found['seconds'] / 60:.0f} minutes, of {found['minutes']:g} allowed. {said}{ended}"


def _waiting(stages: dict[str, dict[str, Any]]) -> list[str]:
    rows = [
        f"| {name} | {waited['p50']:.3f} | {waited['p95']:.3f} | {waited['p99']:.3f} |"
        for name, row in stages.items()
        if (waited := row["measured"].get("waited, s"))
    ]
    return ["", "| waited, s | p50 | p95 | p99 |", "|---|---|---|---|", *rows] if rows else []


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _found(told: dict[str, Any]) -> str:
    return f"not judged: {told['why']}" if told["found"] is None else f"{told['found']:,}"


def _allowed(told: dict[str, Any]) -> str:
    words = {"at_least": "at least", "at_most": "at most"}
    return ", ".join(f"{word} {told[name]:,}" for name, word in words.items() if name in told)


def _plain(text: str) -> str:
    """What a child or a server said, on one line and without markup."""
    return " ".join(text.split()).replace("<", "‹").replace("|", "/")
