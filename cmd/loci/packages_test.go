// SPDX-License-Identifier: Apache-2.0

//go:build packages

package main_test

// Debian's packages in bin/packages (packaging/build), installed into a root directory of their own: this machine's, by an overlay that
// keeps what is written in memory. The daemon runs as the unit says; systemd is not there, so a script does what the packages ask of it.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
)

// Variables of packaging/check: the directories of the packages, and of those of a later version.
const (
	current = "LOCI_PACKAGES"
	next    = "LOCI_NEXT_PACKAGES"
)

// packagedRoot is the root directory, which a mount namespace has while its process lives.
type packagedRoot struct {
	t      *testing.T
	ns     *testnet.Namespace
	holder *exec.Cmd
	dir    string
	before string // what runs the daemon, such as strace
}

// makeRoot mounts it below $1 and waits.
const makeRoot = `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
for there in proc dev sys; do mount --rbind "/$there" "$1/root/$there"; done
mount -t tmpfs tmpfs "$1/root/run"
mkdir -p "$1/root/run/systemd/system" "$1/root/tmp"
echo ready
exec sleep infinity`

// standIn is systemctl and deb-systemd-invoke: it keeps what it was asked for, and restarts or stops the daemon.
const standIn = `#!/bin/sh
echo "$(basename "$0") $*" >>/run/asked
case "$*" in
"stop loci.service") verb=stop ;;
"--system --no-block try-restart loci.service") verb=restart ;;
*) exit 0 ;;
esac
pid=$(cat /run/loci.pid 2>/dev/null) || exit 0
kill -TERM "$pid"
while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
rm /run/loci.pid
if [ $verb = restart ]; then /run/start-loci; fi
`

// newPackagedRoot makes the root directory; its commands run in the network namespace.
func newPackagedRoot(t *testing.T, ns *testnet.Namespace) *packagedRoot {
	t.Helper()
	r := &packagedRoot{t: t, ns: ns, dir: t.TempDir()}
	r.holder = exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", makeRoot, "sh", r.dir)
	said, err := r.holder.StdoutPipe()
	r.must(err)
	r.holder.Stderr = os.Stderr
	r.must(r.holder.Start())
	t.Cleanup(func() {
		_ = r.holder.Process.Kill()
		_ = r.holder.Wait()
	})
	if _, err := said.Read(make([]byte, 16)); err != nil {
		t.Fatalf("no root directory: %v", err)
	}
	for _, name := range []string{"/usr/bin/systemctl", "/usr/bin/deb-systemd-invoke"} {
		r.write(name, standIn, 0o755)
	}
	r.setPolicy(runAllowed)
	r.run("rm", "-f", "/var/lib/man-db/auto-update") // dpkg would have all pages of the machine indexed each time; man needs no index
	return r
}

// What the administrator's policy-rc.d says of starting services: exit statuses.
const (
	runForbidden = 101
	runAllowed   = 104
)

func (r *packagedRoot) setPolicy(status int) {
	r.t.Helper()
	r.write("/usr/sbin/policy-rc.d", fmt.Sprintf("#!/bin/sh\nexit %d\n", status), 0o755)
}

