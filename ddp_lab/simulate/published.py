"""What was published about training at scale, beside what this package predicts of it.

    python -m ddp_lab.simulate.published > docs/predictions.md

Each figure says whether its prediction was fitted to it, fitted to another figure, or rests on
assumptions; a gap is shown, not left out.

May import: this folder.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ddp_lab.simulate import clusters, quoted
from ddp_lab.simulate.cluster import Cluster, cluster
from ddp_lab.simulate.clusters import with_pace
from ddp_lab.simulate.layers import LayerCost
from ddp_lab.simulate.pipeline import pipeline
from ddp_lab.simulate.stragglers import backup_workers
from ddp_lab.simulate.training import MIB, TrainingStep, training
from ddp_lab.simulate.workloads import (
    BERT_LARGE,
    GPT3,
    INCEPTION_V3,
    RESNET_50,
    RESNET_101,
    VGG_16,
    VGG_19_22K,
    transformer,
)

DAY_S = 86_400.0


@dataclass(frozen=True)
class Figure:
    """A published figure and its prediction; `rests_on` says what the prediction took for given."""

    source: str
    what: str
    published: float
    predicted: float
    unit: str
    rests_on: str

    @property
    def gap(self) -> str:
        """How far off the prediction is: percentage points of a percentage, else per cent."""
        if self.unit == "%":
            return f"{self.predicted - self.published:+.1f} points"
        return f"{100 * (self.predicted / self.published - 1):+.0f} %"


@dataclass(frozen=True)
class CitedRun:
    """A data-parallel run at several sizes, and the efficiencies that were published of it."""

    source: str
    workload: Sequence[LayerCost]
    cluster: Cluster  # paced
    each: int  # samples a device
    bucket_bytes: float
    strategy: str
    points: tuple[tuple[int, float], ...]


def cited_runs() -> dict[str, CitedRun]:
    """Return the runs whose published efficiencies can be drawn over the number of devices."""
    runs = {}
    for name, workload, images_per_s, published in HOROVOD:
        runs[f"{name}, P100s"] = CitedRun(
            "Horovod, 2018",
            workload,
            with_pace(clusters.P100S_ROCE, workload, images_per_s),
            64,
            64 * MIB,
            "all_reduce",
            ((512, published / 100),),
        )
    for name, workload, images_per_s, best, _ in POSEIDON:
        hosts = with_pace(clusters.TITANS, workload, images_per_s)
        runs[f"{name}, Titan X"] = CitedRun(
            "Poseidon, 2017", workload, hosts, 32, MIB, "parameter_server", ((32, best / 32),)
        )
    points = tuple((ranks, K80_MINUTES[1] / ranks / K80_MINUTES[ranks]) for ranks in (2, 4, 8))
    runs["BERT-Large, K80s"] = CitedRun(
        "course notes, no overlap", BERT_LARGE, fit_k80s(), 1, 25 * MIB, "all_reduce", points
    )
    return runs


def figures() -> list[Figure]:
    """Return all figures, by source."""
    sources = (k80s, horovod, pytorch_ddp, byteps, poseidon, geeps, torchgpipe, tensorflow, gpt3)
    return [figure for source in sources for figure in source()]


def step(
    workload: Sequence[LayerCost], cluster: Cluster, ranks: int, each: int, **how: object
) -> TrainingStep:
    """Return a data-parallel step with `each` samples a rank."""
    return training(workload, cluster, dp=ranks, batch=ranks * each, **how)  # type: ignore[arg-type]


K80_MINUTES = {1: 399, 2: 214, 4: 118, 8: 61}  # of BERT-Large


def fit_k80s() -> Cluster:
    """Return boards of two K80s that take a second a sample, links as 2 and 4 of them say."""
    n_bytes = sum(layer.param_bytes for layer in BERT_LARGE)
    links = []
    for ranks in (2, 4):  # what a step of 1 s takes longer is 2 (p-1)/p n beta
        longer = K80_MINUTES[ranks] * ranks / K80_MINUTES[1] - 1
        links.append((0.0, longer / (2 * (ranks - 1) / ranks * n_bytes)))
    return with_pace(cluster(4, 2, 1.0, links[0], links[1]), BERT_LARGE, 1.0)


def k80s() -> Iterator[Figure]:
    """A board has two K80s; links fitted at 2 and 4 of them, 8 predicted; nothing overlaps."""
    hosts = fit_k80s()
    for ranks, rests_on in (
        (2, "fitted: the link of a board"),
        (4, "fitted: the link of the boards"),
        (8, "links fitted at 2 and 4; no overlap"),
    ):
        published = 100 * K80_MINUTES[1] / ranks / K80_MINUTES[ranks]
        predicted = 100 * step(BERT_LARGE, hosts, ranks, 1, overlap=False).efficiency
        what = f"BERT-Large on {ranks} K80s, efficiency"
        yield Figure("course notes", what, published, predicted, "%", rests_on)


# images a second of one P100 in TensorFlow's benchmarks of May 2017; ResNet-101 interpolated
# between ResNet-50 (219) and ResNet-152 (91.8) by their multiplications
HOROVOD = (
    ("Inception V3", INCEPTION_V3, 142, 90),
    ("ResNet-101", RESNET_101, 129, 90),
    ("VGG-16", VGG_16, 154, 68),
)


def horovod() -> Iterator[Figure]:
    """512 ranks; what was measured lies between the predictions with and without overlap."""
    for name, workload, images_per_s, published in HOROVOD:
        hosts = with_pace(clusters.P100S_ROCE, workload, images_per_s)
        for overlap in (True, False):
            result = step(workload, hosts, 512, 64, overlap=overlap, bucket_bytes=64 * MIB)
            yield Figure(
                "Sergeev 2018",
                f"{name} on 512 GPUs, efficiency",
                published,
                100 * result.efficiency,
                "%",
                f"line rate, {'full' if overlap else 'no'} overlap, 64 MiB fused",
            )


LI = {"ResNet-50": (RESNET_50, 32, 360.0, 38.0), "BERT-Large": (BERT_LARGE, 8, 20.0, 35.2)}
LI_BETA = 1 / 4.7e9  # with which ResNet-50's gain comes out
BUCKETS_MB = (0, 1, 5, 10, 25, 50, 100, 200)


def overlap_gain(name: str, beta: float, bucket_bytes: float = 25 * MIB) -> float:
    """Return how much faster overlap makes a step of Li et al. on such a link, in per cent."""
    workload, each, samples_per_s, _ = LI[name]
    hosts = with_pace(
        replace(clusters.V100S, inter=(clusters.V100S.inter[0], beta)), workload, samples_per_s
    )
    took = [
        step(workload, hosts, 32, each, bucket_bytes=bucket_bytes, overlap=overlap).step_time
        for overlap in (True, False)
    ]
    return 100 * (took[1] / took[0] - 1)


def by_bucket_mb(name: str, beta: float = LI_BETA) -> dict[int, float]:
    """Return the step of 32 ranks on such a link for each of the paper's bucket sizes."""
    workload, each, samples_per_s, _ = LI[name]
    hosts = replace(clusters.V100S, inter=(clusters.V100S.inter[0], beta))
    run = partial(step, workload, with_pace(hosts, workload, samples_per_s), 32, each)
    return {mb: run(bucket_bytes=mb * 1e6).step_time for mb in BUCKETS_MB}


