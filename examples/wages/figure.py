"""From a release to a figure in a paper: counts, means with their intervals, a wage equation, and a picture.

    python examples/wages/figure.py out-wages wages.svg

The picture needs matplotlib: pip install "crowdblend[plot]".
"""

from __future__ import annotations

import sys
from pathlib import Path

from crowdblend.analysis import load, rubin


def main(folder: str, picture: str) -> None:
    """Print what a paper would say of a release, and draw its figure."""
    release = load(folder)
    print("People:", release.count())
    print("Women with college:", release.count({"sex": "Female", "schooling": "college"}))
    print("Their share of women:", release.share({"schooling": "college"}, of={"sex": "Female"}))
    means = release.mean("income", by="schooling")
    print(means.to_string(index=False))
    print(release.quantile("income", 0.9))
    equation = release.regression("income ~ age + schooling + sex[Male]", of="population")
    print(equation.drop(columns="note").to_string(index=False))

    # Three columns together: bounds that hold, and an estimate of completed copies, whose rows are no records.
    print(
        "Men with college and 800 or more:",
        release.count({"sex": "Male", "schooling": "college", "income": range(800, 1200)}),
    )
    rich = [copy.query("sex == 'Male' and schooling == 'college' and income >= 800") for copy in release.complete(10)]
    print("By copies:", rubin([len(copy) for copy in rich]))
    draw(means, Path(picture))


def draw(means, picture: Path) -> None:  # noqa: ANN001 - a frame of pandas
    """Draw means with their intervals."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "wages"
    figure = Figure(figsize=(4.5, 3))
    axes = figure.subplots()
    below, above = means["estimate"] - means["lower"], means["upper"] - means["estimate"]
    axes.errorbar(means["schooling"], means["estimate"], yerr=[below, above], fmt="o", capsize=4)
    axes.set_ylabel("mean weekly income")
    axes.set_title("Noise and labels of 100 together", fontsize=9)
    figure.savefig(picture, bbox_inches="tight")


if __name__ == "__main__":
    main(*sys.argv[1:3])
