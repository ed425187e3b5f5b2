// Package load sends OTLP to a collector and remembers which requests were acknowledged.
//
// A request is encoded once; every send copies it and patches record ids, trace ids and times at places found by
// walking the protobuf wire format, so that the client costs little of the machine it shares with the server.
// Request n of a run with batch size B carries the records n*B to n*B+B-1; record m carries the text
// "<run>-<m in 12 digits>" in its attribute load.id. A request is never sent twice: a retry is a new request.
package load