def pytorch_ddp() -> Iterator[Figure]:
    """What overlap gains, and the best bucket size; images and sentences a second are assumed."""
    for name, (*_, published) in LI.items():
        what = f"{name} on 32 GPUs, gained by overlap"
        line_rate = overlap_gain(name, clusters.V100S.inter[1])
        yield Figure("Li 2020", what, published, line_rate, "%", "100 Gb/s at line rate")
        rests_on = "fitted: 4.7 GB/s" if name == "ResNet-50" else "4.7 GB/s, fitted to ResNet-50"
        yield Figure("Li 2020", what, published, overlap_gain(name, LI_BETA), "%", rests_on)
    for name, published_mb in (("ResNet-50", 10), ("BERT-Large", 50)):
        took = by_bucket_mb(name)
        best = min(took, key=took.__getitem__)
        slower = 100 * (took[published_mb] / took[best] - 1)
        rests_on = f"4.7 GB/s, alpha 10 µs; {published_mb} MB is {slower:.1f} % slower"
        what = f"{name} on 32 GPUs, best bucket"
        yield Figure("Li 2020", what, published_mb, best, "MB", rests_on)


def byteps() -> Iterator[Figure]:
    """As many servers as machines send every byte once each way, a ring nearly twice."""
    for name, workload, images_per_s, published in (
        ("VGG-16", VGG_16, 230, 100),
        ("ResNet-50", RESNET_50, 370, 44),
    ):
        hosts = with_pace(clusters.V100S_TCP, workload, images_per_s)
        run = partial(step, workload, hosts, 64, 64, bucket_bytes=4 * MIB)
        ring, servers = run(), run(strategy="parameter_server", servers=8)
        gain = 100 * (ring.step_time / servers.step_time - 1)
        what = f"{name} on 64 V100s, faster than a ring by"
        rests_on = f"line rate, 8 servers, {images_per_s} images a second each"
        yield Figure("BytePS, performance.md", what, published, gain, "%", rests_on)


