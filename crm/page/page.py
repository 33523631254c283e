"""The page. In: a `Ranker`. Out: Gradio blocks; what they do stands in `crm.page.page_actions`.

No text of data or people is shown as HTML: tables are text, responses are Markdown that Gradio sanitises. Nothing goes
through Gradio's files: pictures come inline, and files are sent to `crm.page.uploads`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gradio as gr
from PIL import Image

from crm.leaderboard.bank.responses import MAX_NAME
from crm.page.additions import Additions
from crm.page.page_actions import Actions
from crm.page.page_tables import ABOUT_COLUMNS, ALWAYS, CHANGES, DUELS, TOPICS, USUAL
from crm.page.profile import MAX_CHARACTERS, MAX_LINES

TITLE = "My leaderboard of language models"
COLUMNS = [*USUAL, "Not distinguishable from"]
CHOOSE_FILE = """<label>File of responses
<input type="file" accept=".jsonl,.json,.csv,.tsv,.gz"
 onchange="this.parentNode.nextElementSibling.textContent = this.files.length ? this.files[0].name : ''"></label>
<span></span>"""
"""A field for a file, and its name as text."""
SEND_FILE = """async (name) => {
    const file = document.querySelector('#add-file input').files[0];
    if (!file) return 'Choose a file first.';
    const asked = new URLSearchParams({name: name, file: file.name});
    try {
        const answer = await fetch('/api/models?' + asked, {method: 'POST', body: file});
        const said = await answer.json();
        return answer.ok ? `Added: the bank has ${said.models.length} models now.` : said.error || said.detail;
    } catch {
        return 'The file could not be sent to its end; try again.';
    }
}"""
"""The name of a model in; the file sent; a sentence out."""


def make_page(actions: Actions, examples: list[str], additions: Additions | None = None, about: str = "") -> gr.Blocks:
    """All tabs. ``examples`` are criteria to click; without ``additions`` there is no tab to add a model.

    ``about`` says which bank, judge and version answer.
    """
    page: gr.Blocks
    with gr.Blocks(title=TITLE, analytics_enabled=False) as page:
        # Outside of the tabs, where it is read as soon as the page opens. It is no secret: another key would lose it.
        saved = gr.BrowserState({}, storage_key="profiles", secret="profiles")  # noqa: S106
        gr.Markdown(f"# {TITLE}\nSay what you care about, and see which models you would prefer.\n\n{about}")
        with gr.Tab("Leaderboard", id="default"):
            _default_tab(page, actions)
        with gr.Tab("My leaderboard", id="mine"):
            mine, choices = _my_tab(page, actions, examples, saved)
        with gr.Tab("Why", id="why"):
            choices.append(_why_tab(actions, mine))
        with gr.Tab("Compare", id="compare"):
            _compare_tab(actions, mine, examples)
        if additions is not None:
            with gr.Tab("Add a model", id="add"):
                _add_tab(actions, additions, choices)
        page.load(actions.choices, None, choices, api_visibility="private")
    return page


def _default_tab(page: gr.Blocks, actions: Actions) -> None:
    gr.Markdown("What most people would find better, over all topics of the bank.")
    status = gr.Textbox(label="State", interactive=False, elem_id="default-status")
    columns = gr.CheckboxGroup(COLUMNS, value=list(USUAL), label="Columns")
    table = _table("Models", "default-table", ALWAYS, pinned=2)
    topics = _table("Win rate % by topic", "default-topics", TOPICS, pinned=2)
    gr.Markdown(ABOUT_COLUMNS)
    page.load(actions.rank_default, columns, [status, table, topics], api_visibility="private")
    columns.change(actions.default_columns, columns, table, api_visibility="private")


def _my_tab(
    page: gr.Blocks, actions: Actions, examples: list[str], saved: gr.BrowserState
) -> tuple[gr.State, list[gr.Dropdown]]:
    """The link's query of what was ranked last, and the lists of models to choose from."""
    profile = gr.State("")
    address = gr.Textbox("/", visible=False)
    with gr.Row():
        with gr.Column(scale=1, min_width=320):
            criteria = gr.Textbox(
                label="What I care about, one criterion a line",
                lines=4,
                placeholder="Prefers concise answers",
                max_length=MAX_LINES * MAX_CHARACTERS,
                elem_id="criteria",
            )
            gr.Examples([[text] for text in examples], criteria, label="Examples")
            dislikes = gr.Textbox(label="What I dislike, one a line", lines=2, elem_id="dislikes")
            topics = gr.CheckboxGroup(actions.topic_choices, value=actions.all_topics, label="Topics", elem_id="topics")
            with gr.Row():
                every = gr.Button("Select all topics", size="sm")
                none = gr.Button("Clear topics", size="sm")
            about = gr.Textbox(
                label="Or: what I do, in a sentence (queries like it are chosen instead of topics)",
                max_length=MAX_CHARACTERS,
                elem_id="about",
            )
            with gr.Accordion("Baseline, models, number of queries", open=False):
                baseline = gr.Dropdown(actions.models, value=actions.baseline, label="Baseline")
                models = gr.Dropdown(actions.models, value=[], multiselect=True, label="Only these models (empty: all)")
                queries = gr.Number(0, label="Queries, drawn in turns over topics (0: all)", precision=0, minimum=0)
            with gr.Row():
                rank = gr.Button("Rank", variant="primary", elem_id="rank")
                stop = gr.Button("Stop and keep what is there", elem_id="stop")
        with gr.Column(scale=2, min_width=320):
            status = gr.Textbox(label="State", interactive=False, elem_id="my-status")
            columns = gr.CheckboxGroup(COLUMNS, value=list(USUAL), label="Columns")
            table = _table("My models", "my-table", ALWAYS, pinned=2)
            by_topic = _table("Win rate % by topic", "my-topics", TOPICS, pinned=2)
            # With a button in it a box loses its label, so that screen readers need the placeholder.
            words = "Link to this leaderboard"
            link = gr.Textbox(label=words, placeholder=words, interactive=False, buttons=["copy"], elem_id="link")
            files = gr.Markdown(elem_id="files")
            with gr.Row():
                name = gr.Textbox(label="Save my settings in this browser as", max_length=80, elem_id="profile-name")
                save = gr.Button("Save", size="sm", elem_id="save")
                known = gr.Dropdown([], label="Saved settings", elem_id="saved")
                load = gr.Button("Take these", size="sm", elem_id="take")
    gr.Markdown(ABOUT_COLUMNS)
    form = [criteria, dislikes, topics, about, baseline, models, queries]
    shown = [profile, status, table, by_topic, link, files]
    ranking = rank.click(
        actions.rank,
        [*form, columns, address],
        shown,
        js="(...fields) => [...fields.slice(0, -1), window.location.href]",
        api_visibility="private",
        show_progress="hidden",
    )
    stop.click(actions.stopped, profile, [status, files], cancels=[ranking], api_visibility="private")
    columns.change(actions.columns, [profile, columns], table, api_visibility="private")
    every.click(lambda: actions.all_topics, None, topics, api_visibility="private")
    none.click(lambda: [], None, topics, api_visibility="private")
    save.click(actions.save, [saved, name, *form], [saved, known], api_visibility="private")
    load.click(actions.take, [saved, known], form, api_visibility="private")
    page.load(actions.names, saved, known, api_visibility="private")
    opened = page.load(
        actions.from_link, address, [address, *form], js="() => window.location.href", api_visibility="private"
    )
    opened.then(actions.rank_link, [*form, columns, address], shown, api_visibility="private", show_progress="hidden")
    return profile, [baseline, models]


