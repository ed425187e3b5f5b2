package crashtest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// at is where a life is hit. It names one state, and is what the flags of the test say.
type at struct {
	policy simfs.Policy
	seed   uint64
	k      int // the machine stops before this operation of the life
	k2     int // and before this one of the recovery; letThrough: it does not
	fault  string
	n      int  // the fault hits this one of the operations it matches
	late   bool // in the recovery, not in the life
	bug    string
}

const (
	letThrough = -1
	every      = -2 // flags: all of them
)

// rng is the source for one purpose at one place.
func (a at) rng(purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(a.seed<<32|uint64(a.k+2), uint64(a.k2+2)<<16|uint64(a.policy)<<8|purpose))
}

// The purposes.
const (
	forLife uint64 = iota
	forFirst
	forRecovery
	forSecond
)

// String is the line that reproduces it.
func (a at) String() string {
	s := fmt.Sprintf("go test ./internal/crashtest -run TestSweep -args -policy=%s -seed=%d -k=%d -k2=%d", a.policy, a.seed, a.k, a.k2)
	if a.fault != "" {
		s += fmt.Sprintf(" -fault=%s -n=%d -late=%t", a.fault, a.n, a.late)
	}
	if a.bug != "" {
		s += " -bug=" + a.bug
	}
	return s
}

var (
	policyFlag = flag.String("policy", "", "what the disk keeps: KeepNone, KeepPrefix, KeepAny, KeepAll; empty: each")
	seedFlag   = flag.Uint64("seed", 1, "the order of a life, and what the disk keeps")
	kFlag      = flag.Int("k", every, "stop the machine before this operation of the life; -2: before each")
	k2Flag     = flag.Int("k2", every, "and before this one of the recovery; -1: not; -2: before each")
	faultFlag  = flag.String("fault", "", "a fault of TestFaults")
	nFlag      = flag.Int("n", 0, "the fault hits this operation of its kind")
	lateFlag   = flag.Bool("late", false, "… of the recovery, not of the life")
	bugFlag    = flag.String("bug", "", "a bug of TestPlanted")
)

// given is the place that the flags say, and the policies.
func given() (at, []simfs.Policy, error) {
	a := at{seed: *seedFlag, k: *kFlag, k2: *k2Flag, fault: *faultFlag, n: *nFlag, late: *lateFlag, bug: *bugFlag}
	var errs []error
	if _, ok := faults[a.fault]; !ok && a.fault != "" {
		errs = append(errs, fmt.Errorf("-fault=%s: not one of %s", a.fault, strings.Join(names(faults), ", ")))
	}
	if _, ok := bugs[a.bug]; !ok && a.bug != "" {
		errs = append(errs, fmt.Errorf("-bug=%s: not one of %s", a.bug, strings.Join(names(bugs), ", ")))
	}
	policies := simfs.Policies()
	if *policyFlag != "" {
		i := slices.IndexFunc(policies, func(p simfs.Policy) bool { return p.String() == *policyFlag })
		if i < 0 {
			return a, nil, fmt.Errorf("-policy=%s: not one of %v", *policyFlag, policies)
		}
		policies = policies[i : i+1]
	}
	return a, policies, errors.Join(errs...)
}
