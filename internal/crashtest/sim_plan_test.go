package crashtest

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// simPlan is all that a seed decides before a simulation begins: what is asked for, how the parts are set, which
// processes die when, and which faults come.
type simPlan struct {
	seed uint64

	clients, requests int           // so many each
	think             time.Duration // the longest between two requests of a client
	pace              time.Duration // the longest of one operation

	maxEvents       int
	maxAge          time.Duration
	gateAge, retain time.Duration
	retainPartial   time.Duration
	keepCopies      time.Duration // retention::mirror
	gateBytes       int64
	uploads         int
	sweep, active   time.Duration
	foreign         time.Duration // other commits to the tables come this often; 0: none
	onlineRecovery  bool          // after the loss of a volume the log runs again first
	lateRecovery    bool          // and that is when the retention of the mirror has long been at work
	operator        bool          // what is in poison/ is put back while the drain is away
	deaths          []death
	faults          []episode
	favored         string // who gets its turn before the others, as a rule
	roomy           bool   // no limit of the disk is near
	standby         bool   // two drains are offered to the root
	rots            []rot
	back            back // of the catalog; zero: it stays
	days            days // zero: rows stay for ever
}

// death ends processes.
type death struct {
	kind   string
	after  int // operations after the last one
	policy simfs.Policy
}

// The ends of processes.
const (
	stopped      = "SIGTERM" // to both, in order
	killed       = "kill -9" // both
	writerKilled = "kill -9 writer"
	drainKilled  = "kill -9 drain"
	powerCut     = "power cut"
	volumeLost   = "volume lost"

	standbyKilled = "kill -9 standby"
)

var deaths = []string{stopped, killed, killed, writerKilled, drainKilled, drainKilled, powerCut, powerCut, powerCut, volumeLost}

// episode is a time in which operations fail.
type episode struct {
	kind  string
	from  int // operation
	count int // operations; and no longer than episodeTime
	odds  int // one in so many of those that match fails

	since time.Time // when it began
}

// episodeTime bounds an episode in which nothing changes, and so no operations are counted.
const episodeTime = 6 * time.Second

// simFaults are the faults of the disk: what fails, and how.
var simFaults = map[string]fault{
	"sync-eio":    {kinds: []simfs.Kind{simfs.Sync}, err: syscall.EIO},
	"syncdir-eio": {kinds: []simfs.Kind{simfs.SyncDir}, err: syscall.EIO},
	"write-eio":   {kinds: []simfs.Kind{simfs.Writev, simfs.WriteAt}, err: syscall.EIO},
	"write-short": {kinds: []simfs.Kind{simfs.Writev}, err: &simfs.ShortWrite{Bytes: 900, Err: syscall.ENOSPC}},
	"trunc-eio":   {kinds: []simfs.Kind{simfs.Writev, simfs.Truncate}, err: &simfs.ShortWrite{Bytes: 4096, Err: syscall.EIO}},
	"names-eio":   {kinds: []simfs.Kind{simfs.Create, simfs.Link, simfs.Rename, simfs.Remove, simfs.Touch}, err: syscall.EIO},
	"disk-full":   {kinds: []simfs.Kind{simfs.Writev, simfs.Create, simfs.Link, simfs.Rename, simfs.Mkdir}, err: syscall.ENOSPC},
	"read-eio":    {kinds: []simfs.Kind{simfs.Open, simfs.OpenRW, simfs.ReadAt}, err: syscall.EIO},
	"list-eio":    {kinds: []simfs.Kind{simfs.List, simfs.Stat, simfs.FileStat}, err: syscall.EIO},
}

// Faults beyond the disk, told by their kind to whoever called.
const (
	storeRefuses = "store-refuses" // nothing done, an error
	storeLoses   = "store-loses"   // done, an error
	storeLate    = "store-late"    // an error, done later
	storeHangs   = "store-hangs"   // no answer, done or not

	catalogAway      = "catalog-away"
	catalogConflicts = "catalog-conflicts" // somebody else's commit came first
	catalogLoses     = "catalog-loses"
	catalogLate      = "catalog-late"
	catalogHangs     = "catalog-hangs"
)