func (r *packagedRoot) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// inside is a command in the root directory.
func (r *packagedRoot) inside(words ...string) *exec.Cmd {
	enter := []string{"--mount", "--target", fmt.Sprint(r.holder.Process.Pid), "chroot", filepath.Join(r.dir, "root")}
	cmd := exec.Command("nsenter", append(enter, words...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"}
	return cmd
}

// run runs a command in the root directory, which must succeed, and returns what it printed.
func (r *packagedRoot) run(words ...string) string {
	r.t.Helper()
	text, err := r.try(words...)
	if err != nil {
		r.t.Fatalf("%q: %v\n%s", words, err, text)
	}
	return text
}

func (r *packagedRoot) try(words ...string) (string, error) {
	var output bytes.Buffer
	cmd := r.inside(words...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := r.ns.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return output.String(), err
}

// write makes a file.
func (r *packagedRoot) write(name, content string, mode os.FileMode) {
	r.t.Helper()
	cmd := r.inside("sh", "-c", fmt.Sprintf(`rm -f "$0" && cat >"$0" && chmod %o "$0"`, mode), name)
	cmd.Stdin = strings.NewReader(content)
	if text, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v %s", name, err, text)
	}
}

// exists reports whether there is a file.
func (r *packagedRoot) exists(name string) bool {
	_, err := r.try("test", "-e", name)
	return err == nil
}

// unitLine is a setting of the unit that the package brings.
func (r *packagedRoot) unitLine(key string) string {
	r.t.Helper()
	unit := r.run("cat", "/lib/systemd/system/loci.service")
	match := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(unit)
	if match == nil {
		r.t.Fatalf("the unit has no %s", key)
	}
	return match[1]
}

// confined is the unit's command, with its capabilities and no other.
func (r *packagedRoot) confined() string {
	r.t.Helper()
	set := "-all"
	for name := range strings.FieldsSeq(r.unitLine("CapabilityBoundingSet")) {
		set += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	return fmt.Sprintf("setpriv --bounding-set=%s --inh-caps=-all --no-new-privs %s", set, r.unitLine("ExecStart"))
}

// start starts the daemon as the unit does, in the background.
func (r *packagedRoot) start() {
	r.t.Helper()
	r.write("/run/start-loci", "#!/bin/sh\nmkdir -p -m 755 /run/loci /var/lib/loci\n"+r.before+r.confined()+" </dev/null >>/run/loci.log 2>&1 &\necho $! >/run/loci.pid\n", 0o755)
	r.run("/run/start-loci")
	r.t.Cleanup(func() { _, _ = r.try("/usr/bin/deb-systemd-invoke", "stop", "loci.service") })
	r.awaitReady()
}

func (r *packagedRoot) awaitReady() {
	r.t.Helper()
	for end := time.Now().Add(readyFor); ; time.Sleep(50 * time.Millisecond) {
		if text, err := r.try("loci", "show", "status"); err == nil && regexp.MustCompile(`(?m)^state +ready`).MatchString(text) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("the daemon does not get ready:\n%s", r.run("cat", "/run/loci.log"))
		}
	}
}

// packageIn is a package for this machine in the directory that a variable of packaging/check names.
func packageIn(t *testing.T, variable, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.Getenv(variable), name+"_*_"+runtime.GOARCH+".deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("want one package %s in %s=%s, found %q: run packaging/check", name, variable, os.Getenv(variable), found)
	}
	return found[0]
}

// bring copies a package into the root directory.
func (r *packagedRoot) bring(file string) string {
	r.t.Helper()
	content, err := os.ReadFile(file)
	r.must(err)
	to := "/tmp/" + filepath.Base(file)
	r.write(to, string(content), 0o644)
	return to
}

// newPackagedXTR is the network of two sites, of which xtr1 is what the packages install, and is not started yet.
func newPackagedXTR(t *testing.T, engine string) (*lispNetwork, *packagedRoot) {
	t.Helper()
	n := newLISPNetwork(t)
	n.engine = engine
	n.run("ms", n.mappingSystem())
	n.run("xtr2", n.xtr(2))
	r := newPackagedRoot(t, n.at["xtr1"])
	r.install()
	r.configure(n)
	return n, r
}

// TestPackageLifecycle installs, upgrades, removes and purges the packages of an xTR that forwards.
func TestPackageLifecycle(t *testing.T) {
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			n, r := newPackagedXTR(t, engine)
			r.start()
			n.awaitRegistrations(4)
			n.pingAll(3)
			r.reload()
			if engine == "kernel" { // forwarding in user space ends with the daemon
				r.upgradeUnderTraffic(n)
			} else {
				r.upgrade()
				n.pingAll(3)
			}
			r.remove(n)
			r.purge()
		})
	}
}

func (r *packagedRoot) install() {
	r.t.Helper()
	r.run("dpkg", "-i", r.bring(packageIn(r.t, current, "loci")), r.bring(packageIn(r.t, current, "loci-lab")))
	if asked := r.run("cat", "/run/asked"); strings.Contains(asked, "start") {
		r.t.Errorf("an installation starts a daemon without a configuration: %s", asked)
	}
	if mode := r.run("stat", "-c", "%a %U", "/etc/loci/loci.yaml"); mode != "600 root\n" {
		r.t.Errorf("the configuration file, which will have keys, is %s", mode)
	}
	r.run("loci", "version")
	r.run("loci-lab", "version")
	// The file that the package brings is all comments.
	prevented, err := strconv.Atoi(r.unitLine("RestartPreventExitStatus"))
	r.must(err)
	var exit *exec.ExitError
	if text, err := r.try(strings.Fields(r.unitLine("ExecStart"))...); !errors.As(err, &exit) || exit.ExitCode() != prevented {
		r.t.Errorf("a start without a configuration ends with %v, and systemd starts it again unless it is %d: %s", err, prevented, text)
	}
}

