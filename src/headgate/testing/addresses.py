"""Where a task is written, for a process that has to import it again."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType

from headgate.errors import Unsupported
from headgate.tasks import TaskDeclaration, task_of


@dataclass(frozen=True)
class TaskAddress:
    module: str
    file: str
    name: str

    def find(self) -> TaskDeclaration:
        """The task, imported here."""
        found: object = self._imported()
        for part in self.name.split("."):
            found = getattr(found, part)
        assert callable(found)
        return task_of(found)

    def _imported(self) -> ModuleType:
        if self.module != "__main__":
            try:
                return importlib.import_module(self.module)
            except ImportError:
                pass  # a test module need not be on the path: its file is known
        spec = importlib.util.spec_from_file_location(self.module, self.file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.module] = module
        spec.loader.exec_module(module)
        return module


def address_of(declaration: TaskDeclaration) -> TaskAddress:
    """Where a task can be imported from; refused for one that is written inside a function."""
    function = declaration.function
    if "<locals>" in function.__qualname__:
        raise Unsupported(
            message=f"task {declaration.name} is written inside a function, and a fresh process cannot import it",
            hint="write it at the top of its module: a process with a graph cannot be forked",
        )
    return TaskAddress(function.__module__, declaration.source.file, function.__qualname__)
