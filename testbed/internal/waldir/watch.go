package waldir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Event is a change of a directory that a Watch sees.
type Event struct {
	Dir  string
	Name string
	Mask uint32
}

// Created says whether a name appeared: made, linked or renamed to.
func (e Event) Created() bool { return e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 }

// Modified says whether bytes were written.
func (e Event) Modified() bool { return e.Mask&unix.IN_MODIFY != 0 }

// Watch calls a function for each change of its directories, on one goroutine that Close ends and awaits.
type Watch struct {
	fd   int
	wake [2]int
	done chan struct{}

	mu   sync.Mutex
	dirs map[int32]string
}

// NewWatch starts a watch without directories. each must not block for long: the kernel queues what it misses.
func NewWatch(each func(Event)) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("start inotify: %w", err)
	}
	w := &Watch{fd: fd, done: make(chan struct{}), dirs: map[int32]string{}}
	if err := unix.Pipe2(w.wake[:], unix.O_CLOEXEC); err != nil {
		return nil, errors.Join(fmt.Errorf("make wake-up pipe: %w", err), unix.Close(fd))
	}
	go w.loop(each)
	return w, nil
}

// Add watches a directory. A second Add of the same one does nothing.
func (w *Watch) Add(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	wd, err := unix.InotifyAddWatch(w.fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MODIFY|unix.IN_DELETE)
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	w.dirs[int32(wd)] = dir
	return nil
}

// AddAll watches every directory that a pattern matches.
func (w *Watch) AddAll(pattern string) error {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := w.Add(d); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watch) loop(each func(Event)) {
	defer close(w.done)
	buf := make([]byte, 64<<10)
	poll := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}, {Fd: int32(w.wake[0]), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if poll[1].Revents != 0 {
			return
		}
		n, err := unix.Read(w.fd, buf)
		if err != nil {
			continue
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			wd := int32(binary.LittleEndian.Uint32(buf[at:]))
			mask := binary.LittleEndian.Uint32(buf[at+4:])
			size := int(binary.LittleEndian.Uint32(buf[at+12:]))
			name := strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+size]), "\x00")
			at += unix.SizeofInotifyEvent + size
			w.mu.Lock()
			dir := w.dirs[wd]
			w.mu.Unlock()
			each(Event{dir, name, mask})
		}
	}
}

// Close ends the watch and waits until no call of its function runs.
func (w *Watch) Close() error {
	_, err := unix.Write(w.wake[1], []byte{0})
	<-w.done
	return errors.Join(err, unix.Close(w.fd), unix.Close(w.wake[0]), unix.Close(w.wake[1]))
}