// configure writes the operator's configuration.
func (r *packagedRoot) configure(n *lispNetwork) {
	r.t.Helper()
	text := strings.Replace(n.xtr(1), n.socket("xtr1"), "/run/loci/control.sock", 1)
	r.write("/etc/loci/loci.yaml", text, 0o600)
	r.run("loci", "check", "/etc/loci/loci.yaml")
}

func (r *packagedRoot) upgrade() {
	r.t.Helper()
	before := r.run("cat", "/run/loci.pid")
	install := []string{"dpkg", "--force-confold", "-i", r.bring(packageIn(r.t, next, "loci")), r.bring(packageIn(r.t, next, "loci-lab"))}
	r.setPolicy(runForbidden)
	r.run(install...)
	if after := r.run("cat", "/run/loci.pid"); after != before {
		r.t.Error("the upgrade restarts the daemon although the administrator's policy forbids it")
	}
	r.setPolicy(runAllowed)
	r.run(install...)
	r.awaitReady()
	if after := r.run("cat", "/run/loci.pid"); after == before {
		r.t.Error("the upgrade did not restart the daemon")
	}
	if text := r.run("loci", "version"); !strings.Contains(text, "9.9") {
		r.t.Errorf("after the upgrade: %s", text)
	}
	if text := r.run("cat", "/etc/loci/loci.yaml"); !strings.Contains(text, testSite{1}.eid4()) {
		r.t.Errorf("the upgrade did not keep the configuration: %s", text)
	}
}

// upgradeUnderTraffic loses no packet.
func (r *packagedRoot) upgradeUnderTraffic(n *lispNetwork) {
	r.t.Helper()
	pinging := n.startPinging()
	r.upgrade()
	pinging.end("an upgrade of the package")
}

// reload is what systemctl reload does, with the file as it is and with mistakes: then it fails, and the daemon goes on.
func (r *packagedRoot) reload() {
	r.t.Helper()
	command := strings.Fields(r.unitLine("ExecReload"))
	r.run(command...)
	right := r.run("cat", "/etc/loci/loci.yaml")
	for wrong, says := range map[string]string{"nonsense: 1": `/etc/loci/loci.yaml:1:1: unknown key "nonsense"`, "[[[": "/etc/loci/loci.yaml:1:3: YAML: "} {
		r.write("/etc/loci/loci.yaml", wrong+"\n"+right, 0o600)
		if text, err := r.try(command...); err == nil || !strings.Contains(text, says) {
			r.t.Errorf("a reload with a wrong file: %v, %s, want %q", err, text, says)
		}
	}
	r.write("/etc/loci/loci.yaml", right, 0o600)
	r.run(command...)
}

// remove removes the packages when the file has a mistake by then.
func (r *packagedRoot) remove(n *lispNetwork) {
	r.t.Helper()
	r.write("/etc/loci/loci.yaml", "[[[\n"+r.run("cat", "/etc/loci/loci.yaml"), 0o600)
	r.run("dpkg", "-r", "loci-lab", "loci")
	if r.exists("/run/loci.pid") {
		r.t.Error("the daemon runs although its package was removed")
	}
	if left := n.leftAt("xtr1"); len(left) > 0 {
		r.t.Errorf("left after the removal: %q", left)
	}
	if r.exists("/usr/bin/loci") || !r.exists("/etc/loci/loci.yaml") {
		r.t.Error("a removal removes the binary and keeps the configuration")
	}
}

func (r *packagedRoot) purge() {
	r.t.Helper()
	r.run("dpkg", "-P", "loci", "loci-lab")
	for _, name := range []string{"/etc/loci", "/var/lib/loci", "/run/loci", "/usr/share/doc/loci", "/lib/systemd/system/loci.service"} {
		if r.exists(name) {
			r.t.Errorf("left after a purge: %s", name)
		}
	}
	if text, err := r.try("dpkg", "-s", "loci"); err == nil {
		r.t.Errorf("dpkg knows the package after a purge: %s", text)
	}
}

// allowed are the system calls of a set of systemd, for strace: all but these are told.
func (r *packagedRoot) allowed(set string) (calls []string) {
	r.t.Helper()
	for line := range strings.Lines(r.run("systemd-analyze", "syscall-filter", set)) {
		switch name := strings.TrimSpace(line); {
		case !strings.HasPrefix(line, "    ") || strings.HasPrefix(name, "#"):
		case strings.HasPrefix(name, "@"):
			calls = append(calls, r.allowed(name)...)
		default:
			calls = append(calls, "?"+name) // strace may not know those of other processors
		}
	}
	return calls
}

