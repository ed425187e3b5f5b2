// Package services runs the servers that tests need: PostgreSQL and an S3 server (versitygw), each on a loopback port
// and in a folder of its own, which is removed when it stops. A server that was killed can be started again on the same
// port and the same data. Nothing is skipped: a part that is missing is an error with the command that brings it.
//
// Tests of the testbed use the package. Tests of the product's module, which cannot import it, start the same servers
// through ../../cmd/services.
package services

// Service is a server that tests may stop, kill and start again.
type Service interface {
	// Start starts the server and returns when it answers.
	Start() error
	// Stop ends it in an orderly way; Kill ends it with SIGKILL. Both return when it is gone; a second call does nothing.
	Stop() error
	Kill() error
	// Close stops the server and removes its data.
	Close() error
	// Info is what a client needs: see the fields of Postgres and S3.
	Info() map[string]string
}

var (
	_ Service = (*Postgres)(nil)
	_ Service = (*S3)(nil)
)
