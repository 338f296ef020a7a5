"""Queries as text: reading them again gives the same tree."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.graph.query import syntax as q
from headgate.graph.schema.text import literal_text, type_text


def queries_text(queries: Iterable[q.Query]) -> str:
    return "\n".join(query_text(query) for query in queries)


def query_text(query: q.Query) -> str:
    params = ", ".join(f"${p.name}: {type_text(p.type)}{'?' if p.nullable else ''}" for p in query.parameters)
    body = _read(query.body) if isinstance(query.body, q.Read) else [_statement(s) for s in query.body.statements]
    return f"query {query.name}({params}) {{\n{_indented(body)}\n}}\n"


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for text in lines for line in text.split("\n"))


def _block(word: str, clauses: tuple[q.Clause, ...]) -> str:
    inner = _indented(_clause(clause) for clause in clauses)
    return f"{word} {{\n{inner}\n}}" if clauses else f"{word} {{ }}"


def _read(read: q.Read) -> list[str]:
    distinct = "distinct " if read.distinct else ""
    lines = [_block("match", read.clauses), f"return {distinct}{{ {', '.join(_item(item) for item in read.items)} }}"]
    if read.order:
        lines.append(f"order {{ {', '.join(_sort(sort) for sort in read.order)} }}")
    if read.limit is not None:
        lines.append(f"limit {_operand(read.limit) if isinstance(read.limit, q.Variable) else read.limit}")
    return lines


def _clause(clause: q.Clause) -> str:
    match clause:
        case q.Pattern(variable, name, fields):
            return f"${variable.name}: {name}{f' {_fields(fields)}' if fields else ''}"
        case q.Traversal():
            return _traversal(clause)
        case q.Absent(clauses):
            return _block("not", clauses)
        case q.Optional(clauses):
            return _block("optional", clauses)
        case q.Filter(expression):
            return expression_text(expression)


def _traversal(step: q.Traversal) -> str:
    edge = f" as ${step.edge.name}{f' {_fields(step.fields)}' if step.fields else ''}" if step.edge else ""
    return f"${step.src.name} {step.verb}{_hops(step.hops)} ${step.dst.name}{edge}"


def _hops(hops: q.Hops | None) -> str:
    if hops is None:
        return ""
    if hops.min == hops.max:
        return f"{{{hops.min}}}"
    return f"{{{hops.min},{'' if hops.max is None else hops.max}}}"


def _fields(fields: tuple[q.Field, ...]) -> str:
    return "{ " + ", ".join(f"{item.name}: {_operand(item.value)}" for item in fields) + " }"


def _item(item: q.Item) -> str:
    return _result(item.value) + (f" as {item.alias}" if item.alias else "")


def _result(value: q.PropertyOf | q.Variable | q.Aggregate) -> str:
    if isinstance(value, q.Aggregate):
        inner = "*" if value.argument is None else _result(value.argument)
        return f"{value.function}({'distinct ' if value.distinct else ''}{inner})"
    return _operand(value)


def _sort(sort: q.Sort) -> str:
    return f"{_operand(sort.by)}{' desc' if sort.descending else ''}"


def _statement(statement: q.Statement) -> str:
    match statement:
        case q.Insert(name, fields):
            return f"insert {name} {_fields(fields)}"
        case q.Update(name, fields, where):
            return f"update {name} set {_fields(fields)} where {expression_text(where)}"
        case q.Delete(name, where):
            return f"delete {name} where {expression_text(where)}"


def expression_text(expression: q.Expression) -> str:
    """A condition, with parentheses only where they are needed."""
    match expression:
        case q.Or(parts):
            return " or ".join(expression_text(part) for part in parts)
        case q.And(parts):
            return " and ".join(_grouped(part, q.Or) for part in parts)
        case q.Not(inner):
            return f"not {_grouped(inner, q.Or, q.And)}"
        case q.Compare(left, op, right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case q.Member(left, right, negated):
            return f"{_operand(left)} {'not ' if negated else ''}in {_operand(right)}"
        case q.Contains(left, right):
            return f"{_operand(left)} contains {_operand(right)}"
        case q.StartsWith(left, right):
            return f"{_operand(left)} starts_with {_operand(right)}"
        case q.NullTest(operand, negated):
            return f"{_operand(operand)} is {'not ' if negated else ''}null"
        case q.Everything():
            return "true"


def _grouped(expression: q.Expression, *kinds: type) -> str:
    text = expression_text(expression)
    return f"({text})" if isinstance(expression, kinds) else text


def _operand(operand: q.Operand) -> str:
    match operand:
        case q.Variable(name):
            return f"${name}"
        case q.PropertyOf(variable, name):
            return f"${variable}.{name}"
        case q.Column(name):
            return name
        case q.LiteralValue(value):
            return "null" if value is None else literal_text(value)
        case q.ListValue(values):
            return f"[{', '.join(_operand(value) for value in values)}]"
