"""Reading a grid: its combinations, their names, and how each fault is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.errors import ConfigurationError, UsageError
from schemas.experiment import read_experiment
from schemas.grid_names import LONGEST, labels_of, name_of, short_keys
from schemas.grids import Grid, choose, read_grid
from schemas.settings import known_settings, value_of, why_unknown

BASE = """
name = "g"
measures = ["hit@1", "ndcg@10"]
[corpus]
path = "docs"
[benchmark]
path = "benchmark.jsonl"
[labelling]
method = "document"
"""
TWO_BY_TWO = '[grid]\n"chunking.size" = [256, 512]\n"index.metric" = ["cosine", "l2"]\n'
VARIANTS = """
[[variant]]
name = "plain"
[[variant]]
name = "with overlap"
"chunking.overlap" = 32
[variant.retrieval]
depth = 50
"""

Read = Callable[..., Grid]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str, *settings: str, top: str = "") -> Grid:
        file = tmp_path / "grid.toml"
        file.write_text(top + BASE + text, encoding="utf-8")
        return read_grid(file, settings)

    return read


def names(grid: Grid) -> list[str]:
    return [experiment.name for experiment in grid.experiments]


def refusal(read: Read, text: str, *settings: str, top: str = "") -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(text, *settings, top=top)
    return str(caught.value)


def test_each_combination_is_an_experiment_of_its_own(read: Read, tmp_path: Path) -> None:
    grid = read(TWO_BY_TWO)
    assert [(each.chunking.size, each.index.metric) for each in grid.experiments] == [
        (256, "cosine"),
        (256, "l2"),
        (512, "cosine"),
        (512, "l2"),
    ]
    assert names(grid)[0] == "g:size=256,metric=cosine"
    assert {each.corpus.path for each in grid.experiments} == {str(tmp_path / "docs")}


def test_unquoted_dotted_keys_mean_the_same(read: Read) -> None:
    assert names(read("[grid]\nchunking.size = [256, 512]\n")) == ["g:size=256", "g:size=512"]


def test_variants_are_multiplied_with_the_grid(read: Read) -> None:
    grid = read(f'[grid]\n"chunking.size" = [256, 512]\n{VARIANTS}')
    assert [(e.name, e.chunking.overlap, e.retrieval.depth) for e in grid.experiments] == [
        ("g:plain,size=256", 0, 100),
        ("g:plain,size=512", 0, 100),
        ("g:with-overlap,size=256", 32, 50),
        ("g:with-overlap,size=512", 32, 50),
    ]


def test_a_variant_may_put_an_endpoint_where_a_name_stands(read: Read) -> None:
    text = '[summary]\njudge = "lexical"\n[[variant]]\nname = "llm"\n"summary.judge.model" = "m"\n'
    assert read(text).experiments[0].summary.judge_name == "m"  # type: ignore[union-attr]


def test_an_experiment_is_a_grid_of_one_and_keeps_its_name(read: Read) -> None:
    assert names(read("")) == ["g"]


def test_copies_under_different_names_are_different_runs(read: Read) -> None:
    grid = read('[[variant]]\nname = "a"\n[[variant]]\nname = "b"\n')
    assert names(grid) == ["g:a", "g:b"]


def test_an_exclude_drops_what_has_all_of_its_values_defaults_included(read: Read) -> None:
    text = TWO_BY_TWO + '[[exclude]]\n"chunking.size" = 512\n"retrieval.depth" = 100\n'
    assert names(read(text)) == ["g:size=256,metric=cosine", "g:size=256,metric=l2"]
    text = TWO_BY_TWO + '[[exclude]]\nchunking.size = [512, 1024]\nindex.metric = "l2"\n'
    assert len(read(text).experiments) == 3


def test_an_exclude_can_name_a_variant(read: Read) -> None:
    text = f'[grid]\n"chunking.size" = [256, 512]\n{VARIANTS}'
    grid = read(f'{text}[[exclude]]\nvariant = "plain"\nchunking.size = 256\n')
    assert names(grid)[0] == "g:plain,size=512"


def test_an_exclude_that_drops_nothing_is_a_note(read: Read) -> None:
    grid = read(TWO_BY_TWO + '[[exclude]]\n"chunking.size" = 1024\n')
    assert len(grid.experiments) == 4
    assert grid.notes == ("[[exclude]] chunking.size = 1024: no combination has these values",)


def test_an_exclude_may_drop_what_could_not_run(read: Read) -> None:
    text = '[grid]\n"chunking.size" = [8, 512]\n"chunking.overlap" = [0, 16]\n'
    assert "overlap is 16 and size is 8" in refusal(read, text)
    grid = read(f'{text}[[exclude]]\n"chunking.size" = 8\n"chunking.overlap" = 16\n')
    assert len(grid.experiments) == 3


def test_a_grid_of_which_nothing_is_left_is_refused(read: Read) -> None:
    message = refusal(read, TWO_BY_TWO + '[[exclude]]\n"labelling.method" = "document"\n')
    assert "[[exclude]] drops all 4 combinations" in message


def test_set_gives_a_setting_of_the_grid_one_value_and_keeps_the_run_names(read: Read) -> None:
    assert names(read(TWO_BY_TWO, "chunking.size=512")) == names(read(TWO_BY_TWO))[2:]
    assert names(read(TWO_BY_TWO, "chunking.size=64"))[0] == "g:size=64,metric=cosine"


def test_set_gives_any_other_setting_its_value_in_every_combination(read: Read) -> None:
    grid = read(f"[grid]\nchunking.size = [256, 512]\n{VARIANTS}", "retrieval.depth=20", "name=h")
    assert {each.retrieval.depth for each in grid.experiments} == {20}
    assert names(grid)[0] == "h:plain,size=256"


def test_the_primary_measure_is_the_first_unless_it_is_named(read: Read) -> None:
    assert read("").primary_measure == "hit@1"
    assert read("", top='primary_measure = "ndcg@10"\n').primary_measure == "ndcg@10"
    assert read("", "primary_measure=ndcg@10").primary_measure == "ndcg@10"


@pytest.mark.parametrize("name", ["rr@10", "nonsense", ""])
def test_a_primary_measure_that_is_not_measured_is_refused(read: Read, name: str) -> None:
    message = refusal(read, "", top=f'primary_measure = "{name}"\n')
    assert f"primary_measure is {name!r}, which is not among the measures" in message
    assert "hit@1, ndcg@10" in message


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '[grid]\n"chunking.sise" = [5]\n',
            'grid."chunking.sise": there is no such setting; did you mean chunking.size?',
        ),
        ('[grid]\n"chunking.size" = []\n', 'grid."chunking.size": the list is empty'),
        ('[grid]\n"chunking.size" = 5\n', "expected a list of values, but got 5"),
        ('[grid]\n"chunking.size" = [5, 6, 5]\n', 'grid."chunking.size": 5 stands there twice'),
        ("[grid]\nmeasures = [2026-01-01]\n", "is a date or time"),
        ('[grid]\nname = ["a"]\n', 'grid."name": names are made from the settings'),
        (
            '[grid]\nchunking = [{size = 5}]\n"index.kind" = ["flat"]\n[[variant]]\nname = "v"\n'
            '"chunking.size" = 3\n',
            "variant 'v': chunking.size is varied by [grid]",
        ),
        ('[[variant]]\n"chunking.size" = 5\n', "variant 1: expected a name"),
        ('[[variant]]\nname = "a"\n[[variant]]\nname = "a"\n', "variant 'a' stands there twice"),
        ('[[variant]]\nname = "a"\n"index.mtric" = "l2"\n', "did you mean index.metric?"),
        ('[[exclude]]\n"index.mtric" = "l2"\n', 'exclude."index.mtric": there is no such setting'),
        ("[variant]\nname = 'a'\n", "expected tables, [[variant]]"),
    ],
)
def test_what_cannot_be_meant_is_refused(read: Read, text: str, fault: str) -> None:
    assert fault in refusal(read, text)


@pytest.mark.parametrize(
    ("key", "values", "shown"),
    [
        ("retrieval.bm25.k1", "[1, 1.5, 1.0]", "1 and 1.0"),
        ("retrieval.bm25.k1", "[1.2, 1.20, 2.0]", None),  # told before: one value, twice
        ("chunking.size", "[256, 512, 256.0]", "256 and 256.0"),
        ("measures", '[["rbp(p=0.8)"], ["rbp(p=0.80)"]]', "['rbp(p=0.8)'] and ['rbp(p=0.80)']"),
        ("corpus.path", '["docs", "./docs"]', "'docs' and './docs'"),
    ],
)
def test_values_that_are_equal_once_they_are_read_are_refused(
    read: Read, key: str, values: str, shown: str | None
) -> None:
    message = refusal(read, f'[grid]\n"{key}" = {values}\n{VARIANTS}')
    assert "1 setting of the grid cannot be used" in message
    assert f'grid."{key}": ' in message
    if shown is None:
        assert "1.2 stands there twice" in message
    else:
        assert f"{shown} are the same value and would give equal runs" in message


def test_every_setting_with_equal_values_is_told(read: Read) -> None:
    text = '[grid]\n"chunking.size" = [256, 256.0]\n"retrieval.depth" = [20, 20.0, 30]\n'
    message = refusal(read, text)
    assert "2 settings of the grid cannot be used" in message
    assert 'grid."chunking.size": 256 and 256.0 are' in message
    assert 'grid."retrieval.depth": 20 and 20.0 are' in message


def test_set_may_make_variants_equal_but_no_two_values_of_a_setting(read: Read) -> None:
    text = f'[grid]\n"chunking.size" = [256, 512]\n{VARIANTS}'
    grid = read(text, "chunking.overlap=0", "retrieval.depth=50")
    assert names(grid) == [
        "g:plain,size=256",
        "g:plain,size=512",
        "g:with-overlap,size=256",
        "g:with-overlap,size=512",
    ]
    assert len(read('[grid]\n"chunking.size" = [256, 512]\n', "chunking.size=9").experiments) == 1
    message = refusal(read, '[grid]\n"retrieval.depth" = [20, 20.0]\n', "chunking.size=256")
    assert 'grid."retrieval.depth": 20 and 20.0 are' in message


def test_all_faults_are_told_at_once(read: Read) -> None:
    text = '[grid]\n"chunking.sise" = [5]\n"index.metric" = []\n'
    assert "2 settings of the grid cannot be used" in refusal(read, text)


def test_a_fault_names_the_combinations_that_have_it(read: Read) -> None:
    message = refusal(read, '[grid]\n"chunking.size" = [256, 0]\n"index.metric" = ["l2"]\n')
    assert "chunking.size: input should be greater than or equal to 1, but got 0" in message
    assert "(in g:size=0,metric=l2)" in message
    message = refusal(read, TWO_BY_TWO, "retrieval.depth=-1")
    assert message.count("retrieval.depth") == 1
    assert "(in all 4 combinations)" in message


def test_set_below_or_above_a_setting_of_the_grid_is_refused(read: Read) -> None:
    assert '[grid] varies "chunking.size"' in refusal(read, TWO_BY_TWO, "chunking={size=5}")
    assert "no such setting" in refusal(read, '[grid]\n"chunking.size.x" = [5]\n')


def test_a_product_that_is_too_large_is_refused_before_it_is_made(read: Read) -> None:
    values = list(range(1, 1001))
    text = f'[grid]\n"chunking.size" = {values}\n"retrieval.depth" = {values}\n'
    assert "1,000,000 combinations" in refusal(read, text)


def test_a_limit_says_how_many_runs_there_are(read: Read) -> None:
    grid = read(TWO_BY_TWO)
    with pytest.raises(UsageError, match="the grid has 4 runs, more than --limit 3"):
        choose(grid, limit=3)
    assert names(choose(grid, only=["*size=256*"], limit=2)) == names(grid)[:2]


def test_only_takes_names_and_globs_in_the_order_of_the_grid(read: Read) -> None:
    grid = read(TWO_BY_TWO)
    assert names(choose(grid, only=[names(grid)[3], "g:size=256*cosine"])) == [
        names(grid)[0],
        names(grid)[3],
    ]
    with pytest.raises(UsageError, match="fits none of the 4 runs"):
        choose(grid, only=["size=256"])


def test_evaluate_says_what_a_grid_is_run_with(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(BASE + TWO_BY_TWO)
    with pytest.raises(ConfigurationError, match="rankhouse experiment"):
        read_experiment(file)


def test_names_are_short_different_and_keep_when_a_value_is_added() -> None:
    assert short_keys(["chunking.size", "embedding.model", "summary.judge.model"]) == {
        "chunking.size": "size",
        "embedding.model": "embedding.model",
        "summary.judge.model": "judge.model",
    }
    first = labels_of(["/models/a/mini", "org/mini-2", True, 0.5, ["hit@1", "rr@5"]])
    assert first == ["mini", "mini-2", "true", "0.5", "hit@1+rr@5"]
    added = labels_of(["/models/a/mini", "/models/b/mini"])
    assert added[0] == "mini"
    assert added[1].startswith("mini-")


def test_a_name_that_is_too_long_is_cut_and_stays_different() -> None:
    one, other = (name_of("g", ["x" * 95, f"size={size}"]) for size in (1, 2))
    assert len(one) == len(other) == LONGEST
    assert one != other
    assert one == name_of("g", ["x" * 95, "size=1"])


def test_settings_are_known_by_the_models_of_the_file() -> None:
    assert {"chunking.size", "summary.judge.model", "retrieval.depth"} <= set(known_settings())
    assert why_unknown("summary.generator.model") is None
    assert why_unknown("chunking.size.more") is not None
    assert value_of({"chunking": {"size": 3}}, "chunking.size") == 3
    assert value_of({}, "index.metric") == "cosine"
    assert value_of({}, "summary.coeff") is None
