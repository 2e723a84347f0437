"""What OpenVINO's errors say to a person."""

from __future__ import annotations

from editor.runtimes.base import summarize_error

_NO_RULE = "No conversion rule found for operations:"


def reason_of(error: BaseException) -> str:
    """The cause of an error, shortened for display."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    rule = next((line for line in lines if _NO_RULE in line), None)
    if rule is not None:
        return f"OpenVINO: no conversion rule for {rule.partition(_NO_RULE)[2].strip()}"
    if len(lines) > 1 and lines[0].startswith(("Check '", "Exception from")):
        return f"OpenVINO: {summarize_error(type(error)(lines[-1]))}"  # the place comes first and the cause last
    return f"OpenVINO: {summarize_error(error)}"
