"""Standard streams that never end a command: closed, full, cut off, or of an encoding that lacks a character.

Whatever is printed goes through these, by `print`, by `rich` or by a package of somebody else's. A run matters,
its text does not: what cannot be written is dropped, what cannot be encoded is spelled out.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys

_PLAIN = {"–": "-", "−": "-", "—": "-", "…": "...", "×": "x", "²": "^2", "→": "->", "✓": "+", "✗": "x", "•": "*"}
_HANDLER = "proctor.spelled"


class PatientStream(io.TextIOWrapper):
    """A text stream that goes on silently when nobody reads it any more, or its disk is full.

    Attributes:
        lost: why text was dropped that somebody wanted: the disk is full, say. Who hangs up wants no more.
    """

    lost: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or drop."""
        try:
            return super().write(text)
        except OSError as error:
            self._bear(error)
            return len(text)

    def flush(self) -> None:
        """Write out, or drop."""
        try:
            super().flush()
        except OSError as error:
            self._bear(error)

    def _bear(self, error: OSError) -> None:
        if isinstance(error, BlockingIOError):  # another program has made our terminal one that does not wait
            os.set_blocking(self.fileno(), True)
            return
        if error.errno not in (errno.EPIPE, errno.EBADF):
            self.lost = self.lost or error
        # Python tries once more at its end to write what is left, and would complain then.
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def open_streams() -> None:
    """Make the three standard descriptors something, and what is written to two of them patient."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one. Left closed, it would be the database's, and be printed to.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    codecs.register_error(_HANDLER, _spelled)
    sys.stdout = sys.__stdout__ = _patient(sys.stdout, 1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _patient(sys.stderr, 2)  # type: ignore[misc]


def _patient(stream: object, number: int) -> PatientStream:
    encoding, by_line = "utf-8", number == 2
    if isinstance(stream, io.TextIOWrapper):
        encoding, by_line = stream.encoding, stream.line_buffering
        buffer = stream.detach()
    else:
        buffer = open(number, "wb", closefd=False)  # noqa: SIM115 - as long as the process
    return PatientStream(buffer, encoding, _HANDLER, line_buffering=by_line)


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode what an encoding lacks: by its nearest relative, else by its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter) or ascii(letter)[1:-1] for letter in text), error.end
