"""What the result of a composition depends on: found once, and used for all operands with the same axes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from wyrm.graph.base import BaseNode
from wyrm.graph.op import Composition
from wyrm.reach.rules import Reached
from wyrm.reach.zones import Bound, Multiple, Zone, equated, renamed

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis


class Part(NamedTuple):
    """A zone of a result in terms of the positions of an operand.

    `names` maps a position of the operand to the position of the result that it equals, else to itself. It lacks the
    positions of which the zone says nothing. `extra` are the other bounds.
    """

    names: dict[int, int]
    extra: list[Bound]
    temporary: list[int]
    mask: BaseNode | None


class Relation(NamedTuple):
    """What is known of the result of a composition where one operand is followed, whose positions are `places`."""

    found: Reached
    places: list[int]
    parts: list[Part]


def is_plain(analysis: Analysis, operand: Reached) -> bool:
    """Return whether only zones are known of an operand, none of a divided axis: a relation suffices for it."""
    if operand.values or operand.numbers or analysis.wholes_of(operand):
        return False
    return not any(type(x) is Multiple for zone in operand.zones for key in zone.bounds for x in key)


def related(analysis: Analysis, node: BaseNode, composition: Composition, operands: Sequence[Reached]) -> Reached:
    """Return what is known of the result of a composition of plain operands.

    A relation says on which elements of an operand the result depends, and the operand on what these depend.
    """
    shapes, made = tuple(_shape(analysis, operand) for operand in operands), []
    for k, operand in enumerate(operands):
        if operand.zones:
            key = composition.outputs[0], k, shapes
            relation = analysis.relations.get(key)
            if relation is None:
                relation = analysis.relations[key] = _relation(analysis, node, composition, operands, k)
            found = relation.found.replaced(zones=_put_in(analysis, node, relation, operand))
            found.span = None  # of these operands
            made.append(found)
    if len(made) == 1:
        return made[0]
    axes, names = analysis.joined(made, [each.axes for each in made], node.ndim)
    moved = [analysis.moved(node, each, own, axes=axes) for each, own in zip(made, names, strict=True)]
    return moved[0].replaced(zones=[zone for each in moved for zone in each.zones])


def _shape(analysis: Analysis, operand: Reached) -> object:
    """Return a key that operands share if a composition says the same of them."""
    number = {atom: k for k, atom in enumerate(operand.atoms)}
    return tuple(tuple((number[abs(a)], a > 0, analysis.sizes[abs(a)]) for a in entry) for entry in operand.axes)


def _relation(
    analysis: Analysis, node: BaseNode, composition: Composition, operands: Sequence[Reached], k: int
) -> Relation:
    """Return on which elements of operand `k` the result of a composition depends."""
    blank = [Reached(operand.axes) for operand in operands]
    places = {atom: analysis.fresh(analysis.sizes[atom]) for atom in operands[k].atoms}
    blank[k].zones = [Zone(equated(places.items()))]
    around, analysis.kept = analysis.kept, analysis.kept | set(places.values())
    try:
        found = analysis.of_graph(node, composition.inputs, composition.outputs[0], composition.order, blank)
    finally:
        analysis.kept = around
    return Relation(found, list(places.values()), [_part(analysis, zone, places.values()) for zone in found.zones])


def _part(analysis: Analysis, zone: Zone, places: Collection[int]) -> Part:
    """Return a zone in which positions of the operand have the names of the result's positions that they equal."""
    names: dict[int, int] = {}
    for (u, v), limit in zone.bounds.items():
        if type(u) is int and u in places and u not in names and type(v) is int and v not in places:
            is_same = limit == zone.bounds.get((v, u)) == 0 and analysis.sizes[u] == analysis.sizes[v]
            if is_same and v not in names.values():
                names[u] = v
    extra = [
        (a, b, limit) for (u, v), limit in zone.bounds.items() if (a := renamed(u, names)) != (b := renamed(v, names))
    ]
    temporary = [place for place in places if place not in names and any(place in bound for bound in extra)]
    return Part({**names, **dict(zip(temporary, temporary, strict=True))}, extra, temporary, zone.mask)


def _put_in(analysis: Analysis, node: BaseNode, relation: Relation, operand: Reached) -> list[Zone]:
    """Return the zones of the result that follow from those of an operand."""
    found = []
    for part in relation.parts:
        pairs = zip(operand.atoms, relation.places, strict=True)
        names = {atom: part.names[place] for atom, place in pairs if place in part.names}
        for zone in analysis.image(node, operand.zones, names, part.extra, part.temporary):
            zone.mask = zone.mask if part.mask is None else part.mask
            found.append(zone)
    return found
