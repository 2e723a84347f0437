"""Other forms of ops that fall back, in the Fallbacks tab: what each would change, to be tried or saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dash import html

from editor.kinds import too_close
from editor.text import in_words, pluralize
from editor.web import controls
from editor.web.panels.parts import kind_badge
from editor.web.view import figures_of, source_of
from editor.workspace.document import Document

if TYPE_CHECKING:  # it takes seconds to import
    from editor.advice.advice import Advice


def advice_view(document: Document, found: Sequence[Advice]) -> list[Any]:
    """A row for each form that was tried, those that help first."""
    if not found:
        return [
            html.P("No other form is known of the ops that fall back.", className="hint wide"),
        ]
    head = [html.Th(text) for text in ("Other form", "Result", "Fall back", "Subgraphs", "Latency")]
    head.append(html.Th(html.Span("Actions", className="unseen")))
    helping = sum(one.helps for one in found)
    said = (
        f"{helping} of {pluralize(len(found), 'form')} tried on copies of the model "
        f"{'leaves' if helping == 1 else 'leave'} fewer ops that fall back. The outputs are those of ONNX Runtime's CPU, "
        "for invented inputs."
    )
    if source_of(document) == "measured":
        said += (
            " Latencies go by the profiles, as the headline does; rewritten ops have none: "
            "theirs are from shapes."
        )
    return [
        html.P(said, className="hint wide"),
        html.Table(
            [html.Thead(html.Tr(head)), html.Tbody([_row(document, one) for one in found])],
            className="plain",
            id="advice-table",
        ),
    ]


def _row(document: Document, one: Advice) -> html.Tr:
    actions: list[Any] = []
    rough = bool(figures_of(document)["rough"])
    if one.helps and one.model is not None:
        actions = [
            controls.Button(
                "Try", id={"type": "advice-open", "idea": one.idea, "ops": len(one.solved)}
            ),
            html.A(
                "Save model",
                href=f"/d/{document.id}/advice/{one.idea}",
                className="tool small",
                download="",
                title="The rewritten model, as a file",
            ),
        ]
    return html.Tr(
        [
            html.Td(html.B(one.title) if one.helps else one.title),
            html.Td(_result(one), className="result"),
            html.Td(f"{one.refused_before:,} → {one.refused:,}"),
            html.Td(f"{one.subgraphs_before:,} → {one.subgraphs:,}"),
            html.Td(
                [
                    f"{in_words(one.seconds_before, rough)} → {in_words(one.seconds, rough)} ",
                    kind_badge(one.kind),
                ]
            ),
            html.Td(actions, className="buttons"),
        ]
    )


def _result(one: Advice) -> str:
    if not one.helps:
        return one.problem or "does not help"
    slower = one.seconds > one.seconds_before and not too_close(
        one.seconds, one.seconds_before, one.kind
    )
    return (
        f"{pluralize(len(one.solved), 'op')} no longer fall{'s' if len(one.solved) == 1 else ''} back"
        f"{', but the plan takes longer' if slower else ''}; outputs differ by {one.difference:.1g} of the largest value"
    )
