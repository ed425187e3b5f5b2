package segment_test

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// A file that names another segment is damaged; one that names none is believed. What else the schema says stays.
func TestID_CheckName(t *testing.T) {
	t.Parallel()
	namer := segment.NewNamer([6]byte{1})
	one, two := namer.Next(time.Now()), namer.Next(time.Now())
	md := arrow.NewMetadata([]string{"siglake.signal"}, []string{"logs"})
	plain := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, &md)
	named := one.Name(plain)
	require.NoError(t, one.CheckName(plain))
	require.NoError(t, one.CheckName(named))
	signal, _ := named.Metadata().GetValue("siglake.signal")
	require.Equal(t, "logs", signal)
	require.Equal(t, 1, plain.Metadata().Len(), "what was given is not changed")
	err := two.CheckName(named)
	require.ErrorIs(t, err, segment.ErrOther)
	require.ErrorContains(t, err, one.String())
	corrupt := &frame.CorruptError{}
	require.ErrorAs(t, err, &corrupt)
}
