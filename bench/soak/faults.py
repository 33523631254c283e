"""A chat endpoint that fails half of the time. In: a seed. Out: its address, and what it said to whom.

Whatever it sends that is no good answer holds a verdict nonetheless, and the wrong one: whoever takes a cut, refused or
garbled reply for an answer is found out.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable

from crm.io.draws import generator

SHARE = 0.5
HANGS_S = 20.0
OTHER = {"A": "B", "B": "A"}
Key = tuple[str, str]
"""Name of a question, and which response stood first."""


def completion(content: str | None, finish: str = "stop", refusal: str | None = None) -> bytes:
    """The body of a chat completion."""
    message = {"role": "assistant", "content": content, **({"refusal": refusal} if refusal else {})}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 30, "completion_tokens": 12}}).encode()


def http(body: bytes, status: int = 200, *headers: str, length: int | None = None) -> bytes:
    """A whole answer; ``length`` is what its header says."""
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


def good(letter: str) -> bytes:
    """A reply with a verdict."""
    return http(completion(f"The criteria speak for one of them.\n\nVerdict: {letter}"))


FAULTS: dict[str, Callable[[str], bytes]] = {
    "429": lambda wrong: http(completion(wrong), 429, "Retry-After: 1"),
    "429 for long": lambda wrong: http(completion(wrong), 429, "Retry-After: 100000"),
    "429 nonsense": lambda wrong: http(completion(wrong), 429, "Retry-After: soon"),
    "500": lambda wrong: http(completion(wrong), 500),
    "502 as a page": lambda wrong: http(f"<h1>502</h1>{wrong}".encode(), 502, "Content-Type: text/html"),
    "400": lambda wrong: http(completion(wrong), 400),
    "redirect": lambda wrong: http(completion(wrong), 307, "Location: /v1/elsewhere"),
    "page": lambda wrong: http(f"<h1>Hello</h1>\n{wrong}".encode(), 200, "Content-Type: text/html"),
    "compressed": lambda wrong: http(completion(wrong), 200, "Content-Encoding: gzip"),
    "cut body": lambda wrong: http(completion(wrong), 200, "Connection: close", length=5000),
    "cut JSON": lambda wrong: http(completion(wrong)[:-20]),
    "empty body": lambda _: http(b""),
    "no choices": lambda _: http(b'{"choices": []}'),
    "null": lambda _: http(completion(None)),
    "blank": lambda _: http(completion(" \n")),
    "refusal": lambda wrong: http(completion(wrong, refusal="I can't help with that.")),
    "filtered": lambda wrong: http(completion(wrong, finish="content_filter")),
    "cut reply": lambda wrong: http(completion(wrong, finish="length")),
    "no verdict": lambda wrong: http(completion(f"{wrong}\nThough, who knows?")),
    "tie": lambda wrong: http(completion(f"{wrong}\nVerdict: tie")),
    "contradictory": lambda wrong: http(completion(f"{wrong}\nVerdict: {OTHER[wrong[-1]]}")),
    "deep": lambda wrong: http(b'{"a":' * 10_000 + completion(wrong) + b"}" * 10_000),
    "not UTF-8": lambda wrong: http(completion(wrong).replace(b"Verdict", b"\xff\xfeVerdict")),
    "huge": lambda wrong: http(completion(wrong + " " * 2_500_000)),
}
"""What is sent; `hang`, `drip` and `reset` are played."""
PLAYED = ("hang", "drip", "reset")


class FaultyEndpoint:
    """Answers on 127.0.0.1 while `serving`; ``said`` has the letter of each good reply."""

    def __init__(self, seed: int, pause_s: float) -> None:
        self.seed, self.pause_s = seed, pause_s
        self.said: dict[Key, str] = {}
        self.played: Counter[str] = Counter()
        self.url = ""
        self._asked: Counter[Key] = Counter()

    def forget(self) -> None:
        """Let go of questions that are done with, so that memory stays what it is."""
        self.said.clear()
        self._asked.clear()

    async def start(self) -> asyncio.Server:
        """Listen; close the server to end."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        return server

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client left, as it may
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and what becomes of it; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?i)^content-length: (\d+)\r$", head, re.MULTILINE)
        asked = json.loads(await reader.readexactly(int(length[1]) if length else 0))
        material = json.loads(asked["messages"][-1]["content"])
        key = (material["conversation"][0]["content"], material["response_a"][0]["content"])
        self._asked[key] += 1
        draws = generator(self.seed, self._asked[key], "|".join(key), "faults")
        letter, bad = draws.choice("AB"), draws.random() < SHARE
        mode = draws.choice([*FAULTS, *PLAYED]) if bad else "good"
        self.played[mode] += 1
        await asyncio.sleep(self.pause_s)
        return await self._play(key, mode, letter, writer)

    async def _play(self, key: Key, mode: str, letter: str, writer: asyncio.StreamWriter) -> bool:
        if mode == "hang":
            await asyncio.sleep(HANGS_S)
        elif mode == "drip":
            writer.write(http(b"", length=10_000))
            for _ in range(int(HANGS_S * 10)):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.1)
        elif mode == "reset":
            writer.transport.abort()
            return False
        elif mode == "good":
            self.said[key] = letter
            writer.write(good(letter))
        else:
            writer.write(FAULTS[mode](f"Verdict: {OTHER[letter]}"))
        await writer.drain()
        return mode not in ("cut body", "hang", "drip")