def _why_tab(actions: Actions, profile: gr.State) -> gr.Dropdown:
    gr.Markdown("Choose a model, then a query: both responses, and how sure the judge is that you prefer the model's.")
    model = gr.Dropdown(actions.models, label="Model", value=None, elem_id="why-model")
    status = gr.Textbox(label="State", interactive=False, elem_id="why-status")
    table = _table("Queries, the most clearly won first", "why-table", DUELS)
    query = gr.Markdown(elem_id="why-query", container=True)
    with gr.Row():
        with gr.Column(min_width=300):
            gr.Markdown("**The model**")
            ours = gr.Markdown(elem_id="why-response", container=True, min_height=80)
        with gr.Column(min_width=300):
            gr.Markdown("**The baseline**")
            theirs = gr.Markdown(elem_id="why-baseline", container=True, min_height=80)
    model.change(actions.why, [profile, model], [status, table, query, ours, theirs], api_visibility="private")
    table.select(actions.duel, [profile, model], [query, ours, theirs], api_visibility="private")
    return model


def _compare_tab(actions: Actions, profile: gr.State, examples: list[str]) -> None:
    gr.Markdown("My leaderboard against that of somebody who cares about something else, on the same queries.")
    other = gr.Textbox(label="The other criteria, one a line", lines=3, elem_id="other-criteria")
    gr.Examples([[text] for text in examples], other, label="Examples")
    compare = gr.Button("Compare", variant="primary", elem_id="compare")
    status = gr.Textbox(label="State", interactive=False, elem_id="compare-status")
    picture = gr.Markdown(elem_id="bump")
    table = _table("Models, the greatest gain first", "changes", CHANGES)
    gr.Markdown(
        "## What decides it\nEvery criterion of mine left out in turn: how much the ranking and my top models change."
    )
    decide = gr.Button("Leave out one at a time", elem_id="decide")
    decided = gr.Textbox(label="State", interactive=False, elem_id="decide-status")
    effects = _table("What each criterion does", "effects", ("Left out", "Kendall's tau"))
    compare.click(partial(_compared, actions), [profile, other], [status, picture, table], api_visibility="private")
    decide.click(actions.decides, profile, [decided, effects], api_visibility="private")


