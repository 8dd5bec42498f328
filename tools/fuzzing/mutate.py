"""Mutations of bytes, text, JSON, tables and containers whose checksums and lengths stay right, so that a
mutant gets past the first look of a parser. Each takes a source of random numbers and returns the mutant."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

Mutation = Callable[[Random, bytes], bytes]

EXTREMES = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63 - 1,
    2**64 - 1,
)
# As they stand in a JSON text.
VALUES = (
    *("null", "NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "1", "0.5", "-0.0", "true", "false", '""'),
    *("1" + "0" * 20, "9" * 5000, "1e308", "1e-320", "2147483648", "9223372036854775808", "[]", "{}", "[[]]"),
    *('"\\u0000"', '"\\ud800"', '"\\u001b[2J"', '"\\u202e"', '"../../x"', '"/etc/hostname"', '"nan"', '"1"'),
    *("[null]", '[""]', '{"a": 1}', "[" * 3000 + "]" * 3000, '"' + "x" * 70000 + '"', "[1, [2, 3]]"),
)
CELLS = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "-1",
        "0",
        "1e308",
        "1e-320",
        "0x10",
        "1_0",
        "\u0661",
        "9" * 400,
    ),
    *(
        "9" * 5000,
        "\0",
        "\x1b[2J",
        "\u202e",
        "\ud800",
        "=1+1",
        "'",
        '"',
        '"a',
        "a,b",
        "a;b",
        "a\tb",
        "a\nb",
        "\r",
    ),
    *("../../x.png", "/etc/hostname", "x" * 300, "x" * 140_000, "None", "true", "1 2", "1,5", "\ufeff", "."),
)


# ---- bytes


def scrambled(random: Random, data: bytes, first: int = 0) -> bytes:
    """One to four changes of bytes; the first ones can be left alone."""
    whole = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if len(whole) <= first:
            break
        at = random.randrange(first, len(whole))
        length = min(random.choice((1, 2, 4, 8, 64, 512)), len(whole) - at)
        how = random.randrange(9)
        if how <= 1:
            whole[at] ^= 1 << random.randrange(8)
        elif how == 2:
            whole[at : at + length] = random.randbytes(length)
        elif how in (3, 4):  # a number, in either order of its bytes
            size = random.choice((1, 2, 4, 8))
            number = random.choice(EXTREMES) & (256**size - 1)
            whole[at : at + size] = number.to_bytes(size, random.choice(("little", "big")))
        elif how == 5:
            del whole[at : len(whole) if random.random() < 0.4 else at + length]
        elif how == 6:
            whole[at:at] = whole[at : at + length]
        elif how == 7:
            source = random.randrange(len(whole))
            whole[at:at] = whole[source : source + length]
        else:
            whole[at : at + length] = bytes(length)
    return bytes(whole)


def after(first: int) -> Mutation:
    """`scrambled`, but for the first bytes, which tell the format."""
    return lambda random, data: scrambled(random, data, first)


def one_of(*mutations: Mutation) -> Mutation:
    return lambda random, data: random.choice(mutations)(random, data)


def replaced(*contents: bytes) -> Mutation:
    return lambda random, data: random.choice(contents)


# ---- JSON


def bent_json(random: Random, data: bytes) -> bytes:
    """The tree with one to three of its values, keys or elements replaced, missing or twice there."""
    try:
        tree = json.loads(data)
    except RecursionError:  # a value was replaced by one nested too deeply before
        return data
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        tree = bent(random, tree)
    return spelt(tree)


class Raw(str):
    """JSON text that stands for a value."""


def bent(random: Random, tree: Any) -> Any:
    places = list(_places(tree))
    if not places:
        return Raw(random.choice(VALUES))
    holder, key = random.choice(places)
    how = random.randrange(10)
    if how <= 5:
        holder[key] = Raw(random.choice(VALUES))
    elif how == 6:
        del holder[key]
    elif how == 7:
        holder[key] = random.choice(([holder[key]], {"value": holder[key]}, str(holder[key])[:50]))
    elif isinstance(holder, list):
        holder.insert(key, holder[key] if how == 8 else random.choice(holder))
    else:  # a key twice, or by another name
        name = random.choice(("", "__class__", key + "x", key.upper(), "\ud800"))
        holder[Twice(key) if how == 8 else name] = Raw(random.choice(VALUES)) if how == 8 else holder.pop(key)
    return tree


class Twice(str):
    """A key of an object that has it already."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _places(tree: Any) -> Any:
    """Each value but the outermost, by what holds it. Of long lists only some, lest nothing else be met."""
    pairs = (
        list(tree.items())
        if isinstance(tree, dict)
        else list(enumerate(tree))
        if isinstance(tree, list)
        else []
    )
    if isinstance(tree, list) and len(pairs) > 12:
        pairs = pairs[:6] + pairs[-6:]
    for key, value in pairs:
        yield tree, key
        yield from _places(value)


