"""The Merkle tree of RFC 6962: published vectors, the RFC's recursive definitions, and proofs that must not pass."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trails.errors import IntegrityError, InvalidInput
from trails.integrity.merkle import Frontier, HashTree, root_of
from trails.integrity.verifier.merkle_checks import (
    EMPTY_ROOT,
    leaf_hash,
    node_hash,
    verify_consistency,
    verify_inclusion,
)

# The eight leaves that Certificate Transparency implementations test with, and the roots over the first 1 to 8.
LEAVES = [
    bytes.fromhex(digits)
    for digits in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


# --- the definitions, straight from the text of RFC 6962 (2.1, 2.1.1, 2.1.2): slow, and close to the letter ---


def k_of(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(data: Sequence[bytes]) -> bytes:
    if not data:
        return sha256().digest()
    if len(data) == 1:
        return sha256(b"\x00" + data[0]).digest()
    k = k_of(len(data))
    return sha256(b"\x01" + mth(data[:k]) + mth(data[k:])).digest()


def path(m: int, data: Sequence[bytes]) -> list[bytes]:
    if len(data) == 1:
        return []
    k = k_of(len(data))
    if m < k:
        return [*path(m, data[:k]), mth(data[k:])]
    return [*path(m - k, data[k:]), mth(data[:k])]


def subproof(m: int, data: Sequence[bytes], known: bool) -> list[bytes]:
    if m == len(data):
        return [] if known else [mth(data)]
    k = k_of(len(data))
    if m <= k:
        return [*subproof(m, data[:k], known), mth(data[k:])]
    return [*subproof(m - k, data[k:], False), mth(data[:k])]


# --- helpers ---


def tree_of(data: Sequence[bytes]) -> HashTree:
    return HashTree(leaf_hash(item) for item in data)


def accepted(check: Callable[[], None]) -> bool:
    try:
        check()
    except IntegrityError:
        return False
    return True


def unpacked(value: Any) -> Any:
    """A vector's base64 fields as bytes; its proof as a list, also where the file has null."""
    coded = ("root", "root1", "root2", "leafHash")
    plain = {key: base64.b64decode(item) if key in coded else item for key, item in value.items()}
    return plain | {"proof": [base64.b64decode(item) for item in value["proof"] or []]}


def vectors(shared: Path, kind: str) -> dict[str, Any]:
    files = sorted((shared / "tlog-vectors" / kind).rglob("*.json"))
    return {f"{file.parent.name}/{file.name}": unpacked(json.loads(file.read_bytes())) for file in files}


some_leaves = st.lists(st.binary(max_size=9), min_size=1, max_size=70)


# --- published vectors ---


def test_every_inclusion_vector_is_accepted_or_refused_as_published(shared: Path) -> None:
    cases = vectors(shared, "inclusion")
    assert len(cases) == 53
    wrong = [
        name
        for name, case in cases.items()
        if accepted(
            lambda case=case: verify_inclusion(  # type: ignore[misc]
                case["leafHash"], case["leafIdx"], case["treeSize"], case["proof"], case["root"]
            )
        )
        is case["wantErr"]
    ]
    assert wrong == []
    assert sum(not case["wantErr"] for case in cases.values()) == 4


def test_every_consistency_vector_is_accepted_or_refused_as_published(shared: Path) -> None:
    cases = vectors(shared, "consistency")
    assert len(cases) == 43
    wrong = [
        name
        for name, case in cases.items()
        if accepted(
            lambda case=case: verify_consistency(  # type: ignore[misc]
                case["size1"], case["size2"], case["root1"], case["root2"], case["proof"]
            )
        )
        is case["wantErr"]
    ]
    assert wrong == []
    assert sum(not case["wantErr"] for case in cases.values()) == 3


def test_our_inclusion_proofs_are_the_published_ones(shared: Path) -> None:
    tree, compared = tree_of(LEAVES), 0
    for case in vectors(shared, "inclusion").values():
        if case["wantErr"] or case["treeSize"] > 8 or case["leafHash"] not in map(leaf_hash, LEAVES):
            continue
        assert tree.inclusion(case["leafIdx"], case["treeSize"]) == case["proof"]
        assert tree.root(case["treeSize"]) == case["root"]
        compared += 1
    assert compared == 3  # the fourth is a tree of one leaf of unknown content


