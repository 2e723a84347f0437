"""The version of the tool."""

VERSION = "1.0.0"
