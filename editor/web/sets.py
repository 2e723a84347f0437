"""Sets of models as the page has them: a document for each model, whose plans share one device table."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from editor.devices.device import Device
from editor.devices.table import load_devices, parse_devices, text_of_table
from editor.errors import ModelError, PlanError
from editor.exports.formats import FORMATS
from editor.exports.registry import problem_of
from editor.files import json_text, read_text, safe_stem, write_atomic
from editor.graph.graph import Graph
from editor.placement.device_profile import best_source
from editor.placement.placement import Settings
from editor.text import human_bytes
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.web.packing import packed, written
from editor.web.tasks import Task
from editor.workspace.document import Document
from editor.workspace.folders import Author, acting_as
from editor.workspace.history import SetModel, SetRecord
from editor.workspace.model_set import (
    ModelSet,
    checked_runs,
    is_set,
    member_of,
    model_paths,
    place_set,
    read_set,
    runs_of,
    taken_by_others,
    unique_name,
)
from editor.workspace.sizes import with_known_costs

_opening = threading.Lock()
"""Two pages that open the same models at once get the same set."""


@dataclass(frozen=True)
class OpenSet:
    """A set of the workspace with its documents."""

    record: SetRecord
    documents: tuple[Document, ...]
    models: ModelSet
    """The plans that the documents had when the set was asked for, and what they take."""


def open_address(state: AppState, request: OpenRequest) -> str:
    """Opens a model, a plan or a set; returns the address of its page.

    Raises:
        EditorError: as ``AppState.open`` does.
    """
    if is_set(state.checked_path(request)):
        return f"/set/{open_set(state, request)}"
    return f"/d/{state.open(request).id}"


def open_set(state: AppState, request: OpenRequest) -> str:
    """Id of the set of ``set.json`` or of the models of a folder; the earlier one where it was opened before.

    Raises:
        EditorError: a model or plan cannot be read, or the models do not fit the devices.
    """
    path = state.checked_path(request)
    with _opening:
        if path.suffix == ".json" or (path / "set.json").is_file():
            return _of_file(state, path if path.suffix == ".json" else path / "set.json")
        return _of_models(state, path, request)


def _of_file(state: AppState, path: Path) -> str:
    origin = _digest([str(path.absolute()), read_text(path, PlanError)])
    if (known := state.store.find_set(origin)) is not None:
        return known.id
    entries, table = read_set(path)
    documents = []
    for entry in entries:
        state.check_path(entry.plan)
        documents.append(state.open_plan(entry.plan))
    models = [
        SetModel(entry.name, document.id, entry.runs, entry.source)
        for entry, document in zip(entries, documents, strict=True)
    ]
    return state.store.create_set(_title(models), origin, table, models).id


def _of_models(state: AppState, folder: Path, request: OpenRequest) -> str:
    devices = load_devices(request.devices)
    table = [dict(device.entry) for device in devices]
    graphs: dict[str, Graph] = {}
    for path in model_paths(folder):
        graph = state.load(path, {}, assume_sizes=True)
        if chosen := {n: size for n, size in request.define.items() if n in graph.define}:
            graph = state.load(path, chosen, assume_sizes=True)
        graphs[unique_name(path, graphs)] = graph
    origin = _digest([table, *([str(g.path), g.sha256, g.define] for g in graphs.values())])
    if (known := state.store.find_set(origin)) is not None:
        return known.id
    runs = runs_of(graphs, {})
    placements = place_set(
        graphs,
        {name: count for name, (count, _) in runs.items()},
        devices,
        dict.fromkeys(graphs, Settings("memory")),
        _answers(state, graphs, table),
    )
    text = text_of_table(request.devices)
    models = []
    for name, graph in graphs.items():
        entries = [dict(device.entry) for device in placements[name].devices]
        document = state.create(graph, entries, placements[name].settings, text)
        models.append(SetModel(name, document.id, *runs[name]))
    return state.store.create_set(_title(models), origin, table, models).id


def _answers(state: AppState, graphs: Mapping[str, Graph], table: list[dict[str, Any]]) -> Any:
    """Name of a model -> what each device can run of it."""
    return {name: list(state.ask(graph, table).values()) for name, graph in graphs.items()}


def opened(state: AppState, identity: str) -> OpenSet:
    """A set of the workspace.

    Raises:
        EditorError: there is none, or a model of it cannot be read any more.
    """
    record = state.store.get_set(identity)
    if record is None:
        raise PlanError("This set is not in the workspace any more.")
    documents = tuple(state.document(model.document) for model in record.models)
    _stand_side_by_side(documents)
    members = [
        member_of(
            model.name, document.plan, model.runs, "given" if model.source == "given" else "assumed"
        )
        for model, document in zip(record.models, documents, strict=True)
    ]
    return OpenSet(record, documents, ModelSet(members, load_devices(record.devices)))


def follow_set(state: AppState, changed: Document) -> None:
    """Each model of the set of a document has what the others take now.

    Raises:
        EditorError: a model of the set cannot be read.
    """
    record = state.store.set_of(changed.id)
    if record is not None and any(device.memory is not None for device in changed.devices):
        documents = [state.document(model.document) for model in record.models]
        _stand_side_by_side(documents)


def _stand_side_by_side(documents: Sequence[Document]) -> None:
    """Documents of a set have what the others take now."""
    for document in documents:
        document.refresh()
    taken = taken_by_others({document.id: document.placement for document in documents})
    for document in documents:
        document.stand_beside(taken[document.id])


def change_runs(state: AppState, identity: str, runs: Mapping[str, Any]) -> bool:
    """Stores how often models of a set run for one answer; whether any number is another one.

    Raises:
        ModelError: a number is none, or not above 0.
    """
    record = state.store.get_set(identity)
    known = {model.name: model.runs for model in record.models} if record is not None else {}
    wanted = {name: checked_runs(name, count) for name, count in runs.items() if name in known}
    changed = {name: count for name, count in wanted.items() if count != known[name]}
    if changed:
        state.store.keep_set_runs(identity, changed)
    return bool(changed)


def memory_text(entry: Mapping[str, Any]) -> str:
    """The memory of a device as its table has it; "" for no limit."""
    limit = entry.get("memory")
    return "" if limit is None else str(limit)


def change_memory(state: AppState, identity: str, memory: Mapping[str, Any]) -> bool:
    """Stores what the device table of a set allows of the memory of devices; whether any limit is another one.

    Args:
        state: of the server.
        identity: of the set.
        memory: device -> "8 GB", or "" for no limit.

    Raises:
        DeviceTableError: a text is not a size.
    """
    record = state.store.get_set(identity)
    if record is None:
        return False
    table = []
    for entry in record.devices:
        limit = str(memory.get(str(entry["name"]), memory_text(entry)) or "").strip()
        if limit == memory_text(entry):  # another spelling of it may be another number
            table.append(entry)
            continue
        rest = {key: value for key, value in entry.items() if key != "memory"}
        table.append(rest | ({"memory": limit} if limit else {}))
    before, now = load_devices(record.devices), load_devices(table)
    if [device.memory for device in before] == [device.memory for device in now]:
        return False
    state.store.keep_set_devices(identity, table)
    return True


class Placed(NamedTuple):
    """What placing a set anew came to."""

    words: str
    steps: dict[str, tuple[int, int]]
    """Document -> step of its history before and after, of those that changed"""


def change_table(state: AppState, identity: str, text: str, task: Task) -> Placed:
    """Gives a set another device table and places its models on that; says what came of it.

    Args:
        state: of the server.
        identity: of the set.
        text: the table, as YAML.
        task: reports progress, and is asked whether to stop.

    Raises:
        EditorError: the text is not a table, or the models do not fit the devices.
    """
    return place_again(state, identity, task, devices=parse_devices(text, "device table"))


def place_again(
    state: AppState,
    identity: str,
    task: Task,
    policy: str = "",
    devices: Sequence[Device] | None = None,
) -> Placed:
    """Places all models of a set anew, with the pins and rules of each; says what came of it.

    Args:
        state: of the server.
        identity: of the set.
        task: reports progress, and is asked whether to stop.
        policy: for all models, such as ``memory`` or ``optimal:latency``; "" leaves to each its own.
        devices: another table for the set; pins that do not fit it go.

    Raises:
        EditorError: the models do not fit the devices.
    """
    before = opened(state, identity)
    table = before.models.devices if devices is None else tuple(devices)
    entries = [dict(device.entry) for device in table]
    names = [model.name for model in before.record.models]
    documents = dict(zip(names, before.documents, strict=True))
    graphs = {name: document.graph for name, document in documents.items()}
    settings = {
        name: with_known_costs(document.settings_on(table), best_source(document.graph, table))
        for name, document in documents.items()
    }
    chosen, _, objective = policy.partition(":")
    if chosen:
        options = {"objective": objective} if objective else {}
        settings = {
            name: replace(each, policy=chosen, policy_options=options)
            for name, each in settings.items()
        }
    placements = place_set(
        graphs,
        {model.name: model.runs for model in before.record.models},
        table,
        settings,
        _answers(state, graphs, entries),
        task.should_stop,
    )
    cursors = {document.id: document.history.cursor for document in before.documents}
    with acting_as(Author(name="the page of the set", server=state.server_name)):
        for name, document in documents.items():
            found = placements[name]
            document.adopt(_step(found.settings, table), found.settings, found.devices)
    if devices is not None:
        state.store.keep_set_devices(identity, entries)
    now = opened(state, identity)
    steps = {
        document.id: (cursors[document.id], document.history.cursor)
        for document in now.documents
        if document.history.cursor != cursors[document.id]
    }
    return Placed(_what_changed(before.models, now.models), steps)


def undo_placing(state: AppState, identity: str, steps: Mapping[str, Sequence[int]]) -> None:
    """Takes the models of a set back to where they were before it was placed.

    Args:
        state: of the server.
        identity: of the set.
        steps: what ``place_again`` told.

    Raises:
        PlanError: a model was changed since, or is not of the set any more.
    """
    documents = {document.id: document for document in opened(state, identity).documents}
    if any(
        name not in documents or documents[name].history.cursor != after
        for name, (_, after) in steps.items()
    ):
        raise PlanError("A model was changed since the set was placed: undo in its editor.")
    with acting_as(Author(name="the page of the set", server=state.server_name)):
        for name, (before, _) in steps.items():
            documents[name].go(before)


def steps_of(text: str) -> dict[str, tuple[int, int]]:
    """The steps of a placement, as a page sends them back.

    Raises:
        PlanError: they are not.
    """
    try:
        return {
            str(name): (int(before), int(after))
            for name, (before, after) in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise PlanError("The page sent no steps to undo: reload it.") from error


def _step(settings: Settings, table: Sequence[Device]) -> str:
    """What the history of a model calls a placement of its set."""
    objective = settings.policy_options.get("objective", "")
    limits = [f"{device.name} {human_bytes(device.memory)}" for device in table if device.memory]
    return f"placed with the set: {', '.join([f'{settings.policy} {objective}'.strip(), *limits])}"


def _what_changed(before: ModelSet, now: ModelSet) -> str:
    """The answer, and the models and devices whose figures are other ones."""
    answer, earlier = now.answer_in_words, before.answer_in_words
    changed = [f"{answer}, as before" if answer == earlier else f"{answer} instead of {earlier}"]
    for old, new in zip(before.members, now.members, strict=True):
        words = old.in_words(old.seconds), new.in_words(new.seconds)
        if words[0] != words[1]:
            changed.append(f"{new.name} {words[0]} → {words[1]}")
    held = {each.device: human_bytes(each.needed) for each in before.shared}
    for each in now.shared:
        needed, over = human_bytes(each.needed), f", {human_bytes(each.lacking)} too much"
        if needed != held.get(each.device):
            told = f"{held[each.device]} → {needed}" if each.device in held else needed
            changed.append(f"{each.device} {told}{over if each.lacking else ''}")
        elif each.lacking:
            changed.append(f"{each.device} {needed} as before{over}")
    return f"Placed again: an answer takes {'; '.join(changed)}."


def forms_for(documents: Sequence[Document]) -> dict[str, str]:
    """Format -> what the page calls it, of those that every model of a set can be written in."""
    return {
        name: form.label
        for name, form in FORMATS.items()
        if form.label and all(each.graph.format in form.models for each in documents)
    }


def problem_of_set(documents: Sequence[Document], form: str) -> str:
    """Why a format cannot be written for a model of a set; "" where it can for all."""
    problems = ((each.title, problem_of(each.graph, form)) for each in documents)
    return next((f"{title}: {problem}" for title, problem in problems if problem), "")


def exported(state: AppState, identity: str, form: str) -> tuple[str, bytes]:
    """Name and content of a zip file: ``set.json``, and a folder for each model with its plan and the files of a format.

    Raises:
        EditorError: there is no such set or format, or the files are too large for a download.
    """
    found = opened(state, identity)
    if form not in forms_for(found.documents):
        raise ModelError(f"{form!r} is no format for all models of this set")
    with (
        state.tasks.begin(identity, "Writing files") as task,
        tempfile.TemporaryDirectory() as name,
    ):
        folder = Path(name)
        paths = [write_atomic(folder / "set.json", json_text(found.models.to_dict()))]
        for model, document in zip(found.record.models, found.documents, strict=True):
            (folder / model.name).mkdir()
            plan = document.plan.to_json()  # which names the model by its whole path
            paths.append(write_atomic(folder / model.name / "plan.json", plan))
            if form != "plan":
                paths += written(document, form, folder / model.name)
        return f"{safe_stem(found.record.title.replace(' + ', '_'))}_{form}.zip", packed(
            sorted(set(paths)), folder, task
        )


def _title(models: Sequence[SetModel]) -> str:
    shown = [model.name for model in models[:3]]
    more = f" + {len(models) - 3} more" if len(models) > 3 else ""
    return " + ".join(shown) + more


def _digest(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