def test_our_consistency_proofs_are_the_published_ones(shared: Path) -> None:
    tree, compared = tree_of(LEAVES), 0
    for case in vectors(shared, "consistency").values():
        if case["wantErr"]:
            continue
        assert tree.consistency(case["size1"], case["size2"]) == case["proof"]
        assert (tree.root(case["size1"]), tree.root(case["size2"])) == (case["root1"], case["root2"])
        compared += 1
    assert compared == 3


# --- roots ---


def test_the_root_of_no_leaves_is_the_hash_of_nothing() -> None:
    nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert EMPTY_ROOT.hex() == nothing
    assert HashTree().root().hex() == Frontier().root().hex() == root_of([]).hex() == nothing


@pytest.mark.parametrize("size", range(1, 9))
def test_the_roots_over_the_known_eight_leaves_are_the_published_ones(size: int) -> None:
    hashes = [leaf_hash(item) for item in LEAVES]
    assert root_of(hashes[:size]).hex() == ROOTS[size - 1]
    assert HashTree(hashes).root(size).hex() == ROOTS[size - 1]


def test_a_tree_of_three_is_hashed_as_one_does_by_hand() -> None:
    a, b, c = (sha256(b"\x00" + item).digest() for item in (b"a", b"b", b"c"))
    by_hand = sha256(b"\x01" + sha256(b"\x01" + a + b).digest() + c).digest()
    assert tree_of([b"a", b"b", b"c"]).root() == by_hand


def test_a_leaf_cannot_pass_for_an_inner_node() -> None:
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != node_hash(left, right)


@given(some_leaves, st.data())
def test_the_root_at_every_past_size_is_the_defined_one(data: list[bytes], draw: st.DataObject) -> None:
    size = draw.draw(st.integers(0, len(data)))
    assert tree_of(data).root(size) == mth(data[:size])


@given(some_leaves)
def test_a_frontier_gives_the_defined_root(data: list[bytes]) -> None:
    frontier = Frontier()
    for size, item in enumerate(data):
        assert (frontier.size, frontier.root()) == (size, mth(data[:size]))
        frontier.append(leaf_hash(item))
    assert frontier.root() == mth(data)


# --- proofs ---


@given(some_leaves, st.data())
def test_every_inclusion_proof_is_the_defined_one_and_verifies(data: list[bytes], draw: st.DataObject) -> None:
    size = draw.draw(st.integers(1, len(data)))
    index = draw.draw(st.integers(0, size - 1))
    proof = tree_of(data).inclusion(index, size)
    assert proof == path(index, data[:size])
    verify_inclusion(leaf_hash(data[index]), index, size, proof, mth(data[:size]))


@given(some_leaves, st.data())
def test_every_consistency_proof_is_the_defined_one_and_verifies(data: list[bytes], draw: st.DataObject) -> None:
    new = draw.draw(st.integers(1, len(data)))
    old = draw.draw(st.integers(1, new))
    proof = tree_of(data).consistency(old, new)
    assert proof == subproof(old, data[:new], True)
    verify_consistency(old, new, mth(data[:old]), mth(data[:new]), proof)


def test_all_proofs_of_all_trees_up_to_33_leaves_verify() -> None:
    data = [bytes([number]) for number in range(33)]
    tree = tree_of(data)
    roots = [mth(data[:size]) for size in range(34)]
    for size in range(1, 34):
        for index in range(size):
            verify_inclusion(leaf_hash(data[index]), index, size, tree.inclusion(index, size), roots[size])
        for old in range(size + 1):
            verify_consistency(old, size, roots[old], roots[size], tree.consistency(old, size))


