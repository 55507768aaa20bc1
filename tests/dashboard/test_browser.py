"""What a person sees: real Chromium, every page, in light, dark and on a phone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dashboard_kit import HOSTILE, HOSTILE_SESSION, SECRET, TEA
from playwright.sync_api import Browser, Page, expect, sync_playwright

from hermes_pgmemory.dashboard.words import url

pytestmark = pytest.mark.xdist_group("dashboard")

ROOT = Path(__file__).parents[2]
SHOTS = os.environ.get("DASHBOARD_SHOTS")
"""A folder for a picture of each page, for who wants to look at them."""
AXE = ROOT / ".venv" / "axe.min.js"
PAGES = {
    "overview": "/",
    "search": "/search?q=when+is+tea+served",
    "asked nothing": "/search",
    "found nothing": "/search?q=zzz&theme=nobody",
    "memories": "/theme?name=marketing",
    "hostile memories": "/theme?name=research",
    "private memories": "/theme?name=whatsapp-dm",
    "changes": "/changes?theme=marketing",
    "conversations": "/sessions?theme=marketing",
    "conversation": url(
        "/session", theme="marketing", id="agent:main:webhook:00-5a1c0b7e9d24"
    ),
    "hostile conversation": url("/session", theme="research", id=HOSTILE_SESSION),
    "delegations": "/delegations",
    "journal": "/journal",
    "nothing": "/nothing",
}
DESK = {"width": 1280, "height": 720}
PHONE = {"width": 375, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "install chromium: scripts/test does"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def inside(browser: Browser, serve) -> Iterator[tuple[str, list[dict]]]:
    """The site's address, and the cookies of the one browser that was let in."""
    serving = serve()
    context = browser.new_context()
    page = context.new_page()
    page.goto(serving.url)
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "What the fleet remembers"
    )
    assert "token" not in page.url
    yield f"http://127.0.0.1:{serving.port}", context.cookies()
    context.close()


@pytest.fixture(scope="module")
def window(browser: Browser, inside) -> Iterator[Callable[..., Page]]:
    """Return a window, the same one for the same options: to open one is dear."""
    base, cookies = inside
    opened: dict[str, Page] = {}

    def window(**options) -> Page:
        if (key := repr(options)) not in opened:
            options.pop("of_its_own", None)
            context = browser.new_context(base_url=base, **options)
            context.add_cookies(cookies)
            opened[key] = context.new_page()
        return opened[key]

    yield window
    for page in opened.values():
        page.context.close()


@pytest.fixture
def open_page(window: Callable[..., Page]) -> Iterator[Callable[..., Page]]:
    """Open a page in a light, wide window; nothing may go wrong in it unnoticed."""
    wrong: list[str] = []
    used: list[Page] = []
    heard = {
        "console": lambda one: wrong.append(one.text),
        "pageerror": lambda one: wrong.append(str(one)),
    }

    def open_page(path: str, **options) -> Page:
        page = window(**options)
        used.append(page)
        for event, listener in heard.items():
            page.on(event, listener)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(DESK)
        page.goto(path)
        return page

    yield open_page
    for page in used:
        page.goto("/static/style.css")  # a page on which nothing runs
        for event, listener in heard.items():
            page.remove_listener(event, listener)
    # Chromium reports the answer itself where it is an error.
    assert [one for one in wrong if "the server responded with" not in one] == []


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS, f"{name}.png"), full_page=True)


