"""Where the levels of a drawn map stand in the private store, and the map of a release that is drawn already."""

from __future__ import annotations

from ...accounting.kernel.keys.private_store import ReleaseFolder
from ...mechanisms.kernel.protection import Numbers
from ...mechanisms.map_selection.choice import MapChoice
from ...mechanisms.recoding import GeneralizationMap
from ..kernel.draws import StoredDraw, load_draw
from ..request import Request

__all__ = ["load_map", "map_draw"]


def map_draw(choice: MapChoice, *, sample_id: str, step: int | None = None) -> StoredDraw:
    """Where the levels of a drawn map stand, one a column.

    Args:
        choice: what they are drawn from.
        sample_id: commitment to the release's sample.
        step: number of a walk's step, from 0; None for the map itself.
    """

    def fits(levels: Numbers) -> bool:
        try:
            choice.lattice.index_of(tuple(levels))
        except ValueError:
            return False
        return True

    return StoredDraw(
        name="map" if step is None else f"map-step-{step}",
        field="levels",
        what="the map in the private store was",
        again="It is",
        drawn_for={"lattice": choice.digest(), "sample_id": sample_id},
        fits=fits,
    )


def load_map(request: Request, *, folder: ReleaseFolder, sample_id: str) -> GeneralizationMap | None:
    """The map of a release: the fixed one, or the one that was drawn; None where it is still to be drawn.

    Of a chain that was drawn it is the first, the finest.

    Args:
        request: what is asked for.
        folder: the release's folder in the private store.
        sample_id: commitment to the release's sample, which the draw was made for.

    Raises:
        ReleaseFailed: what is stored is damaged, or was drawn for something else.
    """
    if isinstance(request.recoding, GeneralizationMap):
        return request.recoding
    levels = load_draw(map_draw(request.recoding, sample_id=sample_id), folder=folder)
    return None if levels is None else request.recoding.lattice.chain_of(tuple(levels))[0]
