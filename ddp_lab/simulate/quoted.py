"""Published figures that the course's texts quote, each with its source and where it is quoted.

    QUOTED            figures in words, as they stand in a lab
    FRAMEWORKS_2019   six frameworks on one machine, which lab 03 draws beside its own race

They stand in docs/predictions.md; a test finds each in the lab that quotes it.

May import: nothing of the package.
"""

from dataclasses import dataclass

# Samples a second in training: images, tokens (GNMTv2), samples (NCF).
# Paszke et al., NeurIPS 2019, Table 1: two Xeon E5-2698 v4 and one Quadro GP100.
MODELS_2019 = ("AlexNet", "VGG-19", "ResNet-50", "MobileNet", "GNMTv2", "NCF")
FRAMEWORKS_2019: dict[str, tuple[float | None, ...]] = {
    "Chainer": (778, None, 219, None, None, None),
    "CNTK": (845, 84, 210, None, None, None),
    "MXNet": (1554, 113, 218, 444, None, None),
    "PaddlePaddle": (933, 112, 192, 557, None, None),
    "TensorFlow": (1422, 66, 200, 216, 9631, 4.8e6),
    "PyTorch": (1547, 119, 212, 463, 15512, 5.4e6),
}


@dataclass(frozen=True)
class Quoted:
    """A published figure, in the words in which the file of a lab has it."""

    lab: str
    words: str
    what: str
    source: str


KRIZHEVSKY = "Krizhevsky et al., NIPS 2012"
BROWN = "Brown et al., NeurIPS 2020, Table D.1"
JIA = "Jia et al., TASO, SOSP 2019"
TVM = "Chen et al., TVM, OSDI 2018"
CLIPPER = "Crankshaw et al., Clipper, NSDI 2017"
QUOTED = (
    Quoted("00_the_machine", "15.3 %", "AlexNet's top-5 error, ILSVRC-2012", KRIZHEVSKY),
    Quoted("00_the_machine", "26.2 %", "the next best entry's", KRIZHEVSKY),
    Quoted("00_the_machine", r"3.14 \cdot 10^{23}", "operations to train GPT-3", BROWN),
    Quoted("01_gradients_by_hand", "60 million weights", "AlexNet's parameters", KRIZHEVSKY),
    Quoted(
        "03_modules_and_training",
        "within 17 %",
        "PyTorch behind the fastest of six frameworks, at most",
        "Paszke et al., NeurIPS 2019, Section 6.3",
    ),
    Quoted(
        "04_dataflow_graphs",
        "within 6 %",
        "a step of TensorFlow on one GPU beside Torch's",
        "Abadi et al., OSDI 2016, Section 6.1",
    ),
    Quoted(
        "04_dataflow_graphs",
        "1.8 to 8.8 ms",
        "null steps of one value, 1 to 100 workers",
        "Abadi et al., OSDI 2016, Section 6.2",
    ),
    Quoted("06_graph_optimization", "743 substitutions", "found by search", JIA),
    Quoted("07_compiling_operators", "fusion alone 1.2 to 2", "times as fast", TVM),
    Quoted("07_compiling_operators", "0.67 ms", "a prediction of the cost model", TVM),
    Quoted(
        "07_compiling_operators",
        "2 to 10 times as fast",
        "the search, by transfer from other workloads",
        "Chen et al., Learning to Optimize Tensor Programs, NeurIPS 2018",
    ),
    Quoted("15_serving", "up to 26 times", "throughput by adaptive batching", CLIPPER),
    Quoted("15_serving", "about 30,000 a second", "queries of a linear SVM at 20 ms", CLIPPER),
)


def fraction_of_fastest(framework: str) -> list[float | None]:
    """Return a framework's speed on each model as a share of the fastest framework's there."""
    columns = zip(*FRAMEWORKS_2019.values(), strict=True)
    fastest = [max(n for n in column if n) for column in columns]
    return [n and n / best for n, best in zip(FRAMEWORKS_2019[framework], fastest, strict=True)]


def section() -> str:
    """Return the part of docs/predictions.md that lists all of this."""
    lines = ["## Figures that texts quote", "", "| figure | quoted as | in lab | source |"]
    lines += ["|---|---|---|---|"]
    lines += [f"| {q.what} | {q.words} | {q.lab} | {q.source} |" for q in QUOTED]
    lines += ["", "Samples a second of six frameworks in training, on two Xeon E5-2698 v4 and one"]
    lines += ["Quadro GP100 (Paszke et al., NeurIPS 2019, Table 1):", ""]
    lines += [f"| framework | {' | '.join(MODELS_2019)} |", "|---" * 7 + "|"]
    for name, speeds in FRAMEWORKS_2019.items():
        cells = ("-" if n is None else f"{n:,.0f}" for n in speeds)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