def spelt(tree: Any) -> bytes:
    if isinstance(tree, Raw):
        return tree.encode()
    if isinstance(tree, dict):
        return (
            b"{" + b", ".join(json.dumps(str(k)).encode() + b": " + spelt(v) for k, v in tree.items()) + b"}"
        )
    if isinstance(tree, list):
        return b"[" + b", ".join(map(spelt, tree)) + b"]"
    return json.dumps(tree).encode()


def bent_lines(random: Random, data: bytes) -> bytes:
    """JSON, a value on each line: one or two lines bent, or lines gone, twice there or out of order."""
    lines = data.splitlines(keepends=True)
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(lines))
        how = random.randrange(6)
        if how <= 2:
            with suppress(ValueError):  # of a line that was changed before
                lines[at] = bent_json(random, lines[at]) + b"\n"
        elif how == 3:
            lines[at] = random.choice(
                (b"\n", b"null\n", b"{}\n", b"[]\n", b"1\n", b"\xff\n", b"{\n", b'"step"\n')
            )
        elif how == 4:
            lines.insert(random.randrange(len(lines)), lines[at])
        else:
            lines[at] = scrambled(random, lines[at])
    return b"".join(lines)


# ---- text


def cells(separator: str) -> Mutation:
    """A table of text with cells, lines or columns replaced, missing or twice there."""

    def mutated(random: Random, data: bytes) -> bytes:
        rows = [line.split(separator) for line in data.decode().splitlines()]
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            at = random.randrange(len(rows)) if random.random() > 0.15 else 0
            row = rows[at]
            column = random.randrange(len(row))
            how = random.randrange(10)
            if how <= 4:
                row[column] = random.choice(CELLS)
            elif how == 5:
                del rows[at][column : column + random.choice((1, 1, 9))]
                row += [""] * (not row)
            elif how == 6:
                row.insert(column, row[column])
            elif how == 7:
                rows.insert(random.randrange(len(rows) + 1), list(row))
            elif how == 8 and len(rows) > 1:
                del rows[at]
            else:  # the same cell in every line
                word = random.choice(CELLS)
                for other in rows[random.randrange(2) :]:
                    other[min(column, len(other) - 1)] = word
        ending = random.choice(("\n", "\n", "\n", "\r\n", "\r"))
        text = ending.join(map(separator.join, rows)) + ending * random.randrange(2)
        found = text.encode("utf-8", "surrogatepass")
        return random.choice(
            (found, found, found, found, b"\xef\xbb\xbf" + found, text.encode("utf-16", "replace"))
        )

    return mutated


NUMBERS = (
    b"-1",
    b"0",
    b"0.5",
    b"1e5",
    b"99999",
    b"100001",
    b"1e9",
    b"-1e9",
    b"1e308",
    b"1e-320",
    b"2147483648",
    b"nan",
    b"inf",
)


