"""``python -m ragstream.settings``: the page ``docs/settings.md``."""

import sys

from ragstream.settings import markdown

sys.stdout.write(markdown())
