"""What pyproject.toml cannot say: the pages of docs/errors go into the package, where error messages say that they are."""

from __future__ import annotations

import pathlib

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithPages(build_py):
    """Copies the pages beside the modules. An editable install finds them in the checkout."""

    def _pages(self) -> dict[str, str]:
        """Where each page is to be, and where it is."""
        folder = pathlib.Path(self.build_lib, "pullback", "docs", "errors")
        return {str(folder / file.name): str(file) for file in sorted(pathlib.Path("docs", "errors").glob("*.md"))}

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for copy, file in self._pages().items():
                self.mkpath(str(pathlib.Path(copy).parent))
                self.copy_file(file, copy, preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        pages = [] if self.editable_mode else list(self._pages())
        return [*super().get_outputs(include_bytecode), *pages]

    def get_output_mapping(self) -> dict[str, str]:
        pages = {} if self.editable_mode else self._pages()
        return {**super().get_output_mapping(), **pages}


setup(cmdclass={"build_py": BuildWithPages})
