"""A program that decodes one picture: its file comes in, RGB pixels or a refusal go out."""

from __future__ import annotations

import io
import sys

from spare_demo.images.bounded_process import bound_this_process
from spare_demo.images.load import PictureError, decode_file


def main() -> None:
    """Argument: the most pixels. Output: width, height and a line end before the pixels, row by
    row; or a line end before the refusal's sentence."""
    bound_this_process()
    try:
        picture = decode_file(io.BytesIO(sys.stdin.buffer.read()), int(sys.argv[1]))
    except PictureError as refusal:
        sys.stdout.buffer.write(b"\n" + str(refusal).encode())
    else:
        sys.stdout.buffer.write(b"%d %d\n" % picture.size)
        sys.stdout.buffer.write(picture.tobytes())


if __name__ == "__main__":
    main()
