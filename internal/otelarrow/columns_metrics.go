package otelarrow

func metricsColumns() []column {
	return concat(
		[]column{
			{id: 1, name: "timestamp", kind: kindMicros, from: "timestamp_ns", required: true, source: "timestamp_ns in whole microseconds, floor"},
			{id: 2, name: "timestamp_ns", kind: kindLong, required: true, source: "time_unix_nano, else arrival; clamped to 2262-04-11"},
			{id: 9, name: "time_unix_nano", kind: kindRawTime, null: "0 (not set)", source: "DataPoint.time_unix_nano; over 2^63-1 in two's complement"},
			{id: 100, name: "start_time_unix_nano", kind: kindRawTime, null: "0 (not set)", source: "DataPoint.start_time_unix_nano; over 2^63-1 in two's complement"},
		},
		inGroup(groupMetric,
			column{id: 101, name: "metric_name", kind: kindText, source: "Metric.name"},
			column{id: 102, name: "metric_type", kind: kindText, source: "gauge, sum, histogram, exponential_histogram or summary"},
			column{id: 103, name: "unit", kind: kindTextOrNull, null: "empty", source: "Metric.unit"},
			column{id: 104, name: "description", kind: kindTextOrNull, null: "empty", source: "Metric.description"},
			column{id: 105, name: "metadata", kind: kindAttrs, source: "Metric.metadata, as attributes"},
			column{id: 108, name: "metadata_types", kind: kindAttrTypes, from: "metadata", null: "all values are strings", source: "type of each metadata value that is not a string"},
			column{id: 111, name: "aggregation_temporality", kind: kindTemporality, null: "gauge or summary", source: "aggregation_temporality without AGGREGATION_TEMPORALITY_; unknown numbers in decimal"},
			column{id: 112, name: "is_monotonic", kind: kindBool, null: "not a sum", source: "Sum.is_monotonic"},
		),
		serviceColumn(),
		[]column{
			{id: 113, name: "flags", kind: kindUint32, source: "DataPoint.flags; 1 = no recorded value"},
			{id: 114, name: "value_double", kind: kindDouble, null: "not a gauge or sum, or not a double", source: "NumberDataPoint.as_double"},
			{id: 115, name: "value_int", kind: kindLong, null: "not a gauge or sum, or not an integer", source: "NumberDataPoint.as_int"},
		},
		inGroup(groupDistribution,
			column{id: 116, name: "count", kind: kindLong, null: "gauge or sum", source: "DataPoint.count, clamped to 2^63-1"},
			column{id: 117, name: "sum", kind: kindDouble, null: "gauge or sum, or not sent", source: "DataPoint.sum"},
			column{id: 118, name: "min", kind: kindDouble, null: "not a histogram, or not sent", source: "DataPoint.min"},
			column{id: 119, name: "max", kind: kindDouble, null: "not a histogram, or not sent", source: "DataPoint.max"},
		),
		inGroup(groupHistogram,
			column{id: 120, name: "bucket_counts", kind: kindLongs, null: "not a histogram", source: "HistogramDataPoint.bucket_counts, each clamped to 2^63-1"},
			column{id: 122, name: "explicit_bounds", kind: kindDoubles, null: "not a histogram", source: "HistogramDataPoint.explicit_bounds"},
		),
		inGroup(groupExponential, exponentialColumns()...),
		inGroup(groupSummary, column{
			id: 140, name: "quantiles", kind: kindStructs, null: "not a summary", source: "SummaryDataPoint.quantile_values, in order",
			fields: []column{
				{id: 142, name: "quantile", kind: kindDouble, source: "ValueAtQuantile.quantile"},
				{id: 143, name: "value", kind: kindDouble, source: "ValueAtQuantile.value"},
			},
		}),
		[]column{{
			id: 150, name: "exemplars", kind: kindStructs, source: "DataPoint.exemplars, in order; an empty list when there are none",
			fields: []column{
				{id: 152, name: "timestamp_ns", kind: kindClampNanos, from: "time_unix_nano", null: "0 (not set)", source: "Exemplar.time_unix_nano, clamped to 2^63-1"},
				{id: 153, name: "value_double", kind: kindDouble, null: "not a double", source: "Exemplar.as_double"},
				{id: 154, name: "value_int", kind: kindLong, null: "not an integer", source: "Exemplar.as_int"},
				{id: 155, name: "trace_id", kind: kindTraceID, null: "empty or all zero", source: "Exemplar.trace_id, lower-case hex"},
				{id: 156, name: "span_id", kind: kindSpanID, null: "empty or all zero", source: "Exemplar.span_id, lower-case hex"},
				{id: 157, name: "filtered_attributes", kind: kindAttrs, source: "Exemplar.filtered_attributes, as attributes"},
				{id: 160, name: "filtered_attribute_types", kind: kindAttrTypes, from: "filtered_attributes", null: "all values are strings", source: "type of each value that is not a string"},
			},
		}},
		attributeColumns(10, "", "DataPoint")[:2], // a data point has no dropped count
		resourceColumns("ResourceMetrics"),
		scopeColumns("ScopeMetrics"),
		arrivalColumn(),
		segmentColumns(),
	)
}

func exponentialColumns() []column {
	const null = "not an exponential histogram"
	return []column{
		{id: 124, name: "scale", kind: kindInt, null: null, source: "ExponentialHistogramDataPoint.scale"},
		{id: 125, name: "zero_count", kind: kindLong, null: null, source: "ExponentialHistogramDataPoint.zero_count, clamped to 2^63-1"},
		{id: 126, name: "zero_threshold", kind: kindDouble, null: null, source: "ExponentialHistogramDataPoint.zero_threshold"},
		{id: 127, name: "positive_offset", kind: kindInt, null: null, source: "positive.offset"},
		{id: 128, name: "positive_bucket_counts", kind: kindLongs, null: null, source: "positive.bucket_counts, each clamped to 2^63-1"},
		{id: 130, name: "negative_offset", kind: kindInt, null: null, source: "negative.offset"},
		{id: 131, name: "negative_bucket_counts", kind: kindLongs, null: null, source: "negative.bucket_counts, each clamped to 2^63-1"},
	}
}
