package mirror

// SetMost has a run end its work after n objects, for tests.
func (r *Retention) SetMost(n int) { r.most = n }
