"""The page in a browser without a window: it shows what the JSON says, on a phone and a desktop, light and dark."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare_sample import comparison, large
from PIL import Image

from gelu_deploy import report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    BROWSER is None,
    reason="no chromium or google-chrome here to open the report in; scripts/test installs it where it may",
)

WIDTHS = {"phone": 360, "desktop": 1280}
THEMES = {"dark": 0, "light": 1}  # as Blink numbers them
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
LOOK = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")
LISTEN = """
addEventListener("message", event => {
  const node = document.body.appendChild(document.createElement("pre"));
  node.className = "told";
  node.textContent = event.data;
});"""
STYLE = "body { margin: 0; display: flex; align-items: start } iframe { border: 0; flex: none; height: 1000px }"

Told = dict[str, Any]


@dataclass(frozen=True)
class Browser:
    """A folder of pages, and the program that opens them in frames: its own window is never as narrow as a phone."""

    folder: Path

    def run(self, theme: str, frames: list[str], *arguments: str) -> str:
        """Open some pages side by side, such as ``all phone``; what the program prints."""
        assert BROWSER is not None
        made = (self._frame(*frame.split()) for frame in frames)
        page = self.folder / "frames.html"
        page.write_text(
            f"<!doctype html><style>{STYLE}</style>{''.join(made)}<script>{LISTEN}</script>", encoding="utf-8"
        )
        asked = [f"--blink-settings=preferredColorScheme={THEMES[theme]}", "--window-size=1700,1000", *arguments]
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        own = [f"--user-data-dir={self.folder / 'profile'}", "--virtual-time-budget=3000"]
        command = [BROWSER, *quiet, *own, *asked, page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tell(self, theme: str, frames: list[str]) -> dict[str, Told]:
        """What each frame says of itself."""
        told = re.findall(r'<pre class="told">(.*?)</pre>', self.run(theme, frames, "--dump-dom"), flags=re.DOTALL)
        return {one["frame"]: one for one in (json.loads(html.unescape(text)) for text in told)}

    def said(self, name: str) -> Any:
        """The JSON beside a page."""
        return json.loads((self.folder / name / "report.json").read_text(encoding="utf-8"))

    def _frame(self, name: str, screen: str) -> str:
        page = (self.folder / name / "report.html").read_text(encoding="utf-8")
        looked = POLICY.sub("", page).replace("</head>", f"<script>{LOOK}</script></head>")
        (self.folder / f"{name}.html").write_text(looked, encoding="utf-8")
        return f'<iframe name="{name} {screen}" src="{name}.html" width="{WIDTHS[screen]}"></iframe>'


RESULTS = {"all": comparison(), "large": large()}
FRAMES = [f"{name} {screen}" for name in RESULTS for screen in WIDTHS]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    folder = tmp_path_factory.mktemp("browser")
    for name, result in RESULTS.items():
        (folder / name).mkdir()
        report.write(result, folder / name)
    return Browser(folder)


@pytest.fixture(scope="module", params=THEMES)
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def told(browser: Browser, theme: str) -> dict[str, Told]:
    return browser.tell(theme, FRAMES)


@pytest.fixture(params=FRAMES)
def frame(told: dict[str, Told], request: pytest.FixtureRequest) -> Told:
    return told[request.param]


def test_no_page_is_wider_than_its_screen(frame: Told) -> None:
    assert frame["width"] == WIDTHS[frame["frame"].split()[1]]
    assert frame["scroll"] <= frame["width"]
    assert frame["beyond"] == []
    assert frame["cut"] == []


def test_the_theme_is_the_readers(frame: Told, theme: str) -> None:
    assert frame["dark"] == (theme == "dark")
    red, green, blue = (int(part) for part in re.findall(r"\d+", frame["ground"])[:3])
    assert (red + green + blue < 3 * 64) if theme == "dark" else (red + green + blue > 3 * 192)


def test_labels_of_the_plot_lie_on_no_other_and_in_their_card(frame: Told) -> None:
    card = frame["card"]
    for left, top, right, bottom in frame["labels"]:
        assert card[0] <= left
        assert right <= card[2]
        assert card[1] <= top
        assert bottom <= card[3]
    for one, other in combinations(frame["labels"], 2):
        wide, high = (min(one[end], other[end]) - max(one[end - 2], other[end - 2]) for end in (2, 3))
        assert min(wide, high) < 4, (one, other)


UNITS = {"%": 0.01, "kB": 1e3, "MB": 1e6, "points": 0.01, "dB": 1.0, "ms": 1.0, "×": 1.0, "": 1.0}


def shows(text: str, value: float | None, factor: float = 1.0) -> bool:
    """Whether the text is this number, rounded to the digits that it has; a dash or ∞ where JSON has null."""
    if value is None:
        return text in {"–", "∞", "−∞"}
    found = re.fullmatch(r"(−?[\d,]+)(\.\d+)?(e-?\d+)? ?(\D*)", text)
    assert found, text
    whole, digits, power, unit = found[1].replace("−", "-").replace(",", ""), found[2] or "", found[3] or "", found[4]
    scale = factor * UNITS[unit] * float(f"1{power}")
    return math.isclose(float(whole + digits) * scale, value, abs_tol=0.501 * scale * 10.0 ** -max(0, len(digits) - 1))


def get(*path: str) -> Callable[[Any], Any]:
    def read(variant: Any) -> Any:
        for name in path:
            variant = None if variant is None else variant[name]
        return variant

    return read


def memory(variant: Any) -> Any:
    return variant["memory"] or None


VALUES = {
    "score": get("score", "value"),
    "loss": get("difference", "loss", "value"),
    "agreement": get("agreement"),
    "kl": get("kl"),
    "sqnr": get("sqnr"),
    "bytes": get("bytes"),
    "p50": get("latency", "p50"),
    "p90": get("latency", "p90"),
    "p99": get("latency", "p99"),
    "ratio": get("latency", "ratio", "value"),
    "memory": memory,
    "integer_share": get("integer_share"),
}
INTERVALS = {"score": get("score"), "loss": get("difference", "loss"), "ratio": get("latency", "ratio")}
POINTS = {"loss": 0.01}


@pytest.mark.parametrize("screen", WIDTHS)
def test_every_variant_shows_what_the_json_says(browser: Browser, told: dict[str, Told], screen: str) -> None:
    said = browser.said("all")["variants"]
    cells = {(name["variant"], name["column"]): text.splitlines() for name, text in told[f"all {screen}"]["cells"]}
    assert len(cells) == 14 * len(said)
    for one in said:
        for column, value in VALUES.items():
            lines = cells[one["name"], column]
            assert shows(lines[0], value(one), POINTS.get(column, 1.0)), (one["name"], column, lines)
        for column, spread in INTERVALS.items():
            lines = cells[one["name"], column]
            assert (spread(one) is None) == (len(lines) == 1)
            if len(lines) > 1:
                low, high = lines[1].removesuffix("%").split(" to ")
                factor = 0.01 if lines[1].endswith("%") else POINTS.get(column, 1.0)
                assert shows(low, spread(one)["low"], factor), lines
                assert shows(high, spread(one)["high"], factor), lines


@pytest.mark.parametrize("screen", WIDTHS)
def test_lost_and_gained_and_kernels_are_those_of_the_json(
    browser: Browser, told: dict[str, Told], screen: str
) -> None:
    cells = {(name["variant"], name["column"]): text.splitlines() for name, text in told[f"all {screen}"]["cells"]}
    for one in browser.said("all")["variants"]:
        gap, kernels = one["difference"] or {}, [f"{count} × {name}" for name, count in one["kernels"].items()]
        counted = gap.get("p") is not None
        assert cells[one["name"], "flips"][0] == (f"{gap['lost']} : {gap['gained']}" if counted else "–")
        assert cells[one["name"], "kernels"] == (kernels or ["–"])


@pytest.mark.parametrize("screen", WIDTHS)
def test_verdict_and_gates_are_those_of_the_json(browser: Browser, told: dict[str, Told], screen: str) -> None:
    said, seen = browser.said("all"), told[f"all {screen}"]
    assert seen["verdict"] == "✕ FAIL"
    assert said["decision"] in seen["heading"]
    marks = {"pass": "✓ pass", "fail": "✕ FAIL", "cannot tell": "? CANNOT TELL"}
    assert [(name["variant"], name["gate"]) for name, _ in seen["gates"]] == [
        (one["variant"], one["gate"]) for one in said["gates"]
    ]
    for one, (_, text) in zip(said["gates"], seen["gates"], strict=True):
        words = " ".join(text.split())
        assert words.startswith(marks[one["verdict"]])
        assert " ".join(one["reason"].split()) in words


@pytest.mark.parametrize("screen", WIDTHS)
def test_every_site_is_drawn_with_its_numbers(browser: Browser, told: dict[str, Told], screen: str) -> None:
    said = browser.said("all")["sites"]
    seen = told[f"all {screen}"]["sites"]
    assert [(name["family"], name["site"]) for name, _, _ in seen] == [(one["family"], one["module"]) for one in said]
    for one, (_, text, pictures) in zip(said, seen, strict=True):
        assert pictures == 1 + any(one["lobe"]["counts"])
        codes = f"{one['codes_below_zero']} codes below zero" if one["grid"] else "no 8-bit grid"
        assert codes in text
        if one["lobe_sqnr"] is not None:
            assert shows(re.findall(r"lobe SQNR ([^;]+);", text)[0], one["lobe_sqnr"])


def test_a_picture_of_it_can_be_taken(browser: Browser, theme: str) -> None:
    file = browser.folder / f"{theme}.png"
    browser.run(theme, ["all phone"], f"--screenshot={file}")
    grey = np.asarray(Image.open(file).convert("L"), np.float64)[:, :360]
    assert grey.shape == (1000, 360)
    assert grey.std() > 10
    assert (grey.mean() < 80) == (theme == "dark")