# images a second of one Titan X, assumed; speed-ups of Poseidon and of TensorFlow on 32
POSEIDON = (
    ("VGG19-22K", VGG_19_22K, 35, 30.0, 1.0),
    ("Inception V3", INCEPTION_V3, 55, 31.5, 20.0),
)


def poseidon() -> Iterator[Figure]:
    """Overlap, and servers that share the parameters evenly: each alone is not enough."""
    for name, workload, images_per_s, best, plain in POSEIDON:
        sizes = [layer.param_bytes for layer in workload]
        whole = min(32, int(sum(sizes) / max(sizes)))  # the busiest server has the largest tensor
        hosts = with_pace(clusters.TITANS, workload, images_per_s)
        run = partial(step, workload, hosts, 32, 32, strategy="parameter_server", bucket_bytes=MIB)
        rows = (
            ("Poseidon", best, run(), "32 servers, overlap"),
            (
                "TensorFlow",
                plain,
                run(overlap=False, servers=whole),
                f"whole tensors on servers, as if {whole}; no overlap",
            ),
        )
        for system, published, result, rests_on in rows:
            what = f"{name} on 32 Titan X, {system}, times faster than one"
            yield Figure("Zhang 2017", what, published, 32 * result.efficiency, "times", rests_on)


def geeps() -> Iterator[Figure]:
    """ImageNet22K's model: 2.4e9 connections, 470 MB of parameters; a K20 at 1 Tflop/s."""
    even = LayerCost(2 * 2.4e9 / 8, 470e6 / 8, 1e6)
    workload = (even,) * 8
    hosts = replace(clusters.K20S, flops=1e12)
    for overlap in (True, False):
        result = step(
            workload, hosts, 16, 200, strategy="parameter_server", overlap=overlap, states=2.0
        )
        rests_on = f"16 servers, {'full' if overlap else 'no'} overlap, 1 Tflop/s"
        what = "ImageNet22K's model on 16 K20s, times faster than one"
        yield Figure("Cui 2016", what, 13.0, 16 * result.efficiency, "times", rests_on)


TORCHGPIPE = ((2, 16, 1.350), (4, 64, 2.291), (8, 64, 3.114))