def numbers(random: Random, data: bytes) -> bytes:
    """Some numbers of a text replaced by others."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    for match in sorted(
        random.sample(found, min(len(found), random.choice((1, 1, 2, 20)))), key=lambda one: -one.start()
    ):
        data = data[: match.start()] + random.choice(NUMBERS) + data[match.end() :]
    return data


# ---- containers


def bent_png(random: Random, data: bytes) -> bytes:
    """Its chunks, or the picture's packed rows, changed; lengths and checksums are right."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunks.append([data[at + 4 : at + 8], data[at + 8 : at + 8 + length]])
        at += 12 + length
    for _ in range(random.choice((1, 1, 2))):
        chunk = random.choice(chunks)
        how = random.randrange(6)
        if how <= 2 and chunk[1]:
            chunk[1] = scrambled(random, chunk[1])
        elif how == 3 and chunk[0] == b"IDAT":
            with suppress(zlib.error):  # of a chunk that was changed before
                chunk[1] = zlib.compress(scrambled(random, zlib.decompress(chunk[1])))
        elif how == 4:
            name = random.choice(
                (b"PLTE", b"tRNS", b"gAMA", b"iCCP", b"eXIf", b"tEXt", b"zTXt", b"acTL", b"fcTL", b"fdAT")
            )
            bomb = zlib.compress(bytes(20_000_000)) if random.random() < 0.1 else random.randbytes(12)
            chunks.insert(
                random.randrange(1, len(chunks)), [name, random.choice((b"", b"a\0\0" + bomb, bomb))]
            )
        elif random.random() < 0.5 and len(chunks) > 2:
            chunks.remove(chunk)
        else:
            chunks.insert(random.randrange(1, len(chunks) + 1), list(chunk))
    found = data[:8]
    for name, body in chunks:
        found += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return found


def bent_safetensors(random: Random, data: bytes) -> bytes:
    """Its header bent or its numbers changed, with the length of the header right."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = data[8 : 8 + length], data[8 + length :]
    if random.random() < 0.7:  # as older files are, which nothing vouches for
        tree = json.loads(header)
        tree.get("__metadata__", {}).pop("checksum", None)
        header = spelt(tree)
    how = random.randrange(8)
    if how <= 2:
        tree = json.loads(header)
        if how == 0 and tree.get(
            "__metadata__"
        ):  # what stands beside the tensors: text, some of it JSON itself
            words = tree["__metadata__"]
            name = random.choice(list(words))
            try:
                words[name] = bent_json(random, words[name].encode()).decode("utf-8", "replace")
            except ValueError:
                words[name] = random.choice(CELLS[:12])
        else:
            tree = bent(random, tree)
        header = spelt(tree)
    elif how == 3:
        body = scrambled(random, body)
    elif how in (4, 5):  # whole numbers and real ones alike; not a finite one among them
        pattern = random.choice(("0000807f", "0000c07f", "ffff7f7f", "000080ff", "ffffffff", "00000000"))
        at = random.randrange(0, max(1, len(body) - 4), 4)
        count = random.choice((1, 1, 8, len(body) // 4 - at // 4))
        body = body[:at] + (bytes.fromhex(pattern) * count)[: len(body) - at] + body[at + 4 * count :]
    elif how == 6:  # two tensors of one size exchanged, or one called as another
        tree = json.loads(header)
        names = [name for name in tree if name != "__metadata__"]
        one, other = random.choice(names), random.choice(names)
        tree[one], tree[other] = tree[other], tree[one]
        if random.random() < 0.5:
            tree[one]["dtype"] = random.choice(
                ("F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "C64", "X")
            )
        header = spelt(tree)
    else:
        header = scrambled(random, header)
    return struct.pack("<Q", len(header)) + header + body


def bent_npy(random: Random, data: bytes) -> bytes:
    """An array's head rewritten, or its numbers changed."""
    (length,) = struct.unpack("<H", data[8:10])
    head, body = data[10 : 10 + length].decode("latin1"), data[10 + length :]
    how = random.randrange(5)
    if how == 0:
        return data[: 10 + length] + scrambled(random, body)
    if how == 1:
        return scrambled(random, data, 6)
    if how == 2:
        start, end = head.index("'descr': ") + 9, head.index(", 'fortran")
        kinds = (
            "'|O'",
            "'<f8'",
            "'|u1'",
            "'<U9'",
            "'<M8[s]'",
            "'|V8'",
            "'<f2'",
            "[('a', '<f4')]",
            "'<c16'",
            "7",
        )
        head = head[:start] + random.choice(kinds) + head[end:]
    else:
        start, end = head.index("'shape': ") + 9, head.rindex("}")
        shapes = (
            "()",
            "(0,)",
            "(-1,)",
            "(1,)",
            "(2**40,)",
            "(1099511627776,)",
            "(3, 0, 2)",
            "(1, 1, 1, 1, 1, 1)",
            "(4611686018427387904, 4)",
            "(1000000, 64, 64, 3)",
            "None",
            "(1.5,)",
            "(True, 3)",
            "(5, 2, 2)",
        )
        head = head[:start] + random.choice(shapes) + "," + head[end:]
    head = head.rstrip() + " " * (-(10 + len(head.rstrip()) + 1) % 64) + "\n"
    return data[:8] + struct.pack("<H", len(head)) + head.encode("latin1") + body


