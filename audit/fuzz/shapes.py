"""What a fuzzer feeds: inputs of the right shape with something wrong in them, and the words that they are made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from .inputs import sound_parquet

__all__ = [
    "addresses",
    "changed",
    "csv_files",
    "entries",
    "hierarchies",
    "json_of",
    "parquet_files",
    "scripts",
    "specs",
]

Bytes = st.SearchStrategy[bytes]
ODD = [
    "",
    "*",
    "\x00",
    "\u2028",
    "é",
    "\U0001f4a3",
    '"',
    '""',
    "a" * 300,
    "nan",
    "-0",
    "1e400",
    "0x10",
    "٣",
    "../x",
    "%00",
]
odd_texts = st.sampled_from(ODD) | st.text(max_size=12)
odd_numbers = (
    st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([0, 1, -1, 2**31, 2**63, 10**18, 0.5, 1e-300, 1e308, 20, 0.1, 1e-6])
)
odd_values = st.recursive(
    odd_texts | odd_numbers | st.booleans(), lambda inner: st.lists(inner, max_size=4), max_leaves=6
)


@st.composite
def changed(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """A sound input with one to four changes: bits, bytes, stretches doubled, moved, cut or made of other bytes."""
    content = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        size = draw(st.integers(0, 24))
        match draw(st.integers(0, 5)):
            case 0 if content:
                content[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                content[at : at + size] = draw(st.binary(max_size=24))
            case 2:
                content[at:at] = content[at : at + size] * draw(st.integers(1, 3))
            case 3:
                del content[at : at + size]
            case 4:
                source = draw(st.integers(0, max(0, len(content) - 1)))
                content[at : at + size] = content[source : source + size]
            case _:
                content[at : at + size] = b"\xff" * size
    return bytes(content)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(part)}" for name, part in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


SPEC: dict[str, dict[str, Any]] = {
    "release": {"name": "x", "form": "counts", "format": "csv", "output": "out"},
    "data": {"dataset": "people", "source": "people.csv", "separator": ";", "null": [""], "rows_per_person": 1},
    "sampling": {"rate": 0.1},
    "suppression": {"k": 20},
    "privacy": {"delta": 1e-6, "epsilon": 1.0},
    "selection": {"epsilon": 0.1, "on": "fresh-sample", "rate": 0.5, "draw": "exponential", "steps": 100},
    "histogram": {"kind": "noisy", "epsilon": 0.5, "noise": "two-sided-geometric", "k": 20, "horizon": 30, "margin": 5},
    "answer": {
        "kind": "mean",
        "epsilon": 0.5,
        "column": "age",
        "by": ["colour"],
        "lower": 0,
        "upper": 9,
        "least_records": 5,
    },
    "cluster": {"class": "dask.distributed.LocalCluster", "workers": 1},
    "columns.colour": {"values": ["red", "blue"], "level": 0, "weight": 1},
    "columns.age": {
        "interval": {"lower": 0, "upper": 100, "widths": [10, 50]},
        "level": 1,
        "min_level": 0,
        "max_level": 2,
    },
    "columns.town": {"hierarchy": "towns.csv", "level": 1},
}
USUAL = ("release", "data", "sampling", "suppression", "privacy", "columns.colour", "columns.age", "columns.town")


@st.composite
def specs(draw: st.DrawFn) -> bytes:
    """A specification: most usual tables, perhaps others, some keys left out, some values odd."""
    names = [name for name in USUAL if draw(st.integers(0, 15))]
    names += draw(st.lists(st.sampled_from(sorted(set(SPEC) - set(USUAL))), max_size=2, unique=True))
    lines = []
    for name in names:
        lines.append(f"[{name}]")
        for key, value in SPEC[name].items():
            fate = draw(st.integers(0, 19))
            if fate == 0 or (key in ("min_level", "max_level", "weight", "epsilon") and fate < 12):
                continue
            if key == "level" and "selection" in names and fate < 15:
                continue
            lines.append(f"{key} = {_toml(draw(odd_values) if fate == 19 else value)}")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


@st.composite
def hierarchies(draw: st.DrawFn) -> bytes:
    """Lines of a hierarchy; most are even and monotone, some are not."""
    separator = draw(st.sampled_from([";", ","]))
    groups = draw(st.lists(odd_texts, min_size=1, max_size=4))
    rows = []
    for leaf in draw(st.lists(odd_texts, max_size=12)):
        row = [leaf, draw(st.sampled_from(groups)), "*"]
        rows.append(row[: draw(st.sampled_from([3, 3, 3, 3, 2]))])
    quoted = [separator.join(f'"{cell}"' if draw(st.booleans()) else cell for cell in row) for row in rows]
    text = draw(st.sampled_from(["\n", "\r\n"])).join(quoted) + draw(st.sampled_from(["", "\n"]))
    return draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"])) + text.encode("utf-8", "surrogatepass")


@st.composite
def csv_files(draw: st.DrawFn) -> bytes:
    """A header and lines; fields may be anything, quotes may not close."""
    header = draw(st.sampled_from([b"number;other;letter", b'"letter";number', b"letter;number;", b"number;x"]))
    field = st.sampled_from([b"a", b"7", b'"a;b"', b'"q"""', b'"', b"\xff", b"", b"\x00", b"\xc3\xa9"]) | st.binary(
        max_size=6
    )
    lines = draw(st.lists(st.lists(field, max_size=4).map(b";".join), max_size=20))
    return header + draw(st.sampled_from([b"\n", b"\r\n", b""])) + draw(st.sampled_from([b"\n", b"\r\n"])).join(lines)


