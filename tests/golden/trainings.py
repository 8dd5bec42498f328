"""The trainings of `recorded.py` by today's command line.

Where a command is spelt otherwise today, its words stand here under the same name.
"""

from __future__ import annotations

import recorded

SPELT_OTHERWISE: dict[str, tuple[str, ...]] = {}
CASES = recorded.CASES | SPELT_OTHERWISE
