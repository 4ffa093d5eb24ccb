"""``python -m ragstream``: the same as the ``ragstream`` command."""

from ragstream.cli import main

if __name__ == "__main__":
    main()
