"""A chat endpoint of our own on 127.0.0.1 that can misbehave in every way a real one has been seen to."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

DEEP = '{"a":' * 10_000 + "1" + "}" * 10_000
REFUSAL = "I'm sorry, but I can't help with that."


def answer(name: str) -> str:
    """The valid reply to the request called ``name``: nothing else may ever be taken for its criteria."""
    return json.dumps({"criteria_a": [f"Wants {name} to be long"], "criteria_b": [f"Wants {name} to be short"]})


def completion(content: str | None, finish: str = "stop", refusal: str | None = None) -> str:
    message = {"role": "assistant", "content": content, **({"refusal": refusal} if refusal else {})}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 30, "completion_tokens": 12}})


def http(body: str | bytes, status: int = 200, *headers: str, length: int | None = None) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data) if length is None else length}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + data


def in_seconds(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


def filled(text: str, size: int = 1_900_000) -> str:
    """A completion that says ``text`` again and again, as often as the bytes of a body allow."""
    return completion(text * (size // len(json.dumps(text)[1:-1])))


def costly(good: str) -> dict[str, Callable[[], bytes]]:
    """Replies of nearly two million bytes, which read carelessly take minutes."""
    size = 1_900_000
    many = json.loads(completion(good))
    return {
        "costly_braces": lambda: http(filled("{")),
        "costly_opened": lambda: http(filled("{ ")),
        "costly_objects": lambda: http(filled('{"a":1} ')),
        "costly_lists": lambda: http(filled("[]")),
        "costly_fences": lambda: http(filled("```json\n")),
        "costly_thoughts": lambda: http(filled("<think>")),
        "costly_sorry": lambda: http(filled("I'm so ")),
        "costly_verdicts": lambda: http(filled("Verdict: A\n")),
        "costly_blanks": lambda: http(filled(" \n")),
        "costly_digits": lambda: http('{"choices": ' + "9" * size + "}"),
        "costly_depth": lambda: http("[" * (size // 2) + "]" * (size // 2)),
        "costly_keys": lambda: http("{" + ",".join(f'"{n:07d}":1' for n in range(size // 13)) + ',"z":1,"z":2}'),
        "costly_choices": lambda: http(json.dumps({"choices": many["choices"] * (size // 200)})),
        "costly_mistakes": lambda: http('{"choices": [' + ",".join(["3"] * (size // 2)) + "]}"),
        "costly_criteria": lambda: http(
            completion(json.dumps({"criteria_a": ["x"] * 50_000, "criteria_b": []})[:size])
        ),
        "costly_escapes": lambda: http(filled("\\u0041").replace("\\\\", "\\")),
    }


def responses(name: str, key: str) -> dict[str, Callable[[], bytes]]:
    """What each mode sends at once; ``hang``, ``drip`` and ``reset`` are played by the server itself."""
    good = answer(name)
    page = "<html><body><h1>502 Bad Gateway</h1></body></html>"
    return {
        "good": lambda: http(completion(good)),
        "no_usage": lambda: http(completion(good).replace('"usage"', '"other"')),
        "429_seconds": lambda: http("{}", 429, "Retry-After: 1"),
        "429_date": lambda: http("{}", 429, f"Retry-After: {in_seconds(2)}"),
        "429_huge": lambda: http("{}", 429, "Retry-After: 100000"),
        "429_far_date": lambda: http("{}", 429, f"Retry-After: {in_seconds(99999)}"),
        "429_garbage": lambda: http("{}", 429, "Retry-After: soon"),
        "429_negative": lambda: http("{}", 429, "Retry-After: -1000"),
        "500": lambda: http('{"error": "boom"}', 500),
        "502_html": lambda: http(page, 502, "Content-Type: text/html"),
        "400": lambda: http('{"error": "too long"}', 400),
        "401": lambda: http(json.dumps({"error": f"Incorrect API key provided: {key}"}), 401),
        "404": lambda: http('{"error": "no such model"}', 404),
        "echo_400": lambda: http(f"you sent {key}", 400),
        "echo_500": lambda: http(f"you sent {key}", 500),
        "redirect": lambda: http("", 307, "Location: /v1/elsewhere"),
        "html_200": lambda: http(page, 200, "Content-Type: text/html"),
        "gzip": lambda: http(gzip.compress(completion(good).encode()), 200, "Content-Encoding: gzip"),
        "cut_body": lambda: http(completion(good)[:-40], 200, "Connection: close", length=5000),
        "cut_json": lambda: http(completion(good)[:-40]),
        "empty_body": lambda: http(""),
        "no_choices": lambda: http('{"choices": []}'),
        "null_content": lambda: http(completion(None)),
        "blank": lambda: http(completion(" \n")),
        "refusal_field": lambda: http(completion(None, refusal=REFUSAL)),
        "refusal_text": lambda: http(completion(REFUSAL)),
        "filtered": lambda: http(completion(good, finish="content_filter")),
        "fenced": lambda: http(completion(f"```json\n{good}\n```")),
        "prose": lambda: http(completion(f"Certainly, for {{a, b}} it is:\n{good}\nDoes {{this}} help?")),
        "thinking": lambda: http(completion(f"<think>\nmaybe {good}\n</think>\n\n{good}")),
        "two_objects": lambda: http(completion(f"{good}\nor rather\n{good}")),
        "list": lambda: http(completion(f"[{good}]")),
        "inner_object": lambda: http(completion(f'{{"result": {good}, oops')),
        "wrong_schema": lambda: http(completion('{"criteria_a": ["Wants it long"], "criteria_b": "Wants it short"}')),
        "placeholder": lambda: http(completion('{"criteria_a": ["..."], "criteria_b": ["criterion 1"]}')),
        "duplicate": lambda: http(completion('{"criteria_a": ["Be kind"], "criteria_b": ["be  KIND"]}')),
        "nan_text": lambda: http(completion('{"criteria_a": NaN, "criteria_b": ["Wants it short"]}')),
        "deep_text": lambda: http(completion(DEEP)),
        "length": lambda: http(completion(good, finish="length")),
        "deep": lambda: http(DEEP),
        "nan": lambda: http('{"choices": [], "usage": NaN}'),
        "not_utf8": lambda: http(completion(good).encode().replace(b"Wants", b"W\xff\xfe\xff", 1)),
        "surrogate": lambda: http(completion(good).replace("Wants", "W\\\\ud800", 1).replace("\\\\", "\\")),
        "huge": lambda: http(completion(good + " " * 3_000_000)),
        **costly(good),
    }


class FaultServer:
    """Answers each request in the mode that ``mode_of(name, times)`` says.

    ``name`` is the word behind ``#`` in the first user turn, ``times`` how often it had been asked for before.
    """

    def __init__(self) -> None:
        self.mode_of: Callable[[str, int], str] = lambda name, _times: name.rsplit("-", 1)[0]
        self.bodies: list[dict[str, Any]] = []
        self.arrivals: list[float] = []
        self.paths: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.delay_s = 0.0
        self.at_once = self.most_at_once = 0
        self.url = ""

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        started.set()
        await stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client left, as it may, or the test is over
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and what becomes of it; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = {name.lower(): value for name, value in re.findall(r"^([\w-]+): (.*)\r$", head, re.MULTILINE)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.paths[head.split()[1]] += 1
        self.arrivals.append(time.monotonic())
        self.bodies.append(body)
        user = next(turn["content"] for turn in body["messages"] if turn["role"] == "user")
        name = re.search(r"#([\w-]+)", user)[1]  # type: ignore[index]
        mode = self.mode_of(name, self.asked[name])
        self.asked[name] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.delay_s)
            return await self._play(mode, responses(name, headers.get("authorization", "")[7:]), writer)
        finally:
            self.at_once -= 1

    async def _play(self, mode: str, known: dict[str, Callable[[], bytes]], writer: asyncio.StreamWriter) -> bool:
        if mode == "hang":
            await asyncio.sleep(30)
        elif mode == "drip":
            writer.write(http("", length=10_000)[:-2] + b"\r\n")
            for _ in range(600):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        elif mode == "reset":
            writer.transport.abort()
            return False
        else:
            writer.write(known[mode]())
            await writer.drain()
        return mode != "cut_body"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    faults = FaultServer()
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(faults.serve(started, stop)))
    thread.start()
    assert started.wait(5)
    yield faults
    loop.call_soon_threadsafe(stop.set)
    thread.join(5)
    assert not thread.is_alive()
    loop.close()


@pytest.fixture(scope="session")
def valid_answer() -> Callable[[str], str]:
    """The only valid reply to the request of that name."""
    return answer
