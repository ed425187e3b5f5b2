package frame

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	want := threeBatches()
	t.Run("sealed_segment_comes_back_equal", func(t *testing.T) {
		t.Parallel()
		s, err := decode(sealedFile(t, want...), DecodeOptions{})
		require.NoError(t, err)
		defer s.Release()
		requireBatches(t, want, s)
		require.True(t, s.Complete)
		require.True(t, s.Schema.Equal(testSchema()))
		require.Equal(t, testSchema().Metadata(), s.Schema.Metadata())
	})
	t.Run("partial_segment_comes_back_equal", func(t *testing.T) {
		t.Parallel()
		file, _ := partialFile(t, want...)
		s, err := decode(file, DecodeOptions{})
		require.NoError(t, err)
		defer s.Release()
		requireBatches(t, want, s)
		require.False(t, s.Complete)
		require.Zero(t, s.TailDropped)
		require.Equal(t, Header{Version: 2, Partial: true, Table: testTable}, s.Header)
	})
}
