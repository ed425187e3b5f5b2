package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Plan is one run of load.
type Plan struct {
	Endpoint
	Shape

	Connections int           // each sends one request at a time; 0 means 1
	Rate        float64       // records per second over all connections; 0: as fast as answers come
	Records     int           // end once this many are acknowledged; 0: no such end
	Duration    time.Duration // end after this long; 0: no such end
	Warmup      time.Duration // left out of the figures
	Timeout     time.Duration // of one request; 0 means 30 s
	Patient     bool          // wait for a server that is away before sending, instead of failing at once
	Book        *Book         // nil: a new one
}

// Quantiles are latencies in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Result is what a run measured. Latency counts from the moment a request fell due.
type Result struct {
	Seconds     float64        `json:"measured_seconds"`
	Records     int            `json:"acked_records"`
	Rate        float64        `json:"acked_records_per_second"`
	Latency     Quantiles      `json:"ack_ms"`
	LongestGap  float64        `json:"longest_gap_ms"` // the longest time without any ack
	Requests    int            `json:"acked_requests"`
	Failed      int            `json:"failed_requests"`
	Errors      map[string]int `json:"errors,omitempty"`
	FirstError  string         `json:"first_error,omitempty"`
	RequestSize int            `json:"request_bytes"`
	Unsent      int            `json:"due_but_not_sent"` // at a fixed rate that the server did not keep up with
}

type sample struct {
	end time.Time
	ack time.Duration
}

// Run sends until an end of the plan is reached or ctx ends. Requests under way are awaited, so that each one is noted
// in the book as acknowledged or failed.
func Run(ctx context.Context, p Plan) (Result, error) {
	if p.Connections == 0 {
		p.Connections = 1
	}
	if p.Timeout == 0 {
		p.Timeout = 30 * time.Second
	}
	if p.Book == nil {
		p.Book = &Book{}
	}
	if p.Book.Shape.Run == "" {
		p.Book.Shape = p.Shape
	}
	templates, err := NewTemplates(p.Shape)
	if err != nil {
		return Result{}, err
	}
	r := &run{Plan: p, templates: templates, start: time.Now()}
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	if p.Duration > 0 {
		ctx, r.stop = context.WithTimeout(ctx, p.Duration)
		defer r.stop()
	}
	if p.Rate > 0 {
		r.due = make(chan job, 1<<16)
		r.group.Go(func() { r.schedule(ctx) })
	}
	workers := make([]*worker, p.Connections)
	for i := range workers {
		client, err := Dial(p.Endpoint, p.Signal)
		if err != nil {
			r.stop()
			r.group.Wait()
			return Result{}, err
		}
		workers[i] = &worker{run: r, client: client, errors: map[string]int{}}
		r.group.Go(func() { workers[i].work(ctx) })
	}
	r.group.Wait()
	return r.result(workers), nil
}

type job struct {
	number uint64
	due    time.Time
}

type run struct {
	Plan

	templates []*Template
	start     time.Time
	stop      context.CancelFunc
	next      atomic.Uint64
	due       chan job
	group     sync.WaitGroup
}

// schedule queues requests when they fall due, whether or not a connection is free.
func (r *run) schedule(ctx context.Context) {
	defer close(r.due)
	gap := float64(r.Batch) / r.Rate * float64(time.Second)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := uint64(0); ; n++ {
		at := r.start.Add(time.Duration(gap * float64(n)))
		timer.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		select {
		case r.due <- job{n, at}:
		case <-ctx.Done():
			return
		}
	}
}

func (r *run) take(ctx context.Context) (job, bool) {
	if ctx.Err() != nil {
		return job{}, false
	}
	if r.due == nil {
		return job{r.next.Add(1) - 1, time.Now()}, true
	}
	select {
	case j, ok := <-r.due:
		return j, ok && ctx.Err() == nil
	case <-ctx.Done():
		return job{}, false
	}
}

