"""A digest in a JSON object that tells when it was damaged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SEAL = "seal"


def seal(content: Mapping[str, Any]) -> str:
    """Digest (64 hex digits) of all values but the seal itself, whatever the white space and the order of keys."""
    rest = {name: value for name, value in content.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
