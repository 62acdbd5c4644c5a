// SPDX-License-Identifier: Apache-2.0

// This file finds the place for pins in a BPF file system, mounts one where there
// is none, and lets one process at a time use an instance. It never looks into a map.

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// UsualBPFFileSystem is where distributions mount it.
	UsualBPFFileSystem = "/sys/fs/bpf"
	// DefaultPinDirectory holds a directory for each instance.
	DefaultPinDirectory = UsualBPFFileSystem + "/loci"
	// DefaultInstance names the instance of a system that runs one alone.
	DefaultInstance = "default"
)

// ErrBusy says that another process uses the instance or its TAP.
var ErrBusy = errors.New("in use by another process")

// instanceName is what may name an instance: BPF file systems refuse dots.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// A pinDirectory is the directory of one instance. `maps` in it is complete or not
// there; `links` holds the attachments.
type pinDirectory struct {
	path string
	lock *os.File
}

// openPins makes and locks the directory of an instance.
func openPins(parent, instance string) (*pinDirectory, error) {
	if !instanceName.MatchString(instance) {
		return nil, fmt.Errorf("instance %q: want 1 to 64 letters, digits, '-' or '_'", instance)
	}
	if err := mountBPFFS(parent); err != nil {
		return nil, err
	}
	path := filepath.Join(parent, instance)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("pin directory: %w", err)
	}
	lock, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("pin directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrBusy
		}
		return nil, fmt.Errorf("instance %q in %s: %w", instance, parent, err)
	}
	return &pinDirectory{path: path, lock: lock}, nil
}

func (p *pinDirectory) maps() string     { return filepath.Join(p.path, "maps") }
func (p *pinDirectory) building() string { return filepath.Join(p.path, "building") }
func (p *pinDirectory) previous() string { return filepath.Join(p.path, "previous") }
func (p *pinDirectory) links() string    { return filepath.Join(p.path, "links") }

// disciplines has a directory for each interface whose clsact discipline is ours.
func (p *pinDirectory) disciplines() string { return filepath.Join(p.path, "clsact") }

// show makes what was built the maps of the instance; those before become the
// previous ones, until forget.
func (p *pinDirectory) show() error {
	err := os.Rename(p.maps(), p.previous())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pinning the maps: %w", err)
	}
	if err := os.Rename(p.building(), p.maps()); err != nil {
		return fmt.Errorf("pinning the maps: %w", err)
	}
	return nil
}

// settle ends what a process that was killed within show or before forget left.
func (p *pinDirectory) settle() error {
	if _, err := os.Stat(p.maps()); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(p.previous(), p.maps()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("pinned maps: %w", err)
		}
	}
	return p.forget()
}

// forget removes the previous maps, which live on for as long as programs use them.
func (p *pinDirectory) forget() error { return os.RemoveAll(p.previous()) }

// isEmpty reports whether no process has left anything.
func (p *pinDirectory) isEmpty() bool {
	left, err := os.ReadDir(p.path)
	return err == nil && len(left) == 0
}

// close gives up the lock, if it was taken, and leaves the pins.
func (p *pinDirectory) close() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.Close()
}

// remove removes all pins, then gives up the lock. The directory of the instances
// goes with the last of them.
func (p *pinDirectory) remove() error {
	err := os.RemoveAll(p.path)
	_ = os.Remove(filepath.Dir(p.path)) // refused while others are in it
	return errors.Join(err, p.close())
}

// mountBPFFS makes sure that a directory is in a BPF file system.
func mountBPFFS(directory string) error {
	target, err := PinMount(directory)
	if err != nil || target == "" {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("place for a BPF file system: %w", err)
	}
	if err := unix.Mount("bpf", target, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mounting a BPF file system at %s: %w", target, err)
	}
	return nil
}

// PinMount says where Open mounts a BPF file system for a pin directory: at the usual place
// if the directory is below it, else at the directory itself. It is empty where the
// directory is in one already, or where the caller may not look. An error says why none can
// be mounted: files that are there would be hidden.
func PinMount(directory string) (target string, err error) {
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
	target = filepath.Clean(directory)
	if strings.HasPrefix(directory, UsualBPFFileSystem+"/") {
		target = UsualBPFFileSystem
	}
	if files, err := os.ReadDir(target); err == nil && len(files) > 0 {
		return "", fmt.Errorf("%s holds files, and is not on a BPF file system: one that is mounted there would hide them", target)
	}
	return target, nil
}

// PinsEndWithNamespace reports whether the directory is on a BPF file system that the init process's mount namespace does not have: it,
// and what is pinned there, ends with the last process of this mount namespace. Commands of `ip netns exec` have one each, because it
// mounts /sys anew. In a container the first process has the same as the others; a service with mounts of its own (systemd's
// ProtectSystem, for example) has the same file system as the host. What cannot be read is taken for lasting.
func PinsEndWithNamespace(directory string) bool {
	var pins unix.Stat_t
	if unix.Stat(directory, &pins) != nil {
		return false
	}
	mounts, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil {
		return false
	}
	return !hasDevice(string(mounts), fmt.Sprintf("%d:%d", unix.Major(pins.Dev), unix.Minor(pins.Dev)))
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