@given(some_leaves, st.data())
def test_no_inclusion_proof_passes_for_another_place_leaf_or_with_a_changed_bit(
    data: list[bytes], draw: st.DataObject
) -> None:
    size, tree = len(data), tree_of(data)
    index = draw.draw(st.integers(0, size - 1))
    proof, root, leaf = tree.inclusion(index), tree.root(), leaf_hash(data[index])
    other = draw.draw(st.integers(0, size - 1).filter(lambda at: leaf_hash(data[at]) != leaf) | st.just(size))
    with pytest.raises(IntegrityError):
        verify_inclusion(leaf, other, size, proof, root)
    with pytest.raises(IntegrityError):
        verify_inclusion(leaf_hash(data[index] + b"!"), index, size, proof, root)
    if proof:
        at, bit = draw.draw(st.integers(0, len(proof) - 1)), draw.draw(st.integers(0, 255))
        flipped = (int.from_bytes(proof[at]) ^ 1 << bit).to_bytes(32)
        with pytest.raises(IntegrityError, match="leads to the root"):
            verify_inclusion(leaf, index, size, [*proof[:at], flipped, *proof[at + 1 :]], root)


@given(some_leaves, st.data())
def test_a_log_that_changed_an_old_leaf_cannot_prove_its_growth(data: list[bytes], draw: st.DataObject) -> None:
    old = draw.draw(st.integers(1, len(data)))
    changed = draw.draw(st.integers(0, old - 1))
    rewritten = [*data[:changed], data[changed] + b"!", *data[changed + 1 :]]
    tree = tree_of(rewritten)
    with pytest.raises(IntegrityError):
        verify_consistency(old, len(data), mth(data[:old]), tree.root(), tree.consistency(old))


@given(some_leaves, st.data())
def test_no_consistency_proof_passes_with_a_changed_bit_or_between_other_roots(
    data: list[bytes], draw: st.DataObject
) -> None:
    new = len(data)
    old = draw.draw(st.integers(1, new))
    tree = tree_of(data)
    old_root, new_root, proof = tree.root(old), tree.root(), tree.consistency(old)
    with pytest.raises(IntegrityError):
        verify_consistency(old, new, leaf_hash(b"other"), new_root, proof)
    with pytest.raises(IntegrityError):
        verify_consistency(old, new, old_root, leaf_hash(b"other"), proof)
    if proof:
        at, bit = draw.draw(st.integers(0, len(proof) - 1)), draw.draw(st.integers(0, 255))
        flipped = (int.from_bytes(proof[at]) ^ 1 << bit).to_bytes(32)
        with pytest.raises(IntegrityError, match="leads to another"):
            verify_consistency(old, new, old_root, new_root, [*proof[:at], flipped, *proof[at + 1 :]])


# --- edges ---


def test_an_inclusion_proof_of_wrong_length_says_how_many_hashes_belong() -> None:
    tree, leaf = tree_of(LEAVES), leaf_hash(LEAVES[5])
    proof = tree.inclusion(5)
    with pytest.raises(IntegrityError, match="too short, 2 hashes where 3 belong"):
        verify_inclusion(leaf, 5, 8, proof[:-1], tree.root())
    with pytest.raises(IntegrityError, match="too long, 4 hashes where 3 belong"):
        verify_inclusion(leaf, 5, 8, [*proof, tree.root()], tree.root())


def test_a_consistency_proof_of_wrong_length_says_how_many_hashes_belong() -> None:
    tree = tree_of(LEAVES)
    proof = tree.consistency(6)
    with pytest.raises(IntegrityError, match="from 6 to 8: the proof is too short, 0 hashes where 3 belong"):
        verify_consistency(6, 8, tree.root(6), tree.root(), [])
    with pytest.raises(IntegrityError, match="too long, 4 hashes where 3 belong"):
        verify_consistency(6, 8, tree.root(6), tree.root(), [*proof, proof[-1]])


@pytest.mark.parametrize(("index", "size"), [(8, 8), (0, 0), (-1, 8), (2**64 - 1, 8), (5, -1)])
def test_a_leaf_outside_the_tree_is_neither_proven_nor_accepted(index: int, size: int) -> None:
    tree = tree_of(LEAVES)
    with pytest.raises(IntegrityError, match="there is no leaf"):
        verify_inclusion(leaf_hash(b""), index, size, [], tree.root())
    with pytest.raises(InvalidInput, match="there is no"):
        tree.inclusion(index, size)