def serious(page: Page, *rules: str) -> list[str]:
    """Return what axe has against a page, by all or some of its rules."""
    if not rules:
        page.add_script_tag(path=AXE)
    options = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = rules
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} ({node['failureSummary'][:200]})"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_a_page(open_page, name):
    # Only in such a window may a test bring a script along.
    page = open_page(PAGES[name], bypass_csp=True)
    assert serious(page) == []
    shoot(page, name)
    page.emulate_media(color_scheme="dark")
    assert serious(page, "color-contrast") == []
    page.set_viewport_size(PHONE)
    shoot(page, f"{name}, dark, phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("window.pwned") is None


def test_the_overview_tells_of_every_theme(open_page):
    page = open_page("/")
    expect(page.get_by_role("rowheader")).to_have_text(
        ["marketing", "research", "whatsapp-dm dm"]
    )
    expect(page.locator(".tiles")).to_contain_text("7 private rows")
    expect(page.locator(".health li.problem")).to_contain_text(["journal"])
    assert page.locator(".bars rect.turns").count() > 3
    page.get_by_role("link", name="research").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("research")
    page.get_by_role("link", name="Older").click()
    expect(page.locator(".row")).to_have_count(6)


def test_a_search_by_the_keyboard_alone_tells_why(open_page):
    page = open_page("/journal")
    page.keyboard.press("/")
    page.keyboard.type("when is tea served?")
    page.keyboard.press("Enter")
    first = page.locator(".hit").first
    expect(first.locator(".body")).to_have_text(TEA)
    why = first.locator(".why")
    expect(why.get_by_role("term")).to_have_text(
        ["Meaning", "Words", "Together", "Relevance"]
    )
    expect(why).to_contain_text("cosine 1.00")
    assert float(why.locator(".value").nth(1).inner_text()) > 0.5
    turn = page.locator("section", has_text="Conversations").locator(".hit").first
    expect(turn.get_by_role("term")).to_contain_text(["Context"])
    turn.get_by_role("link", name="in its session").click()
    wanted = page.locator(".turn.wanted")
    expect(wanted).to_be_visible()
    expect(wanted).to_contain_text("tea")


def test_the_way_past_the_header_is_the_first_one(open_page):
    page = open_page("/delegations")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("main .scroll").first).to_be_focused()


def test_what_is_stored_never_runs(open_page):
    page = open_page("/theme?name=research")
    shown = page.locator(".row .body", has_text="pwned")
    expect(shown).to_have_text(HOSTILE)
    row = page.locator(".row", has_text="pwned")
    row.get_by_role("link", name="open").click()
    expect(page.locator(".body")).to_contain_text("{{ 7 * 7 }}")
    page.goto("/journal")
    page.goto("/delegations")
    page.get_by_role("link", name=HOSTILE_SESSION[:12]).click()
    expect(page.locator(".turn .body")).to_have_text(HOSTILE)
    assert page.evaluate("window.pwned") is None


def test_a_script_that_got_into_a_page_would_not_run(browser, inside):
    base, cookies = inside
    context = browser.new_context(base_url=base)
    context.add_cookies(cookies)
    page, said = context.new_page(), []
    page.on("console", lambda one: said.append(one.text))
    page.goto("/journal")
    page.evaluate(
        "() => { const one = document.createElement('script'); one.text = 'x = 1';"
        " document.body.append(one); }"
    )
    assert page.evaluate("typeof x") == "undefined"
    assert "Content Security Policy" in said[0]
    context.close()


def test_a_private_text_is_on_no_page(open_page):
    page = open_page("/theme?name=whatsapp-dm")
    expect(page.locator(".hidden")).to_have_text("◦ private, 1 row")
    assert SECRET not in page.content()


def test_the_overview_keeps_itself_fresh(open_page):
    page = open_page("/journal", of_its_own="clock")
    page.clock.install()
    page.goto("/")
    first = page.locator(".tiles dd").first
    page.evaluate("document.querySelector('.tiles dd').textContent = 'old'")
    expect(first).to_have_text("old")
    page.clock.fast_forward(11_000)
    expect(first).to_have_text("61")


def test_an_empty_database_says_what_will_be_here(browser, serve, dsn, tmp_path):
    serving = serve(dsn=dsn, home=tmp_path)
    context = browser.new_context()
    page = context.new_page()
    page.goto(serving.url)
    expect(page.get_by_text("No memories yet")).to_be_visible()
    shoot(page, "empty")
    for path in ("/delegations", "/journal"):
        page.goto(f"http://127.0.0.1:{serving.port}{path}")
        expect(page.locator(".empty").first).to_be_visible()
    context.close()
