"""Text of strangers, made fit to be shown: a program may call itself what it likes."""


def plain(text: str) -> str:
    """The text on one line, with `?` for what moves the cursor, turns the line around or can't be seen."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
