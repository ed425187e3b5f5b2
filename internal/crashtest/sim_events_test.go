package crashtest

import (
	"path/filepath"
	"strings"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// moves are the events that a link between two states stands for.
var moves = map[[2]segment.State]string{
	{segment.Active, segment.Sealed}:               "seal",
	{segment.Active, segment.MirrorPending}:        "seal",
	{segment.Sealed, segment.MirrorPending}:        "sweep",
	{segment.Sealed, segment.Processing}:           "claim",
	{segment.Processing, segment.Committed}:        "mark",
	{segment.Processing, segment.Sealed}:           "release",
	{segment.Processing, segment.Orphans}:          "set apart",
	{segment.Orphans, segment.Committed}:           "dispose",
	{segment.Orphans, segment.Sealed}:              "dispose",
	{segment.Poison, segment.Sealed}:               "requeue",
	{segment.Poison, segment.Poison}:               "salvage",
	{segment.Active, segment.Poison}:               "quarantine",
	{segment.Processing, segment.Poison}:           "quarantine",
	{segment.Sealed, segment.Poison}:               "quarantine",
	{segment.MirrorPending, segment.MirrorPending}: "",
}

// unknown is what no event of docs/lifecycle.md does.
const unknown = "unknown"

// part is what belongs to an event that another operation stands for: a sync, the end of a move.
const part = ""

// eventOf is the event of docs/lifecycle.md that an operation of a process belongs to.
func (w *sim) eventOf(p *proc, op simfs.Op) string {
	switch op.Kind {
	case simfs.Sync, simfs.SyncDir, simfs.Lock, otherCommit, storeLands, commitLands:
		return part
	case commitKind:
		return "commit"
	case dropKind:
		return "drop days"
	case storePut, storeReplace:
		if strings.HasPrefix(op.Name, "_active/") {
			return "active upload"
		}
		return "upload, confirm"
	case storeDelete:
		if p.name == theWriter {
			return "active upload"
		}
		return "delete from the mirror"
	case simfs.Mkdir:
		if p.name == theOperator {
			return "restore"
		}
		return "make lane"
	}
	name := strings.TrimPrefix(op.Name, root+"/")
	switch depth := strings.Count(name, "/"); {
	case depth >= 3:
		return w.eventInState(p, op)
	case p.name == theOperator && depth == 0:
		return "restore"
	case p.name == theOperator:
		return part // it clears up as a drain does at its start
	}
	switch base := strings.TrimSuffix(filepath.Base(name), ".tmp"); {
	case base == "siglake-wal.json":
		return "make root"
	case base == "siglake-wal.reserve":
		return "reserve"
	case base == "drain.wake":
		return "wake"
	case base == segment.RetentionName:
		return "delete from the mirror"
	case base == "head":
		return "head"
	case base == "owner":
		return "bind table"
	case base == "numbers.json":
		return "audit"
	case strings.HasSuffix(base, ".void") && op.Kind == simfs.Remove:
		return "audit"
	case strings.HasSuffix(base, ".void"):
		return "void"
	}
	return unknown
}

// eventInState is eventOf for what happens in the directory of a state.
func (w *sim) eventInState(p *proc, op simfs.Op) string {
	st := stateOf(op.Name)
	switch {
	case st == segment.Poison && strings.Contains(op.Name, ".json"):
		if p.name == theOperator {
			return part // of requeue or salvage
		}
		return "quarantine"
	case op.Kind == simfs.Link && vfs.IsTemp(op.Name):
		return "restore"
	case op.Kind == simfs.Link:
		event, ok := moves[[2]segment.State{st, stateOf(op.To)}]
		switch {
		case !ok:
			return unknown
		case event == "seal" && p.log.Load() == nil:
			return "recover"
		case event == "dispose" && p.name == theOperator:
			return "orphans requeue"
		}
		return event
	case p.name == theOperator:
		return part
	case st == segment.Active:
		return eventInActive(p, op)
	case op.Kind == simfs.Touch:
		return part // of mark or dispose
	case op.Kind != simfs.Remove:
		return unknown
	case st == segment.Committed:
		return "retire"
	case st == segment.MirrorPending:
		if _, err := w.disk.Stat(filepath.Join(filepath.Dir(filepath.Dir(op.Name)), string(segment.Committed), filepath.Base(op.Name))); err == nil {
			if _, there := w.store.Objects()[strings.TrimPrefix(filepath.Dir(filepath.Dir(op.Name)), root+"/")+"/"+filepath.Base(op.Name)]; !there {
				return "give up a pin"
			}
		}
		return "unpin"
	}
	return part
}

// eventInActive is eventOf for active/.
func eventInActive(p *proc, op simfs.Op) string {
	switch {
	case p.name != theWriter:
		return unknown
	case p.log.Load() == nil:
		return "recover"
	case vfs.IsTemp(op.Name) || op.Kind == simfs.Truncate:
		return "write refused"
	case op.Kind == simfs.Create:
		return "open"
	case op.Kind == simfs.Writev:
		return "append"
	}
	return part
}

// meet notes which event has come.
func (w *sim) meet(p *proc, op simfs.Op) {
	switch event := w.eventOf(p, op); event {
	case part:
	case unknown:
		w.unknown = append(w.unknown, p.name+" "+w.stable(op.String()))
	default:
		if w.met[event] == nil {
			w.met[event] = map[string]bool{}
		}
		w.met[event][p.name] = true
	}
}
