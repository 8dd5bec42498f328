"""Text and scripts of a report: nothing that stands in a run's files becomes part of the page itself."""

from __future__ import annotations

import base64
import hashlib
import html
import re

from trigpoint.core.io import printable


def escaped(value: object) -> str:
    """Text within HTML, or within the quotes of an attribute."""
    return html.escape(printable(str(value)))


def policy(template: str) -> str:
    """What a self-contained page may do: show pictures that it holds, and run the template's own script. The
    hash is of the template, so that no value put into it can make itself allowed."""
    scripts = re.findall(r"<script>(.*?)</script>", template, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