// TestUnitAllowsWhatTheDaemonCalls runs it with each engine, beside the filter of the unit.
func TestUnitAllowsWhatTheDaemonCalls(t *testing.T) {
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			n, r := newPackagedXTR(t, engine)
			var calls []string
			for word := range strings.FieldsSeq(r.unitLine("SystemCallFilter")) {
				if strings.HasPrefix(word, "@") {
					calls = append(calls, r.allowed(word)...)
				} else {
					calls = append(calls, "?"+word)
				}
			}
			r.before = "strace -D -f -qq -o /run/forbidden -e signal=none -e trace=!" + strings.Join(calls, ",") + " "
			r.start()
			n.awaitRegistrations(4)
			n.pingAll(3)
			r.run("loci", "reload")
			r.run("/usr/bin/deb-systemd-invoke", "stop", "loci.service")
			if text := r.run("cat", "/run/forbidden"); text != "" {
				t.Errorf("the unit would end a daemon that calls\n%s", text)
			}
		})
	}
}

// TestUnit: systemd finds nothing wrong with the unit, and little that it exposes.
func TestUnit(t *testing.T) {
	n := newEmptyNetwork(t, "xtr1")
	r := newPackagedRoot(t, n.at["xtr1"])
	r.install()
	if text := r.run("systemd-analyze", "verify", "--man=yes", "/lib/systemd/system/loci.service"); text != "" {
		t.Errorf("systemd-analyze verify: %s", text)
	}
	if limit := r.unitLine("TimeoutStartSec"); limit != "30" {
		t.Errorf("systemctl start may take %s", limit)
	}
	r.run("systemd-analyze", "security", "--offline=true", "--threshold=32", "/lib/systemd/system/loci.service")
	for _, page := range []string{"loci", "loci-run", "loci-show-map-cache", "loci.yaml", "loci-lab", "loci-map"} {
		if text, err := r.try("man", "--warnings", page); err != nil || strings.Contains(text, "warning:") {
			t.Errorf("man %s: %v %s", page, err, text[:min(len(text), 500)])
		}
	}
}

// unpacked is a directory with what a package holds.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	to := t.TempDir()
	if text, err := exec.Command("dpkg-deb", "-x", packageIn(t, current, name), to).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, text)
	}
	return to
}

var (
	seeAlso      = regexp.MustCompile(`(?ms)^\.SH SEE ALSO\n(.*?)(?:^\.SH |\z)`)
	otherPage    = regexp.MustCompile(`(loci[a-z.-]*) ?\(([0-9])\)`)
	namedFile    = regexp.MustCompile(`/usr/share/doc/loci/[A-Za-z0-9_./-]*[A-Za-z0-9_]`)
	sourceFile   = regexp.MustCompile(`(?:^|[^/A-Za-z])(?:docs|examples)/[a-z0-9-]+\.(?:md|yaml)`)
	fontOfManual = strings.NewReplacer(`\fB`, "", `\fP`, "", `\fR`, "", `\fI`, "", `\-`, "-")
)

// TestPackageHolds: libraries for C and Python, documents, and manual pages that lead to what is there.
func TestPackageHolds(t *testing.T) {
	root, lab := unpacked(t, "loci"), unpacked(t, "loci-lab")
	for _, name := range []string{
		"usr/lib/python3/dist-packages/mapsock/__init__.py", "usr/lib/python3/dist-packages/mapsock/py.typed", "usr/include/mapsock.h",
		"usr/share/doc/loci/docs/control-socket.openapi.yaml", "usr/share/doc/loci/docs/status.md", "usr/share/doc/loci/docs/counters.md",
		"usr/share/doc/loci/examples/controlplane.py", "usr/share/doc/loci/examples/mapsock.py", "usr/share/doc/loci/examples/answer.c",
		"usr/share/doc/loci/examples/itr.yaml", "usr/share/doc/loci/monitoring/alerts.yaml",
	} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 && filepath.Base(name) != "py.typed" {
			t.Errorf("the package does not hold %s: %v", name, err)
		}
	}
	for _, command := range [][]string{
		{"python3", "-B", "-c", "import sys; sys.path = ['" + root + "/usr/lib/python3/dist-packages'] + sys.path; import mapsock; assert mapsock.__file__.startswith('" + root + "')"},
		{"sh", "-c", "python3 -B " + root + "/usr/share/doc/loci/examples/controlplane.py 2>&1 | grep -q 'control plane in Python'"},
		{"gcc", "-std=c11", "-Wall", "-Werror", "-I" + root + "/usr/include", "-o", filepath.Join(t.TempDir(), "answer"), root + "/usr/share/doc/loci/examples/answer.c"},
	} {
		if text, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v %s", command, err, text)
		}
	}
	checkManuals(t, root, lab)
	checkLinks(t, root)
	for _, program := range []string{root + "/usr/bin/loci", lab + "/usr/bin/loci-lab"} {
		checkNames(t, root, program)
	}
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	namedInside  = regexp.MustCompile(`(?:/usr/share/doc/loci/)?(?:docs|examples|monitoring)/[a-z0-9-]+\.(?:md|yaml|json)`)
)

