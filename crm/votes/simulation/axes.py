"""The axes of taste and the bodies of criteria that speak for them, written by hand. In: nothing. Out: `AXES`.

Two bodies of every pole are held out for the suite of unseen wordings; they put the words of the training bodies
together in a new way. Three axes are held out entirely.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pole:
    """One end of an axis: a one-word name, and bodies of criteria for training and for the unseen-wordings suite."""

    name: str
    train: tuple[str, ...]
    held_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of taste. ``topic`` is the broad topic that its criteria belong to."""

    name: str
    topic: str
    plus: Pole
    minus: Pole
    held_out: bool = False

    def pole(self, sign: int) -> Pole:
        """The pole of a sign, +1 or -1."""
        return self.plus if sign > 0 else self.minus


def _pole(name: str, train: str, held_out: str) -> Pole:
    return Pole(name, tuple(train.split(" | ")), tuple(held_out.split(" | ")))


AXES: tuple[Axis, ...] = (
    Axis(
        "detail",
        "Level of detail",
        _pole(
            "detailed",
            "detailed answers | detailed answers with plenty of specifics | thorough explanations"
            " | thorough answers that go into depth | in-depth responses with full specifics"
            " | long and complete explanations",
            "thorough and detailed explanations | complete answers with depth and specifics",
        ),
        _pole(
            "concise",
            "concise answers | short and concise responses | brief answers | brief replies that get to the point"
            " | a short summary in brief | quick answers of few words",
            "short and brief answers | concise replies of few words",
        ),
    ),
    Axis(
        "lists",
        "Formatting",
        _pole(
            "bulleted",
            "bulleted lists | answers with bullet points | key points in a list | bullet points and lists"
            " | a checklist of key points | numbered lists",
            "a list of bullet points | numbered key points in lists",
        ),
        _pole(
            "flowing",
            "flowing prose | answers in flowing paragraphs | smooth prose | connected paragraphs"
            " | text that flows in paragraphs | essays in smooth connected prose",
            "smooth flowing text | prose in connected paragraphs",
        ),
    ),
    Axis(
        "humor",
        "Humor",
        _pole(
            "humorous",
            "humorous answers | jokes and humor | funny responses | witty answers with jokes | playful humor"
            " | answers that are funny and playful",
            "funny jokes and playful answers | witty humor in answers",
        ),
        _pole(
            "serious",
            "serious answers | a serious tone | earnest and serious responses | a grave and earnest tone"
            " | sincere and earnest answers | sincere responses with gravity",
            "sincere and serious answers | an earnest tone with gravity",
        ),
    ),
    Axis(
        "formality",
        "Formality",
        _pole(
            "formal",
            "formal language | a formal and polite tone | polite answers | proper and formal wording"
            " | professional and proper language | professional answers in polite words",
            "polite and formal answers | professional and formal wording",
        ),
        _pole(
            "casual",
            "casual language | a casual and relaxed tone | a relaxed chat | slang and casual words"
            " | informal answers with slang | an informal and friendly chat",
            "relaxed and informal answers | a casual chat with slang",
        ),
    ),
    Axis(
        "examples",
        "Examples",
        _pole(
            "illustrated",
            "concrete examples | answers with examples | concrete cases | illustrations and examples"
            " | sample cases as illustrations | examples and illustrations for each idea",
            "examples and sample cases | concrete illustrations and examples",
        ),
        _pole(
            "general",
            "general principles | broad principles | general rules | universal rules and principles"
            " | the broad picture | broad and general statements",
            "universal and general principles | broad rules and statements",
        ),
    ),
    Axis(
        "imagery",
        "Imagery",
        _pole(
            "vivid",
            "vivid imagery | poetic imagery | vivid metaphors | colorful metaphors and similes"
            " | colorful and poetic language | answers rich in vivid imagery",
            "poetic metaphors and imagery | colorful and vivid similes",
        ),
        _pole(
            "plain",
            "plain wording | literal language | plain and literal statements | unadorned language"
            " | plain and unadorned answers | literal and bare wording",
            "plain and literal language | unadorned and bare wording",
        ),
    ),
    Axis(
        "history",
        "Historical background",
        _pole(
            "historical",
            "historical background | historical context | the history of the matter | ancient origins"
            " | origins and history | background from past centuries",
            "history and ancient background | historical origins in the past",
        ),
        _pole(
            "modern",
            "a present-day focus | current trends | modern trends of today | a focus on today"
            " | modern and current answers | the present situation today",
            "a current and modern focus | present trends of today",
        ),
    ),
    Axis(
        "empathy",
        "Empathy",
        _pole(
            "empathetic",
            "empathetic answers | warm and caring responses | empathy and comfort | emotional support"
            " | warm and emotional comfort | caring answers with support",
            "caring empathy and support | warm and empathetic comfort",
        ),
        _pole(
            "detached",
            "detached answers | a detached and rational tone | cool logic | rational analysis"
            " | cool and detached analysis | unemotional logic",
            "rational and unemotional answers | cool and rational logic",
        ),
    ),
    Axis(
        "caution",
        "Caution",
        _pole(
            "cautious",
            "cautious answers | warnings about risks | careful and cautious advice | safety and careful advice"
            " | notes on risks and dangers | warnings about dangers and safety",
            "careful warnings and advice | cautious notes on safety and risks",
        ),
        _pole(
            "bold",
            "bold advice | bold and daring answers | brave suggestions | daring and fearless ideas"
            " | fearless courage | brave and bold courage",
            "daring and brave advice | bold and fearless suggestions",
        ),
    ),
    Axis(
        "steps",
        "Practical advice",
        _pole(
            "practical",
            "practical steps | practical advice with actions | step by step instructions"
            " | instructions to act on | hands-on actions and steps | a practical and hands-on guide",
            "practical instructions to act on | hands-on steps and actions",
        ),
        _pole(
            "theoretical",
            "theoretical answers | theory and concepts | abstract concepts | deep theory"
            " | theoretical reflection on ideas | abstract reflection",
            "theoretical concepts | abstract theory and reflection",
        ),
    ),
    Axis(
        "questions",
        "Follow-up questions",
        _pole(
            "inquisitive",
            "follow-up questions | answers that ask questions back | curious questions | inquisitive answers"
            " | an inquisitive and curious partner | questions about my goals",
            "curious follow-up questions | inquisitive answers that ask back",
        ),
        _pole(
            "direct",
            "direct answers | straight answers | a direct and final verdict | a firm verdict"
            " | straight and decisive replies | decisive and final solutions",
            "direct and decisive answers | a straight and final verdict",
        ),
    ),
    Axis(
        "evidence",
        "Evidence",
        _pole(
            "scientific",
            "evidence and data | scientific evidence | studies and statistics | data from research"
            " | research and scientific studies | proof from statistics",
            "scientific data and statistics | evidence from research studies",
        ),
        _pole(
            "intuitive",
            "gut feelings | intuition and instinct | intuitive answers | instinct and gut feelings"
            " | common sense and instinct | common sense and intuition",
            "gut instinct and common sense | intuitive feelings and instinct",
        ),
    ),
    Axis(
        "stories",
        "Personal stories",
        _pole(
            "personal",
            "personal stories | answers with anecdotes | personal anecdotes | stories from life"
            " | memories and anecdotes | personal memories from real life",
            "personal anecdotes and stories | real memories from life",
        ),
        _pole(
            "impersonal",
            "impersonal facts | dry facts | objective facts | textbook definitions | dry textbook knowledge"
            " | impersonal and objective definitions",
            "dry and impersonal answers | objective textbook facts",
        ),
    ),
    Axis(
        "culture",
        "Cultural perspective",
        _pole(
            "global",
            "global perspectives | views from around the world | many foreign cultures | an international outlook"
            " | customs of other countries | a worldwide perspective",
            "foreign customs and cultures | an international perspective",
        ),
        _pole(
            "local",
            "local perspectives | views from the neighborhood | a regional outlook | the community next door"
            " | customs of the home town | a focus on nearby places",
            "local and regional customs | neighborhood views",
        ),
        held_out=True,
    ),
    Axis(
        "horizon",
        "Time horizon",
        _pole(
            "patient",
            "long-term thinking | patient planning | lasting results | plans for the next decade"
            " | slow and steady growth | a long-term view",
            "patient and lasting growth | long-term plans",
        ),
        _pole(
            "instant",
            "instant results | quick wins | immediate gains | fast solutions for today"
            " | speed and instant effects | an immediate effect",
            "fast and immediate results | instant gains",
        ),
        held_out=True,
    ),
    Axis(
        "teamwork",
        "Teamwork",
        _pole(
            "collaborative",
            "collaborative ideas | teamwork and cooperation | group work | advice for teams"
            " | cooperation with partners | working together in a group",
            "group cooperation | teamwork with partners",
        ),
        _pole(
            "independent",
            "independent work | solo efforts | self-reliance | advice for working alone"
            " | solitude and independence | independent and solo ideas",
            "working solo | independence and self-reliance",
        ),
        held_out=True,
    ),
)
"""Every axis. The first is always expressed in a response (it also shows in the length), the others now and then."""
