"""The planted faults: each a small change of the sources, and the parts of bench or tests that must catch it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAULTS", "Fault"]

SAFE = "audit statistics safe-k5-rate0.2 0.05"
FLOW = "audit statistics flow-safe-csv 0.4"
FILES = "audit exhibits files"
FILTER = "pytest tests/accounting/theory/test_renyi.py"
ADVERSARY = "pytest tests/accounting/theory/test_filter_adversary.py"
FILTER_ENTRIES = "pytest tests/kernel/test_filter_charges.py"
DELETION = "pytest tests/mechanisms/test_deletion.py"
GAME = "pytest tests/accounting/theory/test_series_game.py"
MEMBERS = "pytest tests/mechanisms/test_member_deletion.py"
PERSONS = "pytest tests/tasks/test_person_counts.py"
RANKS = "pytest tests/kernel/test_contributions.py"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    Args:
        name: unique, of letters, digits and dashes.
        what: what a careless hand did, for people.
        file: of the sources, from the project's root.
        old: the text that is changed, which the file has exactly once.
        new: what it becomes.
        detectors: what is expected to catch it: `audit PART CASES SCALE` or `pytest PATH`.
        written_first: whether it was written down before the bench.
    """

    name: str
    what: str
    file: str
    old: str
    new: str
    detectors: tuple[str, ...]
    written_first: bool = False


