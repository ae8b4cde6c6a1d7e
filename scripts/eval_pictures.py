"""Take the pictures of an evaluation for docs/evals.md: the page of a real run, in a real browser.

    python -m scripts.eval_pictures

Reads docs/evals-real.html, which `newel eval report` has written (see evals/README.md), and writes docs/evals-real.png and
docs/evals-real-dark.png: the page down to its last plot.
"""

from __future__ import annotations

import sys
from typing import Literal

from scripts.pictures import DOCS, save

from tests.browser.bench import launch_browser

PAGE = DOCS / "evals-real.html"
WIDTH = 1112
MARGIN = 16
LOOKS: dict[str, Literal["light", "dark"]] = {"evals-real": "light", "evals-real-dark": "dark"}


def main() -> int:
    with launch_browser() as browser:
        for name, look in LOOKS.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": WIDTH}, color_scheme=look)
            page.goto(PAGE.as_uri())
            box = page.locator("svg").last.bounding_box()
            if box is None:
                sys.exit(f"{PAGE} has no plot.")
            page.set_viewport_size({"width": WIDTH, "height": int(box["y"] + box["height"]) + MARGIN})
            save(page, name)
            page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
