"""What the words of the page mean, for the help sheet and for the fields that are called so."""

from __future__ import annotations

WORDS = {
    "Device": "A runtime and the hardware that it uses. The order of the devices is their priority.",
    "Planned device": "A device that is not on this machine. Its ops can be placed and exported; a benchmark runs them on a "
    "stand-in, compares the outputs and shows no times.",
    "Preset": "Published limits of a real accelerator: which ops, types and sizes it takes.",
    "Precision": "The element type that the device is planned in: as exported, or as if the model had been converted.",
    "Policy": "How the automatic mode chooses a device for each op that is not pinned.",
    "Pin": "An op that you placed by hand. The automatic mode solves the rest around it.",
    "Rule": "Places all ops that fit a description: a type, a block, a condition.",
    "Fallback": "An op that is off its preferred device, the first one in the order, because that cannot run it.",
    "Subgraph": "Ops that run on one device in one piece. The fewer there are, the less starting them costs.",
    "Transfer": "A tensor that goes from one device to another.",
    "Costs": "What times are worked out from: a profile of this model, or the shapes of its tensors.",
    "Codegen": "Which of several compilers of one device takes an op.",
    "Profile": "Measures what each op takes on each real device.",
    "Kit": "A folder that makes a profile on another machine, with nothing but Python, numpy and the runtime there.",
    "Estimate": "A time from shapes and the stated peaks of a device.",
    "Prediction": "A time from a profile, for a plan that did not run.",
    "Measurement": "A time of runs of exactly this plan.",
}
"""Word -> one or two sentences."""
FIELDS = {
    "Subgraphs": "Which ops of a device become one subgraph: as few as possible, or as OpenVINO or Glow groups them.",
    "Costs": WORDS["Costs"],
    "Policy": WORDS["Policy"],
    "Codegen": WORDS["Codegen"],
    "Preset": WORDS["Preset"],
    "Precision": WORDS["Precision"],
}
"""Label of a field -> what it is for."""
