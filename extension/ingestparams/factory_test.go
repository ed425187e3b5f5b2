package ingestparams

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/extension/extensiontest"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	for id, want := range map[string]*Config{
		"ingestparams":        {},
		"ingestparams/broken": {AllowBrokenAck: true},
	} {
		sub, err := conf.Sub(id)
		require.NoError(t, err)
		cfg := createDefaultConfig()
		require.NoError(t, sub.Unmarshal(cfg))
		require.NoError(t, confmap.Validate(cfg))
		require.Equal(t, want, cfg)
	}
	require.ErrorContains(t, confmap.NewFromStringMap(map[string]any{"bogus": 1}).Unmarshal(createDefaultConfig()), "bogus")
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	f := NewFactory()
	set := extensiontest.NewNopSettings(f.Type())
	newExt := func() component.Component {
		ext, err := f.Create(t.Context(), set, f.CreateDefaultConfig())
		require.NoError(t, err)
		return ext
	}

	ext := newExt()
	require.NoError(t, ext.Shutdown(t.Context()), "shutdown without start")

	ext = newExt()
	require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, ext.Shutdown(t.Context()))
	require.NoError(t, ext.Shutdown(t.Context()), "shutdown twice")

	_, err := f.Create(t.Context(), set, &struct{}{})
	require.ErrorContains(t, err, "configuration is a")
}
