"""What a run found, in plain words: for the terminal, the model card and the report's first lines."""

from __future__ import annotations

from typing import Any

from cairns.training.run import Run


def verdict_counts(health: list[dict[str, Any]]) -> str:
    """`6 are good, 1 is jittery`."""
    counts: dict[str, int] = {}
    for row in health:
        kind = "a duplicate" if row["verdict"].startswith("duplicate") else row["verdict"]
        counts[kind] = counts.get(kind, 0) + 1
    words = [f"{count} {'is' if count == 1 else 'are'} {kind}" for kind, count in counts.items()]
    return ", ".join(words).replace("are a duplicate", "are duplicates")


def consistency(summary: dict[str, Any]) -> str:
    text = (
        f"Under a random warp a landmark is found again within {summary['warp_error']:.1%} of the image edge"
    )
    before = summary.get("warp_error_before")
    return text + (f" ({before:.1%} before training)." if before else ".")


def headline(run: Run) -> str:
    summary = run.summary()
    health = summary["health"]
    return (
        f"{len(health)} landmarks, found on {summary['train_images']:,} images without a label: "
        f"{verdict_counts(health)}. {consistency(summary)}"
    )


def skipped_words(summary: dict[str, Any]) -> str:
    count = len(summary["skipped"])
    if not count:
        return ""
    name, reason = next(iter(summary["skipped"].items()))
    more = "" if count == 1 else f", and {count - 1} more"
    return f"Skipped {count} unreadable image{'s' * (count > 1)}: {name} ({reason}){more}."


def closing_words(run: Run) -> str:
    summary = run.summary()
    share = summary["gflops"] / summary["matrix_product_gflops"]
    lines = [
        headline(run),
        f"Speed: {summary['images_per_second']:.0f} images/s, {summary['gflops']:.0f} GFLOP/s "
        f"({share:.0%} of a large matrix product here); peak memory {summary['peak_memory_mb']:.0f} MB.",
        skipped_words(summary),
        f"Report: {run.report_file}",
        f"Next:   cairns detect {run.folder} IMAGE... --out found --overlay",
    ]
    return "\n".join(line for line in lines if line)
