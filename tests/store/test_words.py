"""Found by words in the scripts and spellings that people use."""

from __future__ import annotations

import re
import unicodedata
from random import Random

import pytest

from hermes_pgmemory.store import asking, migrate
from hermes_pgmemory.store.queries import FRAGMENTS

NOTES = {
    "zh": "我们每周三上午在北京办公室讨论数据库的备份计划",
    "zh-Hant": "客戶要求把發票寄到台北的新地址,不要再寄到高雄",
    "ja": "毎週金曜日に大阪の倉庫で在庫を確認してから発注する",
    "ja-kana": "コーヒーメーカーのフィルターはキッチンのひきだしにあります",
    "ko": "서울 사무실의 프린터는 매주 월요일에 점검합니다",
    "th": "ประชุมทีมการตลาดทุกวันจันทร์ที่กรุงเทพ",
    "de": "Der Schlüssel für den Keller hängt im Büro hinter der Tür",
    "fr": "Le café du comité est commandé chaque mois à Besançon",
    "ru": "Резервная копия базы данных делается каждую ночь в Самаре",
    "ar": "النسخة الاحتياطية محفوظة على خادم في القاهرة",
    "hi": "डेटाबेस का बैकअप हर रात मुंबई में बनता है",
}
QUESTIONS = {
    "zh": "数据库什么时候备份",
    "zh-Hant": "發票要寄到哪裡",
    "ja": "在庫はどこで確認しますか",
    "ja-kana": "フィルターはどこ",
    "ko": "프린터를 언제 점검하나요?",
    "th": "ทีมการตลาดประชุมวันไหน",
    "de": "Wo ist der Schlüssel?",
    "fr": "Qui commande le café ?",
    "ru": "Когда делается резервная копия?",
    "ar": "أين النسخة الاحتياطية؟",
    "hi": "बैकअप कब बनता है?",
}


@pytest.fixture
def best(memory, contents_of):
    """Return the contents found, best first."""
    return lambda text, **more: contents_of(memory.entries(text, **more))


@pytest.mark.parametrize("language", NOTES)
def test_a_question_in_any_language_finds_its_note_first(memory, best, language):
    memory.apply(*map(memory.add, NOTES.values()))
    assert best(QUESTIONS[language])[0] == NOTES[language]


@pytest.mark.parametrize("language", NOTES)
def test_turns_too(memory, contents_of, language):
    turns = [memory.turn(note, session_id=key) for key, note in NOTES.items()]
    memory.apply(*turns)
    assert contents_of(memory.turns(QUESTIONS[language]))[0] == NOTES[language]


def test_a_word_inside_a_sentence_is_found_and_others_are_not(memory, best):
    memory.apply(memory.add(NOTES["zh"]), memory.add(NOTES["zh-Hant"]))
    assert best("北京") == [NOTES["zh"]]
    assert best("上海") == []


@pytest.mark.parametrize("letter", ["我", "京", "划"])
def test_a_single_letter_finds_sentences_that_hold_it_anywhere(memory, best, letter):
    memory.apply(memory.add(NOTES["zh"]), memory.add(NOTES["ko"]))
    assert best(letter) == [NOTES["zh"]]


def test_more_of_the_letters_in_order_is_better(memory, best):
    memory.apply(memory.add("大阪の空港"), memory.add("大阪城の公園"), memory.add("城"))
    assert best("大阪城") == ["大阪城の公園", "大阪の空港"]


@pytest.mark.parametrize(
    ("note", "question"),
    [
        ("升级PostgreSQL数据库到18版本", "PostgreSQL"),
        ("升级PostgreSQL数据库到18版本", "postgresql 数据库"),
        ("デプロイはGitHubで行う", "github"),
        ("Kubernetes클러스터는 서울에 있다", "kubernetes"),
        ("🦔が好き、tea too", "tea"),
        ("🦔が好き、tea too", "好き"),
        ("“昨天”的会议：（重要）", "昨天"),  # noqa: RUF001
        ("𠀀𠀁𠀂", "𠀁𠀂"),
        ("she said “tea”—not coffee", "tea"),
        ("deployed🎉 at last", "deployed"),
        ("قال: مرحبا، ثم ذهب", "مرحبا"),
    ],
)
def test_scripts_side_by_side_are_words_of_their_own(memory, best, note, question):
    memory.apply(memory.add(note), memory.add("nothing of the kind"))
    assert best(question) == [note]


