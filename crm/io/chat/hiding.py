"""What a server says, before it is shown. In: its text, the key it was sent. Out: the text without the key.

A server that misbehaves may send the key back in other letters: percent or HTML escapes, hexadecimal, base64, reversed.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

SHORTEST = 8
"""Letters and digits of a key that is looked for in every spelling; a shorter one, such as EMPTY, is no secret."""
PIECE = 12
"""Letters and digits in a row that give a part of a key away; what providers begin their keys with is shorter."""
ROUNDS = 2
"""Encodings inside one another."""
LEFT_OUT = "(left out: it repeats the key)"

_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|U\+([0-9a-fA-F]{4})|=([0-9A-F]{2})")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:,]?){8,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}")
_BASE32 = re.compile(r"[A-Z2-7]{16,}")


def hide(text: str, secret: str) -> str:
    """``text`` with ``[key]`` in the place of ``secret``; all of it left out where it says the key in another way."""
    text = text.replace(secret, "[key]")
    bare = _bare(secret)
    if len(bare) < SHORTEST:
        return text
    pieces = {bare[at : at + PIECE] for at in range(max(1, len(bare) - PIECE + 1))}
    pieces |= {piece[::-1] for piece in pieces}
    told = any(piece in spelled for spelled in map(_bare, _spellings(text)) for piece in pieces)
    return LEFT_OUT if told else text


def _bare(text: str) -> str:
    """Its letters and digits alone, so that neither case nor what stands between them matters."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text))).lower()


def _spellings(text: str) -> list[str]:
    """The text and what it may be an encoding of."""
    found = {text: None}
    latest = [text]
    for _ in range(ROUNDS):
        latest = [decoded for form in latest for decoded in _decoded(form) if decoded not in found]
        found |= dict.fromkeys(latest)
    return list(found)


def _decoded(text: str) -> Iterator[str]:
    yield unquote(text)
    yield html.unescape(text)
    yield _ESCAPED.sub(lambda found: chr(int(next(filter(None, found.groups())), 16)), text)
    yield " ".join(_from_hex(found) for found in _HEX.findall(text))
    for start in range(4):  # a word before the key moves its letters
        yield " ".join(_from_base64(found[start:]) for found in _BASE64.findall(text))
    yield " ".join(_from_base32(found) for found in _BASE32.findall(text))


def _from_hex(digits: str) -> str:
    return bytes.fromhex(re.sub(r"[^0-9a-fA-F]", "", digits)).decode("latin-1")


def _from_base64(word: str) -> str:
    whole = word[: len(word) // 4 * 4] if len(word) % 4 == 1 else word + "=" * (-len(word) % 4)
    return base64.urlsafe_b64decode(whole.replace("+", "-").replace("/", "_")).decode("latin-1")


def _from_base32(word: str) -> str:
    try:
        return base64.b32decode(word + "=" * (-len(word) % 8)).decode("latin-1")
    except binascii.Error:  # no encoding has that many letters
        return ""
