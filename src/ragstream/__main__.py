"""The ``ragstream`` command, and ``python -m ragstream``."""

import sys


def main() -> None:
    """Import everything else here, which takes a second: Ctrl-C may come meanwhile."""
    try:
        from ragstream.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
