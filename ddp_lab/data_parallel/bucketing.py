"""Which gradients travel together: bucket assignment and layout, as pure functions.

May import: the standard library.
Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2.3. The assignment rule is torch's
(`torch.distributed._compute_bucket_assignment_by_size` is the oracle in the tests).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod

MIB = 1024 * 1024
DEFAULT_CAP_BYTES = 25 * MIB
FIRST_BUCKET_BYTES = 1 * MIB  # a small first bucket starts the communication early
NO_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class ParamSpec:
    """What bucketing needs to know of one parameter.

    Two parameters share a bucket only when their `kind` (dtype and device) is the same.
    A parameter with a sparse gradient has a bucket of its own.
    """

    name: str
    shape: tuple[int, ...]
    itemsize: int
    kind: Hashable
    sparse: bool = False

    @property
    def numel(self) -> int:
        """Number of elements; 1 for a scalar."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the gradient."""
        return self.numel * self.itemsize


@dataclass(frozen=True)
class BucketPlan:
    """Buckets in launch order; each is a tuple of parameter indices in the order of layout."""

    buckets: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]

    def bucket_bytes(self, specs: Sequence[ParamSpec]) -> list[int]:
        """Return the size of each bucket in bytes, in launch order."""
        return [sum(specs[i].nbytes for i in bucket) for bucket in self.buckets]


def assign(
    specs: Sequence[ParamSpec], limits: Sequence[int], order: Sequence[int] | None = None
) -> BucketPlan:
    """Return buckets filled greedily, each closed once its bytes reach its limit.

    The k-th bucket of a kind (dtype and device) is held to `limits[k]`, the last limit serving
    for all further ones. Without `order` the parameters are taken as registered and the buckets
    sorted by their smallest index; with `order` (the order in which gradients became ready)
    the buckets stay in the order in which they were closed.
    """
    if not limits:
        raise ValueError("assign: no bucket limit: got [], expected at least one. Pass [25 MiB].")
    closed: list[tuple[tuple[int, ...], int]] = []
    filling: dict[Hashable, list[int]] = {}
    filled: dict[Hashable, int] = {}
    count: dict[Hashable, int] = {}
    for index in order if order is not None else range(len(specs)):
        spec = specs[index]
        if spec.sparse:
            closed.append(((index,), 0))
            continue
        limit = limits[min(count.get(spec.kind, 0), len(limits) - 1)]
        filling.setdefault(spec.kind, []).append(index)
        filled[spec.kind] = filled.get(spec.kind, 0) + spec.nbytes
        if filled[spec.kind] >= limit:
            closed.append((tuple(filling.pop(spec.kind)), limit))
            filled[spec.kind] = 0
            count[spec.kind] = count.get(spec.kind, 0) + 1
    for kind, indices in filling.items():
        closed.append((tuple(indices), limits[min(count.get(kind, 0), len(limits) - 1)]))
    if order is None:
        closed.sort(key=lambda bucket: min(bucket[0]))
    return BucketPlan(tuple(b for b, _ in closed), tuple(limit for _, limit in closed))


def reverse_plan(specs: Sequence[ParamSpec], limits: Sequence[int]) -> BucketPlan:
    """Return buckets for parameters taken last to first, as backward is expected to finish them.

    The first limit is that of the bucket which is ready first: this is the paper's layout.
    """
    return assign(specs, limits, order=range(len(specs) - 1, -1, -1))


def torch_first_plan(specs: Sequence[ParamSpec], limits: Sequence[int]) -> BucketPlan:
    """Return torch's layout before the first iteration: assigned first to last, then reversed."""
    plan = assign(specs, limits)
    return BucketPlan(plan.buckets[::-1], plan.limits[::-1])


@dataclass(frozen=True)
class Caps:
    """Size limits of buckets, from the arguments of DistributedDataParallel.

    `first` differs from `cap` only when the caller left `bucket_cap_mb` to its default.
    """

    cap: int
    first: int
    per_bucket: tuple[int, ...] = ()

    @classmethod
    def from_mb(
        cls, bucket_cap_mb: float | None, bucket_cap_mb_list: Sequence[float] | None = None
    ) -> "Caps":
        """Return the limits that `bucket_cap_mb` (MiB) or a list of one a bucket ask for."""
        sizes_mb = list(bucket_cap_mb_list or ([] if bucket_cap_mb is None else [bucket_cap_mb]))
        if any(mb < 0 for mb in sizes_mb):
            raise ValueError(
                f"DistributedDataParallel: a bucket cannot have a negative size: got {sizes_mb} "
                "MiB, expected 0 (a bucket a parameter) or more. Leave it out for 25."
            )
        if not sizes_mb:
            return cls(DEFAULT_CAP_BYTES, FIRST_BUCKET_BYTES)
        cap = int(max(sizes_mb) * MIB)
        per_bucket = tuple(int(mb * MIB) for mb in sizes_mb) if bucket_cap_mb_list else ()
        return cls(cap, cap, per_bucket)

    @property
    def limits(self) -> list[int]:
        """Limits of the buckets in the order in which they become ready."""
        return list(self.per_bucket) or [self.first, self.cap]


def offsets(specs: Sequence[ParamSpec], bucket: Sequence[int]) -> list[int]:
    """Return where each parameter of `bucket` starts in its flat buffer, then the buffer's end.

    Counted in elements; parameters lie side by side without padding.
    """
    ends = [0]
    for index in bucket:
        ends.append(ends[-1] + specs[index].numel)
    return ends
