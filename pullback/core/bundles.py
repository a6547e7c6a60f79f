"""Bundles: a JSON header and blobs as one string of bytes, with a version and a checksum, for what is sent or kept.

    magic (16 bytes) | version (4) | SHA-256 of what follows (32) | length of the header (8) | header | blob | blob ...

Numbers are little-endian; the header says of which kind the bundle is, and how long each blob is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from pullback.core.errors import ExportError

MAGIC = b"pullback bundle\n"
VERSION = 1
READERS = {
    "function": "pb.export.deserialize",
    "executable": "pb.export.load_executable",
    "function of JAX's trees": "pullback.compat.jax.export.deserialize",
}
_START = len(MAGIC) + 4
_BODY = _START + 32


def pack(kind: str, header: dict[str, Any], blobs: Sequence[bytes]) -> bytes:
    """A bundle. The header is JSON data; the same header and blobs give the same bytes."""
    text = json.dumps({**header, "kind": kind, "sizes": [len(blob) for blob in blobs]}, allow_nan=False).encode()
    body = b"".join([len(text).to_bytes(8, "little"), text, *blobs])
    return b"".join([MAGIC, VERSION.to_bytes(4, "little"), hashlib.sha256(body).digest(), body])


def unpack(kind: str, data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the blobs of a bundle that is to be of a kind.

    Raises:
        ExportError: it is no bundle, is damaged, or is of another version or kind.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"Exported {kind}s are bytes, but got an object of type {type(data).__name__}.")
    data = bytes(data)
    if not data.startswith(MAGIC):
        raise ExportError(
            f"These {len(data)} bytes are nothing that pullback has exported: they begin otherwise. Pass what `serialize` gave,"
            " as it is."
        )
    version = int.from_bytes(data[len(MAGIC) : _START], "little")
    if version != VERSION:
        raise ExportError(
            f"These bytes are in version {version} of the format of exports; this pullback reads version {VERSION}. Export"
            " again, or install the pullback that wrote them."
        )
    if hashlib.sha256(data[_BODY:]).digest() != data[_START:_BODY]:
        raise ExportError(
            "These bytes were damaged or cut off after they had been exported: their checksum is another one. Copy them again,"
            " in binary mode, or export again."
        )
    at = _BODY + 8 + int.from_bytes(data[_BODY : _BODY + 8], "little")
    header = json.loads(data[_BODY + 8 : at])
    if header["kind"] != kind:
        raise ExportError(
            f"These bytes are an exported {header['kind']}, not an exported {kind}: {READERS[header['kind']]} reads them."
        )
    blobs = []
    for size in header["sizes"]:
        blobs.append(data[at : at + size])
        at += size
    return header, blobs
