package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                     {},
		" ;; -- x;\n ; /* a;b */ ;":            {},
		"SELECT 1":                             {"SELECT 1"},
		"SELECT 1; SELECT 2 ;":                 {"SELECT 1", " SELECT 2 "},
		"SELECT ';';SELECT \";\"":              {"SELECT ';'", "SELECT \";\""},
		"SELECT 'it''s;'; SELECT 2":            {"SELECT 'it''s;'", " SELECT 2"},
		`SELECT E'\';'; SELECT '\'; SELECT 3`:  {`SELECT E'\';'`, ` SELECT '\'`, " SELECT 3"},
		`SELECT some'\';`:                      {`SELECT some'\'`},
		"SELECT $$;$$; SELECT $a$;$$;$a$;":     {"SELECT $$;$$", " SELECT $a$;$$;$a$"},
		"SELECT a$b;SELECT $1;x$":              {"SELECT a$b", "SELECT $1", "x$"},
		"SELECT 1 -- ; no\n, 2;\nSELECT 3":     {"SELECT 1 -- ; no\n, 2", "\nSELECT 3"},
		"SELECT /* ; /* ; */ ; */ 1; SELECT 2": {"SELECT /* ; /* ; */ ; */ 1", " SELECT 2"},
		"SELECT 'a\nb;\n';":                    {"SELECT 'a\nb;\n'"},
		"SELECT 'open;":                        {"SELECT 'open;"},
		"-- only this":                         {},
		"ü;é":                                  {"ü", "é"},
	} {
		var s splitter
		got := []string{}
		for line := range strings.Lines(text) {
			got = append(got, s.add(line)...)
		}
		if rest, ok := s.rest(); ok {
			got = append(got, rest)
		}
		require.Equal(t, want, got, "%q", text)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                        nil,
		"/* x */ -- y\n Select 1": {"select", "1"},
		"((FROM t))":              nil,
		"WITH a AS (DELETE FROM x) SELECT 'insert' \"update\" $$drop$$ e": {"with", "a", "as", "select", "e"},
		"EXPLAIN ANALYZE insert INTO t":                                   {"explain", "analyze", "insert", "into", "t"},
	} {
		require.Equal(t, want, words(text), "%q", text)
	}
}
