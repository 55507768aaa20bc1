-- What counts as a word, in a stored text and in a question alike. Every fragment works
-- on a column called `content`. The migration that brought them holds a copy; a test
-- compares both. A question is cut by `asking`, of the same letters, once for all its
-- statements; another test compares these.

-- :fragment unspaced
-- Letters of scripts that put no space between words (Thai, Lao, Burmese, Khmer, kana,
-- Bopomofo, Han), and Hangul, whose words take endings. PostgreSQL's parser takes a run
-- of them for one word; here, each two that stand together are one.
\u0E00-\u0EFF\u1000-\u11FF\u1780-\u17FF\u3005-\u3007\u3041-\u309F\u30A1-\u30FA\u30FC-\u30FF\u3100-\u318F\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7A3\uF900-\uFAFF\uFF66-\uFF9F\U00020000-\U0003FFFF

-- :fragment marks
-- Punctuation and pictures. Where LC_CTYPE is C, the parser takes all that is not ASCII
-- for letters, and “tea” for no tea. (Joiners, as in Persian, are parts of words.)
\u00A0-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u060C\u061B\u061F\u06D4\u0964\u0965\u2000-\u200B\u200E-\u2070\u20A0-\u20BF\u2190-\u2BFF\u3000-\u3004\u3008-\u3020\u3030\u303D\u30FB\uFE0F\uFF01-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\U0001F000-\U0001FAFF

-- :fragment accented
\u00C0-\u024F\u0300-\u036F\u1E00-\u1EFF

-- :fragment accents
\u0300-\u036F

-- :fragment unmarked
regexp_replace(content, '[{marks}]+', ' ', 'g')

-- :fragment plain
-- Latin letters without their accents: "café" finds "cafe", however either was typed.
-- Where every character is one byte, nothing could be normalised.
CASE WHEN octet_length(content) = length(content) THEN content
     WHEN content ~ '[{accented}]'
     THEN normalize(regexp_replace(normalize({unmarked}, NFD),
                                   '([A-Za-z])[{accents}]+', '\1', 'g'), NFC)
     ELSE {unmarked} END

-- :fragment spaced
regexp_replace(content, '[{unspaced}]+', ' ', 'g')

-- :fragment shifted
-- Every run without its first letter, so that its pairs are the other ones.
regexp_replace(content, '(^|[^{unspaced}])[{unspaced}]', '\1', 'g')

-- :fragment lexemes
-- A tsvector holds at most 1 MB: the words of a prefix stand for a longer text. The last
-- letter of a run is a lexeme of its own, so that any letter begins one.
(SELECT CASE WHEN content ~ '[{unspaced}]'
             THEN to_tsvector(%(config)s::regconfig, {spaced})
                  || array_to_tsvector(ARRAY(
                      SELECT pair[1]
                        FROM regexp_matches(
                                 content, '[{unspaced}][{unspaced}]?', 'g') AS pair
                       UNION ALL
                      SELECT pair[1]
                        FROM regexp_matches(
                                 {shifted}, '[{unspaced}][{unspaced}]?', 'g') AS pair))
             ELSE to_tsvector(%(config)s::regconfig, content) END
   FROM (SELECT {plain} AS content
           FROM (SELECT left(content, 100000) AS content OFFSET 0) AS kept
         OFFSET 0) AS told)

-- :fragment asked
-- The words of a question, as `asking` cut it: `lexeme`, the `query` for it, and its
-- `place`. They are quoted, so nothing a user types is an operator.
SELECT lexeme,
       ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''' || ending)::tsquery
           AS query,
       min(place) AS place
  FROM (SELECT lexeme, positions[1] AS place, '' AS ending
          FROM unnest(to_tsvector(
                   (SELECT value #>> '{}' FROM memory_settings
                     WHERE key = 'text_search_config')::regconfig,
                   %(text)s))
         UNION ALL
        SELECT *
          FROM unnest(%(runs)s::text[], %(places)s::int[], %(endings)s::text[])) AS found
 GROUP BY lexeme, ending
