"""The version of the tool."""

VERSION = "0.2.0"
