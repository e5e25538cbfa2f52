"""``python -m convert``: the same as the command, for machines where another program is called convert."""

from convert.cli import main

if __name__ == "__main__":
    main()