// checkLinks: each link of a document leads to a file that the package has.
func checkLinks(t *testing.T, root string) {
	t.Helper()
	links := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "usr/share/doc/loci"), func(page string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(page) != ".md" {
			return err
		}
		text, err := os.ReadFile(page)
		for _, link := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			file, _, _ := strings.Cut(link[1], "#")
			if file == "" || strings.Contains(file, ":") {
				continue
			}
			links[file] = true
			if filepath.IsAbs(file) {
				file = filepath.Join(root, file)
			} else {
				file = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"/usr/include/mapsock.h", "/usr/share/doc/loci/examples/controlplane.py", "/lib/systemd/system/loci.service", "../examples", "figures/oor-throughput.svg"} {
		if !links[want] {
			t.Errorf("no document links to %s", want)
		}
	}
}

// checkNames: what a program prints, such as the help of metrics, names documents that the package has, without its directory: programs
// are installed elsewhere too.
func checkNames(t *testing.T, root, program string) {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, name := range namedInside.FindAll(text, -1) {
		names[string(name)] = true
	}
	delete(names, "docs/benchmarks.md") // which `loci bench --write` writes
	for name := range names {
		if _, err := os.Stat(filepath.Join(root, "usr/share/doc/loci", name)); err != nil || filepath.IsAbs(name) {
			t.Errorf("%s names %s, which is not in the package", program, name)
		}
	}
	if want := "docs/counters.md"; strings.HasSuffix(program, "/loci") && !names[want] {
		t.Errorf("%s does not name %s", program, want)
	}
}

// checkManuals: each page stands in one section, has one SEE ALSO, and names pages and files that are there.
func checkManuals(t *testing.T, roots ...string) {
	t.Helper()
	pages := map[string]string{} // section by name
	var files []string
	for _, root := range roots {
		found, err := filepath.Glob(filepath.Join(root, "usr/share/man/man*/*.gz"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no manual pages: %v", err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		name, section := cutLast(strings.TrimSuffix(filepath.Base(file), ".gz"))
		if other := pages[name]; other != "" {
			t.Errorf("%s is in the sections %s and %s", name, other, section)
		}
		pages[name] = section
	}
	for _, file := range files {
		text, err := exec.Command("zcat", file).Output()
		if err != nil {
			t.Fatal(err)
		}
		page := fontOfManual.Replace(string(text))
		also := seeAlso.FindAllStringSubmatch(page, -1)
		if len(also) != 1 || !otherPage.MatchString(also[0][1]) {
			t.Errorf("%s has %d sections SEE ALSO: %q", file, len(also), also)
		}
		for _, other := range otherPage.FindAllStringSubmatch(page, -1) {
			if pages[other[1]] != other[2] {
				t.Errorf("%s names %s(%s), which is not there", file, other[1], other[2])
			}
		}
		for _, named := range namedFile.FindAllString(page, -1) {
			if _, err := os.Stat(filepath.Join(roots[0], named)); err != nil {
				t.Errorf("%s names %s: %v", file, named, err)
			}
		}
		// `loci bench --write` names a file of the source, which it writes.
		if named := sourceFile.FindAllString(strings.ReplaceAll(page, "docs/benchmarks.md", ""), -1); named != nil {
			t.Errorf("%s names files of the source: %q", file, named)
		}
	}
}

// cutLast cuts the section off the name of a page.
func cutLast(name string) (before, section string) {
	i := strings.LastIndex(name, ".")
	return name[:i], name[i+1:]
}
