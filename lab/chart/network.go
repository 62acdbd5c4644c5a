// SPDX-License-Identifier: Apache-2.0

package chart

// Networks: nodes, the links between them, and paths over these.

import (
	"fmt"
	"math"
	"strings"
)

// Network is a drawing of nodes. The first one stands on the left, the second one on the right, the others above and
// below between them.
type Network struct {
	Title string
	Nodes []string
	Links []NetworkLink // grey
	Paths []NetworkPath // each with a colour of its own
}

// NetworkLink is a line between two nodes, by their numbers.
type NetworkLink struct {
	From, To int
	Label    string
}

// NetworkPath is some links with a name.
type NetworkPath struct {
	Name  string
	Links []NetworkLink
}

const (
	networkWidth, networkHeight = 920.0, 560.0
	networkMiddle               = 300.0
	networkHalfWidth            = 360.0
	networkHalfHeight           = 190.0
	nodeRadius                  = 6.0
	pathGap                     = 5.0 // between two paths that share a link
)

// DrawNetwork makes the drawing.
func DrawNetwork(n Network) string {
	var b strings.Builder
	height := networkHeight + lineHeight*float64(len(n.Paths))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", networkWidth, height)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	text(&b, networkWidth/2, 24, "middle", n.Title)
	for _, l := range n.Links {
		n.line(&b, l, "#cccccc", 0)
	}
	for i, p := range n.Paths {
		colour := colours[i%len(colours)]
		for _, l := range p.Links {
			n.line(&b, l, colour, pathGap*float64(i))
		}
		y := networkHeight - 20 + lineHeight*float64(i)
		fmt.Fprintf(&b, `<rect x="40" y="%g" width="12" height="3" fill="%s"/>`+"\n", y-5, colour)
		text(&b, 60, y, "start", p.Name)
	}
	for i, name := range n.Nodes {
		x, y := n.place(i)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="%g" fill="black"/>`+"\n", x, y, nodeRadius)
		text(&b, x, y-12, "middle", name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// place is where a node stands on an ellipse.
func (n *Network) place(i int) (x, y float64) {
	var angle float64
	between := len(n.Nodes) - 2
	switch above := (between + 1) / 2; {
	case i == 0:
		angle = math.Pi
	case i == 1:
	case i-2 < above:
		angle = math.Pi - math.Pi*float64(i-1)/float64(above+1)
	default:
		angle = math.Pi + math.Pi*float64(i-1-above)/float64(between-above+1)
	}
	return networkWidth/2 + networkHalfWidth*math.Cos(angle), networkMiddle - networkHalfHeight*math.Sin(angle)
}

// line draws a link, beside where it would be by a number of units.
func (n *Network) line(b *strings.Builder, l NetworkLink, colour string, beside float64) {
	x1, y1 := n.place(l.From)
	x2, y2 := n.place(l.To)
	if length := math.Hypot(x2-x1, y2-y1); length > 0 && beside > 0 {
		dx, dy := (y1-y2)/length*beside, (x2-x1)/length*beside
		x1, y1, x2, y2 = x1+dx, y1+dy, x2+dx, y2+dy
	}
	fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" stroke-width="2"/>`+"\n", x1, y1, x2, y2, colour)
	if l.Label != "" {
		text(b, (x1+x2)/2, (y1+y2)/2-4, "middle", l.Label)
	}
}
