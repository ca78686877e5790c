"""Reads a report back: its charts, their numbers and statements, and everything a browser could act on."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = {"meta", "input", "img", "br", "link"}


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict = field(default_factory=dict)
    children: list = field(default_factory=list)

    def all(self, tag=None, **wanted):
        """Elements below with that tag and these attributes, in order; `data_x` stands for `data-x`, `class_` for a class."""
        for child in self.children:
            if isinstance(child, Element):
                classes = (child.attributes.get("class") or "").split()
                if (tag is None or child.tag == tag) and all(
                    value in classes if name == "class_" else child.attributes.get(name.replace("_", "-")) == value
                    for name, value in wanted.items()
                ):
                    yield child
                yield from child.all(tag, **wanted)

    def one(self, tag=None, **wanted):
        """The first of them."""
        return next(self.all(tag, **wanted))

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = [Element("page")]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in _EMPTY:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in _EMPTY:
            return
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read_page(html):
    """The page as a tree.

    Raises:
        AssertionError: if an element is not closed, or closed by another's end.
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert [element.tag for element in reader.open] == ["page"]
    return reader.open[0]


def read_answers(page):
    """Of each chart the statement, the columns and the cells, by the answer's name."""
    found = {}
    for details in page.all("details", class_="numbers"):
        columns = [head.text for table in details.all("thead") for head in table.all("th")]
        rows = [[cell.text for cell in row.all("td")] for body in details.all("tbody") for row in body.all("tr")]
        found[details.attributes["data-answer"]] = (details.one("pre").text, columns, rows)
    return found
