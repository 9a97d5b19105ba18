"""Tables as text, Markdown and HTML."""

from __future__ import annotations

from spare_demo.table import (
    Wide,
    html_table,
    markdown_table,
    percent_of_all,
    shortened,
    text_table,
    with_full_stop,
)

HEAD, ROWS = ("", "k"), [("SPARE", "8"), ("a|b <i>", "128")]


def test_a_part_is_never_written_as_none_or_all() -> None:
    shares = (0, 1e-6, 0.005, 0.0051, 0.374, 0.9949, 0.995, 1, 1.02)
    texts = ["0%", "<1%", "<1%", "1%", "37%", "99%", ">99%", "100%", "102%"]
    assert [percent_of_all(share) for share in shares] == texts
    shares = (1 / 2880, 2 / 2880, 0.25, 2878 / 2880, 2879 / 2880)
    texts = ["<0.1%", "0.1%", "25.0%", "99.9%", ">99.9%"]
    assert [percent_of_all(share, decimals=1) for share in shares] == texts


def test_a_text_is_cut_between_words_and_where_it_has_none_between_characters() -> None:
    assert shortened("a red\nfox", 9) == "a red fox"
    assert shortened("a red fox", 8) == "a red …"
    assert shortened("画像" * 5, 8) == "画像画像画像 …"


def test_a_sentence_that_ends_on_a_quoted_one_has_one_full_stop() -> None:
    assert with_full_stop("It is “a cat.”") == "It is “a cat.”"
    assert with_full_stop("It is “a cat”") == "It is “a cat”."
    assert with_full_stop("All tokens: a cat.") == "All tokens: a cat."


def test_numbers_stand_to_the_right_on_a_terminal() -> None:
    assert text_table(HEAD, ROWS).splitlines() == ["           k", "SPARE      8", "a|b <i>  128"]


def test_the_last_column_of_words_is_wrapped_under_itself() -> None:
    rows = [("x", "word " * 8 + "tiny-llava " * 3), ("y", "")]  # a name is typed, so it stays whole
    lines = text_table(("name", "what"), rows, width=40).splitlines()
    names = "      word tiny-llava tiny-llava\n      tiny-llava".splitlines()
    assert lines == ["name  what", f"x     {' '.join(['word'] * 7)}", *names, "y"]


def test_markdown_cells_hold_no_bar_of_their_own() -> None:
    lines = markdown_table(HEAD, ROWS, numbers=True).splitlines()
    assert lines[1] == "|---|---:|" and lines[3] == r"| a\|b <i> | 128 |"
    assert markdown_table(HEAD, ROWS).splitlines()[1] == "|---|---|"


def test_a_backslash_before_a_bar_does_not_end_its_cell() -> None:
    assert markdown_table((r"a\|b",), [(r"\a",)]).splitlines()[::2] == [r"| a\\\|b |", r"| \a |"]


def test_a_cell_with_line_ends_stays_in_its_row() -> None:
    rows = [("a\r\nb\u2028c", "1")]
    assert text_table(("", "k\nl"), rows).splitlines() == ["       k l", "a b c    1"]
    assert markdown_table(("", "k\nl"), rows).splitlines()[::2] == ["|  | k l |", "| a b c | 1 |"]


def test_html_is_escaped_and_cells_may_be_wide() -> None:
    assert html_table(("", "A"), [("<b>", Wide("&", 2))], "cost", ["a"]) == (
        "<table class='cost'><thead><tr><td></td><th scope='col' class='a'>A</th></tr></thead>"
        "<tbody><tr><th scope='row'>&lt;b&gt;</th><td colspan='2'>&amp;</td></tr></tbody></table>"
    )
    assert html_table(("A", ""), [("b", "c")]) == (
        "<table><thead><tr><th scope='col'>A</th><td></td></tr></thead>"
        "<tbody><tr><th scope='row'>b</th><td>c</td></tr></tbody></table>"
    )
