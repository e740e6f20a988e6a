package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Namespace of the metrics. Their dimensions are Table and Pool.
const Namespace = "Nodelease"

// mostMetrics is the limit of one PutMetricData.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html
const mostMetrics = 1000

// Metrics has the methods of a CloudWatch client that are needed here.
type Metrics interface {
	PutMetricData(context.Context, *cloudwatch.PutMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.PutMetricDataOutput, error)
}

// Poolmetric measures the pools.
type Poolmetric struct {
	Table   string
	Store   lease.Store
	Metrics Metrics
	Pools   []Spec
}

// Handle publishes the gauges of all pools in one call, and returns them. It does not
// publish a pool that could not be counted completely: the gap sets off the no-data
// alarm, whereas wrong counts would set off no alarm. The event is ignored.
func (p *Poolmetric) Handle(ctx context.Context) ([]leasepool.Stats, error) {
	var mu sync.Mutex
	stats, data := []leasepool.Stats{}, []types.MetricDatum{}
	err := eachPool(ctx, p.Pools, func(ctx context.Context, log *slog.Logger, spec Spec) error {
		at := time.Now()
		pool := leasepool.Open(p.Store, spec.Pool)
		s, err := pool.Stats(ctx)
		if err != nil {
			return err
		}
		if err := pool.Measure(ctx, s, at); err != nil { // without the measurement leases cannot grow, but the gauges are still published
			log.Warn("the count was not stored in the pool's item; leases do not grow without it", "error", err.Error())
		}
		level := slog.LevelInfo
		if len(s.Corrupt)+len(s.Forged) > 0 || s.Stuck > 0 || s.Braked || s.Pool.Size != spec.Size || s.Pool.ExcludeBelow != spec.ExcludeBelow {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "measured", "capacity", s.Capacity, "held", s.Held, "on_demand", s.OnDemand, "free", s.Free, "expired", s.Expired, "cooling", s.Cooling,
			"retired", s.Retired, "utilization", s.Utilization, "corrupt", s.Corrupt, "forged", s.Forged, "stuck", s.Stuck, "braked", s.Braked,
			"size", s.Pool.Size, "declared_size", spec.Size, "exclude_below", s.Pool.ExcludeBelow, "declared_exclude_below", spec.ExcludeBelow,
			"releases", s.Releases)
		mu.Lock()
		defer mu.Unlock()
		stats, data = append(stats, s), append(data, gauges(p.Table, spec.Pool, s, at)...)
		return nil
	})
	for part := range slices.Chunk(data, mostMetrics) {
		if _, put := p.Metrics.PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: aws.String(Namespace), MetricData: part}); put != nil {
			err = errors.Join(err, fmt.Errorf("%d metrics were not published: %w", len(part), put))
		}
	}
	return stats, err
}

// gauges returns the metrics that the CDK construct's alarms and dashboard use.
func gauges(table, pool string, s leasepool.Stats, at time.Time) []types.MetricDatum {
	datum := func(name string, value float64, unit types.StandardUnit) types.MetricDatum {
		return types.MetricDatum{
			MetricName: &name, Value: &value, Unit: unit, Timestamp: &at,
			Dimensions: []types.Dimension{{Name: aws.String("Table"), Value: &table}, {Name: aws.String("Pool"), Value: &pool}},
		}
	}
	count := func(name string, n int) types.MetricDatum { return datum(name, float64(n), types.StandardUnitCount) }
	braked := 0
	if s.Braked {
		braked = 1
	}
	return []types.MetricDatum{
		count("Capacity", s.Capacity), count("Held", s.Held), count("Free", s.Free), count("Expired", s.Expired),
		count("Claimable", s.Free+s.Expired), count("Cooling", s.Cooling), count("Retired", s.Retired),
		count("Corrupt", len(s.Corrupt)+len(s.Forged)), count("Stuck", s.Stuck), count("Braked", braked),
		datum("Utilization", s.Utilization, types.StandardUnitPercent),
	}
}
