"""The trainings of `recorded.py` by today's command line.

Where a command is spelt otherwise today, its words stand here under the same name.
"""

from __future__ import annotations

import recorded

SPELT_OTHERWISE: dict[str, tuple[str, ...]] = {
    name: tuple(word.replace("looks=", "views=") for word in recorded.CASES[name])
    for name in ("discover-looks", "distill-mirror")
}
CASES = recorded.CASES | SPELT_OTHERWISE