def _compared(actions: Actions, *given: str) -> Iterator[tuple[Any, ...]]:
    """The steps of a comparison, with the picture as Markdown: a file that Gradio makes of it would show its path."""
    for state, picture, table in actions.compare(*given):
        yield state, _inline(picture) if isinstance(picture, Image.Image) else picture, table


def _inline(picture: Image.Image) -> str:
    data = io.BytesIO()
    picture.save(data, "PNG")
    return f"![Ranks in both leaderboards](data:image/png;base64,{base64.b64encode(data.getvalue()).decode()})"


def _add_tab(actions: Actions, additions: Additions, choices: list[gr.Dropdown]) -> None:
    gr.Markdown(
        "One model more, for everybody who uses this server: a file with its response to every query of the bank, a "
        "row a query, with `query_id` or the text of the `query`, and the `text` (JSON Lines, JSON, CSV or TSV, also "
        "as .gz)."
    )
    name = gr.Textbox(label="Name of the model", max_length=MAX_NAME, elem_id="add-name")
    gr.HTML(CHOOSE_FILE, elem_id="add-file")
    with gr.Row():
        add = gr.Button("Add the file", variant="primary", elem_id="add")
        if additions.endpoint is not None:
            ask = gr.Button(f"Ask {additions.endpoint.model} for its responses", elem_id="ask")
    gr.Markdown("[The queries with their ids](/api/queries)")
    status = gr.Textbox(label="State", interactive=False, lines=2, elem_id="add-status")
    add.click(actions.add, name, [status, *choices], js=SEND_FILE, api_visibility="private")
    if additions.endpoint is not None:
        ask.click(partial(actions.ask, additions), name, [status, *choices], api_visibility="private")


def _table(label: str, name: str, headings: Sequence[str], pinned: int | None = None) -> gr.Dataframe:
    """A table of text: cells are never read as HTML or Markdown. Search above, sorting in the menus of headings."""
    return gr.Dataframe(
        headers=list(headings),
        label=label,
        elem_id=name,
        pinned_columns=pinned,
        interactive=False,
        show_search="filter",
        datatype="str",
        max_height=560,
    )
