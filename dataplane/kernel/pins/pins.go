// SPDX-License-Identifier: Apache-2.0

// This file finds the place for pins in a BPF file system, mounts one where there
// is none, and lets one process at a time use an instance. It never looks into a map.

package pins

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// UsualFileSystem is where distributions mount it.
	UsualFileSystem = "/sys/fs/bpf"
	// DefaultDirectory holds a directory for each instance.
	DefaultDirectory = UsualFileSystem + "/loci"
	// DefaultInstance names the instance of a system that runs one alone.
	DefaultInstance = "default"
)

// ErrBusy says that another process uses the instance or its TAP.
var ErrBusy = errors.New("in use by another process")

// instanceName is what may name an instance: BPF file systems refuse dots.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// A Directory is the directory of one instance. `maps` in it is complete or not
// there; `links` holds the attachments.
type Directory struct {
	Path string
	lock *os.File
}

// Open makes and locks the directory of an instance.
func Open(parent, instance string) (*Directory, error) {
	if !instanceName.MatchString(instance) {
		return nil, fmt.Errorf("instance %q: want 1 to 64 letters, digits, '-' or '_'", instance)
	}
	path := filepath.Join(parent, instance)
	lock, err := makeOpen(parent, path)
	for again := 0; err != nil && again < openAgain; again++ { // while another process unmounted the file system
		lock, err = makeOpen(parent, path)
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrBusy
		}
		return nil, fmt.Errorf("instance %q in %s: %w", instance, parent, err)
	}
	return &Directory{Path: path, lock: lock}, nil
}

// openAgain is how often a directory that went is made anew.
const openAgain = 3

// makeOpen makes a directory in a BPF file system and opens it: what is open stays mounted.
func makeOpen(parent, path string) (*os.File, error) {
	if err := mountBPFFS(parent); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("pin directory: %w", err)
	}
	opened, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("pin directory: %w", err)
	}
	of, openedErr := opened.Stat()
	there, err := os.Stat(path)
	if err := errors.Join(openedErr, err); err != nil || !os.SameFile(of, there) {
		return nil, errors.Join(fmt.Errorf("pin directory: %s is there no more", path), err, opened.Close())
	}
	return opened, nil
}

// MapsOf is where the maps of an instance are pinned; empty names stand for the defaults.
func MapsOf(directory, instance string) string {
	path := filepath.Join(cmp.Or(directory, DefaultDirectory), cmp.Or(instance, DefaultInstance))
	return (&Directory{Path: path}).Maps()
}

// Maps is where the maps in force are pinned.
func (p *Directory) Maps() string { return filepath.Join(p.Path, "maps") }

// Building is where maps are pinned that are not complete yet.
func (p *Directory) Building() string { return filepath.Join(p.Path, "building") }
func (p *Directory) previous() string { return filepath.Join(p.Path, "previous") }

// Links is where attachments are pinned.
func (p *Directory) Links() string { return filepath.Join(p.Path, "links") }

// Disciplines has a directory for each interface whose clsact discipline is ours.
func (p *Directory) Disciplines() string { return filepath.Join(p.Path, "clsact") }

// Show makes what was built the maps of the instance; those before become the
// previous ones, until forget.
func (p *Directory) Show() error {
	err := os.Rename(p.Maps(), p.previous())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pinning the maps: %w", err)
	}
	if err := os.Rename(p.Building(), p.Maps()); err != nil {
		return fmt.Errorf("pinning the maps: %w", err)
	}
	return nil
}

// Settle ends what a process that was killed within show or before forget left.
func (p *Directory) Settle() error {
	if _, err := os.Stat(p.Maps()); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(p.previous(), p.Maps()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("pinned maps: %w", err)
		}
	}
	return p.Forget()
}

// Forget removes the previous maps, which live on for as long as programs use them.
func (p *Directory) Forget() error { return os.RemoveAll(p.previous()) }

// IsEmpty reports whether no process has left anything.
func (p *Directory) IsEmpty() bool {
	left, err := os.ReadDir(p.Path)
	return err == nil && len(left) == 0
}

// Close gives up the lock, if it was taken, and leaves the pins.
func (p *Directory) Close() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.Close()
}