type worker struct {
	*run
	client  Client
	samples []sample
	failed  int
	errors  map[string]int
	first   error
}

func (w *worker) work(ctx context.Context) {
	defer func() { _ = w.client.Close() }() // every answer has been read
	var buf []byte
	for {
		if w.Patient && !w.await(ctx) {
			return
		}
		j, ok := w.take(ctx)
		if !ok {
			return
		}
		w.Book.Begin()
		sent := time.Now()
		buf = w.templates[j.number%uint64(len(w.templates))].Fill(buf, j.number, sent)
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Timeout)
		err := w.client.Send(call, buf)
		cancel()
		end := time.Now()
		if err == nil {
			w.Book.Ack(j.number, end.Sub(j.due))
			w.samples = append(w.samples, sample{end, end.Sub(j.due)})
			if w.Records > 0 && w.Book.Acked() >= w.Records {
				w.stop()
			}
			continue
		}
		w.Book.Fail(j.number)
		w.failed++
		w.errors[label(err)]++
		if w.first == nil {
			w.first = err
		}
		buf = nil // the transport may still hold the bytes of a failed request
		pause(ctx, 10*time.Millisecond)
	}
}

// await waits until the connection stands, so that a server that is away costs no request.
func (w *worker) await(ctx context.Context) bool {
	c, ok := w.client.(*grpcClient)
	if !ok {
		return true
	}
	for {
		state := c.conn.GetState()
		if state.String() == "READY" {
			return true
		}
		c.conn.Connect()
		if !c.conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (r *run) result(workers []*worker) Result {
	end := time.Now()
	from := r.start.Add(r.Warmup)
	out := Result{Errors: map[string]int{}, RequestSize: r.templates[0].Size(), Unsent: len(r.due)}
	var acks []time.Duration
	var ends []time.Time
	for _, w := range workers {
		out.Failed += w.failed
		for k, n := range w.errors {
			out.Errors[k] += n
		}
		if w.first != nil && out.FirstError == "" {
			out.FirstError = w.first.Error()
		}
		for _, s := range w.samples {
			if s.end.Before(from) {
				continue
			}
			acks = append(acks, s.ack)
			ends = append(ends, s.end)
		}
	}
	out.Seconds = end.Sub(from).Seconds()
	out.Requests = len(acks)
	out.Records = len(acks) * r.Batch
	out.Rate = float64(out.Records) / out.Seconds
	out.Latency = QuantilesOf(acks)
	out.LongestGap = milliseconds(longestGap(ends, from, end))
	return out
}

// QuantilesOf sorts d.
func QuantilesOf(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	at := func(q float64) float64 { return milliseconds(d[min(int(q*float64(len(d))), len(d)-1)]) }
	return Quantiles{at(0.5), at(0.99), at(0.999), at(1)}
}

// AcksSince tells of those of acks, sorted by time, that came after from: how long they took, and the longest time without any
// until to, in milliseconds.
func AcksSince(acks []Ack, from, to time.Time) (Quantiles, float64) {
	i, _ := slices.BinarySearchFunc(acks, from, func(a Ack, t time.Time) int { return a.At.Compare(t) })
	var took []time.Duration
	var ends []time.Time
	for _, a := range acks[i:] {
		took = append(took, a.Took)
		ends = append(ends, a.At)
	}
	return QuantilesOf(took), milliseconds(longestGap(ends, from, to))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func longestGap(ends []time.Time, from, to time.Time) time.Duration {
	slices.SortFunc(ends, time.Time.Compare)
	last, gap := from, time.Duration(0)
	for _, e := range append(ends, to) {
		gap = max(gap, e.Sub(last))
		last = e
	}
	return gap
}

// Err turns failed requests into an error, for runs that must not have any.
func (r Result) Err() error {
	if r.Failed == 0 {
		return nil
	}
	return fmt.Errorf("%d requests failed (%v), the first with: %s", r.Failed, r.Errors, r.FirstError)
}
