"""Who the three minions are, what they are told, and what they are asked later.

The questions say things in other words than the memories do, so that finding one takes
more than matching its letters. Texts are plain ASCII without double quotes: they
read the same inside JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Call = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something kept, and a question that should bring it back."""

    text: str
    question: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """What the user says, and the tool calls it leads to."""

    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Minion:
    """One agent of the fleet, and a conversation with every kind of write."""

    theme: str
    added: Fact
    """A plain add."""
    batch: tuple[Fact, Fact, Fact]
    """One call with several operations; the third begins rough and is replaced."""
    first: Fact
    """Added, then replaced by `then`."""
    then: Fact
    removed: Fact
    """Added, then removed."""
    user: tuple[Fact, Fact]
    """Adds to USER.md."""
    said: tuple[Fact, Fact, Fact]
    """Only spoken; `text` is a message word for word."""

    @property
    def persona(self) -> str:
        """The system message; it tells the minions apart in the model's log."""
        return f"You are the {self.theme} minion."

    @property
    def memories(self) -> tuple[Fact, ...]:
        """What its memory holds at the end."""
        return (self.added, *self.batch, self.then, *self.user)

    @property
    def forgotten(self) -> tuple[Fact, ...]:
        """What was removed or replaced and must not come back."""
        rough = Fact(text=self._rough, question=self.batch[2].question)
        return (self.first, self.removed, rough)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, in order; no message is too short to be kept."""
        return (
            Message(
                text=f"Please keep this in mind for us: {self.added.text}",
                calls=(_add(self.added),),
            ),
            Message(text=self.said[0].text),
            Message(
                text=f"I have three points to note for {self.theme}, all in one go.",
                calls=(("memory", self._batch_call),),
            ),
            Message(
                text=f"One preliminary thing, also to remember: {self.first.text}",
                calls=(_add(self.first),),
            ),
            Message(
                text=f"And something that may not last: {self.removed.text}",
                calls=(_add(self.removed),),
            ),
            Message(text=self.said[1].text),
            Message(
                text=f"A correction of the preliminary thing: {self.then.text}",
                calls=(_change("replace", self.first, content=self.then.text),),
            ),
            Message(
                text=f"Please forget what may not last, it is void for {self.theme}.",
                calls=(_change("remove", self.removed),),
            ),
            Message(
                text=f"Two remarks on how I, in {self.theme}, like to work.",
                calls=tuple(_add(fact, "user") for fact in self.user),
            ),
            Message(text=self.said[2].text),
        )

    @property
    def _rough(self) -> str:
        words = self.batch[2].text.split()
        return f"{' '.join(words[:3])} (to be confirmed)"

    @property
    def _batch_call(self) -> dict[str, Any]:
        rough = self._rough
        final = self.batch[2].text
        return {
            "target": "memory",
            "operations": [
                {"action": "add", "content": self.batch[0].text},
                {"action": "add", "content": rough},
                {"action": "add", "content": self.batch[1].text},
                {"action": "replace", "old_text": rough, "content": final},
            ],
        }

    def texts(self) -> Iterator[str]:
        """Yield every text that another theme must not see."""
        for fact in (*self.memories, *self.forgotten, *self.said):
            yield fact.text


def _add(fact: Fact, target: str = "memory") -> Call:
    return "memory", {"action": "add", "target": target, "content": fact.text}


def _change(action: str, fact: Fact, **more: str) -> Call:
    """Replace or remove *fact*, named by a part of it, as models do."""
    named = {"old_text": fact.text[:30]}
    return "memory", {"action": action, "target": "memory", **named, **more}


MARKETING = Minion(
    theme="marketing",
    added=Fact(
        text="Spring campaign: launches on 3 March, lead colour orange.",
        question="When does the campaign go live, and in which shade?",
    ),
    batch=(
        Fact(
            text="Newsletter: goes out on Thursdays at nine, never on Mondays.",
            question="Which weekday is right for sending the newsletter?",
        ),
        Fact(
            text="The agency Larkspur designs our posters; ask for Ines Calder.",
            question="Who draws the billboards for us?",
        ),
        Fact(
            text="Trade fair in Lyon: we have a corner stand, hall 4, in November.",
            question="Which exhibition do we attend, and where is our booth?",
        ),
    ),
    first=Fact(
        text="Advertising budget for April: 12,000 euros.",
        question="How much money may we spend on advertising in spring?",
    ),
    then=Fact(
        text="Advertising budget for April is now 18,500 euros, half for video.",
        question="How much money may we spend on advertising in spring?",
    ),
    removed=Fact(
        text="Mascot: a penguin named Pico appears in every advert.",
        question="Which animal stands for our brand?",
    ),
    user=(
        Fact(
            text="Prefers drafts as short bullet lists without emojis.",
            question="How should drafts for my boss be laid out?",
        ),
        Fact(
            text="Is away for rowing practice every Wednesday afternoon.",
            question="When in the week is my boss out doing sports?",
        ),
    ),
    said=(
        Fact(
            text="The printers told me that the matt paper arrives two weeks late.",
            question="Why are the brochures delayed?",
        ),
        Fact(
            text="Olga found that short clips bring us twice as many sign-ups.",
            question="What effect do clips have?",
        ),
        Fact(
            text="Let us name the new podcast after the lighthouse at the harbour.",
            question="What will the podcast be called?",
        ),
    ),
)

SALES = Minion(
    theme="sales",
    added=Fact(
        text="Customer Halden Mills pays by invoice after 45 days, never by card.",
        question="In what way does Halden settle its bills?",
    ),
    batch=(
        Fact(
            text="Discounts above 12 percent need the approval of Priya.",
            question="Who must agree before I grant large discounts?",
        ),
        Fact(
            text="Our strongest region this year is the Baltic coast.",
            question="In what region do people buy most from us?",
        ),
        Fact(
            text="Product demos take 30 minutes and end with a written offer.",
            question="How long do I show the software to a prospect?",
        ),
    ),
    first=Fact(
        text="Juniper Logistics wants a pilot for 15 trucks.",
        question="Which haulier wants a trial, and for how many vehicles?",
    ),
    then=Fact(
        text="Juniper Logistics wants a pilot for 40 trucks, starting in May.",
        question="Which haulier wants a trial, and for how many vehicles?",
    ),
    removed=Fact(
        text="Old price list: the basic plan costs 19 euros a month.",
        question="What is the fee for the cheapest subscription?",
    ),
    user=(
        Fact(
            text="Wants a phone call, not an e-mail, when a deal is lost.",
            question="How do I tell my manager that a contract fell through?",
        ),
        Fact(
            text="Speaks Finnish; offers are written in Finnish first.",
            question="Which language do I draft proposals in?",
        ),
    ),
    said=(
        Fact(
            text="The buyer at Norvik Dairy asked us to come back after the harvest.",
            question="When does the milk company want to hear from us again?",
        ),
        Fact(
            text="Tomas lost the tender in Gdansk because our delivery was too slow.",
            question="For what reason was the bid in Poland unsuccessful?",
        ),
        Fact(
            text="We shall send every new client a jar of honey at the year's end.",
            question="What present does a new client get?",
        ),
    ),
)

TRADING = Minion(
    theme="trading",
    added=Fact(
        text="Never hold more than 4 percent of the fund in one share.",
        question="What is the largest position allowed in a single company?",
    ),
    batch=(
        Fact(
            text="Rebalancing takes place on the first Tuesday of each month.",
            question="On what date are the weights brought back to plan?",
        ),
        Fact(
            text="The broker Kestrel fills our orders best before noon.",
            question="With whom and at what hour do we get good executions?",
        ),
        Fact(
            text="Wheat hedges expire in September; roll them two weeks earlier.",
            question="When must the protection of wheat be extended?",
        ),
    ),
    first=Fact(
        text="Stop-loss for copper futures: 6 percent below entry.",
        question="Where do we bail out of copper?",
    ),
    then=Fact(
        text="Stop-loss for copper futures is now 3 percent, checked hourly.",
        question="Where do we bail out of copper?",
    ),
    removed=Fact(
        text="Watch list: the tin miner Oreland may be taken over.",
        question="Which takeover candidate are we following?",
    ),
    user=(
        Fact(
            text="Reads reports at 6:30, before the market opens; one page at most.",
            question="How long may the morning summary for my boss be?",
        ),
        Fact(
            text="Wants no trades on Fridays after lunch.",
            question="Is there a part of the week in which I must not deal?",
        ),
    ),
    said=(
        Fact(
            text="The central bank of Norway surprised all of us with its rate cut.",
            question="Which monetary decision was unexpected?",
        ),
        Fact(
            text="Marek thinks that the coffee rally is driven by frost in Brazil.",
            question="What is behind the rise in the price of coffee?",
        ),
        Fact(
            text="From next week on we test the new order router with paper money.",
            question="How will we try out the software that places trades?",
        ),
    ),
)

MINIONS = (MARKETING, SALES, TRADING)
