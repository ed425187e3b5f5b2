package expect

// metricRows makes one row per data point. A metric without points makes none: its name and unit are stored nowhere,
// which docs/tables.md says, so all its fields count as seen.
func metricRows(n *node) []Row {
	base := Row{
		"metric_name": name(n.str("name")), "unit": text(n.str("unit")), "description": text(n.str("description")),
	}
	base.attributes(n, "metadata", "metadata", "metadata_types")
	var out []Row
	add := func(typ string, data *node, point func(Row, *node)) {
		for _, p := range data.list("data_points") {
			r := emptyPoint()
			for column, c := range base {
				r[column] = c
			}
			r["metric_type"] = exactly(typ)
			pointColumns(r, p)
			point(r, p)
			out = append(out, r)
		}
	}
	if d := n.msg("gauge"); d != nil {
		add("gauge", d, numberPoint)
	}
	if d := n.msg("sum"); d != nil {
		temporality := enum(d.enum("aggregation_temporality", "AGGREGATION_TEMPORALITY_"))
		monotonic := boolean(d.bool("is_monotonic"))
		add("sum", d, func(r Row, p *node) {
			numberPoint(r, p)
			r["aggregation_temporality"], r["is_monotonic"] = temporality, monotonic
		})
	}
	if d := n.msg("histogram"); d != nil {
		temporality := enum(d.enum("aggregation_temporality", "AGGREGATION_TEMPORALITY_"))
		add("histogram", d, func(r Row, p *node) {
			histogramPoint(r, p)
			r["aggregation_temporality"] = temporality
		})
	}
	if d := n.msg("exponential_histogram"); d != nil {
		temporality := enum(d.enum("aggregation_temporality", "AGGREGATION_TEMPORALITY_"))
		add("exponential_histogram", d, func(r Row, p *node) {
			exponentialPoint(r, p)
			r["aggregation_temporality"] = temporality
		})
	}
	if d := n.msg("summary"); d != nil {
		add("summary", d, summaryPoint)
	}
	return out
}

// emptyPoint is a row of which no type-specific column is set.
func emptyPoint() Row {
	r := Row{}
	position(r)
	for _, column := range []string{
		"aggregation_temporality", "is_monotonic", "value_double", "value_int", "count", "sum", "min", "max", "bucket_counts",
		"explicit_bounds", "scale", "zero_count", "zero_threshold", "positive_offset", "positive_bucket_counts",
		"negative_offset", "negative_bucket_counts", "quantiles",
	} {
		r[column] = exactly(nil)
	}
	r["exemplars"] = list(nil)
	return r
}

func pointColumns(r Row, p *node) {
	at := p.uint("time_unix_nano")
	r["timestamp"], r["timestamp_ns"] = effective(at)
	r["time_unix_nano"] = rawTime(at)
	r["start_time_unix_nano"] = rawTime(p.uint("start_time_unix_nano"))
	r["flags"] = count(p.uint("flags"))
	r.attributes(p, "attributes", "attributes", "attribute_types")
}

// value sets value_double or value_int from a oneof; a point may have neither.
func value(r Row, p *node) {
	r["value_double"], r["value_int"] = exactly(nil), exactly(nil)
	if p.has("as_double") {
		r["value_double"] = double(p.float("as_double"))
	}
	if p.has("as_int") {
		r["value_int"] = exactly(decimal(p.int("as_int")))
	}
}

func numberPoint(r Row, p *node) {
	value(r, p)
	r["exemplars"] = list(exemplars(p))
}

// optional sets columns from fields that know "not set".
func optional(r Row, p *node, names ...string) {
	for _, field := range names {
		r[field] = exactly(nil)
		if p.has(field) {
			r[field] = double(p.float(field))
		}
	}
}

func histogramPoint(r Row, p *node) {
	optional(r, p, "sum", "min", "max")
	r["count"] = exactly(decimal(clampInt(p.uint("count"))))
	r["bucket_counts"], r["explicit_bounds"] = counts(p.uints("bucket_counts")), doubles(p.floats("explicit_bounds"))
	r["exemplars"] = list(exemplars(p))
}

func exponentialPoint(r Row, p *node) {
	optional(r, p, "sum", "min", "max")
	r["count"] = exactly(decimal(clampInt(p.uint("count"))))
	r["scale"] = exactly(decimal(p.int("scale")))
	r["zero_count"] = exactly(decimal(clampInt(p.uint("zero_count"))))
	r["zero_threshold"] = double(p.float("zero_threshold"))
	for _, side := range []string{"positive", "negative"} {
		r[side+"_offset"], r[side+"_bucket_counts"] = number(0), counts(nil)
		if b := p.msg(side); b != nil {
			r[side+"_offset"] = number(b.int("offset"))
			r[side+"_bucket_counts"] = counts(b.uints("bucket_counts"))
		}
	}
	r["exemplars"] = list(exemplars(p))
}

func summaryPoint(r Row, p *node) {
	r["count"] = exactly(decimal(clampInt(p.uint("count"))))
	r["sum"] = double(p.float("sum"))
	var quantiles []Row
	for _, q := range p.list("quantile_values") {
		quantiles = append(quantiles, Row{"quantile": double(q.float("quantile")), "value": double(q.float("value"))})
	}
	r["quantiles"] = list(quantiles)
}

func exemplars(p *node) []Row {
	var out []Row
	for _, e := range p.list("exemplars") {
		r := Row{
			"timestamp_ns": clampedTime(e.uint("time_unix_nano")),
			"trace_id":     id(e.bytes("trace_id")), "span_id": id(e.bytes("span_id")),
		}
		value(r, e)
		r.attributes(e, "filtered_attributes", "filtered_attributes", "filtered_attribute_types")
		out = append(out, r)
	}
	return out
}