FAULTS = (
    Fault(
        name="k-off-by-one",
        what="groups of k − 1 sampled records are published",
        file="mechanisms/kinds/microdata.py",
        old="np.flatnonzero(counts >= k)",
        new="np.flatnonzero(counts >= k - 1)",
        detectors=(SAFE, "pytest tests/kernel/test_group_counts.py"),
        written_first=True,
    ),
    Fault(
        name="rate-5-percent-up",
        what="the coins keep 5% more records than declared",
        file="mechanisms/kernel/sampling.py",
        old="return int(Fraction(rate) * (1 << 64))",
        new="return int(Fraction(rate) * Fraction(21, 20) * (1 << 64))",
        detectors=(SAFE, FLOW, "pytest tests/kernel/test_sampling.py"),
        written_first=True,
    ),
    Fault(
        name="sample-reused",
        what="every release draws the same sampling key",
        file="accounting/kernel/keys/private_store.py",
        old="        key = randomness(KEY_BYTES)\n",
        new="        key = bytes(KEY_BYTES - 1) + b'\\x01'\n",
        detectors=("audit statistics flow-safe-csv 0.01", "pytest tests/kernel/test_private_store.py"),
        written_first=True,
    ),
    Fault(
        name="charge-dropped",
        what="a data set's first charge is left out of its sum",
        file="accounting/kernel/ledger/ledger_state.py",
        old="spent = _sum(self.epsilon_spent, epsilon), _sum(",
        new="spent = _sum(self.epsilon_spent, epsilon) if self.epsilon_spent else Decimal('1e-15'), _sum(",
        detectors=("pytest tests/kernel/test_amounts.py",),
        written_first=True,
    ),
    Fault(
        name="chain-hash-skipped",
        what="an entry's hash doesn't cover the hash before it",
        file="accounting/kernel/ledger/entries.py",
        old="hashlib.sha256(LINK_DOMAIN + bytes.fromhex(previous) + position",
        new="hashlib.sha256(LINK_DOMAIN + bytes(32) + position",
        detectors=("pytest tests/kernel/test_entries.py",),
        written_first=True,
    ),
    Fault(
        name="ties-kept",
        what="coins are rounded to a byte: every record whose first byte ties is kept",
        file="mechanisms/kernel/sampling.py",
        old="            marks[dropped] = False\n",
        new="            dropped.sort()\n",
        detectors=(SAFE, "pytest tests/kernel/test_sampling.py"),
    ),
    Fault(
        name="chunks-share-coins",
        what="the number of the row group is left out of the nonce",
        file="mechanisms/kernel/sampling.py",
        old="0, chunk.file, chunk.block, (_LAYOUT",
        new="0, chunk.file, 0, (_LAYOUT",
        detectors=("pytest tests/kernel/test_sampling.py",),
    ),
    Fault(
        name="dictionary-of-everything",
        what="the output's dictionaries hold every label of the map",
        file="tasks/stages/table.py",
        old="    there = np.zeros(size, dtype=np.bool_)\n",
        new="    there = np.ones(size, dtype=np.bool_)\n",
        detectors=(FILES, "pytest tests/tasks/test_table.py"),
    ),
    Fault(
        name="dropped-records-counted",
        what="the number of dropped records is added to a published count",
        file="mechanisms/kinds/microdata.py",
        old="        return suppress(exact.keys, exact.counts, self.mechanism.k)\n",
        new="        kept = suppress(exact.keys, exact.counts, self.mechanism.k)\n"
        "        kept.counts[:1] += exact.counts.sum() - kept.counts.sum()\n"
        "        return kept\n",
        detectors=(FILES,),
    ),
    Fault(
        name="note-in-parquet",
        what="the table's file has a note of when it was written",
        file="tasks/stages/table.py",
        old="                writer.write_table(block, row_group_size=ROWS_AT_ONCE)\n",
        new="                writer.write_table(block, row_group_size=ROWS_AT_ONCE)\n"
        "            writer.add_key_value_metadata({'written': str(__import__('time').time_ns())})\n",
        detectors=(FILES, "pytest tests/tasks/test_table.py"),
    ),
    Fault(
        name="times-of-the-end",
        what="files bear the time at which they were written",
        file="tasks/kernel/publication.py",
        old="        os.utime(path, (seconds, seconds))\n        _sync(path)",
        new="        _sync(path)",
        detectors=(FILES, "pytest tests/kernel/test_publication.py"),
    ),
    Fault(
        name="bare-digest",
        what="the fingerprint of the input is a digest without a key",
        file="accounting/kernel/keys/private_store.py",
        old="return hmac.new(key, FINGERPRINT_DOMAIN + content, hashlib.sha256).hexdigest()",
        new="return hashlib.sha256(content).hexdigest()",
        detectors=("pytest tests/kernel/test_private_store.py",),
    ),
    Fault(
        name="key-in-the-graph",
        what="the name of a computation, which the scheduler sees, is made from the sampling key",
        file="tasks/counting/group_counting.py",
        old="token=uuid.uuid4().hex",
        new="token=key_source.load().hex() if key_source else uuid.uuid4().hex",
        detectors=("pytest tests/tasks/test_count.py",),
    ),
    Fault(
        name="tasks-named-alike",
        what="two releases' counts have the same task names, so that Dask computes one sample for both",
        file="tasks/kernel/counting.py",
        old='return ("crowdblend-count", self.release_id, self.token)',
        new='return ("crowdblend-count", "", "")',
        detectors=("pytest tests/tasks/test_count.py", "pytest tests/tasks/test_sample_identity.py"),
    ),
    Fault(
        name="sensitivity-halved",
        what="a sum's noise is for half its sensitivity",
        file="mechanisms/kinds/answers.py",
        old="max(abs(lower), abs(upper)) * moved)",
        new="max(abs(lower), abs(upper)) * moved, 2)",
        detectors=("audit statistics sum 0.05", "pytest tests/mechanisms/test_answers.py"),
    ),
    Fault(
        name="scale-for-half-the-noise",
        what="the noise's scale is half of what it should be",
        file="mechanisms/kernel/noise.py",
        old="return _double_up(Fraction(self.sensitivity) / Fraction(self.epsilon))",
        new="return _double_up(Fraction(self.sensitivity) / Fraction(2 * self.epsilon))",
        detectors=("audit statistics count 0.05", "pytest tests/kernel/test_noise.py"),
    ),
    Fault(
        name="exact-zeros",
        what="empty cells of a noisy histogram stay exact",
        file="mechanisms/kinds/histogram.py",
        old="    small = np.flatnonzero(counts < mechanism.k)\n",
        new="    small = np.flatnonzero((counts < mechanism.k) & (counts > 0))\n",
        detectors=("audit statistics noisy-histogram 0.2", "pytest tests/mechanisms/test_histogram.py"),
    ),
    Fault(
        name="best-map-published",
        what="the map of the highest quality is published, not the draw",
        file="mechanisms/map_selection/choice.py",
        old="    return int(noisy_max(scores.tolist()))\n",
        new="    return int(np.argmax(scores)) if noisy_max else 0\n",
        detectors=("audit statistics epsilon-safe-permute 0.05", "audit exhibits published-optimum"),
    ),
    Fault(
        name="selection-scale-halved",
        what="the draw of the map is for twice its ε₁",
        file="mechanisms/map_selection/choice.py",
        old="    exact = WEIGHT_UNIT / Fraction(epsilon)\n",
        new="    exact = WEIGHT_UNIT / Fraction(epsilon) / 2\n",
        detectors=("pytest tests/mechanisms/test_map_draw.py",),
    ),
    Fault(
        name="flips-for-twice-epsilon",
        what="a sketch's bits are flipped with 1/(e^ε + 1)",
        file="mechanisms/kinds/sketch.py",
        old="_DIGITS.divide(self.epsilon, Decimal(2))",
        new="_DIGITS.divide(self.epsilon, Decimal(1))",
        detectors=("audit statistics count-mean-sketch 0.05", "pytest tests/mechanisms/test_count_sketch.py"),
    ),
    Fault(
        name="one-direction-forgotten",
        what="the profile is that of removing a record alone",
        file="accounting/kernel/prices/privacy_profile.py",
        old="return np.asarray(np.maximum(adding, removing), dtype=np.float64)",
        new="return np.where(adding < removing, adding, removing - 1e-3)",
        detectors=(SAFE, "pytest tests/kernel/test_exact_profile.py"),
    ),
    Fault(
        name="limit-not-applied",
        what="all records of a person count, however many may",
        file="mechanisms/kernel/contributions.py",
        old="np.repeat(totals <= most, sizes)",
        new="np.repeat(totals > 0, sizes)",
        detectors=("audit statistics over-contributor-1 0.05", PERSONS),
    ),
    Fault(
        name="limit-after-coins",
        what="of a person's records those count whose coins fall best",
        file="mechanisms/kernel/contributions.py",
        old="| (ranks >> bits)",
        new="| (coins >> bits)",
        detectors=("audit statistics over-contributor-1 0.05", RANKS),
    ),
    Fault(
        name="persons-equal-records-share-coins",
        what="a person's equal records have one coin",
        file="mechanisms/kernel/contributions.py",
        old="        state[:, 1] ^= occurrences.astype(np.uint64)\n",
        new="",
        detectors=("audit statistics over-contributor-2 0.2", RANKS),
    ),
    Fault(
        name="members-make-records",
        what="each different record of a household makes one of its own",
        file="tasks/kernel/counting.py",
        old="np.any(hashes[:, 1:] != hashes[:, :-1], axis=0)",
        new="np.any(records.keys[:, 1:] != records.keys[:, :-1], axis=0)",
        detectors=("pytest tests/tasks/test_unit_counts.py",),
    ),
    Fault(
        name="members-beyond-the-cap",
        what="four times as many members of a household are published as the price is for",
        file="mechanisms/kinds/member_deletion.py",
        old="(members.cells + 1,) * most",
        new="(members.cells + 1,) * (4 * most)",
        detectors=("audit statistics oversized-household-members 0.05", MEMBERS),
    ),
    Fault(
        name="members-priced-as-one",
        what="a household's members in a table of their own are priced as one",
        file="accounting/kinds/deletion_tables_prices.py",
        old="records=members.most_members",
        new="records=1",
        detectors=(MEMBERS,),
    ),
    Fault(
        name="series-one-short",
        what="a series is priced for one release fewer",
        file="accounting/kinds/composition/composed.py",
        old="[power(measure, times, cut=cut)",
        new="[power(measure, max(1, times - 1), cut=cut)",
        detectors=("pytest tests/accounting/theory/test_composition.py",),
    ),
    Fault(
        name="filter-of-one-direction",
        what="a release takes of a filter budget what removing the person does alone",
        file="accounting/kinds/composition/renyi_divergence.py",
        old="for cover in _covers(part, negligible)]",
        new="for cover in _covers(part, negligible)[-1:]]",
        detectors=(FILTER, ADVERSARY),
    ),
    Fault(
        name="filter-tails-not-counted",
        what="the tails that releases cut off are not added up",
        file="accounting/kinds/composition/renyi_filter.py",
        old=" and tail <= terms.tail_delta",
        new="",
        detectors=(FILTER, ADVERSARY, "audit exhibits running-tails"),
    ),
    Fault(
        name="filter-follows-the-tails",
        what="a filter's allowance follows what the tails have spent so far",
        file="accounting/kinds/composition/renyi_filter.py",
        old="    return divergence <= terms.allowance and tail <= terms.tail_delta",
        new="    left = terms.delta - tail\n"
        "    return left > 0 and divergence <= terms.epsilon - conversion_loss(terms.order, left)",
        detectors=(FILTER, ADVERSARY, "audit exhibits running-tails"),
    ),
    Fault(
        name="filter-without-infinite-losses",
        what="what gives a person away for sure is left out of a release's divergence",
        file="accounting/kinds/composition/renyi_divergence.py",
        old="    losses, masses, infinite = cover\n",
        new="    losses, masses, infinite = cover.losses, cover.masses, 0.0 * cover.infinite\n",
        detectors=(FILTER,),
    ),
    Fault(
        name="game-read-along-a-line",
        what="the epsilon of a game is read between two states along a line in the loss, where its value is concave",
        file="accounting/kinds/composition/series_game.py",
        old="    return min(-math.log(reached) + 1e-15, -float(states[here]))",
        new="    part = (delta - values[here]) / (values[there] - values[here])\n"
        "    return -float(states[here] + part * (states[there] - states[here]))",
        detectors=(GAME,),
    ),
    Fault(
        name="game-delta-along-a-line",
        what="the delta of a game is read between two states along a line in the loss",
        file="accounting/kinds/composition/series_game.py",
        old="    share = min(max((place - x) / (y - x), 0.0), 1.0)\n",
        new="    share, x, y, place = (state - states[here]) / (states[here + 1] - states[here]), 1.0, 1.0, 1.0\n",
        detectors=(GAME,),
    ),
    Fault(
        name="filter-accounting-not-checked",
        what="what a charge says that it takes of a filter budget is believed",
        file="accounting/kernel/ledger/rules.py",
        old="    yield from _of_accounting(entry, dataset.added)\n",
        new="",
        detectors=(FILTER_ENTRIES,),
    ),
    Fault(
        name="filter-order-after-the-fact",
        what="a charge's divergence is checked by the order that the charge names",
        file="accounting/kernel/ledger/filter_budget.py",
        old="        tails = filter_rules().tails_of(budget.terms, decoded",
        new="        import dataclasses\n\n"
        "        own = dataclasses.replace(budget.accounting, order=taken.order)\n"
        "        budget = dataclasses.replace(budget, accounting=own)\n"
        "        tails = filter_rules().tails_of(budget.terms, decoded",
        detectors=(FILTER_ENTRIES,),
    ),
    Fault(
        name="filter-tails-not-charged",
        what="what a charge cuts off is not added up in the data set's account",
        file="accounting/kernel/ledger/ledger_state.py",
        old="(of_filter.divergence, of_filter.tail)",
        new="(of_filter.divergence, Decimal(0))",
        detectors=(FILTER_ENTRIES,),
    ),
    Fault(
        name="records-of-a-person-ignored",
        what="a price for several records of a person is that for one",
        file="accounting/kernel/prices/registry.py",
        old="kind.price(mechanism, delta, releases, rows_per_person)",
        new="kind.price(mechanism, delta, releases, 1)",
        detectors=("audit statistics two-records 0.2", "pytest tests/accounting/theory/test_group_privacy.py"),
    ),
    Fault(
        name="signature-not-checked",
        what="a certificate's signature is not verified",
        file="accounting/certificate/verify.py",
        old=" and key.verifies(domain",
        new=" or key.verifies(domain",
        detectors=("pytest tests/accounting/certificate/test_certificate_forgeries.py",),
    ),
    Fault(
        name="budget-not-held",
        what="a charge past the budget of δ is allowed",
        file="accounting/kernel/ledger/ledger_state.py",
        old="self.epsilon_spent <= self.epsilon_budget and self.delta_spent <= self.delta_budget",
        new="self.epsilon_spent <= self.epsilon_budget",
        detectors=("pytest tests/kernel/test_amounts.py",),
    ),
    Fault(
        name="deletion-from-the-parents-count",
        what="a later stage deletes from all records of a group, published ones among them",
        file="mechanisms/kinds/deletion.py",
        old="np.add.at(left, parents[block], counts[block] - published[block])",
        new="np.add.at(left, parents[block], counts[block])",
        detectors=(DELETION, "pytest tests/flows/test_deletion.py -k three_stages"),
    ),
    Fault(
        name="deletion-counts-what-k-kept-back-twice",
        what="records of groups that k kept back go on to the next stage twice",
        file="mechanisms/kinds/deletion.py",
        old="np.add.at(left, parents[block], counts[block] - published[block])",
        new="np.add.at(left, parents[block], (counts - published + np.where(published, 0, counts))[block])",
        detectors=("audit statistics deletion-two-stages 0.05", DELETION),
    ),
    Fault(
        name="deletion-tests-k-on-all-records",
        what="k is tested on a group's records, not on what is left of them",
        file="mechanisms/kinds/deletion.py",
        old="    kept[kept < max(k, 1)] = 0\n",
        new="    kept[(kept < 0) | (counts < max(k, 1))] = 0\n",
        detectors=("audit statistics deletion-one-stage 0.05", DELETION),
    ),
    Fault(
        name="deletion-draws-off-by-one",
        what="one record fewer is deleted than drawn: none has the weight of none and of one",
        file="mechanisms/kinds/deletion_noise.py",
        old="draws[start : start + size] = high\n",
        new="draws[start : start + size] = np.maximum(high - 1, 0)\n",
        detectors=("audit statistics deletion-one-stage 0.05", DELETION),
    ),
    Fault(
        name="pairs-drawn-by-twice-their-exponent",
        what="a pair is drawn as if a record could only raise qualities, or only lower them",
        file="mechanisms/kinds/paired_deletion.py",
        old="exact = 2 * ESTIMATE_UNIT / Fraction(epsilon)",
        new="exact = ESTIMATE_UNIT / Fraction(epsilon)",
        detectors=("audit statistics deletion-with-pairs 0.05", "pytest tests/mechanisms/test_paired_deletion.py"),
    ),
    Fault(
        name="blocks-priced-as-one-table",
        what="of several tables of rows the stages of one alone are charged",
        file="accounting/kinds/deletion_tables_prices.py",
        old="        draws[mechanism.noise] += (mechanism.tables - 1) * mechanism.stages\n",
        new="",
        detectors=("pytest tests/mechanisms/test_paired_deletion.py",),
    ),
    Fault(
        name="deletion-weights-of-the-stage-before",
        what="records of the last stage but one stand for deleted ones, which were not lost",
        file="mechanisms/record_weights.py",
        old="    if stage < release.stages:\n",
        new="    if stage < release.stages - 1:\n",
        detectors=(DELETION,),
    ),
    Fault(
        name="deletion-drawn-again",
        what="what a deletion left is not stored, so that a retry draws anew",
        file="mechanisms/kinds/deletion_protection.py",
        old="    drawn: ClassVar[bool] = True\n",
        new="    drawn: ClassVar[bool] = False\n",
        detectors=("pytest tests/flows/test_deletion.py -k retry",),
    ),
    Fault(
        name="deletion-priced-by-another-law",
        what="a deletion is priced by probabilities in floating point, not by the weights that are drawn from",
        file="accounting/kinds/deletion_prices.py",
        old="    weights, shift = deletion_weights(noise), (0,) * records\n",
        new="    weights, shift = tuple(int(float(w)) for w in deletion_weights(noise)), (0,) * records\n",
        detectors=("pytest tests/accounting/theory/test_deletion_prices.py",),
    ),
    Fault(
        name="deletion-stages-uncounted",
        what="a chain of stages is priced as one stage",
        file="accounting/kinds/deletion_prices.py",
        old="Counter({mechanism.noise: mechanism.stages})",
        new="Counter({mechanism.noise: 1})",
        detectors=(
            "audit statistics deletion-three-geometric 0.05",
            "pytest tests/accounting/theory/test_deletion_prices.py",
        ),
    ),
    Fault(
        name="margins-uncounted",
        what="margins beside a deletion release are published and not priced",
        file="accounting/kinds/deletion_prices.py",
        old="draws[mechanism.margin_noise] += mechanism.margins",
        new="draws[mechanism.margin_noise] += 0",
        detectors=("pytest tests/accounting/theory/test_deletion_prices.py -k margins",),
    ),
    Fault(
        name="margins-of-the-stages-noise-uncounted",
        what="margins whose noise is the stages' own take their place in the price instead of adding to them",
        file="accounting/kinds/deletion_prices.py",
        old="draws[mechanism.margin_noise] += mechanism.margins",
        new="draws[mechanism.margin_noise] = mechanism.margins",
        detectors=("pytest tests/accounting/theory/test_deletion_prices.py -k margins",),
    ),
    Fault(
        name="margins-without-a-draw-where-empty",
        what="a margin's cells without records have the least noise that there is, always",
        file="mechanisms/kinds/margins.py",
        old="    return whole + draw_deletions(",
        new="    return whole + (whole > 0) * draw_deletions(",
        detectors=("pytest tests/mechanisms/test_margins.py", "pytest tests/flows/test_margins.py -k declared"),
    ),
    Fault(
        name="a-products-bound-of-one-column",
        what="noise on sums of products is for the greatest amount of one of the two columns",
        file="mechanisms/kinds/moments.py",
        old="factors[one].most * factors[other].most",
        new="max(factors[one].most, factors[other].most)",
        detectors=("pytest tests/mechanisms/test_moments.py",),
    ),
)
"""In the order of the report."""
