"""What is refused leaks as its page says."""

from __future__ import annotations

from audit.exhibits import unsafe_mechanisms as unsafe


def test_what_is_refused_betrays_the_extreme_record(capsys):
    for publish in (unsafe.local_recoding, unsafe.clustered):
        without, with_rich = publish(unsafe.INCOMES, 5), publish([*unsafe.INCOMES, unsafe.RICH], 5)
        assert min(group[-1] for group in without) >= 5, "it is k-anonymous"
        assert min(group[-1] for group in with_rich) >= 5
        # Nothing that any data set within the usual range could publish.
        assert max(value for group in with_rich for value in group[:-1]) > max(unsafe.INCOMES)
        assert max(value for group in without for value in group[:-1]) <= max(unsafe.INCOMES)
    unsafe.main()
    told = capsys.readouterr().out
    assert told.count("impossible without the person") == 2
    assert told.count("no epsilon is enough") == 2
    assert told.count("epsilon = 0.5") == 2
