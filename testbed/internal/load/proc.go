package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const clockTick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on

// Usage is what a process has used so far.
type Usage struct {
	CPU          time.Duration
	WrittenBytes int64 // handed to the disk
}

// ReadUsage reads the CPU time and the disk writes of a process from /proc.
func ReadUsage(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("read usage: %w", err)
	}
	// The second field is the name in brackets and may hold anything; utime and stime are the 12th and 13th after it.
	_, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return Usage{}, fmt.Errorf("read usage: /proc/%d/stat has an unknown form", pid)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("read usage: %w", err)
		}
		ticks += n
	}
	u := Usage{CPU: time.Duration(ticks) * clockTick}
	if io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid)); err == nil {
		u.WrittenBytes = number(string(io), "\nwrite_bytes:")
	}
	return u, nil
}

// PeakRSS is the most memory the process ever held, in bytes.
func PeakRSS(pid int) (int64, error) { return memory(pid, "VmHWM:") }

// RSS is the memory that the process holds, in bytes.
func RSS(pid int) (int64, error) { return memory(pid, "VmRSS:") }

func memory(pid int, name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return number(string(status), name) * 1024, nil
}

// ResetPeakRSS makes the kernel count the peak from now on.
func ResetPeakRSS(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("reset peak memory: %w", err)
	}
	return nil
}

func number(text, name string) int64 {
	_, rest, _ := strings.Cut(text, name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
