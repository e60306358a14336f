"""What a service says of itself on /healthz and /readyz."""


class Health:
    """Whether the service can work, and why not. Alive is shown by answering at all."""

    def __init__(self) -> None:
        self.is_ready = False
        self.why = "starting"
        self.notes: dict[str, object] = {}

    def ready(self) -> None:
        self.is_ready = True
        self.why = ""

    def not_ready(self, why: str) -> None:
        self.is_ready = False
        self.why = why

    def note(self, key: str, value: object) -> None:
        """Show a fact beside the state, for example the term or the nodes served."""
        self.notes[key] = value

    def report(self) -> dict[str, object]:
        return {"ready": self.is_ready, "why": self.why, **self.notes}
