package siglakecol_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const casesFile = "docs/cases.md"

// caseIDs are all cases but those of many replicas (G). The numbers that are missing were never given.
func caseIDs() []string {
	var out []string
	for n := range 22 {
		out = append(out, fmt.Sprintf("T-%02d", n+1))
	}
	for n := range 50 {
		out = append(out, fmt.Sprintf("R%d", n+1))
	}
	for letter, numbers := range map[string][]int{
		"A": {1, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17},
		"B": {1, 4, 5, 8, 9},
		"C": {2, 3, 5, 6, 8, 9, 10},
		"D": {1, 3, 4, 6, 7, 8, 10, 11, 13, 14},
		"E": {2, 3, 6, 7, 8, 9, 10, 13, 14, 15},
		"F": {1, 3, 5, 6, 7, 8},
	} {
		for _, n := range numbers {
			out = append(out, letter+strconv.Itoa(n))
		}
	}
	slices.Sort(out)
	return out
}

var (
	caseRow   = regexp.MustCompile(`(?m)^\| ([A-Z]-?\d+) \|.*\| (.*) \|$`)
	testGroup = regexp.MustCompile("`((?:[a-z0-9]+/)*[a-z0-9]+)`: (Test[\\w/]+(?:, Test[\\w/]+)*)")
)

// Every case is listed once, with tests that exist, one of which bears its id, or with the reason why there is none.
func TestCasesDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(casesFile)
	require.NoError(t, err)
	var listed []string
	for _, row := range caseRow.FindAllStringSubmatch(string(text), -1) {
		id, verdict := row[1], row[2]
		listed = append(listed, id)
		groups := testGroup.FindAllStringSubmatch(verdict, -1)
		if len(groups) == 0 {
			require.Regexp(t, `^(Cannot occur|Not built): .{5,}`, verdict, "case %s: name a test or give the reason", id)
			continue
		}
		named := false
		for _, g := range groups {
			for name := range strings.SplitSeq(g[2], ", ") {
				require.True(t, testExists(t, g[1], name), "case %s: there is no %s in %s", id, name, g[1])
				named = named || bearsID(name, id)
			}
		}
		require.True(t, named, "case %s: no test bears its id", id)
	}
	slices.Sort(listed)
	require.Equal(t, caseIDs(), listed, "each case once")
}

// bearsID tells whether the name of a test has the id as a word of its own: TestA1_..., Test..._T02_T20, TestX/A14_...
func bearsID(name, id string) bool {
	word := strings.ReplaceAll(id, "-", "")
	return slices.Contains(strings.FieldsFunc(strings.TrimPrefix(name, "Test"), func(r rune) bool { return r == '_' || r == '/' }), word)
}

// testExists looks for Test or Test/sub in the test files of a folder. The name of a sub-test must stand there as text.
func testExists(t *testing.T, dir, name string) bool {
	t.Helper()
	name, sub, hasSub := strings.Cut(name, "/")
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
				return !hasSub || hasText(tree, sub)
			}
		}
	}
	return false
}

// hasText tells whether a file has the name of a sub-test among its strings, as go test spells it.
func hasText(tree *ast.File, sub string) bool {
	found := false
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			found = found || err == nil && strings.ReplaceAll(text, " ", "_") == sub
		}
		return !found
	})
	return found
}
