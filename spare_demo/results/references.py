"""What to cite, as BibTeX: this software, and the papers of the methods in a result.

An entry holds the arXiv number that the method names, and title and authors of `papers.py`; of a
paper that is not there the short name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from spare_demo import __version__
from spare_demo.comparison.result import Result
from spare_demo.pruners import PRUNERS, Method
from spare_demo.results.papers import PAPERS

SOFTWARE_TITLE = "SPARE demo: look inside visual token pruning"
SOFTWARE_AUTHORS = "The authors of the SPARE demo"

_ARXIV = re.compile(r"https://arxiv\.org/abs/((\d\d)\d\d\.\d{4,5})")
_VENUE = re.compile(r", ([A-Za-z]+ 20\d\d)$")


def references(result: Result) -> str:
    """A BibTeX file: this software, then each paper once, in the order compared."""
    names = [record.name for record in result.methods.values()]
    methods: dict[str, Method] = {}
    for method in (PRUNERS[name] for name in names if name in PRUNERS):
        methods.setdefault(method.link, method)  # also where it calls the paper otherwise
    software = _entry(
        "spare-demo",
        {"title": SOFTWARE_TITLE, "author": f"{{{SOFTWARE_AUTHORS}}}", "version": __version__},
    )
    return "\n".join([software, *_papers(methods.values())])


def _papers(methods: Iterable[Method]) -> Iterator[str]:
    for method in methods:
        match = _ARXIV.fullmatch(method.link)
        if match is None:
            continue
        # "SPARE, Figure 3" is of SPARE, "SPARE, Table 6, after DART" leads to DART.
        name = method.paper.rpartition("after ")[2].partition(",")[0]
        number, year = match.groups()
        title, authors = PAPERS.get(number, (name, ""))
        yield _entry(
            re.sub(r"\W+", "-", name.lower()),
            {
                "title": title,
                "author": authors,
                "year": f"20{year}",
                "eprint": number,
                "archiveprefix": "arXiv",
                "url": method.link,
                "note": _venue(method.link),
            },
        )


def _venue(link: str) -> str:
    """Where a paper appeared, as one of its methods says; "" where none does."""
    papers = [method.paper for method in PRUNERS.values() if method.link == link]
    return next((match[1] for match in map(_VENUE.search, papers) if match), "")


def _entry(key: str, fields: dict[str, str]) -> str:
    """An entry of the kind that every style knows; fields without a value are left out."""
    # A second pair of braces keeps the capitals of a title.
    values = fields | {"title": f"{{{fields['title']}}}"}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in values.items() if value)
    return f"@misc{{{key},\n{lines}}}\n"
