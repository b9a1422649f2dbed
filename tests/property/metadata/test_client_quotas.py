"""Client quotas after any changes are those of a dictionary, also through a snapshot and a difference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.config.addresses import canonical_address
from penstock.metadata.client_quotas import quota_record
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.difference import difference
from penstock.metadata.features import METADATA_VERSIONS
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.records import decode_records, encode_records, image_records
from penstock.quota.levels import Entity

Change = tuple[Entity, str, float | None]

names = st.one_of(st.none(), st.text(max_size=3))
entities: st.SearchStrategy[Entity] = st.dictionaries(
    st.sampled_from(["user", "client-id", "ip", "group", ""]), names, max_size=3
).map(lambda parts: tuple(sorted(parts.items(), key=lambda each: each[0])))
values = st.one_of(st.none(), st.floats())
changes = st.lists(st.tuples(entities, st.sampled_from(["a", "b"]), values), max_size=12)


def image_of(made: list[Change], base: MetadataImage) -> MetadataImage:
    """The image after changes, whose records were written and read."""
    delta = MetadataDelta(base)
    records = [quota_record(*each) for each in made]
    for record in decode_records(encode_records(records, METADATA_VERSIONS[30]), "log"):
        delta.replay(record)
    return delta.apply(base.offset + 1, 1, 0)


def told(image: MetadataImage) -> dict[Entity, str]:
    return {entity: repr(dict(of)) for entity, of in image.client_quotas.items()}


@given(changes, changes)
def test_quotas_are_those_of_a_dictionary(first: list[Change], second: list[Change]) -> None:
    model: dict[Entity, dict[str, float]] = {}
    for entity, key, value in first + second:
        of = model.setdefault(entity, {})
        if value is None:
            of.pop(key, None)
        else:
            of[key] = value
    old = image_of(first, EMPTY_IMAGE)
    new = image_of(second, old)
    assert told(new) == {entity: repr(dict(sorted(of.items()))) for entity, of in model.items() if of}
    assert all(entity in new.client_quotas and new.client_quotas.get(entity) for entity in new.client_quotas)
    loaded = MetadataDelta(EMPTY_IMAGE)
    for record in image_records(new):
        loaded.replay(record)
    assert loaded.apply(1, 1, 0).client_quotas == new.client_quotas
    assert difference(old, new).apply(1, 1, 0).client_quotas == new.client_quotas


@given(st.text(alphabet="0123456789abcdef.:[]%/-x ", max_size=45))
def test_any_text_is_an_address_or_none(text: str) -> None:
    address = canonical_address(text)
    assert address is None or canonical_address(address) == address
