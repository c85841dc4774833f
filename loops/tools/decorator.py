"""A tool from a function with typed arguments: the decorator ``tool`` for packages of other people (SPEC I2).

What the decorator is not told is taken at its worst, as everywhere (``ToolSpec``): the operation is nobody's, the call
cannot be undone, and a person is asked before each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from loops.engine.values import UNDECLARED, Compensation, Danger, Json, Reversibility, ToolResult, ToolSpec
from loops.tools.execution import in_thread
from loops.tools.registry import ArgumentError, Arguments, Operands, Run, Tool, ToolRun

Function = Callable[..., Any]
_OF = "undoes_key"
"""Where an undoing has the idempotency key of the call that it undoes."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What calls touch: ``reads`` and ``writes`` are names of arguments that hold workspace paths, ``hosts`` the names
    of hosts that every call reaches. The matrix has rules by them, and paths outside of the workspace are refused."""

    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    hosts: Sequence[str] = ()


def tool(  # noqa: PLR0913 - what a tool may declare
    *,
    operation: str = UNDECLARED,
    reversibility: Reversibility = Reversibility.IRREVERSIBLE,
    danger: Danger = Danger.HIGH,
    idempotent: bool = False,
    timeout_s: float = 30.0,
    effects: Effects = Effects(),
    deed: str = "",
) -> Callable[[Function], DeclaredTool]:
    """Make a tool of a function ``(run: ToolRun, ...) -> str | ToolResult``, plain or async.

    Its name is the function's, its description the docstring, its parameters those after ``run``, by their types
    (whatever pydantic knows; ``Annotated[str, Field(description=...)]`` tells the model more). ``idempotent`` says that
    the very same call may run again after an unknown outcome; ``run.context.idempotency_key`` is the same each time.
    ``deed`` says what a call does to whoever is asked about it, with parameters in braces: "Reserve {room}".
    Raise ArgumentError with a sentence that tells the model what to do instead. Raises TypeError for a function whose
    parameters have no types.
    """

    def declare(function: Function) -> DeclaredTool:
        arguments = _model_of(function)
        spec = ToolSpec(
            name=function.__name__,
            description=inspect.getdoc(function) or "",
            parameters=_schema_of(arguments),
            operation=operation,
            reversibility=reversibility,
            danger=danger,
            timeout_s=timeout_s,
            retriable=idempotent,
            deed=deed,
        )
        return DeclaredTool(function, Tool(spec, _runner(function, arguments), _operands(effects)))

    return declare


class DeclaredTool:
    """A function that is a tool. Called, it is the function; ``offered`` is what the registry takes."""

    def __init__(self, function: Function, made: Tool) -> None:
        self._function, self._tool, self._undoing = function, made, cast("Tool | None", None)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function."""
        return self._function(*args, **kwargs)

    @property
    def name(self) -> str:
        """What models call it by."""
        return self._tool.spec.name

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tool, and what undoes its calls."""
        return (self._tool, self._undoing) if self._undoing else (self._tool,)

    def undo(self, function: Function) -> Function:
        """Decorator: this function undoes a call. It gets the arguments of the call, and in
        ``run.context.idempotency_key`` that call's key. It may be run more than once, and where nothing was done."""
        name = f"undo_{self.name}"
        arguments = _model_of(function)
        undo = _runner(function, arguments)

        async def run_undo(arguments: Arguments, run: ToolRun) -> ToolResult:
            of = replace(run.context, idempotency_key=str(arguments[_OF]))
            return await undo({key: arguments[key] for key in arguments if key != _OF}, replace(run, context=of))

        description = inspect.getdoc(function) or ""
        spec = replace(
            self._tool.spec, name=name, description=description, retriable=True, parameters=_ANYTHING, deed=""
        )
        self._undoing = Tool(spec, run_undo, self._tool.operands, internal=True)
        self._tool = replace(self._tool, undo=_planner(name))
        return function


_ANYTHING: dict[str, Json] = {"type": "object"}
"""Arguments of an undoing: planned by us when the call was judged, and never a model's."""


def _planner(name: str) -> Callable[[Arguments, ToolRun], Compensation]:
    def plan(arguments: Arguments, run: ToolRun) -> Compensation:
        return Compensation(tool=name, arguments={**arguments, _OF: run.context.idempotency_key})

    return plan


def _model_of(function: Function) -> type[BaseModel]:
    """The parameters after the first, as a pydantic model that allows nothing else."""
    hints, fields = get_type_hints(function, include_extras=True), cast("dict[str, Any]", {})
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.name not in hints or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            raise TypeError(f"{function.__name__}: the parameter {parameter} needs a type, and one place")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)


class _Untitled(GenerateJsonSchema):
    """Names of fields say it; a title for each would be read by the model at each request."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema_of(arguments: type[BaseModel]) -> Mapping[str, Json]:
    schema: dict[str, Json] = arguments.model_json_schema(schema_generator=_Untitled)
    schema.pop("title", None)
    return {"properties": {}, **schema}


def _runner(function: Function, model: type[BaseModel]) -> Run:
    async def run_tool(arguments: Arguments, run: ToolRun) -> ToolResult:
        values = _values(model, arguments)
        if inspect.iscoroutinefunction(function):
            return _result(await function(run, **values))
        return await in_thread(lambda: _result(function(run, **values)), run)

    return run_tool


def _values(model: type[BaseModel], arguments: Arguments) -> dict[str, Any]:
    try:
        checked = model.model_validate(dict(arguments))
    except ValidationError as error:
        said = "; ".join(f"/{'/'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ArgumentError(said) from error
    return {name: getattr(checked, name) for name in model.model_fields}


def _result(found: Any) -> ToolResult:
    return found if isinstance(found, ToolResult) else ToolResult(ok=True, content=str(found))


def _operands(effects: Effects) -> Callable[[Arguments, ToolRun], Operands]:
    def describe(arguments: Arguments, run: ToolRun) -> Operands:
        return Operands(
            reads=tuple(str(arguments[name]) for name in effects.reads if name in arguments),
            writes=tuple(str(arguments[name]) for name in effects.writes if name in arguments),
            hosts=tuple(effects.hosts),
        )

    return describe
