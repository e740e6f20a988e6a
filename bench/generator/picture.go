package main

import (
	"fmt"
	"strings"
)

// picture returns an SVG picture of the figures that matter most: time per ID below the cap
// with one and with 64 goroutines, and CPU time per ID at the cap.
func (r *report) picture() string {
	const width, label, row = 760, 190, 16
	var b strings.Builder
	y := 0
	text := func(x int, anchor, style, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="%s"%s>%s</text>`+"\n", x, y+12, anchor, style, s)
	}
	title := func(s string) {
		y += 8
		text(8, "start", ` font-weight="bold"`, s)
		y += row + 6
	}
	bar := func(name, colour string, f figure, most float64) {
		w := f.median / most * (width - label - 120)
		text(label-8, "end", "", name)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="12" fill="%s"/>`+"\n", label, y+2, w, colour)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.1f</text>`+"\n", label+w+6, y+12, f.median)
		y += row
	}
	// Colour-blind people can distinguish blue and orange, and the order of the bars helps too.
	const one, many, other = "#0072b2", "#e69f00", "#999999"

	title("Below the cap: ns per ID, one goroutine (blue) and 64 (orange)")
	most := 0.0
	for _, x := range r.below {
		if x.goroutines != 2 {
			most = max(most, x.of(perID).median)
		}
	}
	for _, x := range r.below {
		switch x.goroutines {
		case 1:
			bar(x.name, one, x.of(perID), most)
		case 64:
			bar("", many, x.of(perID), most)
			y += 3
		}
	}
	title("At the cap of 4,096 IDs per ms: CPU ns per ID")
	most = 0
	for _, x := range r.cap {
		if x.name != "sonyflake" {
			most = max(most, x.of(cpu).median)
		}
	}
	for _, x := range r.cap {
		if x.name == "sonyflake" { // its cap is different
			continue
		}
		colour := other
		if x.name == ours {
			colour = one
		}
		bar(fmt.Sprintf("%s, %d", x.name, x.goroutines), colour, x.of(cpu), most)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n"+
		`<rect width="100%%" height="100%%" fill="white"/>`+"\n%s</svg>\n", width, y+12, b.String())
}
