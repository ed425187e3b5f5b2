// Package siglakecol_test holds what no package owns: the generated Collector agrees with its manifest.
package siglakecol_test

import (
	"bytes"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
)

const (
	manifestFile = "builder-config.yaml"
	generatedDir = "cmd/siglakecol"
	regenerate   = "run `make genocb` and commit " + generatedDir
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// module is one component of the manifest.
type module struct {
	GoMod  string `yaml:"gomod"` // "path version"
	Import string `yaml:"import"`
}

func (m module) path() string    { p, _, _ := strings.Cut(m.GoMod, " "); return p }
func (m module) version() string { _, v, _ := strings.Cut(m.GoMod, " "); return v }

// importPath is where the code is; ocb takes the module's path when none is given.
func (m module) importPath() string {
	if m.Import != "" {
		return m.Import
	}
	return m.path()
}

type manifest struct {
	Dist       map[string]string `yaml:"dist"`
	Extensions []module          `yaml:"extensions"`
	Receivers  []module          `yaml:"receivers"`
	Processors []module          `yaml:"processors"`
	Exporters  []module          `yaml:"exporters"`
	Connectors []module          `yaml:"connectors"`
	Providers  []module          `yaml:"providers"`
}

func readManifest(t *testing.T) manifest {
	t.Helper()
	raw, err := os.ReadFile(manifestFile)
	require.NoError(t, err)
	var m manifest
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	require.NoError(t, dec.Decode(&m))
	return m
}

func (m manifest) modules() []module {
	var all []module
	for _, list := range [][]module{m.Extensions, m.Receivers, m.Processors, m.Exporters, m.Connectors, m.Providers} {
		all = append(all, list...)
	}
	return all
}

// ocb copies the manifest's versions into what `siglakecol components` prints; go.mod decides what is built.
func TestManifest_versions_are_those_of_go_mod(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	require.NotContains(t, string(raw), "\nreplace ", "a replaced module is built from elsewhere: teach this test about it")
	self := regexp.MustCompile(`(?m)^module (\S+)$`).FindStringSubmatch(string(raw))
	require.NotNil(t, self)
	built := map[string]string{self[1]: "v0.0.0"}
	for _, line := range regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) (v\S+)`).FindAllStringSubmatch(string(raw), -1) {
		built[line[1]] = line[2]
	}
	m := readManifest(t)
	require.Equal(t, self[1], m.Dist["module"])
	require.Greater(t, len(m.modules()), 30)
	for _, mod := range m.modules() {
		require.Equal(t, built[mod.path()], mod.version(), "%s: change it in %s and %s", mod.path(), manifestFile, regenerate)
	}
}

// The generated code imports exactly what the manifest lists; this needs no tool.
func TestGenerated_imports_are_those_of_the_manifest(t *testing.T) {
	t.Parallel()
	var want []string
	for _, mod := range readManifest(t).modules() {
		want = append(want, mod.importPath())
	}
	// What ocb's templates import themselves.
	own := map[string]bool{
		"os": true, "fmt": true, "errors": true, "log": true,
		"golang.org/x/sys/windows":                                          true,
		"golang.org/x/sys/windows/svc":                                      true,
		"go.opentelemetry.io/collector/component":                           true,
		"go.opentelemetry.io/collector/confmap":                             true,
		"go.opentelemetry.io/collector/connector":                           true,
		"go.opentelemetry.io/collector/exporter":                            true,
		"go.opentelemetry.io/collector/extension":                           true,
		"go.opentelemetry.io/collector/otelcol":                             true,
		"go.opentelemetry.io/collector/processor":                           true,
		"go.opentelemetry.io/collector/receiver":                            true,
		"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry": true,
	}
	files, err := filepath.Glob(filepath.Join(generatedDir, "*.go"))
	require.NoError(t, err)
	var got []string
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			if path := strings.Trim(spec.Path.Value, `"`); !own[path] {
				got = append(got, path)
			}
		}
	}
	require.ElementsMatch(t, want, got, regenerate)
}

// The builder's output today is what is committed.
func TestGenerated_is_what_the_builder_writes(t *testing.T) {
	// Not parallel: the process that it starts holds the locks of tests beside it for a moment.
	builders, err := filepath.Glob(filepath.Join(".tools", "builder*"))
	require.NoError(t, err)
	require.NotEmpty(t, builders, "the builder is missing: make tools installs it into .tools")
	builder, err := filepath.Abs(builders[len(builders)-1])
	require.NoError(t, err)
	raw, err := os.ReadFile(manifestFile)
	require.NoError(t, err)
	dir := t.TempDir()
	elsewhere := regexp.MustCompile(`(?m)^  output_path: .*$`).ReplaceAllString(string(raw), "  output_path: "+filepath.Join(dir, "out"))
	require.NotEqual(t, string(raw), elsewhere)
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestFile), []byte(elsewhere), 0o600))
	out, err := exec.CommandContext(t.Context(), builder, "--config", filepath.Join(dir, manifestFile), "--skip-get-modules", "--skip-compilation").CombinedOutput()
	require.NoError(t, err, string(out))

	want := map[string]string{}
	for name, src := range goFiles(t, filepath.Join(dir, "out")) {
		pretty, err := format.Source([]byte(src))
		require.NoError(t, err)
		want[name] = string(pretty)
	}
	got := goFiles(t, generatedDir)
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)), regenerate)
	for name := range want {
		require.Empty(t, firstDifference(want[name], got[name]), "%s: %s", name, regenerate)
	}
}

// firstDifference names the first line in which two texts differ, "" when none does.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		switch {
		case i >= len(w):
			return fmt.Sprintf("line %d: more than the builder writes: %s", i+1, g[i])
		case i >= len(g) || w[i] != g[i]:
			return fmt.Sprintf("line %d: the builder writes: %s", i+1, w[i])
		}
	}
	return ""
}

func goFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(raw)
	}
	return files
}
