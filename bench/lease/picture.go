package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// picture returns an SVG picture of the largest herd: requests per claim, and the time until
// all claimants have a node ID. The scales are logarithmic, because on linear scales only
// one bar would be visible.
func (r *report) picture() string {
	const width, label, row = 760, 210, 18
	// Colour-blind people can distinguish blue and grey, and the order of the bars helps too.
	const blue, grey = "#0072b2", "#999999"
	var b strings.Builder
	y := 0
	title := func(s string) {
		y += 8
		fmt.Fprintf(&b, `<text x="8" y="%d" font-weight="bold">%s</text>`+"\n", y+12, s)
		y += row + 4
	}
	size := r.sizes[len(r.sizes)-1]
	draw := func(value func(herdResult) float64, text func(herdResult) string) {
		least, most := math.Inf(1), 0.0
		for _, h := range r.herds {
			if h.size == size {
				least, most = min(least, value(h)), max(most, value(h))
			}
		}
		least /= 2 // so that the shortest bar is visible
		for _, h := range r.herds {
			if h.size != size {
				continue
			}
			colour := grey
			if h.name == oursName {
				colour = blue
			}
			w := math.Log(value(h)/least) / math.Log(max(most/least, 2)) * (width - label - 90)
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", label-8, y+12, h.name)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="13" fill="%s"/>`+"\n", label, y+2, w, colour)
			fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", label+w+6, y+12, text(h))
			y += row
		}
	}
	title(fmt.Sprintf("%d claimants at once on %d node IDs: requests a claim (logarithmic)", size, size))
	draw(func(h herdResult) float64 { return h.each(h.tally.requests) }, func(h herdResult) string { return more(h) + fmt.Sprintf("%.1f", h.each(h.tally.requests)) })
	title("… and the time until each has one (logarithmic)")
	draw(func(h herdResult) float64 { return float64(h.took) / float64(time.Millisecond) }, func(h herdResult) string { return more(h) + short(h.took) })
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n"+
		`<rect width="100%%" height="100%%" fill="white"/>`+"\n%s</svg>\n", width, y+12, b.String())
}

// more returns a sign that marks a lower bound if the herd was cut off, and otherwise "".
func more(h herdResult) string {
	if h.cut() {
		return "&gt; "
	}
	return ""
}
