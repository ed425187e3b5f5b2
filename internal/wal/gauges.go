package wal

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// limitGauges show each limit and what is used of it, so that a user sees it coming.
type limitGauges struct {
	used, limit, free, floor                 metric.Int64ObservableGauge
	inFlight, inFlightLimit, inFlightLargest metric.Int64ObservableGauge
	waiting, waitingLimit                    metric.Int64ObservableGauge
	lanes, lanesLimit                        metric.Int64ObservableGauge
	tenants, tenantsLimit                    metric.Int64ObservableGauge
	backlog, pace                            metric.Int64ObservableGauge
}

func newLimitGauges(meter metric.Meter) (g limitGauges, _ error) {
	var errs []error
	gauge := func(dst *metric.Int64ObservableGauge, name, unit, about string) {
		o, err := meter.Int64ObservableGauge("siglake_wal_"+name, metric.WithUnit(unit), metric.WithDescription(about))
		*dst, errs = o, append(errs, err)
	}
	gauge(&g.used, "used_bytes", "By", "Bytes below the WAL directory.")
	gauge(&g.limit, "limit_bytes", "By", "Bytes the WAL directory may hold (max_bytes).")
	gauge(&g.free, "free_bytes", "By", "Bytes free on the volume of the WAL directory.")
	gauge(&g.floor, "min_free_bytes", "By", "Bytes that stay free on that volume (min_free).")
	gauge(&g.inFlight, "in_flight_bytes", "By", "Bytes of batches queued or being written.")
	gauge(&g.inFlightLimit, "in_flight_limit_bytes", "By", "Bytes of batches that may be queued or being written at one time (max_in_flight).")
	gauge(&g.inFlightLargest, "in_flight_largest_tenant_bytes", "By", "Of the bytes in flight, those of the tenant that has the most.")
	gauge(&g.waiting, "waiting_requests", "{request}", "Requests that wait for their answer.")
	gauge(&g.waitingLimit, "waiting_limit_requests", "{request}", "Requests that may wait for their answer at one time (max_waiting).")
	gauge(&g.lanes, "lanes", "{lane}", "Lanes, one for each index of each tenant.")
	gauge(&g.lanesLimit, "lanes_limit", "{lane}", "Lanes above which no new one is made (max_lanes).")
	gauge(&g.tenants, "tenants", "{tenant}", "Tenants with a lane.")
	gauge(&g.backlog, "backlog_bytes", "By", "Bytes of sealed segments that are in no table yet, when last looked.")
	gauge(&g.pace, "pace_bytes_per_second", "By/s", "What may come in so that no more does than the drain takes out (pace_after); 0 while nothing waits for that.")
	gauge(&g.tenantsLimit, "tenants_limit", "{tenant}", "Tenants above which no new one is made (max_tenants).")
	return g, errors.Join(errs...)
}

// observe connects the gauges to l until Close.
func (m *metrics) observe(l *Log) error {
	g := &m.limits
	reg, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := l.space.look()
		o.ObserveInt64(g.used, now.used)
		o.ObserveInt64(g.limit, now.limit)
		o.ObserveInt64(g.free, now.free)
		o.ObserveInt64(g.floor, now.floor)
		o.ObserveInt64(g.inFlight, now.inFlight)
		o.ObserveInt64(g.inFlightLargest, now.largest)
		o.ObserveInt64(g.inFlightLimit, l.opt.MaxInFlight)
		o.ObserveInt64(g.waiting, now.waiting)
		o.ObserveInt64(g.waitingLimit, int64(l.opt.MaxWaiting))
		lanes, tenants := l.laneCounts()
		o.ObserveInt64(g.lanes, int64(lanes))
		o.ObserveInt64(g.lanesLimit, int64(l.opt.MaxLanes))
		o.ObserveInt64(g.tenants, int64(tenants))
		o.ObserveInt64(g.tenantsLimit, int64(l.opt.MaxTenants))
		o.ObserveInt64(g.backlog, now.backlog)
		o.ObserveInt64(g.pace, l.pace.rate.Load())
		o.ObserveInt64(m.peers, l.peers.Load())
		o.ObserveFloat64(m.oldest, l.unsealed.oldest(l.opt.Now()).Seconds())
		return nil
	}, g.used, g.limit, g.free, g.floor, g.inFlight, g.inFlightLimit, g.inFlightLargest, g.waiting, g.waitingLimit,
		g.lanes, g.lanesLimit, g.tenants, g.tenantsLimit, g.backlog, g.pace, m.peers, m.oldest)
	if err != nil {
		return fmt.Errorf("observe wal gauges: %w", err)
	}
	m.stopObserving = reg.Unregister
	return nil
}
