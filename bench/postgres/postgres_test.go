//go:build unix

// Package postgres measures the cost of IDs as primary keys in a real PostgreSQL: snowflake
// IDs as bigint, and UUIDv7 and UUIDv4 as uuid.
//
//	make bench-postgres                        100,000 rows
//	make bench-postgres ROWS=10000000          the README's figures; some minutes and 5 GB
package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/nodelease/nodelease/internal/testkit/postgrestest"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

var rows = flag.Int("rows", 100_000, "`rows` in each table")

const (
	repetitions = 3
	batch       = 50_000 // rows of one COPY
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// key is one kind of primary key.
type key struct {
	name, column string
	next         func() (any, error)
}

func keys(t *testing.T) []key {
	node, err := leasefixed.New(7, snowflake.Default())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := snowflake.New(node)
	if err != nil {
		t.Fatal(err)
	}
	return []key{
		{"snowflake", "bigint", func() (any, error) { id, err := ids.Next(); return int64(id), err }},
		{"UUIDv7", "uuid", func() (any, error) { id, err := uuid.NewV7(); return [16]byte(id), err }},
		{"UUIDv4", "uuid", func() (any, error) { id, err := uuid.NewRandom(); return [16]byte(id), err }},
	}
}

// measured contains the results for one table.
type measured struct {
	index   int64   // size of the index in bytes
	perSec  float64 // rows per second, without the time for making the IDs
	perByte float64 // bytes of the index per row
}

// The index of a primary key is smallest with snowflake IDs. Rates depend on the machine, so they are printed but not judged.
func TestPrimaryKeys(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), postgrestest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // the server ends too
	var version, buffers, fsync string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('server_version'), current_setting('shared_buffers'), current_setting('fsync')").Scan(&version, &buffers, &fsync); err != nil {
		t.Fatal(err)
	}
	all, kinds := map[string][]measured{}, keys(t)
	for r := range repetitions { // each kind of key comes first once, and last once
		for i := range kinds {
			k := kinds[(i+r)%len(kinds)]
			all[k.name] = append(all[k.name], fill(t, conn, k))
		}
	}
	load, _ := os.ReadFile("/proc/loadavg") // empty on systems without this file
	t.Logf("%d rows in COPYs of %d, %d repetitions, PostgreSQL %s, shared_buffers %s, fsync %s, load %s", *rows, batch, repetitions, version, buffers, fsync, load)
	own := all["snowflake"]
	for _, k := range kinds {
		m := all[k.name]
		sizes, rates, sizeRatios, rateRatios := []float64{}, []float64{}, []float64{}, []float64{}
		for r := range m {
			sizes, rates = append(sizes, m[r].perByte), append(rates, m[r].perSec)
			sizeRatios = append(sizeRatios, float64(m[r].index)/float64(own[r].index))
			rateRatios = append(rateRatios, m[r].perSec/own[r].perSec)
		}
		t.Logf("%-9s  index %s bytes a row (%s of snowflake's), %s rows a second (%s of snowflake's)",
			k.name, spread(sizes, "%.1f"), spread(sizeRatios, "%.2f"), spread(rates, "%.0f"), spread(rateRatios, "%.2f"))
		for _, ratio := range sizeRatios {
			if k.name != "snowflake" && ratio < 1.2 {
				t.Errorf("%s: its index is %.2f times as large as snowflake's, want at least 1.2", k.name, ratio)
			}
		}
	}
}

// fill makes a table with one column, fills it, and measures the table and the time that
// filling it takes.
func fill(t *testing.T, conn *pgx.Conn, k key) measured {
	t.Helper()
	table := "keys_" + strings.ToLower(k.name)
	do := func(sql string) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE TABLE " + table + " (id " + k.column + " PRIMARY KEY)")
	do("CHECKPOINT")
	var took time.Duration
	for done := 0; done < *rows; done += batch {
		chunk := make([][]any, 0, batch)
		for range min(batch, *rows-done) {
			id, err := k.next()
			if err != nil {
				t.Fatal(err)
			}
			chunk = append(chunk, []any{id})
		}
		began := time.Now()
		if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{table}, []string{"id"}, pgx.CopyFromRows(chunk)); err != nil {
			t.Fatal(err)
		}
		took += time.Since(began)
	}
	var m measured
	if err := conn.QueryRow(t.Context(), "SELECT pg_relation_size($1::text::regclass)", table+"_pkey").Scan(&m.index); err != nil {
		t.Fatal(err)
	}
	do("DROP TABLE " + table)
	m.perByte, m.perSec = float64(m.index)/float64(*rows), float64(*rows)/took.Seconds()
	return m
}

// spread returns the median, with the smallest and the largest value.
func spread(values []float64, format string) string {
	v := slices.Sorted(slices.Values(values))
	return fmt.Sprintf(format+" ["+format+"–"+format+"]", v[len(v)/2], v[0], v[len(v)-1])
}
