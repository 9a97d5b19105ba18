"""A comparison as one file that a browser reads without turning text into numbers.

Little-endian: 4 bytes with the length of the head; the head, JSON in UTF-8; then, from the next
multiple of 4 on, the arrays one after the other, each from a multiple of 4. An array stands in the
head as {"type", "from", "count"}, `from` in bytes after the head, `count` in numbers.
"""

from __future__ import annotations

import base64
import json
from typing import Any

_NUMBER_BYTES = {"f4": 4, "i4": 4, "i2": 2, "u2": 2, "u1": 1}


def bundled(told: dict[str, Any]) -> bytes:
    """The file of what `payload` gives: `compact.packed` values and bytes become its arrays."""
    arrays = bytearray()

    def array(kind: str, data: bytes) -> dict[str, Any]:
        start = len(arrays)
        arrays.extend(_filled(data))
        return {"type": kind, "from": start, "count": len(data) // _NUMBER_BYTES[kind]}

    def placed(value: Any) -> Any:
        if isinstance(value, bytes):
            return array("u1", value)
        if isinstance(value, list):
            return [placed(one) for one in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"type", "data"}:
            return array(value["type"], base64.b64decode(value["data"]))
        return {name: placed(one) for name, one in value.items()}

    head = json.dumps(placed(told), separators=(",", ":")).encode()
    return len(head).to_bytes(4, "little") + _filled(head) + bytes(arrays)


def _filled(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
