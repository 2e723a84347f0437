"""The packages of the wheel; everything else is in pyproject.toml.

``assets/`` and ``examples/`` lie beside the package in the repository and inside it in the wheel, which
``packages.find`` of pyproject.toml cannot say: it finds folders, and these two are not below ``editor/``.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["editor", "editor.*"]), "editor.assets", "editor.examples"],
    package_dir={"editor.assets": "assets", "editor.examples": "examples"},
)
