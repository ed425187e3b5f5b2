package mirror

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// Jobs that become due at once share one signal; each idle uploader gets one of them all the same.
func TestQueue_no_uploader_sleeps_beside_work(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const uploaders = 4
		q := newQueue(time.Now, rand.Int64N)
		taken := make(chan *job, uploaders)
		for range uploaders {
			go func() { taken <- q.take(t.Context()) }()
		}
		for i := range uint64(uploaders) {
			j := &job{id: segment.ID{Seq: i}}
			q.known[j.id] = j
			q.again(j)
		}
		synctest.Wait()
		q.hurry()
		synctest.Wait()
		require.Len(t, taken, uploaders)
	})
}
