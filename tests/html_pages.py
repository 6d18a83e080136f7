"""An HTML page as a list of elements, read strictly: what is opened is closed, in the right order."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "wbr", "br", "img", "input", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    text: str = ""
    inside: list[Element] = field(default_factory=list)

    def find(self, **attributes: str) -> list[Element]:
        """Elements below it that have all of these attributes; ``data_part`` is ``data-part``."""
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [one for one in self.inside if wanted.items() <= one.attributes.items()]

    def one(self, **attributes: str) -> Element:
        (found,) = self.find(**attributes)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        made = Element(tag, {name: value or "" for name, value in attrs})
        for one in self.open:
            one.inside.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>, line {self.getpos()[0]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for one in self.open:
            one.text += data


def read(text: str) -> Element:
    """The document; every element knows all that is inside, and its text."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], [one.tag for one in reader.open]
    return reader.root