// Remove removes all pins, then gives up the lock. The directory of the instances
// goes with the last of them.
func (p *Directory) Remove() error {
	err := os.RemoveAll(p.Path)
	_ = os.Remove(filepath.Dir(p.Path)) // refused while others are in it
	return errors.Join(err, p.Close())
}

// mountBPFFS makes sure that a directory is in a BPF file system.
func mountBPFFS(directory string) error {
	target, err := Mount(directory)
	if err != nil || target == "" {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("place for a BPF file system: %w", err)
	}
	if err := unix.Mount(mountSource, target, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mounting a BPF file system at %s: %w", target, err)
	}
	return nil
}

// mountSource is how a mount of ours is known among /proc/self/mountinfo.
const mountSource = "loci"

// Unmount unmounts the BPF file system that Open mounted for a pin directory, unless something is pinned there, or a process uses it.
func Unmount(directory string) error {
	target := placeOf(directory)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || !isOurs(string(mounts), target) {
		return err
	}
	files, err := os.ReadDir(target)
	// The kernel puts two files into each BPF file system (kernel/bpf/preload).
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool { return f.Name() == "maps.debug" || f.Name() == "progs.debug" })
	if err != nil || len(files) > 0 {
		return err
	}
	if err := unix.Unmount(target, 0); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("unmounting the BPF file system at %s: %w", target, err)
	}
	if target != UsualFileSystem {
		_ = os.Remove(target) // refused where it holds files
	}
	return nil
}

// isOurs reports whether what is mounted at a place is a BPF file system that Open mounted, by the format of /proc/PID/mountinfo.
func isOurs(mounts, target string) (ours bool) {
	const mountPoint = 4
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(target)
	for line := range strings.Lines(mounts) {
		where, what, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(where); len(fields) > mountPoint && fields[mountPoint] == escaped {
			ours = strings.HasPrefix(what, "bpf "+mountSource+" ") // the last one covers those before
		}
	}
	return ours
}

// placeOf is where a BPF file system is mounted for a pin directory.
func placeOf(directory string) string {
	if strings.HasPrefix(directory, UsualFileSystem+"/") {
		return UsualFileSystem
	}
	return filepath.Clean(directory)
}

// Mount says where Open mounts a BPF file system for a pin directory: at the usual place
// if the directory is below it, else at the directory itself. It is empty where the
// directory is in one already, or where the caller may not look. An error says why none can
// be mounted: files that are there would be hidden.
func Mount(directory string) (target string, err error) {
	existing, info := directory, os.FileInfo(nil)
	for {
		info, err = os.Stat(existing)
		if err == nil || existing == "/" || existing == "." {
			break
		}
		if errors.Is(err, fs.ErrPermission) {
			return "", nil
		}
		existing = filepath.Dir(existing)
	}
	if err == nil && !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory", existing)
	}
	var s unix.Statfs_t
	if unix.Statfs(existing, &s) == nil && int64(s.Type) == unix.BPF_FS_MAGIC {
		return "", nil
	}
	target = placeOf(directory)
	if files, err := os.ReadDir(target); err == nil && len(files) > 0 {
		return "", fmt.Errorf("%s holds files, and is not on a BPF file system: one that is mounted there would hide them", target)
	}
	return target, nil
}

// EndWithNamespace reports whether the directory is on a BPF file system that the init process's mount namespace does not have: it,
// and what is pinned there, ends with the last process of this mount namespace. Commands of `ip netns exec` have one each, because it
// mounts /sys anew. In a container the first process has the same as the others; a service with mounts of its own (systemd's
// ProtectSystem, for example) has the same file system as the host. What cannot be read is taken for lasting.
func EndWithNamespace(directory string) bool {
	var pins unix.Stat_t
	if unix.Stat(directory, &pins) != nil {
		return false
	}
	mounts, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil {
		return false
	}
	return !hasDevice(string(mounts), fmt.Sprintf("%d:%d", unix.Major(uint64(pins.Dev)), unix.Minor(uint64(pins.Dev))))
}

// hasDevice looks for a device among mounts, in the format of /proc/PID/mountinfo.
func hasDevice(mounts, device string) bool {
	for line := range strings.Lines(mounts) {
		const deviceField = 2
		if fields := strings.Fields(line); len(fields) > deviceField && fields[deviceField] == device {
			return true
		}
	}
	return false
}