def test_a_tree_of_one_leaf_has_that_leaf_for_a_root_and_an_empty_proof() -> None:
    tree = tree_of([b"only"])
    assert tree.inclusion(0) == []
    verify_inclusion(leaf_hash(b"only"), 0, 1, [], leaf_hash(b"only"))


def test_a_tree_is_consistent_with_itself_by_an_empty_proof_and_with_no_other_of_its_size() -> None:
    tree = tree_of(LEAVES)
    assert tree.consistency(8) == []
    verify_consistency(8, 8, tree.root(), tree.root(), [])
    with pytest.raises(IntegrityError, match="two trees of size 8 must have one root"):
        verify_consistency(8, 8, tree.root(7), tree.root(), [])
    with pytest.raises(IntegrityError, match="too long, 1 hashes where 0 belong"):
        verify_consistency(8, 8, tree.root(), tree.root(), [tree.root()])


def test_every_tree_extends_the_empty_one_by_an_empty_proof() -> None:
    tree = tree_of(LEAVES)
    assert tree.consistency(0) == HashTree().consistency(0) == []
    verify_consistency(0, 8, EMPTY_ROOT, tree.root(), [])
    verify_consistency(0, 0, EMPTY_ROOT, EMPTY_ROOT, [])


def test_a_tree_of_no_leaves_can_only_have_the_empty_root_and_no_proof() -> None:
    root = tree_of(LEAVES).root()
    with pytest.raises(IntegrityError, match="without leaves cannot have the root 5dc9da79"):
        verify_consistency(0, 8, root, root, [])
    with pytest.raises(IntegrityError, match="without leaves cannot have the root 5dc9da79"):
        verify_consistency(0, 0, EMPTY_ROOT, root, [])
    with pytest.raises(IntegrityError, match="too long"):
        verify_consistency(0, 8, EMPTY_ROOT, root, [root])


@pytest.mark.parametrize(("old", "new"), [(8, 7), (-1, 8), (1, 0)])
def test_a_tree_never_shrinks(old: int, new: int) -> None:
    root = leaf_hash(b"")
    with pytest.raises(IntegrityError, match="cannot have grown"):
        verify_consistency(old, new, root, root, [])
    with pytest.raises(InvalidInput, match="cannot have grown"):
        tree_of(LEAVES).consistency(old, new)


@pytest.mark.parametrize("size", [9, -1])
def test_a_tree_size_that_was_never_reached_has_no_root_and_no_proofs(size: int) -> None:
    tree = tree_of(LEAVES)
    for ask in (lambda: tree.root(size), lambda: tree.inclusion(0, size), lambda: tree.consistency(1, size)):
        with pytest.raises(InvalidInput, match="the tree has 8 leaves"):
            ask()


@pytest.mark.parametrize("stub", [b"", b"x" * 31, b"x" * 33])
def test_what_is_not_a_hash_is_refused_wherever_a_hash_belongs(stub: bytes) -> None:
    tree = tree_of(LEAVES)
    proof, leaf, root = tree.inclusion(5), leaf_hash(LEAVES[5]), tree.root()
    for add in (HashTree().append, Frontier().append):
        with pytest.raises(InvalidInput, match="a leaf hash has"):
            add(stub)
    with pytest.raises(IntegrityError, match="the leaf hash has"):
        verify_inclusion(stub, 5, 8, proof, root)
    with pytest.raises(IntegrityError, match="the root has"):
        verify_inclusion(leaf, 5, 8, proof, stub)
    with pytest.raises(IntegrityError, match="hash 1 of the proof has"):
        verify_inclusion(leaf, 5, 8, [proof[0], stub, proof[2]], root)
    with pytest.raises(IntegrityError, match="the old root has"):
        verify_consistency(6, 8, stub, root, tree.consistency(6))
    with pytest.raises(IntegrityError, match="the new root has"):
        verify_consistency(6, 8, tree.root(6), stub, tree.consistency(6))
