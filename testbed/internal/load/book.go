package load

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Book remembers what became of every request of a run.
type Book struct {
	Shape Shape

	mu     sync.Mutex
	begun  int
	acked  []Ack
	failed []uint64
}

// Ack is a request that was acknowledged.
type Ack struct {
	Request uint64
	At      time.Time // when the client had the answer
	Took    time.Duration
}

// Begin notes that a request is about to be sent.
func (b *Book) Begin() {
	b.mu.Lock()
	b.begun++
	b.mu.Unlock()
}

// Outstanding is the number of requests that were sent and have no answer yet.
func (b *Book) Outstanding() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun - len(b.acked) - len(b.failed)
}

// Ack notes that request n was acknowledged just now, so long after it fell due.
func (b *Book) Ack(n uint64, took time.Duration) {
	at := time.Now()
	b.mu.Lock()
	b.acked = append(b.acked, Ack{n, at, took})
	b.mu.Unlock()
}

// Fail notes that request n was sent and not acknowledged: its records may or may not be stored.
func (b *Book) Fail(n uint64) {
	b.mu.Lock()
	b.failed = append(b.failed, n)
	b.mu.Unlock()
}

// Acked is the number of acknowledged records.
func (b *Book) Acked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acked) * b.Shape.Batch
}

// Requests returns copies of the acknowledged and of the failed request numbers, sorted.
func (b *Book) Requests() (acked, failed []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	failed = slices.Clone(b.failed)
	for _, a := range b.acked {
		acked = append(acked, a.Request)
	}
	slices.Sort(acked)
	slices.Sort(failed)
	return acked, failed
}

// Acks returns the acknowledged requests in the order of their answers.
func (b *Book) Acks() []Ack {
	b.mu.Lock()
	defer b.mu.Unlock()
	acks := slices.Clone(b.acked)
	slices.SortFunc(acks, func(a, b Ack) int { return a.At.Compare(b.At) })
	return acks
}

// Lost returns the acknowledged requests of which a record was not found, in the order of their answers.
func (b *Book) Lost(found map[uint64]int) []Ack {
	return slices.DeleteFunc(b.Acks(), func(a Ack) bool {
		for n := range b.Shape.Numbers(a.Request) {
			if found[n] == 0 {
				return false
			}
		}
		return true
	})
}

// Ranges writes sorted numbers as [first, last] pairs.
func Ranges(numbers []uint64) [][2]uint64 {
	out := [][2]uint64{}
	for _, n := range numbers {
		if last := len(out) - 1; last >= 0 && out[last][1]+1 == n {
			out[last][1] = n
			continue
		}
		out = append(out, [2]uint64{n, n})
	}
	return out
}

// Verdict is the outcome of ACCOUNTED: acknowledged records exactly once, others at most once, requests whole or not
// at all, and nothing that was never sent.
type Verdict struct {
	Acked          int // records of acknowledged requests
	Found          int // different records found
	Missing        int // acknowledged, not found
	Doubled        int // found more than once
	UnackedFound   int // found, their request was not acknowledged: allowed
	UnackedLost    int // not found, their request was not acknowledged: allowed
	TornRequests   int // requests of which some records were found and some not
	Unknown        int // found, but never sent
	FirstMissing   []string
	FirstDoubled   []string
	FirstTorn      []string
	AckedRequests  int
	FailedRequests int
}

// Judge compares the book with how often each record number was found.
func (b *Book) Judge(found map[uint64]int) Verdict {
	acked, failed := b.Requests()
	v := Verdict{AckedRequests: len(acked), FailedRequests: len(failed), Found: len(found)}
	known := make(map[uint64]bool, len(found))
	note := func(list *[]string, n uint64) {
		if len(*list) < 10 {
			*list = append(*list, b.Shape.ID(n))
		}
	}
	look := func(request uint64, wasAcked bool) {
		there := 0
		for n := range b.Shape.Numbers(request) {
			times := found[n]
			known[n] = true
			switch {
			case times > 1:
				v.Doubled++
				note(&v.FirstDoubled, n)
			case times == 0 && wasAcked:
				v.Missing++
				note(&v.FirstMissing, n)
			case times == 0:
				v.UnackedLost++
			}
			if times > 0 {
				there++
				if !wasAcked {
					v.UnackedFound++
				}
			}
		}
		if there > 0 && there < b.Shape.Batch {
			v.TornRequests++
			note(&v.FirstTorn, request*uint64(b.Shape.Batch))
		}
	}
	for _, n := range acked {
		look(n, true)
		v.Acked += b.Shape.Batch
	}
	for _, n := range failed {
		look(n, false)
	}
	for n := range found {
		if !known[n] {
			v.Unknown++
		}
	}
	return v
}

// Err is nil when the promise was kept.
func (v Verdict) Err() error {
	var wrong []string
	if v.Missing > 0 {
		wrong = append(wrong, fmt.Sprintf("%d acknowledged records are missing, such as %v", v.Missing, v.FirstMissing))
	}
	if v.Doubled > 0 {
		wrong = append(wrong, fmt.Sprintf("%d records are there more than once, such as %v", v.Doubled, v.FirstDoubled))
	}
	if v.TornRequests > 0 {
		wrong = append(wrong, fmt.Sprintf("%d requests are there in part, such as the one of %v", v.TornRequests, v.FirstTorn))
	}
	if v.Unknown > 0 {
		wrong = append(wrong, fmt.Sprintf("%d records were never sent", v.Unknown))
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("ACCOUNTED is broken: %s", strings.Join(wrong, "; "))
}

// String is the verdict on one line.
func (v Verdict) String() string {
	return fmt.Sprintf("acked %d records in %d requests; missing %d, doubled %d, torn requests %d, never sent %d; not acked %d requests: %d of their records stored once, %d not",
		v.Acked, v.AckedRequests, v.Missing, v.Doubled, v.TornRequests, v.Unknown, v.FailedRequests, v.UnackedFound, v.UnackedLost)
}
