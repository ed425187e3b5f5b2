package wal

// share divides max units, bytes or requests, among those that are being served. Not safe for use at once: space
// guards it.
//
// Whoever is first gets in while there is room. With fair set, a tenant that has something in flight gets more only
// if it then has no more than is left free. So
//
//   - no tenant with several requests has more than half of what the others leave, which is half of max when it is
//     alone: others always find room;
//   - m tenants that ask without end come to rest at max/(m+1) each, whoever began, and max/(m+1) stays free: one
//     that is above it drains and is let in no more, one that is below it is;
//   - a tenant with nothing in flight is refused only when its request does not fit at all.
//
// What it remembers is bounded by the requests in flight: a tenant without one is forgotten.
type share struct {
	limit string // its name, for who is refused
	max   int64
	fair  bool

	total int64
	held  map[string]int64 // by tenant; no zeros
}

// take lets n units of tenant in, or says what refuses them.
func (s *share) take(tenant string, n int64) *LimitError {
	held := s.held[tenant]
	free := s.max - s.total - n // left when this is in
	switch {
	case s.total == 0: // alone: refused for ever is worse than a peak
	case free < 0:
		return &LimitError{Limit: s.limit, Used: s.total, Max: s.max}
	case s.fair && held > 0 && held+n > free:
		return &LimitError{Limit: limitShare, Of: s.limit, Used: held, Max: (s.max - s.total + held) / 2}
	}
	if s.held == nil {
		s.held = map[string]int64{}
	}
	s.total += n
	s.held[tenant] = held + n
	return nil
}

// give takes back what take let in.
func (s *share) give(tenant string, n int64) {
	s.total -= n
	if s.held[tenant] -= n; s.held[tenant] <= 0 {
		delete(s.held, tenant)
	}
}

// largest is what the tenant with the most has in flight.
func (s *share) largest() int64 {
	var most int64
	for _, n := range s.held {
		most = max(most, n)
	}
	return most
}
