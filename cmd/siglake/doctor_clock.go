package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// kernel is what doctor asks the operating system.
type kernel struct {
	volume func(dir string) (vfs.Volume, error)
	// synchronised tells whether the kernel's clock is kept by NTP, PTP or their like.
	synchronised func() (bool, error)
}

// thisKernel is the running one.
func thisKernel() kernel { return kernel{volume: vfs.VolumeOf, synchronised: synchronised} }

// synchronised asks for the state of the clock and changes nothing.
func synchronised() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, err
}

// The checks of the clock.
var (
	clockSync = check{
		name: "clock-synchronised", costs: "event times and ages are off; far enough off, object stores and catalogs refuse",
		fix: "run chronyd, systemd-timesyncd or their like on the host",
	}
	clockSteady = check{
		name: "clock-steady", costs: "ages are wrong for a while; a clock set back by more than a minute stops commits until it has caught up",
		fix: "let NTP slew the clock instead of setting it",
	}
)

// checkClock looks at the clock of this machine. began is when doctor began.
func (d *doctor) checkClock(ctx context.Context, began time.Time) {
	d.silent = false
	d.try(ctx, clockSync, func(context.Context) verdict {
		kept, err := d.kernel.synchronised()
		switch {
		case err != nil:
			return verdict{unknown, "the kernel does not say: " + err.Error(), ""}
		case !kept:
			return verdict{warned, "the kernel says that nothing keeps its clock", ""}
		}
		return verdict{passed, "the kernel says that its clock is kept", ""}
	})
	d.try(ctx, clockSteady, func(context.Context) verdict {
		now := time.Now()
		return judgeClock(now.Round(0).Sub(began.Round(0)), now.Sub(began))
	})
}

// judgeClock compares how far the clock of the day and the monotonic clock have come in the same time.
func judgeClock(day, monotonic time.Duration) verdict {
	const leap = 500 * time.Millisecond
	if off := day - monotonic; off.Abs() > leap {
		return verdict{warned, fmt.Sprintf("the clock was set by %s while doctor ran", off.Round(time.Millisecond)), ""}
	}
	return verdict{passed, fmt.Sprintf("not set within the %s that this took", monotonic.Round(time.Millisecond)), ""}
}
