// Package measure runs one measurement of a collector: load, acknowledgement latency, CPU, memory, syncs, drain.
package measure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Sum reads a Prometheus endpoint and adds up the samples whose name passes keep.
func Sum(ctx context.Context, address string, keep func(name string) bool) (float64, error) {
	all, err := Samples(ctx, address)
	return total(all, keep), err
}

// Samples reads a Prometheus endpoint: for each name the sum of its samples.
func Samples(ctx context.Context, address string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: HTTP %d", resp.StatusCode)
	}
	return samples(resp.Body)
}

func samples(in io.Reader) (map[string]float64, error) {
	all := map[string]float64{}
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := scan.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %q: %w", line, err)
		}
		all[line[:strings.IndexAny(line+" ", "{ ")]] += v
	}
	return all, scan.Err()
}

func total(all map[string]float64, keep func(string) bool) (sum float64) {
	for name, v := range all {
		if keep(name) {
			sum += v
		}
	}
	return sum
}

// IsFsync matches the counts of the log's fsync histograms.
func IsFsync(name string) bool {
	return strings.HasPrefix(name, "siglake_wal_") && strings.Contains(name, "fsync") && strings.HasSuffix(name, "_count")
}
