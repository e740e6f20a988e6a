package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// etcdServer is an etcd with one member in this process, with its log on disk.
type etcdServer struct {
	endpoint string
	stop     func()
}

func startEtcd() (*etcdServer, error) {
	dir, err := os.MkdirTemp("", "bench-etcd")
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel = dir, "fatal"
	anywhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = []url.URL{anywhere}, []url.URL{anywhere}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = []url.URL{anywhere}, []url.URL{anywhere}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("etcd: %w", err)
	}
	<-e.Server.ReadyNotify()
	return &etcdServer{e.Clients[0].Addr().String(), func() {
		e.Close()
		_ = os.RemoveAll(dir)
	}}, nil
}

// etcd claims as users of etcd do. A claimant gets a lease, and then tries a random node ID
// in one transaction. If that node ID is taken, it lists all keys and tries a random free
// node ID. A herd needs this, since it claims every node ID.
func etcd(server *etcdServer) contender {
	return contender{"etcd v3.7.3", func(ctx context.Context, m *meter, n int, t terms) (nodeIDs, error) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{"http://" + server.endpoint}, DialTimeout: 10 * time.Second,
			DialOptions: []grpc.DialOption{
				grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					m.add(ctx, func(t *tally) {
						t.requests++
						switch {
						case strings.HasSuffix(method, "/Txn"):
							t.writes++
						case strings.HasSuffix(method, "/Range"):
							t.queries++
						}
					})
					return invoke(ctx, method, req, reply, cc, opts...)
				}),
				grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					m.add(ctx, func(t *tally) { t.requests++ })
					return open(ctx, desc, cc, method, opts...)
				}),
			},
		})
		if err != nil {
			return nil, err
		}
		return &keys{client, fmt.Sprintf("/%d/", rand.Uint64()), n, t}, nil
	}}
}

type keys struct {
	client *clientv3.Client
	prefix string
	n      int
	terms  terms
}

func (k *keys) key(n int) string { return fmt.Sprintf("%s%06d", k.prefix, n) }

func (k *keys) claim(ctx context.Context) (held, error) {
	l, err := k.client.Grant(ctx, int64(k.terms.lease.Seconds()))
	if err != nil {
		return nil, err
	}
	for n := rand.IntN(k.n); ; {
		txn, err := k.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(k.key(n)), "=", 0)).
			Then(clientv3.OpPut(k.key(n), "bench", clientv3.WithLease(l.ID))).Commit()
		if err != nil {
			return nil, err
		}
		if txn.Succeeded {
			return &keyHeld{k, n, l.ID}, nil
		}
		if n, err = k.free(ctx, l.ID); err != nil {
			return nil, err
		}
	}
}

// free returns a random node ID that nobody holds. If all node IDs are held, it waits until
// one is free, and keeps the claimant's lease alive meanwhile.
func (k *keys) free(ctx context.Context, id clientv3.LeaseID) (int, error) {
	for waits := 0; ; waits++ {
		got, err := k.client.Get(ctx, k.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return 0, err
		}
		taken := make([]bool, k.n)
		for _, kv := range got.Kvs {
			n, err := strconv.Atoi(strings.TrimPrefix(string(kv.Key), k.prefix))
			if err != nil {
				return 0, err
			}
			taken[n] = true
		}
		var free []int
		for n := range taken {
			if !taken[n] {
				free = append(free, n)
			}
		}
		if len(free) > 0 {
			return free[rand.IntN(len(free))], nil
		}
		if waits == 0 {
			stay, stop := context.WithCancel(ctx)
			defer stop()
			alive, err := k.client.KeepAlive(stay, id)
			if err != nil {
				return 0, err
			}
			go func() {
				for range alive {
				}
			}()
		}
		watch, stop := context.WithCancel(ctx)
		select {
		case <-k.client.Watch(watch, k.prefix, clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithRev(got.Header.Revision+1)):
		case <-ctx.Done():
		}
		stop()
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

func (k *keys) close() { _ = k.client.Close() }

type keyHeld struct {
	*keys
	n  int
	id clientv3.LeaseID
}

func (k *keyHeld) nodeID() int { return k.n }

func (k *keyHeld) renewals(ctx context.Context, n int) ([]time.Duration, error) {
	return timed(k.terms, n, func() error {
		_, err := k.client.KeepAliveOnce(in(ctx, renewing), k.id)
		return err
	})
}

func (k *keyHeld) crash() {}

func (k *keyHeld) release(ctx context.Context) error {
	_, err := k.client.Revoke(in(ctx, releasing), k.id)
	return err
}
