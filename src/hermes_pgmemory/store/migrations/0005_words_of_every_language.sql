-- 0005 words of every language
--
-- Adds:    nothing; computes tsv anew for rows with letters of scripts that put no space
--          between words, with accents on Latin letters, or, if LC_CTYPE is C, with
--          punctuation that is not ASCII
-- Why:     a sentence of Chinese, Japanese, Korean or Thai was one word that no question
--          held, "cafe" did not find "café", and under C "tea" did not find “tea”
-- Needs:   0002 memories
-- Locks:   the rows that it changes
-- Runtime: grows with the number of such rows; other rows are only read
-- Undo:    not needed: what it adds is only found by those who ask for it

DO $do$
DECLARE
    -- As in words.sql when this was written: one rule for old rows and new ones.
    unspaced CONSTANT text :=
        '\u0E00-\u0EFF\u1000-\u11FF\u1780-\u17FF\u3005-\u3007\u3041-\u309F\u30A1-\u30FA'
        '\u30FC-\u30FF\u3100-\u318F\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7A3'
        '\uF900-\uFAFF\uFF66-\uFF9F\U00020000-\U0003FFFF';
    accented CONSTANT text := '\u00C0-\u024F\u0300-\u036F\u1E00-\u1EFF';
    marks CONSTANT text :=
        '\u00A0-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u060C\u061B\u061F\u06D4'
        '\u0964\u0965\u2000-\u200B\u200E-\u2070\u20A0-\u20BF\u2190-\u2BFF'
        '\u3000-\u3004\u3008-\u3020\u3030\u303D\u30FB\uFE0F\uFF01-\uFF0F\uFF1A-\uFF20'
        '\uFF3B-\uFF40\uFF5B-\uFF65\U0001F000-\U0001FAFF';
    mistaken text := unspaced || accented;
    changed text;
BEGIN
    IF NOT to_tsvector('simple', 'a—b') @@ 'a'::tsquery THEN
        mistaken := mistaken || marks;
    END IF;
    FOREACH changed IN ARRAY ARRAY['memory_entries', 'conversations'] LOOP
        EXECUTE format($update$
            UPDATE %1$I
               SET tsv = (
                SELECT to_tsvector(value::regconfig,
                                   regexp_replace(content, '[%2$s]+', ' ', 'g'))
                       || array_to_tsvector(ARRAY(
                           SELECT pair[1]
                             FROM regexp_matches(
                                      content, '[%2$s][%2$s]?', 'g') AS pair
                            UNION ALL
                           SELECT pair[1]
                             FROM regexp_matches(
                                      regexp_replace(content, '(^|[^%2$s])[%2$s]',
                                                     '\1', 'g'),
                                      '[%2$s][%2$s]?', 'g') AS pair))
                  FROM (SELECT CASE WHEN content ~ '[%3$s]'
                                    THEN normalize(regexp_replace(
                                             normalize(unmarked, NFD),
                                             '([A-Za-z])[\u0300-\u036F]+', '\1', 'g'),
                                             NFC)
                                    ELSE unmarked END AS content
                          FROM (SELECT content,
                                       regexp_replace(content, '[%4$s]+', ' ', 'g')
                                           AS unmarked
                                  FROM (SELECT left(content, 100000) AS content OFFSET 0)
                                       AS kept
                                OFFSET 0) AS split
                        OFFSET 0) AS plain)
              FROM (SELECT value #>> '{}' AS value
                      FROM memory_settings
                     WHERE key = 'text_search_config') AS setting
             WHERE octet_length(content) > length(content)
               AND content ~ '[%5$s]'
            $update$, changed, unspaced, accented, marks, mistaken);
    END LOOP;
END
$do$;
