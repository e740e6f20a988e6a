package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/discovery"
)

// offeredService is a service that has a live instance, with the endpoints of the service.
type offeredService struct {
	Name      string   `json:"name"`
	Endpoints []string `json:"endpoints,omitempty"`
}

func newServices(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "services",
		Short: "List the services that live processes have registered, and their endpoints",
		Long: "List the services that live processes have registered, and the endpoints that their instances offer. It reads the\n" +
			"lists of registered processes, one small item each, and their leases; it does not scan the table.",
		Example: "  nodelease services --table leases --pool orders\n  nodelease services --table leases --pool orders --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			directory, err := g.directory(cmd.Context())
			if err != nil {
				return err
			}
			services, err := offeredServices(cmd.Context(), directory)
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), map[string]any{"services": services})
			}
			if len(services) == 0 {
				return say(cmd.OutOrStdout(), text.Sprintf("no live process has registered a service in pool %s\n", g.pool))
			}
			s := sheet{headers: []string{"SERVICE", "ENDPOINTS"}, long: 1}
			for _, o := range services {
				s.rows = append(s.rows, []string{o.Name, strings.Join(o.Endpoints, " ")})
			}
			return say(cmd.OutOrStdout(), s.text(widthOf(cmd.OutOrStdout())))
		},
	}
}

// directory returns the discovery directory of the pool that the flags name. It reads the
// pool first, so that a wrong name is an error and not an empty list.
func (g *globals) directory(ctx context.Context) (*discovery.Directory, error) {
	store, err := g.store(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := store.PoolItem(ctx, g.pool); err != nil {
		return nil, err
	}
	return discovery.New(discovery.Config{Pool: g.pool, Store: discovery.NewTable(store.Table()), Logger: g.log, Alone: true})
}

func offeredServices(ctx context.Context, d *discovery.Directory) ([]offeredService, error) {
	names, err := d.Services().List(ctx)
	if err != nil {
		return nil, err
	}
	services := make([]offeredService, 0, len(names))
	for _, name := range names {
		endpoints, err := d.Endpoints(name)
		if err != nil {
			return nil, err
		}
		o := offeredService{Name: name}
		if o.Endpoints, err = endpoints.List(ctx); err != nil { // the list of places has already been read
			return nil, err
		}
		services = append(services, o)
	}
	return services, nil
}
