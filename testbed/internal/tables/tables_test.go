package tables

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestErrorsOfTheReaderComeBack(t *testing.T) {
	t.Parallel()
	r, err := Open(t.TempDir())
	require.NoError(t, err)
	_, err = r.Summarise(t.Context(), "siglake.events")
	require.ErrorContains(t, err, "catalog.db: no such file")
	err = r.Query(t.Context(), "siglake.events", "SELECT 1", func([]any) error { return nil })
	require.ErrorContains(t, err, "no such file", "it answers on")
	require.NoError(t, r.Close())
}

func TestAReaderEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r, err := Open(t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Summarise(ctx, "siglake.events")
	require.Error(t, err)
	require.Error(t, r.Close(), "it was killed")
}
