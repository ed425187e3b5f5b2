package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// copiers is how many objects a recovery reads at a time.
const copiers = 8

// recovery rebuilds a log of what the loads before it have left in the S3 server, from there and from the same files as
// file://; and copies them with a sync of each as the limit of the disk.
func (b *mirrorBench) recovery(ctx context.Context) (err error) {
	bin, err := testenv.CLI()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "siglake-bench-recovery-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	objects := filepath.Join(b.s3.Root, b.s3.Bucket, "wal-mirror")
	files, size, err := segments(objects)
	if err != nil {
		return fmt.Errorf("look for what a load has left: %w", err)
	}
	fmt.Printf("\nRecovery of %d segments, %.0f MiB\n\n| from | MiB/s | CPU s per GiB | the S3 server's |\n|---|--:|--:|--:|\n", len(files), size/(1<<20))
	show := func(from string, took time.Duration, ours, store time.Duration) {
		fmt.Printf("| %s | %.0f | %.2f | %.2f |\n", from, size/(1<<20)/took.Seconds(), ours.Seconds()/size*(1<<30), store.Seconds()/size*(1<<30))
	}
	begin := time.Now()
	if err := copyAll(files, filepath.Join(dir, "copies")); err != nil {
		return err
	}
	show("(the disk: a plain copy, each file synced, eight at a time)", time.Since(begin), 0, 0)
	for i, from := range []string{"s3://" + b.s3.Bucket + "/wal-mirror", "file://" + objects} {
		before, err := load.ReadUsage(b.s3.PID())
		if err != nil {
			return err
		}
		took, cpu, err := recoverFrom(ctx, bin, from, filepath.Join(dir, fmt.Sprint("wal-", i)), b.s3)
		if err != nil {
			return err
		}
		after, err := load.ReadUsage(b.s3.PID())
		if err != nil {
			return err
		}
		scheme, _, _ := strings.Cut(from, ":")
		show(scheme+"://", took, cpu, after.CPU-before.CPU)
	}
	return nil
}

func segments(dir string) (files []string, size float64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".arrow") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files = append(files, path)
			size += float64(info.Size())
		}
		return err
	})
	return files, size, err
}

// recoverFrom runs siglake wal-recover.
func recoverFrom(ctx context.Context, bin, from, to string, s3 *services.S3) (took, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, bin, "wal-recover", "--from", from, "--to", to)
	cmd.Env = append(os.Environ(), s3.Env()...)
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("recover from %s: %w\n%s", from, err, out)
	}
	return time.Since(begin), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// copyAll is what a recovery cannot be faster than on this disk.
func copyAll(files []string, to string) error {
	if err := os.Mkdir(to, 0o750); err != nil {
		return err
	}
	slots := make(chan struct{}, copiers)
	errs := make([]error, len(files))
	var group sync.WaitGroup
	for i, file := range files {
		slots <- struct{}{}
		group.Go(func() {
			errs[i] = copyOne(file, filepath.Join(to, filepath.Base(file)))
			<-slots
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func copyOne(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
