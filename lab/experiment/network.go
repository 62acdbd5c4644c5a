// SPDX-License-Identifier: Apache-2.0

package experiment

// The network of one variant: namespaces, links, routes and daemons.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/goccy/go-yaml"

	"loci/internal/testnet"
	"loci/lab"
)

// Network is one variant's, while it lives.
type Network struct {
	file      *File
	spaces    *testnet.Network
	Directory *lab.Directory                // of the run
	Nodes     map[string]*testnet.Namespace // by name
	Daemons   map[string]*lab.Daemon        // by node
	Started   []*lab.Daemon                 // all processes, also those that are none of the file's
	Emulated  []*testnet.EmulatedLink       // in the order of the file
	veths     vethPairs                     // where the ends of links are now
	listeners []*listener
	watching  atomic.Pointer[watch] // the try that goes on
}

const defaultMTU = 1500

// NewNetwork makes the directory of a network that is to be built.
func NewNetwork(f *File) (*Network, error) {
	spaces, err := testnet.New(Runs.Prefix)
	if err != nil {
		return nil, err
	}
	directory, err := Runs.NewDirectory(spaces.Name())
	if err != nil {
		return nil, errors.Join(err, spaces.Close())
	}
	return &Network{
		file: f, spaces: spaces, Directory: directory, veths: vethPairsOf(f.Links),
		Nodes: map[string]*testnet.Namespace{}, Daemons: map[string]*lab.Daemon{},
	}, nil
}

// Build makes everything and waits until all daemons are ready. What it made before an error is there, for Close.
func (n *Network) Build(ctx context.Context, o *Options) error {
	for _, node := range n.file.Nodes {
		if err := n.addNode(node); err != nil {
			return err
		}
	}
	for _, l := range n.file.Links {
		if err := n.connect(l); err != nil {
			return err
		}
	}
	for _, node := range n.file.Nodes {
		if err := n.translate(node); err != nil {
			return err
		}
		for _, r := range node.Routes {
			if err := n.Nodes[node.Name].AddRoute(testnet.Route{Destination: r.To, Via: r.Via,
				Metric: int(r.Metric)}); err != nil {
				return err
			}
		}
	}
	if err := n.listen(); err != nil {
		return err
	}
	for _, d := range n.file.Daemons {
		if err := n.start(d, o); err != nil {
			return err
		}
	}
	return n.await(ctx)
}

func (n *Network) addNode(node node) error {
	ns, err := n.spaces.Namespace(node.Name)
	if err != nil {
		return err
	}
	n.Nodes[node.Name] = ns
	if err := ns.SetReversePathFilter(0); err != nil {
		return err
	}
	for _, address := range node.Loopback {
		if err := ns.AddAddress("lo", address); err != nil {
			return err
		}
	}
	if node.Forwards {
		return ns.Forward()
	}
	return nil
}

func (n *Network) translate(node node) error {
	if node.NAT == nil {
		return nil
	}
	return testnet.NAT{Namespace: n.Nodes[node.Name], Outside: node.NAT.Outside,
		UDPTimeout: node.NAT.UDPTimeout}.Start()
}

func (n *Network) connect(l link) error {
	var ends []testnet.End
	for _, e := range l.Ends {
		ends = append(ends, testnet.End{
			Namespace: n.Nodes[e.Node], Name: e.Interface, Addresses: e.Addresses,
			MTU: cmp.Or(l.MTU, defaultMTU),
		})
	}
	if l.Impair == nil {
		return testnet.Connect(ends[0], ends[1])
	}
	emulated, err := testnet.Emulate(n.file.Seed, ends...)
	if err != nil {
		return err
	}
	n.Emulated = append(n.Emulated, emulated)
	for i, a := range ends {
		for _, b := range ends[:i] {
			if err := emulated.ImpairBoth(a.Namespace, b.Namespace, testnet.Impairment(*l.Impair)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close removes the network.
func (n *Network) Close() error {
	all := []error{n.closeListeners()}
	for _, l := range n.Emulated {
		all = append(all, l.Close())
	}
	return errors.Join(append(all, n.spaces.Close(), n.Directory.Remove())...)
}

func (n *Network) start(d daemon, o *Options) error {
	socket := n.Directory.Path(d.Node + ".sock")
	datapath := yaml.MapSlice{{Key: "pin-directory", Value: filepath.Join(n.Directory.Pins(), d.Node)}}
	if o.Engine != "" {
		datapath = append(datapath, yaml.MapItem{Key: "engine", Value: o.Engine})
	}
	config, err := withLocal(d.Config, map[string]yaml.MapSlice{"control": {{Key: "socket", Value: socket}}, "datapath": datapath})
	if err != nil {
		return fmt.Errorf("configuration of %s: %w", d.Node, err)
	}
	started, err := lab.DaemonSpec{
		Namespace: n.Nodes[d.Node], Executable: o.Executable,
		Config: config, ConfigFile: n.Directory.Path(d.Node + ".yaml"),
		Socket: socket, Log: n.Directory.Path(d.Node + ".log"),
	}.Start()
	if err != nil {
		return err
	}
	n.Daemons[d.Node] = started
	n.Started = append(n.Started, started)
	return nil
}

// withLocal adds to sections of a configuration what keeps the daemons of one machine apart.
func withLocal(config string, items map[string]yaml.MapSlice) (string, error) {
	var sections map[string]any
	if err := yaml.Unmarshal([]byte(config), &sections); err != nil {
		return "", err
	}
	for name, local := range items {
		section, ok := sections[name].(map[string]any)
		if !ok {
			section = map[string]any{}
		}
		for _, item := range local {
			section[item.Key.(string)] = item.Value
		}
		sections[name] = section
	}
	encoded, err := yaml.Marshal(sections)
	return string(encoded), err
}

func (n *Network) await(ctx context.Context) error {
	for _, d := range n.Started {
		if err := d.AwaitReady(ctx); err != nil {
			return err
		}
	}
	for _, d := range n.file.Daemons {
		if d.Registrations > 0 {
			if err := n.Daemons[d.Node].AwaitRegistrations(ctx, d.Registrations); err != nil {
				return err
			}
		}
		if d.BehindNAT {
			if err := n.Daemons[d.Node].AwaitRTR(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
