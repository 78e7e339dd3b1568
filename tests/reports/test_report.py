"""HTML pages: nothing is fetched, and names are escaped."""

import base64
import io
import re

import numpy as np
from PIL import Image

from tadam.reports.html import accuracy_table, page, picture, section


def test_a_picture_carries_its_own_pixels() -> None:
    pixels = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)
    data = re.search(r"base64,([^\"]+)", picture(pixels, 40, "x"))
    assert data is not None
    decoded = np.asarray(Image.open(io.BytesIO(base64.b64decode(data[1]))))
    assert np.array_equal(decoded, pixels)


def test_a_page_fetches_nothing_and_escapes_names() -> None:
    table = accuracy_table([("<script>", 0.5, None, ""), ("ours", 0.61, 0.004, "5 s")], best="ours")
    html = page("a < b", "", [section("x & y", table)])
    assert "<script>" not in html
    assert "a &lt; b" in html
    assert "61.0 ± 0.4 %" in html
    assert not re.search(r"(src|href)=\"(?!data:)", html)
