"""``python -m experiments.sources d2t personas8 --out <public sets>`` fetches sets from their owners."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urljoin

import yaml

from crm.io.fetch import FetchConfig, PinConfig, fetch
from experiments.sources.sets import HERE


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    known = yaml.safe_load((HERE / "files.yaml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(prog="python -m experiments.sources", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="+", choices=list(known), metavar="set", help=", ".join(known))
    parser.add_argument("--out", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--mirror", help="folder or address that has the same files")
    given = parser.parse_args(words)
    try:
        for name in given.names:
            fetch(pins(name, known[name], given.mirror), given.out)
    except ValueError as error:
        print(f"experiments.sources: {error}", file=sys.stderr)
        return 2
    return 0


def pins(name: str, entry: dict[str, object], mirror: str | None = None) -> FetchConfig:
    """An entry of ``files.yaml`` as `fetch` takes it."""
    source, files = str(entry["source"]), entry["files"]
    assert isinstance(files, dict)
    found = {place: PinConfig(urljoin(f"{source}/", pin["url"]), pin["sha256"]) for place, pin in files.items()}
    return FetchConfig(name, str(entry.get("licence", "")), source=source, mirror=mirror, files=found)


if __name__ == "__main__":
    sys.exit(main())
