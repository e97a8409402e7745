"""The figure of lab 08: messages between ranks, round by round."""

from collections.abc import Mapping

from matplotlib import pyplot as plt

from ddp_lab.show.watch import Recording


def draw_messages(recordings: Mapping[str, Recording]) -> None:
    """Draw the messages of each {title: recording}, round by round, side by side."""
    stories = {title: seen.story().rounds for title, seen in recordings.items()}
    _, axes = plt.subplots(1, len(stories), sharey=True, squeeze=False)
    n = max(len(seen.inputs) for seen in recordings.values())
    for ax, (title, rounds) in zip(axes[0], stories.items(), strict=True):
        for at, hops in enumerate(rounds):
            for hop in hops:
                arrow = {"arrowstyle": "-|>", "color": f"C{at % 6}", "linewidth": 1.6}
                ax.annotate("", (at + 1, hop.dst), (at, hop.src), arrowprops=arrow)
        ends = {"xlim": (-0.2, len(rounds) + 0.2), "xticks": range(len(rounds) + 1)}
        ax.set(title=title, xlabel="round", **ends, yticks=range(n), ylim=(n - 0.5, -0.5))
        ax.grid(axis="x", visible=False)
    axes[0, 0].set_ylabel("rank")
    plt.show()