def bent_npz(random: Random, data: bytes) -> bytes:
    """An archive of arrays, packed anew with one of them changed, gone, twice there or called otherwise."""
    if random.random() < 0.25:
        return scrambled(random, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at = random.randrange(len(members))
    name, content = members[at]
    how = random.randrange(8)
    if how <= 4:
        members[at] = name, bent_npy(random, content)
    elif how == 5:
        del members[at]
    elif how == 6:
        members[at] = name, random.choice((b"", b"\x93NUMPY", b"\x80\x04N.", content[:80], bytes(30_000_000)))
    else:
        members[at] = random.choice(("x.npy", "../x.npy", name.removesuffix(".npy"), "")), content
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for called, content in members:
            archive.writestr(zipfile.ZipInfo(called or "x"), content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


# ---- pickles


def opcodes(random: Random, data: bytes) -> bytes:
    """The pickle of an attribute with opcodes put in, among them such as import and call."""
    calls = (
        b"cos\nsystem\n(S'touch \"$FUZZ_MARK\"'\ntR.",
        b"(S'touch \"$FUZZ_MARK\"'\nios\nsystem\n.",
        b'\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x12touch "$FUZZ_MARK"\x85R.',
        b'\x80\x02cos\nsystem\nq\x00X\x12\x00\x00\x00touch "$FUZZ_MARK"q\x01\x85Rq\x02.',
    )
    if random.random() < 0.25:
        return random.choice(calls)
    bits = (
        b"(",
        b"]",
        b")",
        b"l",
        b"t",
        b"a",
        b"e",
        b"0",
        b"2",
        b"1",
        b"q\x00",
        b"h\x00",
        b"h\x09",
        b"N",
        b"I1\n",
        b"I" + b"9" * 5000 + b"\n",
        b"}",
        b"s",
        b"u",
        b"R",
        b"o",
        b"b",
        b"\x81",
        b"\x94",
        b"\x85",
        b"\x86",
        b"\x87",
        b"X\xff\xff\xff\x7fa",
        b"\x8e" + b"\xff" * 8,
        b"\x95" + b"\xff" * 8,
        b"Vx\n",
        b"S'x'\n",
        b".",
        b"Pid\n",
        b"Q",
        b"\x82\x01",
        b"G" + bytes(8),
        b"B\xff\xff\xff\xff",
        b"\x97",
        b"\x88",
        b"L" + b"1" * 5000 + b"L\n",
    )
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(found) + 1)
        found[at : at + random.choice((0, 0, 1, 2))] = random.choice(bits) * random.choice((1, 1, 1, 3000))
    return bytes(found)