WRITINGS = [
    {},
    {"compression": "snappy"},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "gzip", "use_dictionary": False},
    {"write_page_index": True, "column_encoding": {"number": "DELTA_BINARY_PACKED"}, "use_dictionary": False},
]


def parquet_files() -> Bytes:
    """Small files of several writers, with changes."""
    return changed([sound_parquet(**writing) for writing in WRITINGS])


@st.composite
def json_of(draw: st.DrawFn, seed: bytes, *, mark: bytes) -> bytes:
    """A JSON document with some of its parts replaced, left out or doubled, with a mark before it or without."""
    document = json.loads(seed)
    for _ in range(draw(st.integers(1, 3))):
        place: Any = document
        while True:
            names = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not names:
                break
            name = draw(st.sampled_from(names))
            if isinstance(place[name], dict | list) and place[name] and draw(st.booleans()):
                place = place[name]
                continue
            match draw(st.integers(0, 4)):
                case 0:
                    del place[name]
                case 1 if isinstance(place, dict):
                    place[draw(odd_texts)] = place[name]
                case 2:
                    place[name] = {} if draw(st.booleans()) else []
                case _:
                    place[name] = draw(
                        odd_values | st.none() | st.sampled_from(["0", "1", "1e-6", "0.1", "-1", "0" * 64])
                    )
            break
    text = (
        json.dumps(document, sort_keys=True, separators=(",", ":"))
        if draw(st.booleans())
        else json.dumps(document, indent=2)
    )
    return draw(st.sampled_from([mark, mark, b""])) + text.encode("utf-8", "surrogatepass")


@st.composite
def entries(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """A place in the chain and an entry's body: one of the ledger's own with changes, in its canonical form mostly."""
    place = draw(st.integers(0, 40))
    if draw(st.booleans()):
        return bytes([place]) + draw(changed(seeds))
    seed = json.loads(draw(json_of(draw(st.sampled_from(seeds)), mark=b"")))
    return bytes([place]) + json.dumps(seed, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")


@st.composite
def scripts(draw: st.DrawFn) -> bytes:
    """Edits of a file: where, how long, what; perhaps a cut."""
    cut = b"\xff" + draw(st.binary(min_size=3, max_size=3)) if draw(st.integers(0, 5)) == 0 else b""
    edit = st.tuples(st.binary(min_size=3, max_size=3), st.integers(0, 15), st.binary(min_size=16, max_size=16))
    return cut + b"".join(at + bytes([size]) + new[: size + 1] for at, size, new in draw(st.lists(edit, max_size=12)))


PATHS = [
    "/",
    "/overview",
    "/datasets/",
    "/releases",
    "/releases/",
    "/samples",
    "/refusals",
    "/verification",
    "/entries/",
]
PATHS += [
    "/calculator",
    "/datasets/1/forecast",
    "/metrics",
    "/health",
    "/static/",
    "/verification/again",
    "/report",
    "/csv",
    "/api/v1",
]


@st.composite
def addresses(draw: st.DrawFn) -> bytes:
    """An address with parameters, and headers."""
    path = draw(st.sampled_from(["", "", "/report", "/csv", "/api/v1"])) + draw(st.sampled_from(PATHS))
    path += draw(
        st.sampled_from(["", "1", "0", "3", "one", "certificate.json"]) | odd_texts | st.integers(-9, 2**70).map(str)
    )
    names = st.sampled_from(["before", "after", "cause", "k", "sampling_rate", "epsilon", "delta", "releases", "x"])
    values = st.sampled_from(["1", "20", "0.1", "1e-6", "", "12", "1e999", "9" * 30, "-1", "nan"]) | odd_texts
    query = "&".join(f"{name}={value}" for name, value in draw(st.lists(st.tuples(names, values), max_size=6)))
    headers = st.sampled_from(
        ["authorization: Basic x", "x-forwarded-for: 1", "accept: */*", "range: bytes=0-1", "if-none-match: *"]
    )
    lines = [f"{path}?{query}" if query else path, *draw(st.lists(headers, max_size=3))]
    return "\n".join(lines).encode("utf-8", "surrogatepass")