def torchgpipe() -> Iterator[Figure]:
    """Even stages that do forward again before backward, without and with an overhead an action.

    The overhead, as a share of a micro-batch's work, is 0.85 % for each stage: the same for a
    forward and a backward.
    """
    for overhead, rests_on in (
        (0.0, "even stages, forward done twice"),
        (0.017 * 3 / 2, "and fitted: an overhead an action, in proportion to the stages"),
    ):
        for stages, microbatches, published in TORCHGPIPE:
            part = 1 / stages  # of a micro-batch's forward, which takes 1
            result = pipeline(
                "gpipe", stages, microbatches, part, 3 * part, overhead=overhead * stages
            )
            speed_up = 3 * microbatches / result.makespan
            what = f"ResNet-101 in {stages} stages, times faster than one"
            yield Figure("torchgpipe 2020", what, published, speed_up, "times", rests_on)


def tensorflow() -> Iterator[Figure]:
    """50 workers and b backups: `osdi16` was fitted to these two."""
    t = [backup_workers(50, backups, "osdi16", steps=20_000) for backups in range(5)]
    normalised = 100 * (t[0] / t[3] * 50 / 53 - 1)
    source, fitted = "Abadi 2016", "fitted: late workers and load"
    yield Figure(source, "50 workers, 4 backups, step", 1.93, t[4], "s", fitted)
    yield Figure(source, "3 backups, faster by, per worker", 9.5, normalised, "%", fitted)


# Narayanan et al., SC 2021, table 1: layers, width, pp, GPUs, batch, Tflop/s a GPU; tp is 8
MEGATRON = {
    "39.1B": (48, 8192, 2, 512, 1536, 138),
    "145.6B": (80, 12_288, 8, 1536, 2304, 148),
    "310.1B": (96, 16_384, 16, 1920, 2160, 155),
}
A100_FLOPS = 159e12  # with which the first row comes out