@pytest.mark.parametrize("question", ["the of and", "🦔🦔", '"', "。、", "的" * 30])
def test_what_holds_no_word_of_it_is_not_found(memory, best, question):
    memory.apply(memory.add(NOTES["ja"]), memory.add("tea at five"))
    assert best(question) == []


@pytest.mark.parametrize(
    "question", ["'北京'", '"北京" & !x', "北京:*", "-北京", "(北京|"]
)
def test_no_operator_means_anything(memory, best, question):
    memory.apply(memory.add(NOTES["zh"]), memory.add(NOTES["ja"]))
    assert best(question) == [NOTES["zh"]]


class TestAccents:
    @pytest.mark.parametrize("written", ["café in Besançon", "cafe in Besancon"])
    @pytest.mark.parametrize("asked", ["café", "CAFÉ", "cafe", "Besançon", "besancon"])
    @pytest.mark.parametrize("form", ["NFC", "NFD"])
    def test_make_no_difference(self, memory, best, written, asked, form):
        memory.apply(memory.add(unicodedata.normalize(form, written)))
        assert len(best(unicodedata.normalize(form, asked))) == 1

    def test_of_other_scripts_are_letters(self, memory, best):
        memory.apply(memory.add("мой чай"), memory.add("がぎ"))
        assert best("мои") == []
        assert best("かき") == []


def test_a_text_without_such_letters_has_the_words_it_always_had(memory):
    text = "It's o'brien@x.com, see https://example.com/a?b=c -- or [this]: 8080"
    memory.apply(memory.add("Plain words, 8080"), memory.add(text))
    same = "SELECT tsv = to_tsvector('english', content) FROM memory_entries"
    assert memory.query(same) == [True, True]


def test_the_migration_gives_old_rows_the_words_of_new_ones(memory):
    memory.apply(*map(memory.add, NOTES.values()), memory.add("“plain”"))
    memory.apply(*(memory.turn(note) for note in NOTES.values()), memory.turn("plain"))
    read = (
        "SELECT content, tsv::text FROM memory_entries"
        " UNION ALL SELECT content, tsv::text FROM conversations ORDER BY 1, 2"
    )
    new = memory.query(read)
    for table in ("memory_entries", "conversations"):
        memory.query(f"UPDATE {table} SET tsv = to_tsvector('english', content)")
    assert memory.query(read) != new
    (migration,) = (
        m for m in migrate.shipped() if m.version.endswith("_words_of_every_language")
    )
    memory.query(migration.sql(3))
    assert memory.query(read) == new


def test_long_texts_of_such_letters_are_stored_and_found(memory, best):
    text = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(150_000))
    memory.apply(memory.add(text), memory.turn(text))
    assert best(text[5_000:5_010]) == [text]
    assert best(text) == [text]


class TestOfQuestions:
    ALPHABET = (
        *"aZé9 -'\\",
        *("e\u0301", "a\u030a\u0323", "ё", "й", "ß", "ǅ", "\u0344", "क्", "\u200d"),
        *("京", "都", "𠀀", "ー", "々", "ก", "ំ", "서", "か\u3099"),
        *("。", "“", "🦔", "\ufe0f", "\u00a0", "\n"),
    )

    def test_are_cut_as_those_of_stored_texts(self, memory):
        random = Random(7)
        texts = [
            *NOTES.values(),
            *("".join(random.choices(self.ALPHABET, k=n % 40)) for n in range(1_500)),
        ]
        cut = (
            f"SELECT content, {FRAGMENTS['spaced']}, {FRAGMENTS['shifted']}"
            f"  FROM (SELECT {FRAGMENTS['plain']} AS content"
            "          FROM unnest(%s::text[]) WITH ORDINALITY AS given (content, n)"
            "         ORDER BY n OFFSET 0) AS plain"
        )
        rows = memory.query(cut, texts)
        letters = f"[{FRAGMENTS['unspaced']}]"
        pairs, alone = letters * 2, f"(?<!{letters}){letters}(?!{letters})"
        for text, (plain, spaced, shifted) in zip(texts, rows, strict=True):
            asked = asking.cut(text)
            assert asked.text == spaced
            assert sorted(run for run, _, _ in asked.runs) == sorted(
                re.findall(pairs, plain)
                + re.findall(pairs, shifted)
                + re.findall(alone, plain)
            )
