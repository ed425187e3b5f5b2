// services runs one server of ../../internal/services for a test of another module.
//
//	services postgres|s3
//
// It prints a line of JSON when the server answers: what a client needs. Then it takes the words start, stop and kill, one
// a line, and answers each with a line of JSON: {} or {"error": text}. When its input ends, the server is stopped and its
// data is removed: no server outlives the test that started it, however that test ends.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/siglakecol/siglakecol/testbed/internal/services"
)

func main() {
	// A terminal's interrupt goes to the whole group. The end of the input follows, and is what ends this program.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		os.Exit(1)
	}
}

func start(args []string) (services.Service, error) {
	if len(args) == 1 && args[0] == "postgres" {
		return services.StartPostgres()
	}
	if len(args) == 1 && args[0] == "s3" {
		return services.StartS3()
	}
	return nil, fmt.Errorf("say postgres or s3, not %q", args)
}

func run(args []string, in io.Reader, out io.Writer) error {
	answer := json.NewEncoder(out)
	s, err := start(args)
	if err != nil {
		return answer.Encode(map[string]string{"error": err.Error()})
	}
	if err := answer.Encode(s.Info()); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		reply := map[string]string{}
		if err := do(s, lines.Text()); err != nil {
			reply["error"] = err.Error()
		}
		if err := answer.Encode(reply); err != nil {
			break // nobody listens any more
		}
	}
	return s.Close()
}

func do(s services.Service, word string) error {
	switch word {
	case "start":
		return s.Start()
	case "stop":
		return s.Stop()
	case "kill":
		return s.Kill()
	default:
		return fmt.Errorf("say start, stop or kill, not %q", word)
	}
}