def megatron_step(
    workload: Sequence[LayerCost], pp: int, gpus: int, batch: int, flops: float = A100_FLOPS
) -> TrainingStep:
    """Return a step on A100s, 8 of each host in a tensor-parallel group, a sample at a time."""
    dp = gpus // (8 * pp)
    hosts = replace(clusters.A100S, flops=flops)
    states = 9.0  # 18 bytes a parameter of 2
    return training(workload, hosts, dp, 8, pp, batch // dp, batch=batch, states=states)


def gpt3() -> Iterator[Figure]:
    """GPT-3 where one set-up says how long it takes, and where 1,024 devices do."""
    times_larger = 175e9 / (sum(layer.param_bytes for layer in BERT_LARGE) / 4)
    days = times_larger * 399 * 60 / DAY_S
    what = "GPT-3 on one K80, BERT-Large's data, days"
    yield Figure("course notes", what, 147, days, "days", "time in proportion to parameters")
    for name, (layers, width, pp, gpus, batch, published) in MEGATRON.items():
        workload = transformer(layers, width, 2048, 51_200, number_bytes=2, recompute=True)
        result = megatron_step(workload, pp, gpus, batch)
        rests_on = "A100 at 159 Tflop/s, fitted to 39.1B"
        what = f"GPT of {name} on {gpus} A100s, a GPU's Tflop/s"
        predicted = result.efficiency * A100_FLOPS / 1e12
        yield Figure("Narayanan 2021", what, published, predicted, "Tflop/s", rests_on)
    steps = 300e9 / (1536 * 2048)
    days = steps * megatron_step(GPT3, 8, 1024, 1536).step_time / DAY_S
    what, rests_on = "GPT-3 on 1,024 A100s, 300e9 tokens", "A100 at 159 Tflop/s, pp 8, dp 16"
    yield Figure("Narayanan 2021", what, 34, days, "days", rests_on)


def gpt3_by_devices() -> list[str]:
    """Return a line a number of A100s: what of GPT-3's step changes as replicas are added."""
    lines = []
    for dp in (2, 8, 16, 32, 48):
        run = megatron_step(GPT3, 8, 64 * dp, 1536)
        days = 300e9 / (1536 * 2048) * run.step_time / DAY_S
        idle, tensor, data = (
            100 * run.breakdown[name] / run.step_time
            for name in ("bubble", "tensor_parallel", "data_parallel")
        )
        lines.append(
            f"| {64 * dp:,} | {run.step_time:.1f} | {days:.0f} | {100 * run.efficiency:.0f} % | "
            f"{idle:.0f} % | {tensor:.0f} % | {data:.0f} % | {run.memory_bytes / 1e9:.0f} |"
        )
    return lines


def page() -> str:
    """Return the page of all figures, in Markdown."""
    lines = [PAGE_HEAD]
    for f in figures():
        values = f"{f.published:.4g} {f.unit} | {f.predicted:.3g} {f.unit} | {f.gap}"
        lines.append(f"| {f.source} | {f.what} | {values} | {f.rests_on} |")
    return "\n".join([*lines, PAGE_MIDDLE, *gpt3_by_devices(), "", quoted.section(), PAGE_FOOT])


PAGE_HEAD = """# Predicted and published

`python -m ddp_lab.simulate.published > docs/predictions.md` writes this page, and a test holds it to the code.
Each line is a published figure beside what `ddp_lab.simulate` says of the same run.
What a prediction took for given stands last: *fitted* means that a constant was chosen so that this very figure comes out; what other lines say with that constant is a prediction.

| source | figure | published | predicted | gap | the prediction rests on |
|---|---|---|---|---|---|"""  # noqa: E501

PAGE_MIDDLE = """
Where the gaps come from:

- **Line rate.** Horovod's runs lie between full and no overlap, as they must. Li's two gains are those of one link of 4.7 GB/s, a third of what the line rate gives: the rate was the wrong assumption, not the model. As a share of the step without overlap no link at all gives ResNet-50 the 38 %, so they are read as gains in speed.
- **Buckets.** The predicted best is half the published one or less: a message is taken to cost 10 µs, and filling a bucket nothing. Around the best the step hardly changes.
- **Rings over TCP.** Beside a perfect ring of 8 machines servers cannot gain more than 75 %. BytePS reports 100 % and, for a model that hides nearly all it sends, 44 %: its rival did not reach the line rate.
- **TensorFlow's servers.** That whole tensors go to one server explains a factor of four for VGG19-22K, not why 32 machines were slower than one; and nothing for Inception, whose layers are taken to be equal.
- **torchgpipe.** Even stages and nothing else are too good by 74 % on 8 devices. One overhead an action, in proportion to the number of stages, brings all three within 5 %.
- **GeePS.** The model's connections and bytes and the K20's speed are assumed; copies between a GPU and its host, which it is about, are not modelled.
- **Megatron.** A device's speed is fitted to the smallest model. Larger matrices run faster on it, which the model does not know.

## GPT-3 on more devices

GPT-3 on A100s, 8 in a tensor-parallel group, 8 stages, 1,536 sequences of 2,048 tokens a step, 300e9 tokens in all.
With more replicas of the same batch each has fewer micro-batches, so that the pipeline idles for more of the step; what data parallelism sends is hidden.

| GPUs | step, s | days | efficiency | bubble | tensor parallel | data parallel | GB a GPU |
|---|---|---|---|---|---|---|---|"""  # noqa: E501

PAGE_FOOT = """
Sources: Sergeev & Del Balso, Horovod, arXiv:1802.05799, 2018; Li et al., PyTorch Distributed, VLDB 2020; BytePS, docs/performance.md, and Jiang et al., OSDI 2020; Zhang et al., Poseidon, ATC 2017; Cui et al., GeePS, EuroSys 2016; Kim et al., torchgpipe, arXiv:2004.09910, 2020; Abadi et al., TensorFlow, OSDI 2016; Narayanan et al., SC 2021."""  # noqa: E501


if __name__ == "__main__":
    print(page())