var beyond = []string{
	storeRefuses, storeLoses, storeLate, storeHangs,
	catalogAway, catalogConflicts, catalogLoses, catalogLate, catalogHangs,
}

// planOf draws what a seed stands for.
func planOf(seed uint64) simPlan {
	rng := rand.New(rand.NewPCG(seed, 1))
	between := func(least, most int) int { return least + rng.IntN(most-least+1) }
	coin := func() bool { return rng.IntN(2) == 0 }
	ms := func(least, most int) time.Duration { return time.Duration(between(least, most)) * time.Millisecond }
	p := simPlan{
		seed: seed, clients: between(2, 4), requests: between(5, 14), think: ms(20, 3000), pace: ms(1, 12),
		maxEvents: between(1, 12), maxAge: ms(200, 8000), gateAge: ms(1, 6000), retain: ms(1, 30_000),
		gateBytes: int64(between(1, 40)) << 10, uploads: between(1, 4), sweep: ms(2000, 20_000),
		onlineRecovery: coin(), lateRecovery: rng.IntN(3) == 0, operator: coin(), roomy: rng.IntN(4) > 0,
	}
	if coin() {
		p.active = ms(300, 4000)
	}
	if coin() {
		p.foreign = ms(500, 6000)
	}
	if coin() {
		p.favored = []string{"writer", "drain"}[rng.IntN(2)]
	}
	for range between(0, 4) {
		p.deaths = append(p.deaths, death{
			kind: deaths[rng.IntN(len(deaths))], after: between(1, 400), policy: simfs.Policies()[rng.IntN(3)],
		})
	}
	kinds := append(names(simFaults), beyond...)
	for range between(0, 5) {
		p.faults = append(p.faults, episode{
			kind: kinds[rng.IntN(len(kinds))], from: between(1, 900), count: []int{1, 3, 12, 40}[rng.IntN(4)], odds: between(1, 3),
		})
	}
	if p.standby = rng.IntN(3) == 0; p.standby {
		for range between(1, 2) { // the one that works dies while the other waits
			p.deaths = append(p.deaths, death{kind: drainKilled, after: between(20, 250)})
		}
		rng.Shuffle(len(p.deaths), func(i, j int) { p.deaths[i], p.deaths[j] = p.deaths[j], p.deaths[i] })
	}
	if rng.IntN(3) == 0 {
		for range between(1, 3) {
			p.rots = append(p.rots, rot{
				where: rotPlaces[rng.IntN(len(rotPlaces))], at: between(50, 900), block: coin(), pick: rng.Uint64(),
			})
		}
	}
	lost := slices.ContainsFunc(p.deaths, func(d death) bool { return d.kind == volumeLost }) // and with it what tells of the catalog
	if rng.IntN(4) == 0 && !lost {
		p.back.saved = between(30, 500)
		p.back.restored = p.back.saved + between(10, 400)
	}
	p.retainPartial, p.keepCopies = p.retain, mirror.LeastKeep
	if rng.IntN(5) == 0 && len(p.deaths) > 0 {
		p.days = days{
			keep: time.Duration(between(24, 60)) * time.Hour, rest: between(1, len(p.deaths)), hours: between(20, 150), idle: coin(), every: ms(500, 20_000),
		}
		for range 2 { // it is not known what became of a commit, while days go
			p.faults = append(p.faults, episode{
				kind: []string{catalogLoses, catalogLate}[rng.IntN(2)], from: between(1, 900), count: 40, odds: 1,
			})
		}
		if coin() { // as shipped
			p.retainPartial, p.keepCopies = 24*time.Hour, 24*time.Hour
		}
	}
	return p
}
